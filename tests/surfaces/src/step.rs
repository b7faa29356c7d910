use std::time::Duration;

use serde_json::Value;

/// One thing to do, as it stands in a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a>(pub &'a Value);

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the surfaces' own words")]
pub enum Act {
    Open,
    Acquire,
    Try,
    Verify,
    Held,
    Nested,
    Extend,
    Downgrade,
    Upgrade,
    Inspect,
    Release,
}

impl<'a> Step<'a> {
    /// What is to be done.
    ///
    /// # Panics
    /// If that is nothing known.
    pub fn act(self) -> Act {
        match self.text("do") {
            "open" => Act::Open,
            "acquire" => Act::Acquire,
            "try" => Act::Try,
            "verify" => Act::Verify,
            "held" => Act::Held,
            "nested" => Act::Nested,
            "extend" => Act::Extend,
            "downgrade" => Act::Downgrade,
            "upgrade" => Act::Upgrade,
            "inspect" => Act::Inspect,
            "release" => Act::Release,
            other => panic!("nobody knows how to `{other}`"),
        }
    }

    /// Hand-overs inside a client that is to be opened, if it does not keep to the default.
    pub fn handoffs(self) -> Option<u32> {
        self.0["handoffs"].as_u64().and_then(|number| number.try_into().ok())
    }

    /// A word of it.
    ///
    /// # Panics
    /// If it is not there.
    pub fn text(self, key: &str) -> &'a str {
        self.0[key].as_str().unwrap_or_else(|| panic!("{} has no `{key}`", self.0))
    }

    /// Whether the lock is wanted by a reader.
    pub fn reads(self) -> bool {
        self.0["mode"] == "shared"
    }

    /// A time, if it is there.
    pub fn time(self, key: &str) -> Option<Duration> {
        self.0[key].as_u64().map(Duration::from_millis)
    }
}
