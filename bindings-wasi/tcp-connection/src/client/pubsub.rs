//! The messages of one channel, on a connection of their own.

use std::cell::Cell;
use std::time::Duration;

use futures_channel::oneshot::Receiver;
use wit_bindgen::{StreamReader, StreamResult, StreamWriter};

use crate::bindings::exports::leasehold::lock::connection::{Failure, Value};
use crate::bindings::wit_stream;
use crate::limits::Permit;
use crate::net::{Address, Broken, Closes, Connection, Input, Output, Parsed, encode};
use crate::time::{race, sleep, timeout};

/// How often to send a `PING`. Its answer shows that the server is there, and lets the task notice that the reader of the
/// messages is gone.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Subscribes, and returns when the server has acknowledged it. The messages end when `dropped` resolves.
pub(super) async fn subscribe(
    address: &Address,
    limit: Duration,
    channel: String,
    dropped: Receiver<()>,
    permit: Permit,
) -> Result<StreamReader<Vec<u8>>, Failure> {
    let subscribed = timeout(limit, async {
        let mut connection = Connection::open(address, limit).await?;
        send_subscribe(&mut connection, &channel, &address.closes).await?;
        Ok(connection)
    });
    let timed_out = || Failure::Unavailable("the server did not acknowledge the subscription in time".to_owned());
    let connection = subscribed.await.unwrap_or_else(|| Err(timed_out()))?;
    let (messages, reader) = wit_stream::new();
    wit_bindgen::spawn_local(async move {
        forward(connection, limit, messages, dropped).await;
        drop(permit);
    });
    Ok(reader)
}

/// After so many connections that the server has closed at `SUBSCRIBE`, although it answered before, it counts as one that refuses it.
const MOST_CLOSED: u32 = 2;

async fn send_subscribe(connection: &mut Connection, channel: &str, closes: &Closes) -> Result<(), Failure> {
    connection.output.write(encode(&["SUBSCRIBE", channel])).await.map_err(Broken::unavailable)?;
    match connection.input.next().await {
        Ok(Parsed::Array(values)) if is_text(values.first(), b"subscribe") => {
            closes.at_subscribe.set(0);
            Ok(())
        }
        Ok(Parsed::Error(text)) => Err(Failure::Refused(text)),
        Ok(_) => Err(Failure::Unavailable("the server's answer to SUBSCRIBE was not understood".to_owned())),
        Err(Broken::Closed(_)) if closes.at_subscribe.get() >= MOST_CLOSED => {
            Err(Failure::Refused("ERR the server closes the connection at SUBSCRIBE".to_owned()))
        }
        Err(broken) => {
            closes.at_subscribe.set(closes.at_subscribe.get() + 1);
            Err(broken.unavailable())
        }
    }
}

fn is_text(value: Option<&Value>, text: &[u8]) -> bool {
    matches!(value, Some(Value::Text(found)) if found == text)
}

/// Runs until the connection ends, the reader is gone, or the endpoint is dropped.
async fn forward(connection: Connection, limit: Duration, messages: StreamWriter<Vec<u8>>, dropped: Receiver<()>) {
    let Connection { mut output, mut input } = connection;
    let answered = Cell::new(false);
    let dropped = async {
        let _ = dropped.await;
    };
    let forwarding = race(receive(&mut input, messages, &answered), ping(&mut output, limit, &answered));
    race(dropped, forwarding).await;
}

async fn receive(input: &mut Input, mut messages: StreamWriter<Vec<u8>>, answered: &Cell<bool>) {
    // All that arrives on a subscribed connection is an array. A server that sends something else has not subscribed us.
    while let Ok(Parsed::Array(values)) = input.next().await {
        answered.set(true);
        // The answer to a `PING` has no payload. The empty write then shows whether there is still a reader.
        let batch: Vec<_> = payload(values).into_iter().collect();
        let (result, _) = messages.write(batch).await;
        if !matches!(result, StreamResult::Complete(_)) {
            return;
        }
    }
}

/// The payload of a message. None for everything else that arrives on a subscribed connection.
fn payload(values: Vec<Value>) -> Option<Vec<u8>> {
    match <[Value; 3]>::try_from(values).ok()? {
        [Value::Text(kind), _, Value::Text(payload)] if kind == b"message" => Some(payload),
        _ => None,
    }
}

/// Ends when the server does not answer.
async fn ping(output: &mut Output, limit: Duration, answered: &Cell<bool>) {
    loop {
        sleep(PING_INTERVAL).await;
        answered.set(false);
        if output.write(encode(&["PING"])).await.is_err() {
            return;
        }
        sleep(limit).await;
        if !answered.get() {
            return;
        }
    }
}
