//! A client that drains: it grants nothing more, takes nothing from its holders, and ends with the last of them.

use crate::client::UserState;
use crate::verdict::{Verdict, broken};
use crate::world::World;

impl World {
    /// After each input: what a client that drains looks like.
    pub(crate) fn drains_well(&self, place: u8) -> Verdict {
        let client = &self.clients[usize::from(place)];
        let Some(ends) = client.drains else { return Ok(()) };
        let is = |is_it: fn(&UserState) -> bool| client.users.iter().any(|user| is_it(&user.state));
        if is(|state| matches!(state, UserState::Waiting(_) | UserState::Adopting(_))) {
            return broken("drain-waits", format!("client {place} drains, and a user waits"));
        }
        if client.engine.as_ref().is_some_and(|engine| !engine.lingering().is_empty()) {
            return broken("drain-lingers", format!("client {place} drains, and its lease lingers"));
        }
        let goes_on = is(|state| matches!(state, UserState::Draining(_)));
        if goes_on && ends <= self.now {
            return broken("drain-late", format!("client {place} drains at {}, and had until {ends}", self.now));
        }
        match client.beliefs.first() {
            None if goes_on => {
                broken("drain-goes-on", format!("client {place} holds nothing, and drains at {}", self.now))
            }
            Some(belief) if !goes_on && self.now < ends => {
                broken("drain-early", format!("client {place} has drained, and has {belief:?} at {}", self.now))
            }
            _ => Ok(()),
        }
    }
}
