//! A connection to a server that refuses scripts: each call of a script becomes a transaction.

use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold_core::Reply;
use leasehold_memory::{Ended, Executed, Transaction};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::Mutex;

use super::codec;
use super::connection::Connection;
use crate::errors::server_text;

/// So many times in a row, other clients may change the keys of a transaction.
const MAX_ATTEMPTS: usize = 100;

pub(super) struct WithoutScripts {
    connection: MultiplexedConnection,
    /// One transaction at a time, because the keys that are watched belong to the connection. The connection carries other
    /// commands meanwhile.
    turn: Arc<Mutex<()>>,
}

impl WithoutScripts {
    pub(super) fn new(connection: MultiplexedConnection) -> Self {
        Self { connection, turn: Arc::default() }
    }
}

impl Connection for WithoutScripts {
    fn run(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        let Some(transaction) = Transaction::of(&codec::words(&cmd)) else { return self.connection.run(cmd) };
        let (connection, turn) = (self.connection.clone(), Arc::clone(&self.turn));
        Box::pin(async move {
            let _turn = turn.lock_owned().await;
            run(connection, &transaction).await
        })
    }

    fn run_asking(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        // Only clusters need it.
        self.connection.run_asking(cmd)
    }
}

/// If this is dropped, some keys may stay watched. Then the next `EXEC` can fail once without need.
async fn run(mut connection: MultiplexedConnection, transaction: &Transaction) -> RedisResult<Value> {
    for attempt in 1..=MAX_ATTEMPTS {
        let read = run_all(&mut connection, &transaction.reads()).await?;
        let writes = match transaction.run(&read) {
            Ok(writes) => writes,
            Err(text) => return Ok(codec::error_value(&text)),
        };
        let written = run_all(&mut connection, writes.commands()).await?;
        match writes.end(&written) {
            Ended::Done(executed) => return Ok(finish(&mut connection, executed).await),
            Ended::Refused(text) => return Ok(codec::error_value(&text)),
            Ended::Unclear => return Err(io::Error::other("the server did not answer EXEC as expected").into()),
            Ended::Changed => tracing::trace!(attempt, "another client changed the lock's keys"),
        }
    }
    Err(RedisError::from((ErrorKind::Client, "other clients changed the lock's keys again and again")))
}

/// Publishes the messages, which are only hints, and returns the reply.
async fn finish(connection: &mut MultiplexedConnection, executed: Executed) -> Value {
    let publish = |message: leasehold_memory::Message| vec![b"PUBLISH".to_vec(), message.channel, message.payload];
    let commands: Vec<_> = executed.published.into_iter().map(publish).collect();
    if !commands.is_empty()
        && let Err(error) = run_all(connection, &commands).await
    {
        tracing::debug!(%error, "can't publish");
    }
    match executed.reply {
        Ok(reply) => codec::value(reply),
        Err(text) => codec::error_value(&text),
    }
}

/// Sends the commands together, and returns a reply or an error text for each.
async fn run_all(
    connection: &mut MultiplexedConnection,
    commands: &[Vec<Vec<u8>>],
) -> RedisResult<Vec<Result<Reply, String>>> {
    let mut pipeline = Pipeline::with_capacity(commands.len());
    for words in commands {
        let mut cmd = Cmd::with_capacity(words.len(), words.iter().map(Vec::len).sum());
        for word in words {
            cmd.arg(word);
        }
        pipeline.add_command(cmd);
    }
    let replies = connection.req_packed_commands(&pipeline, 0, commands.len()).await?;
    Ok(replies.into_iter().map(replied).collect())
}

fn replied(value: Value) -> Result<Reply, String> {
    match value {
        Value::ServerError(error) => Err(server_text(&error)),
        value => Ok(codec::reply(flat(value))),
    }
}

/// The value as RESP2 would have it: RESP3 has maps, lists of pairs and numbers with a point.
fn flat(value: Value) -> Value {
    match value {
        Value::Map(pairs) => {
            Value::Array(pairs.into_iter().flat_map(|(key, value)| [flat(key), flat(value)]).collect())
        }
        Value::Array(items) if items.iter().any(|item| matches!(item, Value::Array(_))) => {
            let inner = items.into_iter().flat_map(|item| match item {
                Value::Array(items) => items,
                item => vec![item],
            });
            Value::Array(inner.map(flat).collect())
        }
        Value::Double(number) => Value::BulkString(number.to_string().into_bytes()),
        value => value,
    }
}
