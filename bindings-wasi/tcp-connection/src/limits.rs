//! How much one instance takes, over all of its endpoints. A host ends an instance that has too many handles, and
//! memory is limited. A call has four handles and its command's bytes, a subscription has eleven handles and a
//! connection.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bindings::exports::leasehold::lock::connection::Failure;

/// Calls under way. Each of `BYTES` bytes of a command counts as one more.
pub(crate) static CALLS: Limit = Limit::new(8_192, "calls under way");
const BYTES: usize = 16 << 10;

pub(crate) static SUBSCRIPTIONS: Limit = Limit::new(1_024, "subscriptions");

pub(crate) struct Limit {
    most: usize,
    of: &'static str,
    taken: AtomicUsize,
}

/// A part of a limit. Dropping it gives it back.
pub(crate) struct Taken(&'static Limit, usize);

impl Limit {
    const fn new(most: usize, of: &'static str) -> Self {
        Self { most, of, taken: AtomicUsize::new(0) }
    }

    /// Takes a part for something of this many bytes. If the limit is reached, the caller may try again later.
    pub(crate) fn take(&'static self, bytes: usize) -> Result<Taken, Failure> {
        let amount = 1 + bytes / BYTES;
        if self.taken.load(Ordering::Relaxed).saturating_add(amount) > self.most {
            return Err(Failure::Unavailable(format!(
                "too many {}: this connection provider takes {}",
                self.of, self.most
            )));
        }
        self.taken.fetch_add(amount, Ordering::Relaxed);
        Ok(Taken(self, amount))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_many_is_refused_until_something_ends() {
        static LIMIT: Limit = Limit::new(4, "things");
        let (one, two) = (LIMIT.take(0).unwrap(), LIMIT.take(BYTES).unwrap());
        assert!(matches!(LIMIT.take(BYTES), Err(Failure::Unavailable(text)) if text.contains("too many things")));
        drop(one);
        let three = LIMIT.take(BYTES).unwrap();
        assert!(LIMIT.take(0).is_err());
        drop((two, three));
        assert!(LIMIT.take(3 * BYTES).is_ok());
    }
}
