//! A lease that its client detaches, and that others adopt: nothing of its client touches it any more, it is kept for its
//! time and not for longer, and one adopter gets it.

use std::hash::Hash;
use std::time::Duration;

use leasehold_core::{Command, LeaseToken};
use leasehold_memory::Server;

use crate::clock::{self, Micros, micros};
use crate::flight::names;
use crate::keys::{NAME, holders};
use crate::verdict::{Verdict, broken};

/// The lease that a client has detached. A scenario has at most one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passing {
    detached: Option<Detached>,
    /// Its token, for adopters.
    pub(crate) token: Option<LeaseToken>,
    /// How many have adopted it.
    adopted: u8,
}

#[derive(Clone, Debug)]
struct Detached {
    /// The token that it had before.
    old: Vec<u8>,
    /// Its token on the server, once its client has asked for that.
    new: Option<Vec<u8>>,
    /// Until when the server keeps the lock at least, and at most if commands take no time.
    keeps: (Micros, Micros),
    /// How long the command was in flight. None if it was late, so the lock may stay for longer.
    took: Option<Micros>,
    /// An adoption has reached the server.
    is_taken: bool,
}

impl Passing {
    /// A client begins to detach its lease, which has this token.
    pub(crate) fn begins(&mut self, now: Micros, token: Vec<u8>, time: Duration) {
        let time = micros(time);
        // The client asks for 6 % more, because clocks may differ.
        let keeps = (now + time, now + time + time * 7 / 100 + 5_000);
        self.detached.get_or_insert(Detached { old: token, new: None, keeps, took: Some(0), is_taken: false });
    }

    /// A client sends a command. From the convert on, none is about the lease.
    pub(crate) fn sends(&mut self, command: &Command) -> Verdict {
        let Some(detached) = &mut self.detached else { return Ok(()) };
        match (converted(command), &detached.new) {
            (Some((old, new)), None) if old == detached.old => detached.new = Some(new.to_vec()),
            (None, Some(new)) if names(command, new) => {
                let words: Vec<_> = command.words().skip(1).map(String::from_utf8_lossy).collect();
                return broken("detached-touched", format!("{detached:?}, and its client sends {words:?}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The client was told that its lease is detached.
    pub(crate) fn detached(&mut self, token: LeaseToken) -> Verdict {
        self.token = Some(token);
        let new = self.detached.as_ref().and_then(|detached| detached.new.as_deref());
        if new == Some(token.text().as_bytes()) {
            return Ok(());
        }
        broken("detached-token", format!("{} was detached, and {:?} asked for", token.text(), self.detached))
    }

    /// An adopter has the lease.
    pub(crate) fn adopted(&mut self) -> Verdict {
        self.adopted += 1;
        if self.adopted == 1 { Ok(()) } else { broken("adopted-twice", format!("{self:?}")) }
    }

    /// An adopter doesn't get the lease. Then it has ended, or somebody has adopted it, or tries to.
    pub(crate) fn refused(&self, time: u64, server: &Server) -> Verdict {
        if self.is_on(time, server) { broken("not-adopted", format!("{self:?}")) } else { Ok(()) }
    }

    /// A command arrives that was sent so long ago. None if it is late.
    pub(crate) fn arrives(&mut self, command: &Command, took: Option<Micros>) {
        let Some(detached) = &mut self.detached else { return };
        let Some((old, new)) = converted(command) else { return };
        detached.is_taken |= detached.new.as_deref() == Some(old);
        if detached.new.as_deref() == Some(new) {
            detached.took = detached.took.zip(took).map(|(before, took)| before.max(took));
        }
    }

    /// In each state: the server keeps the lock for the time that was asked for, and not for longer.
    pub(crate) fn check(&self, now: Micros, server: &Server) -> Verdict {
        let Some(detached) = &self.detached else { return Ok(()) };
        let (time, (least, most)) = (clock::server(now), detached.keeps);
        let is_on = self.is_on(time, server);
        if self.token.is_some() && !detached.is_taken && now < least && !is_on {
            return broken("detached-kept", format!("the server has no such lease at {now}: {self:?}"));
        }
        let Some(took) = detached.took.filter(|_| is_on) else { return Ok(()) };
        match server.expires(time, NAME.as_bytes()) {
            Some(ends) if ends <= clock::server(most + took) => Ok(()),
            ends => broken("detached-long", format!("it ends at {ends:?}: {self:?}")),
        }
    }

    /// What makes a difference from now on.
    pub(crate) fn fingerprint(&self, now: Micros) -> impl Hash {
        let detached = self.detached.as_ref().map(|detached| {
            let Detached { old, new, keeps: (least, most), took, is_taken } = detached;
            (old, new, least.saturating_sub(now), most.saturating_sub(now), took, is_taken)
        });
        (detached, self.token.map(|token| token.text()), self.adopted)
    }

    /// Whether this is the token of the lease that was detached.
    pub(crate) fn is_detached(&self, token: &[u8]) -> bool {
        self.detached.as_ref().is_some_and(|detached| detached.new.as_deref() == Some(token))
    }

    /// Whether the server has the lease that was detached.
    fn is_on(&self, time: u64, server: &Server) -> bool {
        holders(server, time).iter().any(|token| self.is_detached(token))
    }
}

/// The tokens of a convert.
fn converted(command: &Command) -> Option<(&[u8], &[u8])> {
    let mut words = command.words();
    if words.nth(1)? != leasehold_lua::CONVERT.sha1.as_bytes() {
        return None;
    }
    let keys: usize = str::from_utf8(words.next()?).ok()?.parse().ok()?;
    Some((words.nth(keys)?, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = 1_000_000;

    /// What is said once a client was told that its lease is detached for a second, if the server has this.
    fn with(line: &[&[u8]]) -> Verdict {
        let mut passing = Passing::default();
        passing.begins(NOW, b"a:1".to_vec(), Duration::from_secs(1));
        passing.detached.as_mut().unwrap().new = Some(b"a:2".to_vec());
        let token = LeaseToken::read("00000000-0000-0000-0000-000000000005:2").unwrap();
        assert_eq!(passing.detached(token).unwrap_err().invariant, "detached-token");
        let mut server = Server::default();
        server.execute(clock::server(NOW), line).unwrap().reply.unwrap();
        passing.check(NOW, &server)
    }

    #[test]
    fn a_detached_lease_that_ends_too_early_or_too_late_is_seen() {
        assert_eq!(with(&[b"SET", b"job", b"a:2 7", b"PX", b"1050"]), Ok(()));
        assert_eq!(with(&[b"SET", b"job", b"a:2 7", b"PX", b"1080"]).unwrap_err().invariant, "detached-long");
        assert_eq!(with(&[b"SET", b"job", b"b:1 7", b"PX", b"1050"]).unwrap_err().invariant, "detached-kept");
        let mut passing = Passing::default();
        assert_eq!(passing.adopted(), Ok(()));
        assert_eq!(passing.adopted().unwrap_err().invariant, "adopted-twice");
    }
}
