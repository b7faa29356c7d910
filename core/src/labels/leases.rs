//! The labels of leases, which their holders tell when an inspect asks for them.
//!
//! ```text
//! inspect -> subscribe to the own channel -> asked <own id> <key> -> told <id> <held> <waited> <labels> <key>
//! ```

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem;

use super::text::{MOST_BYTES, check_label, client_of, command, each, is_client};
use crate::event::Inspection;
use crate::text::Digits;
use crate::time::Instant;
use crate::time::api::Duration;
use crate::wire::Command;

/// How many different clients an inspect asks.
pub(super) const MOST_ASKED: usize = 64;
/// How long it waits for their answers, and for its own subscription before, if the client has none.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);
/// How many questions a client answers in a second.
pub(super) const MOST_ANSWERED: u32 = 100;
/// How many of its leases, and how many of its waiting callers, a client looks at for one answer.
pub(super) const MOST_SEEN: usize = 10_000;
/// The greatest time in an answer, in milliseconds.
const LONGEST: u64 = 999_999_999_999_999;

/// A question about a lock, which the driver answers with [`Labels::answer`](super::Labels::answer).
#[derive(Debug, PartialEq, Eq)]
pub struct Question {
    pub(super) asker: String,
    pub(super) key: String,
    name: String,
}

impl Question {
    /// The lock's name, without the prefix.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Without the feature, no value of this type exists, so the compiler leaves out everything that needs one.
#[cfg(feature = "lease-labels")]
pub(super) type Enabled = ();
#[cfg(not(feature = "lease-labels"))]
pub(super) type Enabled = core::convert::Infallible;

#[cfg(feature = "lease-labels")]
pub(super) const ENABLED: Option<Enabled> = Some(());
#[cfg(not(feature = "lease-labels"))]
pub(super) const ENABLED: Option<Enabled> = None;

/// The subscription to the client's own channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Channel {
    Off,
    Asked,
    On,
    /// There are no messages, and never will be.
    Never,
}

/// An inspection whose clients are asked.
pub(super) struct Asking {
    key: String,
    /// The clients that have not answered.
    silent: Vec<String>,
    sent: bool,
    until: Instant,
}

impl Asking {
    pub(super) fn is_over(&self) -> bool {
        self.silent.is_empty()
    }

    /// This client will not answer.
    pub(super) fn give_up_on(&mut self, client: &str) {
        self.silent.retain(|silent| silent != client);
    }

    /// An answer counts once, and only if it was asked for.
    fn expects(&mut self, client: &str, key: &str) -> bool {
        let place = self.silent.iter().position(|silent| silent == client).filter(|_| self.key == key);
        place.map(|place| self.silent.swap_remove(place)).is_some()
    }
}

/// What one client asks others about their leases, and answers them.
pub(super) struct LeaseLabels {
    _enabled: Enabled,
    client: String,
    prefix: String,
    channel: Channel,
    /// Whether PUBLISH counts only the subscribers of one server of many.
    pub(super) cluster: bool,
    /// Whether the engine has subscribed by itself, so that it wants to know what becomes of it.
    of_engine: bool,
    pub(super) wants_channel: bool,
    pub(super) questions: Vec<Question>,
    /// When the current second began, and how many questions it had.
    second: Option<(Instant, u32)>,
}

/// What a client says about a lock.
pub(super) struct Answer<'a> {
    client: &'a str,
    pub(super) key: &'a str,
    held: Option<Duration>,
    waited: Option<Duration>,
    of_holder: Option<&'a str>,
    of_waiter: Option<&'a str>,
}

impl LeaseLabels {
    /// None without the feature `lease-labels`.
    pub(super) fn new(client: &str, prefix: &str) -> Option<Self> {
        let labels = Self {
            _enabled: ENABLED?,
            client: client.into(),
            prefix: prefix.into(),
            channel: Channel::Off,
            cluster: false,
            of_engine: false,
            wants_channel: false,
            questions: Vec::new(),
            second: None,
        };
        Some(labels)
    }

    pub(super) fn key(&self, name: &str) -> String {
        [&self.prefix, name].concat()
    }

    /// The engine subscribes to the client's channel.
    pub(super) fn engine_subscribes(&mut self) {
        self.of_engine = true;
        if self.channel == Channel::Off {
            self.channel = Channel::Asked;
        }
    }

    /// Begins to ask the clients of an inspection. None if there is nobody to ask.
    pub(super) fn ask(&mut self, now: Instant, key: String, inspection: &mut Inspection) -> Option<Asking> {
        let mut silent: Vec<String> = Vec::new();
        let mut others = 0_usize;
        each(inspection, |token, _| {
            let Some(client) = client_of(token).filter(|client| !silent.iter().any(|other| other == client)) else {
                return;
            };
            let is_own = client == self.client;
            if is_own || others < MOST_ASKED {
                others = others.saturating_add(usize::from(!is_own));
                silent.push(client.into());
            }
        });
        if silent.contains(&self.client) {
            let name = key.strip_prefix(&self.prefix).unwrap_or_default().into();
            self.questions.push(Question { asker: self.client.clone(), key: key.clone(), name });
        }
        if self.channel == Channel::Never {
            silent.retain(|client| *client == self.client);
        }
        if silent.iter().any(|client| *client != self.client) && self.channel == Channel::Off && !self.of_engine {
            self.channel = Channel::Asked;
            self.wants_channel = true;
        }
        (!silent.is_empty()).then(|| Asking { key, silent, sent: false, until: now + PATIENCE })
    }

    /// The questions that can be sent now: to which clients, and the commands.
    pub(super) fn questions(&self, asking: &mut Asking) -> Vec<(String, Command)> {
        if self.channel == Channel::Never {
            asking.silent.retain(|client| *client == self.client);
        }
        if self.channel != Channel::On || mem::replace(&mut asking.sent, true) {
            return Vec::new();
        }
        let payload = ["asked ", &self.client, " ", &asking.key].concat();
        let others = asking.silent.iter().filter(|client| **client != self.client);
        others.map(|client| (client.clone(), publish(client, &payload))).collect()
    }

    /// The server has acknowledged the subscription, or it has ended. True if the engine did not ask for it.
    pub(super) fn channel(&mut self, acknowledged: bool, forever: bool) -> bool {
        self.channel = match (acknowledged, forever) {
            (true, _) => Channel::On,
            (false, true) => Channel::Never,
            (false, false) => Channel::Off,
        };
        !self.of_engine
    }

    /// Another client asks about a lock.
    pub(super) fn asked(&mut self, now: Instant, text: &str) {
        let Some((asker, key)) = text.split_once(' ') else { return };
        let Some(name) = key.strip_prefix(&self.prefix).filter(|_| is_client(asker) && asker != self.client) else {
            return;
        };
        let second = Duration::from_secs(1);
        let (since, count) = self.second.filter(|(since, _)| now.since(*since) < second).unwrap_or((now, 0));
        self.second = Some((since, count.saturating_add(1)));
        if count < MOST_ANSWERED {
            self.questions.push(Question { asker: asker.into(), key: key.into(), name: name.into() });
        }
    }

    /// The answer to a question. A client that has nothing of the lock says so, so that the asker does not wait.
    pub(super) fn answer<'a>(
        &self,
        now: Instant,
        question: &Question,
        leases: impl Iterator<Item = Option<(Instant, Option<&'a str>)>>,
        waits: impl Iterator<Item = Option<(Instant, Option<&'a str>)>>,
    ) -> String {
        let mut leases: Vec<_> = leases.take(MOST_SEEN).flatten().collect();
        leases.sort_by_key(|(since, _)| *since);
        let wait = waits.take(MOST_SEEN).flatten().min_by_key(|(since, _)| *since);
        let held = leases.first().map(|(since, _)| *since);
        let mut labels: Vec<&str> = Vec::new();
        for label in leases.iter().filter_map(|(_, label)| *label) {
            let bytes: usize = labels.iter().map(|label| label.len() + 2).sum();
            if !labels.contains(&label) && bytes + label.len() <= MOST_BYTES {
                labels.push(label);
            }
        }
        let (waited, of_waiter) = wait.map_or((None, None), |(since, label)| (Some(since), label));
        let text = [
            "told ",
            &self.client,
            " ",
            &word(now, held),
            " ",
            &word(now, waited),
            " ",
            &labels.join(", "),
            "\n",
            of_waiter.unwrap_or_default(),
            "\n",
            &question.key,
        ];
        text.concat()
    }
}

/// Ends the wait for answers in time.
pub(super) fn give_up(now: Instant, asking: &mut Asking) {
    if now >= asking.until {
        asking.silent.clear();
    }
}

pub(super) fn until(asking: &Asking) -> Option<Instant> {
    (!asking.is_over()).then_some(asking.until)
}

impl<'a> Answer<'a> {
    /// Reads what follows `told `. None if it is malformed. A label that breaks the limits is missing.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let client = words.next().filter(|client| is_client(client))?;
        let (held, waited) = (time(words.next()?)?, time(words.next()?)?);
        let mut lines = words.next()?.splitn(3, '\n');
        let mut label = || lines.next().map(|label| Some(label).filter(|label| is_label(label)));
        let (of_holder, of_waiter) = (label()?, label()?);
        Some(Self { client, key: lines.next()?, held, waited, of_holder, of_waiter })
    }

    /// Adds the answer to the inspection that waits for it.
    pub(super) fn add(&self, asking: &mut Asking, inspection: &mut Inspection) {
        if !asking.expects(self.client, self.key) {
            return;
        }
        let is_of = |token: &str| client_of(token) == Some(self.client);
        let alone = inspection.holders.iter().filter(|holder| is_of(&holder.token)).count() == 1;
        for holder in inspection.holders.iter_mut().filter(|holder| is_of(&holder.token)) {
            holder.lease_label = self.of_holder.map(Into::into);
            holder.held = self.held.filter(|_| alone).or(holder.held);
        }
        // The client's first caller waits with its first token.
        if let Some(waiter) = inspection.waiters.iter_mut().find(|waiter| is_of(&waiter.token)) {
            waiter.lease_label = self.of_waiter.map(Into::into);
            waiter.waited = self.waited.or(waiter.waited);
        }
    }
}

fn is_label(label: &str) -> bool {
    !label.is_empty() && check_label(label).is_ok()
}

/// The milliseconds since then, or `-`.
fn word(now: Instant, since: Option<Instant>) -> String {
    let Some(since) = since else { return "-".into() };
    let milliseconds = u64::try_from(now.since(since).as_millis()).unwrap_or(LONGEST);
    Digits::of(milliseconds.min(LONGEST)).as_str().to_string()
}

/// A time in milliseconds, or `-` for none. None if it is neither.
fn time(word: &str) -> Option<Option<Duration>> {
    if word == "-" {
        return Some(None);
    }
    let digits = word.len() <= 15 && word.bytes().all(|byte| byte.is_ascii_digit());
    let time = word.parse().ok().filter(|time| digits && *time <= LONGEST)?;
    Some(Some(Duration::from_millis(time)))
}

/// A message to a client.
pub(super) fn publish(client: &str, payload: &str) -> Command {
    command("PUBLISH", "leasehold:", client, &[payload.as_bytes()])
}

/// The client's channel.
pub(super) fn is_channel_of(client: &str, channel: &str) -> bool {
    channel.strip_prefix("leasehold:") == Some(client)
}
