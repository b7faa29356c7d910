use std::fs;
use std::thread;
use std::time::Duration;

use leasehold_interop::{Library, Peer};
use leasehold_servers::Server;
use serde_json::json;

use crate::Result;
use crate::report::{Report, Spread, percentile};
use crate::server::Bench;

const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(1500);
/// A JVM is slow at first.
const WARM_UP_OF_JAVA: Duration = Duration::from_secs(6);
const TIME: Duration = Duration::from_secs(2);
const TTL: Duration = Duration::from_secs(30);
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

const LOADS: [Load; 3] = [
    Load::new("64 tasks, each with a lock of its own", 1, 64, "apart"),
    Load::new("one lock, 500 tasks of one process", 1, 500, "shared"),
    Load::new("one lock, 25 tasks in each of 8 processes", 8, 25, "shared"),
];

/// The servers of a quorum.
const SERVERS: usize = 5;

/// Which libraries to compare under a load, ours first.
type Match = fn(&Load) -> Vec<Library>;

/// How many processes and tasks want which lock. They take it and release it at once, again and again.
pub(crate) struct Load {
    title: &'static str,
    processes: usize,
    tasks: usize,
    place: &'static str,
    ttl: Duration,
    /// How long to measure.
    time: Duration,
}

impl Load {
    pub(crate) const fn new(title: &'static str, processes: usize, tasks: usize, place: &'static str) -> Self {
        Self { title, processes, tasks, place, ttl: TTL, time: TIME }
    }

    /// With another TTL, measured for another time.
    pub(crate) const fn lasting(self, ttl: Duration, time: Duration) -> Self {
        Self { ttl, time, ..self }
    }
}

/// Compares with libraries of other languages, each in its own processes, in turns with ours, which runs in a separate
/// process, too.
pub(crate) fn measure(bench: &Bench, report: &mut Report) -> Result {
    let others = (1..SERVERS).map(|_| Server::start()).collect::<std::result::Result<Vec<_>, _>>()?;
    let one = bench.url();
    let all = [one.clone()].into_iter().chain(others.iter().map(Server::url)).collect::<Vec<_>>().join(",");
    let matches: [(Match, &str); 4] = [(mutexes, &one), (reentrant, &one), (semaphores, &one), (quorums, &all)];
    for (contenders, urls) in matches {
        for load in &LOADS {
            compare(bench, report, urls, &contenders(load), load)?;
        }
    }
    Ok(())
}

/// Compares libraries under a load, ours first.
pub(crate) fn compare(bench: &Bench, report: &mut Report, urls: &str, contenders: &[Library], load: &Load) -> Result {
    let Some(ours) = contenders.first() else { return Ok(()) };
    report.title(&format!("{}: {}", ours.name(), load.title));
    let mut samples: Vec<Vec<Sample>> = contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (contender, samples) in contenders.iter().zip(&mut samples) {
            match sample(bench, urls, *contender, load) {
                Ok(sample) => samples.push(sample),
                // If a library starves on a busy machine, keep the other numbers.
                Err(error) if contender != ours => report.line(format_args!("without {error}")),
                Err(error) => return Err(error),
            }
        }
    }
    tell(report, load, contenders, &samples);
    Ok(())
}

/// Our mutex, and the libraries to compare it with.
fn mutexes(load: &Load) -> Vec<Library> {
    let rueidislock = if load.place == "apart" { Library::RueidislockNoloop } else { Library::Rueidislock };
    vec![Library::Leasehold, Library::Redsync, rueidislock]
}

fn reentrant(_: &Load) -> Vec<Library> {
    vec![Library::LeaseholdReentrant, Library::Redisson]
}

fn semaphores(_: &Load) -> Vec<Library> {
    vec![Library::LeaseholdSemaphore, Library::RedisSemaphorePermits]
}

/// The processor time is that of the first server.
fn quorums(_: &Load) -> Vec<Library> {
    vec![Library::LeaseholdQuorum, Library::Redsync, Library::Redlock]
}

fn tell(report: &mut Report, load: &Load, contenders: &[Library], samples: &[Vec<Sample>]) {
    let head = ["turns/s", "x ours", "wait p50", "p99", "longest", "min/max", "server CPU", "client CPU"];
    report.line(format_args!(
        "{:<22}{:>24}  {:>20}  {:>10}  {:>10}  {:>10}  {:>8}  {:>10}  {:>10}",
        "", head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]
    ));
    let Some((ours, [of_ours, ..])) = contenders.first().copied().zip(Some(samples)) else { return };
    let mut of_all = Vec::new();
    for (contender, samples) in contenders.iter().zip(samples).filter(|(_, samples)| !samples.is_empty()) {
        let rate = Spread::of(samples.iter().map(|sample| sample.rate));
        let ratio = Spread::of(samples.iter().zip(of_ours).map(|(its, ours)| its.rate / ours.rate));
        let fairness = Spread::of(samples.iter().map(|sample| sample.fairness));
        let server = Spread::of(samples.iter().map(|sample| sample.server_cpu_us));
        let client = Spread::of(samples.iter().map(|sample| sample.client_cpu_us));
        let mut waits: Vec<u64> = samples.iter().flat_map(|sample| &sample.waits).copied().collect();
        waits.sort_unstable();
        let [p50, p99, longest] = [50, 99, 100].map(|percent| percentile(&waits, percent));
        report.line(format_args!(
            "{:<22}{rate:>24.0}  {ratio:>20.2}  {p50:>10.1?}  {p99:>10.1?}  {longest:>10.1?}  {:>8.2}  {:>7.1} µs  {:>7.1} µs",
            contender.name(),
            fairness.median,
            server.median,
            client.median,
        ));
        report.add(
            "peers",
            json!({ "load": load.title, "processes": load.processes, "tasks": load.tasks, "contender": contender.name(),
                    "turns_per_s": rate.to_json(), "to_ours": ratio.to_json(), "wait_p50_us": p50.as_micros() as u64,
                    "wait_p99_us": p99.as_micros() as u64, "wait_longest_us": longest.as_micros() as u64,
                    "turns_min_to_max": fairness.to_json(), "server_cpu_us_a_turn": server.to_json(),
                    "client_cpu_us_a_turn": client.to_json() }),
        );
        of_all.push((*contender, ratio, p99));
    }
    let Some((_, _, our_p99)) = of_all.first().copied() else { return };
    for (contender, ratio, p99) in of_all.into_iter().skip(1) {
        let what = format!("{}, {}: ahead of {}", ours.name(), load.title, contender.name());
        report.aim(&what, ratio.median < 1.0, format!("{:.2} of ours", ratio.median));
        if load.place == "shared" {
            report.aim(&format!("{what} at the p99 wait"), our_p99 <= p99, format!("{our_p99:.1?} to {p99:.1?}"));
        }
    }
}

struct Sample {
    rate: f64,
    fairness: f64,
    server_cpu_us: f64,
    /// Of all processes of the library.
    client_cpu_us: f64,
    /// In nanoseconds, unsorted.
    waits: Vec<u64>,
}

fn sample(bench: &Bench, urls: &str, contender: Library, load: &Load) -> Result<Sample> {
    let name = format!("{}-{}", contender.name(), load.tasks);
    let start = |_| Peer::start(contender, urls, &contender.key(&name), load.ttl);
    let mut peers = (0..load.processes).map(start).collect::<std::result::Result<Vec<_>, _>>()?;
    let warm_up = if contender.is_java() { WARM_UP_OF_JAVA } else { WARM_UP };
    let order = format!("work {} {} {} {}", load.tasks, load.place, warm_up.as_millis(), load.time.as_millis());
    for peer in &mut peers {
        peer.order(&order)?;
    }
    thread::sleep(warm_up);
    let (before, clients_before) = (bench.spent()?, spent_by(&peers)?);
    thread::sleep(load.time);
    let (after, clients_after) = (bench.spent()?, spent_by(&peers)?);
    let (mut waits, mut counts) = (Vec::new(), Vec::new());
    for peer in &peers {
        loop {
            let reply = peer.reply(ANSWER_LIMIT)?.text;
            let mut words = reply.split(' ');
            match words.next() {
                Some("task") => {}
                Some("worked") => break,
                _ => return Err(format!("{} said {reply:?}", contender.name()).into()),
            }
            let earlier = waits.len();
            for wait in words {
                waits.push(wait.parse::<u64>()? * 1000);
            }
            counts.push(waits.len() - earlier);
        }
    }
    let [least, most] = [counts.iter().min(), counts.iter().max()].map(|count| count.copied().unwrap_or(0));
    Ok(Sample {
        rate: waits.len() as f64 / load.time.as_secs_f64(),
        fairness: least as f64 / most as f64,
        server_cpu_us: after.cpu_since(&before).as_secs_f64() * 1e6 / waits.len() as f64,
        client_cpu_us: (clients_after - clients_before).as_secs_f64() * 1e6 / waits.len() as f64,
        waits,
    })
}

/// The processor time of these processes so far. Zero where there is no `/proc`.
fn spent_by(peers: &[Peer]) -> Result<Duration> {
    let mut ticks = 0;
    for peer in peers {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", peer.pid())) else { continue };
        // The name of the program is in parentheses. After it, the 12th and the 13th field are the user's and the system's time.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ').skip(11).take(2);
        ticks += fields.map(str::parse::<u64>).sum::<std::result::Result<u64, _>>()?;
    }
    // Linux counts in hundredths of a second on all of its platforms.
    Ok(Duration::from_millis(ticks * 10))
}
