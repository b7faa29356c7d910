//! Parses a script's answer. `lua/README.md` describes the list.

use crate::time::Duration;
use alloc::string::String;

use super::reply::{Reply, Scalar};
use crate::options::LONGEST_TTL;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Entered,
    Again,
    Converted,
    Waiting,
    Busy,
    /// A once has a result, which follows the numbers.
    Done,
    Renewed,
    Released,
    Left,
    Gone,
    Taken,
    Conflict,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    /// The fence, or the position in the queue.
    pub(crate) value: u64,
    /// How many fences are reserved, including the first. For a waiter: 1 if it should ask again at once.
    pub(crate) block: u64,
    /// The server's time in µs.
    pub(crate) server: u64,
    /// How long the server keeps the lease, or the holder's lease if another client holds the lock.
    pub(crate) left: Option<Duration>,
    /// The length of the queue, if the script read it.
    pub(crate) waiting: Option<u64>,
    /// Whether a client of another library holds the lock.
    pub(crate) foreign: bool,
    /// How many callers wait at other clients, if that was asked.
    pub(crate) elsewhere: Option<u32>,
}

const WORDS: [(&str, Status); 13] = [
    ("entered", Status::Entered),
    ("again", Status::Again),
    ("converted", Status::Converted),
    ("waiting", Status::Waiting),
    ("busy", Status::Busy),
    ("done", Status::Done),
    ("renewed", Status::Renewed),
    ("raised", Status::Renewed),
    ("released", Status::Released),
    ("left", Status::Left),
    ("gone", Status::Gone),
    ("taken", Status::Taken),
    ("conflict", Status::Conflict),
];

impl Answer {
    /// Parses a reply. The error says what is wrong with it.
    pub(crate) fn read(reply: &Reply) -> Result<Self, String> {
        Self::of(reply).ok_or_else(|| ["expected a status and six numbers, got ", &reply.shown()].concat())
    }

    fn of(reply: &Reply) -> Option<Self> {
        let Reply::List(list) = reply else { return None };
        // The holder may follow: see `labels`.
        let [status, value, block, server, ms, waiting, foreign, ..] = list.as_slice() else { return None };
        let count = |scalar: &Scalar| integer(scalar).map(|number| u64::try_from(number).ok());
        let (value, block) = (count(value)??, count(block)??);
        let (status, left) = (Self::status(status)?, count(ms)?);
        // A holder that is not our client may have any TTL.
        let ours = !matches!(status, Status::Waiting | Status::Busy);
        Some(Self {
            status,
            value: fence(value, block)?,
            block,
            server: count(server)??,
            left: if ours { time_left(left)? } else { left.map(Duration::from_millis) },
            waiting: count(waiting)?,
            foreign: integer(foreign)? == 1,
            elsewhere: list.get(9).and_then(natural).map(|callers| u32::try_from(callers).unwrap_or(u32::MAX)),
        })
    }

    /// The result of a once, which follows the numbers.
    pub(crate) fn result(reply: &Reply) -> &[u8] {
        match reply {
            Reply::List(list) => match list.get(7) {
                Some(Scalar::Text(result)) => result,
                _ => b"",
            },
            Reply::One(_) => b"",
        }
    }

    pub(crate) fn status(scalar: &Scalar) -> Option<Status> {
        let Scalar::Text(text) = scalar else { return None };
        WORDS.iter().find(|(word, _)| word.as_bytes() == text).map(|(_, status)| *status)
    }
}

/// The first of `count` fences, if Lua and JavaScript can represent all of them exactly.
pub(crate) fn fence(first: u64, count: u64) -> Option<u64> {
    (first.saturating_add(count) <= MOST_FENCE).then_some(first)
}

/// The time that a lease has left, in milliseconds, if it is plausible.
pub(crate) fn time_left(millis: Option<u64>) -> Option<Option<Duration>> {
    let left = millis.map(Duration::from_millis);
    left.is_none_or(|left| left <= MOST_LEFT).then_some(left)
}

const MOST_FENCE: u64 = 1 << 53;
/// The longest TTL, with a day of room for drift and timers.
const MOST_LEFT: Duration = LONGEST_TTL.saturating_add(Duration::from_secs(24 * 3600));
const _: () = assert!(MOST_LEFT.as_millis() + 1 == leasehold_lua::CUT_TTL as u64, "lua/src/limits.rs cuts elsewhere");

/// A number that is not negative, as a number or as text.
pub(crate) fn natural(scalar: &Scalar) -> Option<u64> {
    u64::try_from(integer(scalar)?).ok()
}

/// An integer, as a number or as text.
pub(crate) fn integer(scalar: &Scalar) -> Option<i64> {
    match scalar {
        Scalar::Int(number) => Some(*number),
        Scalar::Text(text) => signed(core::str::from_utf8(text).ok()?),
        Scalar::Nil => None,
    }
}

/// What `str::parse` gives, without the code of a second type of number.
fn signed(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(size) if !size.starts_with('+') => 0_i64.checked_sub_unsigned(size.parse().ok()?),
        _ => i64::try_from(text.parse::<u64>().ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn list(status: &str) -> alloc::vec::Vec<Scalar> {
        let mut list = vec![Scalar::Text(status.into())];
        list.extend([7, 3, 1_000_000, 250, 2, 0].map(Scalar::Int));
        list
    }

    #[test]
    fn a_well_formed_answer_is_read() {
        let answer = Answer::read(&Reply::List(list("entered"))).unwrap();
        assert_eq!((answer.status, answer.value, answer.block), (Status::Entered, 7, 3));
        assert_eq!((answer.left, answer.waiting), (Some(Duration::from_millis(250)), Some(2)));
    }

    #[test]
    fn numbers_are_read_as_the_standard_library_reads_them() {
        for text in [
            "0",
            "-0",
            "7",
            "+7",
            "-7",
            "--7",
            "-+7",
            "+-7",
            "",
            "-",
            "+",
            "7 ",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "x",
        ] {
            assert_eq!(signed(text), text.parse().ok(), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_without_a_panic() {
        assert!(Answer::read(&Reply::One(Scalar::Nil)).is_err());
        assert!(Answer::read(&Reply::List(vec![])).is_err());
        assert!(Answer::read(&Reply::List(list("hello"))).is_err());
        let mut short = list("busy");
        short.pop();
        assert!(Answer::read(&Reply::List(short)).is_err());
        let mut negative = list("busy");
        negative[3] = Scalar::Int(-1);
        assert!(Answer::read(&Reply::List(negative)).is_err());
    }
}
