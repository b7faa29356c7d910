//! What a run can be about.

/// What a run is about. Each seed draws one; within it, everything else is drawn as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// A bit of everything, seldom.
    Calm,
    /// Commands and answers are lost, late, doubled, reordered.
    Network,
    /// Messages are lost, late, doubled; subscriptions break; some hosts have none.
    Messages,
    /// Clients pause, sleep and crash; all else works, so delays are bounded tightly.
    Clients,
    /// Servers crash, stall, refuse, run out of memory.
    Servers,
    /// Servers lose their data.
    Losing,
    /// Many local callers on few locks, short holds.
    Hot,
    /// Mostly readers, some writers.
    Readers,
    /// Leases are converted all the time.
    Converts,
    /// Clients of other libraries, and a fleet that does not care.
    Foreign,
    /// Clients of other libraries, and a fleet that polls for their sake.
    MixedFleet,
    /// Leases of a few milliseconds.
    Short,
    /// Callers give up all the time, and commands come very late.
    GivingUp,
    /// Messages come late and twice, and clients pause for longer than their claim windows.
    Stale,
    /// Clients close while their commands and messages are under way, and others take their places.
    Closing,
    /// Holders die now and then, and nothing else goes wrong: the head of the queue has to find out by itself.
    Deaths,
    /// Readers of very different lengths, whose renewals come late, and hardly anything that tidies up after them.
    Lingering,
    /// Servers forget keys again and again, while commands are slow.
    Evicting,
    /// Slots move for longer than leases last, and nothing else goes wrong.
    Moving,
    /// Callers who come seldom and give up often, for minutes.
    Unhurried,
    /// Many callers, and hardly any room for their commands. Nothing goes wrong.
    Crowded,
    /// All faults, often.
    Everything,
    /// Reentrant locks, under the faults of any of the above.
    Reentrant,
    /// Semaphores, under the faults of any of the above.
    Semaphore,
    /// Leases of several names, in a world of their own: never drawn, every fourth seed runs it as well.
    Several,
    /// Locks over several servers, in a world of their own: never drawn, every eighth seed runs it as well.
    Quorum,
}

impl Theme {
    /// Every theme that a seed may draw.
    pub const ALL: [Self; 24] = [
        Self::Calm,
        Self::Network,
        Self::Messages,
        Self::Clients,
        Self::Servers,
        Self::Losing,
        Self::Hot,
        Self::Readers,
        Self::Converts,
        Self::Foreign,
        Self::MixedFleet,
        Self::Short,
        Self::GivingUp,
        Self::Stale,
        Self::Closing,
        Self::Deaths,
        Self::Lingering,
        Self::Evicting,
        Self::Moving,
        Self::Unhurried,
        Self::Crowded,
        Self::Everything,
        Self::Reentrant,
        Self::Semaphore,
    ];

    /// Those about plain locks.
    pub(crate) const LOCKS: [Self; 22] = {
        let [locks @ .., _, _] = Self::ALL;
        locks
    };

    /// Those about another kind.
    pub(crate) const KINDS: [Self; 2] = [Self::Reentrant, Self::Semaphore];

    /// The theme of that name, case aside.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .chain([Self::Several, Self::Quorum])
            .find(|theme| format!("{theme:?}").eq_ignore_ascii_case(name))
    }
}
