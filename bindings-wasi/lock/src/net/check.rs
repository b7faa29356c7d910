//! The check of a server before the first command: its version, and whether it enforces slots. If the server is not ready when the
//! manager is opened, the driver checks it when it connects.

use alloc::rc::Rc;

use core::cell::{Cell, RefCell};
use core::time::Duration;

use leasehold_core::{Abilities, DeleteIfEqual, Error, Failure, Probed, SLOTS_OPTION};

use super::questions::{MOST_BROKEN, enforces_slots, info_of, pong};
use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::time::Stopwatch;

/// What to find out about a server, and what is known.
pub(super) struct Check {
    pub(super) is_cluster: bool,
    /// Whether the address is asked about slots.
    pub(super) asks: bool,
    /// Whether it must enforce them.
    pub(super) is_required: bool,
    /// How often the question about slots broke the connection, and `PING` didn't.
    pub(super) broken: Cell<u32>,
    /// What was found, until the driver takes it.
    pub(super) found: Cell<Option<Abilities>>,
    /// Why the last check failed.
    pub(super) unfit: RefCell<Option<Unfit>>,
}

/// Why a server can't be used now.
pub(super) enum Unfit {
    NotReady(Failure),
    For(Error),
}

impl Check {
    /// Asks the server. A failure is that of the commands that wait for the check, and were not sent.
    pub(super) async fn run(
        &self,
        endpoint: &Rc<Endpoint>,
        stopwatch: Stopwatch,
        limit: Duration,
    ) -> Result<(), Failure> {
        match self.find(endpoint, stopwatch, limit).await {
            Ok(found) => {
                self.found.set(Some(found));
                Ok(())
            }
            Err(unfit) => {
                let failure = unfit.failure();
                self.unfit.replace(Some(unfit));
                Err(failure)
            }
        }
    }

    async fn find(&self, endpoint: &Rc<Endpoint>, stopwatch: Stopwatch, limit: Duration) -> Result<Abilities, Unfit> {
        let info = info_of(endpoint, stopwatch, limit).await.map_err(|failure| {
            match Error::of_connecting(failure.clone(), stopwatch.elapsed()) {
                error if error.is_retryable() && matches!(failure, Failure::Refused(_)) => Unfit::NotReady(failure),
                error => Unfit::For(error),
            }
        })?;
        leasehold_core::check_server(&info).map_err(Unfit::For)?;
        let mut has_slots = self.is_cluster;
        // If so many questions break the connection, a proxy refuses them. But an address that must enforce slots has to say so.
        if self.asks && (self.is_required || self.broken.get() < MOST_BROKEN) {
            match enforces_slots(endpoint, self.is_required, stopwatch, limit).await.map_err(Unfit::For)? {
                Probed::Slots => has_slots = true,
                Probed::NoSlots => {}
                Probed::NotReady(failure) => {
                    if matches!(failure, Failure::Interrupted(_))
                        && pong(endpoint, stopwatch.remaining(limit)).await.is_ok()
                    {
                        self.broken.set(self.broken.get() + 1);
                    }
                    return Err(Unfit::NotReady(failure));
                }
            }
        }
        Ok(Abilities { delete_if_equal: DeleteIfEqual::of(&info), has_slots })
    }
}

impl Unfit {
    fn failure(&self) -> Failure {
        match self {
            Self::NotReady(Failure::Refused(text)) => Failure::Unavailable(text.clone()),
            Self::NotReady(failure) | Self::For(Error::Unreachable { cause: Some(failure), .. }) => failure.clone(),
            Self::For(Error::InvalidOption { problem, .. }) => Failure::Unsupported([SLOTS_OPTION, problem].concat()),
            Self::For(Error::Unsupported(problem)) => Failure::Unsupported(problem.clone()),
            Self::For(error) => Failure::Refused(error.problem().into()),
        }
    }
}
