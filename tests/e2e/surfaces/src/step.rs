use std::time::Duration;

use serde_json::Value;

/// One step of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a>(pub &'a Value);

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the surfaces' own words")]
pub enum Act {
    Open,
    Acquire,
    Try,
    Adopt,
    Token,
    Verify,
    Held,
    Nested,
    Extend,
    Downgrade,
    Upgrade,
    Inspect,
    ForceRelease,
    Release,
}

/// The kinds of locks. A lock with an `owner` is reentrant, one with a `limit` is a semaphore, with a `per` a rate, and one
/// with `names` has several names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the surfaces' own words")]
pub enum Kind {
    Mutex,
    Read,
    Reentrant { owner: u64 },
    Semaphore { limit: u32, permits: u32, per: Option<Duration> },
    Multi { names: Vec<String>, one_script: bool },
}

impl<'a> Step<'a> {
    /// What the step does.
    ///
    /// # Panics
    /// If the step is unknown.
    pub fn act(self) -> Act {
        match self.text("do") {
            "open" => Act::Open,
            "acquire" => Act::Acquire,
            "try" => Act::Try,
            "adopt" => Act::Adopt,
            "token" => Act::Token,
            "verify" => Act::Verify,
            "held" => Act::Held,
            "nested" => Act::Nested,
            "extend" => Act::Extend,
            "downgrade" => Act::Downgrade,
            "upgrade" => Act::Upgrade,
            "inspect" => Act::Inspect,
            "force-release" => Act::ForceRelease,
            "release" => Act::Release,
            other => panic!("nobody knows how to `{other}`"),
        }
    }

    /// The limit of local hand-overs for a client, if it differs from the default.
    pub fn handoffs(self) -> Option<u32> {
        self.0["handoffs"].as_u64().and_then(|number| number.try_into().ok())
    }

    /// The claim window of a client: that of the step, or one that no slow machine exceeds.
    pub fn claim_window(self) -> Duration {
        self.time("claim-window").unwrap_or(Duration::from_secs(30))
    }

    /// A text that the step must have.
    ///
    /// # Panics
    /// If the text is missing.
    pub fn text(self, key: &str) -> &'a str {
        self.0[key].as_str().unwrap_or_else(|| panic!("{} has no `{key}`", self.0))
    }

    /// The kind of lock that is wanted.
    pub fn kind(self) -> Kind {
        let number = |key: &str| self.0[key].as_u64();
        if let Some(owner) = number("owner") {
            return Kind::Reentrant { owner };
        }
        if let Some(limit) = number("limit") {
            let count = |number: u64| number.try_into().unwrap_or(u32::MAX);
            let permits = count(number("permits").unwrap_or(1));
            return Kind::Semaphore { limit: count(limit), permits, per: self.time("per") };
        }
        if let Some(names) = self.0["names"].as_array() {
            let names = names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            return Kind::Multi { names, one_script: self.0["one-script"] == true };
        }
        if self.0["mode"] == "shared" { Kind::Read } else { Kind::Mutex }
    }

    /// A time, if the step has it.
    pub fn time(self, key: &str) -> Option<Duration> {
        self.0[key].as_u64().map(Duration::from_millis)
    }
}
