//! A driver that renews a lease only while a caller is present moves the end of the lease.

use std::time::Duration;

use leasehold_core::{AcquireOptions, Config, Input, Instant, LeaseId, LossReason, OpId};
use leasehold_harness::Client;
use leasehold_harness::answers::words;

/// A second, in the engine's unit.
const S: u64 = 1_000_000;

/// A client with one lease of 30 s, granted at 0, by a server that is always well.
struct Holder {
    client: Client,
    lease: LeaseId,
    /// When renewals left.
    renewed: Vec<u64>,
}

impl Holder {
    fn new() -> Self {
        let mut client = Client::new(Config::default());
        client.now = 0;
        let lease = client.hold(1, AcquireOptions::default())[0];
        Self { client, lease, renewed: Vec::new() }
    }

    fn keep(&mut self, at: u64, until: u64) {
        let lease = self.lease;
        self.tell(at, Input::Keep { lease, until: Instant::from_micros(until) });
    }

    /// Lets time pass; wakes the engine whenever it wants to be.
    fn pass(&mut self, until: u64) {
        while let Some((at, _)) = self.client.engine.poll_timeout().filter(|(at, _)| at.as_micros() <= until) {
            self.tell(at.as_micros(), Input::Wake);
        }
    }

    fn tell(&mut self, at: u64, input: Input<'_>) {
        self.client.now = at;
        self.client.feed(input);
        while !self.client.unanswered.is_empty() {
            if words(&self.client.answer())[1] == leasehold_lua::RENEW.sha1 {
                self.renewed.push(at);
            }
        }
    }

    fn lost(&self) -> Option<(u64, LossReason)> {
        self.client.lost.last().map(|(_, at, reason)| (*at, *reason))
    }
}

#[test]
fn a_lease_that_is_kept_no_longer_is_not_renewed_and_ends_when_it_was_said() {
    let mut holder = Holder::new();
    holder.keep(0, 25 * S);
    holder.pass(24 * S);
    assert_eq!((holder.renewed.len(), holder.lost()), (0, None), "what it has is enough");
    holder.pass(60 * S);
    assert_eq!(holder.lost(), Some((25 * S, LossReason::MaxHold)));
}

#[test]
fn a_lease_that_is_kept_again_and_again_is_renewed_at_a_third_of_its_ttl() {
    let mut holder = Holder::new();
    holder.keep(0, 25 * S);
    for at in (5..=100).step_by(5) {
        holder.pass(at * S);
        holder.keep(at * S, (at + 40) * S);
    }
    assert_eq!(holder.lost(), None);
    assert!((9..=11).contains(&holder.renewed.len()), "renewed at {:?}", holder.renewed);
    holder.keep(100 * S, 110 * S);
    let renewed = holder.renewed.len();
    holder.pass(200 * S);
    assert_eq!((holder.renewed.len(), holder.lost()), (renewed, Some((110 * S, LossReason::MaxHold))));
}

#[test]
fn a_lease_that_was_left_alone_for_long_is_renewed_as_soon_as_it_is_kept() {
    let mut holder = Holder::new();
    holder.keep(0, 29 * S);
    holder.pass(28 * S);
    holder.keep(28 * S, 40 * S);
    holder.pass(28 * S + S / 10);
    assert_eq!(holder.renewed, [28 * S]);
    assert!(holder.client.engine.valid_until(holder.lease) >= Some(Instant::from_micros(40 * S)));
}

#[test]
fn keeping_a_fixed_lease_or_one_that_is_over_does_nothing() {
    let mut holder = Holder::new();
    holder.tell(S, Input::Release { op: OpId(2), lease: holder.lease });
    holder.keep(2 * S, 100 * S);
    assert!(holder.client.engine.valid_until(holder.lease).is_none());
    let options = AcquireOptions { renew: false, ttl: Duration::from_secs(10), ..AcquireOptions::default() };
    holder.tell(3 * S, Input::Acquire { op: OpId(3), name: "fixed", options: &options });
    holder.keep(3 * S, 100 * S);
    holder.pass(60 * S);
    // Its own 10 s, less what clocks may differ by, and the margin for a late timer.
    assert_eq!(holder.lost(), Some((12_848_000, LossReason::Expired)));
}
