//! How many instructions the engine needs, for a fixed script of work. They hardly depend on the machine and on what else
//! runs there, so two commits can be compared.
//!
//! ```text
//! cargo run --release -p leasehold-core --example instructions
//! ```
//!
//! It runs itself in callgrind, with twice as much work the second time, and prints the difference for one unit of work. For
//! an older commit, copy this file there. The answers of the server are made here, and making them counts, too.

use std::process::Command as Process;
use std::{env, error, iter};

use leasehold_core::{
    AcquireOptions, ClientId, Command, Config, Engine, Failure, Input, Instant, LeaseId, OpId, Outcome, Output, Reply,
    Scalar, Wait,
};
use leasehold_lua as lua;

/// The server's clock when the client's is 0, in microseconds.
const STARTED: u64 = 1_700_000_000_000_000;
/// How long an answer takes, in microseconds.
const ROUND_TRIP: u64 = 100;

/// Each kind of work, how often it runs, and what it is.
type Work = (&'static str, u64, fn(&mut Client, u64));
const WORK: [Work; 4] = [
    ("take a free lock and give it back", 2_000, lock),
    ("take 64 free locks and give them back, as batches", 100, batch),
    ("hand a lock over to the next local caller", 5_000, hand_over),
    ("renew 1,000 leases", 20, renew),
];

fn main() -> Result<(), Box<dyn error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [place, times] = arguments.as_slice() {
        let (_, _, work) = WORK[place.parse::<usize>()?];
        work(&mut Client::new(), times.parse()?);
        return Ok(());
    }
    for (place, (name, times, _)) in WORK.iter().enumerate() {
        let (once, twice) = (counted(place, *times)?, counted(place, 2 * times)?);
        println!("{:>12} instructions to {name}", (twice - once) / times);
    }
    Ok(())
}

/// The instructions of this program when it does a kind of work so many times.
fn counted(place: usize, times: u64) -> Result<u64, Box<dyn error::Error>> {
    let callgrind = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let (program, arguments) = (env::current_exe()?, [place.to_string(), times.to_string()]);
    let output = Process::new("valgrind").args(callgrind).arg(program).args(arguments).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(text.into());
    }
    let count = text.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim());
    Ok(count.ok_or("callgrind tells no count")?.parse()?)
}

fn lock(client: &mut Client, times: u64) {
    for _ in 0..times {
        let lease = client.acquire("invoice:42");
        client.release(lease);
    }
}

fn batch(client: &mut Client, times: u64) {
    let names: Vec<String> = (0..64).map(|number| format!("invoice:{number}")).collect();
    for _ in 0..times {
        names.iter().for_each(|name| client.ask_for(name));
        client.settle();
        for lease in client.granted.split_off(0) {
            client.begin_release(lease);
        }
        client.settle();
    }
}

fn hand_over(client: &mut Client, times: u64) {
    client.ask_for("invoice:42");
    client.settle();
    for _ in 0..times {
        client.ask_for("invoice:42");
        let lease = client.granted.pop().expect("the lock is held");
        client.begin_release(lease);
        client.settle();
    }
}

fn renew(client: &mut Client, times: u64) {
    (0..1_000).for_each(|number| client.ask_for(&format!("invoice:{number}")));
    client.settle();
    let renewed = client.renewed;
    while client.renewed < renewed + times * 1_000 {
        let (at, _) = client.engine.poll_timeout().expect("a lease is renewed");
        client.now = client.now.max(at);
        client.engine.handle(client.now, Input::Wake);
        client.settle();
    }
}

/// A client whose commands the server answers after a round trip.
struct Client {
    engine: Engine,
    now: Instant,
    calls: u64,
    granted: Vec<LeaseId>,
    renewed: u64,
}

impl Client {
    fn new() -> Self {
        let config = Config { batches: true, ..Config::default() };
        let engine = Engine::new(ClientId::from_random([7; 16]), config).expect("the options are valid");
        Self { engine, now: Instant::from_micros(1), calls: 0, granted: Vec::new(), renewed: 0 }
    }

    fn call(&mut self) -> OpId {
        self.calls += 1;
        OpId(self.calls)
    }

    fn ask_for(&mut self, name: &str) {
        let (op, options) = (self.call(), AcquireOptions { wait: Wait::Forever, ..AcquireOptions::default() });
        self.engine.handle(self.now, Input::Acquire { op, name, options: &options });
    }

    fn begin_release(&mut self, lease: LeaseId) {
        let op = self.call();
        self.engine.handle(self.now, Input::Release { op, lease });
    }

    fn acquire(&mut self, name: &str) -> LeaseId {
        self.ask_for(name);
        self.settle();
        self.granted.pop().expect("the lock is free")
    }

    fn release(&mut self, lease: LeaseId) {
        self.begin_release(lease);
        self.settle();
    }

    /// Answers everything until nothing is due.
    fn settle(&mut self) {
        loop {
            while let Some(output) = self.engine.poll_output() {
                match output {
                    Output::Send { id, command, .. } => {
                        self.now = Instant::from_micros(self.now.as_micros() + ROUND_TRIP);
                        let result = Ok(self.answer(&command));
                        self.engine.handle(self.now, Input::Reply { id, result });
                    }
                    Output::Completed { result: Ok(Outcome::Acquired(grant)), .. } => self.granted.push(grant.lease),
                    Output::Completed { result, .. } => assert!(result.is_ok(), "{result:?}"),
                    Output::Subscribe { node, channel } => {
                        let cause = Failure::Unsupported("no messages".into());
                        self.engine.handle(self.now, Input::Unsubscribed { node, channel: &channel, cause });
                    }
                    _ => {}
                }
            }
            if self.engine.poll_timeout().is_none_or(|(at, _)| at > self.now) {
                return;
            }
            self.engine.handle(self.now, Input::Wake);
        }
    }

    /// What a server answers whose locks are free.
    fn answer(&mut self, command: &Command) -> Reply {
        let fence = STARTED + self.now.as_micros();
        let number = |number: u64| Scalar::Int(number.try_into().expect("it is small"));
        let of_script = |status: &str, block: u64| {
            let numbers = [fence, block, fence, 30_000, 0, 0].map(number);
            Reply::List(iter::once(Scalar::Text(status.into())).chain(numbers).collect())
        };
        let script = command.words().nth(1).unwrap_or_default();
        match script {
            _ if script == lua::ACQUIRE_FAST.sha1.as_bytes() => Reply::One(Scalar::Text(fence.to_string().into())),
            _ if script == lua::RELEASE_FAST.sha1.as_bytes() => Reply::One(Scalar::Int(1)),
            _ if script == lua::ACQUIRE.sha1.as_bytes() => of_script("again", 1_000),
            _ if script == lua::RENEW.sha1.as_bytes() => {
                self.renewed += 1;
                of_script("renewed", 0)
            }
            _ => {
                assert_eq!(script, lua::BATCH.sha1.as_bytes(), "another script");
                let mut numbers = vec![number(fence), number(fence)];
                for word in command.words() {
                    match word {
                        b"acquire" | b"release" => numbers.push(Scalar::Int(1)),
                        b"renew" => {
                            self.renewed += 1;
                            numbers.push(Scalar::Int(30_000));
                        }
                        _ => {}
                    }
                }
                Reply::List(numbers)
            }
        }
    }
}
