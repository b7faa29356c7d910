//! The manager. Every lock begins here.

use alloc::borrow::ToOwned;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use leasehold_core::{
    AcquireOptions, ClientId, Engine, Error as EngineError, Labels, LeaseToken, Operation, Outcome, Part, Wait,
    check_label,
};

use super::convert::{self, Names};
use super::lease::Lease;
use crate::bindings::exports::leasehold::lock::locks::{
    self, Begun, Error, GuestLockManager, Inspection, ManagerOptions, StoredResult, Target, Topology,
};
use crate::bindings::wasi::random::random;
use crate::client::Client;
use crate::limits::{self, Permit};
use crate::{error, net};

pub(crate) struct LockManager {
    client: Rc<Client>,
}

impl GuestLockManager for LockManager {
    async fn open(topology: Topology, options: Option<ManagerOptions>) -> Result<locks::LockManager, Error> {
        let label = options.as_ref().and_then(|options| options.label.clone()).unwrap_or_default();
        check_label(&label).map_err(|error| error::from_engine(&error, None))?;
        let slots = options.as_ref().and_then(|options| options.cluster_slots);
        let config = convert::config(options);
        let (response_timeout, node_timeout) = (config.response_timeout, config.node_timeout);
        let (engine, labels, permit, servers, limit) = match convert::servers(topology) {
            Ok(servers) => {
                let ((mut engine, id), permit) = new_engine(1, |id| Engine::new(id, config))?;
                let server = net::connect(servers, slots, response_timeout).await?;
                if let Some(abilities) = server.take_abilities() {
                    abilities.tell(&mut engine, None);
                }
                (engine, Some(Labels::new(id, &label)), permit, vec![server], response_timeout)
            }
            Err(_) if slots == Some(true) => return Err(net::no_slots()),
            Err(addresses) => {
                let names: Vec<&str> = addresses.iter().map(|address| net::label(address)).collect();
                let ((engine, _), permit) = new_engine(addresses.len(), |id| Engine::quorum(id, config, &names))?;
                (engine, None, permit, net::connect_quorum(&addresses, response_timeout).await?, node_timeout)
            }
        };
        Ok(locks::LockManager::new(Self { client: Client::start(engine, labels, servers, limit, permit) }))
    }

    async fn acquire(&self, target: Target, options: Option<locks::AcquireOptions>) -> Result<locks::Lease, Error> {
        let (names, options) = convert::acquire(target, options)?;
        self.take(&names, options).await.map_err(|error| self.not_taken(&error, names.label()))
    }

    async fn try_acquire(
        &self,
        target: Target,
        options: Option<locks::AcquireOptions>,
    ) -> Result<Option<locks::Lease>, Error> {
        // The contract says that `wait-ms` is ignored, even if it is invalid.
        let without_wait = options.map(|options| locks::AcquireOptions { wait_ms: None, ..options });
        let (names, options) = convert::acquire(target, without_wait)?;
        match self.take(&names, AcquireOptions { wait: Wait::No, ..options }).await {
            Ok(lease) => Ok(Some(lease)),
            Err(EngineError::Busy { .. }) => Ok(None),
            Err(error) => Err(error::from_engine(&error, Some(names.label()))),
        }
    }

    async fn begin_once(&self, name: String, options: Option<locks::OnceOptions>) -> Result<Begun, Error> {
        let (names, options) = convert::once(name, options)?;
        let label = names.label();
        let begun = match self.client.run(&Operation::Acquire { name: label, options: &options }).await {
            Ok(Outcome::Stored { fence, value }) => match String::from_utf8(value) {
                Ok(value) => Ok(Begun::Stored(StoredResult { value, fence })),
                Err(_) => Err(EngineError::Protocol("the stored result is not UTF-8".to_owned())),
            },
            Ok(outcome) => self.lease(&names, outcome, false).map(Begun::Work),
            Err(error) => Err(error),
        };
        begun.map_err(|error| self.not_taken(&error, label))
    }

    async fn forget(&self, name: String) -> Result<bool, Error> {
        match self.client.execute(Operation::Forget { name: &name }, &name).await? {
            Outcome::Forgotten(found) => Ok(found),
            _ => Err(error::unexpected_outcome()),
        }
    }

    async fn adopt(
        &self,
        target: Target,
        token: String,
        options: Option<locks::AcquireOptions>,
    ) -> Result<locks::Lease, Error> {
        // The contract says that `wait-ms` is ignored, even if it is invalid.
        let without_wait = options.map(|options| locks::AcquireOptions { wait_ms: None, ..options });
        let (names, options) = convert::acquire(target, without_wait)?;
        let adopted = match (LeaseToken::read(&token), &names) {
            (Ok(token), Names::One(name)) => {
                self.client.run(&Operation::Adopt { name, token, options: &options }).await
            }
            (Ok(_), Names::All { .. }) => {
                Err(EngineError::Unsupported("a lease of several names can't be adopted".to_owned()))
            }
            (Err(error), _) => Err(error),
        };
        let lease = adopted.and_then(|outcome| self.lease(&names, outcome, false));
        lease.map_err(|error| error::from_engine(&error, Some(names.label())))
    }

    async fn inspect(&self, name: String) -> Result<Inspection, Error> {
        match self.client.execute(Operation::Inspect { name: &name, asks: false }, &name).await? {
            Outcome::Inspected(inspection) => Ok(convert::inspection(*inspection)),
            _ => Err(error::unexpected_outcome()),
        }
    }

    async fn force_release(&self, name: String, foreign: bool) -> Result<u32, Error> {
        match self.client.execute(Operation::ForceRelease { name: &name, foreign }, &name).await? {
            Outcome::Revoked(holders) => Ok(holders),
            _ => Err(error::unexpected_outcome()),
        }
    }
}

impl LockManager {
    fn not_taken(&self, error: &EngineError, name: &str) -> Error {
        let holder = match error {
            EngineError::Busy { busy_name, is_rate: false, .. } => {
                self.client.shared.holder(busy_name.as_deref().unwrap_or(name))
            }
            _ => None,
        };
        error::held_by(error::from_engine(error, Some(name)), holder)
    }

    async fn take(&self, target: &Names, options: AcquireOptions) -> Result<locks::Lease, EngineError> {
        let client = &self.client;
        let outcome = match target {
            Names::One(name) => client.run(&Operation::Acquire { name, options: &options }).await?,
            Names::All { names, kinds, one_script, .. } => {
                let parts = names.iter().zip(kinds).map(|(name, (kind, mode))| Part { name, kind: *kind, mode: *mode });
                let parts: Vec<_> = parts.collect();
                let operation = Operation::AcquireAll { parts: &parts, options: &options, one_script: *one_script };
                client.run(&operation).await?
            }
        };
        self.lease(target, outcome, options.per.is_some())
    }

    fn lease(&self, target: &Names, outcome: Outcome, detached: bool) -> Result<locks::Lease, EngineError> {
        let Some(grant) = outcome.grant() else {
            return Err(EngineError::Protocol("unexpected outcome".to_owned()));
        };
        let fences = match (target, outcome) {
            (Names::All { names, .. }, Outcome::AcquiredAll { fences, .. }) => {
                names.iter().cloned().zip(fences).collect()
            }
            _ => Rc::default(),
        };
        let lease = Lease::new(Rc::clone(&self.client), Rc::clone(target.label()), fences, &grant);
        Ok(locks::Lease::new(lease.detached(detached)))
    }
}

/// An engine with a random identity, and its part of the limit of managers.
fn new_engine(
    servers: usize,
    new: impl FnOnce(ClientId) -> Result<Engine, EngineError>,
) -> Result<((Engine, ClientId), Permit), Error> {
    let permit = limits::manager_permit(servers)?;
    let random = [random::get_random_u64(), random::get_random_u64()].map(u64::to_ne_bytes);
    let mut id = [0; 16];
    id.copy_from_slice(random.as_flattened());
    let id = ClientId::from_random(id);
    let engine = new(id).map_err(|error| error::from_engine(&error, None))?;
    Ok(((engine, id), permit))
}
