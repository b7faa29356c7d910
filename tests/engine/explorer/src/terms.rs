//! The terms of an election, and what observers are told about them. Two leaders at a time are two leases that exclude each
//! other.

use leasehold_memory::Server;

use crate::keys::entry;
use crate::verdict::{Broken, Verdict, broken};

/// The terms that the server has granted: the fence and the value of each.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Terms {
    granted: Vec<(u64, String)>,
}

/// What an observer was told: the fence of a term, and whether it is over.
pub(crate) type Told = (u64, bool);

impl Terms {
    /// The server has run a command.
    pub(crate) fn ran(&mut self, time: u64, server: &Server) {
        let present = entry(server, time).and_then(|(_, fence, value)| Some((fence.parse().ok()?, value)));
        if let Some(present) = present.filter(|present| !self.granted.contains(present)) {
            self.granted.push(present);
        }
    }

    /// A campaign of the client with this value has ended with a term of this fence.
    pub(crate) fn begins(&self, fence: u64, value: &str) -> Verdict {
        if self.granted.iter().any(|term| (term.0, term.1.as_str()) == (fence, value)) {
            return Ok(());
        }
        broken("term-number", format!("{value} leads with fence {fence}, and the server had {:?}", self.granted))
    }

    /// An observer that was told one thing is told the next one. Returns that as a term.
    pub(crate) fn tells(
        &self,
        before: Option<Told>,
        leader: Option<(u64, &str)>,
        time: u64,
        server: &Server,
    ) -> Result<Told, Broken> {
        let told = leader.map_or((before.map_or(0, |(fence, _)| fence), true), |(fence, _)| (fence, false));
        if before.is_some_and(|before| told <= before) {
            broken("observer-back", format!("after {before:?}, an observer is told {told:?}"))?;
        }
        if let Some((fence, value)) = leader
            && self.begins(fence, value).is_err()
        {
            let detail = format!("an observer is told {leader:?}, and the server had {:?}", self.granted);
            broken("observer-wrong", detail)?;
        }
        if told.1 && present(time, server) == Some(told.0) {
            broken("observer-early", format!("an observer is told that term {} is over, and it is not", told.0))?;
        }
        Ok(told)
    }

    /// What an observer knows once everything has arrived.
    pub(crate) fn knows(told: Option<Told>, time: u64, server: &Server) -> bool {
        match present(time, server) {
            Some(fence) => told == Some((fence, false)),
            None => told.is_some_and(|(_, over)| over),
        }
    }
}

/// The fence of the present term.
fn present(time: u64, server: &Server) -> Option<u64> {
    entry(server, time)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SERVER_ORIGIN;

    #[test]
    fn an_observer_that_goes_back_or_is_told_wrongly_is_seen() {
        let mut server = Server::default();
        server.execute(SERVER_ORIGIN, &[b"HSET", b"job", b"a:1", b"7 chief"]).unwrap().reply.unwrap();
        let mut terms = Terms::default();
        terms.ran(SERVER_ORIGIN, &server);
        let tells =
            |before, leader| terms.tells(before, leader, SERVER_ORIGIN, &server).map_err(|broken| broken.invariant);
        assert_eq!(tells(None, Some((7, "chief"))), Ok((7, false)));
        assert_eq!(tells(Some((8, true)), Some((7, "chief"))), Err("observer-back"));
        assert_eq!(tells(Some((7, false)), Some((7, "chief"))), Err("observer-back"));
        assert_eq!(tells(None, Some((7, "other"))), Err("observer-wrong"));
        assert_eq!(tells(Some((7, false)), None), Err("observer-early"));
        assert_eq!(tells(Some((6, false)), None), Ok((6, true)));
        assert_eq!(terms.begins(8, "chief").unwrap_err().invariant, "term-number");
    }
}
