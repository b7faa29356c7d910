//! Everything that can go wrong, by name.

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A command or its answer takes long.
    Slow,
    /// A command overtakes an earlier one of the same client.
    Reordered,
    /// A command never arrives, and the client hears nothing or that it was interrupted.
    CommandLost,
    /// A command is applied, and its answer is lost.
    ReplyLost,
    /// A command is reported as interrupted, and applied up to 50 s later.
    CommandLate,
    /// A command is applied twice, the second time after the answer to nobody.
    CommandTwice,
    /// A command is not sent, and the client knows it.
    Unavailable,
    /// An answer is delivered twice.
    ReplyTwice,
    /// A message is lost.
    MessageLost,
    /// A message comes late.
    MessageLate,
    /// A message comes twice.
    MessageTwice,
    /// A subscription ends; its client learns it later.
    SubscriptionBreaks,
    /// A wake-up comes late.
    WakeLate,
    /// A wake-up comes before its time.
    WakeEarly,
    /// A wake-up comes twice.
    WakeTwice,
    /// A client's process stands still while time goes on.
    Pause,
    /// A client's machine sleeps: as a pause, and its connections are gone afterwards.
    Suspend,
    /// A client's process dies; another one takes its place.
    Crash,
    /// Nothing passes between one client and one server for a while.
    Partition,
    /// A server dies and comes back with its data.
    ServerCrash,
    /// A server dies and comes back empty, its clock perhaps set back by less than it was away.
    ServerWiped,
    /// FLUSHALL.
    Flush,
    /// One key is evicted, or deleted by somebody.
    Evict,
    /// SCRIPT FLUSH.
    ScriptFlush,
    /// The server is over its memory limit for a while.
    OutOfMemory,
    /// The server refuses PUBLISH for a while.
    PublishRefused,
    /// A slot moves: commands with more than one key are refused with TRYAGAIN for a while.
    Migration,
    /// The server runs nothing for a while, then all that came (CLIENT PAUSE, a slow script, fork).
    Stall,
    /// The server answers LOADING, BUSY, CLUSTERDOWN, MASTERDOWN or READONLY for a while.
    NotReady,
    /// An operator takes a lock from its holder by force, perhaps before its reply has come.
    Forced,
    /// A client of another library takes the lock.
    Foreign,
}

impl Fault {
    /// Every kind, in the order of the table.
    pub const ALL: [Self; 31] = [
        Self::Slow,
        Self::Reordered,
        Self::CommandLost,
        Self::ReplyLost,
        Self::CommandLate,
        Self::CommandTwice,
        Self::Unavailable,
        Self::ReplyTwice,
        Self::MessageLost,
        Self::MessageLate,
        Self::MessageTwice,
        Self::SubscriptionBreaks,
        Self::WakeLate,
        Self::WakeEarly,
        Self::WakeTwice,
        Self::Pause,
        Self::Suspend,
        Self::Crash,
        Self::Partition,
        Self::ServerCrash,
        Self::ServerWiped,
        Self::Flush,
        Self::Evict,
        Self::ScriptFlush,
        Self::OutOfMemory,
        Self::PublishRefused,
        Self::Migration,
        Self::Stall,
        Self::NotReady,
        Self::Forced,
        Self::Foreign,
    ];

    /// How many kinds there are.
    pub const COUNT: usize = Self::ALL.len();

    /// What strikes a single command, message or wake-up with some chance.
    pub const PASSING: [Self; 14] = [
        Self::Slow,
        Self::CommandLost,
        Self::ReplyLost,
        Self::CommandLate,
        Self::CommandTwice,
        Self::Unavailable,
        Self::ReplyTwice,
        Self::MessageLost,
        Self::MessageLate,
        Self::MessageTwice,
        Self::SubscriptionBreaks,
        Self::WakeLate,
        Self::WakeEarly,
        Self::WakeTwice,
    ];

    /// What strikes a client, a link or a server from time to time, and takes no data away.
    pub const STRIKING: [Self; 11] = [
        Self::Pause,
        Self::Suspend,
        Self::Crash,
        Self::Partition,
        Self::ServerCrash,
        Self::ScriptFlush,
        Self::OutOfMemory,
        Self::PublishRefused,
        Self::Migration,
        Self::Stall,
        Self::NotReady,
    ];

    /// What takes the server's data away.
    pub const LOSING: [Self; 3] = [Self::ServerWiped, Self::Flush, Self::Evict];

    /// Its place in tables.
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Fault;

    #[test]
    fn the_list_is_complete_and_in_order() {
        assert!(Fault::ALL.iter().enumerate().all(|(place, fault)| fault.index() == place));
        let listed = Fault::PASSING.len() + Fault::STRIKING.len() + Fault::LOSING.len();
        // Reordered comes of the delays, Foreign of the foreign clients, Forced of grants.
        assert_eq!(listed + 3, Fault::COUNT);
    }
}
