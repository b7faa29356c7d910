//! No busy loop: the numbers of commands and wake-ups are bounded by the work.

use leasehold_harness::Micros;

use super::{Verdict, broken};

const SECOND: Micros = 1_000_000;

/// What one client does in a second of true time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    second: Micros,
    commands: u64,
    wakes: u64,
    causes: u64,
    causes_before: u64,
    /// Wake-ups at the same moment.
    standing: (Micros, u64),
}

impl Pace {
    /// A user asked for something, or something arrived.
    pub(crate) fn cause(&mut self, now: Micros) {
        self.turn(now);
        self.causes += 1;
    }

    /// The client sends a command. `load` is its number of locks, leases and waits.
    pub(crate) fn command(&mut self, now: Micros, load: u64) -> Verdict {
        self.turn(now);
        self.commands += 1;
        if self.commands > 60 + 60 * load + 8 * (self.causes + self.causes_before) {
            return broken("busy-loop", format!("{self:?} with a load of {load}"));
        }
        Ok(())
    }

    /// The client is woken.
    pub(crate) fn wake(&mut self, now: Micros, load: u64) -> Verdict {
        self.turn(now);
        self.wakes += 1;
        self.standing = if self.standing.0 == now { (now, self.standing.1 + 1) } else { (now, 1) };
        if self.standing.1 > 50 {
            return broken("spinning", format!("{} wake-ups at the same moment", self.standing.1));
        }
        if self.wakes > 200 + 200 * load + 20 * (self.causes + self.causes_before) {
            return broken("busy-loop", format!("{self:?} with a load of {load}"));
        }
        Ok(())
    }

    fn turn(&mut self, now: Micros) {
        if now - self.second >= SECOND {
            let causes_before = if now - self.second < 2 * SECOND { self.causes } else { 0 };
            let standing = self.standing;
            *self = Self { second: now - now % SECOND, causes_before, standing, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;

    #[test]
    fn commands_without_a_cause_are_seen() {
        let mut pace = Pace::default();
        let verdicts: Vec<_> = (0..200).map(|at| pace.command(at * 1_000, 1)).collect();
        assert!(verdicts[..100].iter().all(Result::is_ok));
        assert!(verdicts[150].is_err());
        assert!(pace.command(2_000_000, 1).is_ok());
    }

    #[test]
    fn wake_ups_that_move_nothing_are_seen() {
        let mut pace = Pace::default();
        assert!((0..100).map(|_| pace.wake(7, 1)).any(|verdict| verdict.is_err()));
    }
}
