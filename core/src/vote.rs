//! What each server of a quorum said, for errors: busy, out of reach and misconfigured are told apart.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;

use crate::error::Error;
use crate::reply::Failure;

/// What one server of a quorum said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The server, as it was named to the engine.
    pub server: Arc<str>,
    /// Whether it agreed, or why it did not. None if the outcome was certain before it had answered.
    pub answer: Option<Result<(), Error>>,
}

/// One vote of each server of a quorum, in the order in which they were named; none where there is one server. As text:
/// `2 of 5 busy, 1 timed out (10.0.0.3:6379), 2 agreed`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Votes(pub(crate) Box<[Vote]>);

impl Deref for Votes {
    type Target = [Vote];
    fn deref(&self) -> &[Vote] {
        &self.0
    }
}

impl Votes {
    /// Whether a majority was there at the start. Those that refused us tell what to mend, where they leave no majority by themselves.
    ///
    /// # Errors
    /// [`Error::Unreachable`] with these votes, or what a majority refused us with.
    pub fn majority(self, waited: Duration) -> Result<(), Error> {
        let needed = self.len() / 2 + 1;
        let errors = || self.iter().filter_map(|vote| vote.answer.as_ref()?.as_ref().err());
        if self.len().saturating_sub(errors().count()) >= needed {
            return Ok(());
        }
        let refused = || errors().filter(|error| !error.is_retryable());
        if let Some(error) = refused().next().filter(|_| refused().count() >= needed) {
            return Err(error.clone());
        }
        let cause = errors().find_map(|error| match error {
            Error::Unreachable { cause, .. } => cause.clone(),
            _ => None,
        });
        Err(Error::Unreachable { waited, cause, votes: self })
    }
}

impl Vote {
    /// What it said, in a word.
    pub(crate) const fn word(&self) -> &'static str {
        match &self.answer {
            None => "not answered yet",
            Some(Ok(())) => "agreed",
            Some(Err(Error::Unreachable { cause: None | Some(Failure::TimedOut), .. })) => "timed out",
            Some(Err(error)) => error.code(),
        }
    }

    /// Whether it neither agreed nor said that somebody else has the lock.
    pub(crate) const fn failed(&self) -> bool {
        !matches!(self.answer, None | Some(Ok(()) | Err(Error::Busy { .. })))
    }
}

impl FromIterator<Vote> for Votes {
    fn from_iter<T: IntoIterator<Item = Vote>>(votes: T) -> Self {
        Self(votes.into_iter().collect())
    }
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, vote) in self.iter().enumerate() {
            let word = vote.word();
            let same = || self.iter().filter(|other| other.word() == word);
            if self.iter().take(place).any(|earlier| earlier.word() == word) {
                continue;
            }
            if place > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{}", same().count())?;
            if place == 0 {
                write!(f, " of {}", self.len())?;
            }
            write!(f, " {word}")?;
            if vote.failed() {
                let mut between = " (";
                for other in same() {
                    write!(f, "{between}{}", other.server)?;
                    between = ", ";
                }
                f.write_str(")")?;
            }
        }
        Ok(())
    }
}
