//! What is in flight between a client and the server.

use std::sync::Arc;

use leasehold_core::{Command, CommandId, Failure, Reply};

use crate::clock::Micros;
use crate::keys::LEADER_CHANNEL;

/// Something in flight.
#[derive(Clone)]
pub(crate) struct Flight {
    pub(crate) number: u16,
    pub(crate) client: u8,
    pub(crate) what: What,
    /// Since when it counts as in flight: a reply since its command was sent. None for something that is late.
    pub(crate) since: Option<Micros>,
    /// It is one of two copies, or can't be doubled.
    pub(crate) copied: bool,
}

/// What is in flight.
#[derive(Clone)]
pub(crate) enum What {
    Command(CommandId, Arc<Command>),
    /// With its command.
    Reply(CommandId, Arc<Command>, Arc<Result<Reply, Failure>>),
    Message(Channel, Arc<[u8]>),
    Subscribe(Channel),
    Subscribed(Channel),
}

/// What a client listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    /// Its own channel.
    Own,
    /// That of an election's observers.
    Leader,
}

impl Channel {
    /// The channel with this name, among those of a client.
    pub(crate) fn named(name: &str) -> Self {
        if name == LEADER_CHANNEL { Self::Leader } else { Self::Own }
    }

    /// Its name, for the client with this id.
    pub(crate) fn name(self, id: &str) -> String {
        match self {
            Self::Own => format!("leasehold:{id}"),
            Self::Leader => LEADER_CHANNEL.to_owned(),
        }
    }
}

impl Flight {
    /// Whether it is a command with this token.
    pub(crate) fn names(&self, token: &[u8]) -> bool {
        matches!(&self.what, What::Command(_, command) if names(command, token))
    }
}

/// Whether a command has this token.
pub(crate) fn names(command: &Command, token: &[u8]) -> bool {
    command.words().any(|word| word.strip_suffix(b" ").unwrap_or(word) == token)
}
