use std::time::Duration;

use serde_json::json;

use crate::Result;
use crate::clock::{Window, own_cpu};
use crate::contender::Contender;
use crate::report::{Report, Spread, percentile};
use crate::server::Bench;

const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(200);
const TIME: Duration = Duration::from_secs(1);
const CONTENDERS: [Contender; 3] = [Contender::Leasehold, Contender::Memory, Contender::Rslock];

/// Many tasks of one process want one lock all the time.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result {
    report.title("Hot key, one process: all tasks want one lock, and do nothing with it");
    let head = ["hand-overs/s", "wait p50", "p99", "longest", "min/max", "client CPU", "server CPU", "commands"];
    report.line(format_args!(
        "{:>5}  {:<12}{:>28}  {:>10}  {:>10}  {:>10}  {:>7}  {:>10}  {:>10}  {:>8}",
        "tasks", "", head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]
    ));
    let mut of_ours = Vec::new();
    for tasks in bench.choose(&[10, 100, 1000][..], &[10]).iter().copied() {
        let mut samples = CONTENDERS.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for (contender, samples) in CONTENDERS.into_iter().zip(&mut samples) {
                samples.push(sample(bench, contender, tasks).await?);
            }
        }
        for (contender, samples) in CONTENDERS.into_iter().zip(samples) {
            let rate = Spread::of(samples.iter().map(|sample| sample.rate));
            let fairness = Spread::of(samples.iter().map(|sample| sample.fairness));
            let client = Spread::of(samples.iter().map(|sample| sample.client_cpu_us));
            let server = Spread::of(samples.iter().map(|sample| sample.server_cpu_us));
            let commands = Spread::of(samples.iter().map(|sample| sample.commands));
            let mut waits: Vec<u64> = samples.into_iter().flat_map(|sample| sample.waits).collect();
            waits.sort_unstable();
            let [p50, p99, longest] = [50, 99, 100].map(|percent| percentile(&waits, percent));
            report.line(format_args!(
                "{tasks:>5}  {:<12}{rate:>28.0}  {p50:>10.1?}  {p99:>10.1?}  {longest:>10.1?}  {:>7.2}  {:>7.2} µs  {:>7.2} µs  {:>8.4}",
                contender.name(),
                fairness.median,
                client.median,
                server.median,
                commands.median
            ));
            report.add(
                "hot_key",
                json!({ "tasks": tasks, "contender": contender.name(), "handovers_per_s": rate.to_json(),
                        "wait_p50_us": p50.as_micros() as u64, "wait_p99_us": p99.as_micros() as u64,
                        "wait_longest_us": longest.as_micros() as u64, "grants_min_to_max": fairness.to_json(),
                        "client_cpu_us_a_handover": client.to_json(), "server_cpu_us_a_handover": server.to_json(),
                        "commands_a_handover": commands.to_json() }),
            );
            if contender == Contender::Leasehold {
                let enough = rate.median >= 500_000.0;
                report.aim(&format!("hot key, {tasks} tasks >= 500,000/s"), enough, format!("{rate:.0}"));
                let fair = fairness.median >= 0.9;
                report.aim(&format!("hot key, {tasks} tasks min/max >= 0.9"), fair, format!("{fairness:.2}"));
                of_ours.push(rate.median);
            }
        }
    }
    if let [few, .., many] = of_ours.as_slice() {
        let ratio = many / few;
        report.aim("hot key flat: 1,000 tasks at >= 0.8 of 10 tasks", ratio >= 0.8, format!("{ratio:.2}"));
    }
    Ok(())
}

struct Sample {
    rate: f64,
    fairness: f64,
    client_cpu_us: f64,
    server_cpu_us: f64,
    /// Commands to the server for each hand-over.
    commands: f64,
    waits: Vec<u64>,
}

async fn sample(bench: &Bench, contender: Contender, tasks: usize) -> Result<Sample> {
    let window = Window::after(WARM_UP, TIME);
    let workers: Vec<_> = (0..tasks)
        .map(|_| {
            let mut handle = bench.clients.handle(contender, &format!("hot-{}", contender.name()));
            tokio::spawn(async move {
                let mut waits = Vec::new();
                let mut turn = handle.turn(None).await?;
                while turn.released < window.until {
                    if window.contains(turn.released) {
                        waits.push(turn.wait());
                    }
                    turn = handle.turn(None).await?;
                }
                Result::Ok(waits)
            })
        })
        .collect();
    window.opened().await;
    let (before, own_before) = (bench.spent()?, own_cpu());
    window.closed().await;
    let (after, own_after) = (bench.spent()?, own_cpu());

    let (mut waits, mut counts) = (Vec::new(), Vec::new());
    for worker in workers {
        let its = worker.await??;
        counts.push(its.len());
        waits.extend(its);
    }
    let [least, most] = [counts.iter().min(), counts.iter().max()].map(|count| count.copied().unwrap_or(0));
    let a_handover = |spent: f64| spent / waits.len() as f64;
    Ok(Sample {
        rate: waits.len() as f64 / TIME.as_secs_f64(),
        fairness: least as f64 / most as f64,
        client_cpu_us: a_handover(own_after.saturating_sub(own_before).as_secs_f64() * 1e6),
        server_cpu_us: a_handover(after.cpu_since(&before).as_secs_f64() * 1e6),
        commands: a_handover(after.commands_since(&before, contender) as f64),
        waits,
    })
}
