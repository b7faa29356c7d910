//! A client in a process of its own. It takes locks, looks at its leases, and writes a line of the history for each thing
//! that it does or that happens to it. `node/worker.mjs` does the same with the npm package.

mod drills;
mod limits;
mod program;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::drill::Drill;
use crate::history::{Share, names};
use crate::limits::Limits;
use crate::topologies::Kind;

pub use program::run;

/// The option `response_timeout` of all workers.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
/// The option `claim_window` of all workers.
pub const CLAIM_WINDOW: Duration = Duration::from_millis(600);
/// The option `node_timeout` of all workers.
pub const NODE_TIMEOUT: Duration = Duration::from_millis(200);
/// The longest TTL of a lease. Fixed leases are shorter.
pub const LONGEST_TTL: Duration = Duration::from_millis(2_000);
/// A process that does nothing for longer than this records it, in microseconds.
pub const TICK_LATE: u64 = 30_000;

/// What a worker is to do: one argument, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// How it reaches the servers.
    pub topology: Kind,
    /// The addresses that it is given: of servers, or of sentinels.
    pub urls: Vec<String>,
    /// Where its choices come from.
    pub seed: u64,
    /// The one job of all workers. They take the locks without it.
    #[serde(default)]
    pub drill: Option<Drill>,
    /// The limits of the drill of that name.
    pub limits: Limits,
    /// The name of the process. In the drill with limits, its client tells it to the server, as its label.
    pub label: String,
    /// How many callers share its manager.
    pub callers: u64,
    /// The locks.
    pub locks: Vec<Target>,
    /// How it breaks the rules. The checker must notice.
    pub lie: Option<Lie>,
}

/// A lock, and which share of it to ask for. The beginning of the name shows the kind: `page` is a read-write lock, and
/// `reentrant` a reentrant one. All others with an exclusive share are mutexes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The lock. Several names are joined by `, `.
    pub name: String,
    /// The share.
    pub share: Share,
}

impl Target {
    /// The locks of a topology. A quorum has neither permits nor reentrant locks, and converts no lease. Several targets can be one lock. One whose name ends in `long`
    /// is held for long, and callers soon give up waiting for it.
    pub fn of(kind: Kind) -> Vec<Self> {
        let target = |name: &str, share| Self { name: name.to_owned(), share };
        let mut targets = vec![
            target("mutex-a", Share::Exclusive),
            target("mutex-a", Share::Exclusive),
            target("mutex-b", Share::Exclusive),
        ];
        if kind == Kind::Quorum {
            targets.extend([
                target("mutex-long", Share::Exclusive),
                target("page-b", Share::Exclusive),
                target("page-b", Share::Shared),
                target("page-b", Share::Shared),
            ]);
        } else {
            targets.extend([
                target("page-a", Share::Exclusive),
                target("page-a", Share::Shared),
                target("page-a", Share::Shared),
                target("page-long", Share::Shared),
                target("permits-a", Share::Permits { permits: 1, limit: 3 }),
                target("permits-a", Share::Permits { permits: 2, limit: 3 }),
                target("reentrant-a", Share::Exclusive),
                target("reentrant-a", Share::Exclusive),
            ]);
        }
        targets.extend([
            // Two slots of a cluster, in both orders. Other callers take these names alone.
            target("mutex-a, mutex-b", Share::Exclusive),
            target("mutex-b, mutex-a", Share::Exclusive),
            // One slot, so one script can take both, unless it is a quorum.
            target("{pair}-a, {pair}-b", Share::Exclusive),
            target("{pair}-b", Share::Exclusive),
        ]);
        targets
    }

    /// One lock that all workers want, so that a worker with a deliberate bug has a victim.
    pub(crate) fn contended(lie: Lie) -> Vec<Self> {
        let name = match lie {
            Lie::KeepsWorking => "mutex-a",
            // The victim still holds it when another worker gets it.
            Lie::FreesOthers => "mutex-long",
            // The drill has its own locks.
            Lie::DoubleLimits => return Vec::new(),
        };
        vec![Self { name: name.to_owned(), share: Share::Exclusive }]
    }

    /// Each name of a topology's locks, once.
    pub fn names(kind: Kind) -> Vec<String> {
        let targets = Self::of(kind);
        let all: BTreeSet<&str> = targets.iter().flat_map(|target| names(&target.name)).collect();
        all.into_iter().map(str::to_owned).collect()
    }

    /// Whether its leases can become exclusive or shared.
    fn can_convert(&self) -> bool {
        self.name == "page-a"
    }

    fn is_reentrant(&self) -> bool {
        self.name.starts_with("reentrant")
    }
}

/// A deliberate bug of a worker, which shows that the checker finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lie {
    /// The worker ignores a loss: it works on after its lease has ended.
    KeepsWorking,
    /// It deletes the key of a lock that another worker holds, as a release that doesn't compare tokens would, and
    /// takes the lock.
    FreesOthers,
    /// It asks for twice the limits.
    DoubleLimits,
}

/// What the harness tells a worker to do: a line of its standard input, as JSON. When the input ends, the worker closes its
/// manager and exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// To do nothing else for this many milliseconds.
    Block(u64),
    /// To kill itself at this moment of its next work.
    Crash(Moment),
}

/// A moment of the work of a `once`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// The work has not done yet what it does.
    BeforeWrite,
    /// It has, and its result is not on its way.
    AfterWrite,
    /// The result is on its way, or it is stored.
    Storing,
}
