//! Limits beside those of other libraries: rates, and permits of a semaphore. Each library runs in processes of its own.

use std::time::Duration;

use leasehold_interop::Library;

use crate::Result;
use crate::peers::{Load, compare};
use crate::report::Report;
use crate::server::Bench;

/// A rate grants 1,000 permits in it.
const WINDOW: Duration = Duration::from_secs(1);
/// Several windows.
const TIME: Duration = Duration::from_secs(5);

/// Where each task has its own limit, all of them together are slower than these limits, so no task waits.
const RATES: [Load; 2] = [
    Load::new("64 tasks, each with a limit of its own", 1, 64, "apart").lasting(WINDOW, TIME),
    Load::new("one limit of 1,000 in a second, 25 tasks in each of 8 processes", 8, 25, "shared").lasting(WINDOW, TIME),
];
const SEMAPHORES: [Load; 3] = [
    Load::new("64 tasks, each with a limit of its own", 1, 64, "apart"),
    Load::new("one limit of 5, 500 tasks of one process", 1, 500, "shared"),
    Load::new("one limit of 5, 25 tasks in each of 8 processes", 8, 25, "shared"),
];

pub(crate) fn measure(bench: &Bench, report: &mut Report) -> Result {
    let rates =
        [Library::LeaseholdRate, Library::RedissonRate, Library::LeaseholdNpmRate, Library::RateLimiterFlexible];
    let semaphores = [Library::LeaseholdSemaphore, Library::RedissonSemaphore, Library::RedissonExpirable];
    let rates = RATES.iter().map(|load| (load, &rates[..]));
    for (load, contenders) in rates.chain(SEMAPHORES.iter().map(|load| (load, &semaphores[..]))) {
        compare(bench, report, &bench.url(), contenders, load)?;
    }
    Ok(())
}
