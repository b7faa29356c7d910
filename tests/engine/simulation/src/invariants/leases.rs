//! The holders of each name, by the clients' own deadlines: at most one valid exclusive lease, and no readers beside
//! it.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::{AcquireOptions, Grant, Instant, Kind, LeaseId, Mode};
use leasehold_harness::Micros;

use super::{Verdict, broken};
use crate::client::Client;
use crate::wire::{Life, Token};

/// A lease from its grant until it is released, lost, or its client is gone.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// The client that has it.
    pub(crate) life: Life,
    /// Its index among the clients.
    pub(crate) client: usize,
    /// The engine's number.
    pub(crate) lease: LeaseId,
    /// The lock.
    pub(crate) name: usize,
    /// What kind of lock it is.
    pub(crate) kind: Kind,
    /// How many permits may be held at once according to its grant.
    pub(crate) allowed: u64,
    /// The mode, as the holder sees it.
    pub(crate) mode: Mode,
    /// Its fence.
    pub(crate) fence: u64,
    /// The deadline by the client's clock.
    pub(crate) valid_until: Instant,
    /// The same in true time.
    pub(crate) until: Micros,
    /// When it was granted.
    pub(crate) since: Micros,
    /// The same by the client's clock.
    pub(crate) since_local: Instant,
    /// The TTL that was asked for.
    pub(crate) ttl: Duration,
    /// How long it was valid at its grant. A lease that was handed over locally may have been granted for another caller,
    /// with a shorter TTL.
    pub(crate) left: Duration,
    /// Whether it is renewed.
    pub(crate) renew: bool,
    /// When it ends at the latest, by the client's clock: its `max_hold`, or the time until which it is kept.
    pub(crate) ends: Option<Instant>,
    /// What is known of it if its holder has moved its end.
    pub(crate) kept: Option<Kept>,
    /// How many holds its holder has.
    pub(crate) holds: u32,
    /// The server has lost its data.
    pub(crate) orphan: bool,
    /// Its token on the server.
    pub(crate) token: Option<Token>,
}

/// A lease whose end its holder has moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// Since when it has needed renewals without a break.
    pub(crate) wanted_since: Micros,
    /// The server has it until then or longer, by the client's clock.
    pub(crate) backed: Instant,
}

/// A lease of another library's client, valid until a true time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForeignHeld {
    /// Which foreign client.
    pub(crate) foreigner: usize,
    /// The lock.
    pub(crate) name: usize,
    /// Until when.
    pub(crate) until: Micros,
    /// The server has lost its data.
    pub(crate) orphan: bool,
}

/// All current leases.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// The engines' leases.
    pub(crate) held: Vec<Held>,
    /// The foreign clients' leases.
    pub(crate) foreign: Vec<ForeignHeld>,
    /// When a client's last lease of a lock ended.
    ended: HashMap<(Life, usize), Micros>,
}

impl Held {
    /// A lease that a client has just been granted. The second time is by its clock. Nothing is known of the server's side.
    pub(crate) fn granted(
        client: &Client,
        place: usize,
        name: usize,
        (since, since_local): (Micros, Instant),
        options: &AcquireOptions,
        grant: &Grant,
    ) -> Self {
        Self {
            life: client.life,
            client: place,
            lease: grant.lease,
            name,
            kind: options.kind,
            allowed: u64::MAX,
            mode: grant.mode,
            fence: grant.fence,
            valid_until: grant.valid_until,
            until: client.clock.when(grant.valid_until.as_micros()),
            since,
            since_local,
            ttl: options.ttl,
            left: grant.valid_until.since(since_local),
            renew: options.renew,
            ends: options.max_hold.map(|most| since_local + most),
            kept: None,
            holds: 1,
            orphan: false,
            token: None,
        }
    }

    /// Its holder moves its end. Nothing changes for a fixed lease, or for one that is over and about to be reported.
    pub(crate) fn keep(&mut self, now: Micros, local: Instant, ends: Instant) {
        if !self.renew || self.valid_until <= local {
            return;
        }
        let wanted = self.ends.is_none_or(|before| self.valid_until < before);
        let since = self.kept.map_or(self.since, |kept| kept.wanted_since);
        let backed = self.kept.map_or(self.valid_until, |kept| kept.backed.max(self.valid_until));
        self.kept = Some(Kept { wanted_since: if wanted { since } else { now }, backed });
        self.ends = Some(ends);
    }

    /// The engine takes it to be valid until then.
    pub(crate) fn validity(&mut self, local: Instant, until: Micros) {
        if let Some(kept) = &mut self.kept {
            // A conversion begins with a new token.
            let anew = local < self.valid_until && self.ends != Some(local);
            kept.backed = if anew { local } else { kept.backed.max(local) };
        }
        (self.valid_until, self.until) = (local, until);
    }
}

impl Leases {
    /// A lease was granted.
    pub(crate) fn grant(&mut self, now: Micros, held: Held) -> Verdict {
        self.held.push(held);
        self.exclude(now, self.held.len() - 1)
    }

    /// A foreign client took the lock.
    pub(crate) fn grant_foreign(&mut self, now: Micros, held: ForeignHeld) -> Verdict {
        self.foreign.retain(|other| other.until > now);
        let other = self.held.iter().find(|other| other.name == held.name && other.until > now && !other.orphan);
        let ForeignHeld { foreigner, orphan, .. } = held;
        self.foreign.push(held);
        match other {
            Some(other) if !orphan => {
                broken("exclusive", format!("foreign client {foreigner} entered beside {other:?}"))
            }
            _ => Ok(()),
        }
    }

    /// A lease's index, if it is held.
    pub(crate) fn find(&self, life: Life, lease: LeaseId) -> Option<usize> {
        self.held.iter().position(|held| held.life == life && held.lease == lease)
    }

    /// The leases of one client.
    pub(crate) fn of(&self, life: Life) -> impl Iterator<Item = &Held> {
        self.held.iter().filter(move |held| held.life == life)
    }

    /// Whether a client has a lease of a lock.
    pub(crate) fn has(&self, life: Life, name: usize) -> bool {
        self.of(life).any(|held| held.name == name)
    }

    /// Whether anybody's lease of a lock is valid now.
    pub(crate) fn any_valid(&self, now: Micros, name: usize) -> bool {
        self.held.iter().any(|held| held.name == name && held.until > now)
            || self.foreign.iter().any(|held| held.name == name && held.until > now)
    }

    /// A lease ended.
    pub(crate) fn end(&mut self, now: Micros, place: usize) -> Held {
        let held = self.held.swap_remove(place);
        self.ended.insert((held.life, held.name), now);
        held
    }

    /// When a client's last lease of a lock ended.
    pub(crate) fn last_held(&self, life: Life, name: usize) -> Micros {
        self.ended.get(&(life, name)).copied().unwrap_or(0)
    }

    /// A client is gone with all its leases.
    pub(crate) fn forget(&mut self, life: Life) {
        self.held.retain(|held| held.life != life);
    }

    /// A lease's deadline or mode has changed.
    pub(crate) fn changed(&mut self, now: Micros, place: usize, change: impl FnOnce(&mut Held)) -> Verdict {
        change(&mut self.held[place]);
        self.exclude(now, place)
    }

    /// The lease excludes others and is excluded by them. A lease whose data the server lost is exempt, because its
    /// holder is notified later.
    fn exclude(&self, now: Micros, place: usize) -> Verdict {
        let new = &self.held[place];
        if new.orphan || new.until <= now {
            return Ok(());
        }
        let clash = |other: &&Held| {
            let excludes = other.mode == Mode::Exclusive || new.mode == Mode::Exclusive;
            let excludes =
                excludes && !matches!((other.kind, new.kind), (Kind::Semaphore { .. }, Kind::Semaphore { .. }));
            let same = other.life == new.life && other.lease == new.lease;
            excludes && !same && other.name == new.name && other.until > now && !other.orphan
        };
        if let Some(other) = self.held.iter().find(clash) {
            return broken("exclusive", format!("{new:?} beside {other:?}"));
        }
        match self.foreign.iter().find(|other| other.name == new.name && other.until > now && !other.orphan) {
            Some(other) => broken("exclusive", format!("{new:?} beside {other:?}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn held(life: Life, mode: Mode, until: Micros) -> Held {
        Held {
            life,
            client: usize::from(life),
            lease: LeaseId(1),
            name: 0,
            kind: Kind::Lock,
            allowed: u64::MAX,
            mode,
            fence: 1,
            valid_until: Instant::from_micros(until),
            until,
            since: 0,
            since_local: Instant::default(),
            ttl: Duration::from_secs(1),
            left: Duration::from_secs(1),
            renew: true,
            ends: None,
            kept: None,
            holds: 1,
            orphan: false,
            token: None,
        }
    }

    #[test]
    fn a_writer_beside_a_valid_lease_is_seen_and_beside_an_expired_one_is_not() {
        let mut leases = Leases::default();
        leases.grant(0, held(1, Mode::Exclusive, 100)).unwrap();
        assert_eq!(leases.grant(99, held(2, Mode::Exclusive, 200)).unwrap_err().invariant, "exclusive");
        let mut leases = Leases::default();
        leases.grant(0, held(1, Mode::Exclusive, 100)).unwrap();
        leases.grant(100, held(2, Mode::Exclusive, 200)).unwrap();
        // A late renewal brings the first one back.
        assert!(leases.changed(150, 0, |held| held.until = 300).is_err());
    }

    #[test]
    fn readers_share_and_exclude_writers() {
        let mut leases = Leases::default();
        leases.grant(0, held(1, Mode::Shared, 100)).unwrap();
        leases.grant(0, held(2, Mode::Shared, 100)).unwrap();
        assert!(leases.changed(50, 1, |held| held.mode = Mode::Exclusive).is_err());
    }

    #[test]
    fn a_foreign_client_is_excluded_and_excludes() {
        let mut leases = Leases::default();
        leases.grant_foreign(0, ForeignHeld { foreigner: 0, name: 0, until: 50, orphan: false }).unwrap();
        assert!(leases.grant(49, held(1, Mode::Shared, 100)).is_err());
        assert!(leases.grant_foreign(60, ForeignHeld { foreigner: 0, name: 0, until: 90, orphan: false }).is_err());
    }
}
