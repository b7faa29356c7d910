//! A driver that renews a lease only while a caller is present moves the end of the lease.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, CommandId, Config, Engine, Input, Instant, LeaseId, LossReason, OpId, Outcome, Output,
    Reply, Scalar,
};

/// A second, in the engine's unit.
const S: u64 = 1_000_000;

/// A client with one lease of 30 s, granted at 0, by a server that is always well.
struct Holder {
    engine: Engine,
    lease: LeaseId,
    /// When renewals left.
    renewed: Vec<u64>,
    lost: Option<(u64, LossReason)>,
}

impl Holder {
    fn new() -> Self {
        let engine = Engine::new(ClientId::from_random([7; 16]), Config::default()).expect("the defaults are valid");
        let mut holder = Self { engine, lease: LeaseId(0), renewed: Vec::new(), lost: None };
        holder.tell(0, Input::Acquire { op: OpId(1), name: "job", options: &AcquireOptions::default() });
        assert_ne!(holder.lease, LeaseId(0), "granted at once");
        holder
    }

    fn keep(&mut self, at: u64, until: u64) {
        let lease = self.lease;
        self.tell(at, Input::Keep { lease, until: Instant::from_micros(until) });
    }

    /// Lets time pass; wakes the engine whenever it wants to be.
    fn pass(&mut self, until: u64) {
        while let Some((at, _)) = self.engine.poll_timeout().filter(|(at, _)| at.as_micros() <= until) {
            self.tell(at.as_micros(), Input::Wake);
        }
    }

    fn tell(&mut self, at: u64, input: Input<'_>) {
        let now = Instant::from_micros(at);
        self.engine.handle(now, input);
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send { id, command, .. } => self.answer(at, id, command.words().len()),
                Output::Completed { result: Ok(Outcome::Acquired(grant)), .. } => self.lease = grant.lease,
                Output::Lost { reason, .. } => self.lost = Some((at, reason)),
                _ => {}
            }
        }
    }

    /// Renewals are the commands with few words; whatever else is sent is granted.
    fn answer(&mut self, at: u64, id: CommandId, words: usize) {
        let renewal = words < 8;
        if renewal {
            self.renewed.push(at);
        }
        let status = if renewal { "renewed" } else { "entered" };
        let server = i64::try_from(at).expect("small");
        let numbers = [1, 1, server, 30_000, 0, 0].map(Scalar::Int);
        let list = [Scalar::Text(status.into())].into_iter().chain(numbers).collect();
        self.engine.handle(Instant::from_micros(at), Input::Reply { id, result: Ok(Reply::List(list)) });
    }
}

#[test]
fn a_lease_that_is_kept_no_longer_is_not_renewed_and_ends_when_it_was_said() {
    let mut holder = Holder::new();
    holder.keep(0, 25 * S);
    holder.pass(24 * S);
    assert_eq!((holder.renewed.len(), holder.lost), (0, None), "what it has is enough");
    holder.pass(60 * S);
    assert_eq!(holder.lost, Some((25 * S, LossReason::MaxHold)));
}

#[test]
fn a_lease_that_is_kept_again_and_again_is_renewed_at_a_third_of_its_ttl() {
    let mut holder = Holder::new();
    holder.keep(0, 25 * S);
    for at in (5..=100).step_by(5) {
        holder.pass(at * S);
        holder.keep(at * S, (at + 40) * S);
    }
    assert_eq!(holder.lost, None);
    assert!((9..=11).contains(&holder.renewed.len()), "renewed at {:?}", holder.renewed);
    holder.keep(100 * S, 110 * S);
    let renewed = holder.renewed.len();
    holder.pass(200 * S);
    assert_eq!((holder.renewed.len(), holder.lost), (renewed, Some((110 * S, LossReason::MaxHold))));
}

#[test]
fn a_lease_that_was_left_alone_for_long_is_renewed_as_soon_as_it_is_kept() {
    let mut holder = Holder::new();
    holder.keep(0, 29 * S);
    holder.pass(28 * S);
    holder.keep(28 * S, 40 * S);
    holder.pass(28 * S + S / 10);
    assert_eq!(holder.renewed, [28 * S]);
    assert!(holder.engine.valid_until(holder.lease) >= Some(Instant::from_micros(40 * S)));
}

#[test]
fn keeping_a_fixed_lease_or_one_that_is_over_does_nothing() {
    let mut holder = Holder::new();
    holder.tell(S, Input::Release { op: OpId(2), lease: holder.lease });
    holder.keep(2 * S, 100 * S);
    assert!(holder.engine.valid_until(holder.lease).is_none());
    let options = AcquireOptions { renew: false, ttl: Duration::from_secs(10), ..AcquireOptions::default() };
    holder.tell(3 * S, Input::Acquire { op: OpId(3), name: "fixed", options: &options });
    holder.keep(3 * S, 100 * S);
    holder.pass(60 * S);
    assert_eq!(holder.lost, Some((13 * S, LossReason::Expired)));
}
