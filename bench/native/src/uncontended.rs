use std::env;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::json;

use crate::Result;
use crate::allocations;
use crate::clock::{Window, own_cpu};
use crate::contender::Contender;
use crate::report::{Report, Spread};
use crate::server::Bench;

const ROUNDS: usize = 10;
const WARM_UP: Duration = Duration::from_millis(100);
const TIME: Duration = Duration::from_millis(500);
const CONTENDERS: [Contender; 4] = [Contender::Leasehold, Contender::Lingering, Contender::Raw, Contender::Rslock];

/// Acquire and release a lock that nobody else wants: cycles per second, compared with bare calls of the same commands.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result {
    report.title("Uncontended: every task acquires and releases a lock of its own");
    table(bench, report, "uncontended", bench.choose(&[1, 64, 512], &[1, 64])).await?;
    if bench.choose(false, true) {
        return Ok(());
    }
    report.title("The same beside two busy processes");
    let _busy = [Busy::start()?, Busy::start()?];
    table(bench, report, "uncontended-beside-busy", &[1, 64]).await
}

async fn table(bench: &Bench, report: &mut Report, section: &str, all_tasks: &[usize]) -> Result {
    report.line(format_args!(
        "{:>5}  {:<10}{:>28}  {:>20}  {:>14}  {:>14}  {:>12}",
        "tasks", "", "cycles/s", "x raw", "client CPU µs", "server CPU µs", "allocations"
    ));
    for tasks in all_tasks.iter().copied() {
        let mut samples = CONTENDERS.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for (contender, samples) in CONTENDERS.into_iter().zip(&mut samples) {
                samples.push(sample(bench, contender, tasks).await?);
            }
        }
        let [_, _, raw, _] = &samples;
        for (contender, samples) in CONTENDERS.into_iter().zip(&samples) {
            let rate = Spread::of(samples.iter().map(|sample| sample.rate));
            let ratio = Spread::of(samples.iter().zip(raw).map(|(its, raw)| its.rate / raw.rate));
            let client = Spread::of(samples.iter().map(|sample| sample.client_cpu_us));
            let server = Spread::of(samples.iter().map(|sample| sample.server_cpu_us));
            let allocations = Spread::of(samples.iter().map(|sample| sample.allocations));
            report.line(format_args!(
                "{tasks:>5}  {:<10}{rate:>28.0}  {ratio:>20.2}  {:>14.1}  {:>14.1}  {:>12.1}",
                contender.name(),
                client.median,
                server.median,
                allocations.median
            ));
            report.add(
                section,
                json!({ "tasks": tasks, "contender": contender.name(), "cycles_per_s": rate.to_json(),
                        "to_raw": ratio.to_json(), "client_cpu_us_a_cycle": client.to_json(),
                        "server_cpu_us_a_cycle": server.to_json(),
                        "allocations_a_cycle": allocations.to_json() }),
            );
            if tasks <= 64 && contender == Contender::Leasehold {
                let what = format!("{section}: {tasks} tasks >= 0.95 of raw");
                report.aim(&what, ratio.median >= 0.95, format!("{ratio:.2}"));
            }
            if section == "uncontended" && tasks == 64 && contender == Contender::Lingering {
                report.aim("lingering at 64 tasks >= 20 x raw", ratio.median >= 20.0, format!("{ratio:.2}"));
            }
        }
    }
    Ok(())
}

struct Sample {
    rate: f64,
    client_cpu_us: f64,
    server_cpu_us: f64,
    allocations: f64,
}

/// A process that takes all the processor time it gets. It ends when this is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Result<Self> {
        Ok(Self(Command::new(env::current_exe()?).arg("busy").spawn()?))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn sample(bench: &Bench, contender: Contender, tasks: usize) -> Result<Sample> {
    let window = Window::after(WARM_UP, TIME);
    let workers: Vec<_> = (0..tasks)
        .map(|task| {
            let mut handle = bench.clients.alone(contender, &format!("{}-{task}", contender.name()));
            tokio::spawn(async move {
                let mut cycles = 0_u64;
                let mut turn = handle.turn(None).await?;
                while turn.released < window.until {
                    cycles += u64::from(window.contains(turn.released));
                    turn = handle.turn(None).await?;
                }
                Result::Ok(cycles)
            })
        })
        .collect();
    window.opened().await;
    let (before, own_before, allocated_before) = (bench.spent()?, own_cpu(), allocations());
    window.closed().await;
    let (allocated_after, own_after, after) = (allocations(), own_cpu(), bench.spent()?);

    let mut cycles = 0;
    for worker in workers {
        cycles += worker.await??;
    }
    let a_cycle = |spent: Duration| spent.as_secs_f64() * 1e6 / cycles as f64;
    Ok(Sample {
        rate: cycles as f64 / TIME.as_secs_f64(),
        client_cpu_us: a_cycle(own_after.saturating_sub(own_before)),
        server_cpu_us: a_cycle(after.cpu_since(&before)),
        allocations: (allocated_after - allocated_before) as f64 / cycles as f64,
    })
}
