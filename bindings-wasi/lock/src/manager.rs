//! The client: where every lock begins.

use alloc::borrow::ToOwned;
use alloc::string::String;

use alloc::rc::Rc;
use core::time::Duration;

use leasehold_core::{AcquireOptions, ClientId, Config, Engine, Error as EngineError, Outcome, Wait};

use crate::bindings::exports::leasehold::lock::locks::{
    self, Error, GuestLockManager, Inspection, ManagerOptions, Target, Topology,
};
use crate::bindings::leasehold::lock::connection::{Endpoint, Servers};
use crate::bindings::wasi::random::random;
use crate::call::{Call, Request};
use crate::client::Client;
use crate::lease::Lease;
use crate::shared::Shared;
use crate::timer::{Start, within};
use crate::{driver, error, inspection, options, version, wire};

pub(crate) struct LockManager {
    client: Rc<Client>,
}

impl GuestLockManager for LockManager {
    async fn open(topology: Topology, options: Option<ManagerOptions>) -> Result<locks::LockManager, Error> {
        let config = options::config(options);
        let response_timeout = config.response_timeout;
        let engine = engine(config)?;
        let servers = options::servers(topology)?;
        let endpoint = connect(servers, response_timeout).await?;
        version::check(&endpoint, response_timeout).await?;
        let shared = Rc::new(Shared::new(engine));
        let driver = driver::run(Rc::clone(&shared), endpoint, response_timeout);
        // It goes on as a part of this call's task, after the call has returned.
        drop(wit_bindgen::spawn_local(driver));
        Ok(locks::LockManager::new(Self { client: Rc::new(Client { shared }) }))
    }

    async fn acquire(&self, target: Target, options: Option<locks::AcquireOptions>) -> Result<locks::Lease, Error> {
        let (name, options) = options::acquire(target, options)?;
        let name: Rc<str> = name.into();
        self.granted(&name, options).await.map_err(|error| error::from_engine(&error, Some(&name)))
    }

    async fn try_acquire(
        &self,
        target: Target,
        options: Option<locks::AcquireOptions>,
    ) -> Result<Option<locks::Lease>, Error> {
        let untimed = options.map(|options| locks::AcquireOptions { wait_ms: None, ..options });
        let (name, options) = options::acquire(target, untimed)?;
        let name: Rc<str> = name.into();
        match self.granted(&name, AcquireOptions { wait: Wait::No, ..options }).await {
            Ok(lease) => Ok(Some(lease)),
            Err(EngineError::Busy { .. }) => Ok(None),
            Err(error) => Err(error::from_engine(&error, Some(&name))),
        }
    }

    async fn inspect(&self, name: String) -> Result<Inspection, Error> {
        match self.client.ask(Request::Inspect { name: &name }, &name).await? {
            Outcome::Inspected(seen) => Ok(inspection::inspection(seen)),
            _ => Err(error::unexpected()),
        }
    }

    async fn force_release(&self, name: String) -> Result<u32, Error> {
        match self.client.ask(Request::ForceRelease { name: &name }, &name).await? {
            Outcome::Revoked(holders) => Ok(holders),
            _ => Err(error::unexpected()),
        }
    }
}

impl LockManager {
    async fn granted(&self, name: &Rc<str>, options: AcquireOptions) -> Result<locks::Lease, EngineError> {
        match Call::begin(&self.client.shared, &Request::Acquire { name, options }).await? {
            Outcome::Acquired(grant) => {
                Ok(locks::Lease::new(Lease::new(Rc::clone(&self.client), Rc::clone(name), &grant)))
            }
            _ => Err(EngineError::Protocol("unexpected outcome".to_owned())),
        }
    }
}

fn engine(config: Config) -> Result<Engine, Error> {
    let random = [random::get_random_u64(), random::get_random_u64()].map(u64::to_ne_bytes);
    let mut id = [0; 16];
    id.copy_from_slice(random.as_flattened());
    Engine::new(ClientId::from_random(id), config).map_err(|error| error::from_engine(&error, None))
}

async fn connect(servers: Servers, limit: Duration) -> Result<Endpoint, Error> {
    let start = Start::now();
    let opened = within(limit, Endpoint::open(servers, error::ms(limit))).await;
    let opened = opened.unwrap_or(Err(crate::bindings::leasehold::lock::connection::Failure::TimedOut));
    opened.map_err(|failure| error::from_connecting(wire::failure(failure), start.elapsed()))
}
