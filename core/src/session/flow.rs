//! Flow control for one server: how many commands may be in flight, which one goes next, and how long a reply usually takes.
//!
//! ```text
//!  send --room--> in flight --reply--> done     a prompt reply widens the window, a timeout halves it
//!     \             ^
//!      '--> queue --'                           the command with the earliest deadline goes first
//! ```
//!
//! Without it, releasing many locks at once would overload a healthy server: all commands go out together, the replies
//! come late, and resends make them even later. The window and the round-trip estimate follow QUIC's loss recovery (RFC
//! 9002, sections 5, 6.2 and 7). The queue is ordered by deadline (earliest deadline first), so no command starves.
//!
//! Requests that may share a batch wait until the driver has nothing else to say, and while [`PARALLEL`] commands are in
//! flight. So a batch grows while another one is on its way, and a single request leaves at once.
//!
//! In a cluster, slots can be on different servers, and the engine doesn't know which. So each range of 256 slots has
//! its own flow, and a silent server delays only names whose slots are near its own. Only requests of one slot may
//! share a batch there. Few names share a slot, so requests don't wait for more.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::hash::{Hash, Hasher};

use super::request::{Purpose, Queued, Request};
use super::unanswered::SentCommand;
use crate::error::Failure;
use crate::time::{Duration, Instant};
use crate::wire::hash_slot;

/// The window before anything is known about the server.
const INITIAL: u16 = 64;
/// The smallest window. This many commands find out whether a silent server is back.
const LEAST: u16 = 16;
/// The round trip before one was measured.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);
/// A reply counts as prompt if it took at most twice the fastest round trip plus this.
const PROMPT: Duration = Duration::from_millis(10);
/// How long the fastest round trip counts: the way to the server may become longer.
const MEMORY: Duration = Duration::from_secs(10);
/// While this many commands are in flight, requests that may share a batch wait for more.
const PARALLEL: u16 = 2;
/// The most entries of a batch. The server is occupied for less than half a millisecond.
const MOST_ENTRIES: usize = 64;
/// They leave although [`PARALLEL`] commands have no reply when a reply is overdue, and within these bounds. The replies
/// may be lost, and then nothing else would end the wait.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = needed::CALL;
/// How many slots of a cluster share a flow, as a power of two.
const RANGE: u32 = 8;
const SLOTS: u32 = 1 << 14;

/// The index of a slot's flow.
fn place(slot: u16) -> u8 {
    u8::try_from(slot >> RANGE).unwrap_or(0)
}

/// How soon a command is needed.
pub(crate) mod needed {
    use crate::time::Duration;

    /// A release while other clients are known to wait.
    pub(crate) const NONE: Duration = Duration::ZERO;
    /// A waiter's heartbeat.
    pub(crate) const HEARTBEAT: Duration = Duration::from_millis(10);
    /// Anything that a caller waits for.
    pub(crate) const CALL: Duration = Duration::from_millis(20);
    /// A release while no client is known to wait.
    pub(crate) const LEISURE: Duration = Duration::from_millis(500);
}

/// The flows to all servers.
#[derive(Clone, Hash)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
    most: u16,
    numbers: u64,
    /// Why the last command failed, if none was answered since.
    last_failure: Option<(Instant, Failure)>,
}

#[derive(Clone)]
struct Flow {
    in_flight: u16,
    window: u16,
    queue: BinaryHeap<Queued>,
    /// Requests for the next batch, and since when the first of them waits.
    batch: BinaryHeap<Queued>,
    since: Instant,
    round_trip: RoundTrip,
    /// Until when a command had to wait for room, or since when one waits.
    full_at: Option<Instant>,
    /// When a command was last answered.
    answered: Option<Instant>,
    /// Commands sent before this time belong to a silence that has already halved the window.
    halved_at: Option<Instant>,
}

/// A smoothed round trip with its variation.
#[derive(Clone, Copy, Hash, Default)]
struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    /// The fastest of the last [`MEMORY`], and when it was measured.
    least: Duration,
    least_at: Instant,
}

impl Flows {
    pub(crate) fn new(most: u16) -> Self {
        Self { flows: Vec::from([Flow::new(most)]), most, numbers: 0, last_failure: None }
    }

    /// Switches to one flow for each range of slots, for a cluster.
    pub(crate) fn by_slot(&mut self) {
        self.flows.resize_with((SLOTS >> RANGE) as usize, || Flow::new(self.most));
    }

    /// The index of the flow that commands about this key belong to.
    pub(crate) fn place_of(&self, key: &str) -> u8 {
        place(self.slot(key.as_bytes()))
    }

    /// A key's slot. Without a cluster, all keys are in one.
    fn slot(&self, key: &[u8]) -> u16 {
        if self.is_cluster() { hash_slot(key) } else { 0 }
    }

    fn is_cluster(&self) -> bool {
        self.flows.len() > 1
    }

    /// The flow by which a command may leave now. None if it must wait.
    pub(super) fn room(&self, purpose: Purpose, request: &Request) -> Option<u8> {
        let place = self.place_of(&request.name.key);
        let flow = self.flows.get(usize::from(place))?;
        let may_leave = flow.in_flight < flow.window && flow.queue.is_empty();
        (may_leave || self.may_renew(flow, purpose)).then_some(place)
    }

    /// Whether it is a renewal, and there is room for it beside a full window. If the window is full of commands whose
    /// replies were lost, no lease ends because of them.
    fn may_renew(&self, flow: &Flow, purpose: Purpose) -> bool {
        let most = flow.window.saturating_add(LEAST).min(self.most);
        matches!(purpose, Purpose::Renew { op: None, .. }) && flow.in_flight < most
    }

    /// Queues a command until there is room. `due` is when it is needed.
    pub(super) fn push(&mut self, now: Instant, due: Instant, entry: Queued) {
        self.numbers = self.numbers.saturating_add(1);
        let (place, number) = (self.place_of(&entry.request.name.key), self.numbers);
        if let Some(flow) = self.flows.get_mut(usize::from(place)) {
            flow.full_at = Some(now);
            flow.queue.push(Queued { due, number, ..entry });
        }
    }

    /// Adds a request to the next batch, which leaves when the driver has nothing else to say.
    pub(super) fn push_to_batch(&mut self, now: Instant, due: Instant, entry: Queued) {
        self.numbers = self.numbers.saturating_add(1);
        let (number, slot) = (self.numbers, self.slot(entry.request.name.key.as_bytes()));
        let Some(flow) = self.flows.get_mut(usize::from(place(slot))) else { return };
        if flow.batch.is_empty() {
            flow.since = now;
        }
        if flow.in_flight >= flow.window {
            flow.full_at = Some(now);
        }
        flow.batch.push(Queued { due, number, slot, ..entry });
    }

    /// When the next batch leaves. None while there is no room.
    pub(crate) fn batch_leaves_at(&self) -> Option<Instant> {
        let parallel = if self.is_cluster() { u16::MAX } else { PARALLEL };
        self.flows.iter().filter_map(|flow| self.leaves(flow, parallel)).min()
    }

    fn leaves(&self, flow: &Flow, parallel: u16) -> Option<Instant> {
        let first = flow.batch.peek()?;
        if flow.in_flight >= flow.window {
            self.may_renew(flow, first.purpose).then_some(flow.since)
        } else if flow.in_flight < parallel || flow.batch.len() >= MOST_ENTRIES {
            Some(flow.since)
        } else {
            Some(flow.since + flow.round_trip.probe().clamp(SHORTEST_WAIT, LONGEST_WAIT))
        }
    }

    /// The flow whose batch leaves now.
    pub(crate) fn batch_due(&self, now: Instant) -> Option<u8> {
        let parallel = if self.is_cluster() { u16::MAX } else { PARALLEL };
        let mut flows = self.flows.iter().zip(0..);
        flows.find(|(flow, _)| self.leaves(flow, parallel).is_some_and(|at| at <= now)).map(|(_, place)| place)
    }

    /// The entries of this flow's next batch: those that are needed first, of one slot.
    pub(crate) fn take_batch(&mut self, now: Instant, place: u8) -> Vec<Queued> {
        let (mut taken, mut rest) = (Vec::<Queued>::new(), Vec::new());
        let Some(flow) = self.flows.get_mut(usize::from(place)) else { return taken };
        if flow.waits_for_room() {
            // Until now, for all whose calls it is.
            flow.full_at = Some(now);
        }
        flow.since = now;
        while taken.len() < MOST_ENTRIES
            && let Some(entry) = flow.batch.pop()
        {
            let fits = taken.first().is_none_or(|first| first.slot == entry.slot);
            if fits { &mut taken } else { &mut rest }.push(entry);
        }
        flow.batch.extend(rest);
        taken
    }

    /// The next queued command for which there is room, unless it is the turn of a batch.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(u8, Queued)> {
        if self.is_turn_of_batch(now) {
            return None;
        }
        let flow =
            self.flows.iter_mut().zip(0..).find(|(flow, _)| flow.in_flight < flow.window && !flow.queue.is_empty());
        let (flow, place) = flow?;
        flow.full_at = Some(now);
        Some((place, flow.queue.pop()?))
    }

    /// Whether a batch is needed sooner than every queued command of its flow. Its other entries have waited long enough,
    /// too. It also leaves if the driver has been busy for long.
    pub(crate) fn is_turn_of_batch(&self, now: Instant) -> bool {
        let Some(since) = self.batch_leaves_at() else { return false };
        since + LONGEST_WAIT <= now || since <= now && self.flows.iter().any(Flow::is_batch_sooner)
    }

    /// Whether no command waits for room.
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.iter().all(|flow| flow.queue.is_empty() && flow.batch.is_empty())
    }

    pub(crate) fn sent(&mut self, place: u8) {
        if let Some(flow) = self.flows.get_mut(usize::from(place)) {
            flow.in_flight = flow.in_flight.saturating_add(1);
        }
    }

    /// A command has ended: with a reply, with a timeout, or without reaching the server.
    pub(crate) fn ended(&mut self, now: Instant, sent: &SentCommand, failure: Option<&Failure>) {
        let most = self.most;
        let Some(flow) = self.flows.get_mut(usize::from(sent.flow)) else { return };
        flow.in_flight = flow.in_flight.saturating_sub(1);
        match failure {
            None | Some(Failure::Refused(_)) => {
                flow.answered(now, now.time_since(sent.at), most);
                self.last_failure = None;
            }
            Some(failure) => {
                if *failure == Failure::TimedOut {
                    flow.silent(now, sent.at);
                }
                if !matches!(failure, Failure::Unsupported(_)) {
                    self.last_failure = Some((now, failure.clone()));
                }
            }
        }
    }

    /// A server has answered a command that had been given up. In a cluster, it is not known which server.
    pub(crate) fn alive(&mut self, now: Instant) {
        if let [flow] = &mut self.flows[..] {
            flow.answered = Some(now);
        }
        self.last_failure = None;
    }

    /// This flow, or all of them.
    fn some(&self, place: Option<u8>) -> &[Flow] {
        let one = place.and_then(|place| self.flows.get(usize::from(place)..=usize::from(place)));
        one.unwrap_or(&self.flows)
    }

    /// Whether a command had to wait for room since then: in this flow, or in any.
    pub(crate) fn was_full_since(&self, place: Option<u8>, since: Instant) -> bool {
        self.some(place)
            .iter()
            .any(|flow| !flow.queue.is_empty() || flow.waits_for_room() || flow.full_at.is_some_and(|at| at >= since))
    }

    /// When a command was last answered: in this flow, or in any.
    pub(crate) fn answered(&self, place: Option<u8>) -> Option<Instant> {
        self.some(place).iter().filter_map(|flow| flow.answered).max()
    }

    /// Why the last command failed, if that was after `since` and none was answered later.
    pub(crate) fn failure_since(&self, since: Instant) -> Option<Failure> {
        self.last_failure.as_ref().filter(|(at, _)| *at >= since).map(|(_, failure)| failure.clone())
    }

    /// How long to wait for a reply before the `attempt`th resend: the probe timeout of RFC 9002, section 6.2.
    pub(crate) fn resend_after(&self, attempt: u32, least: Duration) -> Duration {
        let slowest = self.flows.iter().map(|flow| flow.round_trip.probe()).max().unwrap_or_default();
        slowest.saturating_mul(1 << attempt.min(10)).max(least)
    }
}

impl Flow {
    /// Whether its batch is needed sooner than every queued command.
    fn is_batch_sooner(&self) -> bool {
        self.queue.peek().zip(self.batch.peek()).is_some_and(|(next, entry)| entry > next)
    }

    /// Whether a request for the next batch found no room.
    fn waits_for_room(&self) -> bool {
        !self.batch.is_empty() && self.full_at.is_some_and(|at| at >= self.since)
    }

    fn new(most: u16) -> Self {
        Self {
            in_flight: 0,
            window: INITIAL.min(most),
            queue: BinaryHeap::new(),
            batch: BinaryHeap::new(),
            since: Instant::default(),
            round_trip: RoundTrip::default(),
            full_at: None,
            answered: None,
            halved_at: None,
        }
    }

    fn answered(&mut self, now: Instant, took: Duration, most: u16) {
        self.answered = Some(now);
        self.round_trip.measure(now, took);
        let prompt = took <= self.round_trip.least.saturating_mul(2).saturating_add(PROMPT);
        // The first window back after a silence is what every server gets at the start. A wider one helps only if the
        // window is full, and does no harm only if replies are prompt.
        if self.window < INITIAL || (prompt && !self.queue.is_empty()) {
            self.window = self.window.saturating_add(1).min(most);
        }
    }

    fn silent(&mut self, now: Instant, sent: Instant) {
        if self.halved_at.is_none_or(|at| sent > at) {
            self.window = (self.window / 2).max(LEAST).min(self.window);
            self.halved_at = Some(now);
            // Another server may answer from now on, farther away.
            self.round_trip.least = Duration::MAX;
        }
    }
}

impl RoundTrip {
    fn measure(&mut self, now: Instant, took: Duration) {
        let Some(smoothed) = self.smoothed else {
            *self = Self { smoothed: Some(took), variation: took / 2, least: took, least_at: now };
            return;
        };
        if took <= self.least || now.time_since(self.least_at) > MEMORY {
            (self.least, self.least_at) = (took, now);
        }
        self.variation = (self.variation.saturating_mul(3).saturating_add(smoothed.abs_diff(took))) / 4;
        self.smoothed = Some((smoothed.saturating_mul(7).saturating_add(took)) / 8);
    }

    fn probe(&self) -> Duration {
        let (smoothed, variation) = match self.smoothed {
            Some(smoothed) => (smoothed, self.variation),
            None => (FIRST_ROUND_TRIP, FIRST_ROUND_TRIP / 2),
        };
        smoothed.saturating_add(variation.saturating_mul(4))
    }
}

// `BinaryHeap` returns the greatest item first, so the command that is needed first must be the greatest.
/// Its number only orders it among others, and [`Flow`] is hashed in order.
impl Hash for Queued {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { due, number: _, purpose, request, slot } = self;
        (due, purpose, request, slot).hash(state);
    }
}

/// Flows with equal contents are equal, however their heaps lie in memory.
impl Hash for Flow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { in_flight, window, queue, batch, since, round_trip, full_at, answered, halved_at } = self;
        (in_flight, window, since, round_trip, full_at, answered, halved_at).hash(state);
        for heap in [queue, batch] {
            let mut queued: Vec<&Queued> = heap.iter().collect();
            queued.sort_unstable();
            queued.hash(state);
        }
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Queued {}
