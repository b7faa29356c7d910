use std::fs;
use std::time::{Duration, Instant};

use leasehold::{Lease, LockManager};
use serde_json::json;
use tokio::runtime;

use crate::Result;
use crate::clock::own_cpu;
use crate::contender::Contender;
use crate::report::{Report, Spread};
use crate::server::Bench;

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
const TASKS: usize = 64;
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(500);

const CLIENTS: usize = 100;
const LEASES: usize = 10_000;
/// Each lease is renewed after a third of it.
const TTL: Duration = Duration::from_secs(60);
/// Two rounds of renewals.
const RENEWING: Duration = Duration::from_secs(40);

/// What limits one manager with many threads, and one server with many leases. Nothing here is compared with another library.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result {
    threads(bench, report).await?;
    million(bench, report).await
}

/// The threads of a runtime share one manager, and so its mutex. Leases that linger ask no server, so the mutex shows most.
async fn threads(bench: &Bench, report: &mut Report) -> Result {
    report.title(&format!("One manager, {TASKS} tasks with a lock each, and the threads of one runtime"));
    report.line(format_args!(
        "{:>7}  {:<10}{:>30}  {:>13}  {:>19}",
        "threads", "", "cycles/s", "client CPU µs", "switches a 1,000"
    ));
    for contender in [Contender::Leasehold, Contender::Lingering] {
        for threads in THREADS {
            let mut samples = Vec::new();
            for _ in 0..ROUNDS {
                samples.push(on(bench, contender, threads).await?);
            }
            let spread = |value: fn(&Sample) -> f64| Spread::of(samples.iter().map(value));
            let (rate, cpu, switches) =
                (spread(|its| its.rate), spread(|its| its.cpu_us), spread(|its| its.switches * 1000.0));
            let name = contender.name();
            report.line(format_args!(
                "{threads:>7}  {name:<10}{rate:>30.0}  {:>13.2}  {:>19.1}",
                cpu.median, switches.median
            ));
            report.add(
                "threads",
                json!({ "threads": threads, "contender": name, "cycles_per_s": rate.to_json(),
                        "client_cpu_us_a_cycle": cpu.to_json(), "switches_a_1000_cycles": switches.to_json() }),
            );
        }
    }
    Ok(())
}

struct Sample {
    rate: f64,
    cpu_us: f64,
    /// How often a thread stopped, for each cycle.
    switches: f64,
}

/// Runs the tasks on a runtime with this many threads.
async fn on(bench: &Bench, contender: Contender, threads: usize) -> Result<Sample> {
    let handles: Vec<_> = (0..TASKS).map(|task| bench.clients.handle(contender, &format!("threads-{task}"))).collect();
    let runtime = runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let (began, switched, cpu) = (Instant::now(), switches()?, own_cpu());
    let until = began + TIME;
    let tasks: Vec<_> = handles
        .into_iter()
        .map(|mut handle| {
            runtime.spawn(async move {
                let mut cycles = 0_u64;
                while Instant::now() < until {
                    handle.turn(None).await?;
                    cycles += 1;
                }
                Result::Ok(cycles)
            })
        })
        .collect();
    let mut counts = Vec::new();
    for task in tasks {
        counts.push(task.await);
    }
    let (seconds, spent) = (began.elapsed().as_secs_f64(), own_cpu().saturating_sub(cpu));
    let until = switches();
    runtime.shutdown_background();
    let switched = until?.saturating_sub(switched);
    let mut cycles = 0.0;
    for count in counts {
        cycles += count?? as f64;
    }
    Ok(Sample {
        rate: cycles / seconds,
        cpu_us: spent.as_secs_f64() * 1e6 / cycles,
        switches: switched as f64 / cycles,
    })
}

/// How often the threads of this process have stopped.
fn switches() -> Result<u64> {
    let mut all = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        // A thread may have ended meanwhile.
        let Ok(status) = fs::read_to_string(thread?.path().join("status")) else { continue };
        let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
        all += counts.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum::<u64>();
    }
    Ok(all)
}

/// A million leases of a hundred clients, held and renewed.
async fn million(bench: &Bench, report: &mut Report) -> Result {
    report.title(&format!("{CLIENTS} clients hold {LEASES} leases of {TTL:?} each, on one server"));
    let (memory_before, own_before) = (bench.memory()?, resident()?);
    let mut managers = Vec::new();
    for _ in 0..CLIENTS {
        managers.push(LockManager::connect(bench.url()).await?);
    }
    let own_idle = resident()?;
    let began = Instant::now();
    let tasks: Vec<_> =
        managers.iter().cloned().enumerate().map(|(client, locks)| tokio::spawn(hold(client, locks))).collect();
    let mut held = Vec::new();
    for task in tasks {
        held.extend(task.await??);
    }
    let acquired = began.elapsed();
    let leases = held.len() as f64;
    let server_bytes = (bench.memory()? - memory_before) as f64 / leases;
    let client_bytes = (resident()? - own_idle) as f64 / leases;
    report.line(format_args!("acquired {leases} leases within {acquired:.2?}"));
    report.line(format_args!(
        "{server_bytes:.0} bytes a lease on the server, {client_bytes:.0} in the client; {:.0} KB a client without leases",
        (own_idle - own_before) as f64 / 1024.0 / CLIENTS as f64
    ));

    let (before, own, began) = (bench.spent()?, own_cpu(), Instant::now());
    tokio::time::sleep(RENEWING).await;
    let (after, seconds) = (bench.spent()?, began.elapsed().as_secs_f64());
    let client = own_cpu().saturating_sub(own).as_secs_f64() / seconds;
    let server = after.cpu_since(&before).as_secs_f64() / seconds;
    let commands = after.commands_since(&before, Contender::Leasehold) as f64 / seconds;
    let lost = held.iter().filter(|lease| !lease.is_held()).count();
    report.line(format_args!(
        "{commands:.0} commands/s, all clients {:.0} % and the server {:.0} % of a core, {lost} lost",
        client * 100.0,
        server * 100.0
    ));
    report.add(
        "million",
        json!({ "clients": CLIENTS, "leases": leases, "ttl_ms": TTL.as_millis() as u64, "acquired_s": acquired.as_secs_f64(),
                "server_bytes_a_lease": server_bytes, "client_bytes_a_lease": client_bytes, "commands_per_s": commands,
                "client_cpu": client, "server_cpu": server, "lost": lost }),
    );
    for locks in managers {
        locks.close().await;
    }
    Ok(())
}

/// Takes the leases of one client, 64 at once.
async fn hold(client: usize, locks: LockManager) -> Result<Vec<Lease>> {
    let mut held = Vec::with_capacity(LEASES);
    for first in (0..LEASES).step_by(TASKS) {
        let tasks: Vec<_> = (first..LEASES.min(first + TASKS))
            .map(|lease| {
                let lock = locks.mutex(format!("of-{client}-{lease}")).ttl(TTL);
                tokio::spawn(async move { lock.acquire().await })
            })
            .collect();
        for task in tasks {
            held.push(task.await??);
        }
    }
    Ok(held)
}

/// The memory that this process has in use, in bytes.
fn resident() -> Result<i64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages: i64 = statm.split(' ').nth(1).ok_or("no resident size")?.parse()?;
    Ok(pages * 4096)
}
