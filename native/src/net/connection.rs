//! A connection that runs commands, and the time limits for its replies.

use std::any::Any;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::time::{Instant, timeout};

/// A connection of any kind.
pub(crate) type SharedConnection = Arc<dyn Connection>;

/// Something that runs commands.
pub(crate) trait Connection: Send + Sync {
    fn run(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>>;

    /// Runs a command behind an `ASKING`, on a cluster server that is importing the command's slot.
    fn run_asking(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>>;
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Connection for C {
    fn run(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        let mut connection = self.clone();
        Box::pin(async move { connection.req_packed_command(&cmd).await })
    }

    fn run_asking(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        let mut connection = self.clone();
        Box::pin(async move {
            // In one pipeline, so that no other command comes in between.
            let mut both = Pipeline::with_capacity(2);
            both.add_command(redis::cmd("ASKING")).add_command(cmd);
            let mut replies = connection.req_packed_commands(&both, 1, 1).await?;
            Ok(replies.pop().unwrap_or(Value::Nil))
        })
    }
}

/// The connection as one that runs commands.
pub(super) fn shared<C: ConnectionLike + Clone + Send + Sync + 'static>(connection: C) -> SharedConnection {
    match (&connection as &dyn Any).downcast_ref() {
        Some(multiplexed) => Arc::new(Multiplexed(MultiplexedConnection::clone(multiplexed))),
        None => Arc::new(connection),
    }
}

/// A connection of the usual type. Its commands need one allocation less than by its [`ConnectionLike`].
struct Multiplexed(MultiplexedConnection);

impl Connection for Multiplexed {
    fn run(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        let mut connection = self.0.clone();
        Box::pin(async move { connection.send_packed_command(&cmd).await })
    }

    fn run_asking(&self, cmd: Cmd) -> BoxFuture<'static, RedisResult<Value>> {
        self.0.run_asking(cmd)
    }
}

/// A timer that fires this late shows that this process was paused. Less if the limit is short.
pub(super) const LATE: Duration = Duration::from_millis(50);

/// The action's result. None if it takes longer than `limit`.
///
/// If the application has blocked the runtime or the machine has stalled, the answer may be in the socket already, or
/// the command may not have been sent. So if the timer fires late, the action gets the same time once more.
pub(super) async fn within<T>(limit: Duration, action: impl Future<Output = T>) -> Option<T> {
    let (mut action, start) = (pin!(action), Instant::now());
    match timeout(limit, &mut action).await {
        Err(_) if start.elapsed().saturating_sub(limit) > LATE.min(limit / 4) => timeout(limit, action).await.ok(),
        ended => ended.ok(),
    }
}

/// The action's result, or the `redis` crate's timeout error.
pub(super) async fn with_timeout<T>(limit: Duration, action: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    within(limit, action).await.unwrap_or_else(|| Err(timed_out()))
}

pub(super) fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
