//! Whether all invariants hold.

use std::fmt;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) invariant: &'static str,
    pub(crate) detail: String,
}

/// Whether all invariants hold.
pub(crate) type Verdict = Result<(), Broken>;

impl Broken {
    pub(crate) const fn new(invariant: &'static str, detail: String) -> Self {
        Self { invariant, detail }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

/// The verdict on something that must not be.
pub(crate) fn broken(invariant: &'static str, detail: String) -> Verdict {
    Err(Broken::new(invariant, detail))
}
