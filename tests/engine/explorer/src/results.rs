//! The results of a once: there is at most one, only the holder stores one, and every caller gets it.

use std::fmt;

use leasehold_core::ReleaseOutcome;
use leasehold_memory::Server;

use crate::keys::{RESULT, entry, holders};
use crate::verdict::{Verdict, broken};

/// What the invariants remember about the results of a once.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Results {
    /// What holders gave their leases back with.
    given: Vec<Stored>,
    /// Every result that the server has had.
    stored: Vec<Stored>,
    /// How many of them it has no more.
    gone: u8,
}

/// A result, with the token and the fence of its writer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) token: Vec<u8>,
    pub(crate) fence: u64,
    pub(crate) value: Vec<u8>,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [token, value] = [&self.token, &self.value].map(|bytes| String::from_utf8_lossy(bytes));
        write!(f, "{value} of {token} with fence {}", self.fence)
    }
}

impl Stored {
    /// The result that the server has.
    pub(crate) fn on(server: &Server, time: u64) -> Option<Self> {
        let mut words = server.text(time, RESULT.as_bytes())?.splitn(3, |byte| *byte == b' ');
        let [token, fence, value] = std::array::from_fn(|_| words.next());
        let fence = str::from_utf8(fence?).ok()?.parse().ok()?;
        Some(Self { token: token?.to_vec(), fence, value: value?.to_vec() })
    }
}

/// What the server had before a command.
pub(crate) struct Before {
    result: Option<Stored>,
    /// The holder with its fence.
    holder: Option<(Vec<u8>, String)>,
}

impl Before {
    pub(crate) fn of(server: &Server, time: u64) -> Self {
        Self { result: Stored::on(server, time), holder: entry(server, time).map(|(token, _, fence)| (token, fence)) }
    }
}

impl Results {
    /// A holder gives its lease back with a result.
    pub(crate) fn given(&mut self, token: Vec<u8>, fence: u64, value: Vec<u8>) {
        self.given.push(Stored { token, fence, value });
    }

    /// How many results the server has had and lost. A caller that begins now gets none of them.
    pub(crate) const fn gone(&self) -> u8 {
        self.gone
    }

    /// The server has no result.
    pub(crate) fn lost(&mut self) {
        self.gone = self.stored.len() as u8;
    }

    /// The server has run a command.
    pub(crate) fn ran(&mut self, time: u64, before: &Before, after: &Server) -> Verdict {
        let result = Stored::on(after, time);
        if let (Some(result), Some(token)) = (&result, holders(after, time).first()) {
            let token = String::from_utf8_lossy(token);
            return broken("once-again", format!("{token} holds the lock, and the server has {result:?}"));
        }
        let Some(result) = result else {
            self.lost();
            return Ok(());
        };
        match &before.result {
            Some(before) if *before == result => return Ok(()),
            Some(before) => return broken("once-again", format!("{before:?} became {result:?}")),
            None => {}
        }
        let given = self.given.iter().find(|it| it.token == result.token && it.value == result.value);
        let held = before.holder.as_ref().map(|(token, fence)| (String::from_utf8_lossy(token), fence));
        let detail = || format!("{result:?} was stored, {held:?} held the lock, {given:?} was given");
        let is_holder = before.holder.as_ref().is_some_and(|(token, _)| *token == result.token);
        let Some(given) = given.filter(|_| is_holder) else { return broken("once-loser", detail()) };
        let held = before.holder.as_ref().and_then(|(_, fence)| fence.parse().ok());
        if held != Some(result.fence) || given.fence != result.fence {
            return broken("once-fence", detail());
        }
        self.stored.push(result);
        Ok(())
    }

    /// A call that began when so many results were gone has ended with this one.
    pub(crate) fn told(&self, gone: u8, fence: u64, value: &[u8]) -> Verdict {
        let found = self.stored.iter().skip(gone.into()).any(|it| (it.fence, it.value.as_slice()) == (fence, value));
        if found {
            return Ok(());
        }
        let value = String::from_utf8_lossy(value);
        broken(
            "once-value",
            format!("a call got {value} with fence {fence}, and {gone} were gone of {:?}", self.stored),
        )
    }

    /// A holder was told what has become of its result.
    pub(crate) fn released(&self, time: u64, outcome: ReleaseOutcome, value: &[u8], server: &Server) -> Verdict {
        let was_stored = self.stored.iter().any(|it| it.value == value);
        let is_stored = Stored::on(server, time).is_some_and(|it| it.value == value);
        let is_true = if outcome == ReleaseOutcome::Released { was_stored } else { !is_stored };
        if is_true { Ok(()) } else { broken("once-untrue", format!("{outcome:?}, of {:?}", self.stored)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SERVER_ORIGIN;

    fn server(lines: &[&str]) -> Server {
        let mut server = Server::default();
        for line in lines {
            let words: Vec<&[u8]> = line.split('|').map(str::as_bytes).collect();
            server.execute(SERVER_ORIGIN, &words).unwrap().reply.unwrap();
        }
        server
    }

    /// What is said of a result that a server gets.
    fn stored(by: &str, fence: u64) -> Result<Results, &'static str> {
        let mut results = Results::default();
        results.given(b"a:1".to_vec(), 7, b"42".to_vec());
        let before = Before::of(&server(&["HSET|job|a:1|once 7"]), SERVER_ORIGIN);
        let after = server(&[&format!("SET|leasehold:{{job}}:result|{by} {fence} 42")]);
        results.ran(SERVER_ORIGIN, &before, &after).map_err(|broken| broken.invariant)?;
        Ok(results)
    }

    #[test]
    fn only_the_holder_stores_a_result_under_its_own_fence() {
        assert!(stored("a:1", 7).is_ok());
        assert_eq!(stored("b:1", 7).unwrap_err(), "once-loser");
        assert_eq!(stored("a:1", 8).unwrap_err(), "once-fence");
    }

    #[test]
    fn a_second_result_and_a_holder_beside_one_are_seen() {
        let first = server(&["SET|leasehold:{job}:result|a:1 7 42"]);
        let before = Before::of(&first, SERVER_ORIGIN);
        let after = |lines: &[&str]| {
            let mut results = stored("a:1", 7).unwrap();
            results.ran(SERVER_ORIGIN, &before, &server(lines)).map_err(|broken| broken.invariant)
        };
        assert_eq!(after(&["SET|leasehold:{job}:result|a:1 7 42"]), Ok(()));
        assert_eq!(after(&["SET|leasehold:{job}:result|b:1 9 43"]), Err("once-again"));
        let beside = ["SET|leasehold:{job}:result|a:1 7 42", "HSET|job|b:1|once 9"];
        assert_eq!(after(&beside), Err("once-again"));
    }

    #[test]
    fn a_caller_gets_a_result_that_was_there_since_it_asked() {
        let mut results = stored("a:1", 7).unwrap();
        assert_eq!(results.told(0, 7, b"42"), Ok(()));
        assert_eq!(results.told(0, 7, b"43").unwrap_err().invariant, "once-value");
        let nothing = server(&[]);
        results.ran(SERVER_ORIGIN, &Before::of(&nothing, SERVER_ORIGIN), &nothing).unwrap();
        assert_eq!(results.told(results.gone(), 7, b"42").unwrap_err().invariant, "once-value");
    }
}
