//! What the crate's feature `metrics` records.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::metrics::{LocalRecorderGuard, Unit, set_default_local_recorder};
use leasehold::{LossReason, Owner, Wait, redis_1};
use leasehold_live::{
    LONG, RENEWED, Tested, begin, busy, client, connections, options, queued, shared_server, soon, unique, until,
};
use leasehold_servers::Server;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// The values of this test's metrics. A test has one thread, and the recorder listens to that one only.
struct Seen<'a> {
    snapshotter: Snapshotter,
    values: RefCell<BTreeMap<String, Value>>,
    _listening: LocalRecorderGuard<'a>,
}

#[derive(Default)]
struct Value {
    /// Of a counter or a gauge.
    number: f64,
    /// Of a histogram.
    times: Vec<f64>,
    unit: Option<Unit>,
    described: bool,
}

impl<'a> Seen<'a> {
    fn by(recorder: &'a DebuggingRecorder) -> Self {
        let listening = set_default_local_recorder(recorder);
        Self { snapshotter: recorder.snapshotter(), values: RefCell::default(), _listening: listening }
    }

    /// All values by name and labels, such as `leasehold_losses_total reason=gone`.
    fn values<T>(&self, read: impl FnOnce(&BTreeMap<String, Value>) -> T) -> T {
        let mut values = self.values.borrow_mut();
        // A snapshot has what is new since the one before.
        for (key, unit, description, new) in self.snapshotter.snapshot().into_vec() {
            let (name, labels) = key.key().clone().into_parts();
            let mut text = name.as_str().to_owned();
            for label in labels {
                text.push_str(&format!(" {}={}", label.key(), label.value()));
            }
            let value = values.entry(text).or_default();
            (value.unit, value.described) = (unit, description.is_some());
            match new {
                DebugValue::Counter(count) => value.number += f64::from(u32::try_from(count).unwrap_or(u32::MAX)),
                DebugValue::Gauge(change) => value.number += change.0,
                DebugValue::Histogram(times) => value.times.extend(times.iter().map(|time| time.0)),
            }
        }
        read(&values)
    }

    /// A counter or a gauge. 0 if it was never recorded.
    fn number(&self, key: &str) -> f64 {
        self.values(|values| values.get(key).map_or(0.0, |value| value.number))
    }

    /// The times in a histogram.
    fn times(&self, key: &str) -> Vec<f64> {
        self.values(|values| values.get(key).map_or_else(Vec::new, |value| value.times.clone()))
    }

    /// Every series of this metric with its number, without those that are still 0.
    fn series(&self, name: &str) -> Vec<(String, f64)> {
        let of_it = |key: &str| key.split(' ').next() == Some(name);
        self.values(|values| {
            let counted =
                values.iter().filter(|(key, value)| of_it(key) && (value.number != 0.0 || !value.times.is_empty()));
            counted.map(|(key, value)| (key.clone(), value.number)).collect()
        })
    }
}

/// The acquires that ended like this.
fn acquires(code: &str, mode: &str, local: bool) -> String {
    format!("leasehold_acquires_total code={code} mode={mode} local={local}")
}

const GRANTED: &str = "leasehold_wait_seconds code=granted mode=exclusive";

#[tokio::test]
async fn an_acquire_and_a_release_are_counted_and_timed() -> Tested {
    let (recorder, name) = (DebuggingRecorder::new(), unique("metrics"));
    let seen = Seen::by(&recorder);
    let locks = client(shared_server()).await?;
    let hold = Duration::from_millis(30);

    let lease = locks.mutex(&name).acquire().await?;
    assert_eq!((seen.number("leasehold_held"), seen.number("leasehold_waiting")), (1.0, 0.0));
    assert_eq!(seen.number("leasehold_commands_total"), 1.0);
    tokio::time::sleep(hold).await;
    lease.release().await?;
    drop(locks.mutex(&name).acquire().await?);

    assert_eq!(seen.series("leasehold_acquires_total"), [(acquires("granted", "exclusive", false), 2.0)]);
    assert_eq!(seen.number("leasehold_held"), 0.0);
    let (waited, held) = (seen.times(GRANTED), seen.times("leasehold_hold_seconds code=released"));
    assert!(waited.len() == 2 && waited.iter().all(|time| *time > 0.0), "{waited:?}");
    assert!(held.len() == 1 && held[0] >= hold.as_secs_f64(), "{held:?}");
    assert_eq!(seen.times("leasehold_hold_seconds code=dropped").len(), 1);
    assert_eq!(seen.series("leasehold_reconnects_total"), []);
    assert_eq!(seen.series("leasehold_losses_total"), []);
    Ok(())
}

#[tokio::test]
async fn acquires_without_a_lease_are_counted_by_their_code() -> Tested {
    let (recorder, name) = (DebuggingRecorder::new(), unique("metrics"));
    let seen = Seen::by(&recorder);
    let (locks, other) = (client(shared_server()).await?, client(shared_server()).await?);
    let _lease = locks.mutex(&name).acquire().await?;

    assert!(other.mutex(&name).try_acquire().await?.is_none());
    assert_eq!(seen.number(&acquires("busy", "exclusive", false)), 1.0);
    let wait = Duration::from_millis(500);
    assert_eq!(busy(other.mutex(&name), wait).await.code(), "busy");
    assert_eq!(seen.number(&acquires("busy", "exclusive", false)), 2.0);
    let waited = seen.times("leasehold_wait_seconds code=busy mode=exclusive");
    assert!(waited.len() == 2 && waited[1] >= wait.as_secs_f64(), "{waited:?}");

    let waiting = queued(shared_server(), other.mutex(&name).wait(Wait::Forever)).await;
    assert_eq!(seen.number("leasehold_waiting"), 1.0);
    waiting.abort();
    assert!(waiting.await.is_err());
    assert_eq!(seen.number("leasehold_waiting"), 0.0);
    assert_eq!(seen.number(&acquires("cancelled", "exclusive", false)), 1.0);

    other.mutex("").acquire().await.expect_err("no name");
    assert_eq!(seen.number(&acquires("invalid-option", "exclusive", false)), 1.0);
    let connection = redis_1::redis::Client::open(shared_server().url())?.get_multiplexed_async_connection().await?;
    let polls = options().from_connection(redis_1::connection(connection)).await?;
    let replicated = polls.mutex(&name).wait_for_replicas(1, wait);
    replicated.acquire().await.expect_err("its own connection is needed");
    assert_eq!(seen.number(&acquires("unsupported", "exclusive", false)), 1.0);
    assert_eq!(seen.number("leasehold_waiting"), 0.0);
    assert_eq!(seen.number("leasehold_held"), 1.0);
    Ok(())
}

#[tokio::test]
async fn every_kind_has_its_mode_and_a_hand_over_inside_the_process_is_local() -> Tested {
    let (recorder, name) = (DebuggingRecorder::new(), unique("metrics"));
    let seen = Seen::by(&recorder);
    let locks = client(shared_server()).await?;
    let lease = locks.mutex(&name).acquire().await?;
    let waiting = begin(locks.mutex(&name));
    until("it waits", async || seen.number("leasehold_waiting") == 1.0).await;
    lease.release().await?;
    soon("the hand-over", waiting).await??.release().await?;
    let local: f64 = seen.number(&acquires("granted", "exclusive", true));
    assert_eq!((local, seen.number(&acquires("granted", "exclusive", false))), (1.0, 1.0));

    drop(locks.read_write(unique("metrics")).read().acquire().await?);
    drop(locks.semaphore(unique("metrics"), 3).acquire().await?);
    drop(locks.reentrant(unique("metrics"), &Owner::new()).acquire().await?);
    drop(locks.multi([unique("metrics"), unique("metrics")]).acquire().await?);
    for mode in ["shared", "semaphore", "reentrant", "multi"] {
        assert_eq!(seen.number(&acquires("granted", mode, false)), 1.0, "{mode}");
    }
    assert_eq!(seen.number("leasehold_held"), 0.0);
    Ok(())
}

#[tokio::test]
async fn a_lost_lease_is_counted_once_by_its_reason() -> Tested {
    let (recorder, name) = (DebuggingRecorder::new(), unique("metrics"));
    let seen = Seen::by(&recorder);
    let locks = client(shared_server()).await?;
    let lease = locks.mutex(&name).acquire().await?;
    shared_server().cli(&["DEL", &name])?;
    assert!(!lease.verify().await?);
    assert_eq!(soon("the loss", lease.lost()).await, LossReason::Gone);
    assert_eq!(seen.series("leasehold_losses_total"), [("leasehold_losses_total reason=gone".to_owned(), 1.0)]);
    // The program has not noticed yet.
    assert_eq!(seen.number("leasehold_held"), 1.0);
    lease.release().await?;
    assert_eq!(seen.number("leasehold_held"), 0.0);
    assert_eq!(seen.times("leasehold_hold_seconds code=lost").len(), 1);
    assert_eq!(seen.number("leasehold_losses_total reason=gone"), 1.0);
    assert_eq!(seen.series("leasehold_hold_seconds").len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_lease_whose_end_only_its_release_notices_is_no_loss() -> Tested {
    let (recorder, name) = (DebuggingRecorder::new(), unique("metrics"));
    let seen = Seen::by(&recorder);
    let locks = client(shared_server()).await?;
    let lease = locks.mutex(&name).acquire().await?;
    shared_server().cli(&["DEL", &name])?;
    lease.release().await?;
    assert_eq!(seen.series("leasehold_losses_total"), []);
    assert_eq!(seen.times("leasehold_hold_seconds code=already-expired").len(), 1);
    assert_eq!(seen.number("leasehold_held"), 0.0);
    Ok(())
}

#[tokio::test]
async fn renewals_and_extends_of_every_kind_are_counted_and_checks_are_not() -> Tested {
    let recorder = DebuggingRecorder::new();
    let seen = Seen::by(&recorder);
    let locks = client(shared_server()).await?;
    let (pages, permits) = (locks.read_write(unique("metrics")), locks.semaphore(unique("metrics"), 3));
    let reentrant = locks.reentrant(unique("metrics"), &Owner::new());
    for (lock, renewals) in [pages.write(), pages.read(), permits.permits(2), reentrant].into_iter().zip(1..) {
        let lease = lock.renew(false).acquire().await?;
        lease.extend(LONG * 2).await?;
        assert!(lease.verify().await?);
        assert_eq!(seen.number("leasehold_renewals_total"), f64::from(renewals), "{lease:?}");
        lease.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn renewals_that_travel_together_are_counted_one_by_one() -> Tested {
    const LEASES: u32 = 10;
    let (recorder, name) = (DebuggingRecorder::new(), unique("metrics"));
    let seen = Seen::by(&recorder);
    let locks = client(shared_server()).await?;
    let lock = |number| locks.mutex(format!("{name}:{number}")).ttl(RENEWED);
    // From now on the server knows the script.
    locks.mutex(unique("metrics")).acquire().await?.extend(LONG * 2).await?;
    let begun: Vec<_> = (0..LEASES).map(|number| begin(lock(number))).collect();
    let mut leases = Vec::new();
    for lease in begun {
        leases.push(soon("the lease", lease).await??);
    }
    let numbers = || (seen.number("leasehold_renewals_total"), seen.number("leasehold_commands_total"));
    let before = numbers();
    until("all are renewed", async || numbers().0 >= before.0 + f64::from(LEASES)).await;
    let (renewals, commands) = (numbers().0 - before.0, numbers().1 - before.1);
    assert!(commands >= 1.0 && commands * 2.0 <= renewals, "{renewals} renewals by {commands} commands");
    assert!(leases.iter().all(leasehold::Lease::is_held));
    Ok(())
}

#[tokio::test]
async fn a_connection_that_is_made_again_is_counted() -> Tested {
    let (recorder, server) = (DebuggingRecorder::new(), Server::start()?);
    let seen = Seen::by(&recorder);
    let locks = options().connect(&server.url()).await?;
    let lease = locks.mutex("door").acquire().await?;
    assert_eq!(seen.number("leasehold_reconnects_total"), 0.0);
    for times in [1.0, 2.0] {
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
        assert!(lease.verify().await?);
        assert_eq!(seen.number("leasehold_reconnects_total"), times);
    }
    assert_eq!(seen.series("leasehold_losses_total"), []);
    Ok(())
}

#[tokio::test]
async fn the_first_connection_to_a_server_that_was_down_is_no_reconnect() -> Tested {
    let (recorder, mut servers) = (DebuggingRecorder::new(), [Server::start()?, Server::start()?, Server::start()?]);
    let seen = Seen::by(&recorder);
    let urls = servers.each_ref().map(Server::url);
    servers[2].stop();
    let locks = options().quorum(urls).await?;
    locks.mutex("door").acquire().await?.release().await?;
    servers[2].restart()?;
    until("the third one is connected", async || {
        let taken = locks.mutex("door").try_acquire().await.is_ok();
        taken && connections(&servers[2]).is_ok_and(|count| count > 0)
    })
    .await;
    let lease = locks.mutex("other").acquire().await?;
    assert!(lease.verify().await?);
    assert_eq!(seen.number("leasehold_reconnects_total"), 0.0);
    servers[0].cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
    until("the first one is connected again", async || {
        lease.verify().await.is_ok_and(|held| held) && seen.number("leasehold_reconnects_total") == 1.0
    })
    .await;
    Ok(())
}

/// The names in the first column of the manual's table, with the labels in the second one and the unit in the third.
fn documented() -> BTreeMap<String, (BTreeSet<String>, String)> {
    let page = include_str!("../../../../../docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `leasehold_"));
    rows.map(|row| {
        let mut cells = row.split('|').skip(1).map(|cell| cell.trim().replace('`', ""));
        let mut cell = || cells.next().unwrap_or_default();
        let (name, labels, unit) = (cell(), cell(), cell());
        let labels = labels.split(", ").filter(|label| !label.is_empty()).map(str::to_owned).collect();
        (name, (labels, unit))
    })
    .collect()
}

#[tokio::test]
async fn the_manual_lists_every_metric_with_its_labels_and_its_unit_and_no_label_is_a_name() -> Tested {
    let (recorder, name) = (DebuggingRecorder::new(), unique("metrics"));
    let seen = Seen::by(&recorder);
    let server = Server::start()?;
    let locks = options().connect(&server.url()).await?;
    let lease = locks.mutex(&name).acquire().await?;
    lease.extend(LONG * 2).await?;
    server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
    server.cli(&["DEL", &name])?;
    assert!(!lease.verify().await?);
    lease.release().await?;

    let recorded = seen.values(|values| {
        let mut recorded = BTreeMap::new();
        for (key, value) in values {
            assert!(!key.contains(&name), "{key}");
            assert!(value.described, "{key} has no description");
            let mut words = key.split(' ').map(|word| word.split('=').next().unwrap_or_default().to_owned());
            let metric = words.next().unwrap_or_default();
            let unit = if value.unit == Some(Unit::Seconds) { "seconds" } else { "count" };
            recorded.insert(metric, (words.collect::<BTreeSet<_>>(), unit.to_owned()));
        }
        recorded
    });
    assert_eq!(recorded, documented());
    Ok(())
}

/// The words in backquotes.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[tokio::test]
async fn every_series_of_a_counter_is_at_0_once_a_manager_is_connected_so_that_its_first_event_is_an_increase() -> Tested
{
    let (metrics, errors) =
        (include_str!("../../../../../docs/metrics.md"), include_str!("../../../../../docs/errors.md"));
    let values = |label: &str| {
        let row = metrics.lines().find_map(|line| line.strip_prefix(&format!("| `{label}` | ")));
        words(row.unwrap_or_default()).map(str::to_owned).collect::<Vec<_>>()
    };
    // A conversion has the code `conflict`, and an acquire never has it.
    let codes = errors.lines().filter(|line| line.starts_with("| `")).filter_map(|line| words(line).next());
    let codes: Vec<_> = codes.filter(|code| *code != "conflict").collect();
    let mut expected: BTreeSet<_> =
        ["renewals", "commands", "reconnects"].map(|name| format!("leasehold_{name}_total")).into();
    expected.extend(["leasehold_held", "leasehold_waiting"].map(str::to_owned));
    expected.extend(values("reason").iter().map(|reason| format!("leasehold_losses_total reason={reason}")));
    for mode in values("mode") {
        expected.extend([true, false].map(|local| acquires("granted", &mode, local)));
        expected.extend(codes.iter().map(|code| acquires(code, &mode, false)));
        expected.insert(format!("leasehold_wait_seconds code=granted mode={mode}"));
    }
    expected.insert(acquires("stored", "once", false));
    assert!(expected.len() > 80, "{expected:?}");

    let recorder = DebuggingRecorder::new();
    let seen = Seen::by(&recorder);
    let _locks = client(shared_server()).await?;
    let begun = seen.values(|values| {
        let begun = values.iter().filter(|(_, value)| value.number == 0.0 && value.times.is_empty());
        begun.map(|(key, _)| key.clone()).collect::<BTreeSet<_>>()
    });
    assert_eq!(begun, expected);
    Ok(())
}
