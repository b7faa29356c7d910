//! What a server answers, and how a command can fail on its way.

use alloc::string::String;
use alloc::vec::Vec;

/// One element of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Nothing there.
    Nil,
    /// An integer.
    Int(i64),
    /// A simple or bulk string.
    Text(Vec<u8>),
}

/// A server's answer to one command. Replies are flat: the scripts return nothing deeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A single value.
    One(Scalar),
    /// A flat list.
    List(Vec<Scalar>),
}

/// Why a command brought no reply. Each variant tells the engine whether the server may have run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server answered with an error; here is its text, code word first. Not applied.
    Refused(String),
    /// The command certainly did not reach a server that runs it: no connection, or refused before the script ran.
    Unavailable(String),
    /// The connection broke after the command may have been sent: maybe applied.
    Interrupted(String),
    /// No answer in time: maybe applied, and it may still be applied later.
    TimedOut,
    /// This host can't do it at all, e.g. subscribe.
    Unsupported(String),
}

impl Failure {
    /// Whether the server may have applied the command (now or still to come).
    pub const fn maybe_applied(&self) -> bool {
        matches!(self, Self::Interrupted(_) | Self::TimedOut)
    }
}
