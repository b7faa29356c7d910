//! The watchers of a run, and the first broken promise.

use std::collections::HashMap;

use leasehold_core::LeaseId;
use leasehold_harness::Micros;

use crate::detaching::Detached;
use crate::invariants::blocks::Blocks;
use crate::invariants::commands::Commands;
use crate::invariants::fences::Fences;
use crate::invariants::hand_overs::Hold;
use crate::invariants::keys::{Keys, Longest};
use crate::invariants::leases::{Held, Leases};
use crate::invariants::pace::Pace;
use crate::invariants::permits::{Permits, SemaphoreHolds};
use crate::invariants::polling::Polling;
use crate::invariants::progress::Progress;
use crate::invariants::queue::Queue;
use crate::invariants::results::Results;
use crate::invariants::terms::Terms;
use crate::invariants::tokens::Tokens;
use crate::invariants::waiters::Wanting;
use crate::invariants::{Broken, Verdict};
use crate::mix::Mix;
use crate::wire::{Life, Token};

/// All watchers.
pub(crate) struct Watch {
    pub(crate) leases: Leases,
    /// By name.
    pub(crate) locks: Vec<LockWatch>,
    /// By client and name.
    pub(crate) holds: Vec<Vec<Hold>>,
    /// By client and name.
    pub(crate) commands: Vec<Vec<Commands>>,
    /// By client and name: what a client has of a semaphore.
    pub(crate) semaphores: Vec<Vec<SemaphoreHolds>>,
    /// By client and name: waiters that no script grants.
    pub(crate) polling: Vec<Vec<Polling>>,
    /// The locks that the current client has handed over locally without knowing whether others wait.
    pub(crate) untold: Vec<usize>,
    /// By client.
    pub(crate) paces: Vec<Pace>,
    pub(crate) keys: Keys,
    pub(crate) longest: Longest,
    /// Leases of the current client that must be reported lost before it is done, and the promise that says so.
    pub(crate) doomed: Vec<(LeaseId, &'static str)>,
    /// Clients have so little room for commands that things that otherwise happen at once may take a while.
    crowded: bool,
    /// The current time, and until when any client may have had a full window of commands. Until then, these promises
    /// are relaxed for all clients.
    pub(crate) now: Micros,
    pub(crate) full_until: Micros,
    /// Tokens whose clients have received a revocation.
    pub(crate) revoked: Vec<Token>,
    /// Tokens that an operator or an adopter has taken a lock from.
    pub(crate) forced: Vec<Token>,
    /// Tokens with which clients adopt leases, and when a server last moved a lease to each.
    pub(crate) adopted: HashMap<Token, Micros>,
    /// Leases that clients detach, and the tokens that these get.
    pub(crate) detaching: Vec<Detached>,
    /// The lease that a client is asked to detach at this moment.
    pub(crate) detaches: Option<LeaseId>,
    pub(crate) detached: HashMap<Token, Detached>,
    verdict: Verdict,
}

/// Promises that clients with hardly any room for commands need not keep at once.
const AT_ONCE: [&str; 11] = [
    "left-behind",
    "next-unasked",
    "unheard",
    "asleep",
    "unwoken",
    "heirless",
    "stranded",
    "starved",
    "pause",
    "callers-stale",
    "overadmitted",
];

/// The watchers of one lock.
#[derive(Default)]
pub(crate) struct LockWatch {
    pub(crate) fences: Fences,
    pub(crate) blocks: Blocks,
    pub(crate) queue: Queue,
    pub(crate) terms: Terms,
    pub(crate) tokens: Tokens,
    pub(crate) progress: Progress,
    pub(crate) permits: Permits,
    pub(crate) results: Results,
    pub(crate) wanting: Wanting,
    /// Whether its name has held something that is not such a lock.
    pub(crate) squatted: bool,
    /// When its holders' data was last lost.
    pub(crate) lost_at: Option<Micros>,
    /// Whether the records of its readers were lost while they held.
    pub(crate) readers_lost: bool,
}

impl Watch {
    pub(crate) fn new(names: &[String], clients: usize, mix: &Mix) -> Self {
        let kinds = mix.kinds.iter().copied();
        Self {
            leases: Leases::default(),
            locks: names.iter().map(|_| LockWatch::default()).collect(),
            holds: vec![vec![Hold::default(); names.len()]; clients],
            commands: vec![vec![Commands::default(); names.len()]; clients],
            semaphores: vec![vec![SemaphoreHolds::default(); names.len()]; clients],
            polling: vec![vec![Polling::default(); names.len()]; clients],
            untold: Vec::new(),
            paces: vec![Pace::default(); clients],
            keys: Keys::of(names.iter().map(String::as_str).zip(kinds), mix.cluster),
            longest: Longest { ttl_ms: 0, claim_ms: 0, behind_ms: 0 },
            doomed: Vec::new(),
            crowded: mix.is_crowded(),
            now: 0,
            full_until: 0,
            revoked: Vec::new(),
            forced: Vec::new(),
            detaching: Vec::new(),
            detaches: None,
            detached: HashMap::new(),
            adopted: HashMap::new(),
            verdict: Ok(()),
        }
    }

    /// The leases of a lock that a client's own callers acquired. Those that it adopted have state machines of their own.
    pub(crate) fn of_callers<'a>(
        leases: &'a Leases,
        adopted: &'a HashMap<Token, Micros>,
        life: Life,
        name: usize,
    ) -> impl Iterator<Item = &'a Held> {
        let own = |held: &&Held| held.token.is_none_or(|token| !adopted.contains_key(&token));
        leases.of(life).filter(move |held| held.name == name).filter(own)
    }

    /// Keeps the first broken promise.
    pub(crate) fn check(&mut self, verdict: Verdict) {
        let crowded = self.crowded || self.now < self.full_until;
        let later = |broken: &Broken| crowded && AT_ONCE.contains(&broken.invariant);
        if self.verdict.is_ok() && !verdict.as_ref().is_err_and(later) {
            self.verdict = verdict;
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }

    /// A new client takes a place.
    pub(crate) fn renew_client(&mut self, client: usize) {
        self.holds[client].fill(Hold::default());
        self.commands[client].fill(Commands::default());
        self.semaphores[client].fill(SemaphoreHolds::default());
        self.polling[client].fill(Polling::default());
        self.paces[client] = Pace::default();
    }
}
