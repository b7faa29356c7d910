//! Every script while its slot moves, both when all of its keys exist and when it deletes some of them. A cluster
//! runs a script as long as no key is missing, and a key that the script has deleted counts as missing.

use leasehold_core::{Reply, Scalar};
use leasehold_lua::{
    ACQUIRE, ACQUIRE_FAST, CONVERT, FORCE, INSPECT, MULTI, RELEASE, RELEASE_FAST, RENEW, Script, reentrant, semaphore,
};

use super::{EXCLUSIVE, Host, SHARED, list, scalar, scalar_text, token};

/// The lock's name. Its hash tag also gives the side keys their slot.
pub(crate) const NAME: &str = "{invoice}:42";
const SIDES: [&str; 4] = ["queue", "waiters", "readers", "none"];
const FENCE: &str = "leasehold:fence:{invoice}";

/// The holders before the script runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Held {
    /// One writer. Records of earlier readers are left.
    Exclusive,
    /// One reader.
    Shared,
    /// One reader whose lease has expired.
    SharedOver,
    /// One owner of a reentrant lock.
    Reentrant,
    /// One permit out of one.
    Permit,
    /// The same, but the lease has expired.
    PermitOver,
}

pub(crate) struct Scenario {
    pub(crate) script: Script,
    pub(crate) held: Held,
    arguments: Vec<String>,
    /// The script's status if it runs.
    pub(crate) status: &'static str,
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let holder = token(1, 1);
    let scenario = |script: Script, held, arguments: &[&str], status| {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        Scenario { script, held, arguments, status }
    };
    let (one, two, other) = (holder.as_str(), token(1, 2), token(8, 1));
    let mut all = Vec::new();
    for (held, status) in [(Held::Exclusive, "released"), (Held::Shared, "released"), (Held::SharedOver, "gone")] {
        for tombstone in ["0", "60000"] {
            all.push(scenario(RELEASE, held, &[one, tombstone, "0", "native"], status));
        }
        all.push(scenario(FORCE, held, &["leases", "0", "native"], "released"));
        for how in ["try", "wait", "refill"] {
            let busy = if how == "wait" { "waiting" } else { "busy" };
            let status = if how == "refill" { "taken" } else { busy };
            let arguments = [&other, EXCLUSIVE, "30000", how, "3000", "1", "0", "native"];
            all.push(scenario(ACQUIRE, held, &arguments, status));
        }
    }
    for (held, mode) in [(Held::Exclusive, SHARED), (Held::Shared, EXCLUSIVE)] {
        let arguments = [one, &two, mode, "30000", "1", "60000", "0", "native"];
        all.push(scenario(CONVERT, held, &arguments, "converted"));
    }
    all.push(scenario(CONVERT, Held::SharedOver, &[one, &two, SHARED, "30000", "1", "0", "0", "native"], "taken"));
    all.push(scenario(RENEW, Held::Exclusive, &[one, "40000"], "renewed"));
    all.push(scenario(RENEW, Held::Shared, &[one, "40000"], "renewed"));
    all.push(scenario(INSPECT, Held::Shared, &[], "shared"));
    all.push(scenario(MULTI, Held::Exclusive, &["30000", one, EXCLUSIVE], "again"));
    all.push(scenario(ACQUIRE_FAST, Held::Exclusive, &[&format!("{other} "), "30000"], "0"));
    all.push(scenario(RELEASE_FAST, Held::Exclusive, &[&format!("{one} 5")], "1"));
    for (kind, held, mode) in [
        (REENTRANT, Held::Reentrant, EXCLUSIVE),
        (SEMAPHORE, Held::Permit, "1/1"),
        (SEMAPHORE, Held::PermitOver, "1/1"),
    ] {
        let [acquire, release, renew, force] = kind;
        let over = held == Held::PermitOver;
        let status = if over { "gone" } else { "released" };
        all.push(scenario(release, held, &[one, "60000", "0", "native"], status));
        all.push(scenario(force, held, &["leases", "0", "native"], "released"));
        for how in ["try", "refill"] {
            let status = match (how, held) {
                ("try", _) => "busy",
                (_, Held::Reentrant) => "taken",
                _ => "gone",
            };
            let arguments = [&other, mode, "30000", how, "3000", "1", "0", "native"];
            all.push(scenario(acquire, held, &arguments, status));
        }
        all.push(scenario(renew, held, &[one, "40000"], if over { "gone" } else { "renewed" }));
        if held != Held::Reentrant {
            let arguments = [one, &two, mode, "30000", "1", "60000", "0", "native"];
            all.push(scenario(semaphore::CONVERT, held, &arguments, if over { "gone" } else { "converted" }));
        }
    }
    all
}

const REENTRANT: [Script; 4] = [reentrant::ACQUIRE, reentrant::RELEASE, reentrant::RENEW, reentrant::FORCE];
const SEMAPHORE: [Script; 4] = [semaphore::ACQUIRE, semaphore::RELEASE, semaphore::RENEW, semaphore::FORCE];

impl Scenario {
    pub(crate) fn name(&self) -> String {
        format!("{} {:?} {:?}", self.script.name, self.held, self.arguments)
    }

    /// Creates every key except `none`, which never exists.
    pub(crate) fn prepare(&self, host: &mut impl Host) {
        let time = list(host.run(&["TIME"]).unwrap());
        let seconds: u64 = scalar_text(&time[0]).parse().unwrap();
        let (later, over) = (((seconds + 60) * 1_000).to_string(), (seconds * 1_000 - 1_000).to_string());
        let keys = keys();
        let mut run = |words: &[&str]| drop(host.run(words).unwrap());
        for key in &keys {
            run(&["DEL", key]);
        }
        let holder = token(1, 1);
        let [name, fence, queue, waiters, members, _] = keys.each_ref().map(String::as_str);
        match self.held {
            Held::Exclusive => run(&["SET", name, &format!("{holder} 5")]),
            Held::Shared | Held::SharedOver => run(&["SET", name, "shared 5"]),
            Held::Reentrant => run(&["HSET", name, &holder, "1"]),
            Held::Permit => run(&["ZADD", name, &later, &holder]),
            Held::PermitOver => run(&["ZADD", name, &over, &holder]),
        }
        match self.held {
            Held::Exclusive | Held::Reentrant => run(&["ZADD", members, &later, &token(7, 1)]),
            Held::Shared => run(&["ZADD", members, &later, &holder]),
            Held::SharedOver => run(&["ZADD", members, &over, &holder]),
            Held::Permit | Held::PermitOver => {
                run(&["HSET", members, &holder, "1/1", "used", "1", "limit", "1", "fence", "5"])
            }
        }
        let mode = if matches!(self.held, Held::Permit | Held::PermitOver) { "1/1" } else { EXCLUSIVE };
        run(&["SET", fence, "5"]);
        run(&["ZADD", queue, "1", &token(2, 1)]);
        run(&["HSET", waiters, &token(2, 1), &format!("{mode} 30000 3000 1 1 {later}")]);
        run(&["ZADD", queue, &format!("-{later}"), &token(9, 1)]);
        for key in &keys[..5] {
            run(&["PEXPIRE", key, "30000"]);
        }
    }

    pub(crate) fn run(&self, host: &mut impl Host) -> Result<String, String> {
        let keys = keys();
        let keys: Vec<&str> = match self.script {
            script if script == RENEW && self.held == Held::Exclusive => vec![&keys[0]],
            script if script == reentrant::RENEW => vec![&keys[0]],
            script if script == RENEW || script == semaphore::RENEW => vec![&keys[0], &keys[4]],
            script if script == RELEASE_FAST => vec![&keys[0]],
            script if script == ACQUIRE_FAST => vec![&keys[0], &keys[2], &keys[1]],
            script if script == MULTI => vec![&keys[0], &keys[2], &keys[3], &keys[1]],
            _ => keys.iter().map(String::as_str).collect(),
        };
        let count = keys.len().to_string();
        let words = ["EVAL", self.script.source, &count].into_iter().chain(keys);
        let words: Vec<&str> = words.chain(self.arguments.iter().map(String::as_str)).collect();
        let items = match host.run(&words)? {
            Reply::One(item) => return Ok(scalar_text(&item)),
            Reply::List(items) => items,
        };
        let words: Vec<String> = items.iter().filter(|item| matches!(item, Scalar::Text(_))).map(scalar_text).collect();
        Ok(words[0].clone())
    }

    /// The error in its outcome while the slot moved, if any. A script may be refused if it changed nothing. Renewals must run.
    pub(crate) fn problem(
        &self,
        result: Result<String, String>,
        before: &[String],
        after: &[String],
    ) -> Option<String> {
        match result {
            Err(error) if before != after => Some(format!("{}: half applied: {error}\n    {after:?}", self.name())),
            Err(_) if !self.script.name.ends_with("renew") => None,
            result => self.problem_at_rest(result),
        }
    }

    /// The error in its outcome, if any.
    pub(crate) fn problem_at_rest(&self, result: Result<String, String>) -> Option<String> {
        (result.as_deref() != Ok(self.status)).then(|| format!("{}: {result:?}", self.name()))
    }
}

/// The contents of every key as text. If a server says that a key has moved, that is its text.
pub(crate) fn contents(host: &mut impl Host) -> Vec<String> {
    let mut content = |key: &str| -> Result<String, String> {
        let reply = match scalar_text(&scalar(host.run(&["TYPE", key])?)).as_str() {
            "string" => host.run(&["GET", key]),
            "hash" => host.run(&["HGETALL", key]),
            "zset" => host.run(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
            _ => return Ok("nothing".to_owned()),
        };
        Ok(match reply? {
            Reply::One(item) => scalar_text(&item),
            Reply::List(items) => items.iter().map(scalar_text).collect::<Vec<_>>().join(" "),
        })
    };
    keys()[..5].iter().map(|key| format!("{key}: {}", content(key).unwrap_or_else(|error| error))).collect()
}

fn keys() -> [String; 2 + SIDES.len()] {
    std::array::from_fn(|n| match n {
        0 => NAME.to_owned(),
        1 => FENCE.to_owned(),
        _ => format!("leasehold::{NAME}:{}", SIDES[n - 2]),
    })
}
