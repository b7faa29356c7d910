//! What `exec` and `lead` say on standard error. The command's own output stays as it is.

use std::fmt::Display;
use std::time::Duration;

use serde_json::json;

use crate::render::time;
use crate::report::{Failure, Output};

/// What is held, in the words of its command.
pub(super) struct Words {
    what: &'static str,
    /// The lease, and the command that runs meanwhile.
    lease: &'static str,
    command: &'static str,
    /// The events, for programs.
    acquired: &'static str,
    released: &'static str,
    /// What a grant is, before the fence.
    grant: &'static str,
    /// What follows if it can't be given back.
    kept: &'static str,
}

pub(super) const LOCK: Words = Words {
    what: "lock",
    lease: "lease",
    command: "command",
    acquired: "acquired",
    released: "released",
    grant: "acquired, fence",
    kept: "not released, so it stays taken until its TTL is over",
};

pub(super) const ELECTION: Words = Words {
    what: "election",
    lease: "term",
    command: "program",
    acquired: "leads",
    released: "resigned",
    grant: "leads, term",
    kept: "not resigned, so nobody leads until the TTL is over",
};

pub(super) struct Events<'a> {
    pub(super) output: Output,
    /// Whether to say everything: `--verbose` or `--json`. Losses are always said.
    pub(super) all: bool,
    pub(super) name: &'a str,
    pub(super) words: &'static Words,
}

impl Events<'_> {
    pub(super) fn acquired(&self, fence: u64) {
        if self.all {
            let Words { what, grant, acquired, .. } = self.words;
            let json = || json!({ "event": acquired, "name": self.name, "fence": fence });
            self.output.note(json, || format!("{what} `{}`: {grant} {fence}", self.name));
        }
    }

    pub(super) fn lost(&self, reason: &str, grace: Duration) {
        let json = || json!({ "event": "lost", "name": self.name, "reason": reason });
        let (name, Words { what, lease, command, .. }) = (self.name, self.words);
        self.output.note(json, || {
            let how = if cfg!(windows) {
                format!("the {command} is ended")
            } else {
                format!("the {command} gets SIGTERM, and SIGKILL after {}", time(grace))
            };
            format!("{what} `{name}`: the {lease} was lost: {reason}; {how}")
        });
    }

    pub(super) fn released(&self) {
        if self.all {
            let Words { what, released, .. } = self.words;
            let json = || json!({ "event": released, "name": self.name });
            self.output.note(json, || format!("{what} `{}`: {released}", self.name));
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
        let (name, Words { what, kept, .. }) = (self.name, self.words);
        let json = || json!({ "event": "not-released", "name": name, "error": failure.json()["error"] });
        self.output.note(json, || format!("{what} `{name}`: {kept}: {}", failure.message));
    }

    /// It was lost while the command ended, or while this process was paused.
    pub(super) fn was_lost(&self, reason: &str, ended: impl Display) {
        let (name, Words { what, lease, command, .. }) = (self.name, self.words);
        let json = || json!({ "event": "lost", "name": name, "reason": reason });
        self.output.note(json, || format!("{what} `{name}`: the {lease} was lost: {reason}; the {command} {ended}"));
    }
}
