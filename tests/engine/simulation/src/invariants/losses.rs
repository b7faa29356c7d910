//! Losses: reported in time, once, and never without a cause.

use leasehold_core::{Instant, LossReason};
use leasehold_harness::Micros;

use super::leases::Held;
use super::{Verdict, broken};

/// Since when nothing keeps a client from its servers, and how long it waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calm {
    /// Since when.
    pub(crate) since: Micros,
    /// An answer that counts was requested within this time.
    pub(crate) patience: Micros,
}

/// The engine reported a loss at `now` (`local` by its clock).
pub(crate) fn told(held: &Held, reason: LossReason, now: Micros, local: Instant, calm: Calm) -> Verdict {
    let with = |invariant| broken(invariant, format!("{reason:?} reported at {local:?} for {held:?}"));
    let at_its_end = held.ends.is_some_and(|ends| ends <= local);
    if reason == LossReason::MaxHold && !at_its_end {
        return with("max-hold");
    }
    let outlasted = held.kept.is_some_and(|kept| held.ends.is_some_and(|ends| ends < kept.backed));
    if reason == LossReason::Expired && at_its_end && outlasted {
        return with("max-hold");
    }
    match reason {
        LossReason::MaxHold => Ok(()),
        LossReason::Expired if local < held.valid_until => with("loss-early"),
        LossReason::Expired if needless(held, now, local, calm) => with("loss-needless"),
        LossReason::Gone | LossReason::Taken if local < held.valid_until && !held.orphan => with("loss-early"),
        _ => Ok(()),
    }
}

/// It expired, although there was enough time without faults for more than one renewal.
fn needless(held: &Held, now: Micros, local: Instant, calm: Calm) -> bool {
    let ttl = held.ttl.as_micros() as Micros;
    if ttl < 500_000 {
        return false;
    }
    if !held.renew {
        // A fixed lease lasts its whole time if its renewal at the start can reach the server: there was no fault when
        // the command was sent.
        return calm.since + calm.patience < held.since && now < held.since + ttl - ttl / 50 - 100_000;
    }
    let wanted_since = held.kept.map_or(held.since, |kept| kept.wanted_since);
    let bounded = match (held.ends, held.kept) {
        (Some(ends), Some(_)) => ends <= local,
        (Some(ends), None) => ends < local + held.ttl / 4,
        (None, _) => false,
    };
    !bounded && !held.orphan && calm.since + ttl / 3 < now && wanted_since + ttl / 3 < now
}

/// Once the engine has seen the time, nothing is held past its deadline.
pub(crate) fn overdue<'a>(held: impl Iterator<Item = &'a Held>, local: Instant) -> Verdict {
    for held in held {
        if held.valid_until <= local {
            return broken("loss-late", format!("no loss was reported by {local:?} for {held:?}"));
        }
        if held.ends.is_some_and(|ends| held.valid_until > ends) {
            return broken("max-hold", format!("valid past its end: {held:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_core::Mode;

    use super::super::leases::tests::held;
    use super::*;

    fn calm(since: Micros) -> Calm {
        Calm { since, patience: 100_000 }
    }

    #[test]
    fn an_expiry_after_a_long_calm_is_needless_and_after_trouble_is_not() {
        let mut lease = held(1, Mode::Exclusive, 2_000_000);
        lease.ttl = Duration::from_secs(1);
        let local = lease.valid_until;
        let verdict = told(&lease, LossReason::Expired, 2_000_000, local, calm(1_000_000));
        assert_eq!(verdict.unwrap_err().invariant, "loss-needless");
        told(&lease, LossReason::Expired, 2_000_000, local, calm(1_900_000)).unwrap();
    }

    #[test]
    fn a_fixed_lease_that_ends_early_though_it_was_asked_for_in_peace_is_seen() {
        let mut lease = held(1, Mode::Exclusive, 2_500_000);
        (lease.ttl, lease.renew, lease.since) = (Duration::from_secs(1), false, 2_000_000);
        let local = lease.valid_until;
        let verdict = told(&lease, LossReason::Expired, 2_500_000, local, calm(1_800_000));
        assert_eq!(verdict.unwrap_err().invariant, "loss-needless");
        told(&lease, LossReason::Expired, 2_500_000, local, calm(1_999_000)).unwrap();
    }

    #[test]
    fn a_lease_that_is_gone_before_its_deadline_needs_a_cause() {
        let mut lease = held(1, Mode::Exclusive, 2_000_000);
        let early = Instant::from_micros(1_000_000);
        assert_eq!(told(&lease, LossReason::Gone, 0, early, calm(0)).unwrap_err().invariant, "loss-early");
        lease.orphan = true;
        told(&lease, LossReason::Gone, 0, early, calm(0)).unwrap();
    }

    #[test]
    fn a_lease_that_ends_before_it_is_said_to_or_under_another_reason_is_seen() {
        let at = Instant::from_micros;
        let mut lease = held(1, Mode::Exclusive, 2_000_000);
        lease.keep(0, at(0), at(1_500_000));
        let lost =
            |lease: &Held, reason, local| told(lease, reason, local, at(local), calm(local)).map_err(|it| it.invariant);
        assert_eq!(lost(&lease, LossReason::MaxHold, 1_499_999), Err("max-hold"));
        assert_eq!(lost(&lease, LossReason::MaxHold, 1_500_000), Ok(()));
        lease.validity(at(1_500_000), 1_500_000);
        assert_eq!(lost(&lease, LossReason::Expired, 1_500_000), Err("max-hold"));
        // Its own time and the time that the server gave it may end together.
        lease.keep(0, at(0), at(2_000_000));
        lease.validity(at(2_000_000), 2_000_000);
        assert_eq!(lost(&lease, LossReason::Expired, 2_000_000), Ok(()));
        assert_eq!(lost(&held(1, Mode::Exclusive, 2_000_000), LossReason::MaxHold, 2_000_000), Err("max-hold"));
    }

    #[test]
    fn a_kept_lease_that_expires_although_nothing_kept_it_from_renewals_is_seen() {
        let at = Instant::from_micros;
        let mut lease = held(1, Mode::Exclusive, 1_000_000);
        let expires = |lease: &Held| told(lease, LossReason::Expired, 1_000_000, at(1_000_000), calm(0)).is_err();
        lease.keep(100_000, at(100_000), at(1_000_000));
        assert!(!expires(&lease), "it is kept until then");
        lease.keep(800_000, at(800_000), at(9_000_000));
        assert!(!expires(&lease), "too late for a renewal");
        lease.keep(900_000, at(900_000), at(1_000_000));
        lease.keep(100_000, at(100_000), at(9_000_000));
        assert!(expires(&lease));
    }

    #[test]
    fn a_deadline_that_passed_untold_is_seen() {
        let lease = held(1, Mode::Exclusive, 2_000_000);
        assert!(overdue([&lease].into_iter(), Instant::from_micros(1_999_999)).is_ok());
        assert!(overdue([&lease].into_iter(), lease.valid_until).is_err());
    }
}
