//! The server in memory that the truth comes from.

use std::cell::RefCell;

use futures_channel::mpsc::UnboundedSender;
use leasehold_core::{Reply as Answered, Scalar};
use leasehold_memory::Server;

use crate::bindings::exports::leasehold::lock::connection::{Failure, Reply, Value};
use crate::bindings::wasi::clocks::system_clock;

thread_local! {
    static SERVER: RefCell<Server> = RefCell::default();
    static SUBSCRIBERS: RefCell<Vec<(String, UnboundedSender<Vec<u8>>)>> = const { RefCell::new(Vec::new()) };
    static LAST: RefCell<Option<Result<Reply, Failure>>> = const { RefCell::new(None) };
}

pub(crate) fn subscribe(channel: String, sender: UnboundedSender<Vec<u8>>) {
    SERVER.with_borrow_mut(|server| server.subscribe(channel.as_bytes()));
    SUBSCRIBERS.with_borrow_mut(|subscribers| subscribers.push((channel, sender)));
}

/// What a server answers.
pub(crate) fn execute(command: &[Vec<u8>]) -> Result<Reply, Failure> {
    if command.first().is_some_and(|word| word == b"INFO") {
        let info = format!("redis_version:7.2.0\r\nrun_id:{:040}\r\n", 1);
        return Ok(Reply::Single(Value::Text(info.into_bytes())));
    }
    let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
    let executed = SERVER.with_borrow_mut(|server| {
        SUBSCRIBERS.with_borrow_mut(|subscribers| {
            for (channel, _) in subscribers.extract_if(.., |(_, sender)| sender.is_closed()) {
                server.unsubscribe(channel.as_bytes());
            }
        });
        server.execute(now_us(), &words)
    });
    let executed = executed.map_err(|error| Failure::Other(format!("{error:?}")))?;
    SUBSCRIBERS.with_borrow(|subscribers| {
        for message in executed.published {
            for (_, sender) in subscribers.iter().filter(|(channel, _)| channel.as_bytes() == message.channel) {
                let _ = sender.unbounded_send(message.payload.clone());
            }
        }
    });
    match executed.reply.map_err(Failure::Refused)? {
        Answered::One(value) => Ok(Reply::Single(value_of(value))),
        Answered::List(values) => Ok(Reply::Array(values.into_iter().map(value_of).collect())),
    }
}

/// The answer to the command before.
pub(crate) fn swapped(command: &[Vec<u8>]) -> Result<Reply, Failure> {
    let answer = execute(command);
    LAST.replace(Some(answer.clone())).unwrap_or(answer)
}

fn value_of(value: Scalar) -> Value {
    match value {
        Scalar::Nil => Value::Nil,
        Scalar::Int(number) => Value::Integer(number),
        Scalar::Text(text) => Value::Text(text),
    }
}

fn now_us() -> u64 {
    let now = system_clock::now();
    u64::try_from(now.seconds).unwrap_or(0) * 1_000_000 + u64::from(now.nanoseconds) / 1_000
}
