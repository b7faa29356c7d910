//! A run: one topology, its workers, and its faults, for some time.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_servers::{Connection, Error};

use crate::drill::Drill;
use crate::faults::Plan;
use crate::fleet::Fleet;
use crate::history::{Event, Op, Recorder, What, now};
use crate::limits::{Count, Limits};
use crate::server_log::{ServerLog, stored};
use crate::topologies::{FaultLog, Kind, Topology};
use crate::worker::{Lie, Orders, Target};

/// What to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers.
    pub kind: Kind,
    /// The one job of all workers. They take locks of all kinds without it.
    pub drill: Option<Drill>,
    /// The limits of the drill of that name.
    pub limits: Limits,
    /// Where the plan of faults and the choices of the workers come from.
    pub seed: u64,
    /// How long faults strike.
    pub end: End,
    /// The worker in Rust, and how many of them run.
    pub rust: (PathBuf, u64),
    /// The worker in JavaScript, and how many of them run.
    pub node: Option<(PathBuf, u64)>,
    /// A deliberate bug of the first worker in Rust.
    pub lie: Option<Lie>,
    /// Whether faults strike.
    pub calm: bool,
    /// Where the workers' standard error goes.
    pub directory: PathBuf,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After this time.
    After(Duration),
    /// After this much work, however long it takes.
    Done {
        /// How many faults have begun.
        faults: u64,
        /// How many leases were granted.
        leases: u64,
    },
}

/// How many callers share a worker's manager.
const CALLERS: u64 = 3;
/// How often a run tells its progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// How long everything may take to become right after the faults. A slow machine may stop for seconds.
const SETTLED: Duration = Duration::from_secs(120);
/// The faults of the second sequence begin with this number.
const SECOND: u64 = 1_000_000;

/// Runs, and returns the history. `tell` receives a line about the progress now and then.
///
/// # Errors
/// If a server or a worker can't be started or struck.
pub fn run(settings: &Settings, tell: &mut dyn FnMut(String)) -> Result<Vec<Event>, Error> {
    let recorder = Arc::new(Recorder::default());
    let topology = settings.kind.start()?;
    let watched = topology.watched();
    let logs: Vec<ServerLog> =
        watched.into_iter().map(|(by, at)| ServerLog::follow(by, at, Arc::clone(&recorder))).collect();
    let count = match (settings.drill, topology.watched().first()) {
        (Some(Drill::Limits), Some((_, address))) => {
            settings.limits.note(&recorder);
            // The log shows every permit, from the first one on.
            await_logs(&logs)?;
            Some(Count::start(*address, settings.limits, Arc::clone(&recorder)))
        }
        _ => None,
    };
    let fleet = start_fleet(settings, topology.urls(), &recorder)?;
    let (mut fleet, topology) = strike(settings, &recorder, fleet, topology, tell)?;
    if let Some(drill) = settings.drill {
        settle(drill, &mut fleet, &recorder)?;
    }
    fleet.finish()?;
    if settings.drill == Some(Drill::Once) {
        read_results(&*topology, &recorder)?;
    }
    drop(count);
    drop(logs);
    drop(topology);
    Ok(recorder.finish())
}

impl Settings {
    /// What runs, for people.
    pub fn title(&self) -> String {
        self.drill.map_or_else(|| self.kind.to_string(), |drill| format!("drill {drill}"))
    }
}

fn await_logs(logs: &[ServerLog]) -> Result<(), Error> {
    let began = Instant::now();
    while !logs.iter().all(ServerLog::follows) {
        if began.elapsed() > SETTLED {
            return Err(Error::NotStarted("a server's log".to_owned()));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits after the faults until everything is right again.
fn settle(drill: Drill, fleet: &mut Fleet, recorder: &Recorder) -> Result<(), Error> {
    fleet.notice()?;
    let (since, began) = (now(), Instant::now());
    loop {
        let living: Vec<&str> = fleet.living().collect();
        let problem = recorder.look(|events| drill.unsettled(events, since, &living));
        match problem {
            None => return Ok(()),
            Some(problem) if began.elapsed() > SETTLED => {
                recorder.note(What::Unsettled { problem });
                return Ok(());
            }
            Some(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Notes the results that are stored at the end.
fn read_results(topology: &dyn Topology, recorder: &Recorder) -> Result<(), Error> {
    let Some((server, address)) = topology.watched().into_iter().next() else { return Ok(()) };
    let mut names: Vec<String> = recorder.look(|events| {
        let name = |event: &Event| match &event.what {
            What::Began { op: Op::Store, name, .. } => Some(name.clone()),
            _ => None,
        };
        events.iter().filter_map(name).collect()
    });
    names.sort_unstable();
    names.dedup();
    let failed = |source| Error::Io { doing: "reading the stored results".to_owned(), source };
    let mut connection = Connection::open(address, SETTLED).map_err(failed)?;
    for name in names {
        let record = connection.call(&["GET", &format!("leasehold:{{{name}}}:result")]).map_err(failed)?;
        if let Some(entry) = record.text().and_then(|record| stored(&name, record)) {
            recorder.add(Event { at: now(), by: server.clone(), what: What::Server { entry } });
        }
    }
    Ok(())
}

fn start_fleet(settings: &Settings, urls: Vec<String>, recorder: &Arc<Recorder>) -> Result<Fleet, Error> {
    let mut fleet = Fleet::new(Arc::clone(recorder), &settings.directory, settings.drill.is_some());
    let locks = settings.lie.map_or_else(|| Target::of(settings.kind), Target::contended);
    let orders = |number: u64, lie| {
        let (topology, urls, locks) = (settings.kind, urls.clone(), locks.clone());
        // Small enough for a number in JavaScript.
        let seed = settings.seed % 1_000_000 * 1_000 + number;
        let (drill, callers) = (settings.drill, settings.drill.map_or(CALLERS, Drill::callers));
        let (limits, label) = (settings.limits, String::new());
        Orders { topology, urls, seed, drill, limits, label, callers, locks, lie }
    };
    let (program, count) = &settings.rust;
    for number in 0..*count {
        let lie = settings.lie.filter(|_| number == 0);
        fleet.add("rust", vec![program.clone()], orders(number, lie))?;
    }
    if let Some((program, count)) = &settings.node {
        for number in 0..*count {
            fleet.add("node", vec!["node".into(), program.clone()], orders(500 + number, None))?;
        }
    }
    Ok(fleet)
}

/// Lets both sequences of faults strike until the time is over.
fn strike(
    settings: &Settings,
    recorder: &Arc<Recorder>,
    mut fleet: Fleet,
    mut topology: Box<dyn Topology>,
    tell: &mut dyn FnMut(String),
) -> Result<(Fleet, Box<dyn Topology>), Error> {
    let began = Instant::now();
    let over = AtomicBool::new(false);
    let failed = Mutex::new(None);
    let fail = |error: Error| {
        over.store(true, Ordering::SeqCst);
        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    };
    let names = Target::names(settings.kind);
    let log = |first| FaultLog::new(Arc::clone(recorder), first, names.clone());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = log(0);
            for step in Plan::of_clients(settings.seed, settings.drill) {
                if !wait(step.calm, &over) {
                    return;
                }
                let outcome =
                    fleet.notice().and_then(|()| if settings.calm { Ok(()) } else { fleet.strike(&step, &mut log) });
                if let Err(error) = outcome {
                    return fail(error);
                }
            }
        });
        scope.spawn(|| {
            let mut log = log(SECOND);
            for step in Plan::of_servers(settings.seed, settings.kind, settings.drill) {
                let goes_on = wait(step.calm, &over);
                let outcome = topology
                    .notice(&mut log)
                    .and_then(|()| if settings.calm || !goes_on { Ok(()) } else { topology.strike(&step, &mut log) });
                match outcome {
                    Ok(()) if goes_on => {}
                    Ok(()) => return,
                    Err(error) => return fail(error),
                }
            }
        });
        let mut progress = Progress::default();
        let mut next = PROGRESS;
        while !over.load(Ordering::SeqCst) {
            recorder.look(|events| progress.count(events));
            if progress.is_over(settings.end, began.elapsed()) {
                break;
            }
            thread::sleep(Duration::from_millis(20));
            if began.elapsed() >= next {
                next += PROGRESS;
                tell(progress.line(settings, began.elapsed()));
            }
        }
        over.store(true, Ordering::SeqCst);
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok((fleet, topology)),
    }
}

/// Waits. Returns false if the run is over.
fn wait(time: Duration, over: &AtomicBool) -> bool {
    let began = Instant::now();
    while began.elapsed() < time && !over.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(20));
    }
    !over.load(Ordering::SeqCst)
}

/// Counts what has happened.
#[derive(Default)]
struct Progress {
    seen: usize,
    leases: u64,
    operations: u64,
    faults: u64,
    last: String,
}

impl Progress {
    fn count(&mut self, events: &[Event]) {
        for event in events.get(self.seen..).unwrap_or_default() {
            match &event.what {
                What::Granted { .. } => {
                    self.operations += 1;
                    self.leases += 1;
                }
                What::Ended { .. } => self.operations += 1,
                What::FaultBegan { fault, .. } => {
                    self.faults += 1;
                    self.last.clone_from(fault);
                }
                _ => {}
            }
        }
        self.seen = events.len();
    }

    fn is_over(&self, end: End, elapsed: Duration) -> bool {
        match end {
            End::After(time) => elapsed >= time,
            End::Done { faults, leases } => self.faults >= faults && self.leases >= leases,
        }
    }

    fn line(&self, settings: &Settings, elapsed: Duration) -> String {
        let (title, seconds) = (settings.title(), elapsed.as_secs());
        let of = match settings.end {
            End::After(time) => format!("{} s", time.as_secs()),
            End::Done { faults, leases } => format!("{faults} faults and {leases} leases"),
        };
        let Self { operations, leases, faults, last, .. } = self;
        format!(
            "{title}: {seconds} s, {operations} operations, {leases} leases, {faults} faults, the last one {last}; of {of}"
        )
    }
}
