//! The `locks` interface, for Rust callers.

use futures_util::FutureExt;
use wasmtime::Result;
use wasmtime::component::{Accessor, ResourceAny};

use crate::bindings::exports::leasehold::lock::locks::{
    AcquireOptions, Begun, Error, Guest, HoldEnd, Inspection, ManagerOptions, Mode, OnceOptions, ReleaseOutcome,
    StoredResult, Target, Topology,
};
use crate::instance::State;

/// The result of a function of the contract.
type Answer<T> = std::result::Result<T, Error>;

/// The instance's `locks`. In this module, an outer `Err` is a trap.
#[derive(Clone, Copy)]
pub struct Locks<'a> {
    accessor: &'a Accessor<State>,
    guest: &'a Guest,
}

/// A client. Only [`drop`](Self::drop) drops it in the instance.
#[derive(Clone, Copy)]
pub struct Manager<'a> {
    locks: Locks<'a>,
    handle: ResourceAny,
}

/// A lease. Only [`drop`](Self::drop) drops it in the instance.
#[derive(Clone, Copy)]
pub struct Lease<'a> {
    locks: Locks<'a>,
    handle: ResourceAny,
}

/// What [`Manager::begin_once`] found.
pub enum Once<'a> {
    /// The lease to do the work with.
    Work(Lease<'a>),
    /// The result of the work.
    Stored(StoredResult),
}

#[allow(missing_docs, reason = "the contract says it")]
impl<'a> Locks<'a> {
    pub(crate) fn new(accessor: &'a Accessor<State>, guest: &'a Guest) -> Self {
        Self { accessor, guest }
    }

    pub async fn open(self, url: &str, options: Option<ManagerOptions>) -> Result<Answer<Manager<'a>>> {
        self.open_at(Topology::Single(url.to_owned()), options).await
    }

    pub async fn open_at(self, topology: Topology, options: Option<ManagerOptions>) -> Result<Answer<Manager<'a>>> {
        let opened = self.guest.lock_manager().call_open(self.accessor, topology, options).await?;
        Ok(opened.map(|handle| Manager { locks: self, handle }))
    }

    fn lease(self, handle: ResourceAny) -> Lease<'a> {
        Lease { locks: self, handle }
    }
}

#[allow(missing_docs, reason = "the contract says it")]
impl<'a> Manager<'a> {
    pub async fn acquire(self, target: Target, options: Option<AcquireOptions>) -> Result<Answer<Lease<'a>>> {
        let Locks { accessor, guest } = self.locks;
        let lease = guest.lock_manager().call_acquire(accessor, self.handle, target, options).await?;
        Ok(lease.map(|handle| self.locks.lease(handle)))
    }

    pub async fn try_acquire(
        self,
        target: Target,
        options: Option<AcquireOptions>,
    ) -> Result<Answer<Option<Lease<'a>>>> {
        let Locks { accessor, guest } = self.locks;
        let lease = guest.lock_manager().call_try_acquire(accessor, self.handle, target, options).await?;
        Ok(lease.map(|handle| handle.map(|handle| self.locks.lease(handle))))
    }

    pub async fn adopt(
        self,
        target: Target,
        token: &str,
        options: Option<AcquireOptions>,
    ) -> Result<Answer<Lease<'a>>> {
        let Locks { accessor, guest } = self.locks;
        let lease = guest.lock_manager().call_adopt(accessor, self.handle, target, token.to_owned(), options).await?;
        Ok(lease.map(|handle| self.locks.lease(handle)))
    }

    pub async fn begin_once(self, name: &str, options: Option<OnceOptions>) -> Result<Answer<Once<'a>>> {
        let Locks { accessor, guest } = self.locks;
        let begun = guest.lock_manager().call_begin_once(accessor, self.handle, name.to_owned(), options).await?;
        Ok(begun.map(|begun| match begun {
            Begun::Stored(result) => Once::Stored(result),
            Begun::Work(handle) => Once::Work(self.locks.lease(handle)),
        }))
    }

    pub async fn forget(self, name: &str) -> Result<Answer<bool>> {
        let Locks { accessor, guest } = self.locks;
        guest.lock_manager().call_forget(accessor, self.handle, name.to_owned()).await
    }

    pub async fn inspect(self, name: &str) -> Result<Answer<Inspection>> {
        let Locks { accessor, guest } = self.locks;
        guest.lock_manager().call_inspect(accessor, self.handle, name.to_owned()).await
    }

    pub async fn force_release(self, name: &str) -> Result<Answer<u32>> {
        let Locks { accessor, guest } = self.locks;
        guest.lock_manager().call_force_release(accessor, self.handle, name.to_owned(), false).await
    }

    pub async fn force_release_foreign(self, name: &str) -> Result<Answer<u32>> {
        let Locks { accessor, guest } = self.locks;
        guest.lock_manager().call_force_release(accessor, self.handle, name.to_owned(), true).await
    }

    pub fn drop(self) -> Result<()> {
        drop_in_instance(self.locks.accessor, self.handle)
    }
}

#[allow(missing_docs, reason = "the contract says it")]
impl<'a> Lease<'a> {
    pub async fn name(self) -> Result<String> {
        self.locks.guest.lease().call_name(self.locks.accessor, self.handle).await
    }

    pub async fn mode(self) -> Result<Mode> {
        self.locks.guest.lease().call_mode(self.locks.accessor, self.handle).await
    }

    pub async fn fence(self) -> Result<u64> {
        self.locks.guest.lease().call_fence(self.locks.accessor, self.handle).await
    }

    pub async fn fences(self) -> Result<Vec<(String, u64)>> {
        self.locks.guest.lease().call_fences(self.locks.accessor, self.handle).await
    }

    pub async fn remaining_ms(self) -> Result<u64> {
        self.locks.guest.lease().call_remaining_ms(self.locks.accessor, self.handle).await
    }

    pub async fn is_held(self) -> Result<bool> {
        self.locks.guest.lease().call_is_held(self.locks.accessor, self.handle).await
    }

    pub async fn verify(self) -> Result<Answer<bool>> {
        self.locks.guest.lease().call_verify(self.locks.accessor, self.handle).await
    }

    pub async fn hold(self, for_ms: u64) -> Result<Answer<HoldEnd>> {
        self.locks.guest.lease().call_hold(self.locks.accessor, self.handle, for_ms).await
    }

    pub async fn extend(self, ttl_ms: u64) -> Result<Answer<()>> {
        self.locks.guest.lease().call_extend(self.locks.accessor, self.handle, ttl_ms).await
    }

    pub async fn downgrade(self) -> Result<Answer<()>> {
        self.locks.guest.lease().call_downgrade(self.locks.accessor, self.handle).await
    }

    pub async fn upgrade(self) -> Result<Answer<()>> {
        self.locks.guest.lease().call_upgrade(self.locks.accessor, self.handle).await
    }

    pub async fn token(self) -> Result<Answer<String>> {
        self.locks.guest.lease().call_token(self.locks.accessor, self.handle).await
    }

    pub async fn detach(self, for_ms: Option<u64>) -> Result<Answer<String>> {
        self.locks.guest.lease().call_detach(self.locks.accessor, self.handle, for_ms).await
    }

    pub async fn nested(self) -> Result<Answer<Lease<'a>>> {
        let nested = self.locks.guest.lease().call_nested(self.locks.accessor, self.handle).await?;
        Ok(nested.map(|handle| self.locks.lease(handle)))
    }

    pub async fn store(self, value: &str) -> Result<Answer<()>> {
        self.locks.guest.lease().call_store(self.locks.accessor, self.handle, value.to_owned()).await
    }

    pub async fn release(self) -> Result<Answer<ReleaseOutcome>> {
        self.locks.guest.lease().call_release(self.locks.accessor, self.handle).await
    }

    pub fn drop(self) -> Result<()> {
        drop_in_instance(self.locks.accessor, self.handle)
    }
}

/// Runs the guest's destructor, which never waits.
fn drop_in_instance(accessor: &Accessor<State>, handle: ResourceAny) -> Result<()> {
    let dropped = accessor.with(|store| handle.resource_drop_async(store).now_or_never());
    dropped.unwrap_or_else(|| Err(wasmtime::format_err!("the destructor waited")))
}
