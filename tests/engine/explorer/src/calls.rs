//! What callers rely on while they wait: their order inside a client, their place in the server's queue, and a turn
//! although a client hands its lease over to others of its callers.

use leasehold_core::{Mode, OpId, Reply, Scalar};

use crate::client::{Belief, Client, UserState};
use crate::clock::{self, Micros};
use crate::flight::{What, names};
use crate::keys::{KEYS, holders};
use crate::verdict::{Broken, Verdict};
use crate::world::World;

/// How long a client hands its lease over locally while another client waits.
pub(crate) const BUDGET_TIME: Micros = 1_000_000;

impl World {
    /// A user got the lock. No other user of its client has waited for longer, and nobody was told that this lease is lost.
    pub(crate) fn in_order(&self, place: u8, op: OpId, belief: &Belief) -> Verdict {
        let client = &self.clients[usize::from(place)];
        let earlier = |user: &&crate::client::User| matches!(user.state, UserState::Waiting(other) if other < op);
        if client.users.iter().any(|user| earlier(&user)) {
            return Err(Broken::new("local-order", format!("client {place} serves {op:?} before an earlier call")));
        }
        if client.lost.contains(&belief.token) {
            return Err(Broken::new(
                "handed-over-lost",
                format!("client {place} hands {belief:?} over after its loss"),
            ));
        }
        Ok(())
    }

    /// A client hands its lease over locally. No other client has waited for long.
    pub(crate) fn hands_over(&self, place: u8, belief: &Belief) -> Verdict {
        if self.is_calm() && self.is_waited_for(place) {
            return Err(Broken::new("budget", format!("client {place} hands {belief:?} over while others wait")));
        }
        Ok(())
    }

    /// Time passes. Every user that waits is in the server's queue, or gets the lock from its own client, and no lease
    /// lingers that somebody has asked for.
    pub(crate) fn nobody_is_stranded(&self) -> Verdict {
        if !self.is_calm() {
            return Ok(());
        }
        for (place, client) in self.clients.iter().enumerate() {
            let waits = client.users.iter().any(|user| matches!(user.state, UserState::Waiting(_)));
            let can_serve = !client.beliefs.is_empty()
                && client.beliefs.iter().all(|belief| belief.mode == Mode::Exclusive)
                && !self.is_waited_for(place as u8);
            if waits && !can_serve && !self.is_queued(client) {
                return Err(Broken::new("stranded", format!("a user of client {place} waits outside of the queue")));
            }
        }
        self.nothing_lingers()
    }

    /// No lease lingers that another client has tried to get, unless the client was told so too early.
    pub(crate) fn nothing_lingers(&self) -> Verdict {
        if self.is_calm() && self.watch.refused && !self.watch.unheard {
            return Err(Broken::new("lingers", "a lease lingers although another client has tried to get it".into()));
        }
        Ok(())
    }

    /// Whether a client has known for so long that others wait that it hands nothing over any more.
    fn is_waited_for(&self, place: u8) -> bool {
        self.clients[usize::from(place)].wanted_at.is_some_and(|at| at + BUDGET_TIME <= self.now)
    }

    /// A client learns whether others wait for what it holds.
    pub(crate) fn hears(&mut self, place: u8, what: &What) {
        let now = self.now;
        let client = self.client_mut(place);
        let is_wanted = match what {
            What::Message(_, payload) => payload.starts_with(b"wanted "),
            What::Reply(_, command, reply) => match &**reply {
                Ok(Reply::List(answer)) => {
                    let is_held =
                        matches!(answer.first(), Some(Scalar::Text(it)) if **it == *b"entered" || **it == *b"again");
                    // A late answer is about an earlier lease.
                    let is_late = !client.beliefs.iter().any(|belief| names(command, &belief.token));
                    is_held && !is_late && matches!(answer.get(5), Some(Scalar::Int(waiting)) if *waiting > 0)
                }
                _ => false,
            },
            _ => false,
        };
        if client.beliefs.is_empty() {
            client.wanted_at = None;
        } else if is_wanted {
            client.wanted_at.get_or_insert(now);
        }
    }

    /// Whether the server has a token of this client in its queue, or has granted one that the client will hear of.
    fn is_queued(&self, client: &Client) -> bool {
        let time = clock::server(self.now);
        let mut queue = self.server.members(time, KEYS[2].as_bytes());
        let is_own = |token: &[u8]| token.starts_with(client.id.as_bytes());
        queue.any(|(token, since)| since >= 0.0 && is_own(token))
            || client.beliefs.is_empty() && holders(&self.server, time).iter().any(|token| is_own(token))
    }
}
