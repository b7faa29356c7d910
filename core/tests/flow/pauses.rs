//! The driver comes late, because the application blocked it or the machine stalled. What the server answered meanwhile is
//! in the socket.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, Config, Engine, Error, Input, Instant, MOST_PAUSES, OpId, Outcome, Part, ReleaseOutcome,
    Replicas, Wait,
};

use super::client::{Client, fixed, tries};

const PAUSE: Duration = Duration::from_secs(10);

/// What the driver has first after the pause.
#[derive(Clone, Copy, Debug)]
enum First {
    Timer,
    Call,
}

fn is_extended_after(client: &mut Client, pause: Duration) {
    client.now += pause.as_micros() as u64;
    client.engine.catch_up(Instant::from_micros(client.now));
}

/// The process was paused, and goes on.
fn pause(client: &mut Client, first: First) {
    is_extended_after(client, PAUSE);
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
    client.feed(Input::AcquireAll {
        op: several,
        parts: &Part::mutexes(&["several"]),
        options: &tries(),
        one_script: false,
    });
    [verify, extend, release, several].into_iter().chain(acquires).collect()
}

#[test]
fn after_a_pause_every_call_gets_the_answer_that_came_in_it() {
    for (first, sent) in [(First::Timer, true), (First::Call, true), (First::Timer, false), (First::Call, false)] {
        let mut client = Client::new(Config::default());
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

/// Begins a call.
type Begin = fn() -> (Client, OpId);

/// How many pauses a call outlasts if nobody answers it, and how many commands have left by its end. The driver notices each
/// pause before several inputs.
fn outlasts(client: &mut Client, op: OpId, inputs: u64) -> (u8, usize) {
    let mut pauses = 0;
    while client.result_of(op).is_none() {
        assert!(pauses < 10, "it never ends");
        is_extended_after(client, PAUSE);
        for _ in 1..inputs {
            is_extended_after(client, Duration::from_millis(1));
        }
        client.feed(Input::Wake);
        pauses += 1;
    }
    (pauses - 1, client.unanswered.len())
}

#[test]
fn a_pause_counts_once_however_many_inputs_and_parts_of_the_engine_hear_of_it() {
    let verify = || {
        let mut client = Client::new(Config::default());
        let (lease, op) = (client.hold(1, fixed())[0], client.next_op());
        client.feed(Input::Verify { op, lease });
        (client, op)
    };
    let waits_for_replicas = || {
        let mut client = Client::new(Config::default());
        let replicas = Some(Replicas { min: 1, timeout: Duration::from_millis(500) });
        let op = client.acquire("replicated", AcquireOptions { replicas, ..fixed() });
        client.feed(Input::Wake);
        client.answer();
        // A pause doesn't move the end of this call, so the engine still wants to be woken in the past.
        client.acquire("tries", tries());
        (client, op)
    };
    let quorum = || {
        let mut client = Client::new(Config::default());
        let id = ClientId::from_random([7; 16]);
        client.engine = Engine::quorum(id, Config::default(), &["a:1", "b:1", "c:1"]).unwrap();
        let op = client.acquire("several servers", tries());
        (client, op)
    };
    // A command that is given up too early is sent again. Heartbeats of the acquires are commands, too.
    let calls: [(&str, Begin, usize); 3] =
        [("one server", verify, 1), ("replicas", waits_for_replicas, 6), ("a quorum", quorum, 15)];
    for (of, begin, commands) in calls {
        for inputs in [1, 5] {
            let (mut client, op) = begin();
            client.feed(Input::Wake);
            let outlasted = outlasts(&mut client, op, inputs);
            assert_eq!(outlasted, (MOST_PAUSES, commands), "{of}, {inputs} inputs: {:?}", client.ended);
        }
    }
}

#[test]
fn a_close_does_not_take_its_callers_own_work_for_the_servers_silence() {
    let mut client = Client::new(Config::default());
    client.hold(1_000, fixed());
    let op = client.call(|op| Input::Close { op });
    // Listeners that work for a while, before the commands leave and before the answers are read.
    for _ in 0..5 {
        is_extended_after(&mut client, Duration::from_millis(2_300));
        client.feed(Input::Wake);
        for _ in 0..client.unanswered.len() {
            client.answer();
        }
    }
    client.serve(Duration::from_micros(10));
    assert_eq!(client.result_of(op), Some(&Ok(Outcome::Closed { lost: 1_000, unreleased: 0 })));
}

#[test]
fn a_lease_ends_by_the_clock_whatever_was_paused() {
    let mut client = Client::new(Config::default());
    let lease = client.hold(1, AcquireOptions { ttl: Duration::from_secs(5), ..fixed() })[0];
    let op = client.call(|op| Input::Verify { op, lease });
    client.feed(Input::Wake);
    pause(&mut client, First::Timer);
    assert!(matches!(client.lost[..], [(lost, ..)] if lost == lease), "{:?}", client.lost);
    assert!(matches!(client.result_of(op), Some(Err(Error::Lost(_)))), "{:?}", client.ended);
    let release = client.next_op();
    client.feed(Input::Release { op: release, lease });
    let expired = Some(&Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)));
    assert_eq!(client.result_of(release), expired);
}
