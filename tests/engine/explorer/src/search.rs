//! The search: every state once, depth first, on several threads.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::Micros;
use crate::run_on::run_on;
use crate::step::Step;
use crate::verdict::Broken;
use crate::world::World;

/// How much to explore at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) states: u64,
    pub(crate) time: Duration,
    /// From one of how many states the search also runs on without faults.
    pub(crate) sample: u64,
    pub(crate) jobs: usize,
}

/// What was explored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Explored {
    pub(crate) states: u64,
    pub(crate) steps: u64,
    /// How many states ran on.
    pub(crate) ran_on: u64,
    /// The longest time that a run needed until all calls had ended.
    pub(crate) slowest: Micros,
    /// The longest path.
    pub(crate) depth: u32,
    /// The longest virtual time.
    pub(crate) time: Micros,
    /// Whether no state is left out.
    pub(crate) is_complete: bool,
    pub(crate) took: Duration,
}

/// A path that breaks an invariant.
#[derive(Clone, Debug)]
pub(crate) struct Counterexample {
    pub(crate) steps: Vec<Step>,
    pub(crate) broken: Broken,
}

/// The last step of a path, with the path before it.
struct Path {
    step: Step,
    depth: u32,
    before: Option<Arc<Self>>,
}

type Pending = (World, Option<Arc<Path>>);

/// Fingerprints are random enough.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Random numbers (xorshift, Marsaglia 2003), the same in every run.
struct Chance(u64);

impl Chance {
    const fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % end
    }
}

type Set = HashSet<u64, BuildHasherDefault<AsIs>>;

/// How many sets the states are spread over, so that threads seldom wait for each other.
const SHARDS: usize = 64;
/// A thread gives the older half of its work away when others have none.
const ENOUGH: usize = 32;

struct Search {
    limits: Limits,
    began: Instant,
    seen: Vec<Mutex<Set>>,
    shared: Mutex<Vec<Pending>>,
    /// How many threads have work.
    busy: AtomicU64,
    is_hungry: AtomicBool,
    states: AtomicU64,
    stopped: AtomicBool,
    found: Mutex<Option<Counterexample>>,
}

/// Explores everything that can follow.
pub(crate) fn explore(world: World, limits: Limits) -> (Explored, Option<Counterexample>) {
    let jobs = limits.jobs.max(1);
    let search = Search {
        limits,
        began: Instant::now(),
        seen: (0..SHARDS).map(|_| Mutex::default()).collect(),
        shared: Mutex::new(vec![(world, None)]),
        busy: AtomicU64::new(0),
        is_hungry: AtomicBool::new(false),
        states: AtomicU64::new(0),
        stopped: AtomicBool::new(false),
        found: Mutex::new(None),
    };
    let parts: Vec<Explored> = thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(|| search.work())).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let found = search.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut sum = Explored {
        states: search.states.into_inner(),
        // A thread that has panicked has left something out.
        is_complete: !search.stopped.into_inner() && parts.len() == jobs,
        took: search.began.elapsed(),
        ..Explored::default()
    };
    for part in parts {
        sum.steps += part.steps;
        sum.ran_on += part.ran_on;
        sum.slowest = sum.slowest.max(part.slowest);
        sum.depth = sum.depth.max(part.depth);
        sum.time = sum.time.max(part.time);
    }
    (sum, found)
}

impl Search {
    fn work(&self) -> Explored {
        let mut sum = Explored::default();
        let mut chance = Chance(1);
        let mut own: Vec<Pending> = Vec::new();
        loop {
            own.extend(lock(&self.shared).pop().inspect(|_| {
                self.busy.fetch_add(1, Relaxed);
            }));
            if own.is_empty() {
                if self.stopped.load(Relaxed) || self.busy.load(Relaxed) == 0 {
                    return sum;
                }
                self.is_hungry.store(true, Relaxed);
                thread::sleep(Duration::from_micros(200));
                continue;
            }
            while let Some((world, path)) = own.pop() {
                if self.stopped.load(Relaxed) {
                    break;
                }
                self.expand(&mut chance, &mut sum, &mut own, &world, path.as_ref());
                if own.len() > ENOUGH && self.is_hungry.swap(false, Relaxed) {
                    lock(&self.shared).extend(own.drain(..ENOUGH / 2));
                }
            }
            own.clear();
            self.busy.fetch_sub(1, Relaxed);
        }
    }

    fn expand(
        &self,
        chance: &mut Chance,
        sum: &mut Explored,
        own: &mut Vec<Pending>,
        world: &World,
        path: Option<&Arc<Path>>,
    ) {
        // A search that is stopped has then seen a bit of everything.
        let mut steps = world.steps();
        for place in (1..steps.len()).rev() {
            steps.swap(place, chance.below(place + 1));
        }
        for step in steps {
            let mut next = world.clone();
            let depth = path.map_or(0, |path| path.depth) + 1;
            let verdict = next.take(step);
            let path = Arc::new(Path { step, depth, before: path.cloned() });
            sum.steps += 1;
            if let Err(broken) = verdict {
                return self.stop(Some(Counterexample { steps: path.steps(), broken }));
            }
            let fingerprint = next.fingerprint();
            if !lock(&self.seen[fingerprint as usize % SHARDS]).insert(fingerprint) {
                continue;
            }
            let states = self.states.fetch_add(1, Relaxed) + 1;
            sum.depth = sum.depth.max(depth);
            sum.time = sum.time.max(next.now);
            if (fingerprint >> 32).is_multiple_of(self.limits.sample) {
                sum.ran_on += 1;
                match run_on(next.clone()) {
                    Ok(took) => sum.slowest = sum.slowest.max(took),
                    Err(broken) => return self.stop(Some(Counterexample { steps: path.steps(), broken })),
                }
            }
            own.push((next, Some(path)));
            let is_late = states.is_multiple_of(1_024) && self.began.elapsed() >= self.limits.time;
            if states >= self.limits.states || is_late {
                return self.stop(None);
            }
        }
    }

    fn stop(&self, found: Option<Counterexample>) {
        if let Some(found) = found {
            lock(&self.found).get_or_insert(found);
        }
        self.stopped.store(true, Relaxed);
    }
}

impl Path {
    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> =
            std::iter::successors(Some(self), |path| path.before.as_deref()).map(|path| path.step).collect();
        steps.reverse();
        steps
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::step::Fault;

    fn all(scenario: &str, faults: u8, jobs: usize) -> (Explored, Option<Counterexample>) {
        let begin = World::new(Scenario::named(scenario).unwrap(), faults, 0).unwrap();
        let sample = if Scenario::named(scenario).unwrap().is_of_a_task() { 16 } else { 4 };
        explore(begin, Limits { states: u64::MAX, time: Duration::MAX, sample, jobs })
    }

    #[test]
    fn without_faults_two_writers_break_nothing_and_end_at_once() {
        let (explored, found) = all("writers", 0, 1);
        assert!(found.is_none(), "{found:?}");
        assert!(explored.is_complete && explored.states > 500 && explored.ran_on > 50, "{explored:?}");
        assert!(explored.slowest < 1_000_000, "{explored:?}");
    }

    #[test]
    fn without_faults_onces_elections_passed_leases_and_drains_break_nothing_in_any_state() {
        let of_tasks = crate::scenario::ALL.iter().filter(|scenario| scenario.is_of_a_task());
        let names: Vec<_> = of_tasks.map(|scenario| scenario.name).collect();
        assert!(names.len() >= 16, "{names:?}");
        for name in names {
            let (explored, found) = all(name, 0, 2);
            assert!(found.is_none() && explored.is_complete, "{name}: {found:?}");
            assert!(explored.states > 400 && explored.slowest < 3_400_000, "{name}: {explored:?}");
        }
    }

    #[test]
    fn threads_explore_the_same_states_as_one() {
        let of = |jobs| all("reader-writer", 0, jobs).0;
        let (one, three) = (of(1), of(3));
        assert_eq!((one.states, one.steps), (three.states, three.steps));
        assert!(three.is_complete);
    }

    #[test]
    fn a_search_that_is_stopped_says_so() {
        let begin = World::new(Scenario::named("writers").unwrap(), 1, 0).unwrap();
        let limits = Limits { states: 1_000, time: Duration::MAX, sample: 1_000_000, jobs: 1 };
        let (explored, found) = explore(begin, limits);
        assert!(!explored.is_complete && found.is_none());
        assert!((1_000..1_100).contains(&explored.states), "{explored:?}");
    }

    #[test]
    fn clients_that_do_the_same_are_folded() {
        let begin = World::new(Scenario::named("writers").unwrap(), 0, 0).unwrap();
        let after = |client| {
            let mut world = begin.clone();
            world.take(Step::Act { client, user: 0 }).unwrap();
            world.fingerprint()
        };
        assert_eq!(after(0), after(1));
        assert_ne!(after(0), begin.fingerprint());
    }

    #[test]
    fn users_of_a_client_that_do_the_same_are_folded() {
        let begin = World::new(Scenario::named("two-users").unwrap(), 0, 0).unwrap();
        let after = |user| {
            let mut world = begin.clone();
            world.take(Step::Act { client: 0, user }).unwrap();
            world.fingerprint()
        };
        assert_eq!(after(0), after(1));
        assert_ne!(after(0), begin.fingerprint());
    }

    #[test]
    fn a_state_with_a_fault_less_is_another_one() {
        let begin = |faults| World::new(Scenario::named("writers").unwrap(), faults, 0).unwrap();
        assert_ne!(begin(1).fingerprint(), begin(2).fingerprint());
        let steps = begin(1).steps();
        assert!(steps.contains(&Step::Fault(Fault::Crash(1))) && !begin(0).steps().contains(&Step::Fault(Fault::Wipe)));
    }
}
