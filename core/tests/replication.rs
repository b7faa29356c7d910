//! An acquire that waits for replicas gets its lease only after enough of them have confirmed it, and otherwise releases it.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, Config, Error, Failure, Input, Instant, LossReason, NodeId, OpId, Outcome, Part,
    ReleaseOutcome, Replicas, Reply, Scalar, Wait,
};
use leasehold_harness::Client;
use leasehold_harness::answers::{SERVER_US, entries, granting, status, words};

/// A millisecond, in the engine's unit.
const MS: u64 = 1_000;
const ACQUIRE: OpId = OpId(1);

/// A client whose ordinary commands the server answers at once, unless it is told not to.
struct Waiter {
    client: Client,
    /// Whether releases get no answer.
    releases_vanish: bool,
    released: u32,
}

impl Deref for Waiter {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Waiter {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Waiter {
    /// Acquires a lock, for 3 s, and waits at most 500 ms for two replicas.
    fn acquiring() -> Self {
        let mut client = Self::new();
        client.input(Input::Acquire { op: ACQUIRE, name: "job", options: &options(2) });
        client
    }

    fn new() -> Self {
        let mut client = Client::new(Config::default());
        client.now = 0;
        Self { client, releases_vanish: false, released: 0 }
    }

    fn input(&mut self, input: Input<'_>) {
        self.feed(input);
        while let Some((id, command)) = self.unanswered.pop() {
            let common = entries(&command);
            let is_release =
                common.as_ref().map_or(command.words().len() == 13, |entries| entries[0].what == "release");
            self.released += u32::from(is_release);
            if !(is_release && self.releases_vanish) {
                let word = if is_release { "released" } else { "again" };
                let own = || status(word, [SERVER_US + 1, 33, SERVER_US + 1, 3_000, 0, 0]);
                self.reply(id, Ok(common.map_or_else(own, |_| granting(&command, 0))));
            }
        }
        assert!(self.ended.iter().filter(|(op, _)| *op == ACQUIRE).count() < 2, "the call ended twice");
    }

    /// The dedicated connection answers.
    fn answers(&mut self, result: Result<Reply, Failure>) {
        self.input(Input::DedicatedReply { op: ACQUIRE, result });
    }

    fn renewed(&mut self) {
        self.answers(Ok(status("renewed", [1, 1, 0, 3_000, 0, 0])));
    }

    fn confirmed(&mut self, replicas: i64) {
        self.answers(Ok(Reply::One(Scalar::Int(replicas))));
    }

    /// Lets time pass, and wakes the engine whenever it asks for it.
    fn until(&mut self, until: u64) {
        while let Some((at, _)) = self.engine.poll_timeout().filter(|(at, _)| at.as_micros() <= until) {
            self.now = self.now.max(at.as_micros());
            self.input(Input::Wake);
        }
        self.now = until;
    }

    fn result(&self) -> Option<&Result<Outcome, Error>> {
        self.result_of(ACQUIRE)
    }

    fn error(&self) -> &Error {
        match self.result() {
            Some(Err(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    fn reason(&self) -> Option<LossReason> {
        self.lost.last().map(|(.., reason)| *reason)
    }

    /// The words of the commands for the dedicated connection.
    fn asked(&self) -> Vec<Vec<String>> {
        self.dedicated.iter().map(|(_, command)| words(command)).collect()
    }

    /// The call has failed, its lease was released once, and nothing is left.
    fn assert_given_back(&self) {
        assert_eq!((&self.closed[..], self.released), (&[ACQUIRE][..], 1));
        assert!(self.engine.is_idle());
    }
}

fn options(min: u32) -> AcquireOptions {
    let replicas = Some(Replicas { min, timeout: Duration::from_millis(500) });
    AcquireOptions { ttl: Duration::from_secs(3), renew: false, replicas, ..AcquireOptions::default() }
}

#[test]
fn the_caller_gets_the_lease_when_enough_replicas_have_it() {
    let mut client = Waiter::acquiring();
    assert_eq!((client.dedicated.len(), &*client.asked()[0][0], &*client.asked()[0][3]), (1, "EVALSHA", "job"));
    client.renewed();
    assert_eq!(client.asked()[1], ["WAIT", "2", "500"]);
    assert_eq!(client.result(), None, "no replica has confirmed it yet");
    client.confirmed(2);
    assert!(matches!(client.result(), Some(Ok(Outcome::Acquired(_)))), "{:?}", client.result());
    assert_eq!((client.closed.len(), client.released), (1, 0));
}

#[test]
fn a_server_that_does_not_know_the_script_gets_its_text_once() {
    let mut client = Waiter::acquiring();
    let unknown = || Err(Failure::Refused("NOSCRIPT No matching script.".into()));
    client.answers(unknown());
    assert_eq!((client.dedicated.len(), &*client.asked()[1][0]), (2, "EVAL"));
    client.answers(unknown());
    assert_eq!(client.error().code(), "server");
    client.assert_given_back();
}

#[test]
fn too_few_replicas_fail_the_call_and_release_the_lease() {
    let mut client = Waiter::acquiring();
    client.renewed();
    client.until(500 * MS);
    client.confirmed(1);
    let waited = Duration::from_millis(500);
    assert_eq!(*client.error(), Error::NotReplicated { confirmed: 1, wanted: 2, waited });
    client.assert_given_back();
}

#[test]
fn a_server_that_has_not_the_lease_says_that_it_was_lost() {
    for (word, reason) in [("gone", LossReason::Gone), ("taken", LossReason::Taken), ("what", LossReason::Gone)] {
        let mut client = Waiter::acquiring();
        client.answers(Ok(status(word, [0; 6])));
        assert_eq!(*client.error(), Error::Lost(reason), "{word}");
        client.assert_given_back();
    }
}

#[test]
fn a_silent_connection_ends_the_call_in_time() {
    let mut silent = Waiter::acquiring();
    silent.until(1_999 * MS);
    assert_eq!(silent.result(), None);
    silent.until(2_000 * MS);
    assert_eq!((silent.error().code(), silent.now), ("unreachable", 2_000 * MS));
    silent.assert_given_back();

    let mut later = Waiter::acquiring();
    later.renewed();
    later.until(2_499 * MS);
    assert_eq!(later.result(), None);
    later.until(2_500 * MS);
    assert_eq!(later.error().code(), "unreachable");
    later.assert_given_back();
}

#[test]
fn a_release_without_an_answer_does_not_keep_the_caller_waiting() {
    let mut client = Waiter::acquiring();
    client.releases_vanish = true;
    client.renewed();
    client.until(400 * MS);
    client.confirmed(0);
    assert_eq!(client.result(), None, "the lease may still be held");
    client.until(2_500 * MS);
    assert_eq!(client.error().code(), "not-replicated", "500 ms for the replicas and a response timeout");
    client.until(60_000 * MS);
    assert!(client.engine.is_idle());
}

#[test]
fn replies_that_come_late_or_twice_change_nothing() {
    let mut client = Waiter::acquiring();
    client.answers(Err(Failure::Interrupted("broken pipe".into())));
    assert_eq!(client.error().code(), "unreachable");
    client.renewed();
    client.confirmed(2);
    assert_eq!(client.dedicated.len(), 1);
    client.assert_given_back();

    let mut twice = Waiter::acquiring();
    twice.renewed();
    twice.renewed();
    assert_eq!(twice.error().code(), "protocol", "not taken for the answer to WAIT");
    twice.assert_given_back();
}

#[test]
fn a_lease_that_ends_meanwhile_is_never_handed_out() {
    // The process slept. The replicas' answer waits in the socket.
    let mut client = Waiter::acquiring();
    client.renewed();
    client.now = 60_000 * MS;
    client.confirmed(2);
    assert_eq!(*client.error(), Error::Lost(LossReason::Expired));
    assert_eq!(client.closed.len(), 1);
    assert!(client.engine.is_idle());

    let mut revoked = Waiter::acquiring();
    let id = ClientId::from_random([7; 16]);
    let (channel, payload) = (format!("leasehold:{id}"), format!("revoked {id}:1 job"));
    revoked.input(Input::Message { node: NodeId(0), channel: &channel, payload: payload.as_bytes() });
    assert_eq!(revoked.reason(), None, "the caller never had it");
    assert_eq!(*revoked.error(), Error::Lost(LossReason::Revoked));
    assert!(revoked.engine.is_idle());
}

#[test]
fn a_cancelled_call_releases_the_lease() {
    let mut client = Waiter::acquiring();
    client.renewed();
    client.input(Input::Cancel { op: ACQUIRE });
    assert_eq!(*client.error(), Error::Cancelled);
    client.confirmed(2);
    client.assert_given_back();
}

#[test]
fn a_closed_client_hands_out_no_lease() {
    let mut client = Waiter::acquiring();
    client.renewed();
    client.input(Input::Close { op: OpId(9) });
    assert_eq!(*client.error(), Error::Closed);
    client.confirmed(2);
    assert_eq!((client.closed.len(), client.released), (1, 1));
}

#[test]
fn a_client_that_drains_hands_out_no_lease_and_to_no_next_caller() {
    let mut client = Waiter::acquiring();
    client.renewed();
    let waits = AcquireOptions { replicas: None, ..options(1) };
    client.input(Input::Acquire { op: OpId(7), name: "job", options: &waits });
    client.input(Input::Drain { op: OpId(9), grace: Duration::from_secs(60) });
    assert_eq!(*client.error(), Error::Closed);
    assert_eq!(client.result_of(OpId(7)), Some(&Err(Error::Closed)));
    assert_eq!(client.result_of(OpId(9)), Some(&Ok(Outcome::Drained)), "nobody holds anything");
    client.assert_given_back();
    let late = OpId(10);
    client.input(Input::Acquire { op: late, name: "job", options: &options(1) });
    assert_eq!(client.result_of(late), Some(&Err(Error::Closed)));
}

#[test]
fn a_closed_client_hands_no_lease_to_the_next_caller() {
    let mut client = Waiter::acquiring();
    let waits = AcquireOptions { replicas: None, ..options(1) };
    client.input(Input::Acquire { op: OpId(7), name: "job", options: &waits });
    client.input(Input::Close { op: OpId(9) });
    assert_eq!(*client.error(), Error::Closed);
    assert_eq!(client.result_of(OpId(7)), Some(&Err(Error::Closed)));
    assert_eq!(client.result_of(OpId(9)), Some(&Ok(Outcome::Closed { lost: 0, unreleased: 0 })));
    client.assert_given_back();
}

#[test]
fn a_busy_lock_asks_no_replica() {
    let mut client = Waiter::new();
    client.input(Input::Acquire {
        op: OpId(7),
        name: "job",
        options: &AcquireOptions { replicas: None, ..options(1) },
    });
    client.input(Input::Acquire {
        op: ACQUIRE,
        name: "job",
        options: &AcquireOptions { wait: Wait::No, ..options(1) },
    });
    assert_eq!(client.error().code(), "busy");
    assert!(client.dedicated.is_empty());
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_sent() {
    let mut client = Waiter::new();
    client.input(Input::Acquire { op: ACQUIRE, name: "job", options: &options(0) });
    assert!(matches!(client.error(), Error::InvalidOption { field: "wait_for_replicas", .. }));

    for timeout in [Duration::ZERO, Duration::from_secs(61)] {
        let mut client = Waiter::new();
        let replicas = Some(Replicas { min: 1, timeout });
        client.input(Input::Acquire { op: ACQUIRE, name: "job", options: &AcquireOptions { replicas, ..options(1) } });
        assert!(matches!(client.error(), Error::InvalidOption { field: "wait_for_replicas", .. }));
    }

    let mut several = Waiter::new();
    let parts = Part::mutexes(&["a", "b"]);
    several.input(Input::AcquireAll { op: ACQUIRE, parts: &parts, options: &options(1), one_script: false });
    assert_eq!(several.error().code(), "unsupported");
    assert!(several.engine.is_idle());
}

#[test]
fn a_release_after_the_loss_says_how_the_lease_was_lost_as_often_as_it_is_held() {
    let mut client = Waiter::new();
    let mut outcomes = Vec::new();
    client.input(Input::Acquire {
        op: ACQUIRE,
        name: "job",
        options: &AcquireOptions { replicas: None, ..options(1) },
    });
    let grant = client.grant_of(ACQUIRE);
    client.input(Input::Hold { op: OpId(2), lease: grant.lease });
    client.until(4_000 * MS);
    assert_eq!(client.reason(), Some(LossReason::Expired));
    let info = client.engine.lease(grant.lease).expect("it has holds");
    assert_eq!((info.lost, info.holds, info.fence), (Some(LossReason::Expired), 2, grant.fence));
    for op in [3, 4, 5].map(OpId) {
        client.feed(Input::Release { op, lease: grant.lease });
        let Some(Ok(Outcome::Released(outcome))) = client.result_of(op) else { panic!("{:?}", client.ended) };
        outcomes.push((*outcome, client.engine.lease(grant.lease).map_or(0, |lease| lease.holds)));
    }
    let expired = ReleaseOutcome::AlreadyExpired;
    assert_eq!(outcomes, [(expired, 1), (expired, 0), (expired, 0)]);
}

#[test]
fn a_pause_of_our_own_is_not_the_replicas_silence() {
    let mut client = Waiter::acquiring();
    client.now = 2_300 * MS;
    let now = Instant::from_micros(client.now);
    client.engine.catch_up(now);
    client.input(Input::Wake);
    assert_eq!(client.result(), None, "the answer is in the socket");
    client.renewed();
    client.confirmed(2);
    assert!(matches!(client.result(), Some(Ok(Outcome::Acquired(_)))), "{:?}", client.result());
}

#[test]
fn a_close_does_not_count_a_lease_that_its_caller_never_got_as_lost() {
    let mut client = Waiter::acquiring();
    client.renewed();
    let close = OpId(9);
    client.input(Input::Close { op: close });
    assert_eq!(client.error(), &Error::Closed);
    assert_eq!(client.result_of(close), Some(&Ok(Outcome::Closed { lost: 0, unreleased: 0 })));
}
