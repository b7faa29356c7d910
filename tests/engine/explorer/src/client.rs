//! A client: a real engine, its users, and what it believes.

use std::fmt;

use leasehold_core::{ClientId, Engine, Error, Grant, LeaseId, Mode, OpId};

use crate::clock::Micros;
use crate::scenario::{Action, Scenario};

/// The end of a client's id, by which ids differ. All ids give engines the same seed, so clients that have done the
/// same are equal.
const SEED: u8 = 5;

/// A client with its engine.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) id: String,
    /// None once its process has died.
    pub(crate) engine: Option<Engine>,
    /// Whether the server sends it messages.
    pub(crate) listens: bool,
    /// Until when its process stands still.
    pub(crate) paused: Option<Micros>,
    pub(crate) users: Vec<User>,
    pub(crate) beliefs: Vec<Belief>,
    /// The tokens of its leases that were reported lost.
    pub(crate) lost: Vec<Vec<u8>>,
    /// The tokens that it was told an operator took.
    pub(crate) revoked: Vec<Vec<u8>>,
    /// Since when it knows that another client waits for the lock that it holds.
    pub(crate) wanted_at: Option<Micros>,
    last_op: u64,
}

/// A user of a client, with what it has still to do.
#[derive(Clone, Hash)]
pub(crate) struct User {
    pub(crate) rest: &'static [Action],
    pub(crate) state: UserState,
}

/// What a user is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum UserState {
    /// It is about to acquire the lock, or has nothing more to do.
    Idle,
    /// It waits for the lock.
    Waiting(OpId),
    /// It holds a lease, until then at the longest.
    Holding(LeaseId, Micros),
    /// It waits for its conversion to end.
    Converting(OpId, LeaseId),
    /// It waits for its lease to be made shorter.
    Shortening(OpId, LeaseId),
    /// It waits for its release to end.
    Releasing(OpId),
}

/// A lease that a client takes to be its own.
#[derive(Clone)]
pub(crate) struct Belief {
    pub(crate) lease: LeaseId,
    pub(crate) mode: Mode,
    pub(crate) fence: u64,
    pub(crate) granted: Micros,
    pub(crate) until: Micros,
    /// Its token on the server.
    pub(crate) token: Vec<u8>,
    /// It converts, so its token may be another one.
    pub(crate) converts: bool,
}

impl Client {
    /// The client at this place.
    pub(crate) fn new(place: u8, scenario: &Scenario) -> Result<Self, Error> {
        let mut bytes = [0; 16];
        (bytes[7], bytes[15]) = (place, place ^ SEED);
        let id = ClientId::from_random(bytes);
        let users = scenario.clients[usize::from(place)].iter();
        Ok(Self {
            id: id.to_string(),
            engine: Some(Engine::new(id, scenario.config())?),
            listens: false,
            paused: None,
            users: users.map(|rest| User { rest, state: UserState::Idle }).collect(),
            beliefs: Vec::new(),
            lost: Vec::new(),
            revoked: Vec::new(),
            wanted_at: None,
            last_op: 0,
        })
    }

    /// Whether its process can do something now.
    pub(crate) fn runs(&self) -> bool {
        self.engine.is_some() && self.paused.is_none()
    }

    /// The number of its next call.
    pub(crate) const fn next_op(&self) -> u64 {
        self.last_op + 1
    }

    pub(crate) fn new_op(&mut self) -> OpId {
        self.last_op += 1;
        OpId(self.last_op)
    }

    /// The user that made this call and waits for its end.
    pub(crate) fn caller(&mut self, op: OpId) -> Option<&mut User> {
        self.users.iter_mut().find(|user| match user.state {
            UserState::Waiting(open)
            | UserState::Converting(open, _)
            | UserState::Shortening(open, _)
            | UserState::Releasing(open) => open == op,
            UserState::Idle | UserState::Holding(..) => false,
        })
    }

    /// The lease that it takes to be valid.
    pub(crate) fn belief(&mut self, lease: LeaseId) -> Option<&mut Belief> {
        self.beliefs.iter_mut().find(|belief| belief.lease == lease)
    }

    /// The lease is no longer its own, as far as it knows.
    pub(crate) fn disbelieve(&mut self, lease: LeaseId) {
        self.beliefs.retain(|belief| belief.lease != lease);
    }

    /// The token that the engine holds a lease with.
    pub(crate) fn token(&self, lease: LeaseId) -> Option<Vec<u8>> {
        let [command, _] = self.engine.as_ref()?.touch(lease)?;
        let keys: usize = std::str::from_utf8(command.words().nth(2)?).ok()?.parse().ok()?;
        command.words().nth(3 + keys).map(<[u8]>::to_vec)
    }

    /// Whether all users have done everything, or never will.
    pub(crate) fn is_done(&self) -> bool {
        self.engine.is_none() || self.users.iter().all(|user| user.state == UserState::Idle && user.rest.is_empty())
    }
}

impl fmt::Debug for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, fence, until, converts, .. } = self;
        let counter = String::from_utf8_lossy(&self.token);
        let counter = counter.rsplit(':').next().unwrap_or_default();
        let converting = if *converts { ", converting" } else { "" };
        write!(f, "a {mode:?} lease (fence {fence}, token {counter}, until {until} us{converting})")
    }
}

impl Belief {
    pub(crate) fn new(granted: Micros, grant: &Grant, token: Vec<u8>) -> Self {
        let Grant { lease, mode, fence, valid_until, .. } = *grant;
        Self { lease, mode, fence, granted, until: crate::clock::when(valid_until), token, converts: false }
    }
}

impl User {
    /// What it does next, if it may.
    pub(crate) fn next(&self) -> Option<Action> {
        let first = *self.rest.first()?;
        match (self.state, first) {
            (UserState::Idle, Action::Acquire(_) | Action::Try(_))
            | (UserState::Waiting(_), Action::Cancel)
            | (UserState::Holding(..), Action::Convert(_) | Action::Shorten(_) | Action::Release) => Some(first),
            _ => None,
        }
    }

    /// Whether it acts before time passes.
    pub(crate) fn is_urgent(&self, now: Micros) -> bool {
        match self.state {
            UserState::Idle => !self.rest.is_empty(),
            UserState::Holding(_, until) => until <= now,
            UserState::Waiting(_) | UserState::Converting(..) | UserState::Shortening(..) | UserState::Releasing(_) => {
                false
            }
        }
    }

    /// It has the lock.
    pub(crate) fn holds(&mut self, lease: LeaseId, until: Micros) {
        if let Some((Action::Cancel, rest)) = self.rest.split_first() {
            self.rest = rest;
        }
        self.state = UserState::Holding(lease, until);
    }

    /// It doesn't have the lock, and goes on with the next acquire.
    pub(crate) fn goes_on(&mut self) {
        let next = self.rest.iter().position(|action| matches!(action, Action::Acquire(_) | Action::Try(_)));
        self.rest = next.map_or(&[], |next| &self.rest[next..]);
        self.state = UserState::Idle;
    }
}
