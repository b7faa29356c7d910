//! Drills: all processes have one job, and the faults are those that matter for it. The server loses no data, so nothing is
//! allowed: no second leader, and no second result.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::faults::Fault;
use crate::history::{Event, What};
use crate::limits;
use crate::worker::Moment;

/// The job of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Drill {
    /// Each process campaigns in one election, and observes it. Most faults strike the leader.
    Election,
    /// Each process calls `once` for a series of names. Most faults strike the process that works.
    Once,
    /// Each process runs jobs of many tenants, which have [limits](crate::limits). Most faults kill a process.
    Limits,
}

impl Drill {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Election, Self::Once, Self::Limits];

    /// How many callers share a worker's manager. A manager has one campaign in an election.
    pub(crate) const fn callers(self) -> u64 {
        match self {
            Self::Election => 1,
            Self::Once => 2,
            Self::Limits => 16,
        }
    }

    pub(crate) const fn client_faults(self) -> &'static [Fault] {
        use Fault::{Block, Crash, Kill, Leave, Pause, Terminate};
        match self {
            Self::Election => &[Kill, Kill, Pause, Pause, Terminate, Terminate, Block, Block],
            Self::Once => &[
                Kill,
                Pause,
                Leave,
                Block,
                Crash(Moment::BeforeWrite),
                Crash(Moment::AfterWrite),
                Crash(Moment::Storing),
                Crash(Moment::Storing),
            ],
            Self::Limits => &[Kill, Kill, Kill, Kill, Pause, Leave],
        }
    }

    /// None of them loses data.
    pub(crate) const fn server_faults(self) -> &'static [Fault] {
        use Fault::{ClientKill, Delay, Drop, Duplicate, Halve, Restart, ServerPause};
        match self {
            Self::Election => &[Restart, Restart, ServerPause, ClientKill, Drop],
            Self::Once => &[Restart, ServerPause, ClientKill, Delay, Drop, Halve, Halve, Halve, Duplicate],
            // The server's log has no gap: it shows all permits.
            Self::Limits => &[ClientKill, Delay, Halve, Duplicate],
        }
    }

    /// How long nothing strikes the server between two faults, in milliseconds. Only a leader that ends in a calm time
    /// shows how long it takes until there is a new one.
    pub(crate) const fn calm(self) -> (u64, u64) {
        match self {
            Self::Election | Self::Limits => (5_000, 12_000),
            Self::Once => (700, 3_000),
        }
    }

    /// What is still wrong after the faults, which ended at this time.
    pub(crate) fn unsettled(self, events: &[Event], since: u64, living: &[&str]) -> Option<String> {
        match self {
            Self::Election => no_leader(events, since, living),
            Self::Once => None,
            Self::Limits => limits::unserved(events, since),
        }
    }
}

/// Who leads after the faults must live, and all observers know.
fn no_leader(events: &[Event], since: u64, living: &[&str]) -> Option<String> {
    let leader = events.iter().rev().find_map(|event| match &event.what {
        What::Granted { lease, fence, .. } => Some((event.by.as_str(), *lease, *fence)),
        _ => None,
    });
    let leads = |by: &str, term: u64| {
        let last = |event: &&Event| event.at >= since && event.by == by;
        let held = |event: &Event| matches!(&event.what, What::Held { lease, .. } if *lease == term);
        events.iter().rev().take_while(|event| event.at + SCAN >= since).filter(last).any(held)
    };
    let leader = leader.filter(|(by, term, _)| living.contains(by) && leads(by, *term));
    let Some((leader, _, fence)) = leader else { return Some("nobody leads".to_owned()) };
    let knows = |observer: &&str| {
        let last = events.iter().rev().filter(|event| event.by == *observer).find_map(|event| match &event.what {
            What::Observed { fence, .. } => Some(*fence),
            _ => None,
        });
        last == Some(Some(fence))
    };
    let unaware = living.iter().find(|observer| !knows(observer))?;
    Some(format!("{unaware} doesn't know that {leader} leads with the fence {fence}"))
}

/// How far the events of several processes may be out of order, in microseconds.
const SCAN: u64 = 10_000_000;

impl fmt::Display for Drill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Election => "election",
            Self::Once => "once",
            Self::Limits => "limits",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_election_is_settled_when_a_living_process_leads_and_all_observers_know() {
        let event = |at, by: &str, what| Event { at, by: by.to_owned(), what };
        let observed =
            |at, by, fence| event(at, by, What::Observed { name: "m".to_owned(), fence, value: String::new() });
        let granted =
            What::Granted { call: 1, lease: 7, fence: 3, fences: Vec::new(), ttl: 1, renewed: true, left: 1_000 };
        let mut events = vec![event(1, "a", granted), event(5, "a", What::Held { lease: 7, left: 9 })];
        let unsettled = |events: &[Event], since| Drill::Election.unsettled(events, since, &["a", "b"]);
        events.extend([observed(2, "a", Some(3)), observed(2, "b", Some(2))]);
        let problem = unsettled(&events, 5).unwrap_or_default();
        assert!(problem.starts_with("b doesn't know"), "{problem}");
        events.push(observed(6, "b", Some(3)));
        assert_eq!(unsettled(&events, 5), None);
        assert_eq!(unsettled(&events, 6).as_deref(), Some("nobody leads"), "it has not led since then");
        let without_the_leader = Drill::Election.unsettled(&events, 5, &["b"]);
        assert_eq!(without_the_leader.as_deref(), Some("nobody leads"));
        events.push(observed(7, "b", None));
        assert!(unsettled(&events, 5).is_some());
    }
}
