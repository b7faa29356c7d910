//! The settings of a run: how many of each thing, how they behave, which faults strike and how often. Drawn from the
//! seed.

use leasehold_harness::{Micros, Rng};

use crate::faults::Fault;
use crate::kinds::{KindOptions, LockKind};
use crate::theme::Theme;

/// The range of a value that is drawn repeatedly.
pub(crate) type Bounds = (u64, u64);

/// Stands for clients without the option `local_handoffs`.
pub(crate) const DEFAULT_HANDOFFS: Bounds = (32, 32);

/// A run's settings. Chances are in millionths. Times are in µs unless the name says ms.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    /// The theme of the run.
    pub(crate) theme: Theme,
    /// If true, faults stop at some time, and then every user must finish. Otherwise faults go on to the end.
    pub(crate) liveness: bool,
    /// The number of engines.
    pub(crate) clients: usize,
    /// The users of each engine.
    pub(crate) users: Bounds,
    /// The number of servers, as primaries of a cluster. Each name is on one of them.
    pub(crate) servers: usize,
    /// The number of locks.
    pub(crate) names: usize,
    /// The kind of each lock.
    pub(crate) kinds: Vec<LockKind>,
    /// Settings for reentrant locks and semaphores.
    pub(crate) kind_options: KindOptions,
    /// The number of clients of other libraries.
    pub(crate) foreigners: usize,
    /// The fleet's option `mixed_fleet`.
    pub(crate) mixed_fleet: bool,
    /// The chance of each single fault.
    pub(crate) chance: [u32; Fault::COUNT],
    /// The faults that strike from time to time.
    pub(crate) strikes: Vec<Fault>,
    /// The average time from one strike to the next.
    pub(crate) gap: Micros,
    /// The time of one way through the network.
    pub(crate) trip: Bounds,
    /// The time of one way when it is slow.
    pub(crate) slow: Bounds,
    /// How long pauses, partitions and outages last.
    pub(crate) outage: Bounds,
    /// How many µs a clock may gain or lose in a second.
    pub(crate) drift_ppm: u64,
    /// The TTLs of leases.
    pub(crate) ttl_ms: Bounds,
    /// How long users hold a lease.
    pub(crate) hold: Bounds,
    /// How long users do something else.
    pub(crate) think: Bounds,
    /// Claim windows.
    pub(crate) claim_ms: Bounds,
    /// Response timeouts.
    pub(crate) response_ms: Bounds,
    /// The option `local_handoffs`, which [`DEFAULT_HANDOFFS`] leaves out.
    pub(crate) handoffs: Bounds,
    /// How many commands of a client may be unanswered.
    pub(crate) in_flight: Bounds,
    /// The chance that a host can't subscribe.
    pub(crate) mute_hosts: u32,
    /// The chance that an acquire is shared.
    pub(crate) shared: u32,
    /// The chance that an acquire is cancelled before it ends.
    pub(crate) cancels: u32,
    /// The chance that a holder does more than hold.
    pub(crate) active: u32,
    /// The share of these that convert.
    pub(crate) converts: u32,
    /// The share of waiting acquires that wait forever.
    pub(crate) forever: u32,
    /// The chance that a lease is not renewed.
    pub(crate) fixed: u32,
    /// The chance that a user closes its client.
    pub(crate) closes: u32,
    /// Whether many of them first let the holders finish.
    pub(crate) drains: bool,
    /// The chance that a holder moves the end of its lease. 0 but for the theme that is about it.
    pub(crate) keeps: u32,
    /// The chance that a holder passes its lease on, and that a caller adopts one. 0 in all themes but `Adopting`.
    pub(crate) adopts: u32,
    /// The chance that a call waits behind few others only. 0 but for the theme that is about it.
    pub(crate) limits: u32,
    /// The chance that a lease lingers after its release.
    pub(crate) lingers: u32,
    /// The chance that a holder gives its lease back at once.
    pub(crate) rushes: u32,
    /// Whether the requests of most clients share batches.
    pub(crate) batches: bool,
    /// Whether the clients know that the servers are a cluster's.
    pub(crate) cluster: bool,
}

impl Mix {
    /// The mix of a seed, with the given theme or with one that is drawn as well.
    pub(crate) fn draw(rng: &mut Rng, theme: Option<Theme>) -> Self {
        let drawn = if rng.chance(300_000) { *rng.pick(Theme::KINDS) } else { *rng.pick(Theme::LOCKS) };
        let theme = theme.unwrap_or(drawn);
        let mut mix = Self::plain(rng, theme);
        let about = match theme {
            // The other kinds run under the same faults as the plain lock.
            Theme::Reentrant | Theme::Semaphore | Theme::Keeping | Theme::Adopting | Theme::Once | Theme::Waiters => {
                *rng.pick(Theme::LOCKS)
            }
            about => about,
        };
        mix.turn_to(rng, about);
        if theme == Theme::Adopting {
            mix.adopt(rng);
        }
        // Names on one server, or of one slot. Not drawn, so that seeds without batches stay as they were.
        mix.cluster = mix.gap.is_multiple_of(5) && !mix.is_crowded();
        mix.batches = (mix.servers == 1 || mix.cluster) && mix.gap.is_multiple_of(2);
        if mix.batches && mix.names > 1 && !mix.is_crowded() {
            mix.names += 5;
            // Many callers of different names at a time. Only exclusive locks share a call.
            if mix.gap.is_multiple_of(4) && !matches!(theme, Theme::Reentrant | Theme::Semaphore | Theme::Once) {
                (mix.users, mix.think, mix.hold.1) = ((6, 12), (0, 2_000), mix.hold.1.min(20_000));
            }
        }
        mix.drains = mix.gap.is_multiple_of(3);
        mix.draw_kinds(rng);
        if !mix.mixed_fleet && rng.chance(250_000) {
            mix.lingers = rng.range((200_000, 1_000_000)) as u32;
        }
        if theme == Theme::Waiters {
            // Others' clients don't count, and a call that counts is refused in a mixed fleet.
            mix.mixed_fleet = false;
            mix.users = (2, 8);
            mix.limits = rng.range((300_000, 1_000_000)) as u32;
        }
        if theme == Theme::Keeping {
            mix.keeps = rng.range((200_000, 800_000)) as u32;
        }
        mix
    }

    /// Names of the run's kind, and sometimes one of another kind beside them.
    fn draw_kinds(&mut self, rng: &mut Rng) {
        let kind = match self.theme {
            Theme::Reentrant => LockKind::Reentrant,
            Theme::Semaphore => LockKind::Semaphore,
            Theme::Once => LockKind::Once,
            Theme::Waiters => *rng.pick(&[LockKind::Lock, LockKind::Lock, LockKind::Semaphore, LockKind::Once]),
            Theme::Keeping => *rng.pick(&[LockKind::Lock, LockKind::Lock, LockKind::Reentrant, LockKind::Semaphore]),
            _ => LockKind::Lock,
        };
        let other = *rng.pick(&[LockKind::Lock, LockKind::Reentrant, LockKind::Semaphore]);
        let beside = kind != LockKind::Lock && rng.chance(400_000);
        self.kinds = (0..self.names).map(|name| if name > 0 && beside { other } else { kind }).collect();
        if kind == LockKind::Once {
            self.foreigners = 0;
        } else if kind != LockKind::Lock {
            self.foreigners = self.foreigners.max(usize::from(rng.chance(400_000)) * rng.range((1, 2)) as usize);
        }
    }

    /// A few clients, a few locks, times of seconds, no faults.
    fn plain(rng: &mut Rng, theme: Theme) -> Self {
        let ttl = rng.spread((600, 10_000));
        let claim = rng.spread((300, 3_000));
        Self {
            theme,
            liveness: rng.chance(500_000),
            clients: rng.range((2, 5)) as usize,
            users: (1, rng.range((1, 5))),
            servers: rng.range((1, 2)) as usize,
            names: rng.range((1, 3)) as usize,
            kinds: Vec::new(),
            kind_options: KindOptions::draw(rng),
            foreigners: 0,
            mixed_fleet: false,
            chance: [0; Fault::COUNT],
            strikes: Vec::new(),
            gap: rng.spread((300_000, 3_000_000)),
            trip: (50, rng.spread((100, 20_000))),
            slow: (20_000, rng.spread((50_000, 5_000_000))),
            outage: (10_000, rng.spread((500_000, 15_000_000))),
            drift_ppm: 5_000,
            ttl_ms: (ttl, if rng.chance(300_000) { ttl * 3 } else { ttl }),
            hold: (0, rng.spread((1_000, 2_000_000))),
            think: (0, rng.spread((1_000, 500_000))),
            claim_ms: (claim, if rng.chance(300_000) { claim * 4 } else { claim }),
            response_ms: (100, rng.spread((200, 2_000))),
            handoffs: *rng.pick(&[DEFAULT_HANDOFFS, (0, 8), (0, 0), (3, 3), (32, 1023)]),
            in_flight: (1_024, 1_024),
            mute_hosts: 0,
            shared: *rng.pick(&[0, 0, 100_000, 500_000]),
            cancels: 50_000,
            active: 150_000,
            converts: 200_000,
            forever: 300_000,
            fixed: 100_000,
            closes: 2_000,
            drains: false,
            keeps: 0,
            adopts: 0,
            limits: 0,
            lingers: 0,
            rushes: 0,
            batches: false,
            cluster: false,
        }
    }

    fn turn_to(&mut self, rng: &mut Rng, theme: Theme) {
        use Fault as F;
        let commands =
            [F::Slow, F::CommandLost, F::ReplyLost, F::CommandLate, F::CommandTwice, F::Unavailable, F::ReplyTwice];
        let messages = [F::MessageLost, F::MessageLate, F::MessageTwice, F::SubscriptionBreaks];
        let wakes = [F::WakeLate, F::WakeEarly, F::WakeTwice];
        let clients = [F::Pause, F::Suspend, F::Crash];
        self.some(rng, &wakes, (500, 30_000));
        self.chance[F::Forced.index()] = *rng.pick(&[0, 0, 0, 300, 20_000]);
        match theme {
            Theme::Multi
            | Theme::Quorum
            | Theme::QuorumHot
            | Theme::QuorumNames
            | Theme::QuorumReaders
            | Theme::Keeping
            | Theme::Adopting
            | Theme::Once
            | Theme::Waiters
            | Theme::Election
            | Theme::Rate => {}
            Theme::Calm => {
                self.some(rng, Fault::SINGLE, (100, 3_000));
                self.strikes_of(rng, Fault::STRIKING);
                self.gap *= 5;
            }
            Theme::Network => {
                self.some(rng, &commands, (3_000, 100_000));
                self.strikes_of(rng, &[F::Partition, F::Pause]);
            }
            Theme::Messages => {
                self.some(rng, &messages, (3_000, 500_000));
                self.mute_hosts = *rng.pick(&[0, 300_000, 1_000_000]);
                self.strikes_of(rng, &[F::PublishRefused, F::Pause, F::Crash]);
            }
            Theme::Clients => {
                self.strikes_of(rng, &clients);
                self.closes = 20_000;
                self.liveness = rng.chance(200_000);
            }
            Theme::Servers => {
                self.some(rng, &commands, (500, 10_000));
                self.strikes_of(rng, Fault::STRIKING);
            }
            Theme::Losing => {
                self.some(rng, &commands, (500, 20_000));
                self.strikes_of(rng, Fault::STRIKING);
                self.strikes.extend(Fault::LOSING);
                self.trip.1 = rng.spread((60, 5_000));
            }
            Theme::Hot => {
                self.hot(rng);
                self.some(rng, Fault::SINGLE, (100, 10_000));
                let strikes: &[Fault] = if rng.chance(500_000) { &clients } else { Fault::STRIKING };
                self.strikes_of(rng, strikes);
                self.sometimes_losing(rng);
            }
            Theme::Readers => {
                self.shared = 800_000;
                self.some(rng, &commands, (500, 30_000));
                self.some(rng, &messages, (500, 30_000));
                self.strikes_of(rng, Fault::STRIKING);
            }
            Theme::Converts => {
                (self.shared, self.active, self.converts) = (500_000, 700_000, 800_000);
                self.names = 1;
                // Converts right after local hand-overs, whose fences lead the clock.
                if self.gap.is_multiple_of(3) {
                    (self.users, self.shared) = ((3, 8), 200_000);
                    (self.hold, self.think, self.trip) = ((0, 100), (0, 100), (10, 100));
                }
                self.some(rng, &commands, (3_000, 60_000));
                self.strikes_of(rng, &[F::Pause, F::Crash, F::Stall, F::Migration]);
                self.sometimes_losing(rng);
            }
            Theme::Foreign | Theme::MixedFleet => {
                self.foreigners = rng.range((1, 3)) as usize;
                self.mixed_fleet = theme == Theme::MixedFleet;
                // Foreign clients want only the first lock, so there may be a second one that only the engines use.
                self.names = rng.range((1, 2)) as usize;
                match rng.below(4) {
                    0 => (self.shared, self.active, self.converts) = (500_000, 700_000, 800_000),
                    1 if !self.mixed_fleet => {
                        self.hot(rng);
                        (self.names, self.trip.1) = (2, rng.spread((1_000, 20_000)));
                    }
                    _ => {}
                }
                self.some(rng, Fault::SINGLE, (500, 10_000));
                self.strikes_of(rng, &clients);
            }
            Theme::Short => {
                self.ttl_ms = (10, rng.spread((20, 300)));
                self.hold = (0, rng.spread((1_000, 500_000)));
                self.trip = (20, rng.spread((50, 3_000)));
                self.some(rng, Fault::SINGLE, (500, 30_000));
                self.strikes_of(rng, &clients);
                self.outage.1 = self.outage.1.min(1_000_000);
                // Late renewals of a client's first tokens. Their numbers are the beginnings of later ones.
                if self.gap.is_multiple_of(6) {
                    (self.servers, self.names, self.clients, self.users) = (1, 2, 2, (6, 8));
                    (self.ttl_ms, self.hold, self.think) = ((10, 30), (0, 60_000), (0, 5_000));
                    (self.shared, self.fixed, self.trip, self.closes) = (0, 0, (20, 500), 10_000);
                    self.chance[F::CommandLate.index()] = 80_000;
                }
            }
            Theme::GivingUp => {
                self.cancels = 600_000;
                self.forever = 0;
                self.some(rng, &commands, (1_000, 50_000));
                self.chance[F::CommandLate.index()] = rng.range((10_000, 200_000)) as u32;
                self.some(rng, &messages, (10_000, 300_000));
                self.strikes_of(rng, &[F::Pause, F::Partition]);
            }
            Theme::Stale => {
                (self.names, self.forever, self.cancels) = (1, 900_000, 0);
                let claim = rng.range((100, 400));
                self.claim_ms = (claim, claim);
                self.hold = (0, rng.spread((10_000, 300_000)));
                self.chance[F::MessageLate.index()] = 300_000;
                self.chance[F::MessageTwice.index()] = 500_000;
                self.strikes = vec![F::Pause];
                (self.gap, self.outage) = (rng.spread((50_000, 400_000)), (50_000, rng.spread((500_000, 2_000_000))));
            }
            Theme::Closing => {
                self.closes = rng.range((50_000, 300_000)) as u32;
                self.trip.1 = rng.spread((1_000, 50_000));
                // First waiters that ask often, so that messages arrive at clients that close.
                self.claim_ms = (300, 300);
                self.users.1 = self.users.1.max(3);
                self.names = rng.range((1, 2)) as usize;
                self.hold = (0, rng.spread((10_000, 500_000)));
                self.some(rng, &commands, (3_000, 100_000));
                messages.iter().for_each(|fault| self.chance[fault.index()] = rng.range((100_000, 400_000)) as u32);
                self.chance[F::Slow.index()] = rng.range((50_000, 300_000)) as u32;
                self.slow.1 = rng.spread((50_000, 500_000));
                if self.gap.is_multiple_of(3) {
                    self.chance[F::Forced.index()] = 100_000;
                }
                self.strikes_of(rng, Fault::STRIKING);
                if rng.chance(500_000) {
                    self.strikes.extend(Fault::LOSING);
                }
                self.foreigners = usize::from(rng.chance(200_000));
            }
            Theme::Deaths => {
                (self.names, self.forever, self.cancels, self.shared) = (1, 900_000, 0, 0);
                let claim = rng.range((3_000, 6_000));
                self.claim_ms = (claim, claim);
                self.trip.1 = rng.spread((100, 3_000));
                self.response_ms.1 = 300;
                self.ttl_ms = (600, rng.range((600, 1_500)));
                self.hold = (100_000, 2_000_000);
                self.chance = [0; Fault::COUNT];
                self.strikes = vec![F::Crash];
                self.gap = 8_000_000;
                self.outage = (10_000, 1_000_000);
            }
            Theme::Lingering => {
                (self.names, self.servers, self.shared, self.users) = (1, 1, 950_000, (1, 2));
                (self.active, self.cancels) = (50_000, 0);
                let ttl = rng.range((100, 600));
                self.ttl_ms = (ttl, 4 * ttl);
                self.hold = (100_000, rng.spread((500_000, 3_000_000)));
                self.think = (10_000, 1_000_000);
                self.chance[F::Slow.index()] = rng.range((50_000, 400_000)) as u32;
                self.slow = (20_000, rng.spread((300_000, 3_000_000)));
                self.strikes_of(rng, &[F::Pause, F::Stall, F::Crash]);
            }
            Theme::Evicting => {
                self.names = 1;
                self.hold = (0, rng.spread((20_000, 1_000_000)));
                self.claim_ms = (300, 300);
                self.chance[F::Slow.index()] = rng.range((50_000, 400_000)) as u32;
                self.slow = (20_000, rng.spread((100_000, 1_000_000)));
                self.strikes = vec![*rng.pick(&[F::Evict, F::Flush])];
                self.gap = rng.spread((30_000, 500_000));
            }
            Theme::Moving => {
                (self.servers, self.cancels, self.shared) = (1, 0, 50_000);
                self.ttl_ms = (600, rng.range((600, 1_500)));
                self.hold = (100_000, 4_000_000);
                self.trip.1 = rng.spread((100, 3_000));
                self.response_ms.1 = 300;
                self.chance = [0; Fault::COUNT];
                self.strikes = vec![F::Migration];
                (self.gap, self.outage) = (5_000_000, (1_500_000, 6_000_000));
            }
            Theme::Unhurried => {
                (self.cancels, self.forever, self.users) = (600_000, 0, (1, 2));
                self.think = (1_000_000, rng.spread((2_000_000, 15_000_000)));
                self.some(rng, &commands, (10_000, 200_000));
                self.chance[F::CommandLate.index()] = rng.range((10_000, 200_000)) as u32;
                self.strikes_of(rng, &[F::Pause, F::Partition]);
            }
            Theme::Crowded => {
                self.in_flight = (1, rng.range((1, 3)));
                (self.clients, self.names, self.users, self.cancels, self.closes) = (2, 3, (8, 16), 0, 0);
                (self.think, self.hold) = ((0, 20_000), (0, rng.spread((10_000, 60_000))));
                self.trip = (5_000, rng.range((8_000, 15_000)));
                self.response_ms = (100, 100);
                let ttl = rng.range((3_000, 6_000));
                (self.ttl_ms, self.active, self.converts) = ((ttl, ttl), 750_000, 0);
                self.chance = [0; Fault::COUNT];
            }
            Theme::Everything | Theme::Reentrant | Theme::Semaphore => {
                self.some(rng, Fault::SINGLE, (1_000, 60_000));
                self.strikes_of(rng, Fault::STRIKING);
                self.sometimes_losing(rng);
                self.foreigners = usize::from(rng.chance(200_000));
                self.mute_hosts = *rng.pick(&[0, 0, 200_000]);
                if rng.chance(300_000) {
                    self.hot(rng);
                }
            }
        }
    }

    /// Holders pass their leases on: within a millisecond of a hand-over, or before they die with a command on its way. Or
    /// replicas with slower clocks take over, and holders convert.
    fn adopt(&mut self, rng: &mut Rng) {
        self.adopts = rng.range((200_000, 800_000)) as u32;
        self.active = self.active.max(500_000);
        // Faults strike, so no lock is only crowded.
        self.in_flight = (1_024, 1_024);
        match rng.below(3) {
            0 => {
                self.hot(rng);
                (self.active, self.names, self.mute_hosts) = (300_000, 2, 0);
                self.hold.1 = self.hold.1.min(500);
                self.trip.1 = self.trip.1.min(200);
                self.chance[Fault::Forced.index()] = 100_000;
            }
            1 => {
                self.strikes.push(Fault::Crash);
                self.chance[Fault::CommandLate.index()] = rng.range((20_000, 200_000)) as u32;
                self.chance[Fault::CommandTwice.index()] = rng.range((20_000, 200_000)) as u32;
                self.hold.1 = self.hold.1.min(200_000);
            }
            _ => {
                // A lost counter would begin at the slower clock, and a victim of force may use its block.
                self.strikes.retain(|fault| !Fault::LOSING.contains(fault));
                self.strikes.push(Fault::SlowerClock);
                self.chance[Fault::Forced.index()] = 0;
                self.chance[Fault::SlowerClock.index()] = 200_000;
                (self.adopts, self.converts) = (self.adopts / 4, 600_000);
                (self.users, self.hold.1, self.think.1) = ((2, 8), self.hold.1.min(2_000), self.think.1.min(2_000));
                self.trip.1 = self.trip.1.min(2_000);
            }
        }
    }

    /// Many local callers on one lock, hardly any pauses, a fast network.
    fn hot(&mut self, rng: &mut Rng) {
        self.users = (2, rng.range((6, 24)));
        self.clients = rng.range((1, 4)) as usize;
        self.names = 1;
        self.hold = (0, rng.spread((200, 20_000)));
        self.think = (0, rng.spread((100, 5_000)));
        self.trip = (10, rng.spread((30, 2_000)));
        self.mute_hosts = *rng.pick(&[0, 500_000, 1_000_000]);
        self.active = 20_000;
        // After a force, the counter leads the clock for a millisecond. Other names draw from it, too.
        if self.gap.is_multiple_of(3) {
            self.chance[Fault::Forced.index()] = 100_000;
            self.names = 2;
        }
        // Many hand-overs at one moment, so that a release tells a fence ahead of the clock while other clients wait.
        if self.gap.is_multiple_of(7) {
            (self.clients, self.users, self.mute_hosts) = (2, (28, 36), 0);
            (self.hold, self.think, self.rushes) = ((0, 10_000), (0, 2_000), 980_000);
            (self.trip, self.handoffs) = ((10, 12), (32, 1023));
        }
    }

    /// Half of the faults, each with its own chance.
    fn some(&mut self, rng: &mut Rng, faults: &[Fault], bounds: Bounds) {
        for fault in faults {
            if rng.chance(500_000) {
                self.chance[fault.index()] = rng.spread(bounds) as u32;
            }
        }
    }

    /// Some of the faults, but at least one.
    fn strikes_of(&mut self, rng: &mut Rng, faults: &[Fault]) {
        self.strikes.extend(faults.iter().filter(|_| rng.chance(600_000)));
        if self.strikes.is_empty() {
            self.strikes.push(*rng.pick(faults));
        }
    }

    /// In some runs, servers also lose data.
    fn sometimes_losing(&mut self, rng: &mut Rng) {
        if rng.chance(250_000) {
            self.strikes.extend(Fault::LOSING);
        }
    }

    /// How old a waiter's record on a server, or what a client has heard of it, can be. None if commands can be lost or refused:
    /// then a user can have more than one record.
    pub(crate) fn oldest_record(&self) -> Option<Micros> {
        use Fault as F;
        let single =
            [F::Slow, F::CommandLost, F::ReplyLost, F::CommandLate, F::CommandTwice, F::Unavailable, F::Forced];
        let strikes = [F::Pause, F::Crash, F::PublishRefused, F::ScriptFlush, F::Stall];
        let loses = self.foreigners > 0
            || single.iter().any(|fault| self.chance[fault.index()] > 0)
            || !self.strikes.iter().all(|fault| strikes.contains(fault));
        (!loses).then_some(2 * self.claim_ms.1 * 1_000 + self.response_ms.1 * 2_000 + self.outage.1)
    }

    /// Whether clients may have so few commands in flight that most of them wait. Then things that watchers expect at
    /// once may take a while.
    pub(crate) fn is_crowded(&self) -> bool {
        self.in_flight.0 < 64
    }
}
