//! One client: an engine with its own clock, its calls and its deliveries.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, CommandId, Config, DeleteIfEqual, Engine, Failure, Instant, LeaseId, LeaseToken, Mode,
    NodeId, Reply, Wait,
};
use leasehold_harness::{Clock, Micros, Rng};

use crate::channels::Topic;
use crate::coverage::State;
use crate::kinds::LockKind;
use crate::mix::{DEFAULT_HANDOFFS, Mix};
use crate::users::User;
use crate::wire::{AcquireMode, Answer, Entry, Life, ScriptCommand};

/// One client. A crash ends its life, and another client takes its place in the list.
pub(crate) struct Client {
    /// Its number, unique in the run.
    pub(crate) life: Life,
    /// Its id as text, the beginning of its tokens and of its channel.
    pub(crate) uuid: String,
    /// None after a crash or a close, until another client takes its place.
    pub(crate) engine: Option<Engine>,
    /// Its own clock.
    pub(crate) clock: Clock,
    /// Its options.
    pub(crate) config: Config,
    /// Whether its host can't subscribe.
    pub(crate) mute: bool,
    /// Until when its process stands still.
    pub(crate) asleep_until: Option<Micros>,
    /// What arrived while it stood still.
    pub(crate) inbox: Vec<Delivery>,
    /// The wake-up that is set: its time and its number.
    pub(crate) wake: (Option<Instant>, u32),
    /// Every call of its users. The index is the op's id.
    pub(crate) ops: Vec<Op>,
    /// The calls that have not ended.
    pub(crate) open: Vec<u32>,
    /// Its users.
    pub(crate) users: Vec<User>,
    /// Commands that it waits for.
    pub(crate) sent: Vec<SentCommand>,
    /// When the server last didn't know a script that it called, by its own clock.
    pub(crate) lacked_script: Instant,
    /// Whether the server sends it messages on its own channel.
    pub(crate) subscribed: bool,
    /// The same for the channel of each reentrant lock.
    pub(crate) listens: Vec<bool>,
    /// When the last change of its subscriptions reaches the server. Changes keep their order.
    pub(crate) last_change: Micros,
    /// Since when it receives messages, or knows that it won't. None before its first subscription was answered.
    pub(crate) hears_since: Option<Instant>,
    /// For each lock: until when the server has granted it a lease that it doesn't know of yet.
    pub(crate) granted: Vec<Micros>,
    /// When the last of its commands arrives, as far as is known.
    pub(crate) last_arrival: Micros,
    /// The longest TTL that one of its users asked for.
    pub(crate) longest_ttl_ms: u64,
    /// Until when something kept it from working with its servers.
    pub(crate) trouble_until: Micros,
    /// When it had so many commands under way last that further ones may have waited in its own queue, by its clock.
    pub(crate) full_at: Option<Instant>,
    /// When it last heard from its server, by its clock.
    pub(crate) heard_at: Instant,
    /// When its server last refused a command because a slot moves, by its clock.
    pub(crate) moved_at: Instant,
    /// When it was last later than the engine asked for.
    pub(crate) paused_at: Instant,
    /// When one of its releases was answered last, by its clock.
    pub(crate) released_at: Instant,
    /// Whether it grants nothing more, because a user drains it.
    pub(crate) drains: bool,
    /// The end of the time of a drain that has just ended.
    pub(crate) drained: Option<Instant>,
}

/// Something that can be delivered to a client.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// The end of a command.
    Reply(CommandId, Result<Reply, Failure>),
    /// A message.
    Message(Topic, Vec<u8>),
    /// Its subscription is confirmed.
    Subscribed(Topic),
    /// Its subscription has ended.
    Unsubscribed(Topic, Failure),
}

/// A command that a client waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentCommand {
    /// The command's number. All entries of a batch have the same.
    pub(crate) id: CommandId,
    /// Whether it is the command's only call, or its first.
    pub(crate) leads: bool,
    /// Set in a batch.
    pub(crate) entry: Option<Entry>,
    /// Its script call.
    pub(crate) script: ScriptCommand,
    /// The lock that it is about.
    pub(crate) name: usize,
    /// When, by the client's clock.
    pub(crate) at: Instant,
    /// When the time for its answer began: at `at`, or at the end of a pause.
    pub(crate) since: Instant,
    pub(crate) pauses: u8,
}

impl SentCommand {
    /// What a reply says to this call. None if a batch left it undone.
    pub(crate) fn answer(&self, reply: &Reply) -> Option<Answer> {
        self.entry.map_or_else(|| Answer::read(reply), |entry| entry.answer(&self.script, reply))
    }
}

/// What a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserCall {
    /// A lease.
    Acquire(AcquireOptions),
    /// Release one hold.
    Release,
    /// Release the lease of a once, and store this result.
    Store(u64),
    /// Extend the lease.
    Extend(Duration),
    /// Convert to the other mode.
    Convert(Mode),
    /// Add one hold.
    Hold,
    /// Verify the lease.
    Verify,
    /// Inspect the lock.
    Inspect,
    /// Ask for the lease's token, for another client.
    Export,
    /// Detach the lease, perhaps for a time.
    Detach(Option<Duration>),
    /// Adopt the lease of another client's token.
    Adopt(AcquireOptions, LeaseToken),
    /// Let the holders finish, for this long, before the client closes.
    Drain(Duration),
    /// Close the client.
    Close,
    /// An impossible name or option, which is refused at once.
    Nonsense,
}

/// One call of a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// What it asks for.
    pub(crate) call: UserCall,
    /// The user.
    pub(crate) user: usize,
    /// The lock.
    pub(crate) name: usize,
    /// The lease, if it is about one.
    pub(crate) lease: Option<LeaseId>,
    /// When it began, by the client's clock.
    pub(crate) since: Instant,
    /// When it must have ended, by the client's clock.
    pub(crate) ends: Option<Instant>,
    /// Whether the lease has a `max_hold`.
    pub(crate) bounded: bool,
    /// Whether its user has cancelled it.
    pub(crate) cancelled: bool,
    /// Whether it has ended.
    pub(crate) ended: bool,
    /// How many later calls were served before it.
    pub(crate) passed: u32,
}

impl Client {
    /// A new client; `life` is its number.
    pub(crate) fn start(rng: &mut Rng, mix: &Mix, life: Life, now: Micros) -> Self {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&rng.draw().to_be_bytes());
        id[8..].copy_from_slice(&rng.draw().to_be_bytes());
        id[..2].copy_from_slice(&life.to_be_bytes());
        let id = ClientId::from_random(id);
        let handoffs = rng.range(mix.handoffs) as u32;
        let local_handoffs = (mix.handoffs != DEFAULT_HANDOFFS).then_some(handoffs);
        let config = Config {
            local_handoffs,
            claim_window: Duration::from_millis(rng.range(mix.claim_ms)),
            response_timeout: Duration::from_millis(rng.range(mix.response_ms)),
            mixed_fleet: mix.mixed_fleet,
            batches: mix.batches && life % 4 != 3,
            max_in_flight: rng.range(mix.in_flight) as u16,
            ..Config::default()
        };
        let origin = (1 << 40) + rng.below(1 << 40);
        let drift = rng.range((0, 2 * mix.drift_ppm)) as i64 - mix.drift_ppm as i64;
        let users = rng.range(mix.users) as usize;
        let mute = rng.chance(mix.mute_hosts);
        let mut engine = Engine::new(id, config.clone()).ok();
        if let Some(engine) = engine.as_mut().filter(|_| mix.cluster) {
            engine.set_cluster(NodeId(0));
        }
        // Some clients release without a script, as they do on Valkey 9.
        if let Some(engine) = engine.as_mut().filter(|_| life % 2 == 1) {
            engine.set_delete_if_equal(Some(DeleteIfEqual::DelIfEq));
        }
        Self {
            life,
            uuid: id.to_string(),
            engine,
            clock: Clock::new(origin, drift),
            config,
            mute,
            asleep_until: None,
            inbox: Vec::new(),
            wake: (None, 0),
            ops: Vec::new(),
            open: Vec::new(),
            users: (0..users).map(|_| User::default()).collect(),
            sent: Vec::new(),
            subscribed: false,
            listens: vec![false; mix.names],
            last_change: now,
            hears_since: None,
            granted: vec![0; mix.names],
            last_arrival: now,
            longest_ttl_ms: 0,
            trouble_until: now,
            full_at: None,
            heard_at: Instant::default(),
            moved_at: Instant::default(),
            paused_at: Instant::default(),
            released_at: Instant::default(),
            drains: false,
            drained: None,
            lacked_script: Instant::default(),
        }
    }

    /// How many commands are under way, with those that the engine gives up at this moment.
    pub(crate) fn under_way(&self) -> usize {
        self.sent.iter().filter(|sent| sent.leads).count()
    }

    /// How many commands are under way, without those.
    pub(crate) fn unanswered(&self, now: Instant) -> usize {
        let patience = self.config.response_timeout;
        self.sent.iter().filter(|sent| sent.leads && now.since(sent.since) < patience).count()
    }

    /// If the client is much later than the engine asked for, everything that it waits for gets its full time again.
    pub(crate) fn notice_pause(&mut self, now: Instant) {
        let due = self.engine.as_ref().and_then(|engine| engine.poll_timeout());
        let late = due.map_or(Duration::ZERO, |(at, _)| now.since(at));
        if self.paused_at < now && late > Duration::from_millis(50).min(self.config.response_timeout / 4) {
            self.paused_at = now;
            for sent in self.sent.iter_mut().filter(|sent| sent.pauses < 3) {
                (sent.since, sent.pauses) = (now, sent.pauses + 1);
            }
        }
    }

    /// The engine has seen this moment, and gave up what was not answered in time.
    pub(crate) fn forget_unanswered(&mut self, now: Instant) {
        let patience = self.config.response_timeout;
        self.sent.retain(|sent| now.since(sent.since) < patience);
    }

    /// Whether it is alive and its process runs.
    pub(crate) fn is_awake(&self) -> bool {
        self.engine.is_some() && self.asleep_until.is_none()
    }

    /// The acquires for one lock that have not ended.
    pub(crate) fn waits_for(&self, name: usize) -> impl Iterator<Item = &Op> {
        let acquires = |op: &&Op| matches!(op.call, UserCall::Acquire(_));
        self.open.iter().map(|op| &self.ops[*op as usize]).filter(acquires).filter(move |op| op.name == name)
    }

    /// What it is doing, as seen from outside. `held` says which locks it holds.
    pub(crate) fn states(&self, now: Micros, kinds: &[LockKind], held: impl Fn(usize) -> bool) -> u16 {
        let mut states = 0;
        let clock = self.clock.instant(now);
        for sent in self.sent.iter().filter(|sent| clock.since(sent.since) < self.config.response_timeout) {
            states |= if sent.entry.is_some() { State::Batching.bit() } else { 0 };
            states |= match sent.script {
                ScriptCommand::Acquire { how: AcquireMode::Refill, .. } => State::Refilling.bit(),
                ScriptCommand::Acquire { .. } if held(sent.name) => 0,
                ScriptCommand::Acquire { .. } => State::Acquiring.bit(),
                ScriptCommand::Release { .. } => State::Releasing.bit(),
                ScriptCommand::Renew { .. } => State::Renewing.bit(),
                ScriptCommand::Convert { .. } => State::Converting.bit(),
                ScriptCommand::Inspect => 0,
            };
        }
        for (name, granted) in self.granted.iter().enumerate() {
            let waits = self.waits_for(name).any(|op| op.wait() != Wait::No);
            states |= match (held(name), waits) {
                (true, true) => State::Held.bit() | State::HandingOver.bit(),
                (true, false) => State::Held.bit(),
                (false, true) if *granted > now => State::Granted.bit(),
                (false, true) => State::Waiting.bit(),
                (false, false) => 0,
            };
            states |= match (kinds[name], held(name), waits) {
                (LockKind::Reentrant, true, _) => State::Reentrant.bit(),
                (LockKind::Reentrant, _, true) => State::Listening.bit(),
                (LockKind::Semaphore, true, _) => State::Permits.bit(),
                (LockKind::Semaphore, _, true) => State::Queueing.bit(),
                _ => 0,
            };
        }
        if self.open.iter().any(|op| self.ops[*op as usize].call == UserCall::Close) {
            states |= State::Closing.bit();
        }
        if states == 0 { State::Idle.bit() } else { states }
    }
}

impl Op {
    /// How long an acquire may wait. Other calls don't wait.
    pub(crate) fn wait(&self) -> Wait {
        if let UserCall::Acquire(options) = self.call { options.wait } else { Wait::No }
    }

    /// Whether it converts a lease of a lock.
    pub(crate) fn converts(&self, name: usize) -> bool {
        matches!(self.call, UserCall::Convert(_) | UserCall::Detach(_)) && self.name == name
    }
}
