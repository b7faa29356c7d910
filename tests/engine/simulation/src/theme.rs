//! The themes of runs.

listed! {
    /// What a run is about. Each seed draws a theme, and then everything else within it.
    pub enum Theme {
        /// The themes about plain locks, which a seed may draw.
        LOCKS {
            /// A bit of everything, rarely.
            Calm,
            /// Commands and answers are lost, late, duplicated and reordered.
            Network,
            /// Messages are lost, late and duplicated. Subscriptions break. Some hosts have none.
            Messages,
            /// Clients pause, sleep and crash. Everything else works, so delays have tight bounds.
            Clients,
            /// Servers crash, stall, refuse commands and run out of memory.
            Servers,
            /// Servers lose their data.
            Losing,
            /// Many local callers on few locks, short holds.
            Hot,
            /// Mostly readers, and some writers.
            Readers,
            /// Leases are converted all the time.
            Converts,
            /// Clients of other libraries, and a fleet without `mixed_fleet`.
            Foreign,
            /// Clients of other libraries, and a fleet with `mixed_fleet`.
            MixedFleet,
            /// Leases of a few milliseconds.
            Short,
            /// Callers give up all the time, and commands arrive very late.
            GivingUp,
            /// Messages arrive late and twice, and clients pause for longer than their claim windows.
            Stale,
            /// Clients close while their commands and messages are under way, and new clients take their places.
            Closing,
            /// Holders die now and then, and nothing else goes wrong. The first waiter has to find out by itself.
            Deaths,
            /// Readers with very different TTLs, whose renewals come late, and hardly any script call that removes expired
            /// ones.
            Lingering,
            /// Servers forget keys again and again, while commands are slow.
            Evicting,
            /// Slots move for longer than leases last, and nothing else goes wrong.
            Moving,
            /// Callers that come rarely and give up often, for minutes.
            Unhurried,
            /// Many callers, and a small limit of commands in flight. Nothing goes wrong.
            Crowded,
            /// All faults, often.
            Everything,
        }
        /// The themes about the other kinds, which a seed may draw.
        KINDS {
            /// Reentrant locks, under the faults of any of the themes above.
            Reentrant,
            /// Semaphores, under the faults of any of the themes above.
            Semaphore,
        }
        /// The themes that no seed draws. Some seeds run them as well: see `run.rs`.
        BESIDE {
            /// Leases of several names, of any kind, and leases that their holders shorten, on one server whose keys vanish
            /// and whose replicas take over. In some runs no name is ever free. Never drawn; every fourth seed runs it as well.
            Multi,
            /// Locks over several servers, in a run of their own. Never drawn; every eighth seed runs it as well.
            Quorum,
            /// The same with one lock that many want, and servers that are often away for a moment. Never drawn; every
            /// 16th seed runs it as well.
            QuorumHot,
            /// Leases of several names over several servers. Never drawn; every 16th seed runs it as well.
            QuorumNames,
            /// Readers and writers over several servers. Never drawn; every 16th seed runs it as well.
            QuorumReaders,
            /// Leases whose end their holder moves again and again, under the faults of any of the themes above. They are
            /// leases of any kind, of several names, or over several servers. Never drawn; every eighth seed runs it as
            /// well.
            Keeping,
            /// Leases that other clients adopt, under the faults of any of the themes above. Some adoptions come within a
            /// millisecond of a hand-over, and some after their holder's death. In other runs, replicas with slower
            /// clocks take over. Never drawn; every eighth seed runs it as well.
            Adopting,
            /// An election, in a run of its own. Never drawn; every sixteenth seed runs it as well.
            Election,
            /// Callers who want the result of work that is done once, under the faults of any of the themes above. Never drawn;
            /// every sixteenth seed runs it as well.
            Once,
            /// A semaphore with a rate, in a run of its own. Never drawn; every sixteenth seed runs it as well.
            Rate,
            /// Calls that wait behind few others, under the faults of any of the themes above. Never drawn; every sixteenth seed
            /// runs it as well.
            Waiters,
        }
    }
}

impl Theme {
    /// The theme of this name, ignoring case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|theme| format!("{theme:?}").eq_ignore_ascii_case(name))
    }
}
