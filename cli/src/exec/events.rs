//! What `leasehold exec` says on standard error. The command's own output stays as it is.

use std::time::Duration;

use leasehold::Inspection;
use serde_json::json;

use crate::render::{holder_line, object, time};
use crate::report::{ENDLESS, Failure, Output};

pub(super) struct Events<'a> {
    pub(super) output: Output,
    /// Whether to say everything: `--verbose` or `--json`. Losses and a blocked lock are always said.
    pub(super) all: bool,
    pub(super) name: &'a str,
}

impl Events<'_> {
    pub(super) fn waiting(&self, seen: Option<&Inspection>) {
        if !self.all {
            return;
        }
        let lock = seen.map(|seen| object(self.name, seen));
        let json = || json!({ "event": "busy", "name": self.name, "lock": lock });
        self.output.note(json, || {
            let holders = seen.map(|seen| seen.holders.iter().map(holder_line).collect::<Vec<_>>().join("; "));
            let waiters = seen.map_or(0, |seen| seen.waiting);
            let by = holders.filter(|line| !line.is_empty()).map(|line| format!(" by {line}")).unwrap_or_default();
            format!("lock `{}`: held{by}; {waiters} wait before this one", self.name)
        });
    }

    /// A wait that may never end is said also without `--verbose`.
    pub(super) fn blocked(&self) {
        let json = || json!({ "event": "blocked", "name": self.name });
        self.output.note(json, || {
            let what = "held by another library's key or other data, without a TTL";
            format!("lock `{}`: still waiting; {what}\n  {ENDLESS}", self.name)
        });
    }

    pub(super) fn acquired(&self, fence: u64) {
        if self.all {
            let json = || json!({ "event": "acquired", "name": self.name, "fence": fence });
            self.output.note(json, || format!("lock `{}`: acquired, fence {fence}", self.name));
        }
    }

    pub(super) fn lost(&self, reason: &str, grace: Duration) {
        let json = || json!({ "event": "lost", "name": self.name, "reason": reason });
        let name = self.name;
        self.output.note(json, || {
            format!(
                "lock `{name}`: the lease was lost: {reason}; the command gets SIGTERM, and SIGKILL after {}",
                time(grace)
            )
        });
    }

    pub(super) fn released(&self) {
        if self.all {
            let json = || json!({ "event": "released", "name": self.name });
            self.output.note(json, || format!("lock `{}`: released", self.name));
        }
    }

    pub(super) fn not_released(&self, failure: &Failure) {
        let name = self.name;
        let json = || json!({ "event": "not-released", "name": name, "error": failure.json()["error"] });
        self.output.note(json, || {
            format!("lock `{name}`: not released, so it stays taken until its TTL is over: {}", failure.message)
        });
    }
}
