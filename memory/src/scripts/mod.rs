//! leasehold's scripts as functions. Each reads like its specification, lua/README.md, and does what its text in
//! `lua/src` does: the same commands in the same order, so an error leaves the same keys.

mod acquire;
mod acquire_fast;
mod arguments;
mod batch;
mod call;
mod convert;
mod force;
mod inspect;
mod multi;
mod prelude;
mod raise;
mod release;
mod renew;
mod text;

use alloc::format;
use alloc::string::String;

use leasehold_core::Scalar;
use leasehold_lua::{self as lua, Script};

use crate::answer::{Answer, Outcome, Refusal};
use crate::keys::number::integer;
use crate::server::Server;
use arguments::Arguments;
use call::Call;
use prelude::{LockState, ReentrantState, SemaphoreState};

type Function = fn(Call<'_>, Arguments<'_>) -> Outcome;

/// The function of each script. The most frequent ones come first.
const FUNCTIONS: [(Script, Function); lua::ALL.len()] = [
    (lua::ACQUIRE, acquire::acquire::<LockState>),
    (lua::BATCH, batch::batch),
    (lua::ACQUIRE_FAST, acquire_fast::acquire_fast),
    (lua::RELEASE_FAST, release::release_fast),
    (lua::RELEASE, release::release::<LockState>),
    (lua::RENEW, renew::renew),
    (lua::CONVERT, convert::convert),
    (lua::MULTI, multi::multi),
    (lua::RAISE, raise::raise),
    (lua::INSPECT, inspect::inspect),
    (lua::FORCE, force::force::<LockState>),
    (lua::reentrant::ACQUIRE, acquire::acquire::<ReentrantState>),
    (lua::reentrant::RELEASE, release::release::<ReentrantState>),
    (lua::reentrant::RENEW, renew::reentrant_renew),
    (lua::reentrant::FORCE, force::force::<ReentrantState>),
    (lua::semaphore::ACQUIRE, acquire::acquire::<SemaphoreState>),
    (lua::semaphore::RELEASE, release::release::<SemaphoreState>),
    (lua::semaphore::RENEW, renew::semaphore_renew),
    (lua::semaphore::FORCE, force::force::<SemaphoreState>),
];

/// Which scripts EVALSHA can run, by their places in [`FUNCTIONS`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loaded([bool; FUNCTIONS.len()]);

impl Loaded {
    fn has(self, place: usize) -> bool {
        self.0.get(place).copied().unwrap_or_default()
    }

    fn add(&mut self, place: usize) {
        if let Some(loaded) = self.0.get_mut(place) {
            *loaded = true;
        }
    }
}

/// `EVALSHA digest keys.. arguments..`
pub(crate) fn evalsha(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let (digest, keys, arguments) = split(words)?;
    let place = by_digest(digest).filter(|place| server.loaded.has(*place)).ok_or(Refusal::NO_SCRIPT)?;
    run(server, place, keys, arguments)
}

/// `EVAL text keys.. arguments..`. From then on, EVALSHA finds the script too.
pub(crate) fn eval(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let (text, keys, arguments) = split(words)?;
    let place = known(text)?;
    server.loaded.add(place);
    run(server, place, keys, arguments)
}

/// `SCRIPT LOAD text`, `SCRIPT EXISTS digest..` and `SCRIPT FLUSH`.
pub(crate) fn script(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let [_, sub, arguments @ ..] = words else { return Err(Refusal::SYNTAX) };
    match (sub.to_ascii_uppercase().as_slice(), arguments) {
        (b"LOAD", [text]) => {
            let place = known(text)?;
            server.loaded.add(place);
            let digest = FUNCTIONS.get(place).map_or("", |(script, _)| script.sha1);
            Ok(Answer::Text(digest.into()))
        }
        (b"EXISTS", [_, ..]) => {
            let exists =
                |digest: &&[u8]| Scalar::Int(by_digest(digest).is_some_and(|place| server.loaded.has(place)).into());
            Ok(Answer::List(arguments.iter().map(exists).collect()))
        }
        (b"FLUSH", []) => {
            server.script_flush();
            Ok(Answer::Status("OK"))
        }
        _ => Err(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try SCRIPT HELP.",
            String::from_utf8_lossy(sub)
        )
        .into()),
    }
}

/// The script, its keys and its arguments.
type Split<'a, 'w> = (&'w [u8], &'a [&'w [u8]], &'a [&'w [u8]]);

fn split<'a, 'w>(words: &'a [&'w [u8]]) -> Result<Split<'a, 'w>, Refusal> {
    let [_, script, count, rest @ ..] = words else { return Err(Refusal::SYNTAX) };
    let count = integer(count)?;
    let count = usize::try_from(count).map_err(|_| Refusal::new("ERR Number of keys can't be negative"))?;
    match rest.split_at_checked(count) {
        Some((keys, arguments)) => Ok((script, keys, arguments)),
        None => Err(Refusal::new("ERR Number of keys can't be greater than number of args")),
    }
}

fn place(is: impl Fn(&Script) -> bool) -> Option<usize> {
    FUNCTIONS.iter().position(|(script, _)| is(script))
}

/// A digest may have upper-case letters.
fn by_digest(digest: &[u8]) -> Option<usize> {
    let exact = place(|script| script.sha1.as_bytes() == digest);
    exact.or_else(|| place(|script| script.sha1.as_bytes().eq_ignore_ascii_case(digest)))
}

fn known(text: &[u8]) -> Result<usize, Refusal> {
    place(|script| script.source.as_bytes() == text).ok_or(FOREIGN_SCRIPT)
}

const FOREIGN_SCRIPT: Refusal = Refusal::new(
    "ERR the server in memory has no Lua and runs only the scripts of its own version of leasehold; run others on a real server",
);

fn run(server: &mut Server, place: usize, keys: &[&[u8]], arguments: &[&[u8]]) -> Outcome {
    let Some((script, function)) = FUNCTIONS.get(place) else { return Err(Refusal::NO_SCRIPT) };
    server.begin(keys)?;
    let answer = function(Call::new(server), Arguments { script: script.name, keys, words: arguments });
    server.end_script();
    answer
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, lua};

    #[test]
    fn every_script_has_a_function() {
        for script in lua::ALL {
            assert_eq!(FUNCTIONS.iter().filter(|(known, _)| *known == script).count(), 1, "{}", script.name);
        }
    }
}
