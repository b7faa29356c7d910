//! What is measured: the clock's difference, the latency, the counter of the fences, and how many keys are ours.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold::redis_1::redis::{self, RedisResult};
use tokio::time::sleep;

use super::check::{Check, Verdict};
use super::remedies::{granting, is_one_of_several, slots};
use crate::args::Servers;
use crate::keyspace::{EVERY_SIDE_KEY, Spread};
use crate::refusals::{answer, refused};
use crate::render::{shown, time};
use crate::servers::Node;

/// How many answers the latency is measured with.
const ROUND_TRIPS: usize = 50;
/// A clock that is further off is likely to be stepped.
const CLOCK: Duration = Duration::from_secs(1);
/// A slower server makes every lock slow.
const SLOW: Duration = Duration::from_millis(50);
/// A quorum's time limit for one server.
const NODE_TIMEOUT: Duration = Duration::from_millis(100);
/// The scan of the keyspace stops after this many steps of so many keys, and estimates the rest.
const SCANS: u32 = 200;
const SCAN_COUNT: u32 = 1_000;
/// The scripts draw no fence near 2^53, because JavaScript can't represent every integer above that.
const GREATEST_FENCE: u64 = (1 << 53) - 4096;
/// So many keys take more than 100 MB.
const MANY: u64 = 1_000_000;

pub(super) async fn check(node: &mut Node, servers: &Servers, user: &str) -> Vec<Check> {
    let mut checks = vec![clock(node).await, latency(node, servers).await];
    // In a cluster each slot has its own.
    match (servers.spread(), servers.spread_on(node)) {
        (Spread::Cluster, _) => {}
        (_, Spread::Cluster) if is_one_of_several(node).await => {
            let finding = "this server has only some of the slots of its cluster";
            checks.push(Check::new("slots", Verdict::Problem, finding, slots(node, user).await));
        }
        (_, Spread::Cluster) => {
            let finding = "this address enforces the slots of a cluster, so each slot has its own counter of fences";
            checks.push(Check::ok("slots", finding));
        }
        (_, spread) => checks.push(fences(node, &spread.fence("")).await),
    }
    checks.push(keyspace(node).await);
    checks
}

async fn clock(node: &mut Node) -> Check {
    const NAME: &str = "clock";
    match clock_difference(node).await {
        Ok((difference, error)) => {
            let finding = format!("{} apart from this machine's, measured to {}", time(difference), time(error));
            if difference <= CLOCK + error {
                return Check::ok(NAME, finding);
            }
            let remedy = "let both clocks slew to the right time (chrony); a server's clock that steps ends leases early or late";
            Check::new(NAME, Verdict::Warning, finding, remedy)
        }
        Err(error) => Check::new(NAME, Verdict::Unknown, format!("TIME: {error}"), "grant this user +time"),
    }
}

/// How far the server's clock is from ours, and how far this may be wrong.
async fn clock_difference(node: &mut Node) -> RedisResult<(Duration, Duration)> {
    let (start, here) = (Instant::now(), SystemTime::now());
    let (seconds, micros): (u64, u64) = node.query(&redis::cmd("TIME")).await?;
    let half = start.elapsed() / 2;
    // Envoy answers with the whole time in microseconds here.
    let there = Duration::from_secs(seconds) + Duration::from_micros(micros % 1_000_000);
    let here = here.duration_since(UNIX_EPOCH).unwrap_or_default() + half;
    Ok((there.abs_diff(here), half))
}

async fn latency(node: &mut Node, servers: &Servers) -> Check {
    const NAME: &str = "latency";
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let start = Instant::now();
        // Every client may run this command, and it takes no time.
        let answer: RedisResult<(u64, u64)> = node.query(&redis::cmd("TIME")).await;
        if let Err(error) = answer {
            return Check::new(NAME, Verdict::Unknown, format!("TIME: {error}"), "grant this user +time");
        }
        times.push(start.elapsed());
    }
    times.sort();
    let (median, longest) =
        (times.get(ROUND_TRIPS / 2).copied().unwrap_or_default(), times.last().copied().unwrap_or_default());
    let finding = format!("{} median, {} at most, of {ROUND_TRIPS} round trips", precise(median), precise(longest));
    if longest >= servers.timeout / 2 {
        let remedy =
            "look for slow commands (SLOWLOG GET) and a network that loses packets; an answer may take --timeout";
        return Check::new(NAME, Verdict::Problem, finding, remedy);
    }
    if servers.quorum && longest >= NODE_TIMEOUT {
        let remedy = "raise `node_timeout` in your services: a slower server counts as one that did not answer";
        return Check::new(NAME, Verdict::Problem, finding, remedy);
    }
    if median >= SLOW {
        return Check::new(
            NAME,
            Verdict::Warning,
            finding,
            "run clients nearer to the server; a lock takes a round trip",
        );
    }
    Check::ok(NAME, finding)
}

fn precise(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// The counter that every lock of this server needs.
pub(super) async fn fences(node: &mut Node, key: &str) -> Check {
    const NAME: &str = "fences";
    let mut get = redis::cmd("GET");
    get.arg(key);
    let problem = match node.query::<Option<Vec<u8>>>(&get).await {
        Ok(None) => return Check::ok(NAME, "no lock was granted yet"),
        Ok(Some(fence)) => {
            let fence = String::from_utf8_lossy(&fence).into_owned();
            let known = fence.bytes().all(|byte| byte.is_ascii_digit());
            if known && fence.parse().is_ok_and(|fence: u64| fence <= GREATEST_FENCE) {
                return Check::ok(NAME, format!("the last fence is {fence}"));
            }
            format!("{key} holds `{}`, which is no fence of this version, so no lock can be acquired", shown(&fence))
        }
        Err(error) if error.code() == Some("WRONGTYPE") => format!("{key} is no string, so no lock can be acquired"),
        Err(error) => {
            let remedy = if refused(&error).is_some() { "grant this user +get" } else { "see the check `locks`" };
            return Check::new(NAME, Verdict::Unknown, format!("GET: {}", answer(&error)), remedy);
        }
    };
    let remedy = format!("if no newer version of leasehold uses this server: DEL {key}; the next fence is the time");
    Check::new(NAME, Verdict::Problem, problem, remedy)
}

async fn keyspace(node: &mut Node) -> Check {
    const NAME: &str = "keyspace";
    match side_keys(node).await {
        Ok(Keys { ours, seen, all }) => {
            let finding = if seen >= all {
                format!("{ours} side keys of locks among {all} keys")
            } else {
                format!(
                    "about {} side keys of locks among {all} keys ({ours} in a sample of {seen})",
                    estimate(ours, seen, all)
                )
            };
            if estimate(ours, seen, all) < MANY {
                return Check::ok(NAME, finding);
            }
            let remedy = "a name has side keys only while it is shared or waited for, and for a minute after a call that \
                          was given up: see with `leasehold ls` which are, and look for calls that time out";
            Check::new(NAME, Verdict::Warning, finding, remedy)
        }
        Err(error) => {
            let remedy = granting(&error, "grant this user +scan and +dbsize, which only `ls` and the doctor need");
            Check::new(NAME, Verdict::Unknown, format!("SCAN: {error}"), remedy)
        }
    }
}

struct Keys {
    ours: u64,
    seen: u64,
    all: u64,
}

fn estimate(ours: u64, seen: u64, all: u64) -> u64 {
    let seen = u128::from(seen.max(1)).min(u128::from(all.max(1)));
    u64::try_from(u128::from(ours) * u128::from(all) / seen).unwrap_or(u64::MAX)
}

async fn side_keys(node: &mut Node) -> RedisResult<Keys> {
    let all: u64 = node.query(&redis::cmd("DBSIZE")).await?;
    let (mut ours, mut cursor) = (0, 0_u64);
    for step in 1..=SCANS {
        let start = Instant::now();
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(EVERY_SIDE_KEY).arg("COUNT").arg(SCAN_COUNT);
        let (next, keys): (u64, Vec<Vec<u8>>) = node.query(&scan).await?;
        ours += u64::try_from(keys.len()).unwrap_or(0);
        cursor = next;
        if cursor == 0 {
            return Ok(Keys { ours, seen: all, all });
        }
        if step == SCANS {
            break;
        }
        // Leaves the server three quarters of the time.
        sleep(start.elapsed() * 3).await;
    }
    Ok(Keys { ours, seen: u64::from(SCANS) * u64::from(SCAN_COUNT), all })
}
