//! What the server says about itself: version, role, eviction, memory, persistence, replicas.

use std::collections::HashMap;

use leasehold::redis_1::redis;

use super::check::{Check, Verdict};
use super::remedies::{MEMORY, REPLICAS, granting};
use super::services;
use crate::servers::Node;

/// The oldest versions with everything that the scripts need.
const OLDEST: [(&str, &str, (u32, u32)); 2] =
    [("Valkey", "valkey_version", (7, 2)), ("Redis", "redis_version", (6, 2))];
/// A replica that is further behind misses many grants after a failover.
const LAG: u64 = 10;
const INFO_REMEDY: &str = "grant this user +info, or run the doctor as an administrator";
const CONFIG_REMEDY: &str = "grant this user +config|get, or run the doctor as an administrator";

const ACTIVE_REPLICA: &str = "set `active-replica no` and restart it; two clients could hold one lock";

struct Facts {
    info: HashMap<String, String>,
    /// What `CONFIG GET` says. None for a server that refuses it.
    config: HashMap<&'static str, Option<String>>,
}

pub(super) async fn check(node: &mut Node) -> Vec<Check> {
    let text: String = match node.query(&redis::cmd("INFO")).await {
        Ok(text) => text,
        Err(error) => {
            let finding = format!("the server refuses INFO: {error}");
            let names = ["version", "role", "eviction", "memory", "persistence", "replicas"];
            let remedy = granting(&error, INFO_REMEDY);
            let unknown = names.iter().map(|name| Check::new(name, Verdict::Unknown, &finding, remedy));
            return services::check(&node.address, &HashMap::new()).into_iter().chain(unknown).collect();
        }
    };
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    let info = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let service = services::check(&node.address, &info);
    let mut config = HashMap::new();
    for name in ["save", "min-replicas-to-write", "active-replica"] {
        config.insert(name, setting(node, name).await);
    }
    let facts = Facts { info, config };
    let checks =
        [facts.version(), facts.role(), facts.eviction(), facts.memory(), facts.persistence(), facts.replicas()];
    service.into_iter().chain(checks).collect()
}

async fn setting(node: &mut Node, name: &str) -> Option<String> {
    let mut query = redis::cmd("CONFIG");
    query.arg("GET").arg(name);
    let answer: Result<HashMap<String, String>, _> = node.query(&query).await;
    answer.ok()?.remove(name)
}

impl Facts {
    fn text(&self, field: &str) -> &str {
        self.info.get(field).map_or("", String::as_str)
    }

    fn number(&self, field: &str) -> u64 {
        self.text(field).parse().unwrap_or(0)
    }

    fn version(&self) -> Check {
        const NAME: &str = "version";
        // Valkey also has a Redis version, for old clients.
        let Some((product, found, oldest)) =
            OLDEST.iter().find_map(|(product, field, oldest)| Some((product, self.info.get(*field)?, oldest)))
        else {
            return Check::new(NAME, Verdict::Unknown, "the server hides its version", "");
        };
        let mut parts = found.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let finding = format!("{product} {found}");
        if version >= *oldest {
            return Check::ok(NAME, finding);
        }
        let remedy = format!("update it to {product} {}.{} or newer", oldest.0, oldest.1);
        Check::new(NAME, Verdict::Problem, finding, remedy)
    }

    fn role(&self) -> Check {
        const NAME: &str = "role";
        match self.text("role") {
            // An active replica of KeyDB calls itself a primary until it replicates another server.
            "master" if self.config.get("active-replica").and_then(Option::as_deref) == Some("yes") => {
                Check::new(NAME, Verdict::Problem, "KeyDB accepts writes as an active replica too", ACTIVE_REPLICA)
            }
            "master" => Check::ok(NAME, "primary"),
            "slave" => {
                let primary = format!("{}:{}", self.text("master_host"), self.text("master_port"));
                let remedy = format!("connect to its primary, {primary}, or use --sentinel, which follows the primary");
                Check::new(NAME, Verdict::Problem, "this server is a replica; locks need the primary", remedy)
            }
            "active-replica" => {
                let finding = "this server is an active replica of KeyDB, so two servers accept writes";
                Check::new(NAME, Verdict::Problem, finding, ACTIVE_REPLICA)
            }
            _ => Check::new(NAME, Verdict::Unknown, "the server hides its role", INFO_REMEDY),
        }
    }

    fn eviction(&self) -> Check {
        const NAME: &str = "eviction";
        let (policy, limit, evicted) =
            (self.text("maxmemory_policy"), self.number("maxmemory"), self.number("evicted_keys"));
        let remedy = "CONFIG SET maxmemory-policy noeviction, and set it in the server's configuration file";
        if policy.is_empty() {
            return Check::new(NAME, Verdict::Unknown, "the server hides its maxmemory-policy", INFO_REMEDY);
        }
        if policy == "noeviction" {
            return match evicted {
                0 => Check::ok(NAME, "maxmemory-policy is noeviction"),
                _ => {
                    let finding =
                        format!("maxmemory-policy is noeviction, but {evicted} keys were evicted since the start");
                    let remedy = "search your logs for `lost` with `gone` or `taken`: locks may have been evicted";
                    Check::new(NAME, Verdict::Warning, finding, remedy)
                }
            };
        }
        if limit == 0 {
            let finding = format!("maxmemory-policy is {policy}; maxmemory is not set, so nothing is evicted yet");
            return Check::new(NAME, Verdict::Warning, finding, remedy);
        }
        let finding = format!(
            "maxmemory-policy is {policy}: a full server deletes locks that are held ({evicted} keys were evicted so far)"
        );
        Check::new(NAME, Verdict::Problem, finding, remedy)
    }

    fn memory(&self) -> Check {
        const NAME: &str = "memory";
        let (used, limit) = (self.number("used_memory"), self.number("maxmemory"));
        let used_mb = used / 1_000_000;
        if limit == 0 {
            return Check::ok(NAME, format!("{used_mb} MB used, without a limit"));
        }
        let percent = u128::from(used) * 100 / u128::from(limit);
        let finding = format!("{used_mb} MB used, {percent} % of maxmemory");
        match percent {
            0..90 => Check::ok(NAME, finding),
            90..100 => Check::new(NAME, Verdict::Warning, finding, MEMORY),
            _ => Check::new(NAME, Verdict::Problem, format!("{finding}: no client gets a new lock"), MEMORY),
        }
    }

    fn persistence(&self) -> Check {
        const NAME: &str = "persistence";
        let remedy = "CONFIG SET appendonly yes; or wait one TTL after a restart before clients connect";
        if self.text("loading") == "1" {
            return Check::new(NAME, Verdict::Problem, "the server is loading its data", "wait until it is ready");
        }
        for (field, what) in [
            ("rdb_last_bgsave_status", "the last snapshot failed"),
            ("aof_last_write_status", "the last write to the append-only file failed"),
        ] {
            if self.text(field) == "err" {
                let finding = format!("{what}, so the server may refuse all writes (MISCONF)");
                return Check::new(
                    NAME,
                    Verdict::Problem,
                    finding,
                    "read the server's log; check the disk's space and rights",
                );
            }
        }
        if self.text("aof_enabled") == "1" {
            return Check::ok(NAME, "append-only file; a crash loses about a second of grants");
        }
        match self.config.get("save").and_then(Option::as_deref) {
            None => {
                let finding = "no append-only file; the server refuses CONFIG GET save, so snapshots are not known";
                Check::new(NAME, Verdict::Unknown, finding, CONFIG_REMEDY)
            }
            Some("") => Check::new(
                NAME,
                Verdict::Warning,
                "none: a restart forgets all locks, and their holders notice late",
                remedy,
            ),
            Some(_) => {
                let finding = "only snapshots: a crash forgets every lock since the last one";
                Check::new(NAME, Verdict::Warning, finding, remedy)
            }
        }
    }

    fn replicas(&self) -> Check {
        const NAME: &str = "replicas";
        let count = self.number("connected_slaves");
        let lags = (0..count).filter_map(|n| {
            let fields = self.info.get(&format!("slave{n}"))?;
            fields.split(',').find_map(|field| field.strip_prefix("lag=")?.parse::<u64>().ok())
        });
        let lag = lags.max().unwrap_or(0);
        let Some(least) = self.config.get("min-replicas-to-write").and_then(Option::as_deref) else {
            let finding = format!("{count} connected; the server refuses CONFIG GET min-replicas-to-write");
            return Check::new(NAME, Verdict::Unknown, finding, CONFIG_REMEDY);
        };
        let least = least.parse::<u64>().unwrap_or(0);
        if least > count {
            let finding =
                format!("{count} connected, but min-replicas-to-write is {least}: the server refuses all writes");
            return Check::new(NAME, Verdict::Problem, finding, REPLICAS);
        }
        if lag > LAG {
            let finding = format!("{count} connected; one is {lag} s behind, and a failover to it loses as much");
            return Check::new(NAME, Verdict::Warning, finding, "check that replica and its network");
        }
        match (count, least) {
            (0, _) => Check::ok(NAME, "none: if this server fails, no client gets a lock until it is back"),
            (_, 0) => {
                let finding = format!("{count} connected; a primary that is cut off from them goes on granting locks");
                let remedy = "with two replicas or more: CONFIG SET min-replicas-to-write 1, min-replicas-max-lag 5";
                Check::new(NAME, Verdict::Warning, finding, remedy)
            }
            _ => {
                Check::ok(NAME, format!("{count} connected, at most {lag} s behind; min-replicas-to-write is {least}"))
            }
        }
    }
}
