//! Which faults struck clients in which states.

use crate::faults::Fault;

listed! {
    /// What a client is doing with a lock, as seen from outside. With several locks, it may be in several states.
    pub enum State {
        /// The columns of the table.
        COLUMNS {
            /// Nothing at all.
            Idle,
            /// Its acquire is unanswered.
            Acquiring,
            /// It is in the server's queue, or was when it last received an answer.
            Waiting,
            /// The server granted it the lock, and it does not know yet.
            Granted,
            /// It holds a lease.
            Held,
            /// Its renewal is unanswered.
            Renewing,
            /// It holds, and its next local caller waits.
            HandingOver,
            /// Its refill is unanswered.
            Refilling,
            /// Its release is unanswered.
            Releasing,
            /// Its convert is unanswered.
            Converting,
            /// It closes.
            Closing,
            /// It holds a reentrant lock.
            Reentrant,
            /// It waits for a reentrant lock.
            Listening,
            /// It holds permits.
            Permits,
            /// It waits for permits.
            Queueing,
            /// A batch of its commands is unanswered.
            Batching,
        }
    }
}

impl State {
    /// How many states there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The state as a bit in a set of states.
    pub const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// How often each fault struck a client in each state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    cells: [[u64; State::COUNT]; Fault::COUNT],
}

impl Default for Coverage {
    fn default() -> Self {
        Self { cells: [[0; State::COUNT]; Fault::COUNT] }
    }
}

impl Coverage {
    /// Notes that a fault struck a client in a set of states.
    pub fn note(&mut self, fault: Fault, states: u16) {
        for state in State::ALL.iter().copied() {
            if states & state.bit() != 0 {
                self.cells[fault.index()][state as usize] += 1;
            }
        }
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.cells.iter_mut().flatten().zip(other.cells.iter().flatten()) {
            *mine += theirs;
        }
    }

    /// The required cells that were not reached.
    pub fn unreached(&self) -> Vec<(State, Fault)> {
        self.rarest()
            .into_iter()
            .take_while(|(count, ..)| *count == 0)
            .map(|(_, state, fault)| (state, fault))
            .collect()
    }

    /// The required cells with how often each was reached, the rarest first.
    pub fn rarest(&self) -> Vec<(u64, State, Fault)> {
        let all = Fault::ALL.iter().flat_map(|fault| State::ALL.iter().map(move |state| (*state, *fault)));
        let required = all.filter(|(state, fault)| required(*state, *fault));
        let mut cells: Vec<_> =
            required.map(|(state, fault)| (self.cells[fault.index()][state as usize], state, fault)).collect();
        cells.sort_by_key(|(count, ..)| *count);
        cells
    }

    /// The counts on one line, for a log.
    pub fn to_line(&self) -> String {
        self.cells.iter().flatten().map(u64::to_string).collect::<Vec<_>>().join(",")
    }

    /// Reads the output of [`to_line`](Self::to_line). None if it has another shape.
    pub fn from_line(line: &str) -> Option<Self> {
        let counts = line.split(',').map(|count| count.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let mut coverage = Self::default();
        if counts.len() != State::COUNT * Fault::COUNT {
            return None;
        }
        coverage.cells.iter_mut().flatten().zip(counts).for_each(|(cell, count)| *cell = count);
        Some(coverage)
    }

    /// The table for the user: a row for each fault, a column for each state. `-` marks a cell that can't be reached.
    pub fn table(&self) -> String {
        let mut table = format!("{:<19}", "");
        for &state in State::ALL {
            table += &format!("{:>12}", format!("{state:?}"));
        }
        for fault in Fault::ALL.iter().copied() {
            table += &format!("\n{:<19}", format!("{fault:?}"));
            for state in State::ALL.iter().copied() {
                let count = self.cells[fault.index()][state as usize];
                let text = if count == 0 && !required(state, fault) { "-".to_string() } else { count.to_string() };
                table += &format!("{text:>12}");
            }
        }
        table
    }
}

/// Whether a fault can strike a client in a state at all.
fn required(state: State, fault: Fault) -> bool {
    use Fault as F;
    use State as S;
    match fault {
        // A command is sent or granted, so the client is not idle. A grant can reach a client that took the place of the
        // one that asked, but rarely.
        F::Forced
        | F::Slow
        | F::CommandLost
        | F::ReplyLost
        | F::CommandLate
        | F::CommandTwice
        | F::Unavailable
        | F::ReplyTwice
        | F::Reordered => state != S::Idle,
        // Its theme has only locks.
        F::SlowerClock => !matches!(state, S::Reentrant | S::Listening | S::Permits | S::Queueing),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{Coverage, State};
    use crate::faults::Fault;

    #[test]
    fn counts_survive_the_log() {
        let mut coverage = Coverage::default();
        coverage.note(Fault::Flush, State::Held.bit() | State::Renewing.bit());
        let read = Coverage::from_line(&coverage.to_line()).unwrap();
        assert_eq!(read, coverage);
        assert!(!read.unreached().contains(&(State::Held, Fault::Flush)));
        assert!(read.unreached().contains(&(State::Idle, Fault::Flush)));
        assert_eq!(Coverage::from_line("1,2"), None);
    }
}
