//! Work that is done once, and whose result all callers get.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{DEFAULT_KEEP, Kind, Operation, Outcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument;

use super::lease::Lease;
use super::lock::{Lock, Taken, Want};
use super::manager::LockManager;
use crate::client::unexpected_outcome;
use crate::errors::Error;

/// Work that one process does, and whose result all others get: see [`LockManager::once`].
#[derive(Clone)]
#[must_use = "it does nothing until it runs"]
pub struct Once {
    pub(super) lock: Lock,
    pub(super) keep: Duration,
}

impl LockManager {
    /// Work that is done once: one process does it, and all others get its stored result, in every language. Call
    /// [`run`](Once::run) on it.
    ///
    /// ```
    /// # #[cfg(feature = "testing")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Error;
    ///
    /// # let locks = leasehold::LockManager::in_memory()?;
    /// let report = locks.once("report:2026-11-28").keep(Duration::from_secs(36 * 3_600));
    /// for _ in 0..3 {
    ///     let rows: u32 = report
    ///         .run(async |_| {
    ///             println!("this is printed once");
    ///             Ok::<_, Error>(7)
    ///         })
    ///         .await?;
    ///     assert_eq!(rows, 7);
    /// }
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "testing"))]
    /// # fn main() {}
    /// ```
    ///
    /// It is not exactly-once: if the process crashes after a side effect and before the result is stored, or if a failover
    /// loses the result, the work runs again.
    pub fn once(&self, name: impl AsRef<str>) -> Once {
        Once { lock: self.mutex(name), keep: DEFAULT_KEEP }
    }

    /// Deletes the result of a [`once`](Self::once), so that the next caller does the work again. Returns whether there was a
    /// result. Work that is under way goes on, and stores its own result.
    ///
    /// # Cancel safety
    /// Once polled, the request may be carried out even if you drop the future.
    ///
    /// # Errors
    /// `invalid-option` for an impossible name; `unreachable` if the server did not answer in time: the result may be deleted.
    /// `unsupported` for a quorum; `auth`, `server`, `protocol`, `closed`.
    pub fn forget(&self, name: impl AsRef<str>) -> impl Future<Output = Result<bool, Error>> + Send + 'static {
        self.forget_result(name.as_ref())
    }

    fn forget_result(&self, name: &str) -> impl Future<Output = Result<bool, Error>> + Send + 'static + use<> {
        let (client, name) = (Arc::clone(&self.client), name.to_owned());
        async move {
            match client.execute(Operation::Forget { name: &name }, Some(&name)).await? {
                Outcome::Forgotten(found) => Ok(found),
                other => Err(unexpected_outcome(&other, &name)),
            }
        }
    }
}

/// What [`Once::begin`] found.
#[derive(Debug)]
#[must_use = "work that nobody does makes the others wait until the lease ends"]
pub enum Begun<T, L = Lease> {
    /// The result. There is nothing to do.
    Stored(T),
    /// Nobody has done the work yet. Do it, and [store](Lease::store) its result, or release the lease if it fails.
    Work(L),
}

impl Lease {
    /// Gives a lease of [`Once::begin`] back, and stores the result of the work: JSON of at most 64 KiB. All holds of the lease end.
    ///
    /// # Cancel safety
    /// Once polled, the request goes on even if you drop the future.
    ///
    /// # Errors
    /// `lost`: the lease ended before the result was stored. `invalid-option` for a result that is too long or no JSON, and
    /// `unsupported` for a lease of another kind: the lease is released. `unreachable` and `server`: the result may be stored. Only
    /// another [`begin`](Once::begin) tells. `auth`, `closed`.
    pub async fn store<T: Serialize>(self, result: &T) -> Result<(), Error> {
        let value = write(result)?;
        self.store_json(&value).await
    }

    /// Stores the result of the work, and returns it as all others get it. If the result can't be written as JSON, the lease is
    /// dropped, which releases it.
    pub(super) async fn store_and_read<T: Serialize + DeserializeOwned>(self, result: &T) -> Result<T, Error> {
        let (name, value) = (self.name().to_owned(), write(result)?);
        self.store_json(&value).await?;
        read(&name, &value)
    }
}

impl Once {
    /// Returns the stored result. If there is none, it runs `work` and stores what it returns, as JSON of at most 64 KiB. If
    /// another caller does the work, it waits for that result.
    ///
    /// If the work fails, or if the lease is lost, nothing is stored, and the next waiter does the work. The work is dropped at
    /// its next `await` when the lease is lost. The caller that did the work gets the stored result too, so all callers get the
    /// same value.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the lease in the background, and nothing is stored. If the work has
    /// ended, its result is stored anyway.
    ///
    /// # Errors
    /// The error of the work, and the errors of [`Lock::acquire`].
    /// - `invalid-option` with the field `result`: it is longer than 64 KiB, or no JSON. With the field `keep`: out of bounds.
    /// - `lost`: the lease ended before the result was stored.
    /// - `unreachable` and `server`: also if the server did not confirm the result. The result may be stored. The next call of
    ///   `run` gets it, or does the work again.
    /// - `protocol`: the stored result is no JSON of type `T`.
    pub fn run<T, E, F>(&self, work: F) -> impl Future<Output = Result<T, E>> + use<T, E, F>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&Lease) -> Result<T, E>,
        E: From<Error>,
    {
        let lock = self.lock.clone().with_kind(Kind::Once { keep: self.keep });
        async move {
            let lease = match lock.take(Want::Acquire).await? {
                Taken::Lease(lease) => lease,
                Taken::Stored(value) => return Ok(read(lock.name(), &value)?),
            };
            let done = tokio::select! {
                biased;
                error = lease.interrupted() => return Err(error.into()),
                done = work(&lease).instrument(lease.span()) => done?,
            };
            Ok(lease.store_and_read(&done).await?)
        }
    }

    /// As the beginning of [`run`](Self::run), for work that needs its own way to end when the lease is lost: returns the stored
    /// result, or a lease to do the work with.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    ///
    /// # Errors
    /// As [`Lock::acquire`]. `protocol`: the stored result is no JSON of type `T`.
    pub async fn begin<T: DeserializeOwned>(&self) -> Result<Begun<T>, Error> {
        let lock = self.lock.clone().with_kind(Kind::Once { keep: self.keep });
        match lock.take(Want::Acquire).await? {
            Taken::Lease(lease) => Ok(Begun::Work(lease)),
            Taken::Stored(value) => Ok(Begun::Stored(read(lock.name(), &value)?)),
        }
    }
}

fn write<T: Serialize>(result: &T) -> Result<Vec<u8>, Error> {
    let no_json = |error| Error::InvalidOption { field: "result", problem: format!("is no JSON: {error}") };
    serde_json::to_vec(result).map_err(no_json)
}

/// Reads a stored result.
fn read<T: DeserializeOwned>(name: &str, value: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(value).map_err(|error| Error::Protocol {
        name: Some(name.to_owned()),
        problem: format!("the stored result has another type: {error}"),
    })
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("lock", &self.lock).field("keep", &self.keep).finish()
    }
}
