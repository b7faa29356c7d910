//! What `leasehold exec` says on standard error. The command's own output stays as it is.

use std::time::Duration;

use serde_json::json;

use crate::render::time;
use crate::report::{Failure, Output};

pub(super) struct Events<'a> {
    pub(super) output: Output,
    /// Whether to say everything: `--verbose` or `--json`. Losses are always said.
    pub(super) all: bool,
    pub(super) name: &'a str,
}

impl Events<'_> {
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
            let how = if cfg!(windows) {
                "the command is ended".to_owned()
            } else {
                format!("the command gets SIGTERM, and SIGKILL after {}", time(grace))
            };
            format!("lock `{name}`: the lease was lost: {reason}; {how}")
        });
    }

    pub(super) fn released(&self) {
        if self.all {
            let json = || json!({ "event": "released", "name": self.name });
            self.output.note(json, || format!("lock `{}`: released", self.name));
        }
    }

    /// `--at-least`: the lock stays taken for a while.
    pub(super) fn detached(&self) {
        if self.all {
            let json = || json!({ "event": "detached", "name": self.name });
            self.output.note(json, || format!("lock `{}`: stays taken until --at-least is over", self.name));
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
