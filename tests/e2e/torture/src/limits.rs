//! The limits of the drill of that name: how many jobs of a tenant run at once, how many jobs run in total, and how many
//! start in a time. A job takes the first two as one lease, and the permit of the rate last. So each of its permits is a
//! start, and a job that may not start yet keeps its place.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use leasehold_servers::Connection;
use serde::{Deserialize, Serialize};

use crate::history::{Entry, Event, Recorder, What, now};

/// How many permits each semaphore has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How many tenants there are.
    pub tenants: u64,
    /// How many jobs of a tenant run at once.
    pub of_tenant: u32,
    /// How many permits all jobs have together. Some jobs take two.
    pub total: u32,
    /// How many jobs start within `per`.
    pub starts: u32,
    /// In milliseconds.
    pub per: u64,
}

/// The permits of all jobs.
pub const TOTAL: &str = "total";
/// The rate.
pub const STARTS: &str = "starts";

impl Limits {
    /// Those of the load test.
    pub const LOAD: Self = Self { tenants: 50, of_tenant: 2, total: 25, starts: 60, per: 10_000 };
    /// For a brief run: each limit is reached within a second.
    pub const BRIEF: Self = Self { tenants: 8, of_tenant: 2, total: 6, starts: 8, per: 1_000 };

    /// The semaphore of a tenant.
    pub fn tenant(number: u64) -> String {
        format!("tenant-{number}")
    }

    /// Each semaphore: its name, its permits, and `per` if it is a rate.
    pub fn all(self) -> Vec<(String, u32, Option<u64>)> {
        let tenants = (0..self.tenants).map(|number| (Self::tenant(number), self.of_tenant, None));
        let others = [(TOTAL.to_owned(), self.total, None), (STARTS.to_owned(), self.starts, Some(self.per))];
        tenants.chain(others).collect()
    }

    /// Notes the limits in the history.
    pub(crate) fn note(self, recorder: &Recorder) {
        for (name, limit, per) in self.all() {
            recorder.note(What::Limit { name, limit, per });
        }
    }
}

/// The semaphores that have not been granted since this time.
pub(crate) fn unserved(events: &[Event], since: u64) -> Option<String> {
    let mut names: BTreeSet<&str> = events.iter().filter_map(limit).collect();
    // The server's log may be read a little late.
    for event in events.iter().rev().take_while(|event| event.at + LATE >= since).filter(|event| event.at >= since) {
        if let What::Server { entry: Entry::Admitted { name, .. } } = &event.what {
            names.remove(name.as_str());
        }
    }
    let first = names.first()?;
    Some(format!("{} of the semaphores were not granted after the faults, among them `{first}`", names.len()))
}

fn limit(event: &Event) -> Option<&str> {
    match &event.what {
        What::Limit { name, .. } => Some(name),
        _ => None,
    }
}

/// How far the events of several sources may be out of order, in microseconds.
const LATE: u64 = 10_000_000;

/// Reads how many permits of each semaphore count, again and again, until it is dropped. One script reads all of them at one
/// moment of the server's clock.
#[derive(Debug)]
pub(crate) struct Count {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Count {
    pub(crate) fn start(address: SocketAddr, limits: Limits, recorder: Arc<Recorder>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            let names: Vec<String> = limits.all().into_iter().map(|(name, ..)| name).collect();
            let mut number = 0;
            while !is_over.load(Ordering::SeqCst) {
                // A fault may end the connection.
                let _ = count(address, &names, &mut number, &recorder, &is_over);
                thread::sleep(BREAK);
            }
        });
        Self { ended, thread: Some(thread) }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How long to wait between two counts.
const BREAK: Duration = Duration::from_millis(200);
/// A server that answers later than this is silent, in microseconds.
const SILENT: u64 = 200_000;
/// How long a server may take to answer. A slow machine may stop for seconds.
const ANSWER: Duration = Duration::from_secs(120);

/// What the script is recognised by in the server's log.
pub(crate) const MARK: &str = "-- counts permits";
const SCRIPT: &str = "
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local reply = { now }
for at = 1, #KEYS, 2 do
  local tokens = redis.call('ZRANGEBYSCORE', KEYS[at], string.format('(%.0f', now), '+inf')
  local modes, sum = #tokens > 0 and redis.call('HMGET', KEYS[at + 1], unpack(tokens)) or {}, 0
  for place = 1, #tokens do
    sum = sum + tonumber(string.match(modes[place] or '', '^%d+') or 1000000)
  end
  reply[#reply + 1] = sum
end
return reply";

fn count(
    address: SocketAddr,
    names: &[String],
    number: &mut u64,
    recorder: &Recorder,
    is_over: &AtomicBool,
) -> io::Result<()> {
    let mut connection = Connection::open(address, ANSWER)?;
    let script = format!("{MARK}{SCRIPT}");
    while !is_over.load(Ordering::SeqCst) {
        *number += 1;
        let (keys, last) = ((names.len() * 2).to_string(), number.to_string());
        let sides: Vec<String> = names.iter().map(|name| format!("leasehold:{{{name}}}:permits")).collect();
        let mut command = vec!["EVAL", &script, &keys];
        command.extend(names.iter().zip(&sides).flat_map(|(name, side)| [name.as_str(), side]));
        command.push(&last);
        let asked = now();
        let reply = connection.call(&command)?;
        if now() > asked + SILENT {
            recorder.note(What::Silent { from: asked });
        }
        let mut numbers =
            reply.list().iter().map(|number| number.integer().and_then(|number| u64::try_from(number).ok()));
        let Some(clock) = numbers.next().flatten() else {
            return Err(io::Error::other(format!("{:?} in place of counts", reply.text())));
        };
        let permits: BTreeMap<String, u64> = names.iter().cloned().zip(numbers.flatten()).collect();
        recorder.note(What::Counted { number: *number, clock, permits });
        thread::sleep(BREAK);
    }
    Ok(())
}
