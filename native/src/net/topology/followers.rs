//! The tasks that follow the sentinels, one for each of them.
//!
//! Each task asks its sentinel for the primary when the sentinel announces a failover by `+switch-master`, and every
//! few seconds, because a message may be lost. If a sentinel doesn't answer, its task connects again. The other tasks
//! are not affected. [`Reports`] decides which answer counts.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::{ErrorKind, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::reports::{Report, Reports};
use super::server::Server;
use super::slots::Address;
use crate::net::connection::with_timeout;

/// How long to wait for a message before a sentinel is asked again.
const RECHECK: Duration = Duration::from_secs(5);
/// The same, if the sentinel doesn't let us subscribe.
const POLL: Duration = Duration::from_secs(1);
/// The pause before a sentinel that did not answer is asked again. It doubles with each failure.
const MIN_RETRY: Duration = Duration::from_millis(250);
const MAX_RETRY: Duration = Duration::from_secs(2);

pub(super) struct Followers {
    service: Arc<str>,
    sentinels: Vec<Server>,
    found: Arc<watch::Sender<Found>>,
    tasks: OnceLock<Vec<AbortHandle>>,
}

/// What the tasks have found out.
pub(super) struct Found {
    reports: Reports,
    /// How the last attempt to ask each sentinel ended. None before that.
    attempts: Vec<Option<RedisResult<()>>>,
}

impl Followers {
    pub(super) fn new(service: String, sentinels: Vec<Server>) -> Self {
        let found = Found { reports: Reports::of(sentinels.len()), attempts: sentinels.iter().map(|_| None).collect() };
        let found = Arc::new(watch::Sender::new(found));
        Self { service: service.into(), sentinels, found, tasks: OnceLock::new() }
    }

    pub(super) fn service(&self) -> &str {
        &self.service
    }

    pub(super) fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// What the tasks find out. The first call starts them, on the current runtime. They end when `self` is dropped.
    pub(super) fn found(&self) -> watch::Receiver<Found> {
        self.tasks.get_or_init(|| {
            let spawn = |(place, sentinel): (usize, &Server)| {
                let found = Arc::clone(&self.found);
                let follower =
                    Follower { service: Arc::clone(&self.service), sentinel: sentinel.clone(), place, found };
                tokio::spawn(follower.run()).abort_handle()
            };
            self.sentinels.iter().enumerate().map(spawn).collect()
        });
        self.found.subscribe()
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        self.tasks.get().into_iter().flatten().for_each(AbortHandle::abort);
    }
}

impl Found {
    /// The primary, if a sentinel has named it lately.
    pub(super) fn primary(&self) -> Option<&Address> {
        self.reports.primary(Instant::now())
    }

    /// Whether the sentinels have named another primary than this one.
    pub(super) fn is_other(&self, than: &Address) -> bool {
        self.reports.last().is_some_and(|primary| primary != than)
    }

    /// Whether a majority has answered, so that one of them knows the last failover, or every sentinel was asked.
    pub(super) fn is_settled(&self) -> bool {
        let answered = self.attempts.iter().flatten().filter(|attempt| attempt.is_ok()).count();
        answered > self.attempts.len() / 2 || self.is_complete()
    }

    /// Whether every sentinel was asked, with or without success.
    pub(super) fn is_complete(&self) -> bool {
        self.attempts.iter().all(Option::is_some)
    }

    /// Whether no sentinel can be asked now.
    pub(super) fn is_hopeless(&self) -> bool {
        self.attempts.iter().all(|attempt| matches!(attempt, Some(Err(_))))
    }

    /// Why the sentinels have named no primary. An I/O error says less than an answer.
    pub(super) fn failure(&self) -> RedisError {
        let failures = || self.attempts.iter().flatten().filter_map(|attempt| attempt.as_ref().err());
        let best = failures().find(|error| !error.is_io_error()).or_else(|| failures().next());
        best.cloned().unwrap_or_else(|| (ErrorKind::Client, "no sentinel has named a primary").into())
    }
}

/// The task of one sentinel.
struct Follower {
    service: Arc<str>,
    sentinel: Server,
    place: usize,
    found: Arc<watch::Sender<Found>>,
}

impl Follower {
    async fn run(self) {
        let mut pause = MIN_RETRY;
        loop {
            let mut answered = false;
            let Err(error) = self.listen(&mut answered).await;
            tracing::debug!(sentinel = self.sentinel.address(), %error, "can't follow the sentinel");
            self.tell(Err(error));
            if answered {
                pause = MIN_RETRY;
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_RETRY);
        }
    }

    /// Asks again and again, until a connection breaks. One connection asks and the other one listens, because a
    /// subscriber can't ask.
    async fn listen(&self, answered: &mut bool) -> RedisResult<Infallible> {
        let mut connection = self.sentinel.connect().await?;
        self.tell(Ok(self.ask(&mut connection).await?));
        *answered = true;
        // The next question finds a failover that came before the subscription.
        let mut messages = self.sentinel.subscribe("+switch-master").await.ok();
        loop {
            self.tell(Ok(self.ask(&mut connection).await?));
            self.next_question(&mut messages).await?;
        }
    }

    async fn next_question(&self, messages: &mut Option<PubSub>) -> RedisResult<()> {
        let Some(messages) = messages else {
            sleep(POLL).await;
            return Ok(());
        };
        match timeout(RECHECK, messages.on_message().next()).await {
            Ok(None) => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    /// In one pipeline, so the sentinel answers both at one moment. Otherwise it could report the epoch of a failover with
    /// the address from before it.
    async fn ask(&self, connection: &mut MultiplexedConnection) -> RedisResult<Report> {
        let mut questions = Pipeline::with_capacity(2);
        questions.cmd("SENTINEL").arg("MASTER").arg(&*self.service);
        questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&*self.service);
        let asking = connection.req_packed_commands(&questions, 0, 2);
        let mut answers = with_timeout(self.sentinel.response_timeout(), asking).await?.into_iter();
        let mut next = || answers.next().unwrap_or(Value::Nil).extract_error();
        let (fields, address) = (next(), next()?);
        if address == Value::Nil {
            let detail = format!("`{}` at {}", self.service, self.sentinel.address());
            let problem = "Sentinel monitors no primary of that name";
            return Err((ErrorKind::MasterNameNotFoundBySentinel, problem, detail).into());
        }
        let (host, port): (String, u16) = redis::from_redis_value(address)?;
        let mut fields = match fields {
            Ok(fields) => redis::from_redis_value::<HashMap<String, String>>(fields)?,
            // Without the right to read the epoch, all sentinels have the same epoch.
            Err(error) if error.code() == Some("NOPERM") => HashMap::new(),
            Err(error) => return Err(error),
        };
        let epoch = fields.remove("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        Ok(Report { address: Address::new(&host, port), epoch })
    }

    fn tell(&self, outcome: RedisResult<Report>) {
        let mut primary = None;
        self.found.send_modify(|found| {
            let attempt = outcome.map(|report| {
                let address = report.address.clone();
                primary = found.reports.take(Instant::now(), self.place, report).then_some(address);
            });
            if let Some(last) = found.attempts.get_mut(self.place) {
                *last = Some(attempt);
            }
        });
        if let Some(primary) = primary {
            tracing::info!(%primary, sentinel = self.sentinel.address(), "Sentinel names the primary");
        }
    }
}
