use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold_servers::Process;
use serde_json::json;

use crate::Result;
use crate::clock::now;
use crate::contender::{Clients, Contender};
use crate::report::{Report, Spread, percentile};
use crate::server::Bench;

/// All clients connect, subscribe and queue up before the measurement begins.
const WARM_UP: Duration = Duration::from_millis(1500);
const TIME: Duration = Duration::from_secs(8);
const TASKS: usize = 25;
const LONGEST_HOLD_NANOS: u64 = 5_000_000;
const LOCK: &str = "fleet";

/// Several processes, of 25 tasks each, want one lock all the time and hold it for 0 to 5 ms.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result {
    report.title(&format!("Hot key, several processes of {TASKS} tasks, holds of 0 to 5 ms"));
    for processes in bench.choose(&[2, 8][..], &[8]).iter().copied() {
        let contenders = [Contender::Leasehold, Contender::Rslock];
        let mut samples = contenders.map(|_| Vec::new());
        for _ in 0..bench.choose(2, 1) {
            for (contender, samples) in contenders.into_iter().zip(&mut samples) {
                samples.push(sample(bench, contender, processes)?);
            }
        }
        for (contender, samples) in contenders.into_iter().zip(samples) {
            tell(report, contender, processes, &samples);
        }
    }
    Ok(())
}

fn tell(report: &mut Report, contender: Contender, processes: usize, samples: &[Sample]) {
    let spread = |value: fn(&Sample) -> f64| Spread::of(samples.iter().map(value));
    let (rate, remote) = (spread(Sample::rate), spread(Sample::remote_rate));
    let (commands, remote_commands) = (spread(Sample::commands_a_handover), spread(Sample::commands_a_remote_handover));
    let (cpu, fairness) = (spread(Sample::cpu_us_a_handover), spread(Sample::fairness));
    let [p50, p99, longest] = percentiles(samples, |sample| &sample.waits);
    let [gap_p50, gap_p99, _] = percentiles(samples, |sample| &sample.gaps);
    report.line(format_args!("{processes} processes, {}", contender.name()));
    let hold = spread(|sample| sample.hold_ms);
    report.line(format_args!("    hold, mean {hold:.2} ms"));
    report.line(format_args!("    hand-overs/s {rate:.0}, of them between processes {remote:.0}"));
    report.line(format_args!("    wait p50 {p50:.1?}, p99 {p99:.1?}, longest {longest:.1?}"));
    report.line(format_args!("    from a release to another process's grant p50 {gap_p50:.1?}, p99 {gap_p99:.1?}"));
    report.line(format_args!("    grants a task, min/max {fairness:.2}"));
    report.line(format_args!(
        "    server commands a hand-over {commands:.2}, a hand-over between processes {remote_commands:.2}"
    ));
    report.line(format_args!("    server CPU a hand-over {cpu:.1} µs"));
    report.add(
        "fleet",
        json!({ "processes": processes, "tasks": TASKS, "contender": contender.name(),
                "hold_mean_ms": hold.to_json(), "handovers_per_s": rate.to_json(), "remote_handovers_per_s": remote.to_json(),
                "wait_p50_us": p50.as_micros() as u64, "wait_p99_us": p99.as_micros() as u64,
                "wait_longest_us": longest.as_micros() as u64, "gap_p50_us": gap_p50.as_micros() as u64,
                "gap_p99_us": gap_p99.as_micros() as u64, "grants_min_to_max": fairness.to_json(),
                "commands_a_handover": commands.to_json(), "commands_a_remote_handover": remote_commands.to_json(),
                "server_cpu_us_a_handover": cpu.to_json() }),
    );
    if contender == Contender::Leasehold && processes == 8 {
        report.aim(
            "8 processes x 25 tasks <= 2.2 commands a hand-over between processes",
            remote_commands.median <= 2.2,
            format!("{remote_commands:.2}"),
        );
        report.aim(
            "8 processes x 25 tasks: longest wait under a second",
            longest < Duration::from_secs(1),
            format!("{longest:.1?}"),
        );
    }
}

/// The median, the 99th percentile and the greatest of all samples together.
fn percentiles(samples: &[Sample], values: fn(&Sample) -> &Vec<u64>) -> [Duration; 3] {
    let mut values: Vec<u64> = samples.iter().flat_map(values).copied().collect();
    values.sort_unstable();
    [50, 99, 100].map(|percent| percentile(&values, percent))
}

#[derive(Default)]
struct Sample {
    seconds: f64,
    handovers: f64,
    commands: f64,
    cpu_us: f64,
    hold_ms: f64,
    least: f64,
    most: f64,
    waits: Vec<u64>,
    /// From a release in one process to the grant in another.
    gaps: Vec<u64>,
}

impl Sample {
    fn rate(&self) -> f64 {
        self.handovers / self.seconds
    }

    fn remote_rate(&self) -> f64 {
        self.gaps.len() as f64 / self.seconds
    }

    fn commands_a_handover(&self) -> f64 {
        self.commands / self.handovers
    }

    fn commands_a_remote_handover(&self) -> f64 {
        self.commands / self.gaps.len() as f64
    }

    fn cpu_us_a_handover(&self) -> f64 {
        self.cpu_us / self.handovers
    }

    fn fairness(&self) -> f64 {
        self.least / self.most
    }
}

fn sample(bench: &Bench, contender: Contender, processes: usize) -> Result<Sample> {
    let mut workers = Vec::new();
    for _ in 0..processes {
        let mut command = Command::new(env::current_exe()?);
        command.args(["worker", contender.name(), &bench.url()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command)?;
        let output = process.take_stdout().ok_or("a worker has no output")?;
        workers.push((process, BufReader::new(output)));
    }
    for (_, output) in &mut workers {
        output.read_line(&mut String::new())?;
    }
    let mut inputs = Vec::new();
    for (process, _) in &mut workers {
        let mut input = process.take_stdin().ok_or("a worker has no input")?;
        writeln!(input, "go")?;
        inputs.push(input);
    }
    thread::sleep(WARM_UP);
    let (before, from) = (bench.spent()?, now());
    thread::sleep(TIME);
    let (after, until) = (bench.spent()?, now());
    // The workers' tasks end when their input ends.
    drop(inputs);

    // When each lease was granted and released, and by which process.
    let mut grants: Vec<(u64, u64, usize)> = Vec::new();
    let mut sample =
        Sample { seconds: Duration::from_nanos(until - from).as_secs_f64(), least: f64::INFINITY, ..Sample::default() };
    for (number, (process, output)) in workers.iter_mut().enumerate() {
        for line in output.lines() {
            let line = line?;
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["task", count] => {
                    let count: f64 = count.parse()?;
                    sample.least = sample.least.min(count);
                    sample.most = sample.most.max(count);
                }
                [wait, granted, released] => {
                    let granted = granted.parse()?;
                    if (from..until).contains(&granted) {
                        sample.waits.push(wait.parse()?);
                        grants.push((granted, released.parse()?, number));
                    }
                }
                _ => return Err(format!("a worker with {} said {line:?}", contender.name()).into()),
            }
        }
        if !process.wait()?.success() {
            return Err(format!("a worker with {} failed", contender.name()).into());
        }
    }
    grants.sort_unstable();
    sample.handovers = grants.len() as f64;
    let pairs = grants.iter().zip(grants.iter().skip(1)).filter(|(before, after)| before.2 != after.2);
    sample.gaps = pairs.map(|(before, after)| after.0.saturating_sub(before.1)).collect();
    sample.hold_ms =
        grants.iter().map(|(granted, released, _)| (released - granted) as f64 / 1e6).sum::<f64>() / sample.handovers;
    sample.commands = after.commands_since(&before, contender) as f64;
    sample.cpu_us = after.cpu_since(&before).as_secs_f64() * 1e6;
    Ok(sample)
}

/// One process: connects, reports that it is ready, waits for the start, works, and reports every grant at the end.
pub(crate) async fn work(arguments: &[&str]) -> Result {
    let [contender, url] = arguments else { return Err("worker <contender> <url>".into()) };
    let contender = Contender::named(contender).ok_or("no such contender")?;
    let clients = Clients::connect(url).await?;
    println!("ready");
    std::io::stdin().read_exact(&mut [0; 3])?;
    let stop = Arc::new(AtomicBool::new(false));
    let ordered = Arc::clone(&stop);
    thread::spawn(move || {
        // Ends when the input ends.
        let _ = std::io::stdin().read(&mut [0]);
        ordered.store(true, Ordering::Relaxed);
    });
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let mut handle = clients.handle(contender, LOCK);
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut turns = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    // The clock's last digits serve as random numbers.
                    let hold = Duration::from_nanos(now() % LONGEST_HOLD_NANOS);
                    turns.push(handle.turn(Some(hold)).await?);
                }
                Result::Ok(turns)
            })
        })
        .collect();
    let mut told = String::new();
    for task in tasks {
        let turns = task.await??;
        told += &format!("task {}\n", turns.len());
        for turn in turns {
            told += &format!("{} {} {}\n", turn.wait(), turn.granted, turn.released);
        }
    }
    std::io::stdout().write_all(told.as_bytes())?;
    clients.locks().close().await;
    Ok(())
}
