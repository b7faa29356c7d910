//! Servers in memory, on virtual time. Their tests are `#[tokio::test(start_paused = true)]`: time passes only while
//! everything waits, so a busy machine changes nothing.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_component_tests::lock_component;
use leasehold_core::{Reply as Answered, Scalar};
use leasehold_servers::{Error, Reply as Seen};
use leasehold_wasmtime_host::{
    Answer, Connected, Endpoint, Failure, Future, Locks, Messages, Provider, Reply, Servers, Value, with_context,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use wasmtime::component::Component;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx};

use crate::common::Place;

/// The servers' time at the beginning, in µs since 1970.
const BEGIN_US: u64 = 1_800_000_000_000_000;
/// How long a command takes.
const ROUND_TRIP: Duration = Duration::from_millis(1);

/// Runs `work` in an instance of `lock.wasm` whose clocks show tokio's time.
pub(crate) async fn on_virtual_time<R>(
    provider: impl Provider + 'static,
    work: impl AsyncFnOnce(Locks<'_>) -> R,
) -> wasmtime::Result<R> {
    composed_on_virtual_time(lock_component(), provider, work).await
}

/// The same, in an instance of a component that was composed of `lock.wasm` and others.
pub(crate) async fn composed_on_virtual_time<R>(
    component: &Component,
    provider: impl Provider + 'static,
    work: impl AsyncFnOnce(Locks<'_>) -> R,
) -> wasmtime::Result<R> {
    let began = Instant::now();
    let wasi = WasiCtx::builder().monotonic_clock(Clock(began)).wall_clock(Clock(began)).build();
    with_context(component, provider, wasi, work).await
}

struct Clock(Instant);

impl HostMonotonicClock for Clock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

impl HostWallClock for Clock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        Duration::from_micros(BEGIN_US) + self.0.elapsed()
    }
}

/// A server in memory.
#[derive(Clone)]
pub(crate) struct Memory {
    number: u32,
    alias: &'static str,
    began: Instant,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    server: leasehold_memory::Server,
    behaves: Behaves,
    subscribers: Vec<(String, mpsc::Sender<Vec<u8>>)>,
    scripts: i64,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Behaves {
    #[default]
    Answers,
    /// Its commands wait until it continues.
    Paused,
    /// Nothing listens at its address.
    Stopped,
}

impl Memory {
    pub(crate) fn start() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { number, alias: "", began: Instant::now(), state: Arc::default() }
    }

    /// Another address of this server. It has its own keys.
    pub(crate) fn under_another_address(&self) -> Self {
        Self { alias: "-again", state: Arc::default(), ..*self }
    }

    pub(crate) fn provider(&self) -> Memories {
        Memories(vec![self.clone()])
    }

    pub(crate) fn pause(&self) {
        self.state().behaves = Behaves::Paused;
    }

    /// Its slots begin to move, or have moved: it refuses commands that touch a key which is not there.
    pub(crate) fn moves_slots(&self, on: bool) {
        self.state().server.set_migrating(on);
    }

    pub(crate) fn resume(&self) {
        self.state().behaves = Behaves::Answers;
    }

    /// Loses its keys and connections.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        state.behaves = Behaves::Stopped;
        for (channel, _) in std::mem::take(&mut state.subscribers) {
            state.server.unsubscribe(channel.as_bytes());
        }
        state.server.flush_all();
        state.server.script_flush();
    }

    pub(crate) fn restart(&self) {
        self.stop();
        self.resume();
    }

    /// The keys that begin with this.
    pub(crate) fn keys(&self, prefix: &str) -> usize {
        let now = self.now_us();
        self.state().server.keys(now).filter(|key| key.starts_with(prefix.as_bytes())).count()
    }

    fn now_us(&self) -> u64 {
        BEGIN_US + self.began.elapsed().as_micros() as u64
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execute(&self, words: &[&[u8]]) -> Result<Answered, String> {
        let (now, mut state) = (self.now_us(), self.state());
        let state = &mut *state;
        state.scripts += i64::from(words[0].starts_with(b"EVAL"));
        for (channel, sender) in state.subscribers.extract_if(.., |(_, sender)| sender.is_closed()) {
            drop(sender);
            state.server.unsubscribe(channel.as_bytes());
        }
        let executed = state.server.execute(now, words).map_err(|error| format!("{error:?}"))?;
        for message in executed.published {
            for (_, sender) in state.subscribers.iter().filter(|(channel, _)| channel.as_bytes() == message.channel) {
                let _ = sender.try_send(message.payload.clone());
            }
        }
        executed.reply
    }

    /// Waits while the server is paused.
    async fn reached(&self) -> Result<(), Failure> {
        loop {
            sleep(ROUND_TRIP).await;
            let behaves = self.state().behaves;
            match behaves {
                Behaves::Answers => return Ok(()),
                Behaves::Stopped => return Err(Failure::Unavailable("nobody listens".to_owned())),
                Behaves::Paused => {}
            }
        }
    }
}

impl Place for Memory {
    fn url(&self) -> String {
        format!("redis://memory-{}{}", self.number, self.alias)
    }

    fn cli(&self, command: &[&str]) -> Result<Seen, Error> {
        let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
        Ok(match self.execute(&words) {
            Ok(Answered::One(value)) => seen(value),
            Ok(Answered::List(values)) => Seen::List(values.into_iter().map(seen).collect()),
            Err(text) => Seen::Error(text),
        })
    }

    fn scripts_run(&self) -> i64 {
        self.state().scripts
    }
}

fn seen(value: Scalar) -> Seen {
    match value {
        Scalar::Nil => Seen::Nil,
        Scalar::Int(number) => Seen::Integer(number),
        Scalar::Text(text) => Seen::Text(String::from_utf8_lossy(&text).into_owned()),
    }
}

/// Connects to servers in memory by their URL.
pub(crate) struct Memories(pub(crate) Vec<Memory>);

impl Provider for Memories {
    fn open(&self, servers: Servers, _response_timeout: Duration) -> Future<Connected> {
        let found = self.0.iter().find(|memory| matches!(&servers, Servers::Single(url) if *url == memory.url()));
        let found = found.cloned();
        Box::pin(async move {
            let memory = found.ok_or_else(|| Failure::Unsupported(format!("no such server: {servers:?}")))?;
            memory.reached().await?;
            Ok(Arc::new(memory) as Arc<dyn Endpoint>)
        })
    }
}

impl Endpoint for Memory {
    fn call(&self, command: Vec<Vec<u8>>) -> Future<Answer> {
        let memory = self.clone();
        Box::pin(async move {
            memory.reached().await?;
            let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            if words[0] == b"INFO" {
                let info = format!("redis_version:7.2.0\r\nrun_id:{:040}\r\n", memory.number);
                return Ok(Reply::Single(Value::Text(info.into_bytes())));
            }
            match memory.execute(&words).map_err(Failure::Refused)? {
                Answered::One(value) => Ok(Reply::Single(value_of(value))),
                Answered::List(values) => Ok(Reply::Array(values.into_iter().map(value_of).collect())),
            }
        })
    }

    fn subscribe(&self, channel: String) -> Future<Result<Messages, Failure>> {
        let memory = self.clone();
        Box::pin(async move {
            memory.reached().await?;
            let (sender, messages) = mpsc::channel(64);
            let mut state = memory.state();
            state.server.subscribe(channel.as_bytes());
            state.subscribers.push((channel, sender));
            Ok(messages)
        })
    }
}

fn value_of(value: Scalar) -> Value {
    match value {
        Scalar::Nil => Value::Nil,
        Scalar::Int(number) => Value::Integer(number),
        Scalar::Text(text) => Value::Text(text),
    }
}
