//! Options: any value of any option of a manager and of a lock, on a server in memory.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::testing::Server;
use leasehold::{Builder, Error, Lease, Lock, LockManager, Owner, Wait};
use leasehold_core::{LOCK_SETTINGS, MANAGER_SETTINGS};
use leasehold_fuzz::{Step, steps};

use crate::RANDOM;

/// A call that takes longer, on tokio's paused clock, hangs.
const HANGS: Duration = Duration::from_secs(100 * 24 * 3600);
const DEFAULT_TTL: Duration = Duration::from_secs(30);
const MOST_BYTES: usize = 64 * 1024;

/// Each line is an option and its value. A value out of the documented bounds is refused early, with the option's name.
/// All others work: the lock is granted, and every method of the lease ends with a result or a typed error.
#[test]
fn options() {
    bolero::check!(name = "options").with_iterations(RANDOM).for_each(|input| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let mut given = Given::default();
            steps(input).for_each(|step| given.read(step));
            tokio::time::timeout(HANGS, given.try_out()).await.expect("a call hangs");
        });
    });
}

/// The options, and which of them must be refused.
#[derive(Default)]
struct Given<'a> {
    builder: Builder,
    prefix: &'a str,
    kind: &'a str,
    names: Vec<&'a str>,
    limit: u32,
    permits: u32,
    one_script: bool,
    extensions: Vec<Duration>,
    bad_builder: BTreeSet<&'static str>,
    bad: BTreeSet<&'static str>,
    ttl: Option<Duration>,
    own_linger: Option<Duration>,
    default_linger: Option<Duration>,
    max_hold: Option<Duration>,
    renew: Option<bool>,
    default_wait: Option<Wait>,
    wait: Option<Wait>,
    label: &'a str,
    replicas: bool,
    mixed: bool,
}

impl<'a> Given<'a> {
    /// Applies one option.
    fn read(&mut self, step: Step<'a>) {
        let (number, time) = (number(step.rest), time(step.rest));
        let count = u32::try_from(number).unwrap_or(u32::MAX);
        match step.verb {
            "kind" => self.kind = step.rest,
            "name" => self.names.push(step.rest),
            "limit" => self.limit = count,
            "permits" => self.permits = count,
            "extend" => self.extensions.push(time),
            "label" => self.label = step.rest,
            "ttl" => self.ttl = Some(time),
            "linger" => self.own_linger = Some(time),
            "max-hold" => self.max_hold = Some(time),
            "fixed" => self.renew = Some(false),
            "wait" => self.wait = Some(wait(step.rest)),
            "replicas" => self.replicas = true,
            "one-script" => self.one_script = true,
            verb => self.read_managers(verb, step.rest, count, time),
        }
    }

    fn read_managers(&mut self, verb: &str, text: &'a str, count: u32, time: Duration) {
        let builder = std::mem::take(&mut self.builder);
        let mut refuse =
            |field, is_bad: bool| if is_bad { self.bad_builder.insert(field) } else { self.bad_builder.remove(field) };
        self.builder = match verb {
            "prefix" => {
                self.prefix = text;
                builder.prefix(text)
            }
            "local-handoffs" => {
                refuse("local_handoffs", !is_allowed("local_handoffs", count.into()));
                builder.local_handoffs(count)
            }
            "claim-window" => {
                refuse("claim_window", !within("claim_window", time));
                builder.claim_window(time)
            }
            "response-timeout" => {
                refuse("response_timeout", !within("response_timeout", time));
                builder.response_timeout(time)
            }
            "node-timeout" => {
                refuse("node_timeout", !within("node_timeout", time));
                builder.node_timeout(time)
            }
            "manager-label" => {
                refuse("label", is_bad_label(text));
                builder.label(text)
            }
            "manager-linger" => {
                refuse("linger", !within("linger", time));
                self.default_linger = Some(time);
                builder.linger(time)
            }
            "manager-wait" => {
                refuse("wait", is_bad_wait(wait(text)));
                self.default_wait = Some(wait(text));
                builder.wait(wait(text))
            }
            "mixed-fleet" => {
                self.mixed = true;
                builder.mixed_fleet(true)
            }
            "database" => builder.database(count),
            "username" => builder.username(text),
            "password" => builder.password(text),
            "check-eviction" => builder.check_eviction(true),
            _ => builder,
        };
    }

    async fn try_out(mut self) {
        let server = Server::new();
        let built = std::mem::take(&mut self.builder).in_memory(&server);
        let Some(locks) = refused_or(built, &self.bad_builder) else { return };
        let lock = self.lock(&locks);
        let acquired = lock.acquire().await;
        // Refused before the options are looked at, because a server in memory has no replicas.
        if self.replicas {
            assert!(matches!(acquired, Err(Error::Unsupported { .. })), "{acquired:?}");
            return;
        }
        // Several names can't linger, for any time, and one script may not reach all of them.
        let cannot = matches!(acquired, Err(Error::Unsupported { .. })) && self.own_linger.is_some()
            || matches!(acquired, Err(Error::CrossSlot { .. }));
        if self.kind == "multi" && cannot {
            return;
        }
        self.find_bad();
        let Some(lease) = refused_or(acquired, &self.bad) else { return };
        self.use_it(lease).await;
        locks.close().await;
    }

    fn lock(&self, locks: &LockManager) -> Lock {
        let name = self.names.first().copied().unwrap_or("job");
        let mut lock = match self.kind {
            "read" => locks.read_write(name).read(),
            "write" => locks.read_write(name).write(),
            "reentrant" => locks.reentrant(name, &Owner::new()),
            "semaphore" => locks.semaphore(name, self.limit).permits(self.permits),
            "multi" => locks.multi(&self.names),
            _ => locks.mutex(name),
        };
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        if self.one_script {
            lock = lock.one_script();
        }
        if let Some(linger) = self.own_linger {
            lock = lock.linger(linger);
        }
        if let Some(limit) = self.max_hold {
            lock = lock.max_hold(limit);
        }
        if let Some(renew) = self.renew {
            lock = lock.renew(renew);
        }
        if let Some(wait) = self.wait {
            lock = lock.wait(wait);
        }
        if self.replicas {
            lock = lock.wait_for_replicas(1, Duration::from_secs(1));
        }
        lock.label(self.label)
    }

    /// The documented bounds.
    fn find_bad(&mut self) {
        let is_semaphore = self.kind == "semaphore";
        let lingers = !matches!(self.kind, "reentrant" | "semaphore" | "multi");
        let linger = self.own_linger.or(self.default_linger.filter(|_| lingers));
        let ttl = self.ttl.unwrap_or(DEFAULT_TTL);
        let wait = self.wait.or(self.default_wait);
        let names =
            if self.kind == "multi" { self.names.clone() } else { self.names.iter().copied().take(1).collect() };
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        let bytes: usize = names.iter().map(|name| name.len() + self.prefix.len()).sum();
        let bad_names = self.kind == "multi" && (names.is_empty() || distinct.len() < names.len() || bytes > 1 << 20);
        let names = if names.is_empty() { vec!["job"] } else { names };
        let bad = [
            ("ttl", !within("ttl", ttl)),
            ("linger", linger.is_some_and(|linger| !lingers || self.mixed || !within("linger", linger))),
            ("max_hold", self.max_hold.is_some_and(|most| self.renew == Some(false) || !within("max_hold", most))),
            ("wait", wait.is_some_and(is_bad_wait)),
            ("limit", is_semaphore && !is_allowed("limit", self.limit.into())),
            ("permits", is_semaphore && !(1..=self.limit).contains(&self.permits)),
            ("label", is_bad_label(self.label)),
            ("name", names.iter().any(|name| is_bad_name(self.prefix, name))),
            ("names", bad_names),
        ];
        self.bad.extend(bad.into_iter().filter(|(_, is_bad)| *is_bad).map(|(field, _)| field));
    }

    async fn use_it(&self, lease: Lease) {
        let ttl = self.ttl.unwrap_or(DEFAULT_TTL);
        assert!(lease.remaining() <= ttl, "{:?} of {ttl:?}", lease.remaining());
        assert!(lease.fence().get() > 0 && lease.fences().len() > 0);
        for time in &self.extensions {
            match lease.extend(*time).await {
                Ok(()) => assert!(within("ttl", *time), "extended by {time:?}"),
                Err(Error::InvalidOption { field, .. }) => {
                    assert!(field == "ttl" && !within("ttl", *time), "{time:?}")
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

/// The value, if nothing is bad. Otherwise the error must name one of the bad options.
fn refused_or<T>(result: Result<T, Error>, bad: &BTreeSet<&'static str>) -> Option<T> {
    match result {
        Err(Error::InvalidOption { field, problem, .. }) => {
            assert!(bad.contains(field), "`{field}` {problem}, and these options are bad: {bad:?}");
            None
        }
        Err(error) => panic!("{bad:?} are bad, and the error is {error}"),
        Ok(value) => {
            assert!(bad.is_empty(), "{bad:?} are bad, and were taken");
            Some(value)
        }
    }
}

/// Whether a time is within the bounds of the option.
fn within(option: &str, time: Duration) -> bool {
    let is_whole = time.subsec_nanos().is_multiple_of(1_000_000);
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    is_allowed(option, millis) && (is_whole || is_allowed(option, millis.saturating_add(1)))
}

/// Whether a number, or the milliseconds of a time, is within the bounds of the option.
fn is_allowed(option: &str, number: u64) -> bool {
    let row = LOCK_SETTINGS.iter().chain(MANAGER_SETTINGS).find(|row| row.name == option).expect("an option");
    (row.bounds.least..=row.bounds.most).contains(&number)
}

fn is_bad_wait(wait: Wait) -> bool {
    matches!(wait, Wait::For(time) if !within("wait", time))
}

fn is_bad_label(label: &str) -> bool {
    label.len() > 128 || label.chars().any(char::is_control)
}

fn is_bad_name(prefix: &str, name: &str) -> bool {
    let key = format!("{prefix}{name}");
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).is_some_and(|(tag, _)| !tag.is_empty());
    name.is_empty() || key.len() > MOST_BYTES || key.starts_with("leasehold:") || (key.contains(['{', '}']) && !tag)
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
