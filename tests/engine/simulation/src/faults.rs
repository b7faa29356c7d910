//! Everything that can go wrong, by name.

listed! {
    /// One kind of fault.
    pub enum Fault {
        /// Faults that strike a single command, message or wake-up by chance.
        SINGLE {
            /// A command or its answer is slow.
            Slow,
            /// A command never arrives, and the client hears nothing, or that it was interrupted.
            CommandLost,
            /// A command is applied, and its answer is lost.
            ReplyLost,
            /// A command gets no answer, and is applied up to 50 s later.
            CommandLate,
            /// A command is applied twice. Either both copies arrive before the answer, or the client gets no answer and the
            /// second copy arrives up to 50 s later.
            CommandTwice,
            /// A command is not sent, and the client knows.
            Unavailable,
            /// An answer is delivered twice.
            ReplyTwice,
            /// A message is lost.
            MessageLost,
            /// A message arrives late.
            MessageLate,
            /// A message arrives twice.
            MessageTwice,
            /// A subscription ends, and its client finds out later.
            SubscriptionBreaks,
            /// A wake-up comes late.
            WakeLate,
            /// A wake-up comes before its time.
            WakeEarly,
            /// A wake-up comes twice.
            WakeTwice,
        }
        /// Faults that strike a client, a link or a server from time to time, and lose no data.
        STRIKING {
            /// A client's process stands still while time goes on.
            Pause,
            /// A client's machine sleeps: like a pause, but its connections are gone afterwards.
            Suspend,
            /// A client's process dies, and a new one takes its place.
            Crash,
            /// Nothing passes between one client and one server for a while.
            Partition,
            /// A server dies and comes back with its data.
            ServerCrash,
            /// SCRIPT FLUSH.
            ScriptFlush,
            /// The server is over its memory limit for a while.
            OutOfMemory,
            /// The server refuses PUBLISH for a while.
            PublishRefused,
            /// A slot moves: commands with more than one key are refused with TRYAGAIN for a while.
            Migration,
            /// The server runs nothing for a while, and then everything that has arrived (CLIENT PAUSE, a slow script, a
            /// fork).
            Stall,
            /// The server answers LOADING, BUSY, CLUSTERDOWN, MASTERDOWN or READONLY for a while.
            NotReady,
        }
        /// Faults that lose the server's data.
        LOSING {
            /// A server dies and comes back empty. Its clock may be set back by less than the outage.
            ServerWiped,
            /// FLUSHALL.
            Flush,
            /// One key is evicted, or deleted by an operator.
            Evict,
        }
        /// Faults that result from others, from foreign clients and from grants, or have a theme of their own.
        OTHERS {
            /// A command overtakes an earlier one of the same client.
            Reordered,
            /// An operator takes a lock from its holder by force, possibly before the holder's reply has arrived.
            Forced,
            /// A client of another library takes the lock.
            Foreign,
            /// A replica with a slower clock takes over. It has all data but the queues.
            SlowerClock,
        }
    }
}

impl Fault {
    /// How many kinds there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Its place in tables.
    pub const fn index(self) -> usize {
        self as usize
    }
}
