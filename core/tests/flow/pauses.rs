//! The driver comes late, because the application blocked it or the machine stalled. What the server answered meanwhile is
//! in the socket.

use std::time::Duration;

use leasehold_core::{AcquireOptions, Config, Error, Input, Instant, OpId, Outcome, ReleaseOutcome, Wait};

use super::client::{Client, fixed, tries};

const PAUSE: Duration = Duration::from_secs(10);

/// What the driver has first after the pause.
#[derive(Clone, Copy, Debug)]
enum First {
    Timer,
    Call,
}

fn goes_on_after(client: &mut Client, pause: Duration) {
    client.now += pause.as_micros() as u64;
    client.engine.catch_up(Instant::from_micros(client.now));
}

/// The process was paused, and goes on.
fn pause(client: &mut Client, first: First) {
    goes_on_after(client, PAUSE);
    match first {
        First::Timer => client.feed(Input::Wake),
        First::Call => {
            client.acquire("other", fixed());
        }
    }
}

/// One call of each kind, on a lease or on a name.
fn calls(client: &mut Client) -> Vec<OpId> {
    let leases = client.hold(3, fixed());
    let [verify, extend, release] = [(); 3].map(|()| client.next_op());
    client.feed(Input::Verify { op: verify, lease: leases[0] });
    client.feed(Input::Extend { op: extend, lease: leases[1], ttl: Duration::from_secs(900) });
    client.feed(Input::Release { op: release, lease: leases[2] });
    let within = Some(Duration::from_millis(300));
    let wait = Wait::For(Duration::from_millis(200));
    let acquires = [
        client.acquire("waits", AcquireOptions { wait, ..fixed() }),
        client.acquire("tries", tries()),
        client.acquire("tries in time", AcquireOptions { within, ..tries() }),
    ];
    let several = client.next_op();
    client.feed(Input::AcquireAll { op: several, names: &["several"], options: &tries(), one_script: false });
    [verify, extend, release, several].into_iter().chain(acquires).collect()
}

#[test]
fn after_a_pause_every_call_gets_the_answer_that_came_in_it() {
    for (first, sent) in [(First::Timer, true), (First::Call, true), (First::Timer, false), (First::Call, false)] {
        let mut client = Client::new(Config { batches: false, ..Config::default() });
        let ops = calls(&mut client);
        if sent {
            client.feed(Input::Wake);
        }
        pause(&mut client, first);
        client.serve(Duration::from_millis(1));
        for op in &ops {
            let result = client.result_of(*op);
            assert!(matches!(result, Some(Ok(_))), "{first:?}, sent: {sent}, {op:?}: {result:?}");
        }
    }
}

#[test]
fn a_server_that_stays_silent_after_a_pause_ends_every_call_within_a_response_timeout() {
    let mut client = Client::new(Config::default());
    let ops = calls(&mut client);
    client.feed(Input::Wake);
    pause(&mut client, First::Timer);
    client.pass(Duration::from_secs(2));
    for op in ops {
        assert!(matches!(client.result_of(op), Some(Err(Error::Unreachable { .. }))), "{op:?}");
    }
}

#[test]
fn on_a_machine_that_is_always_late_every_call_ends() {
    let mut client = Client::new(Config::default());
    let ops = calls(&mut client);
    for _ in 0..10 {
        pause(&mut client, First::Timer);
    }
    for op in ops {
        assert!(client.result_of(op).is_some(), "{op:?}");
    }
}

#[test]
fn a_close_does_not_take_its_callers_own_work_for_the_servers_silence() {
    let mut client = Client::new(Config::default());
    client.hold(1_000, fixed());
    let op = client.next_op();
    client.feed(Input::Close { op });
    // Listeners that work for a while, before the commands leave and before the answers are read.
    for _ in 0..5 {
        goes_on_after(&mut client, Duration::from_millis(2_300));
        client.feed(Input::Wake);
        for _ in 0..client.unanswered.len() {
            client.answer();
        }
    }
    client.serve(Duration::from_micros(10));
    assert_eq!(client.result_of(op), Some(&Ok(Outcome::Closed { unreleased: 0 })));
}

#[test]
fn a_lease_ends_by_the_clock_whatever_was_paused() {
    let mut client = Client::new(Config::default());
    let lease = client.hold(1, AcquireOptions { ttl: Duration::from_secs(5), ..fixed() })[0];
    let op = client.next_op();
    client.feed(Input::Verify { op, lease });
    client.feed(Input::Wake);
    pause(&mut client, First::Timer);
    assert_eq!(client.lost, [lease]);
    assert!(matches!(client.result_of(op), Some(Err(Error::Lost(_)))), "{:?}", client.ended);
    let release = client.next_op();
    client.feed(Input::Release { op: release, lease });
    let expired = Some(&Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)));
    assert_eq!(client.result_of(release), expired);
}
