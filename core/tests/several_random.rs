//! Random leases of several limits of all kinds, at clients that share them: all calls end, and nothing is left on the server.

mod world;

use std::time::Duration;

use leasehold_core::{AcquireOptions, Config, Input, Kind, LeaseId, Mode, OpId, Outcome, Part, Wait};
use leasehold_harness::answers::SERVER_US;
use world::{World, options};

const PERMITS: u32 = 3;

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn parts(random: &mut Random) -> Vec<Part<'static>> {
    let mut parts = Vec::new();
    for name in ["a", "b", "s", "t"] {
        let lock = matches!(name, "a" | "b");
        let permits = 1 + random.below(2) as u32;
        match random.below(4) {
            0 => {}
            1 if lock => parts.push(Part { name, kind: Kind::Lock, mode: Mode::Exclusive }),
            _ if lock => parts.push(Part { name, kind: Kind::Lock, mode: Mode::Shared }),
            _ => {
                let kind = Kind::Semaphore { permits, limit: PERMITS };
                parts.push(Part { name, kind, mode: Mode::Exclusive });
            }
        }
    }
    parts
}

/// How much of each name a lease takes.
type Weights = Vec<(&'static str, u32)>;

struct Run {
    world: World,
    open: Vec<(usize, OpId, Weights)>,
    held: Vec<(usize, LeaseId, Weights)>,
}

impl Run {
    /// Takes in what has ended, and checks that no limit is exceeded.
    fn look(&mut self) {
        let world = &mut self.world;
        let held = &mut self.held;
        self.open.retain(|(place, op, weights)| {
            let lease = match world.clients[*place].result_of(*op) {
                None => return true,
                Some(Ok(Outcome::AcquiredAll { lease, .. })) => *lease,
                Some(Ok(Outcome::Acquired(grant))) => grant.lease,
                Some(_) => return false,
            };
            held.push((*place, lease, weights.clone()));
            false
        });
        held.retain(|(place, lease, _)| !world.clients[*place].lost.iter().any(|(lost, ..)| lost == lease));
        for name in ["a", "b", "s", "t"] {
            let used = held.iter().flat_map(|(.., weights)| weights).filter(|(other, _)| *other == name);
            let used: u32 = used.map(|(_, weight)| weight).sum();
            let most = if matches!(name, "a" | "b") { 1_000 } else { PERMITS };
            assert!(used <= most, "{used} of {most} of {name}");
        }
    }

    fn turn(&mut self, random: &mut Random) {
        let place = random.below(3) as usize;
        match random.below(10) {
            0..=3 if self.open.len() < 12 => {
                let mut parts = parts(random);
                if parts.is_empty() {
                    return;
                }
                let wait = match random.below(5) {
                    0 => Wait::No,
                    1 => Wait::For(Duration::from_millis(1 + random.below(3_000))),
                    _ => Wait::Forever,
                };
                let linger = (random.below(4) == 0).then(|| Duration::from_millis(500));
                let weight = |part: &Part<'static>| match part.kind {
                    Kind::Semaphore { permits, .. } => (part.name, permits),
                    _ => (part.name, if part.mode == Mode::Shared { 1 } else { 1_000 }),
                };
                let options = AcquireOptions { ttl: Duration::from_secs(2), wait, ..options() };
                let op = if random.below(3) == 0 {
                    parts.truncate(1);
                    let Part { name, kind, mode } = parts[0];
                    let linger = linger.filter(|_| kind == Kind::Lock);
                    let options = AcquireOptions { kind, mode, linger, ..options };
                    self.world.clients[place].call(|op| Input::Acquire { op, name, options: &options })
                } else {
                    self.world.clients[place].call(|op| Input::AcquireAll {
                        op,
                        parts: &parts,
                        options: &options,
                        one_script: false,
                    })
                };
                self.open.push((place, op, parts.iter().map(weight).collect()));
            }
            4 | 5 if !self.held.is_empty() => {
                let at = random.below(self.held.len() as u64) as usize;
                let (place, lease, _) = self.held.remove(at);
                self.world.clients[place].call(|op| Input::Release { op, lease });
            }
            // The reply is lost.
            6 if random.below(3) == 0 && !self.world.clients[place].unanswered.is_empty() => {
                drop(self.world.carry_out(place));
            }
            // The command is lost.
            7 if random.below(6) == 0 && !self.world.clients[place].unanswered.is_empty() => {
                self.world.clients[place].unanswered.remove(0);
            }
            8 if random.below(4) == 0 && !self.open.is_empty() => {
                let at = random.below(self.open.len() as u64) as usize;
                let (place, op, _) = self.open[at];
                self.world.clients[place].feed(Input::Cancel { op });
            }
            9 => self.world.pass(Duration::from_millis(1 + random.below(300))),
            _ => {
                for _ in 0..random.below(4) {
                    if !self.world.clients[place].unanswered.is_empty() {
                        let (id, reply) = self.world.carry_out(place);
                        self.world.clients[place].reply(id, reply);
                    }
                }
            }
        }
        self.look();
    }
}

#[test]
fn all_calls_end_and_nothing_is_left() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let config = Config { claim_window: Duration::from_millis(900), ..Config::default() };
        let mut run = Run { world: World::with(3, &config), open: Vec::new(), held: Vec::new() };
        for _ in 0..300 {
            run.turn(&mut random);
        }
        for _ in 0..400 {
            run.world.serve();
            run.world.pass(Duration::from_millis(100));
            run.look();
            for (place, lease, _) in std::mem::take(&mut run.held) {
                run.world.clients[place].call(|op| Input::Release { op, lease });
            }
            run.look();
        }
        assert!(run.open.is_empty(), "seed {seed}: {:?}", run.open);
        let now = SERVER_US as u64 + run.world.clients[0].now;
        for name in ["a", "b", "s", "t"] {
            assert_eq!(run.world.server.expires(now, name.as_bytes()), None, "seed {seed}: {name}");
        }
    }
}
