//! `leasehold watch`: a line for each change of a lock.

use std::time::{Duration, SystemTime};

use leasehold::{Fence, Inspection, LockManager};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::args::{Servers, Watch};
use crate::render::{lease_of, mode, object, state, time};
use crate::report::{Failure, Outcome, Output};
use crate::signals::{Signal, Signals};

/// What a line shows. Times change all the time, so they are no change. A label may come later than its holder.
#[derive(PartialEq)]
enum Seen {
    Lock { holders: Vec<(String, &'static str, [Option<String>; 2])>, waiters: Vec<String>, fence: Option<Fence> },
    Error(&'static str),
}

pub(super) async fn run(servers: &Servers, arguments: &Watch, output: Output) -> Outcome {
    if arguments.interval < Duration::from_millis(10) {
        return Err(Failure::usage("--interval is below 10 ms", "give a longer time"));
    }
    let locks = servers.locks().await?;
    let mut signals = Signals::listen(&[Signal::SIGINT, Signal::SIGTERM])?;
    tokio::select! {
        outcome = show_changes(&locks, arguments, output) => outcome,
        // It ends only by a signal, so this is its success.
        _ = signals.next() => Ok(0),
    }
}

async fn show_changes(locks: &LockManager, arguments: &Watch, output: Output) -> Outcome {
    let name = &arguments.name;
    let mut ticks = interval(arguments.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    loop {
        ticks.tick().await;
        let now = humantime::format_rfc3339_millis(SystemTime::now());
        let outcome = locks.inspect(name).await;
        let seen = Some(match &outcome {
            Ok(seen) => of(seen),
            Err(error) if error.code() == "unreachable" => Seen::Error(error.code()),
            // Nothing but another command line helps.
            Err(_) => Seen::Error(""),
        });
        if seen == last {
            continue;
        }
        last = seen;
        match outcome {
            Ok(seen) => {
                output.print(|| timed(object(name, &seen, None), &now), || format!("{now}  {}", line(&seen)))?
            }
            // An outage is what one watches for. The next answer ends it.
            Err(error) if error.code() == "unreachable" => {
                let failure = Failure::from(error);
                output.print(|| timed(failure.json(), &now), || format!("{now}  {}", failure.message))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn of(seen: &Inspection) -> Seen {
    let holders = seen
        .holders
        .iter()
        .map(|holder| (holder.token.clone(), mode(holder.mode), [holder.label.clone(), holder.lease_label.clone()]))
        .collect();
    let waiters = seen.waiters.iter().map(|waiter| waiter.token.clone()).collect();
    Seen::Lock { holders, waiters, fence: seen.last_fence }
}

fn line(seen: &Inspection) -> String {
    let by = match seen.holders.as_slice() {
        [] => String::new(),
        [one] => {
            let held = one.held.map(|held| format!(" for {}", time(held))).unwrap_or_default();
            format!(" by {} ({}){held}", lease_of(one), mode(one.mode))
        }
        [first, ..] => format!(" by {} ({})", seen.holders.len(), mode(first.mode)),
    };
    let fence = seen.last_fence.map_or_else(|| "none".to_owned(), |fence| fence.to_string());
    let waited = seen.waiters.iter().filter_map(|waiter| waiter.waited).max();
    let waited = waited.map(|waited| format!(" for up to {}", time(waited))).unwrap_or_default();
    format!("{}{by}, {} waiting{waited}, fence {fence}", state(seen), seen.waiting)
}

fn timed(mut value: Value, now: &humantime::Rfc3339Timestamp) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.insert("time".to_owned(), json!(now.to_string()));
    }
    value
}
