//! Over a client of the crate `fred`: an adapter of one page lets leasehold use the application's connection.
//!
//! The adapter sends each command once, and fails it at once while the client is not connected. That is a must: a repeated
//! command may arrive after the release of its lease. It carries no messages, so waiters poll. If that is too slow, let
//! leasehold have its own connections, by `LockManager::connect`.
//!
//! `cargo run -p leasehold-examples --bin fred`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! held: on the server true
//! the waiter polls, and has the lock: true
//! fred still answers: PONG
//! ```

use std::error::Error;
use std::io;

use fred::prelude::{Client, ClientLike, Config, ErrorKind, Options};
use fred::types::{ClusterHash, CustomCommand, Resp3Frame};
use leasehold::{LockManager, redis_1};
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let client = Client::new(Config::from_url(&url)?, None, None, None);
    client.init().await?;
    let locks = LockManager::from_connection(redis_1::connection(Fred(client.clone()))).await?;

    let lease = locks.mutex("example:invoice:42").acquire().await?;
    println!("held: on the server {}", lease.verify().await?);
    let other = LockManager::from_connection(redis_1::connection(Fred(client.clone()))).await?;
    let lock = other.mutex("example:invoice:42");
    let (waited, released) = tokio::join!(lock.acquire(), lease.release());
    released?;
    println!("the waiter polls, and has the lock: {}", waited?.verify().await?);

    other.close().await;
    locks.close().await;
    println!("fred still answers: {}", client.ping::<String>(None).await?);
    client.quit().await?;
    Ok(())
}

/// A `fred` client as a connection of the `redis` crate.
#[derive(Clone)]
struct Fred(Client);

impl Fred {
    async fn send(&self, cmd: &Cmd) -> RedisResult<Value> {
        let mut words = cmd.args_iter().map(|word| match word {
            Arg::Simple(word) => word.to_vec(),
            // Only SCAN has a cursor, and locks don't scan.
            _ => b"0".to_vec(),
        });
        let name = String::from_utf8_lossy(&words.next().unwrap_or_default()).into_owned();
        let words: Vec<fred::types::Value> = words.map(|word| fred::types::Value::Bytes(word.into())).collect();
        let command = CustomCommand::new(name, ClusterHash::FirstKey, false);
        // Never a second time, and never later.
        let once = Options { max_attempts: Some(1), max_redirections: Some(0), fail_fast: true, ..Options::default() };
        value(self.0.with_options(&once).custom_raw(command, words).await.map_err(failure)?)
    }
}

impl ConnectionLike for Fred {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.send(cmd))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let mut replies = Vec::new();
            for cmd in pipeline.cmd_iter() {
                replies.push(self.send(cmd).await?);
            }
            Ok(replies.into_iter().skip(offset).take(count).collect())
        })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// A reply. A server's refusal keeps its text, because its first word tells what to do.
fn value(frame: Resp3Frame) -> RedisResult<Value> {
    Ok(match frame {
        Resp3Frame::Null => Value::Nil,
        Resp3Frame::Number { data, .. } => Value::Int(data),
        Resp3Frame::BlobString { data, .. } | Resp3Frame::VerbatimString { data, .. } => {
            Value::BulkString(data.to_vec())
        }
        Resp3Frame::SimpleString { data, .. } => Value::SimpleString(String::from_utf8_lossy(&data).into_owned()),
        Resp3Frame::Array { data, .. } => Value::Array(data.into_iter().map(value).collect::<RedisResult<_>>()?),
        Resp3Frame::SimpleError { data, .. } => return Err(refusal(&data)),
        Resp3Frame::BlobError { data, .. } => return Err(refusal(&String::from_utf8_lossy(&data))),
        other => return Err(io::Error::other(format!("an unexpected reply: {other:?}")).into()),
    })
}

fn refusal(text: &str) -> RedisError {
    let wire = format!("-{}\r\n", text.replace(['\r', '\n'], " "));
    match redis::parse_redis_value(wire.as_bytes()).and_then(Value::extract_error) {
        Err(error) => error,
        Ok(_) => io::Error::other(text.to_owned()).into(),
    }
}

/// A command without a reply. It may have run.
fn failure(error: fred::error::Error) -> RedisError {
    let kind = if *error.kind() == ErrorKind::Timeout { io::ErrorKind::TimedOut } else { io::ErrorKind::BrokenPipe };
    io::Error::new(kind, error).into()
}
