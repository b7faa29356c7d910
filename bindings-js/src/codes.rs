//! The numbers that stand for something else when they cross to TypeScript. They are declared here and nowhere else:
//! `ts/engine/codes.generated.ts` is written from this file. After a change, run
//! `LEASEHOLD_BLESS=1 cargo test -p leasehold-js`.

use leasehold_core::{Error, LossReason, ReleaseOutcome};

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

/// Declares the enums. `numbers` become an object in TypeScript, from each name to its number. `texts` become a list there, from
/// each number to its text. `as` gives the constant's name.
macro_rules! codes {
    ($($shape:ident as $constant:ident $(#[doc = $doc:literal])* $name:ident {
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

        #[cfg(test)]
        const DECLARED: &[typescript::Declared] = &[$(typescript::Declared {
            shape: stringify!($shape),
            constant: stringify!($constant),
            doc: &[$($doc),*],
            variants: &[$((stringify!($variant), &[$($about),*])),+],
        }),+];
    };
}

codes! {
    numbers as InputKind
    /// The inputs. Behind each kind: the fields that it needs, and its text. `?` marks a field that may be absent.
    InputKind {
        /// op, ttl, renew?, shared?, maxHold?, wait?, within?, linger?, replicas? and replicaTimeout?, owner? or permits? and limit?; the
        /// name.
        Acquire,
        /// op, ttl, renew?, maxHold?, wait?, replicas? and replicaTimeout?, oneScript?, a list with the length of each name; the
        /// names.
        AcquireAll,
        /// As for `acquire`, and channelLength; the lease's token and the name.
        Adopt,
        /// op.
        Cancel,
        /// op, lease.
        Release,
        /// op, lease, ttl.
        Extend,
        /// op, lease, ttl.
        Shorten,
        /// op, lease, shared?.
        Convert,
        /// op, lease.
        Hold,
        /// op, lease.
        Export,
        /// lease.
        StopRenewing,
        /// op, lease.
        Verify,
        /// op; the name.
        Inspect,
        /// op, foreign?; the name.
        ForceRelease,
        /// op.
        Close,
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

    numbers as InputField
    /// The fields of the record in which inputs arrive, in their order. A list of numbers follows them. Durations are in
    /// milliseconds, lengths of texts in UTF-16 units. A field that is not written is absent. A flag is set if it is there.
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
        /// How long a renewed lease lasts at most.
        MaxHold,
        /// How long the call waits. Infinity to wait forever, absent not to wait.
        Wait,
        /// How long a call that does not wait may take.
        Within,
        /// How long to keep the lease after its release.
        Linger,
        /// How many replicas must have the lease.
        Replicas,
        /// How long to wait for them.
        ReplicaTimeout,
        /// The owner of a reentrant lock.
        Owner,
        /// How many permits of a semaphore to take.
        Permits,
        /// How many permits the semaphore has.
        Limit,
        /// A flag: refuse names that one script can't take.
        OneScript,
        /// How many numbers the list has.
        ListLength,
        /// A flag: the reply is an array.
        Array,
        /// The kind of a failure.
        Failure,
        /// The length of the channel's name or of the token, which another text follows.
        ChannelLength,
        /// A flag: delete a key without a TTL, too.
        Foreign,
        /// From here on, the options of the client: see `Config`.
        LocalHandoffs,
        ClaimWindow,
        ResponseTimeout,
        NodeTimeout,
        /// A flag.
        MixedFleet,
        /// A flag.
        Batches,
    }

    numbers as ScalarKind
    /// The kinds of a scalar in a reply. Behind each: what its value is.
    ScalarKind {
        /// Any number.
        Nil,
        /// The integer.
        Integer,
        /// The text's length in UTF-16 units. The texts follow each other.
        Text,
    }

    numbers as OutputKind
    /// The outputs. Behind each kind: its fields in their order. Times are in microseconds, durations in milliseconds, flags 0 or
    /// 1. `?` marks a number that may be absent, `"` the length of a text.
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
        /// lease, reason.
        Lost,
        /// op, code, waited?, holderRemaining?, reason?, confirmed?, wanted?, field", cause?, text", the number of votes; server",
        /// answer" and problem" of each.
        Failed,
        /// op, lease, shared, fence, validUntil, local.
        Acquired,
        /// op, lease, validUntil, the number of fences, each fence.
        AcquiredAll,
        /// op, outcome.
        Released,
        /// op, validUntil.
        Extended,
        /// As for `acquired`.
        Converted,
        /// op, token".
        Exported,
        /// op, holds.
        Held,
        /// op, held.
        Verified,
        /// op, lastFence?, waiting, the numbers of holders and of waiters; shared, remaining?, foreign and token" of each holder; shared
        /// and token" of each waiter.
        Inspected,
        /// op, holders.
        Revoked,
        /// op, unreleased.
        Closed,
    }

    texts as RELEASE_OUTCOMES
    /// What a release did.
    ReleaseCode {
        Released,
        StillHeld,
        AlreadyExpired,
        NotOwner,
    }

    texts as FAILURE_KINDS
    /// Why a command has no reply.
    FailureKind {
        Refused,
        Unavailable,
        Interrupted,
        TimedOut,
        Unsupported,
        Closed,
    }

    texts as LOSS_REASONS
    /// How a lease was lost.
    LossCode {
        Expired,
        Gone,
        Taken,
        Revoked,
        MaxHold,
        Closed,
    }

    texts as ERROR_CODES
    /// Why an operation failed.
    ErrorCode {
        InvalidOption,
        NotHeld,
        Conflict,
        Unsupported,
        CrossSlot,
        Closed,
        Busy,
        Cancelled,
        Lost,
        Unreachable,
        NotReplicated,
        Auth,
        Server,
        Protocol,
        WrongKind,
    }
}

// These enums of the engine may grow, so a match needs a last arm for what is unknown. The lint refuses it for what is known.

#[deny(clippy::wildcard_enum_match_arm)]
impl From<ReleaseOutcome> for ReleaseCode {
    fn from(outcome: ReleaseOutcome) -> Self {
        match outcome {
            ReleaseOutcome::Released => Self::Released,
            ReleaseOutcome::StillHeld => Self::StillHeld,
            ReleaseOutcome::NotOwner => Self::NotOwner,
            ReleaseOutcome::AlreadyExpired => Self::AlreadyExpired,
            _ => Self::AlreadyExpired,
        }
    }
}

#[deny(clippy::wildcard_enum_match_arm)]
impl From<LossReason> for LossCode {
    fn from(reason: LossReason) -> Self {
        match reason {
            LossReason::Gone => Self::Gone,
            LossReason::Taken => Self::Taken,
            LossReason::Revoked => Self::Revoked,
            LossReason::MaxHold => Self::MaxHold,
            LossReason::Closed => Self::Closed,
            LossReason::Expired => Self::Expired,
            _ => Self::Expired,
        }
    }
}

#[deny(clippy::wildcard_enum_match_arm)]
impl From<&Error> for ErrorCode {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidOption { .. } => Self::InvalidOption,
            Error::NotHeld => Self::NotHeld,
            Error::Conflict(_) => Self::Conflict,
            Error::Unsupported(_) => Self::Unsupported,
            Error::CrossSlot => Self::CrossSlot,
            Error::Closed => Self::Closed,
            Error::Busy { .. } => Self::Busy,
            Error::Cancelled => Self::Cancelled,
            Error::Lost(_) => Self::Lost,
            Error::Unreachable { .. } => Self::Unreachable,
            Error::NotReplicated { .. } => Self::NotReplicated,
            Error::Auth(_) => Self::Auth,
            Error::Server(_) => Self::Server,
            Error::WrongKind(_) => Self::WrongKind,
            Error::Protocol(_) => Self::Protocol,
            _ => Self::Protocol,
        }
    }
}

#[cfg(test)]
mod typescript {
    //! Writes the TypeScript module.

    use std::fmt::Write;
    use std::{env, fs};

    use super::*;

    pub(super) struct Declared {
        pub(super) shape: &'static str,
        pub(super) constant: &'static str,
        pub(super) doc: &'static [&'static str],
        /// The name and the comment of each.
        pub(super) variants: &'static [(&'static str, &'static [&'static str])],
    }

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ts/engine/codes.generated.ts");

    #[test]
    fn the_typescript_module_has_these_codes() {
        let module = module();
        if env::var_os("LEASEHOLD_BLESS").is_some() {
            fs::write(FILE, &module).unwrap();
        }
        let found = fs::read_to_string(FILE).unwrap_or_default();
        assert!(found == module, "{FILE} is out of date: run `LEASEHOLD_BLESS=1 cargo test -p leasehold-js`");
    }

    #[test]
    fn a_code_is_read_as_it_is_written() {
        for (position, kind) in InputKind::ALL.iter().enumerate() {
            assert_eq!(kind.number(), f64::from(u8::try_from(position).unwrap()));
            assert_eq!(InputKind::read(kind.number()), Some(*kind));
        }
        for bad in [-1.0, 0.5, 23.0, 256.0, ABSENT] {
            assert_eq!(InputKind::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn errors_and_losses_have_the_codes_that_every_surface_shows() {
        use LossReason::{Closed, Expired, Gone, MaxHold, Revoked, Taken};
        for reason in [Expired, Gone, Taken, Revoked, MaxHold, Closed] {
            assert_eq!(kebab_case(&format!("{:?}", LossCode::from(reason))), reason.code());
        }
        let text = String::new;
        let errors = [
            Error::InvalidOption { field: "", problem: text() },
            Error::NotHeld,
            Error::Conflict(""),
            Error::Unsupported(text()),
            Error::CrossSlot,
            Error::Closed,
            Error::Busy { waited: Default::default(), holder_remaining: None, votes: Default::default() },
            Error::Cancelled,
            Error::Lost(LossReason::Gone),
            Error::Unreachable { waited: Default::default(), cause: None, votes: Default::default() },
            Error::NotReplicated { confirmed: 0, wanted: 1, waited: Default::default() },
            Error::Auth(text()),
            Error::Server(text()),
            Error::Protocol(text()),
            Error::WrongKind(text()),
        ];
        for error in &errors {
            assert_eq!(kebab_case(&format!("{:?}", ErrorCode::from(error))), error.code());
        }
        assert_eq!(errors.len(), ErrorCode::ALL.len());
    }

    fn module() -> String {
        let mut module = String::from(
            "// Generated from `src/codes.rs`: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.\n",
        );
        for Declared { shape, constant, doc, variants } in DECLARED {
            let name = if *shape == "numbers" { camel_case } else { kebab_case };
            let _ = write!(module, "\n/**\n");
            for line in *doc {
                let _ = writeln!(module, " *{line}");
            }
            // In one comment before the object, because the bundler keeps comments inside of it.
            for (variant, about) in variants.iter().filter(|(_, about)| !about.is_empty()) {
                let _ = writeln!(module, " * - `{}`:{}", name(variant), about.join("\n *  "));
            }
            let (open, close) = if *shape == "numbers" { ('{', '}') } else { ('[', ']') };
            let _ = writeln!(module, " */\nexport const {constant} = {open}");
            for (position, (variant, _)) in variants.iter().enumerate() {
                let _ = match *shape {
                    "numbers" => writeln!(module, "  {}: {position},", name(variant)),
                    _ => writeln!(module, "  '{}',", name(variant)),
                };
            }
            let _ = writeln!(module, "{close} as const;");
        }
        module
    }

    fn camel_case(name: &str) -> String {
        let (first, rest) = name.split_at(1);
        first.to_lowercase() + rest
    }

    fn kebab_case(name: &str) -> String {
        let mut text = String::new();
        for letter in name.chars() {
            if letter.is_uppercase() && !text.is_empty() {
                text.push('-');
            }
            text.extend(letter.to_lowercase());
        }
        text
    }
}
