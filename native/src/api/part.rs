//! The locks that one lease can have.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Kind, Mode};

/// A part of [`LockManager::multi`](crate::LockManager::multi): a lock, or a name, which means the mutex of this name.
///
/// Of a lock, only its name, mode and permits count. Set options such as the TTL on the whole. A lock over several names is all of
/// its parts.
#[derive(Clone, Debug)]
pub struct Part {
    pub(super) locks: Vec<(Arc<str>, (Kind, Mode))>,
    /// Of a rate, which is refused when the whole is acquired.
    pub(super) per: Option<Duration>,
}

impl<T: AsRef<str>> From<T> for Part {
    fn from(name: T) -> Self {
        Self { locks: vec![(name.as_ref().into(), (Kind::Lock, Mode::Exclusive))], per: None }
    }
}
