//! Who the servers of a quorum are: one server may have several addresses, and would have several votes.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// The run ids that the servers of a quorum have told so far, by the servers' places.
#[derive(Debug, Default)]
pub struct Roster(Vec<(usize, String)>);

impl Roster {
    /// Notes what the server at this place answers to `INFO server`. One that does not tell its run id is taken as it is.
    ///
    /// # Errors
    /// The place of the same server's other address.
    ///
    /// ```
    /// use leasehold_core::Roster;
    ///
    /// let mut roster = Roster::default();
    /// assert_eq!(roster.admit(0, "run_id:a1\r\n"), Ok(()));
    /// assert_eq!(roster.admit(1, "run_id:a1\r\n"), Err(0));
    /// // Started anew, it has another one.
    /// assert_eq!(roster.admit(0, "run_id:b2\r\n"), Ok(()));
    /// ```
    pub fn admit(&mut self, place: usize, info: &str) -> Result<(), usize> {
        let Some(id) = info.lines().find_map(|line| line.trim().strip_prefix("run_id:")) else { return Ok(()) };
        if let Some((other, _)) = self.0.iter().find(|(other, known)| *other != place && known == id) {
            return Err(*other);
        }
        self.0.retain(|(other, _)| *other != place);
        self.0.push((place, id.to_owned()));
        Ok(())
    }
}
