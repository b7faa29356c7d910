//! What must hold in every state.

use std::sync::Arc;

use leasehold_core::Mode;
use leasehold_memory::Server;

use crate::client::{Belief, Client};
use crate::clock::{self, Micros, SERVER_ORIGIN};
use crate::flight::Flight;
use crate::keys::{KEYS, holders, waiters};
use crate::passing::Passing;
use crate::results::Results;
use crate::scenario::TTL;
use crate::terms::Terms;
use crate::verdict::{Broken, Verdict};

/// What the invariants remember.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    /// The greatest fence that a user got, and that a writer got.
    pub(crate) used: u64,
    pub(crate) used_by_writers: u64,
    /// Fences up to this one may be drawn twice, because the counter was lost twice within a millisecond.
    pub(crate) redrawn: u64,
    /// Tokens whose leases the server lost, or an operator took. Their clients find out later.
    pub(crate) orphans: Arc<Vec<Orphan>>,
    /// The server has lost its list of readers. It still keeps writers out until the last reader's lease is over.
    pub(crate) readers_lost: bool,
    /// A user that doesn't wait was refused although no user had a lease.
    pub(crate) refused: bool,
    /// A message came too early: its client had not subscribed yet, or did not know of its lease.
    pub(crate) unheard: bool,
    /// The results of a once.
    pub(crate) results: Results,
    /// The terms of an election.
    pub(crate) terms: Terms,
    /// The lease that was detached.
    pub(crate) passing: Passing,
}

/// A token whose lease the server has lost.
#[derive(Clone)]
pub(crate) struct Orphan {
    pub(crate) token: Vec<u8>,
    /// When the server lost it, if its client had given the lease out. Else the client may get it later, and find out then.
    pub(crate) believed_at: Option<Micros>,
    /// A command with this token was in flight then. It may take the lock anew.
    pub(crate) may_come_back: bool,
}

/// How long a client may hand a lease over locally that the server has lost, or that another client waits for.
const HAND_OVERS: Micros = 1_000_000;

/// How far a fence may be ahead of the server's clock: as far as after the loss of the counter, plus one for each grant.
const AHEAD: u64 = 3_073 + 76;

impl Watch {
    /// A user got a lease, or its lease in the other mode.
    pub(crate) fn granted(&mut self, time: u64, belief: &Belief) -> Verdict {
        if self.is_orphan(belief) || belief.fence <= self.redrawn {
            return Ok(());
        }
        let before = if belief.mode == Mode::Exclusive { self.used } else { self.used_by_writers };
        if belief.fence <= before {
            return Err(Broken::new("fence-order", format!("{belief:?} comes after the fence {before}")));
        }
        if belief.fence > time + AHEAD {
            return Err(Broken::new("fence-ahead", format!("{belief:?} is ahead of the server's time {time}")));
        }
        self.used = self.used.max(belief.fence);
        if belief.mode == Mode::Exclusive {
            self.used_by_writers = self.used_by_writers.max(belief.fence);
        }
        Ok(())
    }

    /// The server loses the name's own key.
    pub(crate) fn data_lost(&mut self, now: Micros, clients: &[Arc<Client>], server: &Server, flights: &[Flight]) {
        self.revoked(now, clients, server, flights);
        let time = clock::server(now);
        // Fences of the last millisecond may be drawn again.
        (self.used, self.used_by_writers) = (self.used.min(time), self.used_by_writers.min(time));
    }

    /// The server loses its counter. A counter that began within the last millisecond is ahead of the clock, and the next
    /// one begins at the same place.
    pub(crate) fn counter_lost(&mut self, time: u64, server: &Server) {
        let counter =
            server.text(time, KEYS[1].as_bytes()).and_then(|text| str::from_utf8(text).ok()?.parse::<u64>().ok());
        self.redrawn = self.redrawn.max(counter.filter(|counter| *counter > time + 1_000).unwrap_or(0));
    }

    /// An operator takes the lock from its holders.
    pub(crate) fn revoked(&mut self, now: Micros, clients: &[Arc<Client>], server: &Server, flights: &[Flight]) {
        let believed: Vec<&Belief> = clients.iter().flat_map(|client| &client.beliefs).collect();
        let orphans = Arc::make_mut(&mut self.orphans);
        let tokens = believed.iter().map(|belief| belief.token.clone());
        for token in holders(server, clock::server(now)).into_iter().chain(tokens) {
            if orphans.iter().all(|orphan| orphan.token != token) {
                let of_token: Vec<_> = believed.iter().filter(|belief| belief.token == token).collect();
                let believed_at = (!of_token.is_empty()).then_some(now);
                let in_flight = flights.iter().any(|flight| flight.names(&token));
                let may_come_back = in_flight || of_token.iter().any(|belief| belief.converts);
                orphans.push(Orphan { token, believed_at, may_come_back });
            }
        }
    }

    fn is_orphan(&self, belief: &Belief) -> bool {
        self.orphans.iter().any(|orphan| orphan.token == belief.token)
    }

    /// A lease that a client had given out when the server lost it, and when that was.
    fn lost_at(&self, belief: &Belief) -> Option<Micros> {
        let orphan = self.orphans.iter().find(|orphan| orphan.token == belief.token)?;
        orphan.believed_at.filter(|_| !orphan.may_come_back)
    }

    /// The exclusive leases that a client had given out when the server lost them, before this time of the server.
    pub(crate) fn lost_before(&self, time: u64, client: &Client) -> Vec<Vec<u8>> {
        let before = |orphan: &&Orphan| orphan.believed_at.is_some_and(|at| clock::server(at) < time);
        let is_held = |orphan: &&Orphan| {
            client.beliefs.iter().any(|belief| belief.token == orphan.token && belief.mode == Mode::Exclusive)
        };
        self.orphans.iter().filter(before).filter(is_held).map(|orphan| orphan.token.clone()).collect()
    }

    /// A client hands a lease over from one of its users to another.
    pub(crate) fn handed_over(&self, now: Micros, belief: &Belief) -> Verdict {
        match self.lost_at(belief) {
            Some(at) if now >= at + HAND_OVERS => {
                Err(Broken::new("unconfirmed", format!("{belief:?} is handed over at {now}, and was lost at {at}")))
            }
            _ => Ok(()),
        }
    }

    /// No holder goes on for longer than a TTL after the server has lost its lease.
    pub(crate) fn end_in_time(&self, clients: &[Arc<Client>]) -> Verdict {
        for belief in clients.iter().flat_map(|client| &client.beliefs) {
            let lost_at = self.lost_at(belief).filter(|_| !belief.converts);
            if let Some(at) = lost_at.filter(|at| belief.until > at + clock::micros(TTL)) {
                return Err(Broken::new("loss-unnoticed", format!("{belief:?} goes on, and was lost at {at}")));
            }
        }
        Ok(())
    }

    /// The server has run a command. `before` is the server before it, unless a fault has happened.
    pub(crate) fn executed(&self, time: u64, before: Option<&Server>, after: &Server) -> Verdict {
        for key in after.keys(time) {
            if after.expires(time, key).is_none() && key != KEYS[1].as_bytes() {
                let key = String::from_utf8_lossy(key).into_owned();
                return Err(Broken::new("key-without-ttl", format!("`{key}` never expires")));
            }
        }
        before.map_or(Ok(()), |before| in_order(time, before, after))
    }

    /// Time passes. No running client has a lease that is over.
    pub(crate) fn passes(&self, now: Micros, clients: &[Arc<Client>]) -> Verdict {
        let late = clients.iter().filter(|client| client.runs()).flat_map(|client| &client.beliefs);
        match late.into_iter().find(|belief| belief.until <= now) {
            Some(belief) => Err(Broken::new("loss-late", format!("{belief:?} is over at {now}"))),
            None => Ok(()),
        }
    }

    /// At most one client has a valid lease that excludes others, and the server has each valid lease.
    pub(crate) fn check(&self, now: Micros, clients: &[Arc<Client>], server: &Server, margin: Micros) -> Verdict {
        let valid = || {
            let of = |(place, client): (usize, &Arc<Client>)| {
                let beliefs = client.beliefs.clone().into_iter();
                beliefs.filter(|it| it.until > now && !self.is_orphan(it)).map(move |it| (place, it))
            };
            clients.iter().enumerate().filter(|(_, client)| !client.beliefs.is_empty()).flat_map(of)
        };
        for (place, belief) in valid() {
            let beside = valid().find(|(other_place, other)| {
                let excludes = belief.mode == Mode::Exclusive || other.mode == Mode::Exclusive;
                excludes && (place, belief.lease) != (*other_place, other.lease)
            });
            if let Some(beside) = beside {
                let detail =
                    format!("client {place} has {belief:?} beside client {} with {:?} at {now}", beside.0, beside.1);
                return Err(Broken::new("exclusive", detail));
            }
            let is_unlisted = self.readers_lost && belief.mode == Mode::Shared;
            if !belief.converts && !is_unlisted {
                backed(now, place, &belief, server, margin)?;
            }
        }
        Ok(())
    }
}

/// The server has the lease for longer than its holder believes.
fn backed(now: Micros, place: usize, belief: &Belief, server: &Server, margin: Micros) -> Verdict {
    let time = clock::server(now);
    let ends = match holders(server, time).contains(&belief.token) {
        true if belief.mode == Mode::Exclusive => server.expires(time, KEYS[0].as_bytes()),
        true => {
            let scores = server.members(time, KEYS[4].as_bytes());
            let mut reader = scores.filter(|(token, _)| *token == belief.token).map(|(_, score)| score as u64 * 1_000);
            // A writer that reads on without a token of its own.
            reader.next_back().or_else(|| server.expires(time, KEYS[0].as_bytes()))
        }
        false => None,
    };
    match ends {
        Some(ends) if ends >= SERVER_ORIGIN + belief.until + margin => Ok(()),
        Some(ends) => {
            let ends = ends.saturating_sub(SERVER_ORIGIN);
            Err(Broken::new("margin", format!("client {place} has {belief:?}, which ends on the server at {ends}")))
        }
        None => {
            Err(Broken::new("unbacked", format!("client {place} has {belief:?} at {now}, and the server does not")))
        }
    }
}

/// No token got the lock before one that waited earlier and still waits.
fn in_order(time: u64, before: &Server, after: &Server) -> Verdict {
    let (queue, had) = (waiters(before, time), holders(before, time));
    if queue.is_empty() {
        return Ok(());
    }
    let left = waiters(after, time);
    let Some(first) = queue.iter().position(|token| left.contains(token)) else { return Ok(()) };
    for token in holders(after, time).iter().filter(|token| !had.contains(token)) {
        if queue.iter().position(|waiter| waiter == token).is_none_or(|place| place > first) {
            let text = |token: &[u8]| String::from_utf8_lossy(token).into_owned();
            let detail = format!("{} got the lock before {}", text(token), text(&queue[first]));
            return Err(Broken::new("fifo", detail));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: u64 = SERVER_ORIGIN;

    fn server(lines: &[&str]) -> Server {
        let mut server = Server::default();
        for line in lines {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            server.execute(TIME, &words).unwrap().reply.unwrap();
        }
        server
    }

    #[test]
    fn overtaking_is_seen_and_a_hand_over_in_order_is_not() {
        let before = server(&["ZADD leasehold:{job}:queue 1 a:1", "ZADD leasehold:{job}:queue 2 b:1"]);
        let granted = |token: &str, left: &str| {
            server(&[&format!("SET job {token}*1 PX 10"), &format!("ZADD leasehold:{{job}}:queue 1 {left}")])
        };
        assert_eq!(in_order(TIME, &before, &granted("a:1", "b:1")), Ok(()));
        assert_eq!(in_order(TIME, &before, &granted("b:1", "a:1")).unwrap_err().invariant, "fifo");
        assert_eq!(in_order(TIME, &before, &granted("c:1", "a:1")).unwrap_err().invariant, "fifo");
    }

    #[test]
    fn a_key_without_a_ttl_is_seen_unless_it_is_the_counter() {
        let watch = Watch::default();
        assert_eq!(watch.executed(TIME, None, &server(&["SET leasehold:fence 7"])), Ok(()));
        let broken = watch.executed(TIME, None, &server(&["SET job a:1"]));
        assert_eq!(broken.unwrap_err().invariant, "key-without-ttl");
    }
}
