//! The manager, where every lock begins.

use alloc::borrow::ToOwned;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use core::time::Duration;

use leasehold_core::{AcquireOptions, ClientId, Engine, Error as EngineError, Outcome, Wait};

use crate::bindings::exports::leasehold::lock::locks::{
    self, Error, GuestLockManager, Inspection, ManagerOptions, Target, Topology,
};
use crate::bindings::leasehold::lock::connection::Servers;
use crate::bindings::wasi::random::random;
use crate::call::{Call, Request};
use crate::client::Client;
use crate::lease::Lease;
use crate::limits::{self, Taken};
use crate::server::Server;
use crate::shared::Shared;
use crate::target::Names;
use crate::timer::Start;
use crate::{driver, error, inspection, options, quorum, version};

pub(crate) struct LockManager {
    client: Rc<Client>,
}

impl GuestLockManager for LockManager {
    async fn open(topology: Topology, options: Option<ManagerOptions>) -> Result<locks::LockManager, Error> {
        let config = options::config(options);
        let (response_timeout, node_timeout) = (config.response_timeout, config.node_timeout);
        let (engine, counted, servers, limit) = match options::servers(topology) {
            Ok(servers) => {
                let (mut engine, counted) = engine(1, |id| Engine::new(id, config))?;
                if matches!(servers, Servers::Cluster(_)) {
                    engine.set_cluster();
                }
                (engine, counted, vec![connect(servers, response_timeout).await?], response_timeout)
            }
            Err(addresses) => {
                let labels: Vec<&str> = addresses.iter().map(|address| quorum::label(address)).collect();
                let (engine, counted) = engine(addresses.len(), |id| Engine::quorum(id, config, &labels))?;
                (engine, counted, quorum::connect(&addresses, response_timeout).await?, node_timeout)
            }
        };
        let shared = Rc::new(Shared::new(engine));
        let driver = driver::run(Rc::clone(&shared), servers, limit, counted);
        // It goes on as a part of this call's task after the call has returned.
        drop(wit_bindgen::spawn_local(driver));
        Ok(locks::LockManager::new(Self { client: Rc::new(Client { shared }) }))
    }

    async fn acquire(&self, target: Target, options: Option<locks::AcquireOptions>) -> Result<locks::Lease, Error> {
        let (names, options) = options::acquire(target, options)?;
        self.granted(&names, options).await.map_err(|error| error::from_engine(&error, Some(names.label())))
    }

    async fn try_acquire(
        &self,
        target: Target,
        options: Option<locks::AcquireOptions>,
    ) -> Result<Option<locks::Lease>, Error> {
        let untimed = options.map(|options| locks::AcquireOptions { wait_ms: None, ..options });
        let (names, options) = options::acquire(target, untimed)?;
        match self.granted(&names, AcquireOptions { wait: Wait::No, ..options }).await {
            Ok(lease) => Ok(Some(lease)),
            Err(EngineError::Busy { .. }) => Ok(None),
            Err(error) => Err(error::from_engine(&error, Some(names.label()))),
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
    async fn granted(&self, wanted: &Names, options: AcquireOptions) -> Result<locks::Lease, EngineError> {
        let client = &self.client;
        let outcome = match wanted {
            Names::One(name) => Call::begin(&client.shared, &Request::Acquire { name, options }).await?,
            Names::All { names, one_script, .. } => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let request = Request::AcquireAll { names: &names, options, one_script: *one_script };
                Call::begin(&client.shared, &request).await?
            }
        };
        let Some(grant) = outcome.grant() else {
            return Err(EngineError::Protocol("unexpected outcome".to_owned()));
        };
        let parts = match (wanted, outcome) {
            (Names::All { names, .. }, Outcome::AcquiredAll { fences, .. }) => {
                names.iter().cloned().zip(fences).collect()
            }
            _ => Rc::default(),
        };
        Ok(locks::Lease::new(Lease::new(Rc::clone(client), Rc::clone(wanted.label()), parts, &grant)))
    }
}

/// Returns the engine, and its part of the limit of managers.
fn engine(servers: usize, new: impl FnOnce(ClientId) -> Result<Engine, EngineError>) -> Result<(Engine, Taken), Error> {
    let counted = limits::manager(servers)?;
    let random = [random::get_random_u64(), random::get_random_u64()].map(u64::to_ne_bytes);
    let mut id = [0; 16];
    id.copy_from_slice(random.as_flattened());
    let engine = new(ClientId::from_random(id)).map_err(|error| error::from_engine(&error, None))?;
    Ok((engine, counted))
}

async fn connect(servers: Servers, limit: Duration) -> Result<Rc<Server>, Error> {
    let start = Start::now();
    let failed = |failure| error::from_connecting(failure, start.elapsed());
    let server = Server::new(servers, limit, None);
    let endpoint = server.connect().await.map_err(failed)?;
    version::judge(&version::info(&endpoint, limit.saturating_sub(start.elapsed())).await.map_err(failed)?)?;
    Ok(server)
}
