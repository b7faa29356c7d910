//! The options of locks and managers. Each is a row: a method of the lock or the builder, the same method of the blocking API,
//! and a field of a plain struct for config files.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Replicas, Wait};

use super::builder::Builder;
use super::lock::{Lock, set_wait};
#[cfg(feature = "once")]
use super::once::Once;
use crate::client::Called;
#[cfg(doc)]
use crate::{Error, Lease, LockManager};

/// Declares the options of a lock or a builder: the method with its docs, the type of the field, and how the method sets it. A time
/// names its form for serde. A method that has not one argument of the field's type also says how to call it (`by`).
macro_rules! options {
    ($(#[$meta:meta])* $name:ident sets $target:ident, listed in $list:ident {
        $(
            $(#[$doc:meta])* $option:ident($($argument:ident: $type:ty),*) from $field:ty $(as $with:literal)? $(, by $call:expr)?,
            |$to:ident| $set:block;
        )+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
        #[non_exhaustive]
        pub struct $name {
            $(
                #[doc = concat!("See [`", stringify!($target), "::", stringify!($option), "`].")]
                #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
                $(#[cfg_attr(feature = "serde", serde(with = $with))])?
                pub $option: Option<$field>,
            )+
        }

        impl $target {
            $(
                $(#[$doc])*
                pub fn $option(self, $($argument: $type),*) -> Self {
                    let mut $to = self;
                    $set
                    $to
                }
            )+

            /// Sets the options that are not `None`, for example those from a config file. A later call can set each of them again.
            pub fn options(self, options: &$name) -> Self {
                let mut to = self;
                $(if let Some(value) = options.$option.clone() {
                    to = options!(@set to, value, $option $(, $call)?);
                })+
                to
            }
        }

        /// Lists the methods, for the blocking API.
        #[cfg(feature = "blocking")]
        macro_rules! $list {
            ($apply:ident) => { $apply! { $($target: $option($($argument: $type),*);)+ } };
        }
        #[cfg(feature = "blocking")]
        pub(super) use $list;
    };
    (@set $to:ident, $value:ident, $option:ident) => { $to.$option($value) };
    (@set $to:ident, $value:ident, $option:ident, $call:expr) => { $call($to, $value) };
}

options! {
    /// The options of a lock: see [`Lock::options`]. An option that is `None` changes nothing.
    ///
    /// With the feature `serde`, you can read them from a config file. A time is a text with a unit: `"500ms"`, `"30s"`,
    /// `"1h 30m"`. `wait` is a time, `"forever"` or `"no"`. An unknown name is an error.
    ///
    /// ```
    /// # #[cfg(feature = "serde")] {
    /// use leasehold::{LockOptions, Wait};
    ///
    /// let text = r#"{ "ttl": "10s", "wait": "forever", "wait_for_replicas": { "min": 1, "timeout": "500ms" } }"#;
    /// let options: LockOptions = serde_json::from_str(text).unwrap();
    /// assert_eq!(options.wait, Some(Wait::Forever));
    /// # }
    /// # fn f(locks: leasehold::LockManager, options: leasehold::LockOptions) {
    /// let nightly = locks.mutex("nightly-report").options(&options);
    /// # }
    /// ```
    LockOptions sets Lock, listed in lock_options {
        /// How long the server keeps the lease unless it is renewed: 10 ms to 30 days. A crashed holder blocks the others for this long.
        ttl(ttl: Duration) from Duration as "leasehold_core::serial::optional_duration", |lock| {
            lock.options.ttl = ttl;
        };
        /// Whether the client renews the lease at a third of its TTL while you hold it. Default: true. `false` makes a fixed lease.
        renew(renew: bool) from bool, |lock| { lock.options.renew = renew; };
        /// How long a renewed lease may be held: 10 ms to 30 days. Default: no limit.
        ///
        /// After this time the lease is lost, with [`LossReason::MaxHold`](crate::LossReason::MaxHold).
        max_hold(limit: Duration) from Duration as "leasehold_core::serial::optional_duration", |lock| {
            lock.options.max_hold = Some(limit);
        };
        /// How long an acquire waits: a [`Duration`] of 1 ms to 30 days, or [`Wait::Forever`].
        ///
        /// With [`Wait::No`], an [`acquire`](Self::acquire) and a [`run`](Self::run) fail with [`Error::Busy`] if the lock is not
        /// free. They end within one response timeout. So a configuration can say that a job is skipped while another one runs:
        ///
        /// ```
        /// # #[cfg(feature = "testing")]
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), leasehold::Error> {
        /// use leasehold::{Error, Wait};
        ///
        /// # let locks = leasehold::LockManager::in_memory()?;
        /// let held = locks.mutex("nightly").acquire().await?;
        /// let skipped = locks.mutex("nightly").wait(Wait::No).acquire().await;
        /// assert!(matches!(skipped, Err(Error::Busy { .. })));
        /// # Ok(())
        /// # }
        /// # #[cfg(not(feature = "testing"))]
        /// # fn main() {}
        /// ```
        ///
        /// A [`try_acquire`](Self::try_acquire) also ends within this time, if it is shorter than the response timeout.
        wait(wait: impl Into<Wait>) from Wait, |lock| { set_wait(&mut lock.options, wait.into()); };
        /// How long the client keeps the lease after you release it, while no other client asks for the lock: 1 ms to 60 s.
        /// Default: it gives the lease back at once.
        ///
        /// The next acquire in this process then gets the lock without a round trip, with the next fencing token. A client
        /// that waits for the lock, or tries to get it, ends this at once. If your process crashes in that time, others wait
        /// for the lock until its `ttl` is over, as if you held it.
        ///
        /// Only for mutexes and read-write locks, on a connection that carries messages. The acquire fails with
        /// `invalid-option` for other kinds and with `mixed_fleet`, and with `unsupported` without messages, in a quorum and
        /// for several names.
        linger(time: Duration) from Duration as "leasehold_core::serial::optional_duration", |lock| {
            lock.options.linger = Some(time);
        };
        /// How long the lock stays taken, counted from its grant, even if its holder releases it earlier: 10 ms to 30 days, and at
        /// most [`max_hold`](Self::max_hold). Default: a release frees it at once.
        ///
        /// If [`run`](Self::run) ends, if you release or drop the lease, or if you close the manager, the server keeps the lock for the
        /// rest of that time, as after [`Lease::detach_for`]. This is also so if the work fails. But if your process dies, the lock is
        /// free when its TTL is over. [`Lease::release`] returns
        /// [`Detached`](leasehold_core::ReleaseOutcome::Detached) if it comes before that time.
        ///
        /// ```no_run
        /// # async fn report() -> Result<(), leasehold::Error> { Ok(()) }
        /// # async fn f(locks: leasehold::LockManager) -> Result<(), leasehold::Error> {
        /// use std::time::Duration;
        ///
        /// // Hosts whose clocks differ by less than a minute don't run the job one after the other.
        /// let nightly = locks.mutex("nightly-report").at_least(Duration::from_secs(60));
        /// if let Some(lease) = nightly.try_acquire().await? {
        ///     report().await?;
        ///     lease.release().await?;
        /// }
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// The acquire fails with `unsupported` for reentrant locks, in a quorum and for several names.
        at_least(time: Duration) from Duration as "leasehold_core::serial::optional_duration", |lock| {
            lock.options.at_least = Some(time);
        };
        /// Makes a semaphore a rate: see [`Semaphore::per`](crate::Semaphore::per). 10 ms to 30 days. Default: none. With another
        /// kind of lock, the acquire fails with `invalid-option`.
        per(window: Duration) from Duration as "leasehold_core::serial::optional_duration", |lock| {
            lock.options.per = Some(window);
        };
        /// How many callers may wait before this one: 0 to 1,000,000. Default: any number.
        ///
        /// If that many wait already, and the lock is not free, an acquire fails with [`Error::Busy`] at once, and
        /// [`Error::waiters`] returns their number. With 0, it never waits. The number of this manager's callers is exact.
        /// For other managers, it is as old as their last heartbeats. The manager that holds the lock sends none, so others
        /// don't count its callers.
        ///
        /// ```
        /// # #[cfg(feature = "testing")]
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), leasehold::Error> {
        /// # let locks = leasehold::LockManager::in_memory()?;
        /// let held = locks.mutex("report").acquire().await?;
        /// let refused = locks.mutex("report").max_waiters(0).acquire().await;
        /// assert_eq!(refused.err().and_then(|error| error.waiters()), Some(0));
        /// # Ok(())
        /// # }
        /// # #[cfg(not(feature = "testing"))]
        /// # fn main() {}
        /// ```
        ///
        /// The acquire fails with `unsupported` for reentrant locks, with `mixed_fleet`, in a quorum and for several names.
        max_waiters(most: u32) from u32, |lock| { lock.options.max_waiters = Some(most); };
        /// A name for the leases of this lock, such as the job that needs it: at most 128 bytes without control
        /// characters. Default: nothing.
        ///
        /// [`LockManager::inspect`](crate::LockManager::inspect) shows it, for holders and for waiters. It costs nothing: it
        /// stays in this process, and an inspect asks for it. [`Builder::label`](crate::Builder::label) is for the
        /// whole client. A quorum has no labels. An acquire fails with `invalid-option` for a label that can't be used.
        label(label: impl Into<String>) from String, |lock| {
            let label = label.into();
            let names = lock.several.as_ref().map(|several| Arc::clone(&several.names));
            lock.lock.called = (!label.is_empty()).then(|| Arc::new(Called { label, names }));
        };
        /// Makes an acquire return only after at least `min` replicas have confirmed the lease.
        ///
        /// A failover to one of these replicas then does not lose the lease. If fewer have confirmed it after `timeout`
        /// (1 ms to 60 s), the lease is released and the call fails with [`Error::NotReplicated`]. If the lease ends
        /// in the meantime, the call fails with [`Error::Lost`]. A connection that you provide and a quorum don't
        /// support this (`unsupported`).
        ///
        /// Each acquire asks the replicas again, over a new connection, even if the lease was handed over inside
        /// this client. This comes after the `wait` and takes at most `timeout` plus one response timeout. The
        /// confirmation is about this moment only: later renewals are not confirmed, and a failover to a replica
        /// that lags behind can still lose the lock.
        wait_for_replicas(min: u32, timeout: Duration) from Replicas,
            by |lock: Lock, Replicas { min, timeout }| lock.wait_for_replicas(min, timeout), |lock| {
            lock.options.replicas = Some(Replicas { min, timeout });
        };
        /// Refuses [several names](crate::LockManager::multi) that no single script can take, because they are in several
        /// slots of a cluster, with `cross-slot`. A lock of one name is not affected. In a quorum, several names are refused
        /// with `unsupported`, because it takes them one after the other.
        one_script() from bool, by |lock: Lock, only| if only { lock.one_script() } else { lock }, |lock| {
            if let Some(several) = &mut lock.several {
                several.one_script = true;
            }
        };
    }
}

#[cfg(feature = "once")]
options! {
    /// The options of a once: see [`Once::options`]. An option that is `None` changes nothing. In a config file, the values have the
    /// same form as those of [`LockOptions`].
    OnceOptions sets Once, listed in once_options {
        /// How long the server keeps the result: 1 s to 366 days. Default: 24 h.
        keep(time: Duration) from Duration as "leasehold_core::serial::optional_duration", |once| { once.keep = time; };
        /// How long the server keeps the lock of a process that has crashed: 10 ms to 30 days. See [`Lock::ttl`].
        ttl(ttl: Duration) from Duration as "leasehold_core::serial::optional_duration", |once| {
            once.lock = once.lock.ttl(ttl);
        };
        /// How long the work may take: 10 ms to 30 days. See [`Lock::max_hold`].
        max_hold(limit: Duration) from Duration as "leasehold_core::serial::optional_duration", |once| {
            once.lock = once.lock.max_hold(limit);
        };
        /// How long [`run`](Self::run) waits while another caller does the work: 1 ms to 30 days, or forever. See [`Lock::wait`].
        /// With [`Wait::No`], it fails with [`Error::Busy`] then.
        wait(wait: impl Into<Wait>) from Wait, |once| { once.lock = once.lock.wait(wait); };
        /// How many callers may wait for the result before this one: 0 to 1,000,000. If that many wait already, and the work is not
        /// done, [`run`](Self::run) fails with [`Error::Busy`] at once. See [`Lock::max_waiters`].
        max_waiters(most: u32) from u32, |once| { once.lock = once.lock.max_waiters(most); };
        /// A name for the caller: see [`Lock::label`].
        label(label: impl Into<String>) from String, |once| { once.lock = once.lock.label(label); };
    }
}

options! {
    /// The options of a manager: see [`Builder::options`]. An option that is `None` changes nothing.
    ///
    /// Addresses, credentials and certificates are not among them. In a config file, the values have the same form as those of
    /// [`LockOptions`].
    ///
    /// ```
    /// # #[cfg(feature = "serde")] {
    /// use leasehold::{LockManager, ManagerOptions};
    ///
    /// let options: ManagerOptions = serde_json::from_str(r#"{ "prefix": "billing:", "ttl": "10s" }"#).unwrap();
    /// let builder = LockManager::builder().options(&options);
    /// # }
    /// ```
    ManagerOptions sets Builder, listed in manager_options {
        /// A prefix for every name. Default: empty.
        prefix(prefix: impl Into<String>) from String, |builder| { builder.config.prefix = prefix.into(); };
        /// How many times this client hands a lock over locally while another client waits: 0 to 1023. Default: 32 times, or as
        /// often as fits into 5 ms, whichever is more.
        ///
        /// Local hand-overs also end after one second if another client waits.
        local_handoffs(handoffs: u32) from u32, |builder| { builder.config.local_handoffs = Some(handoffs); };
        /// How long a grant is kept for a waiter: 100 ms to 60 s. Default: 3 s.
        ///
        /// A dead waiter delays the others by at most this time, once.
        claim_window(window: Duration) from Duration as "leasehold_core::serial::optional_duration", |builder| {
            builder.config.claim_window = window;
        };
        /// How long one command's answer may take: 10 ms to 60 s. Default: 2 s.
        ///
        /// The same limit applies to connecting (all its steps together) and to every call that has no time limit of its own.
        response_timeout(timeout: Duration) from Duration as "leasehold_core::serial::optional_duration", |builder| {
            builder.config.response_timeout = timeout;
        };
        /// How long one command's answer may take on one server of a [`quorum`](Self::quorum): 10 ms to 60 s. Default:
        /// 100 ms, which suits a LAN. A slower server counts as one that did not answer.
        node_timeout(timeout: Duration) from Duration as "leasehold_core::serial::optional_duration", |builder| {
            builder.config.node_timeout = timeout;
        };
        /// Competes with clients of other libraries on equal terms: all clients poll. This is slower. Default: false.
        mixed_fleet(mixed: bool) from bool, |builder| { builder.config.mixed_fleet = mixed; };
        /// Whether the server enforces the slots of a cluster at one address, as some services do: it refuses `CLUSTER`, and calls with
        /// keys of different slots. Default: the client finds out when it connects.
        ///
        /// With `true`, connecting fails with `invalid-option` if the server takes such calls. With `false`, the client doesn't ask.
        /// The answer decides which counters of fences a client uses, so all clients of a server must come to the same result.
        ///
        /// For [`connect`](Self::connect) and [`from_connection`](Self::from_connection). A [`cluster`](Self::cluster) has slots anyway,
        /// so there the option changes nothing. [`sentinel`](Self::sentinel) and [`quorum`](Self::quorum) fail with `invalid-option`
        /// if it is `true`.
        cluster_slots(enforced: bool) from bool, |builder| { builder.cluster_slots = Some(enforced); };
        /// A name for this client: at most 128 bytes without control characters. Default: `<host>/<process id>`. An
        /// empty label tells them nothing.
        ///
        /// [`inspect`](LockManager::inspect) shows it, and so does the `busy` error of another client. The client writes it to
        /// the server when it first waits, and when it has held a lease for a second. A quorum has no labels.
        label(label: impl Into<String>) from String, |builder| { builder.label = Some(label.into()); };
        /// The TTL for locks that set none: 10 ms to 30 days. Default: 30 s.
        ttl(ttl: Duration) from Duration as "leasehold_core::serial::optional_duration", |builder| {
            builder.defaults.ttl = ttl;
        };
        /// How long an acquire waits if its lock sets no `wait`: 1 ms to 30 days, or forever. Default: 60 s.
        ///
        /// With [`Wait::No`], an acquire fails with [`Error::Busy`] if the lock is not free: see [`Lock::wait`](crate::Lock::wait).
        ///
        /// A `try_acquire` also ends within this time, if you set it and it is shorter than the
        /// [`response_timeout`](Self::response_timeout).
        wait(wait: impl Into<Wait>) from Wait, |builder| { set_wait(&mut builder.defaults, wait.into()); };
        /// How long the client keeps a lease after its release, while no other client asks for the lock: 1 ms to 60 s.
        /// Default: it gives the lease back at once. For mutexes and read-write locks: see [`Lock::linger`](crate::Lock::linger).
        linger(time: Duration) from Duration as "leasehold_core::serial::optional_duration", |builder| {
            builder.defaults.linger = Some(time);
        };
        /// Whether to check the servers' `maxmemory-policy` once, when the manager connects. Any policy but `noeviction` is
        /// refused with `unsupported`. With another policy, a server whose memory is full may delete locks, even held ones.
        ///
        /// Default: false. The check needs the right to run `CONFIG GET`, and each refused attempt adds an entry to the
        /// server's ACL log. In a cluster, all primaries are checked. In a quorum, every server is, and those of
        /// a cluster when the manager first connects to them.
        check_eviction(check: bool) from bool, |builder| { builder.check_eviction = check; };
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use leasehold_core::{LOCK_SETTINGS, MANAGER_SETTINGS, Setting};

    use super::*;

    /// The names that a struct takes.
    fn taken(refusal: serde_json::Error) -> Vec<String> {
        let text = refusal.to_string();
        text.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn a_config_file_can_have_every_option_of_the_table() {
        let lock = taken(serde_json::from_str::<LockOptions>(r#"{ "other": 1 }"#).unwrap_err());
        let manager = taken(serde_json::from_str::<ManagerOptions>(r#"{ "other": 1 }"#).unwrap_err());
        // Arguments of a call, options for JavaScript, and what the builder has not.
        let elsewhere = ["limit", "permits", "keep", "renew_in"];
        #[cfg(feature = "once")]
        let once = taken(serde_json::from_str::<OnceOptions>(r#"{ "other": 1 }"#).unwrap_err());
        let missing = |taken: &[String], setting: &Setting| !taken.iter().any(|name| name == setting.name);
        #[cfg(feature = "once")]
        for setting in LOCK_SETTINGS.iter().filter(|it| it.places.contains(&"once")) {
            assert!(!missing(&once, setting), "{} is missing in {once:?}", setting.name);
        }
        for setting in LOCK_SETTINGS.iter().chain(MANAGER_SETTINGS).filter(|it| !elsewhere.contains(&it.name)) {
            let of_lock = LOCK_SETTINGS.iter().any(|it| it.name == setting.name);
            let of_manager = setting.places.iter().any(|place| matches!(*place, "manager" | "quorum"));
            let on_builder = !matches!(setting.name, "renew" | "max_hold");
            assert!(!(of_lock && missing(&lock, setting)), "{} is missing in {lock:?}", setting.name);
            assert!(!(of_manager && on_builder && missing(&manager, setting)), "{} is missing", setting.name);
        }
    }

    #[test]
    fn options_are_written_as_they_were_read() {
        let text = r#"{"ttl":"10s","renew":true,"max_hold":"1h","wait":"no","linger":"50ms","at_least":"1m","max_waiters":5,"label":"report","wait_for_replicas":{"min":2,"timeout":"1s"},"one_script":true}"#;
        let options: LockOptions = serde_json::from_str(text).unwrap();
        assert_eq!(options.ttl, Some(Duration::from_secs(10)));
        assert_eq!(serde_json::to_string(&options).unwrap(), text);
        assert_eq!(serde_json::to_string(&LockOptions::default()).unwrap(), "{}");
    }
}
