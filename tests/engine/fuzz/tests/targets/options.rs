//! Options: any value of any option of a manager and of a lock, on a server in memory. The options are those of the engine's table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::testing::Server;
use leasehold::{Builder, Error, Lease, Lock, LockManager, Owner, Wait};
use leasehold_core::{CLOSE_SETTINGS, LOCK_SETTINGS, MANAGER_SETTINGS, Setting};
use leasehold_fuzz::{Step, steps};
use leasehold_harness::Rng;

use crate::RANDOM;

/// A call that takes longer, on tokio's paused clock, hangs.
const HANGS: Duration = Duration::from_secs(100 * 24 * 3600);
const DEFAULT_TTL: Duration = Duration::from_secs(30);
const MOST_BYTES: usize = 64 * 1024;
/// How many random combinations are tried. Each pair of options is among them many times.
const SEEDS: u64 = 2_000;
/// What only JavaScript's managers have.
const JAVASCRIPTS: [&str; 3] = ["renew", "max_hold", "renew_in"];

/// Each line is an option and its value. A value out of the documented bounds is refused early, with the option's name.
/// All others work: the lock is granted, and every method of the lease ends with a result or a typed error.
#[test]
fn options() {
    bolero::check!(name = "options").with_iterations(RANDOM).for_each(try_out);
}

#[test]
fn every_bound_of_every_option_is_as_documented() {
    for row in LOCK_SETTINGS.iter().chain(managers()).filter(|row| !row.bounds.text.is_empty()) {
        let (least, most, name) = (row.bounds.least, row.bounds.most, row.name.replace('_', "-"));
        let kind = if row.places == ["semaphore"] { "kind semaphore\nlimit 1\npermits 1\n" } else { "" };
        for value in [least.saturating_sub(1), least, most, most + 1] {
            try_out(format!("{kind}{name} {value}\nmanager-{name} {value}\n").as_bytes());
            try_out(format!("{kind}{name} {value}\nextend {value}\n").as_bytes());
        }
    }
}

#[test]
fn every_option_of_the_table_has_a_method_here() {
    on_virtual_time(async {
        let lock = LockManager::in_memory().expect("a manager").mutex("job");
        LOCK_SETTINGS.iter().for_each(|row| _ = set(lock.clone(), row.name, "1"));
        managers().for_each(|row| _ = set_managers(Builder::default(), row.name, "1"));
    });
}

#[test]
fn options_in_any_combination_work_or_are_refused_by_name() {
    let kinds = ["mutex", "read", "write", "reentrant", "semaphore", "multi"];
    let values = ["", "1", "1000", "1000", "5000", "60000", "no", "false"];
    let options: Vec<_> = LOCK_SETTINGS.iter().chain(managers()).chain(CLOSE_SETTINGS).collect();
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let mut input = format!("kind {}\nname a\nname b\nlimit 2\npermits 1\n", rng.pick(&kinds));
        for _ in 0..rng.below(6) {
            let (name, manager) = (rng.pick(&options).name.replace('_', "-"), rng.pick(&["", "", "manager-"]));
            input += &format!("{manager}{name} {}\n", rng.pick(&values));
        }
        try_out(input.as_bytes());
    }
}

fn try_out(input: &[u8]) {
    on_virtual_time(async {
        let mut given = Given::default();
        steps(input).for_each(|step| given.read(step));
        tokio::time::timeout(HANGS, given.try_out()).await.expect("a call hangs");
    });
}

fn on_virtual_time(action: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(action);
}

/// What the user asks for.
#[derive(Default)]
struct Given<'a> {
    kind: &'a str,
    names: Vec<&'a str>,
    extensions: Vec<Duration>,
    /// The options of the table that were given, with their values.
    lock: BTreeMap<&'static str, &'a str>,
    manager: BTreeMap<&'static str, &'a str>,
    close: Option<Duration>,
    /// The rest of the builder.
    builder: Builder,
}

impl<'a> Given<'a> {
    /// Reads one line: `max-hold 500`. An option of the manager that locks have, too, is `manager-wait 500`.
    fn read(&mut self, step: Step<'a>) {
        let builder = &mut self.builder;
        match step.verb {
            "kind" => self.kind = step.rest,
            "name" => self.names.push(step.rest),
            "extend" => self.extensions.push(time(step.rest)),
            "database" => *builder = std::mem::take(builder).database(count(step.rest)),
            "username" => *builder = std::mem::take(builder).username(step.rest),
            "password" => *builder = std::mem::take(builder).password(step.rest),
            "check-eviction" => *builder = std::mem::take(builder).check_eviction(true),
            verb => {
                let is = |name: &str, row: &&Setting| row.name.replace('_', "-") == name;
                let managers_own = verb.strip_prefix("manager-").unwrap_or(verb);
                if let Some(row) = LOCK_SETTINGS.iter().find(|row| is(verb, row)) {
                    self.lock.insert(row.name, step.rest);
                } else if let Some(row) = managers().find(|row| is(managers_own, row)) {
                    self.manager.insert(row.name, step.rest);
                } else if CLOSE_SETTINGS.iter().any(|row| is(verb, &row)) {
                    self.close = Some(time(step.rest));
                }
            }
        }
    }

    async fn try_out(mut self) {
        let server = Server::new();
        let builder = self
            .manager
            .iter()
            .fold(std::mem::take(&mut self.builder), |builder, (option, text)| set_managers(builder, option, text));
        let Some(locks) = checked(builder.in_memory(&server), &self.bad_of_manager(), false) else { return };
        let lock = self.lock.iter().fold(self.lock(&locks), |lock, (option, text)| set(lock, option, text));
        let acquired = lock.acquire().await;
        // One script may not reach all of several names.
        if self.kind == "multi" && matches!(acquired, Err(Error::CrossSlot { .. })) {
            return;
        }
        let Some(lease) = checked(acquired, &self.bad(), self.is_unsupported()) else { return };
        self.use_it(lease).await;
        match self.close {
            None => _ = locks.close().await,
            Some(time) => {
                let bad = if within(&CLOSE_SETTINGS[0], time) { None } else { Some("drain") };
                checked(locks.close_draining(time).await, &bad.into_iter().collect(), false);
            }
        }
    }

    fn lock(&self, locks: &LockManager) -> Lock {
        let name = self.names.first().copied().unwrap_or("job");
        let argument = |option| self.lock.get(option).map_or(0, |text| count(text));
        match self.kind {
            "read" => locks.read_write(name).read(),
            "write" => locks.read_write(name).write(),
            "reentrant" => locks.reentrant(name, &Owner::new()),
            "semaphore" => locks.semaphore(name, argument("limit")).permits(argument("permits")),
            "multi" => locks.multi(&self.names),
            _ => locks.mutex(name),
        }
    }

    fn prefix(&self) -> &'a str {
        self.manager.get("prefix").copied().unwrap_or_default()
    }

    fn is_mixed(&self) -> bool {
        self.manager.get("mixed_fleet").is_some_and(|text| flag(text))
    }

    /// The options of the manager that are out of their documented bounds.
    fn bad_of_manager(&self) -> BTreeSet<&'static str> {
        let bad = managers().filter(|row| self.manager.get(row.name).is_some_and(|text| is_bad(row, text)));
        // A server in memory has no slots.
        let slots = self.manager.get("cluster_slots").is_some_and(|text| flag(text)).then_some("cluster_slots");
        bad.map(|row| row.name).chain(slots).collect()
    }

    /// The options of the lock that are out of their documented bounds, or don't fit the others.
    fn bad(&self) -> BTreeSet<&'static str> {
        let is_semaphore = self.kind == "semaphore";
        let is_argument = |row: &&Setting| matches!(row.name, "limit" | "permits" | "keep");
        let of_lock = LOCK_SETTINGS.iter().filter(|row| !is_argument(row));
        let bad = of_lock.filter(|row| self.lock.get(row.name).is_some_and(|text| is_bad(row, text)));
        let given = |option| self.lock.get(option).copied();
        let [limit, permits] = ["limit", "permits"].map(|option| given(option).map_or(0, count));
        let lingers = !matches!(self.kind, "reentrant" | "semaphore" | "multi");
        let own_or_default = given("linger").or(self.manager.get("linger").copied().filter(|_| lingers));
        let is_fixed = given("renew").is_some_and(|text| !flag(text));
        let most = given("max_hold").map(time);
        let names =
            if self.kind == "multi" { self.names.clone() } else { self.names.iter().copied().take(1).collect() };
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        let bytes: usize = names.iter().map(|name| name.len() + self.prefix().len()).sum();
        let bad_names = self.kind == "multi" && (names.is_empty() || distinct.len() < names.len() || bytes > 1 << 20);
        let names = if names.is_empty() { vec!["job"] } else { names };
        let unfit = [
            ("linger", own_or_default.is_some() && (!lingers || self.is_mixed())),
            ("max_hold", most.is_some() && is_fixed),
            ("at_least", given("at_least").is_some_and(|least| most.is_some_and(|most| most < time(least)))),
            ("per", given("per").is_some() && !is_semaphore),
            ("limit", is_semaphore && !is_allowed(row("limit"), limit.into())),
            ("permits", is_semaphore && !(1..=limit).contains(&permits)),
            ("name", names.iter().any(|name| is_bad_name(self.prefix(), name))),
            ("names", bad_names),
        ];
        let unfit = unfit.into_iter().filter(|(_, is_unfit)| *is_unfit).map(|(option, _)| option);
        bad.map(|row| row.name).chain(unfit).collect()
    }

    /// Whether an option is for other kinds of locks, or for other servers.
    fn is_unsupported(&self) -> bool {
        let has = |option| self.lock.contains_key(option);
        let (several, one_client) = (self.kind == "multi", matches!(self.kind, "multi" | "reentrant"));
        has("wait_for_replicas")
            || (has("linger") || has("per")) && several
            || has("at_least") && (one_client || has("per"))
            || has("max_waiters") && (one_client || self.is_mixed())
    }

    async fn use_it(&self, lease: Lease) {
        let ttl = self.lock.get("ttl").or(self.manager.get("ttl")).map_or(DEFAULT_TTL, |text| time(text));
        assert!(lease.remaining() <= ttl, "{:?} of {ttl:?}", lease.remaining());
        assert!(lease.fence().get() > 0 && lease.fences().len() > 0);
        for time in &self.extensions {
            match lease.extend(*time).await {
                Ok(()) => assert!(within(row("ttl"), *time), "extended by {time:?}"),
                Err(Error::InvalidOption { field, .. }) => {
                    assert!(field == "ttl" && !within(row("ttl"), *time), "{time:?}")
                }
                Err(error) => assert!(!error.code().is_empty(), "{error:?}"),
            }
        }
        typed(lease.verify().await);
        let nested = lease.nested();
        typed(lease.downgrade().await);
        typed(lease.upgrade().await);
        if let Ok(nested) = nested {
            typed(nested.release().await);
        }
        typed(lease.release().await);
    }
}

fn typed<T>(result: Result<T, Error>) {
    if let Err(error) = result {
        assert!(!error.code().is_empty() && !error.to_string().is_empty(), "{error:?}");
        assert!(
            !matches!(error, Error::Protocol { .. } | Error::Server { .. } | Error::InvalidOption { .. }),
            "{error}"
        );
    }
}

/// The value, if nothing is bad. Otherwise the error must name one of the bad options, or say that something is unsupported.
fn checked<T>(result: Result<T, Error>, bad: &BTreeSet<&'static str>, unsupported: bool) -> Option<T> {
    match result {
        Err(Error::InvalidOption { field, problem, .. }) => {
            assert!(bad.contains(field), "`{field}` {problem}, and these options are bad: {bad:?}");
            None
        }
        Err(Error::Unsupported { .. }) if unsupported => None,
        Err(error) => panic!("{bad:?} are bad, and the error is {error}"),
        Ok(value) => {
            assert!(bad.is_empty() && !unsupported, "{bad:?} are bad, or others are unsupported, and were taken");
            Some(value)
        }
    }
}

/// The options of the table that a manager has in Rust.
fn managers() -> impl Iterator<Item = &'static Setting> {
    let of_locks = LOCK_SETTINGS.iter().filter(|row| row.places.contains(&"manager"));
    MANAGER_SETTINGS.iter().chain(of_locks).filter(|row| !JAVASCRIPTS.contains(&row.name))
}

/// Sets an option of a lock.
fn set(lock: Lock, option: &str, text: &str) -> Lock {
    match option {
        "ttl" => lock.ttl(time(text)),
        "renew" => lock.renew(flag(text)),
        "max_hold" => lock.max_hold(time(text)),
        "wait" => lock.wait(wait(text)),
        "wait_for_replicas" => lock.wait_for_replicas(1, time(text)),
        "linger" => lock.linger(time(text)),
        "at_least" => lock.at_least(time(text)),
        "max_waiters" => lock.max_waiters(count(text)),
        "label" => lock.label(text),
        "per" => lock.per(time(text)),
        "one_script" => lock.one_script(),
        // Arguments of the call that makes the lock, and an option of a once.
        "limit" | "permits" | "keep" => lock,
        option => panic!("locks have the option `{option}`, and this target doesn't set it"),
    }
}

/// Sets an option of a manager.
fn set_managers(builder: Builder, option: &str, text: &str) -> Builder {
    match option {
        "prefix" => builder.prefix(text),
        "local_handoffs" => builder.local_handoffs(count(text)),
        "response_timeout" => builder.response_timeout(time(text)),
        "node_timeout" => builder.node_timeout(time(text)),
        "claim_window" => builder.claim_window(time(text)),
        "mixed_fleet" => builder.mixed_fleet(flag(text)),
        "cluster_slots" => builder.cluster_slots(flag(text)),
        "label" => builder.label(text),
        "ttl" => builder.ttl(time(text)),
        "wait" => builder.wait(wait(text)),
        "linger" => builder.linger(time(text)),
        option => panic!("managers have the option `{option}`, and this target doesn't set it"),
    }
}

fn row(option: &str) -> &'static Setting {
    LOCK_SETTINGS.iter().find(|row| row.name == option).expect("an option")
}

/// Whether a value is out of the bounds of its option.
fn is_bad(row: &Setting, text: &str) -> bool {
    match row.name {
        "label" => is_bad_label(text),
        "wait" => matches!(wait(text), Wait::For(time) if !within(row, time)),
        _ if row.bounds.text.is_empty() => false,
        _ if row.is_count() => !is_allowed(row, count(text).into()),
        _ => !within(row, time(text)),
    }
}

/// Whether a time is within the bounds of the option.
fn within(row: &Setting, time: Duration) -> bool {
    let is_whole = time.subsec_nanos().is_multiple_of(1_000_000);
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    is_allowed(row, millis) && (is_whole || is_allowed(row, millis.saturating_add(1)))
}

/// Whether a number, or the milliseconds of a time, is within the bounds of the option.
fn is_allowed(row: &Setting, number: u64) -> bool {
    (row.bounds.least..=row.bounds.most).contains(&number)
}

fn is_bad_label(label: &str) -> bool {
    label.len() > 128 || label.chars().any(char::is_control)
}

fn is_bad_name(prefix: &str, name: &str) -> bool {
    let key = format!("{prefix}{name}");
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).is_some_and(|(tag, _)| !tag.is_empty());
    name.is_empty() || key.len() > MOST_BYTES || key.starts_with("leasehold:") || (key.contains(['{', '}']) && !tag)
}

/// Anything but `false` sets a flag.
fn flag(text: &str) -> bool {
    text != "false"
}

fn count(text: &str) -> u32 {
    u32::try_from(number(text)).unwrap_or(u32::MAX)
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or_default()
}

/// Milliseconds, nanoseconds (`7ns`) or `max`.
fn time(text: &str) -> Duration {
    match (text.strip_suffix("ns"), text) {
        (Some(text), _) => Duration::from_nanos(number(text)),
        (None, "max") => Duration::MAX,
        (None, text) => Duration::from_millis(number(text)),
    }
}

fn wait(text: &str) -> Wait {
    match text {
        "forever" => Wait::Forever,
        "no" => Wait::No,
        text => Wait::For(time(text)),
    }
}
