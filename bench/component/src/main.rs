//! `REDIS_URL=.. leasehold-bench-component [--json FILE]`: one uncontended cycle, acquire and release, through the
//! crate and through the component in wasmtime.
//!
//! The two take turns, one batch each, so that other work of the machine affects both. The result is the median of the
//! batches, each divided by its number of cycles.

use std::env;
use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use leasehold::LockManager;
use leasehold_component_tests::{with_component, with_tcp_component};
use leasehold_wasmtime_host::{Locks, Manager, RedisProvider, Target};
use serde_json::{Value, json};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const BATCHES: usize = 21;
const CYCLES: u32 = 300;

/// What is measured, and the time of a cycle in each batch.
struct Row {
    name: &'static str,
    times: Vec<Duration>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let url = env::var("REDIS_URL").map_err(|_| "REDIS_URL is not set")?;
    let native = LockManager::connect(&url).await?;
    let mut rows = vec![];
    for name in
        ["the crate", "lock.wasm, its host's connection the redis crate", "leasehold-tcp.wasm, connecting by itself"]
    {
        rows.push(Row { name, times: Vec::with_capacity(BATCHES) });
    }
    // An event loop belongs to one instance, so each batch has its own instance and warms up first.
    for _ in 0..BATCHES {
        rows[0].times.push(native_batch(&native).await?);
        rows[1].times.push(with_component(RedisProvider, async |locks| component_batch(locks, &url).await).await??);
        rows[2].times.push(with_tcp_component(async |locks| component_batch(locks, &url).await).await??);
    }
    print(&mut rows);
    match arguments.as_slice() {
        [] => Ok(()),
        [flag, path] if flag == "--json" => Ok(fs::write(path, format!("{:#}\n", told(&rows)))?),
        _ => Err("usage: leasehold-bench-component [--json FILE]".into()),
    }
}

async fn native_batch(locks: &LockManager) -> Result<Duration> {
    native_cycles(locks, CYCLES / 10).await?;
    let start = Instant::now();
    native_cycles(locks, CYCLES).await?;
    Ok(start.elapsed() / CYCLES)
}

async fn native_cycles(locks: &LockManager, cycles: u32) -> Result {
    for _ in 0..cycles {
        locks.mutex("bench").acquire().await?.release().await?;
    }
    Ok(())
}

async fn component_batch(locks: Locks<'_>, url: &str) -> Result<Duration> {
    let manager = locks.open(url, None).await??;
    component_cycles(manager, CYCLES / 10).await?;
    let start = Instant::now();
    component_cycles(manager, CYCLES).await?;
    Ok(start.elapsed() / CYCLES)
}

async fn component_cycles(manager: Manager<'_>, cycles: u32) -> Result {
    for _ in 0..cycles {
        let lease = manager.acquire(Target::Mutex("bench".to_owned()), None).await??;
        lease.release().await??;
        lease.drop()?;
    }
    Ok(())
}

fn print(rows: &mut [Row]) {
    println!("\n  an uncontended cycle, acquire and release: median (least) of {BATCHES} batches of {CYCLES}\n");
    for row in rows.iter_mut() {
        row.times.sort_unstable();
    }
    let native = median(&rows[0]);
    for row in rows {
        let (time, least) = (median(row), row.times.first().copied().unwrap_or_default());
        let over = time.as_secs_f64() / native.as_secs_f64();
        println!("  {:<52}{time:>8.1?}  ({least:.1?})  {over:.2} x", row.name);
    }
}

fn median(row: &Row) -> Duration {
    row.times.get(row.times.len() / 2).copied().unwrap_or_default()
}

fn told(rows: &[Row]) -> Value {
    let rows = rows.iter().map(|row| {
        let micros: Vec<f64> = row.times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
        json!({ "name": row.name, "median_us": median(row).as_secs_f64() * 1e6, "batches_us": micros })
    });
    json!({ "component": rows.collect::<Vec<_>>() })
}
