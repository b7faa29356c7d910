//! The identities of a quorum's servers. A server with several addresses must not get several votes.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// The ids that the members of a quorum have reported, by member index.
#[derive(Debug, Default)]
pub struct Roster(Vec<(usize, String)>);

impl Roster {
    /// Records the `INFO server` reply of the server at index `place`. A server that hides its run id is accepted.
    ///
    /// # Errors
    /// The index of the other address, if both lead to the same server.
    ///
    /// ```
    /// use leasehold_core::Roster;
    ///
    /// let mut roster = Roster::default();
    /// assert_eq!(roster.admit(0, "run_id:a1\r\n"), Ok(()));
    /// assert_eq!(roster.admit(1, "run_id:a1\r\n"), Err(0));
    /// // After a restart, the server has another run id.
    /// assert_eq!(roster.admit(0, "run_id:b2\r\n"), Ok(()));
    /// ```
    pub fn admit(&mut self, place: usize, info: &str) -> Result<(), usize> {
        let Some(id) = info.lines().find_map(|line| line.trim().strip_prefix("run_id:")) else { return Ok(()) };
        self.admit_cluster(place, &[id])
    }

    /// Records the node ids of the cluster at index `place`, from its `CLUSTER SLOTS` reply. A cluster that hides them
    /// is accepted.
    ///
    /// # Errors
    /// The index of the other cluster, if they have a node in common.
    ///
    /// ```
    /// use leasehold_core::Roster;
    ///
    /// let mut roster = Roster::default();
    /// assert_eq!(roster.admit_cluster(0, &["a1", "b1"]), Ok(()));
    /// assert_eq!(roster.admit_cluster(1, &["c1", "b1"]), Err(0));
    /// assert_eq!(roster.admit_cluster(1, &["c1", "d1"]), Ok(()));
    /// ```
    pub fn admit_cluster(&mut self, place: usize, ids: &[impl AsRef<str>]) -> Result<(), usize> {
        let is_known = |id: &str| ids.iter().any(|own| own.as_ref() == id);
        if let Some((other, _)) = self.0.iter().find(|(other, id)| *other != place && is_known(id)) {
            return Err(*other);
        }
        self.0.retain(|(other, _)| *other != place);
        self.0.extend(ids.iter().map(|id| (place, id.as_ref().to_owned())));
        Ok(())
    }
}
