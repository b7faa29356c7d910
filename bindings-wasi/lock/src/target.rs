//! What to lock.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use leasehold_core::{Kind, Mode, Owner};

use crate::bindings::exports::leasehold::lock::locks::{self, Target};

/// One name, or several that are acquired as one.
pub(crate) enum Names {
    One(Rc<str>),
    All {
        names: Vec<String>,
        /// All of them in one text, for errors and the lease.
        label: Rc<str>,
        one_script: bool,
    },
}

impl Names {
    pub(crate) fn label(&self) -> &Rc<str> {
        match self {
            Self::One(name) => name,
            Self::All { label, .. } => label,
        }
    }
}

/// The names, and how they are wanted.
pub(crate) fn read(target: Target) -> (Names, Mode, Kind) {
    let (name, mode, kind) = match target {
        Target::Mutex(name) | Target::Write(name) => (name, Mode::Exclusive, Kind::Lock),
        Target::Read(name) => (name, Mode::Shared, Kind::Lock),
        Target::Reentrant(lock) => (lock.name, Mode::Exclusive, Kind::Reentrant(Owner(lock.owner))),
        Target::Semaphore(locks::Semaphore { name, limit, permits }) => {
            (name, Mode::Exclusive, Kind::Semaphore { permits, limit })
        }
        Target::Multi(locks::Multi { names, one_script }) => {
            let label = names.join(", ").into();
            return (Names::All { names, label, one_script }, Mode::Exclusive, Kind::Lock);
        }
    };
    (Names::One(name.into()), mode, kind)
}
