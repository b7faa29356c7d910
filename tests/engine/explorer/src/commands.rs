//! What clients tell the server: each ask has a token of its own, and whoever gives a lock back tells which fences it used.

use leasehold_core::{Command, Failure, Reply, Scalar};
use leasehold_memory::Server;

use crate::clock::{self, Micros, micros};
use crate::invariants::Watch;
use crate::keys::{KEYS, holders};
use crate::scenario::TTL;
use crate::verdict::{Broken, Verdict};
use crate::world::World;

impl World {
    /// A client sends a command. It never asks for a lock by a token that it holds, except for more fences, and a
    /// conversion has a new token.
    pub(crate) fn tells(&self, place: u8, command: &Command) -> Verdict {
        let words: Vec<&[u8]> = command.words().collect();
        let (Some(script), Some(arguments)) = (words.get(1), arguments(&words)) else { return Ok(()) };
        let is = |it: &leasehold_lua::Script| *script == it.sha1.as_bytes();
        let token = arguments.first().copied().unwrap_or_default();
        let held = self.clients[usize::from(place)].beliefs.iter().find(|belief| belief.token == token);
        let broken = |invariant, what| match held {
            Some(held) => Err(Broken::new(invariant, format!("client {place} has {held:?}, and {what}"))),
            None => Ok(()),
        };
        let acquires = [leasehold_lua::ACQUIRE, leasehold_lua::once::ACQUIRE, leasehold_lua::election::ACQUIRE];
        if acquires.iter().any(is) && arguments.get(3) != Some(&&b"refill"[..]) {
            return broken("asked-again", "asks for it again");
        }
        if is(&leasehold_lua::CONVERT) && arguments.get(1) == Some(&token) {
            return broken("convert-token", "converts it without a new token");
        }
        Ok(())
    }
}

/// How much earlier than after a TTL an observer may ask again.
const EARLY: Micros = 200_000;

impl World {
    /// A client sends a command. If nothing goes wrong and nothing new happens, its observer asks once for each TTL.
    pub(crate) fn asks(&mut self, place: u8, command: &Command) -> Verdict {
        if command.words().nth(1) != Some(leasehold_lua::election::LEADER.sha1.as_bytes()) {
            return Ok(());
        }
        let (now, is_calm) = (self.now, self.is_calm());
        match self.client_mut(place).asked_at.replace(now) {
            Some(before) if is_calm && now < before + micros(TTL) - EARLY => {
                let detail = format!("the observer of client {place} asks at {now}, and has asked at {before}");
                Err(Broken::new("asks-often", detail))
            }
            _ => Ok(()),
        }
    }
}

impl Watch {
    /// The server has run a command. If a holder has given the lock back or converted it, the next fence is above every
    /// fence that writers used. If it was to give the lock back by the fast path and didn't, then somebody waits.
    /// `had` are the holders before.
    pub(crate) fn ran<'a>(
        &self,
        now: Micros,
        words: &[&'a [u8]],
        reply: &Result<Reply, Failure>,
        had: &[Vec<u8>],
        server: &'a Server,
    ) -> Verdict {
        let time = clock::server(now);
        let has = holders(server, time);
        let counter = server.text(time, KEYS[1].as_bytes()).and_then(|text| str::from_utf8(text).ok()?.parse().ok());
        if let Some(token) = had.iter().find(|token| !has.contains(token))
            && self.used_by_writers > counter.unwrap_or(0_u64).max(time - 1)
        {
            let (token, used) = (String::from_utf8_lossy(token), self.used_by_writers);
            let detail = format!("{token} gave the lock back, {used} was used, and the counter is at {counter:?}");
            return Err(Broken::new("used-untold", detail));
        }
        let is_undone = matches!(reply, Ok(Reply::One(Scalar::Int(0))));
        let gives_back = words.get(1) == Some(&leasehold_lua::RELEASE_FAST.sha1.as_bytes());
        let value = server.text(time, KEYS[0].as_bytes()).unwrap_or_default();
        if gives_back && is_undone && !value.contains(&b'*') {
            let token = |value: &'a [u8]| value.split(|byte| *byte == b' ').next();
            if token(words.last().copied().unwrap_or_default()) == token(value) {
                let detail = format!("{} was not given back, and nobody waits", String::from_utf8_lossy(value));
                return Err(Broken::new("release-undone", detail));
            }
        }
        Ok(())
    }
}

/// What comes after a script's keys.
fn arguments<'a>(words: &'a [&'a [u8]]) -> Option<&'a [&'a [u8]]> {
    let keys: usize = str::from_utf8(words.get(2)?).ok()?.parse().ok()?;
    words.get(3 + keys..)
}
