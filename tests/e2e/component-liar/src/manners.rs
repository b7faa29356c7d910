//! The ways to lie.

use std::cell::RefCell;
use std::pin::pin;

use futures_channel::oneshot;
use futures_util::future::{Either, select};

use crate::bindings::exports::leasehold::lock::connection::{Failure, Reply, Value};
use crate::bindings::wasi::clocks::monotonic_clock::wait_for;
use crate::bindings::wasi::random::insecure::{get_insecure_random_bytes, get_insecure_random_u64};

/// How calls are answered.
#[derive(Clone, Copy)]
pub(crate) enum Manners {
    Good,
    /// The newest call first.
    Reversed,
    /// With the answer to the call before.
    Swapped,
    /// The command runs twice.
    Twice,
    /// After the response timeout, unless the call is cancelled.
    Late,
    Never,
    /// With anything that the types allow.
    Garbage,
    /// Blocks this component once for a while. No cancellation ends that.
    Deaf,
    Trap,
}

const WORDS: [(&str, Manners); 8] = [
    ("reversed", Manners::Reversed),
    ("swapped", Manners::Swapped),
    ("twice", Manners::Twice),
    ("late", Manners::Late),
    ("never", Manners::Never),
    ("garbage", Manners::Garbage),
    ("deaf", Manners::Deaf),
    ("trap", Manners::Trap),
];

impl Manners {
    pub(crate) fn of(command: &[Vec<u8>]) -> Self {
        let names = |word: &&str| command.iter().skip(1).any(|text| contains(text, word.as_bytes()));
        WORDS.iter().find(|(word, _)| names(word)).map_or(Self::Good, |(_, manners)| *manners)
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

thread_local! {
    /// Calls that wait for those after them.
    static WAITING: RefCell<Vec<oneshot::Sender<()>>> = const { RefCell::new(Vec::new()) };
}

/// Waits until all calls that came at the same time and after this one have ended.
pub(crate) async fn turn() {
    let (sender, turn) = oneshot::channel();
    WAITING.with_borrow_mut(|waiting| waiting.push(sender));
    let mut turn = pin!(turn);
    loop {
        // The last one goes first, a millisecond after the others have come.
        match select(turn, pin!(wait_for(1_000_000))).await {
            Either::Left(_) => break,
            Either::Right((_, waiting)) => turn = waiting,
        }
        let last = WAITING.with_borrow_mut(Vec::pop);
        if let Some(last) = last {
            let _ = last.send(());
        }
    }
}

/// An answer of any shape.
pub(crate) fn garbage() -> Result<Reply, Failure> {
    let text = || String::from_utf8_lossy(&get_insecure_random_bytes(get_insecure_random_u64() % 40)).into_owned();
    Ok(match get_insecure_random_u64() % 9 {
        0 => Reply::Other(text()),
        1 => Reply::Single(value()),
        2 => return Err(Failure::Refused(text())),
        3 => return Err(Failure::Unavailable(text())),
        4 => return Err(Failure::Interrupted(text())),
        5 => return Err(Failure::TimedOut),
        6 => return Err(Failure::Other(text())),
        _ => Reply::Array((0..get_insecure_random_u64() % 12).map(|_| value()).collect()),
    })
}

/// Words of real answers, and numbers and texts of any size.
fn value() -> Value {
    const REAL: [&str; 8] = ["held", "free", "entered", "granted", "queued", "ok", "renewed", "exclusive"];
    let number = get_insecure_random_u64();
    match number % 5 {
        0 => Value::Nil,
        1 => Value::Integer(get_insecure_random_u64().cast_signed()),
        2 => Value::Integer((number >> 32).cast_signed() % 4),
        3 => Value::Text(REAL[(number >> 8) as usize % REAL.len()].as_bytes().to_vec()),
        _ => Value::Text(get_insecure_random_bytes(number % 40)),
    }
}
