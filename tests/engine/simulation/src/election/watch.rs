//! The promises of an election.

use std::collections::BTreeMap;

use leasehold_harness::Micros;

use super::client::Client;
use crate::invariants::{Verdict, broken};

/// Without faults, a resignation is followed within this time.
const AT_ONCE: Micros = 50_000;
/// How much later than the TTL the next leader comes at most.
const LATER: Micros = 1_000_000;
/// What a run's messages and commands add to a bound, and clocks that differ.
pub(super) const SLACK: Micros = 300_000;

/// The times of a run.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) ttl: Micros,
    pub(super) claim: Micros,
    /// What a slow network adds: to the server and back, twice, as the server may lack the script.
    pub(super) trips: Micros,
}

#[derive(Default)]
pub(super) struct Watch {
    pub(super) verdict: Option<Verdict>,
    /// The terms that the server has granted, by their fences: the token and the value.
    terms: BTreeMap<u64, (String, String)>,
    /// The term that the server has now, and since when it has that or none.
    pub(super) present: Option<u64>,
    pub(super) present_since: Micros,
    /// The fence of the last term that a client knew.
    last: u64,
    /// Until when somebody led.
    led_until: Micros,
    /// When a leader last resigned while all was well. None once somebody leads again.
    resigned: Option<Micros>,
    /// When something last went wrong that can delay everybody, or when that ends.
    disturbed: Micros,
    /// When clients died or closed.
    dead: Vec<Micros>,
    /// Until when messages were last lost.
    pub(super) mute: Micros,
    /// Since when somebody campaigns.
    pub(super) wanted_since: Option<Micros>,
}

impl Watch {
    pub(super) fn check(&mut self, verdict: Verdict) {
        if verdict.is_err() && self.verdict.is_none() {
            self.verdict = Some(verdict);
        }
    }

    /// Something goes wrong until then that can delay everybody. An earlier trouble may last longer.
    pub(super) fn disturb(&mut self, until: Micros) {
        self.disturbed = self.disturbed.max(until);
    }

    /// What the server has after a command.
    pub(super) fn server_has(&mut self, now: Micros, fields: &[(String, String)]) {
        let said = fields.first().and_then(|(token, said)| Some((token, said.split_once(' ')?)));
        let present = said.map(|(token, (fence, value))| {
            let fence = fence.parse().unwrap_or(0);
            self.terms.entry(fence).or_insert_with(|| (token.clone(), value.to_owned()));
            fence
        });
        if present != self.present {
            (self.present, self.present_since) = (present, now);
        }
    }

    /// A campaign has ended with a term.
    pub(super) fn begins(&mut self, client: &Client, fence: u64) {
        let is_own = self.terms.get(&fence).is_some_and(|(_, value)| *value == client.value);
        if !is_own {
            self.check(broken(
                "term-number",
                format!("{} leads with fence {fence}, and the server has {:?}", client.value, self.terms),
            ));
        }
        if fence <= self.last {
            self.check(broken("term-order", format!("{} leads with fence {fence} after {}", client.value, self.last)));
        }
        self.last = fence;
    }

    /// A leader resigns.
    pub(super) fn resigns(&mut self, now: Micros, followed: bool, times: Times) {
        let calm = self.dead_since(now, times) == 0 && now > self.disturbed + 2 * times.claim + 2 * LATER;
        self.resigned = Some(now).filter(|_| followed && calm);
    }

    /// An observer is told who leads, or that nobody does because it has heard nothing.
    pub(super) fn told(&mut self, client: &Client, next: (u64, bool), value: &str, silent: bool) {
        let (fence, over) = next;
        let returns = client.doubts && client.told == Some((fence, true));
        if client.told.is_some_and(|told| next <= told) && !returns {
            self.check(broken("observer-back", format!("after {:?} an observer is told {next:?}", client.told)));
        }
        if !over && self.terms.get(&fence).is_none_or(|(_, known)| known != value) {
            self.check(broken("observer-wrong", format!("an observer is told {next:?} with {value:?}")));
        }
        if over && self.present == Some(fence) && !silent {
            self.check(broken("observer-early", format!("an observer is told that {fence} is over, and it isn't")));
        }
    }

    /// Looks at all clients after each event.
    pub(super) fn look(&mut self, now: Micros, clients: &[Client], times: Times) {
        let leaders: Vec<&str> =
            clients.iter().filter(|client| client.leads(now)).map(|client| client.value.as_str()).collect();
        if leaders.len() > 1 {
            self.check(broken("two-leaders", format!("{leaders:?} lead")));
        }
        if !leaders.is_empty() {
            (self.led_until, self.resigned) = (now, None);
        }
        // The next leader may be slow, or cut off, since then.
        self.resigned = self.resigned.filter(|resigned| self.disturbed < *resigned);
        if let Some(resigned) = self.resigned
            && now > resigned + AT_ONCE.max(times.trips)
        {
            self.resigned = None;
            self.check(broken("resigned-late", format!("nobody leads {} µs after a resignation", now - resigned)));
        }
        let Some(wanted) = self.wanted_since else { return };
        let begins = self.led_until.max(self.disturbed).max(wanted);
        let most = times.ttl + times.ttl / 50 + LATER + SLACK;
        if now <= begins + most {
            return;
        }
        let dead = self.dead_since(begins, times);
        if now > begins + most + dead * times.claim {
            self.check(broken("leaderless", format!("nobody leads for {} µs, and {dead} died", now - begins)));
        }
    }

    /// A client dies, or closes.
    pub(super) fn dies(&mut self, now: Micros) {
        self.dead.push(now);
        self.resigned = None;
    }

    /// How many may be dead and in the queue, or have died since.
    fn dead_since(&self, since: Micros, times: Times) -> u64 {
        self.dead.iter().filter(|died| **died + times.claim + SLACK > since).count() as u64
    }

    /// What observers know, and how often they have asked.
    pub(super) fn observers(&mut self, now: Micros, clients: &[Client], times: Times) {
        for client in
            clients.iter().filter(|client| client.process.is_awake() && client.observes.is_some() && !client.closes)
        {
            let asking = &client.questions;
            let ttls = (now - asking.since) / times.ttl;
            if !asking.deaf && asking.asked > 2 + asking.reasons + ttls + ttls / 20 {
                let detail = format!("{} questions for {} reasons in {ttls} TTLs", asking.asked, asking.reasons);
                self.check(broken("asks-often", detail));
            }
            // An observer without answers says that nobody leads.
            let heard = client.heard.0.max(client.woke).max(client.slow.0 + client.slow.1);
            let most = times.ttl + times.ttl / 50 + times.claim + 2 * LATER + SLACK;
            if client.told.is_some_and(|(_, over)| !over) && now > heard + most {
                let detail = format!("{:?} is told, and nothing was heard for {} µs", client.told, now - heard);
                self.check(broken("observer-deaf", detail));
            }
            // A message that was lost is made up for a TTL later, and a question without an answer costs a timeout.
            let again = times.ttl + 2 * times.claim + 4 * LATER;
            let calm = self.disturbed == 0 || now > self.disturbed.max(client.slow.0) + again;
            let settled = now.saturating_sub(self.present_since.max(asking.since + LATER));
            let most = if self.present.is_some() { SLACK } else { times.ttl + times.ttl / 50 + SLACK };
            let knows = match (client.told, self.present) {
                // A message of a new leader was lost. The next question comes after 30 s.
                (Some((_, true)), Some(_)) if self.mute > self.present_since => true,
                (Some((told, over)), Some(present)) => told == present && !over,
                (told, None) => told.is_some_and(|(_, over)| over),
                (None, Some(_)) => false,
            };
            if calm && settled > most && !knows {
                let detail = format!("{:?} is told, and the server has {:?}", client.told, self.present);
                self.check(broken("observer-late", detail));
            }
        }
    }
}
