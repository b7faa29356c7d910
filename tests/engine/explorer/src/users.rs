//! What users ask for, and what they are told.

use std::time::Duration;

use leasehold_core::{Error, Input, Kind, LeaseId, Mode, OpId, Outcome, Wait};

use crate::client::{Belief, User, UserState};
use crate::clock::{self, micros};
use crate::keys::NAME;
use crate::scenario::{Action, TTL};
use crate::verdict::{Broken, Verdict};
use crate::world::World;

impl World {
    /// What a user does next, if it may. An adopter waits until a lease was detached, or never will be.
    pub(crate) fn next_of(&self, user: &User) -> Option<Action> {
        user.next().filter(|action| *action != Action::Adopt || self.may_adopt())
    }

    fn may_adopt(&self) -> bool {
        let detaches = |user: &User| {
            matches!(user.state, UserState::Detaching(_)) || user.rest.iter().any(|it| matches!(it, Action::Detach(_)))
        };
        self.watch.passing.token.is_some() || !self.clients.iter().any(|client| client.users.iter().any(detaches))
    }

    /// A user does what it does next.
    pub(crate) fn act(&mut self, client: u8, user: u8) -> Verdict {
        let place = user;
        let offered = self.watch.passing.token;
        let it = self.client_mut(client);
        let op = it.new_op();
        let user = &mut it.users[usize::from(user)];
        let (Some(action), state) = (user.next(), user.state) else { return Ok(()) };
        user.rest = &user.rest[1..];
        match (action, state) {
            (Action::Acquire(mode), _) => self.acquire(client, place, op, mode, Wait::Forever),
            (Action::Try(mode), _) => self.acquire(client, place, op, mode, Wait::No),
            (Action::Cancel, UserState::Waiting(open)) => self.feed(client, Input::Cancel { op: open }),
            (Action::Convert(mode), UserState::Holding(lease, _)) => {
                user.state = UserState::Converting(op, lease);
                self.converts(client, lease);
                self.feed(client, Input::Convert { op, lease, mode })
            }
            (Action::Shorten(ttl), UserState::Holding(lease, _)) => {
                user.state = UserState::Shortening(op, lease);
                self.converts(client, lease);
                self.feed(client, Input::Shorten { op, lease, ttl })
            }
            (Action::Release, UserState::Holding(lease, _)) => {
                user.state = UserState::Releasing(op);
                self.leaves(client, lease);
                self.feed(client, Input::Release { op, lease })
            }
            (Action::Store, UserState::Holding(lease, _)) => {
                user.state = UserState::Storing(op);
                let value = it.value(op);
                if let Some(belief) = self.leaves(client, lease) {
                    self.watch.results.given(belief.token, belief.fence, value.clone());
                }
                self.feed(client, Input::Store { op, lease, value: &value })
            }
            (Action::Detach(time), UserState::Holding(lease, _)) => {
                user.state = UserState::Detaching(op);
                if let Some(belief) = self.leaves(client, lease) {
                    self.watch.passing.begins(self.now, belief.token, time.unwrap_or(TTL));
                }
                self.feed(client, Input::Detach { op, lease, time })
            }
            (Action::Forget, _) => {
                user.state = UserState::Forgetting(op);
                self.feed(client, Input::Forget { op, name: NAME })
            }
            (Action::Campaign, _) => {
                user.state = UserState::Waiting(op);
                let (value, options) = (it.id.clone(), self.scenario.options(Mode::Exclusive, Wait::Forever));
                self.feed(client, Input::Campaign { op, name: NAME, value: &value, options: &options })
            }
            (Action::Observe, _) => {
                user.state = UserState::Observing(op);
                self.feed(client, Input::Observe { op, name: NAME })
            }
            (Action::Adopt, _) => match offered {
                Some(token) => {
                    user.state = UserState::Adopting(op);
                    let options = self.scenario.options(Mode::Exclusive, Wait::No);
                    self.feed(client, Input::Adopt { op, name: NAME, token, options: &options })
                }
                None => {
                    user.goes_on();
                    Ok(())
                }
            },
            (Action::Drain(grace), _) => self.drains(client, place, op, grace),
            (Action::Close, _) => self.closes(client, place, op),
            _ => Ok(()),
        }
    }

    fn acquire(&mut self, client: u8, user: u8, op: OpId, mode: Mode, wait: Wait) -> Verdict {
        let (options, gone) = (self.scenario.options(mode, wait), self.watch.results.gone());
        let user = &mut self.client_mut(client).users[usize::from(user)];
        (user.state, user.gone) = (UserState::Waiting(op), gone);
        self.feed(client, Input::Acquire { op, name: NAME, options: &options })
    }

    /// A lease is about to change. One that is over is reported as lost first.
    fn converts(&mut self, client: u8, lease: LeaseId) {
        let now = self.now;
        if let Some(belief) = self.client_mut(client).belief(lease).filter(|belief| belief.until > now) {
            belief.converts = true;
        }
    }

    /// A user gives its lease away. One that is over is reported as lost first.
    fn leaves(&mut self, client: u8, lease: LeaseId) -> Option<Belief> {
        let now = self.now;
        let it = self.client_mut(client);
        let belief = it.belief(lease).filter(|belief| belief.until > now)?.clone();
        it.disbelieve(lease);
        Some(belief)
    }

    fn drains(&mut self, client: u8, user: u8, op: OpId, grace: Duration) -> Verdict {
        let ends = self.now + micros(grace);
        let it = self.client_mut(client);
        (it.users[usize::from(user)].state, it.drains) = (UserState::Draining(op), Some(ends));
        self.feed(client, Input::Drain { op, grace })
    }

    /// All leases of a client that is closed end. Those who held them are not told.
    fn closes(&mut self, client: u8, user: u8, op: OpId) -> Verdict {
        let now = self.now;
        let it = self.client_mut(client);
        let held = it.beliefs.iter().filter(|belief| belief.until > now).count() as u32;
        it.beliefs.retain(|belief| belief.until <= now);
        for holder in it.users.iter_mut().filter(|user| matches!(user.state, UserState::Holding(..))) {
            (holder.rest, holder.state) = (&[], UserState::Idle);
        }
        it.users[usize::from(user)].state = UserState::Closing(op, held);
        self.feed(client, Input::Close { op })?;
        let client = &self.clients[usize::from(client)];
        match client.users.iter().find(|user| matches!(user.state, UserState::Observing(_))) {
            Some(user) => Err(Broken::new("observes-on", format!("{:?} goes on after a close", user.state))),
            None => Ok(()),
        }
    }

    /// A call has ended.
    pub(crate) fn completed(&mut self, place: u8, op: OpId, result: Result<Outcome, Error>) -> Verdict {
        use Outcome::{Acquired, Closed, Converted, Drained, Exported, Extended, Forgotten, Released, Stored};
        let (now, holds_until) = (self.now, self.now + self.scenario.longest_hold);
        let time = clock::server(now);
        let (is_calm, is_election) = (self.is_calm(), self.scenario.kind == Kind::Election);
        let value = self.clients[usize::from(place)].value(op);
        let client = self.client_mut(place);
        let Some(user) = client.caller(op) else {
            return Err(Broken::new("ended-twice", format!("client {place}: {op:?} ended again: {result:?}")));
        };
        let (was, gone) = (user.state, user.gone);
        let is_busy = matches!(result, Err(Error::Busy { .. }));
        match (result, was) {
            (Ok(Acquired(grant)), UserState::Waiting(_) | UserState::Adopting(_)) => {
                user.holds(grant.lease, holds_until);
                let token = client.token(grant.lease).unwrap_or_default();
                let (belief, id) = (Belief::new(now, &grant, token), client.id.clone());
                client.beliefs.push(belief.clone());
                if client.drains.is_some() {
                    return Err(Broken::new("drain-grants", format!("client {place} drains, and got {belief:?}")));
                }
                if matches!(was, UserState::Adopting(_)) {
                    self.watch.passing.adopted()?;
                } else {
                    self.in_order(place, op, &belief)?;
                }
                if is_election {
                    self.watch.terms.begins(belief.fence, &id)?;
                }
                if grant.local {
                    self.watch.handed_over(now, &belief)?;
                    self.hands_over(place, &belief)?;
                }
                self.watch.granted(time, &belief)
            }
            (Ok(Converted(grant)), UserState::Converting(_, lease)) => {
                user.state = UserState::Holding(lease, holds_until);
                client.disbelieve(lease);
                let token = client.token(grant.lease).unwrap_or_default();
                let belief = Belief::new(now, &grant, token);
                client.beliefs.push(belief.clone());
                self.watch.granted(time, &belief)
            }
            (Ok(Extended { .. }), UserState::Shortening(_, lease)) => {
                user.state = UserState::Holding(lease, holds_until);
                if let Some(belief) = client.belief(lease) {
                    belief.converts = false;
                }
                Ok(())
            }
            // It may go on, until the lease is over.
            (Err(_), UserState::Shortening(_, lease)) => {
                user.state = UserState::Holding(lease, now);
                Ok(())
            }
            (Err(_), UserState::Converting(_, lease)) => {
                // A conversion failed. The lease may be held as before, or lost.
                user.state = UserState::Holding(lease, now);
                let mode = client.engine.as_ref().and_then(|engine| engine.lease(lease)).map(|info| info.mode);
                if let (Some(belief), Some(mode)) = (client.belief(lease), mode) {
                    (belief.mode, belief.converts) = (mode, false);
                }
                Ok(())
            }
            (Ok(Stored { fence, value }), UserState::Waiting(_)) => {
                user.goes_on();
                self.watch.results.told(gone, fence, &value)
            }
            (Ok(Released(outcome)), UserState::Storing(_)) => {
                user.goes_on();
                self.watch.results.released(time, outcome, &value, &self.server)
            }
            (Ok(Exported(token)), UserState::Detaching(_)) => {
                user.goes_on();
                self.watch.passing.detached(token)
            }
            (Err(Error::Busy { .. } | Error::Unreachable { .. } | Error::NotHeld), UserState::Waiting(_))
                if is_election =>
            {
                Err(Broken::new("campaign-ended", format!("client {place} campaigns no more")))
            }
            (Err(Error::NotHeld), UserState::Adopting(_)) if is_calm => {
                user.goes_on();
                self.watch.passing.refused(time, &self.server)
            }
            (Ok(Drained), UserState::Draining(_)) => {
                user.goes_on();
                Ok(())
            }
            (Ok(Closed { lost, .. }), UserState::Closing(_, held)) => {
                user.goes_on();
                if lost == held {
                    return Ok(());
                }
                Err(Broken::new("close-count", format!("client {place} held {held} leases, and lost {lost}")))
            }
            (Ok(Released(_)), UserState::Releasing(_))
            | (Ok(Forgotten(_)), UserState::Forgetting(_))
            | (
                Err(_),
                UserState::Waiting(_)
                | UserState::Releasing(_)
                | UserState::Storing(_)
                | UserState::Forgetting(_)
                | UserState::Observing(_)
                | UserState::Detaching(_)
                | UserState::Adopting(_),
            ) => {
                user.goes_on();
                self.watch.refused |= is_busy && self.clients.iter().all(|client| client.beliefs.is_empty());
                Ok(())
            }
            (result, was) => Err(Broken::new("answer", format!("client {place}: {was:?} got {result:?}"))),
        }
    }
}
