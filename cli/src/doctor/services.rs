//! The services that people rent, and what to choose there. This table is the source of `docs/services.md`, and the doctor says
//! the same about the service that it recognises.

use std::collections::HashMap;

use super::check::Check;

/// A service, or one of its offers.
pub(super) struct Service {
    name: &'static str,
    /// The names of its hosts. `*` stands for any text: `*.serverless.*.cache.amazonaws.com`.
    hosts: &'static [&'static str],
    /// What its `INFO` has, if the host name doesn't tell.
    info: &'static str,
    topology: &'static str,
    options: &'static str,
    failover: &'static str,
    evidence: &'static str,
}

const ASYNC: &str = "a replica takes over, and the last writes may be missing: a lock can then have two holders";
const BY_DOCS: &str = "its docs. Our tests have not run there";

/// The first match counts.
#[rustfmt::skip]
const SERVICES: &[Service] = &[
    Service {
        name: "ElastiCache Serverless",
        hosts: &["*.serverless.*.cache.amazonaws.com"],
        info: "",
        topology: "a cluster, by the one endpoint, with `rediss://`",
        options: "no limit of storage, because at the limit it evicts keys that have a TTL, and all locks have one",
        failover: ASYNC,
        evidence: "its docs. Some of these caches were reported to refuse `TIME` in scripts, which is emulated",
    },
    Service {
        name: "ElastiCache, node-based",
        hosts: &["*.cache.amazonaws.com"],
        info: "",
        topology: "one server by the primary endpoint, or with cluster mode a cluster by the configuration endpoint; never a reader endpoint",
        options: "`maxmemory-policy noeviction` in its parameter group, because the default is `volatile-lru`; `rediss://` with encryption in transit",
        failover: "a replica takes over, and the last writes may be missing: a lock can then have two holders. The primary endpoint then leads to the new primary",
        evidence: BY_DOCS,
    },
    Service {
        name: "MemoryDB",
        hosts: &["*.memorydb.*.amazonaws.com"],
        info: "",
        topology: "a cluster, by the cluster endpoint, with `rediss://`",
        options: "`maxmemory-policy noeviction`, which is the default",
        failover: "a replica takes over with all acknowledged writes, so no lock is lost. Until then, calls fail or wait",
        evidence: BY_DOCS,
    },
    Service {
        name: "Azure Managed Redis, OSS policy",
        hosts: &["*.redis.azure.net"],
        info: "redis_mode:cluster",
        topology: "a cluster, at port 10000, with `rediss://`",
        options: "the eviction policy `NoEviction`, because the default is `VolatileLRU`; no active geo-replication, because every region accepts writes",
        failover: ASYNC,
        evidence: BY_DOCS,
    },
    Service {
        name: "Azure Managed Redis, Enterprise policy",
        hosts: &["*.redis.azure.net"],
        info: "",
        topology: "one server, at port 10000, with `rediss://`. It is one address that enforces slots",
        options: "the eviction policy `NoEviction`, because the default is `VolatileLRU`; no active geo-replication, because every region accepts writes",
        failover: ASYNC,
        evidence: "its docs. An address that enforces slots is emulated",
    },
    Service {
        name: "Upstash",
        hosts: &["*.upstash.io"],
        info: "",
        topology: "one server, with `rediss://`; where there is no TCP, `leasehold/upstash` over HTTP",
        options: "a database without eviction, which is the default; no second region that writes",
        failover: "another replica becomes the leader, and the last writes may be missing: a lock can then have two holders. Replicas that were cut off keep the last write of each key",
        evidence: "its docs. `leasehold/upstash` is tested with a proxy that speaks its protocol",
    },
    Service {
        name: "Redis Cloud",
        hosts: &["*.redis-cloud.com", "*.redislabs.com", "*.rlrcp.com"],
        info: "",
        topology: "one server; a cluster if the database has the OSS Cluster API. A database with several shards and without that API is one address that enforces slots",
        options: "the data eviction policy `noeviction`, because the default is `volatile-lru`; replication on; no Active-Active database, because every region accepts writes",
        failover: ASYNC,
        evidence: "its docs. An address that enforces slots is emulated",
    },
    Service {
        name: "Aiven for Valkey",
        hosts: &["*.aivencloud.com"],
        info: "",
        topology: "one server, with `rediss://`; a cluster if the service has clustering",
        options: "the eviction policy `noeviction`, which is the default; a plan with a standby node",
        failover: "a standby node takes over, and the last writes may be missing: a lock can then have two holders. The host name then leads to the new primary",
        evidence: BY_DOCS,
    },
    Service {
        name: "DigitalOcean Managed Valkey",
        hosts: &["*.db.ondigitalocean.com"],
        info: "",
        topology: "one server, with `rediss://`",
        options: "the eviction policy `noeviction`; a standby node",
        failover: "a standby node takes over, and the last writes may be missing: a lock can then have two holders. The host name then leads to the new primary",
        evidence: BY_DOCS,
    },
    Service {
        name: "Dragonfly Cloud",
        hosts: &["*.dragonflydb.cloud"],
        info: "",
        topology: "one server",
        options: "the policy `No Eviction`; no flag `disable-atomicity` for scripts, because the commands of several scripts then mix; replicas in other zones",
        failover: "a replica takes over, and the last writes may be missing: a lock can then have two holders. Without a replica, all locks are lost",
        evidence: "its docs. Dragonfly itself is emulated",
    },
    Service {
        name: "Memorystore",
        // Its endpoints are IP addresses.
        hosts: &[],
        info: "",
        topology: "one server by the primary endpoint; for Memorystore for Redis Cluster, and for Valkey with cluster mode, a cluster by the discovery endpoint",
        options: "`maxmemory-policy noeviction`; the Standard tier, or a replica for each shard: maintenance empties an instance of the Basic tier",
        failover: ASYNC,
        evidence: BY_DOCS,
    },
    Service {
        name: "Dragonfly",
        hosts: &[],
        info: "dragonfly_version:",
        topology: "one server",
        options: "no `--cache_mode`, which evicts keys; no `disable-atomicity` in `--default_lua_flags`, because the commands of several scripts then mix; no `allow-undeclared-keys`, which isn't needed and makes each script stop all others",
        failover: ASYNC,
        evidence: "an emulation, in which the scripts run in Lua 5.4 with the keys that they declare",
    },
    Service {
        name: "Garnet",
        hosts: &[],
        info: "garnet_version:",
        topology: "one server",
        options: "`--lua` and `--lua-transaction-mode`: without the second, the commands of several scripts mix, and a lock can have two holders",
        failover: ASYNC,
        evidence: "an emulation, in which the scripts run in Lua 5.4 with the keys that they declare",
    },
    Service {
        name: "KeyDB",
        hosts: &[],
        info: leasehold_core::KEYDB,
        topology: "one server",
        options: "`active-replica no` and no `multi-master`, because two servers would accept writes",
        failover: ASYNC,
        evidence: "an emulation. A build of its source from April 2024 passed the same test, run by hand",
    },
];

impl Service {
    fn is_at(&self, host: &str, info: &str) -> bool {
        let at_host = self.hosts.iter().any(|pattern| matches(pattern, host));
        let tells = !self.info.is_empty() && info.lines().any(|line| line.starts_with(self.info));
        match (self.hosts.is_empty(), self.info.is_empty()) {
            (false, true) => at_host,
            (false, false) => at_host && tells,
            (true, _) => tells,
        }
    }

    fn text(&self) -> String {
        let Self { name, topology, options, failover, evidence, .. } = self;
        format!("{name}: choose {topology}. Set: {options}. In a failover, {failover}. Evidence: {evidence}")
    }
}

/// Whether a host name matches the pattern. Each `*` stands for any text.
fn matches(pattern: &str, host: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = host.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// What the table says about the service at this address, if the table has it. `info` is the server's `INFO`, as far as it tells.
pub(super) fn check(address: &str, info: &HashMap<String, String>) -> Option<Check> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let info: Vec<String> = info.iter().map(|(name, value)| format!("{name}:{value}")).collect();
    let found = SERVICES.iter().find(|service| service.is_at(host, &info.join("\n")))?;
    Some(Check::ok("service", found.text()))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::{env, fs};

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/services.md");
    const BEGIN: &str =
        "<!-- The table in cli/src/doctor/services.rs: LEASEHOLD_BLESS=1 cargo test -p leasehold-cli services -->\n";
    /// As the rest of the manual.
    const COLUMNS: usize = 130;
    const END: &str = "<!-- end of the table -->\n";

    fn sections() -> String {
        let mut text = String::new();
        for Service { name, hosts, info, topology, options, failover, evidence } in SERVICES {
            let code = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            let found = match (hosts.is_empty(), info.is_empty()) {
                (true, true) => "no: its endpoints are IP addresses".to_owned(),
                (true, false) => format!("by `{info}` in `INFO`"),
                (false, true) => format!("by the host {}", code(hosts)),
                (false, false) => format!("by the host {} with `{info}` in `INFO`", code(hosts)),
            };
            let _ = writeln!(text, "\n### {name}\n");
            for (what, told) in [
                ("**Choose** ", *topology),
                ("**Set** ", options),
                ("**In a failover**, ", failover),
                ("**Evidence**: ", evidence),
                ("**Found by the doctor**: ", &found),
            ] {
                text += &item(&format!("{what}{told}."));
            }
        }
        text
    }

    /// An item of a list, in lines of at most [`COLUMNS`].
    fn item(words: &str) -> String {
        let (mut text, mut column) = ("-".to_owned(), 1);
        for word in words.split(' ') {
            let length = word.chars().count() + 1;
            if column + length > COLUMNS {
                text += "\n ";
                column = 1;
            }
            text += " ";
            text += word;
            column += length;
        }
        text + "\n"
    }

    #[test]
    fn services_on_the_page_are_those_of_the_doctor() {
        let page = fs::read_to_string(PAGE).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page has the table's begin");
        let (_, after) = rest.split_once(END).expect("the page has the table's end");
        let wanted = [before, BEGIN, &sections(), "\n", END, after].concat();
        if env::var_os("LEASEHOLD_BLESS").is_some() {
            fs::write(PAGE, &wanted).unwrap();
        }
        let found = fs::read_to_string(PAGE).unwrap();
        assert!(found == wanted, "run `LEASEHOLD_BLESS=1 cargo test -p leasehold-cli services`");
    }

    #[test]
    fn services_are_known_by_their_hosts_and_by_what_they_say() {
        let name = |address: &str, info: &[(&str, &str)]| {
            let info = info.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            check(address, &info).map(|check| check.finding.split(':').next().unwrap_or_default().to_owned())
        };
        for (address, service) in [
            ("locks-abc123.serverless.euw1.cache.amazonaws.com:6379", "ElastiCache Serverless"),
            ("master.locks.abc123.euw1.cache.amazonaws.com:6379", "ElastiCache, node-based"),
            ("clustercfg.locks.abc123.memorydb.eu-west-1.amazonaws.com:6379", "MemoryDB"),
            ("locks.westeurope.redis.azure.net:10000", "Azure Managed Redis, Enterprise policy"),
            ("eu1-cool-cat-30000.upstash.io:6379", "Upstash"),
            ("redis-12000.c1.eu-west-1-3.ec2.redns.redis-cloud.com:12000", "Redis Cloud"),
            ("valkey-locks.aivencloud.com:25061", "Aiven for Valkey"),
            ("locks-do-user-1.c.db.ondigitalocean.com:25061", "DigitalOcean Managed Valkey"),
            ("abc.dragonflydb.cloud:6385", "Dragonfly Cloud"),
        ] {
            assert_eq!(name(address, &[]).as_deref(), Some(service), "{address}");
        }
        let azure = "locks.westeurope.redis.azure.net:10000";
        let found = name(azure, &[("redis_mode", "cluster")]);
        assert_eq!(found.as_deref(), Some("Azure Managed Redis, OSS policy"));
        for (field, value, service) in [
            ("dragonfly_version", "df-v1.40.0", "Dragonfly"),
            ("garnet_version", "1.1.1", "Garnet"),
            ("features", "cluster_mget", "KeyDB"),
        ] {
            assert_eq!(name("127.0.0.1:6379", &[(field, value)]).as_deref(), Some(service));
        }
        for address in ["127.0.0.1:6379", "[::1]:6379", "redis.internal:6379", "upstash.io.example.com:6379"] {
            assert_eq!(name(address, &[("redis_version", "7.0.15"), ("redis_mode", "cluster")]), None, "{address}");
        }
    }
}
