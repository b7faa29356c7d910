//! What leases are called.

use std::sync::Arc;

/// A lock, as its leases are told to others.
#[derive(Clone)]
pub(crate) struct Named {
    /// The lock's name. Several names as one text.
    pub(crate) name: Arc<str>,
    pub(crate) called: Option<Arc<Called>>,
}

/// What a user calls the leases of a lock.
pub(crate) struct Called {
    pub(crate) label: String,
    /// The lock's names, if it has several.
    pub(crate) names: Option<Arc<[Arc<str>]>>,
}

impl Named {
    /// The label of a lease of `name`, if this is one.
    pub(super) fn lease_of(&self, name: &str) -> Option<Option<&str>> {
        let label = self.called.as_ref().map(|called| called.label.as_str());
        let is_one = match self.called.as_ref().and_then(|called| called.names.as_ref()) {
            Some(names) => names.iter().any(|one| &**one == name),
            None => &*self.name == name,
        };
        is_one.then_some(label)
    }
}
