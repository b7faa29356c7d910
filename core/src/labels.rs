//! Labels: names for clients, for the people who look at locks. For drivers, beside the engine.
//!
//! Each client writes its own label to the server, under a key that it alone writes. A client that takes free locks and
//! soon gives them back writes nothing: it does so when the engine first subscribes, because a caller waits or a lease is
//! renewed, or when it has held a lease for a second. Nothing depends on labels: if a command fails, only a label is
//! missing.
//!
//! A lease may have a label of its own. It stays with its client. An inspect asks for it.

mod leases;
mod text;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::{fmt, mem};

pub use self::leases::Question;
use self::leases::{Answer, Asking, ENABLED, Enabled, LeaseLabels, is_channel_of, publish};
pub use self::text::check_label;
use self::text::{MOST_BYTES, client_of, command, each};
use crate::engine::Engine;
use crate::error::{Failure, shown_time};
use crate::event::{Inspection, Outcome, Output};
use crate::ids::{ClientId, CommandId, OpId};
use crate::text::{Digits, lossy};
use crate::time::api::Duration;
use crate::time::{Instant, millis};
use crate::wire::{Command, Reply, Scalar};

/// How long the server keeps a label.
const LASTS: Duration = Duration::from_secs(24 * 3600);
/// After which time a client writes it again, if it still uses locks.
const AGAIN: Duration = Duration::from_secs(8 * 3600);
/// After which time it writes it again, if it doesn't know whether the server has it. A server that is down answers at once.
const RETRY: Duration = Duration::from_secs(1);
/// A client writes its label once it has held a lease for this long.
const HELD: Duration = Duration::from_secs(1);
/// When to ask again for a label that the server did not have.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// How many holders, and how many labels of other clients, are remembered.
const REMEMBERED: usize = 64;
/// What a script answers, in place of milliseconds, as the remaining time of a key without a TTL.
const NO_TTL: i64 = -1;
/// How many different clients an inspect asks for.
const MOST_ASKED: usize = 256;
/// What the labels of all drivers keep to: numbers, and times in milliseconds. The npm package's come from here.
#[doc(hidden)]
pub const LABEL_RULES: &[(&str, u128)] = &[
    ("lasts", ms(LASTS)),
    ("again", ms(AGAIN)),
    ("retry", ms(RETRY)),
    ("held", ms(HELD)),
    ("ask_again", ms(ASK_AGAIN)),
    ("remembered", REMEMBERED as u128),
    ("most_asked", MOST_ASKED as u128),
    ("most_bytes", MOST_BYTES as u128),
    ("leases_asked", leases::MOST_ASKED as u128),
    ("patience", ms(leases::PATIENCE)),
    ("most_answered", leases::MOST_ANSWERED as u128),
    ("most_seen", leases::MOST_SEEN as u128),
];

#[allow(clippy::unnecessary_cast, trivial_numeric_casts, reason = "not with the engine's own times")]
const fn ms(time: Duration) -> u128 {
    time.as_millis() as u128
}
/// The numbers of these commands. The engine counts from 1.
const FIRST_ID: u64 = 1 << 63;

/// The client that held a lock alone, as far as a client knew that wanted the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BusyHolder {
    /// The client's id. Its tokens begin with it. Empty if `foreign`.
    pub client: String,
    /// The client's label. None if the client has not written one to the server.
    pub label: Option<String>,
    /// How long it had held the lock, if known.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::optional_duration"))]
    pub held: Option<Duration>,
    /// Whether it is the client that wanted the lock: another caller of it has the lock.
    pub own: bool,
    /// Whether the lock's key has no TTL. Then no client holds the lock: the key is another library's, or other data. It
    /// never expires.
    pub foreign: bool,
}

impl BusyHolder {
    const fn of(client: String, label: Option<String>, held: Option<Duration>, own: bool) -> Self {
        Self { client, label, held, own, foreign: false }
    }
}

/// `held by web-3/4711 for 12 s`, or `held by this process (web-3/4711) for 12 s`. The client's id stands for a label that is
/// missing. For a key without a TTL: `held by another library's key or other data, without a TTL: it never ends by itself`.
impl fmt::Display for BusyHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.foreign {
            return f.write_str("held by another library's key or other data, without a TTL: it never ends by itself");
        }
        let label = self.label.as_ref().unwrap_or(&self.client);
        if self.own { write!(f, "held by this process ({label})") } else { write!(f, "held by {label}") }?;
        self.held.map_or(Ok(()), |held| write!(f, " for {}", shown_time(held)))
    }
}

/// The labels that one client tells and knows.
///
/// The driver sends the commands like those of the engine, and passes each reply to [`takes`](Self::takes) first.
pub struct Labels {
    client: String,
    label: String,
    /// When the client last wrote its label.
    written: Option<Instant>,
    /// Whether the server may not have got it, because it was not there.
    unsure: bool,
    /// When to look whether the client has held a lease for so long that it writes its label for the first time.
    due: Option<(Enabled, Instant)>,
    /// What the server said about other clients, and when it was asked.
    known: Vec<Known>,
    /// The holders of locks that callers of this client want.
    holders: Vec<Held>,
    /// The keys without a TTL that callers find. None if the driver reports nothing.
    found: Option<(Enabled, Found)>,
    /// The locks to report, and for how long callers have found the key.
    blocked: Vec<(String, Duration)>,
    /// Commands without a reply, and what they are for.
    asked: Vec<(CommandId, Asked)>,
    inspecting: Vec<Inspecting>,
    /// The labels of leases. None if the driver has no labels of leases.
    leases: Option<LeaseLabels>,
    /// The locks that are being inspected, by their keys.
    keys: Vec<(OpId, String)>,
    /// The results of closes that wait until the label is deleted.
    closed: Vec<(OpId, Outcome)>,
    last: u64,
    commands: Vec<(CommandId, Command)>,
    completed: Vec<(OpId, Outcome)>,
}

struct Known {
    client: String,
    asked: Instant,
    label: Option<String>,
}

struct Held {
    /// The lock's name, without the prefix.
    name: String,
    /// None for a key without a TTL, which is another library's or other data.
    client: Option<String>,
    held: Option<Duration>,
    at: Instant,
}

/// As many as are found within one claim window. So the other locks that are busy meanwhile push none of them out.
struct Found {
    claim_window: Duration,
    keys: Vec<FoundKey>,
}

struct FoundKey {
    name: String,
    since: Instant,
    at: Instant,
    reported: bool,
}

struct Inspecting {
    op: OpId,
    inspection: Box<Inspection>,
    missing: usize,
    /// The clients that are asked about their leases.
    asking: Option<Asking>,
}

#[derive(Clone, PartialEq, Eq)]
enum Asked {
    /// The client's own label was written.
    Written,
    Deleted,
    /// Another client's label, for an error or for this call.
    LabelOf(String, Option<OpId>),
    /// This client was asked about its leases, for this call.
    Question(String, OpId),
    /// Another client's question was answered.
    Answer,
}

impl Labels {
    /// The labels of a client. Without a `label`, it tells none. [`check_label`] must have accepted it.
    pub fn new(client: ClientId, label: &str) -> Self {
        Self {
            client: client.text(),
            label: label.into(),
            written: None,
            unsure: false,
            due: None,
            known: Vec::new(),
            holders: Vec::new(),
            found: None,
            blocked: Vec::new(),
            asked: Vec::new(),
            inspecting: Vec::new(),
            leases: None,
            keys: Vec::new(),
            closed: Vec::new(),
            last: FIRST_ID,
            commands: Vec::new(),
            completed: Vec::new(),
        }
    }

    /// The same for a driver whose leases have labels, with the feature `lease-labels`. It calls [`inspects`](Self::inspects)
    /// and what is described there.
    #[must_use]
    pub fn with_leases(mut self, prefix: &str) -> Self {
        self.leases = LeaseLabels::new(&self.client, prefix);
        self
    }

    /// The same for a driver that reports what [`poll_blocked`](Self::poll_blocked) returns, with the feature
    /// `lease-labels`.
    #[must_use]
    pub fn with_blocked(mut self, claim_window: Duration) -> Self {
        self.found = ENABLED.map(|enabled| (enabled, Found { claim_window, keys: Vec::new() }));
        self
    }

    /// The next lock whose key callers have found without a TTL for a whole claim window, and for how long. No client
    /// holds such a lock: the key is another library's, or other data, and never expires. Returns each lock once, and
    /// again only after the key was gone or had a TTL, or after no caller wanted the lock.
    pub fn poll_blocked(&mut self) -> Option<(String, Duration)> {
        first(&mut self.blocked)
    }

    /// The servers are a cluster: PUBLISH counts only the subscribers of one of them.
    pub fn set_cluster(&mut self) {
        if let Some(lease_labels) = &mut self.leases {
            lease_labels.cluster = true;
        }
    }

    /// An inspect of the lock `name` begins, and its clients shall be asked about their leases.
    ///
    /// The driver then subscribes if [`wants_channel`](Self::wants_channel) says so, passes messages to
    /// [`hears`](Self::hears) and what becomes of subscriptions to [`channel`](Self::channel), answers
    /// [questions](Self::poll_question), and calls [`wake`](Self::wake) in time.
    pub fn inspects(&mut self, op: OpId, name: &str) {
        if let Some(lease_labels) = &self.leases {
            self.keys.push((op, lease_labels.key(name)));
        }
    }

    /// The client's own channel, if the driver has to subscribe to it now.
    pub fn wants_channel(&mut self) -> Option<String> {
        let wants = mem::take(&mut self.leases.as_mut()?.wants_channel);
        wants.then(|| ["leasehold:", &self.client].concat())
    }

    /// A subscription was acknowledged, or it ended for this reason. True if the engine did not ask for it.
    pub fn channel(&mut self, channel: &str, ended: Option<&Failure>) -> bool {
        let Some(lease_labels) = self.leases.as_mut().filter(|_| is_channel_of(&self.client, channel)) else {
            return false;
        };
        let forever = matches!(ended, Some(Failure::Refused(_) | Failure::Unsupported(_)));
        let takes = lease_labels.channel(ended.is_none(), forever);
        self.send_questions();
        takes
    }

    /// A message of another client about leases. False if it is not about them.
    pub fn hears(&mut self, now: Instant, channel: &str, payload: &[u8]) -> bool {
        let Some(lease_labels) = self.leases.as_mut().filter(|_| is_channel_of(&self.client, channel)) else {
            return false;
        };
        if let Some(text) = payload.strip_prefix(b"asked ") {
            if let Ok(text) = core::str::from_utf8(text) {
                lease_labels.asked(now, text);
            }
        } else if let Some(text) = payload.strip_prefix(b"told ") {
            if let Some(answer) = core::str::from_utf8(text).ok().and_then(Answer::read) {
                self.add(&answer);
            }
        } else {
            return false;
        }
        true
    }

    /// The next question about a lock of this client.
    pub fn poll_question(&mut self) -> Option<Question> {
        first(&mut self.leases.as_mut()?.questions)
    }

    /// Answers a question with the leases and the waiting callers that this client has for the lock: since when, and their
    /// labels. The iterators also return the others, as `None`, so that a long search ends.
    pub fn answer<'a>(
        &mut self,
        now: Instant,
        question: &Question,
        leases: impl Iterator<Item = Option<(Instant, Option<&'a str>)>>,
        waits: impl Iterator<Item = Option<(Instant, Option<&'a str>)>>,
    ) {
        let Some(lease_labels) = &self.leases else { return };
        let answer = lease_labels.answer(now, question, leases, waits);
        if question.asker != self.client {
            self.send(Asked::Answer, publish(&question.asker, &answer));
        } else if let Some(answer) = answer.strip_prefix("told ").and_then(Answer::read) {
            self.add(&answer);
        }
    }

    /// When to call [`wake`](Self::wake), and [`keep`](Self::keep) if the client uses locks, at the latest.
    pub fn poll_timeout(&self, uses_locks: bool) -> Option<Instant> {
        let retry = self.written.filter(|_| self.unsure).map(|written| written + RETRY);
        let own = retry.or(self.due.map(|(_, due)| due)).filter(|_| uses_locks);
        let asking = self.inspecting.iter().filter_map(|inspecting| leases::until(inspecting.asking.as_ref()?));
        asking.chain(own).min()
    }

    /// Time has passed.
    pub fn wake(&mut self, now: Instant) {
        for asking in self.inspecting.iter_mut().filter_map(|inspecting| inspecting.asking.as_mut()) {
            leases::give_up(now, asking);
        }
        self.end_inspections();
    }

    /// The next command to send.
    pub fn poll_command(&mut self) -> Option<(CommandId, Command)> {
        first(&mut self.commands)
    }

    /// The next result that [`holds_back`](Self::holds_back) has kept.
    pub fn poll_completed(&mut self) -> Option<(OpId, Outcome)> {
        first(&mut self.completed)
    }

    /// Sees an output of the engine before the driver acts on it. True if it takes the output: its result comes later from
    /// [`poll_completed`](Self::poll_completed). `now` is called only if it is needed.
    pub fn holds_back(&mut self, now: impl FnOnce() -> Instant, output: &mut Output) -> bool {
        match output {
            // The engine subscribes again after each break, and then the server may be another one.
            Output::Subscribe { channel, .. } if is_channel_of(&self.client, channel) => {
                if let Some(lease_labels) = &mut self.leases {
                    lease_labels.engine_subscribes();
                }
                self.tell(now());
                false
            }
            Output::Completed { op, result: Ok(Outcome::Inspected(inspection)) } => {
                self.inspected(now, *op, mem::take(inspection));
                true
            }
            Output::Completed { op, result: Err(_) } if !self.keys.is_empty() => {
                self.key_of(*op);
                false
            }
            Output::Completed { op, result: Ok(closed @ Outcome::Closed { .. }) } => {
                let waits = self.asked.iter().any(|(_, asked)| *asked == Asked::Deleted);
                if waits {
                    self.closed.push((*op, closed.clone()));
                }
                waits
            }
            _ => false,
        }
    }

    /// The client still uses locks. Writes its label if it has held a lease for a second, and again before the server
    /// forgets it. `since` is when the oldest of its leases was granted.
    pub fn keep(&mut self, now: Instant, since: impl FnOnce() -> Option<Instant>) {
        if let Some((enabled, _)) = self.due.filter(|(_, due)| *due <= now) {
            self.due = since().map(|since| (enabled, since + HELD));
            if self.due.is_some_and(|(_, due)| due <= now) {
                self.tell(now);
            }
        }
        let after = if self.unsure { RETRY } else { AGAIN };
        if self.written.is_some_and(|written| now.since(written) >= after) {
            self.tell(now);
        }
    }

    /// A caller has been granted a lock, so what was known about its holder is old.
    pub fn granted(&mut self, name: &str) {
        self.holders.retain(|held| held.name != name);
        if let Some((_, found)) = &mut self.found {
            found.keys.retain(|key| key.name != name);
        }
    }

    /// The client has been granted a lease. With the feature `lease-labels`, the driver then wakes at
    /// [`poll_timeout`](Self::poll_timeout).
    pub fn holds(&mut self, now: Instant) {
        if self.written.is_none() && self.due.is_none() && !self.label.is_empty() {
            self.due = ENABLED.map(|enabled| (enabled, now + HELD));
        }
    }

    /// The client closes, so nobody needs its label any more. A close ends when the label is deleted.
    pub fn close(&mut self) {
        self.due = None;
        if self.written.take().is_some() {
            self.send(Asked::Deleted, command("DEL", KEY, &self.client, &[]));
        }
    }

    /// Handles the result of a command. True if the command was not the engine's.
    pub fn takes(&mut self, now: Instant, id: CommandId, result: &Result<Reply, Failure>, engine: &Engine) -> bool {
        if id.0 <= FIRST_ID {
            if let Ok(Reply::List(list)) = result
                && list.len() > 8
                && let Some(name) = engine.wanted_by(id)
            {
                self.busy(now, name, list);
            }
            return false;
        }
        let Some(place) = self.asked.iter().position(|(asked, _)| *asked == id) else { return true };
        match self.asked.swap_remove(place).1 {
            // A user who may not write it would be refused again.
            Asked::Written => self.unsure = matches!(result, Err(failure) if !matches!(failure, Failure::Refused(_))),
            Asked::Deleted => self.completed.append(&mut self.closed),
            Asked::Question(client, op) => self.published(&client, op, result),
            Asked::Answer => {}
            Asked::LabelOf(client, op) => self.learned(&client, op, label_in(result)),
        }
        true
    }

    /// What is known about the holder of a lock that a caller did not get.
    pub fn holder(&self, now: Instant, name: &str) -> Option<BusyHolder> {
        let held = self.holders.iter().find(|held| held.name == name)?;
        let Some(client) = held.client.clone() else {
            return Some(BusyHolder { foreign: true, ..BusyHolder::of(String::new(), None, None, false) });
        };
        let known = self.known.iter().find(|known| known.client == client);
        let label = known.and_then(|known| known.label.clone());
        let (time, own) = (held.held.map(|time| time.saturating_add(now.since(held.at))), client == self.client);
        Some(BusyHolder::of(client, label, time, own))
    }

    /// The client itself as the holder of a lock.
    pub fn own(&self) -> BusyHolder {
        let label = Some(self.label.clone()).filter(|label| !label.is_empty());
        BusyHolder::of(self.client.clone(), label, None, true)
    }

    fn tell(&mut self, now: Instant) {
        self.due = None;
        if !self.label.is_empty() {
            (self.written, self.unsure) = (Some(now), false);
            let lasts = Digits::of(millis(LASTS));
            let words = [self.label.as_bytes(), b"PX", lasts.as_bytes()];
            self.send(Asked::Written, command("SET", KEY, &self.client, &words));
        }
    }

    fn inspected(&mut self, now: impl FnOnce() -> Instant, op: OpId, mut inspection: Box<Inspection>) {
        let mut clients: Vec<String> = Vec::new();
        each(&mut inspection, |token, label| {
            let Some(client) = client_of(token) else { return };
            if client == self.client {
                *label = self.own().label;
            } else if clients.len() < MOST_ASKED && !clients.iter().any(|other| other == client) {
                clients.push(client.into());
            }
        });
        let key = self.key_of(op);
        let asking =
            self.leases.as_mut().zip(key).and_then(|(lease_labels, key)| lease_labels.ask(now(), key, &mut inspection));
        self.inspecting.push(Inspecting { op, inspection, missing: clients.len(), asking });
        for client in clients {
            self.ask(client, Some(op));
        }
        self.send_questions();
    }

    fn key_of(&mut self, op: OpId) -> Option<String> {
        let place = self.keys.iter().position(|(other, _)| *other == op)?;
        Some(self.keys.swap_remove(place).1)
    }

    fn send_questions(&mut self) {
        let mut questions = Vec::new();
        for Inspecting { op, asking, .. } in &mut self.inspecting {
            let (Some(lease_labels), Some(asking)) = (&self.leases, asking) else { continue };
            let asked = lease_labels.questions(asking).into_iter();
            questions.extend(asked.map(|(client, command)| (Asked::Question(client, *op), command)));
        }
        questions.into_iter().for_each(|(asked, command)| self.send(asked, command));
        self.end_inspections();
    }

    /// A question was sent, or it failed. A client that nobody listens for is not waited for.
    fn published(&mut self, client: &str, op: OpId, result: &Result<Reply, Failure>) {
        let counts = self.leases.as_ref().is_some_and(|lease_labels| !lease_labels.cluster);
        let is_heard = result.as_ref().is_ok_and(|reply| !counts || *reply != Reply::One(Scalar::Int(0)));
        let inspecting = self.inspecting.iter_mut().find(|inspecting| inspecting.op == op && !is_heard);
        if let Some(asking) = inspecting.and_then(|inspecting| inspecting.asking.as_mut()) {
            asking.give_up_on(client);
            self.end_inspections();
        }
    }

    /// A client has answered a question about its leases.
    fn add(&mut self, answer: &Answer<'_>) {
        for Inspecting { inspection, asking, .. } in &mut self.inspecting {
            if let Some(asking) = asking {
                answer.add(asking, inspection);
            }
        }
        self.end_inspections();
    }

    /// Completes the inspections for which nothing is missing any more.
    fn end_inspections(&mut self) {
        let mut place = 0;
        while let Some(inspecting) = self.inspecting.get(place) {
            if inspecting.missing > 0 || inspecting.asking.as_ref().is_some_and(|asking| !asking.is_over()) {
                place = place.saturating_add(1);
                continue;
            }
            let Inspecting { op, inspection, .. } = self.inspecting.remove(place);
            self.completed.push((op, Outcome::Inspected(inspection)));
        }
    }

    fn ask(&mut self, client: String, op: Option<OpId>) {
        let get = command("GET", KEY, &client, &[]);
        self.send(Asked::LabelOf(client, op), get);
    }

    fn learned(&mut self, client: &str, op: Option<OpId>, label: Option<String>) {
        if let Some(known) = self.known.iter_mut().find(|known| known.client == client) {
            known.label.clone_from(&label);
        }
        let Some(place) = self.inspecting.iter().position(|inspecting| Some(inspecting.op) == op) else { return };
        let Some(inspecting) = self.inspecting.get_mut(place) else { return };
        each(&mut inspecting.inspection, |token, of| {
            if client_of(token) == Some(client) {
                of.clone_from(&label);
            }
        });
        inspecting.missing = inspecting.missing.saturating_sub(1);
        self.end_inspections();
    }

    /// A lock that a caller wants is busy: remembers who holds it. If the caller waits, asks for the holder's label, so
    /// that an error at the end of the wait can tell it.
    fn busy(&mut self, now: Instant, name: &str, answer: &[Scalar]) {
        let [Scalar::Text(status), _, _, server, left, _, _, token, since, ..] = answer else { return };
        let (Scalar::Text(token), b"waiting" | b"busy") = (token, status.as_slice()) else { return };
        let token = lossy(token);
        let client = client_of(&token);
        if client.is_none() && crate::wire::integer(left) == Some(NO_TTL) {
            self.holders.retain(|held| held.name != name);
            self.finds(now, name);
        } else {
            self.granted(name);
            if client.is_none() {
                return;
            }
        }
        let held = microseconds(since).zip(microseconds(server));
        let held = held.map(|(since, server)| Duration::from_micros(server.saturating_sub(since)));
        forget_oldest(&mut self.holders);
        self.holders.push(Held { name: name.into(), client: client.map(Into::into), held, at: now });
        if let Some(client) = client.filter(|_| status.as_slice() == b"waiting") {
            self.learn(now, client);
        }
    }

    /// A caller has found a key without a TTL.
    fn finds(&mut self, now: Instant, name: &str) {
        let Some((_, Found { claim_window, keys })) = &mut self.found else { return };
        // A waiter asks more often than that.
        keys.retain(|key| now.since(key.at) <= *claim_window);
        let place = keys.iter().position(|key| key.name == name);
        let new = || FoundKey { name: name.into(), since: now, at: now, reported: false };
        let mut key = place.map_or_else(new, |place| keys.swap_remove(place));
        let waited = now.since(key.since);
        if !key.reported && waited >= *claim_window {
            key.reported = true;
            self.blocked.push((name.into(), waited));
        }
        keys.push(FoundKey { at: now, ..key });
    }

    fn learn(&mut self, now: Instant, client: &str) {
        if let Some(known) = self.known.iter_mut().find(|known| known.client == client) {
            if known.label.is_some() || now.since(known.asked) < ASK_AGAIN {
                return;
            }
            known.asked = now;
        } else {
            forget_oldest(&mut self.known);
            self.known.push(Known { client: client.into(), asked: now, label: None });
        }
        self.ask(client.to_string(), None);
    }

    fn send(&mut self, asked: Asked, command: Command) {
        self.last = self.last.saturating_add(1);
        let id = CommandId(self.last);
        self.asked.push((id, asked));
        self.commands.push((id, command));
    }
}

fn first<T>(list: &mut Vec<T>) -> Option<T> {
    (!list.is_empty()).then(|| list.remove(0))
}

fn forget_oldest<T>(list: &mut Vec<T>) {
    if list.len() >= REMEMBERED {
        list.remove(0);
    }
}

/// A time of the server. None for 0, which stands for a time that is unknown.
fn microseconds(scalar: &Scalar) -> Option<u64> {
    crate::wire::integer(scalar).and_then(|time| u64::try_from(time).ok()).filter(|time| *time > 0)
}

/// The label in a reply, if a client can have it.
fn label_in(result: &Result<Reply, Failure>) -> Option<String> {
    let Ok(Reply::One(Scalar::Text(text))) = result else { return None };
    Some(lossy(text)).filter(|label| !label.is_empty() && check_label(label).is_ok())
}

/// The key of a client's label begins with this.
const KEY: &str = "leasehold:client:";
