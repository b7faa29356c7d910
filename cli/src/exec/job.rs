//! What `exec` and `lead` have in common: a command, and what is held while it runs.

use std::time::Duration;

use futures_util::future::Either;
use leasehold::{Error, Fence, Lease, LossReason, ReleaseOutcome, Term};

use super::events::Events;
use crate::args::Program;

/// A command, and how it is run.
pub(super) struct Job<'a> {
    pub(super) program: &'a Program,
    /// The lock's or the election's.
    pub(super) name: &'a str,
    pub(super) ttl: Duration,
    pub(super) max_hold: Option<Duration>,
    /// The token of the environment is used up.
    pub(super) has_adopted: bool,
}

/// What is held while the command runs.
pub(super) enum Held {
    Lock(Lease),
    /// Permits of a rate: nothing is held, so the command may run for as long as it likes.
    Start(Lease),
    /// The success of the command is stored.
    Once(Lease),
    Term(Term),
}

/// Longer than any command runs.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl Held {
    pub(super) fn fence(&self) -> Fence {
        match self {
            Self::Lock(lease) | Self::Start(lease) | Self::Once(lease) => lease.fence(),
            Self::Term(term) => term.fence(),
        }
    }

    pub(super) fn remaining(&self) -> Duration {
        match self {
            Self::Lock(lease) | Self::Once(lease) => lease.remaining(),
            Self::Start(_) => NEVER,
            Self::Term(term) => term.remaining(),
        }
    }

    pub(super) fn lost(&self) -> impl Future<Output = LossReason> + use<> {
        match self {
            Self::Lock(lease) | Self::Start(lease) | Self::Once(lease) => Either::Left(lease.lost()),
            Self::Term(term) => Either::Right(term.lost()),
        }
    }

    pub(super) async fn release(self) -> Result<ReleaseOutcome, Error> {
        match self {
            Self::Lock(lease) | Self::Start(lease) | Self::Once(lease) => lease.release().await,
            Self::Term(term) => term.resign().await,
        }
    }

    /// Gives it back after the command's end. Returns how it was lost, if the command ended after that.
    pub(super) async fn give_back(self, succeeded: bool, events: &Events<'_>) -> Option<String> {
        let held = match self {
            Self::Once(lease) if succeeded => return store(lease, events).await,
            Self::Start(_) => return None,
            held => held,
        };
        match held.release().await {
            Ok(ReleaseOutcome::AlreadyExpired) => {
                Some("it had expired or was taken by force when the command ended".to_owned())
            }
            Ok(ReleaseOutcome::NotOwner) => Some("another client had taken it when the command ended".to_owned()),
            Ok(ReleaseOutcome::Detached) => {
                events.detached();
                None
            }
            Ok(_) => {
                events.released();
                None
            }
            // The lease was valid when the command ended. Now it ends with its TTL.
            Err(error) => {
                events.not_released(&error.into());
                None
            }
        }
    }
}

/// Gives the lease back, and stores that the command has succeeded. Returns why that is not stored, as far as is known.
async fn store(lease: Lease, events: &Events<'_>) -> Option<String> {
    match lease.store(&()).await {
        Ok(()) => {
            events.released();
            None
        }
        Err(Error::Lost { reason, .. }) => Some(format!("{reason}, so its success is not stored")),
        Err(error) => Some(format!("its success is perhaps not stored: {error}")),
    }
}
