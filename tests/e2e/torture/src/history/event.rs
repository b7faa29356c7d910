use std::collections::BTreeMap;
use std::fmt;
use std::num::ParseIntError;

use serde::{Deserialize, Serialize};

/// The source of the events about faults and processes.
pub const HARNESS: &str = "harness";

/// Something that happened. A line of a history is an event as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, in microseconds of [`now`](super::now).
    pub at: u64,
    /// Who recorded it: a process such as `rust-1.2`, [`HARNESS`], or a server. A worker leaves it out, and the harness
    /// adds it.
    #[serde(default)]
    pub by: String,
    /// What it is.
    #[serde(flatten)]
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What {
    /// A worker makes a call. This is recorded before the call.
    Began {
        /// The call's number in this process.
        call: u64,
        /// Which call it is.
        op: Op,
        /// The lock. Several names are joined by `, `: see [`names`]. Empty for a close.
        #[serde(default)]
        name: String,
        /// Which share of the lock it asks for. A release and a close have none. If these are permits of several
        /// semaphores, they are those of the last one, and it takes one permit of each other one.
        #[serde(default)]
        share: Option<Share>,
        /// The owner's number in this process, if the lock is reentrant.
        #[serde(default)]
        owner: Option<u64>,
        /// The lease that it releases or converts.
        #[serde(default)]
        lease: Option<u64>,
        /// The call's documented time in milliseconds.
        within: u64,
    },
    /// An acquire has returned a lease, or a conversion was made. This is recorded after the call.
    Granted {
        /// The call.
        call: u64,
        /// The lease's number in this process. A conversion gives it a new one.
        lease: u64,
        /// Its fencing token. The greatest one, if it has several names.
        fence: u64,
        /// The fencing token of each name, in the order of the names. Empty if there is only one name.
        #[serde(default)]
        fences: Vec<u64>,
        /// Its TTL in milliseconds.
        ttl: u64,
        /// Whether it is renewed.
        renewed: bool,
        /// How long it is still valid, in microseconds.
        left: u64,
    },
    /// A call has returned anything else.
    Ended {
        /// The call.
        call: u64,
        /// An error's code, `busy` for a try that returned nothing, or the outcome of a release.
        outcome: String,
    },
    /// The worker has looked at its lease, and the lease is valid.
    Held {
        /// The lease.
        lease: u64,
        /// How long it is still valid, in microseconds.
        left: u64,
    },
    /// The worker was notified that its lease is lost.
    Lost {
        /// The lease.
        lease: u64,
        /// The code of the reason.
        reason: String,
    },
    /// The work of a `once` has done what it does. Its result is about to be stored.
    Wrote {
        /// The call that stores the result.
        call: u64,
        /// The result, which no other work has.
        value: String,
    },
    /// A call of `once` has returned a result.
    Answered {
        /// The call that asked for the result or stored it.
        call: u64,
        /// The result.
        value: String,
    },
    /// An observer has learned who leads.
    Observed {
        /// The election.
        name: String,
        /// The term's fence. None if nobody leads.
        #[serde(default)]
        fence: Option<u64>,
        /// What the leader tells about itself.
        #[serde(default)]
        value: String,
    },
    /// A semaphore of the run.
    Limit {
        /// Its name.
        name: String,
        /// How many permits count at the same time.
        limit: u32,
        /// How long a permit counts from its grant on, if it is a rate, in milliseconds.
        #[serde(default)]
        per: Option<u64>,
    },
    /// How many permits of each semaphore count, read by one script. [`Entry::Read`] shows when.
    Counted {
        /// Which script it was.
        number: u64,
        /// When, in milliseconds of the server's clock.
        clock: u64,
        /// The permits, by name.
        permits: BTreeMap<String, u64>,
    },
    /// A server answered nothing from then until now, although no fault struck it: the machine is busy.
    Silent {
        /// Since when, in microseconds of the shared clock.
        from: u64,
    },
    /// A process has found out how its tokens begin.
    Client {
        /// What all of its tokens have in common.
        id: String,
    },
    /// The process did nothing from then until now, although it had something to do: it was paused, or others used the
    /// processor.
    Stalled {
        /// Since when, in microseconds of the shared clock.
        from: u64,
    },
    /// The harness has started this process.
    Started {
        /// The process.
        process: String,
    },
    /// The harness is about to kill this process.
    Killed {
        /// The process.
        process: String,
    },
    /// The harness has asked this process to finish, or a run is over.
    Asked {
        /// The process.
        process: String,
    },
    /// The process has exited.
    Exited {
        /// The process.
        process: String,
        /// Whether it was meant to: it was asked or killed.
        expected: bool,
    },
    /// A fault begins.
    FaultBegan {
        /// The fault's number in this run.
        number: u64,
        /// Its kind.
        fault: String,
        /// What it strikes.
        target: String,
    },
    /// A server was down from then until now. No command was run in this time.
    Down {
        /// Since when, in microseconds of the shared clock.
        from: u64,
    },
    /// After the faults, something did not become right, however long the harness waited.
    Unsettled {
        /// What is wrong.
        problem: String,
    },
    /// A fault is over.
    FaultEnded {
        /// The fault's number in this run.
        number: u64,
        /// The locks whose data may be lost, or `*` for all locks. None if no data can be lost.
        #[serde(default)]
        lost: Vec<String>,
        /// The time of day at its end, in microseconds. Servers draw fences from it.
        #[serde(default)]
        day: u64,
    },
    /// Something that a server did, by its own log.
    Server {
        /// What it did.
        entry: Entry,
    },
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// An acquire that waits.
    Acquire,
    /// A try.
    Try,
    /// A writer becomes a reader.
    Downgrade,
    /// The only reader becomes a writer.
    Upgrade,
    /// A release.
    Release,
    /// A release that stores the result of a `once`.
    Store,
    /// The manager's close.
    Close,
}

/// The share of a lock that a lease has. As text: `exclusive`, `shared`, or `2/3` for two of three permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Share {
    /// Nobody else.
    Exclusive,
    /// Others may share it too.
    Shared,
    /// Some of a semaphore's permits.
    Permits {
        /// How many.
        permits: u32,
        /// How many there are.
        limit: u32,
    },
}

impl Share {
    /// Whether two leases of one name can't be valid together. Permits are counted instead.
    pub fn excludes(self, other: Self) -> bool {
        !matches!(self, Self::Permits { .. }) && (self == Self::Exclusive || other == Self::Exclusive)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Shared => f.write_str("shared"),
            Self::Permits { permits, limit } => write!(f, "{permits}/{limit}"),
        }
    }
}

impl From<Share> for String {
    fn from(share: Share) -> Self {
        share.to_string()
    }
}

impl TryFrom<String> for Share {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no share of a lock: use `exclusive`, `shared` or `2/3`");
        match text.as_str() {
            "exclusive" => Ok(Self::Exclusive),
            "shared" => Ok(Self::Shared),
            permits => {
                let (permits, limit) = permits.split_once('/').ok_or_else(wrong)?;
                let number = |text: &str| text.parse().map_err(|_: ParseIntError| wrong());
                Ok(Self::Permits { permits: number(permits)?, limit: number(limit)? })
            }
        }
    }
}

/// The names of a lock: one, or several that are taken together.
pub fn names(name: &str) -> impl Iterator<Item = &str> {
    name.split(", ")
}

/// Permits that a server has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permits {
    /// How many.
    pub count: u32,
    /// Their fence.
    pub fence: u64,
}

/// What a server does with the queue of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// A token joins the queue.
    Joined {
        /// The lock.
        name: String,
        /// The waiter's token.
        token: String,
        /// Its place: smaller is earlier.
        score: u64,
    },
    /// A waiter shows that it is alive.
    Alive {
        /// The lock.
        name: String,
        /// The waiter's token.
        token: String,
        /// How long it counts as alive, in milliseconds of the server's clock.
        until: u64,
    },
    /// A token leaves the queue. If it is granted, [`Entry::Admitted`] follows.
    Left {
        /// The lock.
        name: String,
        /// The waiter's token.
        token: String,
    },
    /// A token gets the lock, or its share of it.
    Admitted {
        /// The lock.
        name: String,
        /// The token.
        token: String,
        /// Whether it holds the lock alone.
        exclusive: bool,
        /// When, in milliseconds of the server's clock.
        clock: u64,
        /// What it gets, if the lock is a semaphore.
        #[serde(default)]
        permits: Option<Permits>,
    },
    /// The permits of a token count until then. They are new, or renewed.
    Counts {
        /// The semaphore.
        name: String,
        /// The token.
        token: String,
        /// In milliseconds of the server's clock.
        until: u64,
        /// When this was written, in milliseconds of the server's clock.
        clock: u64,
    },
    /// The permits of a token no longer count.
    Freed {
        /// The semaphore.
        name: String,
        /// The token.
        token: String,
    },
    /// A client tells its label.
    Labelled {
        /// How the tokens of the client begin.
        client: String,
        /// The label.
        label: String,
    },
    /// The script with this number reads how many permits count: see [`What::Counted`].
    Read {
        /// Which script it is.
        number: u64,
    },
    /// The result of a `once` is stored.
    Stored {
        /// The lock.
        name: String,
        /// The token of the lease that it comes from.
        token: String,
        /// The result.
        value: String,
    },
    /// The log has a gap, or the server has forgotten its data.
    Forgot,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_of_json_that_reads_back() {
        let line =
            r#"{"at":17,"by":"node-1.0","what":"began","call":3,"op":"acquire","name":"m","share":"2/3","within":500}"#;
        let event: Event = serde_json::from_str(line).unwrap();
        let share = Some(Share::Permits { permits: 2, limit: 3 });
        let (name, owner, lease) = ("m".to_owned(), None, None);
        let what = What::Began { call: 3, op: Op::Acquire, name, share, owner, lease, within: 500 };
        assert_eq!(event, Event { at: 17, by: "node-1.0".to_owned(), what });
        let again: Event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
        assert_eq!(again, event);
    }

    #[test]
    fn a_line_with_an_unknown_share_is_refused() {
        let line = r#"{"at":17,"what":"began","call":3,"op":"acquire","name":"m","share":"two","within":500}"#;
        let problem = serde_json::from_str::<Event>(line).unwrap_err().to_string();
        assert!(problem.contains("`two` is no share of a lock"), "{problem}");
    }

    #[test]
    fn an_entry_of_a_server_reads_back() {
        let entry = Entry::Joined { name: "m".to_owned(), token: "a:1".to_owned(), score: 5 };
        let event = Event { at: 1, by: "server".to_owned(), what: What::Server { entry } };
        let again: Event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
        assert_eq!(again, event);
    }
}
