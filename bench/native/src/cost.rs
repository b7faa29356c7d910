use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, Value, cmd};
use serde_json::json;

use crate::Result;
use crate::report::Report;
use crate::server::Bench;

const ROUNDS: usize = 9;
/// How many locks each round takes and frees.
const LOCKS: usize = 1024;
/// How many commands are sent before the client reads the replies.
const PIPELINED: usize = 64;
const CLIENTS: [&str; 2] = ["00031910-67f0-7a4d-65ea-e6a40234f224", "10031910-67f0-7a4d-65ea-e6a40234f224"];
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// The measured cycles, in the order of the table. The others are compared with the first.
const CYCLES: [Cycle; 14] = [
    Cycle::Bare,
    Cycle::Alone(Release::Script),
    Cycle::Alone(Release::DelIfEq),
    Cycle::Batch("mutex", 1),
    Cycle::Batch("mutex", 16),
    Cycle::Batch("mutex", 64),
    Cycle::Batch("read lock", 1),
    Cycle::Batch("read lock", 64),
    Cycle::Batch("semaphore", 1),
    Cycle::Batch("semaphore", 64),
    Cycle::Batch("reentrant lock", 1),
    Cycle::Batch("reentrant lock", 64),
    Cycle::HandOver,
    Cycle::Heartbeat,
];

#[derive(Clone, Copy)]
enum Cycle {
    /// `SET NX PX` and a script that compares and deletes: a lock without a fence, a queue or other kinds.
    Bare,
    /// A mutex by the short script of an acquire, and its release.
    Alone(Release),
    /// Locks of a kind, and how many of them are in a call.
    Batch(&'static str, usize),
    /// A waiter joins the queue, and the holder's release hands the lock over to it.
    HandOver,
    /// The heartbeat of a waiter in the queue.
    Heartbeat,
}

/// How a mutex alone is released.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Release {
    Script,
    /// Left out where the server doesn't have it.
    DelIfEq,
}

/// Measures the server's processor time for an acquire and a release, sent in pipelines. Reports the least of all
/// rounds.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result {
    report.title("What a cycle costs the server, pipelined: processor time of its process, parsing included");
    let mut server = Client { connection: bench.connection().await?, loaded: String::new() };
    server.loaded = server.ask(cmd("SCRIPT").arg("LOAD").arg(COMPARE_AND_DELETE)).await?;
    let deletes = server.ask::<Value>(cmd("DELIFEQ").arg("none").arg("value")).await.is_ok();
    let measured = CYCLES.map(|cycle| deletes || !matches!(cycle, Cycle::Alone(Release::DelIfEq)));
    let mut least = [f64::INFINITY; CYCLES.len()];
    for _ in 0..ROUNDS {
        for ((cycle, least), _) in CYCLES.into_iter().zip(&mut least).zip(measured).filter(|(_, measured)| *measured) {
            server.ask::<Value>(&cmd("FLUSHALL")).await?;
            server.ask::<Value>(cmd("SET").arg("leasehold:fence").arg(1)).await?;
            let spent = server.run(bench, cycle).await?;
            *least = least.min(spent.as_secs_f64() * 1e6 / LOCKS as f64);
        }
    }
    for ((cycle, least_us), _) in CYCLES.into_iter().zip(least).zip(measured).filter(|(_, measured)| *measured) {
        let ratio = least_us / least[0];
        report.line(format_args!("{:<32}{least_us:>8.1} µs{ratio:>8.2} x bare", cycle.name()));
        report.add("cost", json!({ "cycle": cycle.name(), "server_cpu_us": least_us, "to_bare": ratio }));
        match cycle {
            Cycle::Alone(Release::Script) => {
                report.aim("a mutex alone <= 2.5 x bare", ratio <= 2.5, format!("{ratio:.2}"))
            }
            Cycle::Batch("mutex", 64) => {
                report.aim("64 mutexes in a call <= 1.3 x bare", ratio <= 1.3, format!("{ratio:.2}"));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Cycle {
    fn name(self) -> String {
        match self {
            Self::Bare => "bare SET and compare-and-delete".to_owned(),
            Self::Alone(Release::Script) => "mutex, alone".to_owned(),
            Self::Alone(Release::DelIfEq) => "mutex, alone, by DELIFEQ".to_owned(),
            Self::Batch("mutex", 1) => "mutex, alone in a call".to_owned(),
            Self::Batch(kind, 1) => format!("{kind}, alone"),
            Self::Batch(kind, together) => format!("{kind}, {together} in a call"),
            Self::HandOver => "hand-over between clients".to_owned(),
            Self::Heartbeat => "heartbeat of a waiter".to_owned(),
        }
    }
}

struct Client {
    connection: MultiplexedConnection,
    /// The digest of the script that compares and deletes.
    loaded: String,
}

impl Client {
    /// The processor time that the server spent on all commands of a round.
    async fn run(&mut self, bench: &Bench, cycle: Cycle) -> Result<Duration> {
        match cycle {
            Cycle::Bare => {
                let digest = self.loaded.clone();
                let both = (0..LOCKS).flat_map(|lock| {
                    let mut set = cmd("SET");
                    set.arg(name(lock)).arg(token(0, lock)).arg(&["NX", "PX", "30000"]);
                    [set, script(&digest, &[name(lock)], &[token(0, lock)])]
                });
                let (spent, _) = self.spent_on(bench, both.collect()).await?;
                Ok(spent)
            }
            Cycle::Alone(how) => {
                let acquires = (0..LOCKS).map(|lock| {
                    let keys = [name(lock), side(lock, "queue"), "leasehold:fence".to_owned()];
                    script(leasehold_lua::ACQUIRE_FAST.sha1, &keys, &[token(0, lock) + " ", "30000".to_owned()])
                });
                let (acquiring, replies) = self.spent_on(bench, acquires.collect()).await?;
                let releases = replies.iter().enumerate().map(|(lock, fence)| {
                    let value = format!("{} {}", token(0, lock), String::from_redis_value_ref(fence)?);
                    Ok(match how {
                        Release::Script => script(leasehold_lua::RELEASE_FAST.sha1, &[name(lock)], &[value]),
                        Release::DelIfEq => cmd("DELIFEQ").arg(name(lock)).arg(value).to_owned(),
                    })
                });
                let (releasing, replies) = self.spent_on(bench, releases.collect::<Result<_>>()?).await?;
                all_done(replies.iter())?;
                Ok(acquiring + releasing)
            }
            Cycle::Batch(kind, together) => self.batches(bench, kind, together).await,
            Cycle::HandOver => {
                self.ask::<Value>(&acquire("hot", token(0, 0))).await?;
                let turns = (0..LOCKS).flat_map(|turn| {
                    let next = acquire("hot", token((turn + 1) % 2, turn + 1));
                    [next, release("hot", token(turn % 2, turn))]
                });
                let (spent, _) = self.spent_on(bench, turns.collect()).await?;
                Ok(spent)
            }
            Cycle::Heartbeat => {
                for client in 0..2 {
                    self.ask::<Value>(&acquire("hot", token(client, 0))).await?;
                }
                let (spent, _) = self.spent_on(bench, vec![acquire("hot", token(1, 0)); LOCKS]).await?;
                Ok(spent)
            }
        }
    }

    async fn batches(&mut self, bench: &Bench, kind: &str, together: usize) -> Result<Duration> {
        let groups: Vec<Vec<usize>> = (0..LOCKS).collect::<Vec<_>>().chunks(together).map(<[_]>::to_vec).collect();
        let acquires = groups.iter().map(|group| batch(kind, group, None)).collect();
        let (acquiring, replies) = self.spent_on(bench, acquires).await?;
        let mut releases = Vec::new();
        for (group, reply) in groups.iter().zip(&replies) {
            let reply: Vec<Value> = FromRedisValue::from_redis_value_ref(reply)?;
            let [_, fence, done @ ..] = reply.as_slice() else { return Err("a batch answered too little".into()) };
            all_done(done.iter())?;
            releases.push(batch(kind, group, Some(&String::from_redis_value_ref(fence)?)));
        }
        let (releasing, replies) = self.spent_on(bench, releases).await?;
        for reply in &replies {
            let reply: Vec<Value> = FromRedisValue::from_redis_value_ref(reply)?;
            all_done(reply.iter().skip(2))?;
        }
        Ok(acquiring + releasing)
    }

    /// Sends the commands in pipelines. Returns the server's processor time and the replies.
    async fn spent_on(&mut self, bench: &Bench, commands: Vec<Cmd>) -> Result<(Duration, Vec<Value>)> {
        let mut replies = Vec::with_capacity(commands.len());
        let before = bench.spent()?;
        for part in commands.chunks(PIPELINED) {
            let mut pipeline = Pipeline::with_capacity(part.len());
            for command in part {
                pipeline.add_command(command.clone());
            }
            replies.extend(pipeline.query_async::<Vec<Value>>(&mut self.connection).await?);
        }
        Ok((bench.spent()?.cpu_since(&before), replies))
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T> {
        Ok(command.query_async(&mut self.connection).await?)
    }
}

fn all_done<'a>(mut replies: impl Iterator<Item = &'a Value>) -> Result {
    match replies.find(|reply| **reply != Value::Int(1)) {
        Some(reply) => Err(format!("a lock was not taken or freed: {reply:?}").into()),
        None => Ok(()),
    }
}

fn name(lock: usize) -> String {
    format!("lock{lock}")
}

fn side(lock: usize, what: &str) -> String {
    format!("leasehold:{{lock{lock}}}:{what}")
}

fn token(client: usize, count: usize) -> String {
    format!("{}:{count}", CLIENTS[client])
}

fn script(digest: &str, keys: &[String], arguments: &[String]) -> Cmd {
    let mut command = cmd("EVALSHA");
    command.arg(digest).arg(keys.len()).arg(keys).arg(arguments);
    command
}

/// Takes these locks in one call. With a fence, releases them.
fn batch(kind: &str, locks: &[usize], fence: Option<&str>) -> Cmd {
    let (entry, sides): (&str, &[&str]) = match (kind, fence) {
        ("mutex", None) => ("acquire", &["queue"]),
        ("mutex", Some(_)) => ("release", &[]),
        ("read lock", None) => ("share", &["queue", "readers"]),
        ("read lock", Some(_)) => ("unshare", &["readers"]),
        ("semaphore", None) => ("permit", &["queue", "permits"]),
        ("semaphore", Some(_)) => ("unpermit", &["queue", "permits"]),
        (_, None) => ("acquire-reentrant", &["queue"]),
        (_, Some(_)) => ("release-reentrant", &[]),
    };
    let mut keys = Vec::new();
    let mut arguments = vec![if fence.is_none() { locks.len() } else { 0 }.to_string()];
    for lock in locks {
        keys.push(name(*lock));
        keys.extend(sides.iter().map(|what| side(*lock, what)));
        let token = token(0, *lock);
        arguments.push(entry.to_owned());
        arguments.push(match (kind, fence) {
            ("mutex", None) => token + " ",
            ("mutex", Some(fence)) => format!("{token} {fence}"),
            _ => token,
        });
        if fence.is_none() {
            arguments.push("30000".to_owned());
            arguments.extend((kind == "semaphore").then(|| "1/5".to_owned()));
        }
    }
    keys.extend(fence.is_none().then(|| "leasehold:fence".to_owned()));
    script(leasehold_lua::BATCH.sha1, &keys, &arguments)
}

fn acquire(name: &str, token: String) -> Cmd {
    let arguments = ["exclusive", "30000", "wait", "3000", "33", "0", "native"].map(str::to_owned);
    script(leasehold_lua::ACQUIRE.sha1, &all_keys(name), &[&[token][..], &arguments].concat())
}

fn release(name: &str, token: String) -> Cmd {
    let arguments = ["0", "0", "native"].map(str::to_owned);
    script(leasehold_lua::RELEASE.sha1, &all_keys(name), &[&[token][..], &arguments].concat())
}

fn all_keys(name: &str) -> Vec<String> {
    let side = |what| format!("leasehold:{{{name}}}:{what}");
    let sides = ["queue", "waiters", "readers", "none"].map(side);
    [&[name.to_owned(), "leasehold:fence".to_owned()][..], &sides].concat()
}
