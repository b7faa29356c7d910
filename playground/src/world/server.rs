//! The server: it runs commands, and its replica takes over in a failover.

use leasehold_core::{CommandId, Failure, Reply, Scalar};
use leasehold_memory::{Executed, Server};

use super::client::Delivery;
use super::network::Event;
use super::{LOCK, REPLICA_LAG_US, SERVER, Who, World};
use crate::timeline::{Row, SpanId, Symbol, grouped};

/// A server with the lock's keys.
pub(super) struct LockServer {
    server: Server,
    /// The commands since the last wipe, with their times. A replica runs them again, up to some time ago.
    journal: Vec<(u64, Vec<Vec<u8>>)>,
    /// Which client has which id.
    ids: Vec<(String, Who)>,
    queue_key: String,
    holder: Option<Holder>,
    /// The last fence that a reply gave to a client. A holder that asks again gets a new one, and its key keeps the first.
    given: Option<(Who, u64)>,
    queue: Vec<Who>,
    lock_bar: Option<SpanId>,
    queue_bar: Option<SpanId>,
    /// The end of a TTL for which the agenda has an event.
    looked_at: Option<u64>,
}

/// Who has the lock, on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) who: Who,
    pub(super) fence: u64,
    /// When the TTL ends, in µs.
    pub(super) ends: Option<u64>,
}

impl LockServer {
    pub(super) fn new() -> Self {
        Self {
            server: loaded(),
            journal: Vec::new(),
            ids: Vec::new(),
            queue_key: format!("leasehold:{{{LOCK}}}:queue"),
            holder: None,
            given: None,
            queue: Vec::new(),
            lock_bar: None,
            queue_bar: None,
            looked_at: None,
        }
    }

    /// A client has this id from now on.
    pub(super) fn introduce(&mut self, who: Who, id: &str) {
        self.ids.push((id.to_owned(), who));
    }

    pub(super) const fn holder(&self) -> Option<Holder> {
        self.holder
    }

    pub(super) fn queue(&self) -> &[Who] {
        &self.queue
    }

    fn owner(&self, token: &str) -> Option<Who> {
        let (id, _) = token.split_once(':')?;
        self.ids.iter().find(|(known, _)| known == id).map(|(_, who)| *who)
    }

    /// Who has the lock: the key's value is `<token> <fence>`, or `<token>*<fence>` while clients wait.
    fn present_holder(&self, now: u64) -> Option<Holder> {
        let value = std::str::from_utf8(self.server.text(now, LOCK.as_bytes())?).ok()?;
        let (token, fence) = value.split_once([' ', '*'])?;
        let ends = self.server.expires(now, LOCK.as_bytes());
        let who = self.owner(token)?;
        let given = self.given.filter(|(to, _)| *to == who).map_or(0, |(_, fence)| fence);
        Some(Holder { who, fence: fence.parse::<u64>().ok()?.max(given), ends })
    }

    fn present_queue(&self, now: u64) -> Vec<Who> {
        let tokens = self.server.members(now, self.queue_key.as_bytes());
        tokens.filter_map(|(token, _)| self.owner(std::str::from_utf8(token).ok()?)).collect()
    }

    fn execute(&mut self, now: u64, words: &[Vec<u8>]) -> Result<Executed, String> {
        self.journal.push((now, words.to_vec()));
        run(&mut self.server, now, words)
    }
}

/// A server that knows the scripts, so that no client has to send their texts first.
fn loaded() -> Server {
    let mut server = Server::default();
    for script in leasehold_lua::ALL {
        // It can't fail: the server knows each of these scripts.
        let _ = server.execute(0, &[b"SCRIPT", b"LOAD", script.source.as_bytes()]);
    }
    server
}

fn run(server: &mut Server, now: u64, words: &[Vec<u8>]) -> Result<Executed, String> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    server.execute(now, &words).map_err(|error| error.to_string())
}

impl World {
    /// A command runs, and its reply and messages leave.
    pub(super) fn run_command(&mut self, from: Who, link: u64, id: CommandId, words: &[Vec<u8>]) {
        let result = self.server.execute(self.now, words);
        let (reply, published) = match result {
            Ok(executed) => (executed.reply.map_err(Failure::Refused), executed.published),
            Err(text) => (Err(Failure::Refused(text)), Vec::new()),
        };
        let label = reply.as_ref().map_or("refused", |reply| shown(status(reply))).to_owned();
        if let Some(fence) = reply.as_ref().ok().and_then(given) {
            self.server.given = Some((from, fence));
        }
        // The connection of a client that was killed is closed.
        if self.client(from).engine.is_some() {
            self.send_to_client(from, link, Delivery::Reply(id, reply), "reply", &label);
        }
        for message in published {
            let channel = String::from_utf8_lossy(&message.channel).into_owned();
            let label = String::from_utf8_lossy(&message.payload).split(' ').next().unwrap_or_default().to_owned();
            for to in Who::ALL {
                if self.client(to).channels.contains(&channel) {
                    let what = Delivery::Message { channel: channel.clone(), payload: message.payload.clone() };
                    self.send_to_client(to, self.client(to).link, what, "message", &label);
                }
            }
        }
    }

    pub(super) fn set_subscription(&mut self, from: Who, channel: String, on: bool) {
        let link = self.client(from).link;
        if !on {
            if self.client_mut(from).channels.remove(&channel) {
                self.server.server.unsubscribe(channel.as_bytes());
            }
            return;
        }
        if self.client_mut(from).channels.insert(channel.clone()) {
            self.server.server.subscribe(channel.as_bytes());
        }
        self.send_to_client(from, link, Delivery::Subscribed(channel), "reply", "subscribed");
    }

    /// The server closes a client's subscriptions.
    pub(super) fn forget_channels(&mut self, who: Who) {
        for channel in &self.clients[who.index()].channels {
            self.server.server.unsubscribe(channel.as_bytes());
        }
    }

    /// All keys are deleted.
    pub(super) fn wipe(&mut self) {
        self.server.server.flush_all();
        self.server.journal.clear();
        self.mark(SERVER, Symbol::Fault, "wiped");
        self.say("The server is wiped: all keys are gone.");
    }

    /// A replica takes over. It lacks the last writes, and every connection breaks.
    pub(super) fn fail_over(&mut self) {
        let now = self.now;
        let known = now.saturating_sub(REPLICA_LAG_US);
        let lacks = self.server.journal.iter().filter(|(at, _)| *at > known).count();
        self.server.journal.retain(|(at, _)| *at <= known);
        let mut replica = loaded();
        for (at, words) in &self.server.journal {
            // The primary ran the same commands at the same times.
            let _ = run(&mut replica, *at, words);
        }
        self.server.server = replica;
        self.mark(SERVER, Symbol::Fault, "failover");
        let lacks = if lacks == 1 { "write".into() } else { format!("{lacks} writes") };
        self.say(format_args!("A replica takes over. It lacks the last {lacks}."));
        for who in Who::ALL {
            self.break_connection(who, "the server went away");
        }
    }

    /// Its bars on the timeline.
    pub(super) fn look_at_server(&mut self) {
        let now = self.now;
        let (holder, queue) = (self.server.present_holder(now), self.server.present_queue(now));
        let before = self.server.holder;
        if holder.map(|holder| (holder.who, holder.fence)) != before.map(|holder| (holder.who, holder.fence)) {
            if let Some(bar) = self.server.lock_bar.take() {
                self.timeline.end(bar, now);
            }
            if let (None, Some(before)) = (holder, before) {
                let over = before.ends.is_some_and(|ends| ends <= now);
                let why = if over { " Its TTL is over." } else { "" };
                self.say(format_args!("{} no longer has the lock on the server.{why}", before.who.name()));
            }
            if let Some(holder) = holder {
                let (name, fence) = (holder.who.name(), grouped(holder.fence));
                let label = format!("{name}, fence {fence}");
                let class = format!("holds {}", holder.who.class());
                self.server.lock_bar = Some(self.timeline.begin((SERVER, Row::Lock), now, &class, label));
                if before.is_some_and(|before| before.who == holder.who) {
                    self.say(format_args!(
                        "{name} has the lock on the server already, and gets the new fence {fence}."
                    ));
                } else {
                    self.say(format_args!("The server gives {name} the lock, with fence {fence}."));
                }
            }
        }
        if queue != self.server.queue {
            if let Some(bar) = self.server.queue_bar.take() {
                self.timeline.end(bar, now);
            }
            if !queue.is_empty() {
                let names: Vec<&str> = queue.iter().map(|who| who.name()).collect();
                let label = format!("queue: {}", names.join(", "));
                self.server.queue_bar = Some(self.timeline.begin((SERVER, Row::Condition), now, "queue", label));
            }
            for who in queue.iter().filter(|who| !self.server.queue.contains(who)).copied().collect::<Vec<_>>() {
                self.say(format_args!("The server puts {} in the queue.", who.name()));
            }
            self.server.queue = queue;
        }
        self.server.holder = holder;
        let ends = holder.and_then(|holder| holder.ends);
        if let Some(bar) = self.server.lock_bar {
            self.timeline.ends_by_itself(bar, ends);
        }
        if let Some(at) = ends.filter(|at| *at > now && self.server.looked_at != Some(*at)) {
            self.server.looked_at = Some(at);
            // The key's last millisecond is over then.
            self.agenda.push(at + 1_000, Event::Look);
        }
    }
}

/// The name of a command's script.
pub(super) fn script_name(words: &[Vec<u8>]) -> &'static str {
    let digest = words.get(1).map(Vec::as_slice).unwrap_or_default();
    let script = leasehold_lua::ALL
        .into_iter()
        .find(|script| script.sha1.as_bytes() == digest || script.source.as_bytes() == digest);
    script.map_or("command", |script| script.name)
}

/// The fence in a reply that gives a lease: it follows the status.
fn given(reply: &Reply) -> Option<u64> {
    let Reply::List(list) = reply else { return None };
    match list.get(1) {
        Some(Scalar::Int(fence)) if matches!(status(reply), "entered" | "again") => u64::try_from(*fence).ok(),
        _ => None,
    }
}

/// What viewers read for a status of the scripts.
fn shown(status: &str) -> &str {
    if status == "entered" { "granted" } else { status }
}

/// The first word of a reply.
pub(super) fn status(reply: &Reply) -> &str {
    let first = match reply {
        Reply::One(first) => Some(first),
        Reply::List(list) => list.first(),
    };
    match first {
        Some(Scalar::Text(text)) => std::str::from_utf8(text).unwrap_or_default().split(' ').next().unwrap_or_default(),
        _ => "answer",
    }
}
