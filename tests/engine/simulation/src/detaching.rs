//! Leases that end for their client and stay on the server for a time.

use std::time::Duration;

use leasehold_core::{Input, Instant, LeaseId, LeaseToken, Mode, OpId};
use leasehold_harness::Micros;

use crate::invariants::{Verdict, broken};
use crate::wire::{Life, ScriptCommand, Token};
use crate::world::ClusterRun;

/// A lease that a client has detached, or tries to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detached {
    name: usize,
    life: Life,
    /// The token that it had before.
    old: Token,
    /// When its client was asked for it.
    since: Micros,
    /// Until when the server keeps the lock. Clocks may differ.
    until: Micros,
    /// Whether the client has the server's answer.
    confirmed: bool,
    mode: Mode,
}

/// The users.
impl ClusterRun<'_> {
    /// How long a detached lease stays: a few TTLs at most, so that others get the lock in the end.
    pub(crate) fn time_to_detach(&mut self, ttl: Duration) -> Option<Duration> {
        let rng = &mut self.world.rng;
        if rng.chance(300_000) {
            return None;
        }
        Some((ttl / 4 + ttl / 4 * rng.below(8) as u32).max(Duration::from_millis(10)))
    }

    /// Passes the call to the engine. If the engine takes the lease, it has ended for its user.
    pub(crate) fn feed_detach(
        &mut self,
        place: usize,
        op: OpId,
        held: Option<usize>,
        lease: LeaseId,
        time: Option<Duration>,
        now: Instant,
    ) {
        let client = &mut self.clients[place];
        let time_ms = time.unwrap_or_default().as_millis() as u64;
        client.longest_ttl_ms = client.longest_ttl_ms.max(time_ms * 102 / 100 + 100);
        let held = held.map(|held| self.watch.leases.held[held].clone());
        let old = client.token_of(lease);
        if let (Some(held), Some(old)) = (&held, old) {
            // Nothing is promised about a lease without a time, and a `max_hold` bounds each.
            let time = time.filter(|_| held.ends.is_none()).unwrap_or_default().as_micros() as Micros;
            let (name, life, since) = (held.name, client.life, self.world.now);
            let until = since + (time - time / 50).saturating_sub(2_000);
            self.watch.detaching.push(Detached { name, life, old, since, until, confirmed: false, mode: held.mode });
        }
        self.watch.detaches = Some(lease);
        self.feed(place, Input::Detach { op, lease, time });
        self.watch.detaches = None;
        let taken = self.clients[place].engine.as_ref().is_some_and(|engine| engine.lease(lease).is_none());
        let Some(held) = held.filter(|_| taken) else {
            return self.watch.detaching.retain(|it| Some(it.old) != old);
        };
        let Some(found) = self.watch.leases.find(held.life, lease) else { return };
        let held = self.watch.leases.end(self.world.now, found);
        if !self.is_adopted(held.token) {
            let hold = &mut self.watch.holds[held.client][held.name];
            hold.left(now);
            old.into_iter().for_each(|old| hold.gives_back(old));
        }
        for user in self.clients[place].users.iter_mut().filter(|user| user.lease == Some(lease)) {
            (user.lease, user.holds) = (None, 0);
        }
    }

    /// A lease was detached, and others may adopt it.
    pub(crate) fn detached(&mut self, place: usize, name: usize, token: LeaseToken) {
        if let Some(detached) = Token::read(token.text().as_bytes()).and_then(|it| self.watch.detached.get_mut(&it)) {
            detached.confirmed = true;
        }
        self.passed_on(place, name, None, token);
    }
}

/// What the watchers see.
impl ClusterRun<'_> {
    /// A client sends a command. From the first conversion on, the new token is one that nobody has.
    pub(crate) fn sends_detached(&mut self, script: &ScriptCommand) {
        if let ScriptCommand::Convert { old, new, mode, .. } = *script
            && let Some(detached) = self.watch.detaching.iter().find(|it| it.old == old && it.life == new.life)
        {
            self.watch.detached.entry(new).or_insert(Detached { mode, ..*detached });
            self.watch.adopted.entry(new).or_default();
        }
        let (ScriptCommand::Renew { token, .. } | ScriptCommand::Release { token, .. }) = *script else { return };
        if self.watch.detached.contains_key(&token) {
            let detail = format!("{script:?} for a lease that its client has detached");
            self.watch.check(broken("detached-touched", detail));
        }
    }

    /// A server has run a script: it still has the leases that were detached there.
    pub(crate) fn observe_detached(&mut self, server: usize, name: usize, script: &ScriptCommand, server_us: u64) {
        if let Some((old, _)) = script.adopts() {
            self.watch.detached.remove(&old);
        }
        let now = self.world.now;
        let lost_at = self.watch.locks[name].lost_at;
        let forced = &self.watch.forced;
        self.watch.detached.retain(|token, it| !it.confirmed || it.until > now && !forced.contains(token));
        // A reader's token is not in the lock's key.
        let is_here = |it: &Detached| it.name == name && it.confirmed && it.mode == Mode::Exclusive;
        let here = || self.watch.detached.iter().filter(|(_, it)| is_here(it));
        let kept = here().filter(|(_, it)| lost_at.is_none_or(|lost| lost < it.since));
        let holders = self.watch.keys.holders(&self.servers.models[server], server_us, name);
        let gone = kept.into_iter().find(|(token, _)| holders.iter().all(|(holder, _)| holder != *token));
        let verdict: Verdict = match gone {
            Some((token, it)) => broken("detached-kept", format!("{token:?} is gone at {now}: {it:?}, {script:?}")),
            None => Ok(()),
        };
        self.watch.check(verdict);
    }
}
