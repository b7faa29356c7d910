//! A client: a real engine, its users, and what it believes.

use std::fmt;

use leasehold_core::{ClientId, Engine, Error, Grant, LeaseId, Mode, OpId};

use crate::clock::Micros;
use crate::flight::Channel;
use crate::scenario::{Action, Scenario};
use crate::terms::Told;

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
    /// Whether the server tells it who leads.
    pub(crate) hears: bool,
    /// What its observer was told last.
    pub(crate) told: Option<Told>,
    /// When its observer last asked, unless something new has happened since.
    pub(crate) asked_at: Option<Micros>,
    /// Until when it drains. It grants nothing any more.
    pub(crate) drains: Option<Micros>,
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
    /// How many results of a once were gone when it last asked for the lock.
    pub(crate) gone: u8,
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
    /// The same, and the release stores a result.
    Storing(OpId),
    /// It waits for the result to be deleted.
    Forgetting(OpId),
    /// It observes an election.
    Observing(OpId),
    /// It waits until its lease is detached.
    Detaching(OpId),
    /// It waits for a lease that it adopts.
    Adopting(OpId),
    /// It waits until its client has drained.
    Draining(OpId),
    /// It waits until its client is closed, which held so many leases.
    Closing(OpId, u32),
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
            hears: false,
            told: None,
            asked_at: None,
            drains: None,
            paused: None,
            users: users.map(|rest| User { rest, state: UserState::Idle, gone: 0 }).collect(),
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

    pub(crate) fn new_op(&mut self) -> OpId {
        self.last_op += 1;
        OpId(self.last_op)
    }

    /// The user that made this call and waits for its end.
    pub(crate) fn caller(&mut self, op: OpId) -> Option<&mut User> {
        self.users.iter_mut().find(|user| user.state.call() == Some(op))
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
        self.engine.is_none() || self.users.iter().all(User::is_done)
    }

    /// Whether something is still to come that happens by itself.
    pub(crate) fn will_act(&self) -> bool {
        let acts = |user: &User| !user.is_done() && !user.may_drain();
        self.engine.is_some() && (self.paused.is_some() || self.users.iter().any(acts))
    }

    /// Whether the server sends it the messages of this channel.
    pub(crate) fn is_on(&self, channel: Channel) -> bool {
        if channel == Channel::Own { self.listens } else { self.hears }
    }

    /// The server begins or ends to send it the messages of this channel.
    pub(crate) fn set_on(&mut self, channel: Channel, on: bool) {
        *(if channel == Channel::Own { &mut self.listens } else { &mut self.hears }) = on;
    }

    /// The result of the work that a call gives back.
    pub(crate) fn value(&self, op: OpId) -> Vec<u8> {
        format!("\"{}:{}\"", self.id, op.0).into_bytes()
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

impl UserState {
    /// The call whose end it waits for.
    pub(crate) const fn call(self) -> Option<OpId> {
        match self {
            Self::Waiting(op)
            | Self::Converting(op, _)
            | Self::Shortening(op, _)
            | Self::Releasing(op)
            | Self::Storing(op)
            | Self::Forgetting(op)
            | Self::Observing(op)
            | Self::Detaching(op)
            | Self::Adopting(op)
            | Self::Draining(op)
            | Self::Closing(op, _) => Some(op),
            Self::Idle | Self::Holding(..) => None,
        }
    }
}

impl User {
    /// What it does next, if it may.
    pub(crate) fn next(&self) -> Option<Action> {
        let first = *self.rest.first()?;
        let may = match self.state {
            UserState::Idle => first.begins(),
            UserState::Waiting(_) => first == Action::Cancel,
            UserState::Holding(..) => !first.begins() && first != Action::Cancel,
            _ => false,
        };
        may.then_some(first)
    }

    /// Whether it has done everything. An observer goes on until everything else is over.
    fn is_done(&self) -> bool {
        self.rest.is_empty() && matches!(self.state, UserState::Idle | UserState::Observing(_))
    }

    /// Whether it lets its client drain next. It may do that at any time.
    fn may_drain(&self) -> bool {
        self.state == UserState::Idle && matches!(self.rest, [Action::Drain(_), ..])
    }

    /// Whether it acts before time passes.
    pub(crate) fn is_urgent(&self, now: Micros) -> bool {
        match self.state {
            UserState::Idle => !self.rest.is_empty() && !self.may_drain(),
            UserState::Holding(_, until) => until <= now,
            _ => false,
        }
    }

    /// It has the lock.
    pub(crate) fn holds(&mut self, lease: LeaseId, until: Micros) {
        if let Some((Action::Cancel, rest)) = self.rest.split_first() {
            self.rest = rest;
        }
        self.state = UserState::Holding(lease, until);
    }

    /// It doesn't have the lock, and goes on with what needs no lease.
    pub(crate) fn goes_on(&mut self) {
        let next = self.rest.iter().position(|action| action.begins());
        self.rest = next.map_or(&[], |next| &self.rest[next..]);
        self.state = UserState::Idle;
    }
}
