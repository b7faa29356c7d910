//! Sends each command to the server of a cluster that has its key.
//!
//! Every server has its own link, so a slow server delays only its own commands. A server that refuses a command with
//! `MOVED` or `ASK` has not run it, so the command goes to the server that the refusal names. No other command is ever
//! sent twice here. After a failure of any server, this link asks again which server serves which slot.

use std::hash::RandomState;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hashbrown::HashMap;
use leasehold_core::{ByNumber, Command, CommandId, Failure, hash_slot};
use redis::RedisResult;
use tokio::time::Instant;

use super::server_link::{Completion, SendMode, ServerLink};
use crate::errors::{connect_failure, is_server_failure};
use crate::net::codec;
use crate::net::topology::{Address, Cluster, Endpoint, Redirect};

/// How many redirects one command follows.
const MAX_REDIRECTS: u8 = 5;

/// The shortest time between two queries for the slots.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) struct ClusterLink {
    cluster: Arc<Cluster>,
    response_timeout: Duration,
    links: HashMap<Address, ServerLink, RandomState>,
    /// The commands in flight, in case a redirect sends them elsewhere.
    in_flight: HashMap<CommandId, InFlight, ByNumber>,
    /// Completions of commands that were never sent.
    unsent: Vec<Completion>,
    slot_refresh: Option<BoxFuture<'static, RedisResult<()>>>,
    refreshed_at: Instant,
}

struct InFlight {
    command: Command,
    redirects: u8,
}

impl ClusterLink {
    pub(super) fn new(cluster: Arc<Cluster>, response_timeout: Duration) -> Self {
        Self {
            cluster,
            response_timeout,
            links: HashMap::default(),
            in_flight: HashMap::default(),
            unsent: Vec::new(),
            slot_refresh: None,
            refreshed_at: Instant::now(),
        }
    }

    pub(super) fn send(&mut self, id: CommandId, command: Command) {
        let owner = command.key().and_then(|key| self.cluster.owner(hash_slot(key)));
        let Some(owner) = owner else {
            self.refresh_slots();
            return self.fail(id, Failure::Unavailable("no server has this slot of the cluster".to_owned()));
        };
        if let Some(link) = self.link(&owner, id) {
            link.send(id, codec::encode(&command), SendMode::Plain);
            self.in_flight.insert(id, InFlight { command, redirects: 0 });
        }
    }

    /// When to poll at the latest, because a reply may be overdue then.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.links.values().filter_map(ServerLink::poll_timeout).min()
    }

    /// Appends new completions. Ready if there is at least one.
    pub(super) fn poll_completions(
        &mut self,
        context: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<()> {
        loop {
            let mut new = Vec::new();
            for (address, link) in &mut self.links {
                let mut of_link = Vec::new();
                let _ = link.poll_completions(context, &mut of_link);
                new.extend(of_link.into_iter().map(|completion| (address.clone(), completion)));
            }
            let mut redirected = false;
            for (address, completion) in new {
                redirected |= self.complete(&address, completion, completions);
            }
            completions.append(&mut self.unsent);
            self.poll_slot_refresh(context);
            // A command was just sent over a link, so the link must be polled once more.
            if !redirected {
                break;
            }
        }
        if completions.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Passes a completion on, or follows its redirect. True if it followed one.
    fn complete(&mut self, from: &Address, completion: Completion, completions: &mut Vec<Completion>) -> bool {
        let in_flight = self.in_flight.remove(&completion.id);
        let Err(failure) = &completion.result else {
            completions.push(completion);
            return false;
        };
        let redirect = match failure {
            Failure::Refused(text) => Redirect::parse(text, from),
            _ => None,
        };
        let (Some(redirect), Some(in_flight)) = (redirect, in_flight) else {
            if is_server_failure(failure) {
                self.refresh_slots();
            }
            completions.push(completion);
            return false;
        };
        self.follow(redirect, completion.id, in_flight);
        true
    }

    fn follow(&mut self, redirect: Redirect, id: CommandId, InFlight { command, redirects }: InFlight) {
        tracing::debug!(id = id.0, ?redirect, "cluster redirect");
        if redirects >= MAX_REDIRECTS {
            return self.fail(id, Failure::Unavailable("too many cluster redirects".to_owned()));
        }
        let (to, mode) = match redirect {
            Redirect::Moved { slot, to } => {
                self.cluster.set_owner(slot, &to);
                self.refresh_slots();
                (to, SendMode::Plain)
            }
            Redirect::Ask { to } => (to, SendMode::AfterAsking),
        };
        let Some(link) = self.link(&to, id) else { return };
        link.send(id, codec::encode(&command), mode);
        self.in_flight.insert(id, InFlight { command, redirects: redirects + 1 });
    }

    /// The link to this server. If it can't be made, the command fails.
    fn link(&mut self, to: &Address, id: CommandId) -> Option<&mut ServerLink> {
        if !self.links.contains_key(to) {
            match self.cluster.server(to) {
                Ok(server) => {
                    let link = ServerLink::unconnected(Endpoint::server(server), self.response_timeout);
                    self.links.insert(to.clone(), link);
                }
                Err(error) => self.fail(id, connect_failure(&error)),
            }
        }
        self.links.get_mut(to)
    }

    fn fail(&mut self, id: CommandId, failure: Failure) {
        self.unsent.push(Completion { id, result: Err(failure) });
    }

    fn refresh_slots(&mut self) {
        if self.slot_refresh.is_some() || self.refreshed_at.elapsed() < MIN_REFRESH_INTERVAL {
            return;
        }
        let cluster = Arc::clone(&self.cluster);
        self.slot_refresh = Some(Box::pin(async move { cluster.refresh_slots().await }));
    }

    fn poll_slot_refresh(&mut self, context: &mut Context<'_>) {
        let Some(refresh) = &mut self.slot_refresh else { return };
        let Poll::Ready(outcome) = refresh.as_mut().poll(context) else { return };
        self.slot_refresh = None;
        self.refreshed_at = Instant::now();
        match outcome {
            Ok(()) => {
                let cluster = &self.cluster;
                self.links.retain(|address, link| cluster.is_primary(address) || !link.is_idle());
            }
            Err(error) => tracing::warn!(%error, "can't ask the cluster for its slots"),
        }
    }
}
