//! The faults of a seed. Each topology has two sequences of them: one strikes clients, the other strikes servers and
//! connections. The sequences run side by side until the time is over. A seed always gives the same sequences. When each
//! fault begins depends on how long the ones before it take on this machine.

use std::fmt;
use std::time::Duration;

use leasehold_harness::Rng;

use crate::drill::Drill;
use crate::topologies::Kind;
use crate::worker::Moment;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Kills a client's process (SIGKILL). Another one takes its place.
    Kill,
    /// Pauses a client's process (SIGSTOP, SIGCONT).
    Pause,
    /// Asks a client's process to close its manager and to exit. Another one takes its place.
    Leave,
    /// Sends a client's process SIGTERM, and waits until it has exited. Another one takes its place.
    Terminate,
    /// Blocks a client's event loop, or its runtime in Rust.
    Block,
    /// Lets a client's process kill itself at this moment of its next work of a `once`. Another one takes its place.
    Crash(Moment),
    /// `CLIENT KILL` for all connections of clients to a server.
    ClientKill,
    /// `CLIENT PAUSE` on a server.
    ClientPause,
    /// Pauses a server's process.
    ServerPause,
    /// Kills a server that writes every command to a file, and starts it again with this data.
    Restart,
    /// `FLUSHALL`.
    Wipe,
    /// Promotes the replica by `REPLICAOF NO ONE` and leads the clients there, without waiting for it to catch up.
    Failover,
    /// `SENTINEL FAILOVER`.
    SentinelFailover,
    /// Pauses the primary until Sentinel has replaced it. It wakes up as a primary.
    PrimaryPause,
    /// Kills the primary until it has been replaced.
    PrimaryKill,
    /// `CLUSTER FAILOVER`: a replica takes over after it has caught up.
    ShardFailover,
    /// Moves a lock's slot to another server.
    MoveSlot,
    /// Kills a server of a quorum, and starts it again, empty, after all leases that it knew have ended.
    MemberDown,
    /// Pauses a majority of a quorum.
    MajorityPause,
    /// The connections carry everything later.
    Delay,
    /// The connections swallow everything. They break when it is over.
    Drop,
    /// The connections break in the middle of a reply.
    Halve,
    /// A middlebox sends requests a second time, a little later and over connections of its own.
    Duplicate,
}

impl Fault {
    /// The kind's name in histories and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Leave => "leave",
            Self::Terminate => "terminate",
            Self::Block => "block",
            Self::Crash(Moment::BeforeWrite) => "crash-before-write",
            Self::Crash(Moment::AfterWrite) => "crash-after-write",
            Self::Crash(Moment::Storing) => "crash-while-storing",
            Self::ClientKill => "client-kill",
            Self::ClientPause => "client-pause",
            Self::ServerPause => "server-pause",
            Self::Restart => "restart",
            Self::Wipe => "wipe",
            Self::Failover => "failover",
            Self::SentinelFailover => "sentinel-failover",
            Self::PrimaryPause => "primary-pause",
            Self::PrimaryKill => "primary-kill",
            Self::ShardFailover => "shard-failover",
            Self::MoveSlot => "move-slot",
            Self::MemberDown => "member-down",
            Self::MajorityPause => "majority-pause",
            Self::Delay => "delay",
            Self::Drop => "drop",
            Self::Halve => "halve",
            Self::Duplicate => "duplicate",
        }
    }

    /// The faults that strike clients.
    pub const CLIENTS: [Self; 4] = [Self::Kill, Self::Pause, Self::Pause, Self::Leave];

    /// The faults that strike the servers and connections of a topology.
    pub const fn of_servers(kind: Kind) -> &'static [Self] {
        use Fault::{
            ClientKill, ClientPause, Delay, Drop, Duplicate, Failover, Halve, MajorityPause, MemberDown, MoveSlot,
            PrimaryKill, PrimaryPause, Restart, SentinelFailover, ServerPause, ShardFailover, Wipe,
        };
        match kind {
            Kind::Single => {
                &[ClientKill, ClientPause, ServerPause, Restart, Wipe, Failover, Delay, Drop, Halve, Duplicate]
            }
            Kind::Sentinel => {
                &[ClientKill, ClientPause, ServerPause, Wipe, SentinelFailover, PrimaryPause, PrimaryKill]
            }
            Kind::Cluster => {
                &[ClientKill, ClientPause, ServerPause, Wipe, ShardFailover, PrimaryKill, MoveSlot, MoveSlot]
            }
            Kind::Quorum => {
                &[ClientKill, ClientPause, ServerPause, MemberDown, MajorityPause, Delay, Drop, Halve, Duplicate]
            }
        }
    }

    /// How long the fault lasts, in milliseconds. A failover takes as long as it takes.
    const fn lasts(self) -> (u64, u64) {
        match self {
            // Beyond the shortest TTL, and often within the longest.
            Self::Pause | Self::Block | Self::ClientPause | Self::ServerPause | Self::Drop => (100, 2_500),
            Self::Restart => (10, 1_500),
            Self::MoveSlot => (50, 1_000),
            Self::Delay | Self::Duplicate | Self::Halve => (500, 2_000),
            Self::MajorityPause => (300, 2_500),
            _ => (0, 0),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A fault of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How long nothing strikes before it. Some promises are about calm times.
    pub calm: Duration,
    /// What strikes.
    pub fault: Fault,
    /// How long it lasts.
    pub lasts: Duration,
    /// Chooses what it strikes.
    pub pick: usize,
}

/// An endless sequence of faults. Each kind comes once before any comes again.
#[derive(Clone, Debug)]
pub struct Plan {
    rng: Rng,
    kinds: &'static [Fault],
    bag: Vec<Fault>,
    calm: (u64, u64),
}

impl Plan {
    /// The faults that strike clients.
    pub fn of_clients(seed: u64, drill: Option<Drill>) -> Self {
        let kinds = drill.map_or(&Fault::CLIENTS[..], Drill::client_faults);
        Self { rng: Rng::new(seed), kinds, bag: Vec::new(), calm: (300, 2_500) }
    }

    /// The faults that strike servers and connections.
    pub fn of_servers(seed: u64, kind: Kind, drill: Option<Drill>) -> Self {
        let kinds = drill.map_or(Fault::of_servers(kind), Drill::server_faults);
        let calm = drill.map_or((700, 3_000), Drill::calm);
        Self { rng: Rng::new(seed ^ 0x5e17_e125), kinds, bag: Vec::new(), calm }
    }
}

impl Iterator for Plan {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.bag.is_empty() {
            self.bag.extend(self.kinds);
        }
        let fault = self.bag.swap_remove(self.rng.below(self.bag.len() as u64) as usize);
        let calm = Duration::from_millis(self.rng.range(self.calm));
        let lasts = Duration::from_millis(self.rng.range(fault.lasts()));
        let pick = self.rng.below(1 << 30) as usize;
        Some(Step { calm, fault, lasts, pick })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_plan_and_another_seed_another_one() {
        for kind in Kind::ALL {
            let plan = |seed| Plan::of_servers(seed, kind, None).take(50).collect::<Vec<_>>();
            assert_eq!(plan(7), plan(7));
            assert_ne!(plan(7), plan(8));
        }
    }

    #[test]
    fn each_kind_comes_before_any_comes_again() {
        for kind in Kind::ALL {
            let kinds = Fault::of_servers(kind);
            let first: Vec<Fault> = Plan::of_servers(1, kind, None).take(kinds.len()).map(|step| step.fault).collect();
            assert!(kinds.iter().all(|fault| first.contains(fault)), "{kind}: {first:?}");
        }
    }
}
