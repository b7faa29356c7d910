//! What is explored: the clients, what their users do, and which options they have.

use std::time::Duration;

use leasehold_core::{AcquireOptions, Config, Kind, Mode, Wait};

use crate::clock::Micros;

/// The TTL of each lease. A holder renews it after a third.
pub(crate) const TTL: Duration = Duration::from_secs(3);
/// How long a grant is kept for a waiter, which sends a heartbeat every third of it.
pub(crate) const CLAIM_WINDOW: Duration = Duration::from_millis(2_400);
/// How long an answer may take.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_millis(400);
/// How long a lease lingers.
pub(crate) const LINGER: Duration = Duration::from_millis(500);
/// The longest that a user keeps a lease: long enough for a renewal that fails.
const LONGEST_HOLD: Micros = 1_500_000;
/// The same, if nothing but renewals keeps the lease.
const BEYOND_TTL: Micros = 3_500_000;

/// What a lease is made shorter to.
const SHORT: Duration = Duration::from_secs(1);

/// One thing that a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// Acquire the lock and wait for it. The next steps follow once it is held.
    Acquire(Mode),
    /// Acquire the lock without waiting.
    Try(Mode),
    /// Give up the wait, unless it is over.
    Cancel,
    /// Convert the lease to the other mode.
    Convert(Mode),
    /// Make the lease end after this time.
    Shorten(Duration),
    /// Give the lease back. In an election, that is to resign.
    Release,
    /// Give the lease back with the result of the work.
    Store,
    /// Delete the result.
    Forget,
    /// Campaign. The next steps follow once the client leads.
    Campaign,
    /// Observe the election until everything else is over.
    Observe,
    /// Detach the lease for a time, or for another TTL.
    Detach(Option<Duration>),
    /// Adopt the lease that was detached, once there is one.
    Adopt,
    /// Let the client drain, for this time at most.
    Drain(Duration),
    /// Close the client.
    Close,
}

impl Action {
    /// Whether it needs no lease.
    pub(crate) const fn begins(&self) -> bool {
        matches!(
            self,
            Self::Acquire(_)
                | Self::Try(_)
                | Self::Forget
                | Self::Campaign
                | Self::Observe
                | Self::Adopt
                | Self::Drain(_)
                | Self::Close
        )
    }
}

/// What the users of each client do, one list for each user.
type Users = &'static [&'static [Action]];

/// One set of clients with their users.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) clients: &'static [Users],
    pub(crate) kind: Kind,
    /// Whether commands try the fast path and share batches, as the drivers have it.
    pub(crate) batches: bool,
    /// Whether a client that no longer exists holds the lock at first, for one TTL.
    pub(crate) held_at_first: bool,
    /// Whether clients keep a lease for a while that nobody holds any more.
    pub(crate) lingers: bool,
    /// How many local hand-overs a client may make while others wait. The server reserves a fence for each.
    pub(crate) local_handoffs: u32,
    /// How long a user may hold the lock, if it sets a limit.
    pub(crate) max_hold: Option<Duration>,
    /// The longest that a user keeps a lease.
    pub(crate) longest_hold: Micros,
}

use Action::{
    Acquire, Adopt, Campaign, Cancel, Close, Convert, Detach, Drain, Forget, Observe, Release, Shorten, Store, Try,
};
use Mode::{Exclusive, Shared};

const WRITER: &[Action] = &[Acquire(Exclusive), Release];
const READER: &[Action] = &[Acquire(Shared), Release];
const TWICE: &[Action] = &[Acquire(Exclusive), Release, Acquire(Exclusive), Release];

const DOWNGRADER: &[Action] = &[Acquire(Exclusive), Convert(Shared), Release];

/// The default of [`Config`].
const LOCAL_HANDOFFS: u32 = 32;

const fn scenario(name: &'static str, clients: &'static [Users], about: &'static str) -> Scenario {
    Scenario {
        name,
        about,
        clients,
        kind: Kind::Lock,
        batches: true,
        held_at_first: false,
        lingers: false,
        local_handoffs: LOCAL_HANDOFFS,
        max_hold: None,
        longest_hold: LONGEST_HOLD,
    }
}

/// A once, whose result is kept for longer than any run.
const fn once(name: &'static str, clients: &'static [Users], about: &'static str) -> Scenario {
    Scenario { kind: Kind::Once { keep: Duration::from_secs(3_600) }, ..scenario(name, clients, about) }
}

const fn election(name: &'static str, clients: &'static [Users], about: &'static str) -> Scenario {
    Scenario { kind: Kind::Election, ..scenario(name, clients, about) }
}

const WORKER: &[Action] = &[Acquire(Exclusive), Store];
/// Its work fails first.
const FAILING: &[Action] = &[Acquire(Exclusive), Release, Acquire(Exclusive), Store];
const FORGETTING: &[Action] = &[Acquire(Exclusive), Store, Forget, Acquire(Exclusive), Store];

const CANDIDATE: &[Action] = &[Campaign, Release];
const OBSERVER: &[Action] = &[Observe];

const DETACHER: &[Action] = &[Acquire(Exclusive), Detach(None)];
const ADOPTER: &[Action] = &[Adopt, Release];

const DRAINER: &[Action] = &[Drain(BRIEF), Close];
const PATIENT_DRAINER: &[Action] = &[Drain(Duration::from_secs(30)), Close];
/// Not long enough for every holder.
const BRIEF: Duration = Duration::from_secs(1);

/// All scenarios. The first ones are the cheapest.
pub(crate) const ALL: &[Scenario] = &[
    scenario("writers", &[&[WRITER], &[WRITER]], "two clients want a mutex"),
    Scenario {
        batches: false,
        ..scenario("writers-slow-path", &[&[WRITER], &[WRITER]], "the same, each command alone")
    },
    scenario("reader-writer", &[&[READER], &[WRITER]], "a reader and a writer"),
    scenario("readers", &[&[READER], &[READER]], "two readers"),
    Scenario {
        held_at_first: true,
        ..scenario("crashed-holder", &[&[WRITER], &[WRITER]], "two clients wait for a holder that is gone")
    },
    scenario("twice", &[&[TWICE], &[WRITER]], "one of two clients wants a mutex twice"),
    scenario("two-users", &[&[WRITER, WRITER], &[WRITER]], "one of two clients has two users, and hands over locally"),
    Scenario {
        batches: false,
        ..scenario("two-users-slow-path", &[&[WRITER, WRITER], &[WRITER]], "the same, each command alone")
    },
    scenario(
        "gives-up",
        &[&[&[Acquire(Exclusive), Cancel, Release]], &[WRITER]],
        "one of two clients may give up its wait",
    ),
    scenario("tries", &[&[&[Try(Exclusive), Release]], &[WRITER]], "one of two clients doesn't wait"),
    scenario("downgrade", &[&[DOWNGRADER], &[READER]], "a writer becomes a reader, beside a reader"),
    scenario(
        "upgrade",
        &[&[&[Acquire(Shared), Convert(Exclusive), Release]], &[READER]],
        "a reader becomes a writer, beside a reader",
    ),
    scenario(
        "shorten",
        &[&[&[Acquire(Exclusive), Shorten(SHORT), Release]], &[WRITER]],
        "a writer makes its lease shorter, beside a writer",
    ),
    scenario(
        "shorten-reader",
        &[&[&[Acquire(Shared), Shorten(SHORT), Release], READER], &[WRITER]],
        "a reader makes its lease shorter, beside a reader of its client and a writer",
    ),
    Scenario {
        lingers: true,
        ..scenario(
            "lingers",
            &[&[WRITER], &[WRITER]],
            "each client keeps its lease for half a second after its release",
        )
    },
    Scenario {
        lingers: true,
        ..scenario(
            "lingers-tries",
            &[&[WRITER], &[&[Try(Exclusive), Release, Try(Exclusive), Release]]],
            "a client keeps its lease after its release, and another one tries",
        )
    },
    Scenario {
        held_at_first: true,
        ..scenario(
            "gives-up-first",
            &[&[&[Acquire(Exclusive), Cancel, Release]], &[WRITER]],
            "a holder is gone, and one of two waiting clients may give up",
        )
    },
    scenario(
        "two-users-downgrade",
        &[&[WRITER, DOWNGRADER], &[WRITER]],
        "a client hands its lease over locally, and a writer becomes a reader",
    ),
    Scenario {
        local_handoffs: 1,
        ..scenario(
            "refills",
            &[&[TWICE, TWICE], &[WRITER]],
            "a client hands its lease over more often than it has fences for",
        )
    },
    Scenario {
        max_hold: Some(Duration::from_secs(1)),
        ..scenario("max-hold", &[&[WRITER, WRITER], &[READER]], "no lease lasts for longer than a second")
    },
    once("once", &[&[WORKER], &[WORKER]], "two clients want the result of some work"),
    once("once-fails", &[&[FAILING], &[WORKER]], "the work of one of two clients fails at first"),
    once("once-two-users", &[&[WORKER, WORKER], &[WORKER]], "one of two clients has two users that want the result"),
    once("once-forget", &[&[FORGETTING], &[WORKER]], "a client deletes the result, and wants a new one"),
    election("election", &[&[CANDIDATE], &[CANDIDATE]], "two clients want to lead"),
    Scenario {
        longest_hold: BEYOND_TTL,
        ..election("observer", &[&[CANDIDATE], &[OBSERVER]], "a client leads, and another one observes")
    },
    election("observer-closes", &[&[CANDIDATE], &[OBSERVER, DRAINER]], "the same, and the observer's client is closed"),
    election("election-observed", &[&[CANDIDATE], &[CANDIDATE, OBSERVER]], "one of two candidates observes"),
    scenario("detach", &[&[DETACHER], &[WRITER]], "a client detaches its lease, and another one waits"),
    scenario(
        "detach-briefly",
        &[&[&[Acquire(Exclusive), Detach(Some(SHORT))]], &[WRITER]],
        "a client detaches its lease for a second, and another one waits",
    ),
    scenario("adopt", &[&[DETACHER], &[ADOPTER]], "a client adopts the lease that another one detaches"),
    scenario(
        "adopt-closed",
        &[&[&[Acquire(Exclusive), Detach(None), Close]], &[ADOPTER]],
        "the same, and the first client is closed",
    ),
    scenario("adopt-twice", &[&[DETACHER, ADOPTER], &[ADOPTER]], "two clients want to adopt a lease"),
    Scenario {
        longest_hold: BEYOND_TTL,
        ..scenario("drain", &[&[WRITER, PATIENT_DRAINER], &[WRITER]], "a client drains, and its user goes on")
    },
    scenario("drain-briefly", &[&[WRITER, DRAINER], &[WRITER]], "a client drains, but not for long enough"),
    Scenario {
        lingers: true,
        ..scenario("drain-lingers", &[&[WRITER, DRAINER], &[WRITER]], "a client whose lease lingers drains")
    },
    scenario("three", &[&[WRITER], &[WRITER], &[WRITER]], "three clients want a mutex"),
    scenario("three-mixed", &[&[READER], &[READER], &[WRITER]], "two readers and a writer"),
];

impl Scenario {
    /// The scenario with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|scenario| scenario.name == name)
    }

    /// The options of each client.
    pub(crate) fn config(&self) -> Config {
        Config {
            claim_window: CLAIM_WINDOW,
            response_timeout: RESPONSE_TIMEOUT,
            batches: self.batches,
            local_handoffs: Some(self.local_handoffs),
            ..Config::default()
        }
    }

    /// Whether a user does something like this.
    pub(crate) fn has(&self, is_it: impl Fn(&Action) -> bool) -> bool {
        self.clients.iter().flat_map(|users| users.iter()).flat_map(|actions| actions.iter()).any(is_it)
    }

    /// Whether it is about more than locks that are acquired and given back: a once, an election, leases that go from client
    /// to client, or clients that drain.
    #[cfg(test)]
    pub(crate) fn is_of_a_task(&self) -> bool {
        self.kind != Kind::Lock || self.has(|action| matches!(action, Detach(_) | Drain(_)))
    }

    /// Whether a lease ends by its time although its holder goes on.
    pub(crate) fn shortens(&self) -> bool {
        self.has(|action| matches!(action, Shorten(_)))
    }

    /// How much longer than its holder believes a lease is on the server. A loss is reported 5 % of the TTL or 50 ms before
    /// the end, and some time is left for clocks that drift apart. A lease with a limit may be renewed for a short time, and
    /// a lease that becomes shorter may be asked for again.
    pub(crate) fn margin(&self) -> Micros {
        if self.max_hold.is_some() || self.shortens() { 2_000 } else { 55_000 }
    }

    /// The options of an acquire.
    pub(crate) fn options(&self, mode: Mode, wait: Wait) -> AcquireOptions {
        let linger = self.lingers.then_some(LINGER);
        AcquireOptions {
            kind: self.kind,
            mode,
            wait,
            ttl: TTL,
            linger,
            max_hold: self.max_hold,
            ..AcquireOptions::default()
        }
    }
}
