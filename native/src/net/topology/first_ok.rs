//! Tries several servers when any of them can answer.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{ErrorKind, RedisError, RedisResult};
use tokio::time::timeout;

/// How long to wait for an answer before trying the next server as well. After a failure, the next one is tried at once.
const STAGGER: Duration = Duration::from_millis(100);

/// The first success. A silent server causes only a small delay. If all attempts fail, returns the most helpful error.
pub(super) async fn first_ok<T, F>(attempts: impl IntoIterator<Item = F>) -> RedisResult<T>
where
    F: Future<Output = RedisResult<T>>,
{
    let mut attempts = attempts.into_iter().fuse();
    let mut running = FuturesUnordered::new();
    let mut failure: Option<RedisError> = None;
    loop {
        let last = match attempts.next() {
            Some(attempt) => {
                running.push(attempt);
                false
            }
            None if running.is_empty() => return Err(failure.unwrap_or_else(no_server)),
            None => true,
        };
        let ended = if last { Ok(running.next().await) } else { timeout(STAGGER, running.next()).await };
        match ended {
            Ok(Some(Ok(found))) => return Ok(found),
            // An I/O error says less than an answer from another server.
            Ok(Some(Err(error))) if failure.as_ref().is_none_or(RedisError::is_io_error) => failure = Some(error),
            _ => {}
        }
    }
}

fn no_server() -> RedisError {
    (ErrorKind::Client, "there is no server to ask").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    type Attempt = futures_util::future::BoxFuture<'static, RedisResult<u8>>;

    fn broken() -> RedisError {
        std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()
    }

    fn denied() -> RedisError {
        (ErrorKind::AuthenticationFailed, "no").into()
    }

    #[tokio::test]
    async fn a_silent_or_unreachable_server_does_not_delay_the_others() {
        let attempts: Vec<Attempt> =
            vec![Box::pin(pending()), Box::pin(async { Err(broken()) }), Box::pin(async { Ok(7) })];
        let found = timeout(Duration::from_secs(60), first_ok(attempts)).await;
        assert_eq!(found.expect("in time").expect("one that answers"), 7);
    }

    #[tokio::test]
    async fn a_servers_answer_is_a_better_error_than_an_unreachable_server() {
        for flip in [false, true] {
            let mut attempts: Vec<Attempt> = vec![Box::pin(async { Err(broken()) }), Box::pin(async { Err(denied()) })];
            if flip {
                attempts.reverse();
            }
            let error = first_ok(attempts).await.expect_err("none answers");
            assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
        }
        let none: Vec<Attempt> = Vec::new();
        assert!(first_ok(none).await.is_err());
    }
}
