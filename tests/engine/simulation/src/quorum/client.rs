//! One client: an engine over all servers, its own clock, and users.

use std::time::Duration;

use leasehold_core::{AcquireOptions, ClientId, Config, Engine, Instant, Kind, LeaseId, Mode, OpId, Wait};
use leasehold_harness::{Clock, Micros, Rng};

use crate::client::Delivery;
use crate::quorum::attempts::Attempts;
use crate::quorum::world::Mix;
use crate::wire::Life;

pub(crate) struct Client {
    /// Its number, unique in the run. A crash ends its life, and another client takes its place.
    pub(crate) life: Life,
    /// None after a crash or a close.
    pub(crate) engine: Option<Engine>,
    id: ClientId,
    /// The common part of its tokens on all servers.
    pub(crate) uuid: String,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    pub(crate) asleep_until: Option<Micros>,
    /// What arrived while it slept.
    pub(crate) inbox: Vec<Delivery>,
    /// Whether the first server sends it messages.
    pub(crate) subscribed: bool,
    pub(crate) wake: (Option<Instant>, u32),
    pub(crate) users: Vec<User>,
    pub(crate) ops: Vec<Op>,
    /// Whether it grants nothing more, because a user drains it.
    pub(crate) drains: bool,
    /// What it has asked each server.
    pub(crate) attempts: Attempts,
    /// How often a script for several names has found one that is not free, since a user last asked for several.
    pub(crate) turns: u32,
    /// A second of true time, and what the commands that were sent in it cost.
    pub(crate) pace: (Micros, Micros),
}

#[derive(Default)]
pub(crate) struct User {
    pub(crate) doing: Doing,
    /// The number of its next step. Earlier steps with another number are void.
    pub(crate) step: u32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Doing {
    #[default]
    Nothing,
    /// Its call is under way.
    Calling(OpId),
    Holding(LeaseId),
    /// Nothing is held any more, or the time of the drain is over. Now it closes the client.
    Drained,
}

#[derive(Clone)]
pub(crate) struct Op {
    pub(crate) user: usize,
    pub(crate) parts: Vec<Wanted>,
    pub(crate) call: UserCall,
    /// When it began, in true time.
    pub(crate) began: Micros,
    /// When it must have ended, by the client's clock.
    pub(crate) ends: Option<Instant>,
    pub(crate) ended: bool,
}

/// What a call wants of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) name: usize,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
}

impl Wanted {
    pub(crate) const fn exclusive(name: usize) -> Self {
        Self { name, kind: Kind::Lock, mode: Mode::Exclusive }
    }

    /// The permits of a semaphore, or 0.
    pub(crate) const fn permits(&self) -> u32 {
        if let Kind::Semaphore { permits, .. } = self.kind { permits } else { 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserCall {
    Acquire(AcquireOptions),
    /// Several names as one lease.
    AcquireAll(AcquireOptions),
    Release(LeaseId),
    Extend(LeaseId, Duration),
    Shorten(LeaseId, Duration),
    Verify(LeaseId),
    Hold(LeaseId),
    Inspect,
    /// Let the holders finish, for this long, before the client closes.
    Drain(Duration),
    Close,
}

impl Client {
    pub(crate) fn start(rng: &mut Rng, mix: &Mix, life: Life) -> Self {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&rng.draw().to_be_bytes());
        id[8..].copy_from_slice(&rng.draw().to_be_bytes());
        let single = mix.is_single();
        // The watchers of a single server know tokens by the first two bytes.
        id[..4].copy_from_slice(&(u32::from(life) << if single { 16 } else { 0 }).to_be_bytes());
        let id = ClientId::from_random(id);
        let timeout = Duration::from_millis(if single { rng.range((100, 500)) } else { rng.spread((20, 500)) });
        let mut config = Config {
            node_timeout: timeout,
            claim_window: Duration::from_millis(rng.range(mix.claim_ms)),
            batches: life.is_multiple_of(2),
            ..Config::default()
        };
        if single {
            (config.response_timeout, config.local_handoffs) = (timeout, Some(rng.below(4) as u32));
        }
        let names: Vec<String> = (0..mix.servers).map(|server| format!("s{server}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let engine = match single {
            true => Engine::new(id, config.clone()).ok(),
            false => Engine::quorum(id, config.clone(), &names).ok(),
        };
        let drift = rng.range((0, 10_000)) as i64 - 5_000;
        Self {
            life,
            engine,
            id,
            uuid: id.to_string()[..32].to_owned(),
            clock: Clock::new((1 << 40) + rng.below(1 << 40), drift),
            config,
            asleep_until: None,
            inbox: Vec::new(),
            subscribed: false,
            wake: (None, 0),
            users: (0..rng.range(mix.users)).map(|_| User::default()).collect(),
            ops: vec![],
            drains: false,
            attempts: Attempts::default(),
            turns: 0,
            pace: (0, 0),
        }
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.engine.is_some() && self.asleep_until.is_none()
    }

    /// When a call must have ended. A try asks once for the lock and once for the fence. It asks once more for the
    /// greater fence of each server that may replace another one. That can be as many servers as a majority can do
    /// without. It takes several names one after the other. A reader asks the first server before the others.
    pub(crate) fn ends(&self, call: UserCall, names: usize, at: Instant, servers: usize) -> Option<Instant> {
        let timeout = self.config.node_timeout;
        match call {
            UserCall::Acquire(options) | UserCall::AcquireAll(options) => match options.wait {
                Wait::For(wait) => Some(at + wait),
                Wait::No => {
                    let steps = 2 + (servers as u32 - 1) / 2 + u32::from(options.mode == Mode::Shared);
                    Some(at + timeout * 2 * steps * names as u32)
                }
                _ => None,
            },
            UserCall::Drain(grace) => Some(at + grace),
            UserCall::Close => Some(at + timeout * 4),
            // A server that grants the lease in the time of the others is asked, too.
            UserCall::Extend(..) | UserCall::Shorten(..) | UserCall::Verify(_) => Some(at + timeout * 5),
            // If many commands are unanswered, its command waits until they have timed out.
            _ => Some(at + timeout * 3),
        }
    }

    /// The client runs again after a pause. A command without an answer has timed out. A try may still ask for the fence,
    /// and ask once more for the greater fence of each server that may replace another one. Its other names may follow.
    pub(crate) fn tries_go_on(&mut self, at: Instant, servers: usize) {
        let steps = 1 + (servers as u32 - 1) / 2;
        let attempt = self.config.node_timeout * 2;
        let options = |op: &Op| match op.call {
            UserCall::Acquire(options) | UserCall::AcquireAll(options) => Some(options),
            _ => None,
        };
        let tries = |op: &&mut Op| options(op).is_some_and(|options| options.wait == Wait::No);
        for op in self.ops.iter_mut().filter(|op| !op.ended).filter(tries) {
            let later = op.parts.len() as u32 - 1;
            let steps = steps + u32::from(options(op).is_some_and(|options| options.mode == Mode::Shared));
            op.ends = op.ends.max(Some(at + attempt * (steps + (steps + 1) * later)));
        }
    }

    /// A close may go on as long as servers confirm releases. A server confirmed something now.
    pub(crate) fn close_goes_on(&mut self, at: Instant) {
        let timeout = self.config.node_timeout;
        for op in self.ops.iter_mut().filter(|op| op.call == UserCall::Close && !op.ended) {
            op.ends = Some(at + timeout * 4);
        }
    }

    /// The channel on which it waits for messages.
    pub(crate) fn channel(&self) -> String {
        format!("leasehold:{}", self.id)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.users.iter().all(|user| user.doing == Doing::Nothing)
    }
}
