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
mod leader;
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
use crate::state::Server;
use arguments::Arguments;
use call::Call;
use prelude::{ElectionState, LockState, OnceState, ReentrantState, SemaphoreState};

type Function = fn(Call<'_>, Arguments<'_>) -> Outcome;

/// What a server knows about a script. It has the text only in its parts, because scripts share most of these.
struct Known {
    name: &'static str,
    sha1: &'static str,
    parts: &'static [&'static str],
}

impl Known {
    const fn new(script: Script) -> Self {
        Self { name: script.name, sha1: script.sha1, parts: script.parts }
    }

    fn has_text(&self, mut text: &[u8]) -> bool {
        for part in self.parts {
            let Some(rest) = text.strip_prefix(part.as_bytes()) else { return false };
            text = rest;
        }
        text.is_empty()
    }
}

/// The function of each script. The most frequent ones come first.
const FUNCTIONS: [(Known, Function); lua::ALL.len()] = [
    (Known::new(lua::ACQUIRE), acquire::acquire::<LockState>),
    (Known::new(lua::BATCH), batch::batch),
    (Known::new(lua::ACQUIRE_FAST), acquire_fast::acquire_fast),
    (Known::new(lua::RELEASE_FAST), release::release_fast),
    (Known::new(lua::RELEASE), release::release::<LockState>),
    (Known::new(lua::RENEW), renew::renew),
    (Known::new(lua::CONVERT), convert::convert::<LockState>),
    (Known::new(lua::MULTI), multi::multi),
    (Known::new(lua::RAISE), raise::raise),
    (Known::new(lua::INSPECT), inspect::inspect),
    (Known::new(lua::FORCE), force::force::<LockState>),
    (Known::new(lua::reentrant::ACQUIRE), acquire::acquire::<ReentrantState>),
    (Known::new(lua::reentrant::RELEASE), release::release::<ReentrantState>),
    (Known::new(lua::reentrant::RENEW), renew::reentrant_renew),
    (Known::new(lua::reentrant::FORCE), force::force::<ReentrantState>),
    (Known::new(lua::semaphore::ACQUIRE), acquire::acquire::<SemaphoreState>),
    (Known::new(lua::semaphore::RELEASE), release::release::<SemaphoreState>),
    (Known::new(lua::semaphore::RENEW), renew::semaphore_renew),
    (Known::new(lua::semaphore::CONVERT), convert::convert::<SemaphoreState>),
    (Known::new(lua::semaphore::FORCE), force::force::<SemaphoreState>),
    (Known::new(lua::once::ACQUIRE), acquire::acquire::<OnceState>),
    (Known::new(lua::once::RELEASE), release::release::<OnceState>),
    (Known::new(lua::once::FORCE), force::force::<OnceState>),
    (Known::new(lua::election::ACQUIRE), acquire::acquire::<ElectionState>),
    (Known::new(lua::election::RELEASE), release::release::<ElectionState>),
    (Known::new(lua::election::FORCE), force::force::<ElectionState>),
    (Known::new(lua::election::LEADER), leader::leader),
];

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

/// The place of the script that a command calls. None if it calls no script of leasehold.
pub(crate) fn called(words: &[&[u8]]) -> Option<usize> {
    match words {
        [command, digest, ..] if command.eq_ignore_ascii_case(b"EVALSHA") => by_digest(digest),
        [command, text, ..] if command.eq_ignore_ascii_case(b"EVAL") => known(text).ok(),
        _ => None,
    }
}

/// Runs the script at this place with the keys and arguments of a command that calls it.
pub(crate) fn run_at(server: &mut Server, place: usize, words: &[&[u8]]) -> Outcome {
    let (_, keys, arguments) = split(words)?;
    run(server, place, keys, arguments)
}

/// The keys of a command that calls a script.
pub(crate) fn keys_of<'a, 'w>(words: &'a [&'w [u8]]) -> Option<&'a [&'w [u8]]> {
    split(words).ok().map(|(_, keys, _)| keys)
}

pub(crate) use prelude::channel_of;

fn split<'a, 'w>(words: &'a [&'w [u8]]) -> Result<Split<'a, 'w>, Refusal> {
    let [_, script, count, rest @ ..] = words else { return Err(Refusal::SYNTAX) };
    let count = integer(count)?;
    let count = usize::try_from(count).map_err(|_| Refusal::new("ERR Number of keys can't be negative"))?;
    match rest.split_at_checked(count) {
        Some((keys, arguments)) => Ok((script, keys, arguments)),
        None => Err(Refusal::new("ERR Number of keys can't be greater than number of args")),
    }
}

fn place(is: impl Fn(&Known) -> bool) -> Option<usize> {
    FUNCTIONS.iter().position(|(script, _)| is(script))
}

/// A digest may have upper-case letters.
fn by_digest(digest: &[u8]) -> Option<usize> {
    let exact = place(|script| script.sha1.as_bytes() == digest);
    exact.or_else(|| place(|script| script.sha1.as_bytes().eq_ignore_ascii_case(digest)))
}

fn known(text: &[u8]) -> Result<usize, Refusal> {
    place(|script| script.has_text(text)).ok_or(FOREIGN_SCRIPT)
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
    use alloc::format;

    use super::{FUNCTIONS, known, lua};
    use crate::state::Server;

    #[test]
    fn every_script_has_a_function() {
        for script in lua::ALL {
            assert_eq!(FUNCTIONS.iter().filter(|(known, _)| known.sha1 == script.sha1).count(), 1, "{}", script.name);
        }
    }

    #[test]
    fn a_script_is_known_by_its_whole_text() {
        for script in lua::ALL {
            let place = known(script.source.as_bytes()).ok();
            assert_eq!(place.and_then(|place| FUNCTIONS.get(place)).map(|(known, _)| known.sha1), Some(script.sha1));
            assert!(known(format!("{} ", script.source).as_bytes()).is_err(), "{}", script.name);
            assert!(known(script.source.trim_end().as_bytes()).is_err(), "{}", script.name);
        }
    }
    #[test]
    fn the_least_number_there_is_is_refused_as_an_argument() {
        let mut server = Server::default();
        let words = [b"EVAL".as_slice(), lua::BATCH.source.as_bytes(), b"0", b"-9223372036854775808"];
        let refusal = server.execute(0, &words).map(|executed| executed.reply);
        assert!(matches!(&refusal, Ok(Err(text)) if text.contains("which is not a whole number")), "{refusal:?}");
    }
}
