//! What a server of a quorum must be like: new enough, and different from the others.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use core::cell::RefCell;
use core::time::Duration;

use leasehold_core::{Failure, Roster};

use super::questions::info_of;
use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::error;
use crate::time::Stopwatch;

/// Checks a server of a quorum: it must be new enough and different from the others. A server that is down at the start
/// is checked when the driver connects to it.
pub(super) struct Member {
    pub(super) index: usize,
    pub(super) quorum: Rc<Quorum>,
}

pub(super) struct Quorum {
    pub(super) labels: Vec<String>,
    pub(super) roster: RefCell<Roster>,
    /// What is wrong with the given servers, if a retry can't fix it.
    pub(super) invalid: RefCell<Option<Error>>,
}

impl Member {
    /// Asks the server for its version and identity, and checks them.
    pub(super) async fn check(
        &self,
        endpoint: &Rc<Endpoint>,
        stopwatch: Stopwatch,
        limit: Duration,
    ) -> Result<(), Failure> {
        let info = info_of(endpoint, stopwatch, limit).await?;
        let invalid = match leasehold_core::check_server(&info) {
            Err(error) => error::from_engine(&error, None),
            Ok(()) => match self.quorum.roster.borrow_mut().admit(self.index, &info) {
                Ok(()) => return Ok(()),
                Err(other) => self.same_server(other),
            },
        };
        let failure = Failure::Unavailable(invalid.message.clone());
        self.quorum.invalid.borrow_mut().get_or_insert(invalid);
        Err(failure)
    }

    fn same_server(&self, other: usize) -> Error {
        let label = |index: usize| self.quorum.labels.get(index).map(String::as_str).unwrap_or_default();
        let (other, this) = (label(other), label(self.index));
        error::invalid(
            "servers",
            format!("lists one server twice: {other} and {this} are the same server; list each server once"),
        )
    }
}
