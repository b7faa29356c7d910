//! What can happen next, and how a list of steps is written down.

use std::fmt;
use std::str::FromStr;

/// One step of an exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A user does what it does next.
    Act { client: u8, user: u8 },
    /// Something in flight arrives. Each has a number.
    Arrive(u16),
    /// A client's timer goes off.
    Wake(u8),
    /// A client goes on after a pause.
    Resume(u8),
    /// Time passes until the next moment at which something can happen.
    Pass,
    /// A fault.
    Fault(Fault),
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Something in flight never arrives.
    Lose(u16),
    /// Something in flight arrives twice.
    Double(u16),
    /// Something in flight takes longer than the response timeout.
    Delay(u16),
    /// A client's process dies.
    Crash(u8),
    /// A client's process stands still until its lease is over.
    Pause(u8),
    /// The server loses all keys.
    Wipe,
    /// The server loses one key: its place among [`KEYS`](crate::world::KEYS).
    Evict(u8),
    /// An operator takes the lock from its holders.
    Revoke,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Act { client, user } => write!(f, "act-{client}.{user}"),
            Self::Arrive(flight) => write!(f, "arrive-{flight}"),
            Self::Wake(client) => write!(f, "wake-{client}"),
            Self::Resume(client) => write!(f, "resume-{client}"),
            Self::Pass => write!(f, "pass"),
            Self::Fault(fault) => match fault {
                Fault::Lose(flight) => write!(f, "lose-{flight}"),
                Fault::Double(flight) => write!(f, "double-{flight}"),
                Fault::Delay(flight) => write!(f, "delay-{flight}"),
                Fault::Crash(client) => write!(f, "crash-{client}"),
                Fault::Pause(client) => write!(f, "pause-{client}"),
                Fault::Wipe => write!(f, "wipe"),
                Fault::Evict(key) => write!(f, "evict-{key}"),
                Fault::Revoke => write!(f, "revoke"),
            },
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{text}` is no step");
        let (word, number) = text.split_once('-').unwrap_or((text, "0"));
        if word == "act" {
            let (client, user) = number.split_once('.').ok_or_else(unknown)?;
            let read = |text: &str| text.parse().map_err(|_| unknown());
            return Ok(Self::Act { client: read(client)?, user: read(user)? });
        }
        let number: u16 = number.parse().map_err(|_| unknown())?;
        let small = u8::try_from(number).map_err(|_| unknown());
        Ok(match word {
            "arrive" => Self::Arrive(number),
            "wake" => Self::Wake(small?),
            "resume" => Self::Resume(small?),
            "pass" => Self::Pass,
            "lose" => Self::Fault(Fault::Lose(number)),
            "double" => Self::Fault(Fault::Double(number)),
            "delay" => Self::Fault(Fault::Delay(number)),
            "crash" => Self::Fault(Fault::Crash(small?)),
            "pause" => Self::Fault(Fault::Pause(small?)),
            "wipe" => Self::Fault(Fault::Wipe),
            "evict" => Self::Fault(Fault::Evict(small?)),
            "revoke" => Self::Fault(Fault::Revoke),
            _ => return Err(unknown()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_read_as_it_is_written() {
        let faults = [
            Fault::Lose(300),
            Fault::Double(2),
            Fault::Delay(7),
            Fault::Crash(1),
            Fault::Pause(2),
            Fault::Wipe,
            Fault::Evict(4),
            Fault::Revoke,
        ];
        let steps = [Step::Act { client: 1, user: 2 }, Step::Arrive(9), Step::Wake(1), Step::Resume(0), Step::Pass];
        for step in steps.into_iter().chain(faults.map(Step::Fault)) {
            assert_eq!(step.to_string().parse(), Ok(step));
        }
        assert!("arrive-x".parse::<Step>().is_err() && "sleep".parse::<Step>().is_err());
    }
}
