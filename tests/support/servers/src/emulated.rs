//! Servers that behave as some services do. A user without a right stands for what the service refuses.

use crate::cluster::SLOTS;
use crate::error::Error;
use crate::locate::find;
use crate::replication::says;
use crate::server::{Builder, Server};
use crate::version::banner;
use crate::wait::until;

/// Whether the server that the tests use has `PEXPIRETIME`. Redis 6.2 doesn't.
pub fn has_pexpiretime() -> bool {
    !find().ok().and_then(|program| banner(&program)).is_some_and(|banner| banner.contains(" v=6."))
}

impl Builder {
    /// Refuses `TIME`, in scripts too, as some services were reported to do.
    #[must_use]
    pub fn refusing_time(self) -> Self {
        self.acl("default", "on nopass ~* &* +@all -time")
    }

    /// Gives scripts no time: they may not run `TIME`, and there is no `PEXPIRETIME`. Redis 6.2 refuses to rename what it hasn't.
    #[must_use]
    pub fn without_clock(self) -> Self {
        if has_pexpiretime() {
            self.config("rename-command TIME \"\"\nrename-command PEXPIRETIME \"\"\n")
        } else {
            self.refusing_time()
        }
    }

    /// Starts a server that enforces the slots of a cluster at one address and refuses `CLUSTER`, as Redis Enterprise and the proxies of
    /// some clouds do: a call with keys of two slots fails with `CROSSSLOT`.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub fn start_enforcing_slots(self) -> Result<Server, Error> {
        let server = self.arg("--cluster-enabled", "yes").start()?;
        let slots = (0..SLOTS).map(|slot| slot.to_string());
        let words: Vec<String> = ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter().chain(slots).collect();
        server.cli(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
        until("all slots are served", || says(&server, &["CLUSTER", "INFO"], "cluster_state:ok"))?;
        server.cli(&["ACL", "SETUSER", "default", "-cluster", "-readonly", "-readwrite", "-asking"])?;
        Ok(server)
    }
}
