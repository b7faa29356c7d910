//! A channel's messages, on a separate connection.

use std::cell::Cell;
use std::time::Duration;

use futures_channel::oneshot::Receiver;
use wit_bindgen::{StreamReader, StreamResult, StreamWriter};

use crate::address::Address;
use crate::bindings::exports::leasehold::lock::connection::{Failure, Value};
use crate::bindings::wit_stream;
use crate::connection::{Broken, Connection, Input, Output};
use crate::limits::Taken;
use crate::resp::{Parsed, encoded};
use crate::timer::{first, sleep, within};

/// How often to check that the server, and the reader of the messages, are still there.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Subscribes, and returns when the server has acknowledged it. The messages end when `closed` resolves.
pub(crate) async fn begin(
    address: &Address,
    limit: Duration,
    channel: String,
    closed: Receiver<()>,
    taken: Taken,
) -> Result<StreamReader<Vec<u8>>, Failure> {
    let subscribed = within(limit, async {
        let mut connection = Connection::open(address, limit).await?;
        subscribe(&mut connection, &channel).await?;
        Ok(connection)
    });
    let late = || Failure::Unavailable("the server did not acknowledge the subscription in time".to_owned());
    let connection = subscribed.await.unwrap_or_else(|| Err(late()))?;
    let (messages, reader) = wit_stream::new();
    drop(wit_bindgen::spawn_local(async move {
        pass_on(connection, limit, messages, closed).await;
        drop(taken);
    }));
    Ok(reader)
}

async fn subscribe(connection: &mut Connection, channel: &str) -> Result<(), Failure> {
    let broken = |(Broken::Closed(text) | Broken::Malformed(text))| Failure::Unavailable(text);
    connection.output.write(encoded(&["SUBSCRIBE", channel])).await.map_err(broken)?;
    match connection.input.next().await.map_err(broken)? {
        Parsed::Array(values) if is(values.first(), b"subscribe") => Ok(()),
        Parsed::Error(text) => Err(Failure::Refused(text)),
        _ => Err(Failure::Unavailable("the server's answer to SUBSCRIBE was not understood".to_owned())),
    }
}

/// Runs until the connection ends, the reader is gone, or the endpoint is dropped.
async fn pass_on(connection: Connection, limit: Duration, messages: StreamWriter<Vec<u8>>, closed: Receiver<()>) {
    let Connection { mut output, mut input } = connection;
    let heard = Cell::new(false);
    let open = async {
        let _ = closed.await;
    };
    let passing = first(receive(&mut input, messages, &heard), ask(&mut output, limit, &heard));
    first(open, passing).await;
}

async fn receive(input: &mut Input, mut messages: StreamWriter<Vec<u8>>, heard: &Cell<bool>) {
    while let Ok(reply) = input.next().await {
        heard.set(true);
        // An empty write tells whether there is still a reader.
        let batch: Vec<_> = message(reply).into_iter().collect();
        let (result, _) = messages.write(batch).await;
        if !matches!(result, StreamResult::Complete(_)) {
            return;
        }
    }
}

/// A message's payload. None for everything else that arrives on a subscribed connection.
fn message(reply: Parsed) -> Option<Vec<u8>> {
    let Parsed::Array(values) = reply else { return None };
    match <[Value; 3]>::try_from(values).ok()? {
        [Value::Text(kind), _, Value::Text(payload)] if kind == b"message" => Some(payload),
        _ => None,
    }
}

/// Ends when the server does not answer.
async fn ask(output: &mut Output, limit: Duration, heard: &Cell<bool>) {
    loop {
        sleep(ASK_EVERY).await;
        heard.set(false);
        if output.write(encoded(&["PING"])).await.is_err() {
            return;
        }
        sleep(limit).await;
        if !heard.get() {
            return;
        }
    }
}

fn is(value: Option<&Value>, text: &[u8]) -> bool {
    matches!(value, Some(Value::Text(found)) if found == text)
}
