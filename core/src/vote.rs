//! What each server of a quorum answered, for error messages: busy, unreachable or misconfigured.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;

use crate::error::Error;
use crate::reply::Failure;

/// The answer of one server of a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The server's name, as it was given to the engine.
    pub server: Arc<str>,
    /// Whether it agreed, or why it didn't. None if the outcome was certain before it answered.
    pub answer: Option<Result<(), Error>>,
}

/// One vote for each server of a quorum, in the order of the servers. Empty without a quorum. As text:
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
    /// Checks whether a majority could be reached at the start.
    ///
    /// # Errors
    /// [`Error::Unreachable`] with these votes. If a majority refused the client (for example its login),
    /// the first of those errors.
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
    /// The answer in one word.
    pub(crate) const fn word(&self) -> &'static str {
        match &self.answer {
            None => "not answered yet",
            Some(Ok(())) => "agreed",
            Some(Err(Error::Unreachable { cause: None | Some(Failure::TimedOut), .. })) => "timed out",
            Some(Err(error)) => error.code(),
        }
    }

    /// Whether the server neither agreed nor said that another client holds the lock.
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
