//! The numbers that stand for something else when they cross to TypeScript. They are declared here and nowhere else:
//! `generated.rs` writes `ts/engine/codes.generated.ts` from them.

use leasehold_core::{
    AcquireOptions, CallKind, Config, ErrorCode, FailureKind, Family, LossReason, OutcomeKind, ReleaseOutcome,
};

use crate::number::small;

/// A number that isn't there, in inputs and in outputs. No calculation gives it by accident, and no comparison accepts it.
pub(crate) const ABSENT: f64 = f64::NAN;

/// An enum whose variants cross as their position, 0 for the first.
pub(crate) trait Code: Copy + 'static {
    const ALL: &'static [Self];

    fn number(self) -> f64;

    fn at(position: u8) -> Option<Self> {
        Self::ALL.get(usize::from(position)).copied()
    }

    fn read(number: f64) -> Option<Self> {
        Self::at(small(number)?)
    }
}

/// Where the plain options of a lock begin in the record of inputs, those of a manager, and its end.
pub(crate) const LOCK_OPTIONS: usize = InputField::ALL.len();
pub(crate) const MANAGER_OPTIONS: usize = LOCK_OPTIONS + AcquireOptions::PLAIN.len();
pub(crate) const FIELDS: usize = MANAGER_OPTIONS + Config::PLAIN.len();

/// The call with this number, which is behind those of [`InputKind`].
pub(crate) fn call_at(position: u8) -> Option<CallKind> {
    CallKind::at(position.checked_sub(InputKind::ALL.len() as u8)?)
}

/// The kind of the output for an outcome.
pub(crate) fn outcome_number(kind: OutcomeKind) -> f64 {
    kind.number() + OUTCOMES
}

/// The kind of the first outcome.
pub(crate) const OUTCOMES: f64 = OutputKind::ALL.len() as f64;

/// One of the enums, for TypeScript.
#[cfg(test)]
pub(crate) struct Declared {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static [&'static str],
    /// The name and the comment of each.
    pub(crate) variants: &'static [(&'static str, &'static [&'static str])],
}

/// Declares the enums. Each becomes an object in TypeScript, from each name to its number.
macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident {
        $($(#[doc = $about:literal])* $variant:ident,)+
    })+) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(u8)]
            pub(crate) enum $name { $($(#[doc = $about])* $variant),+ }

            impl Code for $name {
                const ALL: &'static [Self] = &[$(Self::$variant),+];

                fn number(self) -> f64 {
                    f64::from(self as u8)
                }
            }
        )+

        /// What TypeScript gets.
        #[cfg(test)]
        pub(crate) const DECLARED: &[Declared] = &[$(Declared {
            name: stringify!($name),
            doc: &[$($doc),*],
            variants: &[$((stringify!($variant), &[$($about),*])),+],
        }),+];
    };
}

codes! {
    /// The inputs. Behind each kind: the fields that it needs, and its text. `?` marks a field that may be absent. Behind them are the
    /// other calls of users: `CallKind` in the core. Each has op and its fields. A mode is the flag `shared`, a name the text, and a time
    /// the field `ttl`.
    InputKind {
        /// op, ttl, renew?, shared?, wait?, within?, replicas? and replicaTimeout?, the plain options of a lock?, kind? and what
        /// it needs; the name.
        Acquire,
        /// op, ttl, renew?, wait?, replicas? and replicaTimeout?, the plain options of a lock?, oneScript?, a list with three numbers
        /// for each part: the length of its name, its permits, and their limit. Without permits, a limit means a reader; the names.
        AcquireAll,
        /// As for `acquire`, and channelLength; the lease's token and the name.
        Adopt,
        /// As for `acquire`, and channelLength; the value and the name.
        Campaign,
        /// op.
        Cancel,
        /// lease.
        StopRenewing,
        /// id, array?, a list with two numbers for each scalar: its kind and its value; the texts.
        Reply,
        /// id, failure; the failure's text.
        Failed,
        /// As for `reply`, with op for id.
        DedicatedReply,
        /// op, failure; the failure's text.
        DedicatedFailed,
        /// channelLength; the channel and the payload.
        Message,
        /// The channel.
        Subscribed,
        /// channelLength, failure; the channel and the failure's text.
        Unsubscribed,
        /// Nothing: time has passed.
        Wake,
    }

    /// The fields of the record in which inputs arrive, in their order. A list of numbers follows them. Durations are in
    /// milliseconds, lengths of texts in UTF-16 units. A field that is not written is absent. A flag is set if it is there. Behind
    /// them are the plain options of a lock and those of a manager: `AcquireOptions::PLAIN` and `Config::PLAIN`.
    InputField {
        /// The user's operation.
        Op,
        /// The lease.
        Lease,
        /// The number of a command.
        Id,
        /// How long the lease lasts without a renewal.
        Ttl,
        /// A flag: the lease is renewed.
        Renew,
        /// A flag: the lease is shared with other readers.
        Shared,
        /// How long the call waits. Infinity to wait forever, absent not to wait.
        Wait,
        /// How long a call that does not wait may take.
        Within,
        /// How many replicas must have the lease.
        Replicas,
        /// How long to wait for them.
        ReplicaTimeout,
        /// The kind of a lock: its place in `Family` of the core. Absent for a mutex or a read-write lock.
        Kind,
        /// The owner of a reentrant lock.
        Owner,
        /// How many permits of a semaphore to take.
        Permits,
        /// How many permits the semaphore has.
        Limit,
        /// How long the server keeps the result of a once.
        Keep,
        /// A flag: refuse names that one script can't take.
        OneScript,
        /// How many numbers the list has.
        ListLength,
        /// A flag: the reply is an array.
        Array,
        /// The kind of a failure.
        Failure,
        /// The length of the channel's name, the token or the value, which another text follows.
        ChannelLength,
        /// A flag: delete a key without a TTL, too.
        Foreign,
        /// A flag of any input: the driver has no other one now, so a `wake` follows it.
        Last,
        /// A flag of a manager: see `Config`.
        Batches,
        /// A flag of a manager.
        Ahead,
    }

    /// The kinds of a scalar in a reply. Behind each: what its value is.
    ScalarKind {
        /// Any number.
        Nil,
        /// The integer.
        Integer,
        /// The text's length in UTF-16 units. The texts follow each other.
        Text,
    }

    /// The outputs. Behind each kind: its fields in their order. Times are in microseconds, durations in milliseconds, flags 0 or
    /// 1. `?` marks a number that may be absent, `"` the length of a text. Behind them are the outcomes of operations: op, and the
    /// fields of the outcome. A grant is lease, shared, fence, validUntil, local. An inspection is lastFence?, waiting, the numbers of
    /// holders and of waiters; shared, remaining?, foreign, held? and token" of each holder; shared, waited?, callers and token"
    /// of each waiter.
    OutputKind {
        /// id, node, command", the command's length in bytes.
        Send,
        /// op, key", command", the command's length in bytes.
        SendDedicated,
        /// op.
        CloseDedicated,
        /// channel".
        Subscribe,
        /// channel".
        Unsubscribe,
        /// op, fence?, led, value".
        Leader,
        /// lease, reason.
        Lost,
        /// op, code, waited?, holderRemaining?, waiters?, reason?, confirmed?, wanted?, field", cause?, text", the number of votes; server",
        /// answer" and problem" of each.
        Failed,
    }
}

/// Tables of the engine. Their rows cross as positions, too.
macro_rules! tables {
    ($($name:ident)+) => {
        $(impl Code for $name {
            const ALL: &'static [Self] = Self::ALL;

            fn number(self) -> f64 {
                f64::from(self as u8)
            }
        })+
    };
}

tables! { CallKind ErrorCode FailureKind Family LossReason OutcomeKind ReleaseOutcome }
