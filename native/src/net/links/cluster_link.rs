//! Sends each command to the server of a cluster that has its key.
//!
//! Every server has its own link, so a slow server delays only its own commands. A server that refuses a command with
//! `MOVED` or `ASK` has not run it, so the command goes to the server that it names. No other command is ever sent
//! twice here. After a failure of any server, the router asks again which server serves which slot.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hashbrown::HashMap;
use leasehold_core::{ByNumber, CallId, Command, Failure};
use redis::RedisResult;
use tokio::time::Instant;

use super::server_link::{Answer, ServerLink, Way};
use crate::errors::{connect_failure, is_trouble};
use crate::net::codec;
use crate::net::topology::{Address, Cluster, Endpoint, Redirect, key_of, slot_of};

/// How many redirects one command follows.
const MOST_HOPS: u8 = 5;

/// The shortest time between two queries for the slots.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(50);

pub(crate) struct Router {
    cluster: Arc<Cluster>,
    response_timeout: Duration,
    links: HashMap<Address, ServerLink>,
    /// The commands in flight, in case a redirect sends them elsewhere.
    commands: HashMap<CallId, Sent, ByNumber>,
    /// Answers that need no server.
    ready: Vec<Answer>,
    discovery: Option<BoxFuture<'static, RedisResult<()>>>,
    discovered: Instant,
}

struct Sent {
    command: Command,
    hops: u8,
}

impl Router {
    pub(super) fn new(cluster: Arc<Cluster>, response_timeout: Duration) -> Self {
        Self {
            cluster,
            response_timeout,
            links: HashMap::default(),
            commands: HashMap::default(),
            ready: Vec::new(),
            discovery: None,
            discovered: Instant::now(),
        }
    }

    pub(super) fn send(&mut self, call: CallId, command: Command) {
        let owner = key_of(&command).and_then(|key| self.cluster.owner(slot_of(key)));
        let Some(owner) = owner else {
            self.rediscover();
            let why = Failure::Unavailable("no server has this slot of the cluster".to_owned());
            return self.ready.push((call, Err(why)));
        };
        if let Some(link) = self.link(&owner, call) {
            link.send(call, codec::command(&command), Way::Plain);
            self.commands.insert(call, Sent { command, hops: 0 });
        }
    }

    /// Appends new results to `answers`. Ready if there is at least one.
    pub(super) fn poll_answers(&mut self, context: &mut Context<'_>, answers: &mut Vec<Answer>) -> Poll<()> {
        loop {
            let mut came = Vec::new();
            for (address, link) in &mut self.links {
                let mut theirs = Vec::new();
                let _ = link.poll_answers(context, &mut theirs);
                came.extend(theirs.into_iter().map(|answer| (address.clone(), answer)));
            }
            let mut redirected = false;
            for (address, answer) in came {
                redirected |= self.take(&address, answer, answers);
            }
            answers.append(&mut self.ready);
            self.poll_discovery(context);
            // A command was just sent over a link, so the link must be polled once more.
            if !redirected {
                break;
            }
        }
        if answers.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Passes an answer on, or follows its redirect. True if it followed one.
    fn take(&mut self, from: &Address, (call, result): Answer, answers: &mut Vec<Answer>) -> bool {
        let sent = self.commands.remove(&call);
        let Err(failure) = &result else {
            answers.push((call, result));
            return false;
        };
        let redirect = match failure {
            Failure::Refused(text) => Redirect::parse(text, from),
            _ => None,
        };
        let (Some(redirect), Some(sent)) = (redirect, sent) else {
            if is_trouble(failure) {
                self.rediscover();
            }
            answers.push((call, result));
            return false;
        };
        self.follow(redirect, call, sent);
        true
    }

    fn follow(&mut self, redirect: Redirect, call: CallId, Sent { command, hops }: Sent) {
        tracing::debug!(call = call.0, ?redirect, "cluster redirect");
        if hops >= MOST_HOPS {
            let why = Failure::Unavailable("too many cluster redirects".to_owned());
            return self.ready.push((call, Err(why)));
        }
        let (to, way) = match redirect {
            Redirect::Moved { slot, to } => {
                self.cluster.set_owner(slot, &to);
                self.rediscover();
                (to, Way::Plain)
            }
            Redirect::Ask { to } => (to, Way::Asking),
        };
        let Some(link) = self.link(&to, call) else { return };
        link.send(call, codec::command(&command), way);
        self.commands.insert(call, Sent { command, hops: hops + 1 });
    }

    /// The link to this server. If it can't be made, the call fails.
    fn link(&mut self, to: &Address, call: CallId) -> Option<&mut ServerLink> {
        if !self.links.contains_key(to) {
            match self.cluster.server(to) {
                Ok(server) => {
                    let link = ServerLink::unconnected(Endpoint::server(server), self.response_timeout);
                    self.links.insert(to.clone(), link);
                }
                Err(error) => self.ready.push((call, Err(connect_failure(&error)))),
            }
        }
        self.links.get_mut(to)
    }

    fn rediscover(&mut self) {
        if self.discovery.is_some() || self.discovered.elapsed() < BETWEEN_QUESTIONS {
            return;
        }
        let cluster = Arc::clone(&self.cluster);
        self.discovery = Some(Box::pin(async move { cluster.discover().await }));
    }

    fn poll_discovery(&mut self, context: &mut Context<'_>) {
        let Some(discovery) = &mut self.discovery else { return };
        let Poll::Ready(outcome) = discovery.as_mut().poll(context) else { return };
        self.discovery = None;
        self.discovered = Instant::now();
        match outcome {
            Ok(()) => {
                let cluster = &self.cluster;
                self.links.retain(|address, link| cluster.is_primary(address) || !link.is_idle());
            }
            Err(error) => tracing::warn!(%error, "can't ask the cluster for its slots"),
        }
    }
}
