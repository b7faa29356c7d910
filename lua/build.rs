//! Builds the texts of the scripts and their digests. It inserts the prelude and leaves out comment lines: the server
//! doesn't need them, and every program that embeds the engine carries these texts.
//!
//! This is a build script because constant evaluation takes 15 s for the same, in every crate that uses a script.

use std::error::Error;
use std::fmt::{Display, Write};
use std::path::Path;
use std::{env, fs};

use sha1_smol::Sha1;

#[allow(unreachable_pub, reason = "the library exports them")]
#[path = "src/limits.rs"]
mod limits;

/// Marks where a script wants the prelude, on a separate line. The code before it returns early, for a plain lock only.
const MARK: &str = "--@prelude\n";

/// Marks where a script reads the clock, on a separate line.
const CLOCK: &str = "--@clock\n";

/// What is between two pieces of a text in the list of a script's parts.
const READS_CLOCK: &str = ", crate::CLOCK, ";

/// What several scripts share, besides the states of the [`KINDS`].
const PRELUDE: [&str; 4] = ["base", "one-holder", "lock", "queue"];

/// The scripts of a lock, and those that know all kinds: the name, which is that of the file, and the doc of its constant.
const SCRIPTS: [(&str, &str); 11] = [
    ("acquire", "Takes a lock, waits for it, shows that a waiter is alive, or refills a lease."),
    ("acquire-fast", "Takes a lock that is free while nobody waits."),
    ("release", "Gives up whatever a token has."),
    ("release-fast", "Gives a lock back while nobody waits."),
    ("renew", "Raises the TTL of a lease that the token still holds."),
    ("convert", "Gives a lease a new token in the other mode."),
    ("raise", "Raises a quorum's last fence to the one that it agreed on."),
    ("inspect", "Tells who holds a lock and who waits for it."),
    ("multi", "Takes several locks at once, or none."),
    ("batch", "Runs the fast path of several commands of one client."),
    ("force", "Takes a lock from all of its holders."),
];

/// A kind of lock with a state of its own. Its acquire, its release and its force have the files of a lock's, with its part of the
/// prelude.
struct Kind {
    /// The name of its module, and of its part of the prelude.
    name: &'static str,
    doc: &'static str,
    /// Whether its state is a hash with one holder.
    has_one_holder: bool,
    /// Its other scripts: the name and the doc of the constant, and the file.
    others: &'static [(&'static str, &'static str, &'static str)],
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "reentrant",
        doc: "The scripts of a reentrant lock, in the wire format of Redisson's RLock.",
        has_one_holder: true,
        others: &[("renew", "As [`RENEW`](crate::RENEW).", "reentrant-renew")],
    },
    Kind {
        name: "semaphore",
        doc: "The scripts of a semaphore.",
        has_one_holder: false,
        others: &[
            ("renew", "As [`RENEW`](crate::RENEW).", "semaphore-renew"),
            ("convert", "As [`CONVERT`](crate::CONVERT), without other modes.", "convert"),
        ],
    },
    Kind {
        name: "once",
        doc: "The scripts of a once: a lock whose holder stores a result. `ACQUIRE` answers `done` with the result if there is one, \
              `RELEASE` stores it, and `FORCE` keeps it. It is renewed by [`reentrant::RENEW`].",
        has_one_holder: true,
        others: &[],
    },
    Kind {
        name: "election",
        doc: "The scripts of an election. A term is renewed by [`reentrant::RENEW`].",
        has_one_holder: true,
        others: &[("leader", "Tells who leads.", "leader")],
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=src");
    let mut module = String::from("// Made by build.rs.\n");
    for part in PRELUDE.into_iter().chain(KINDS.iter().map(|kind| kind.name)) {
        for (place, piece) in pieces(&prelude(part)?).iter().enumerate() {
            writeln!(module, "const {}: &str = {piece:?};", shared(part, place))?;
        }
    }
    writeln!(module, "const CLOCK: &str = {:?};", code(&prelude("clock")?))?;
    let mut all = String::new();
    for (name, doc) in SCRIPTS {
        write_script(&mut module, name, doc, &script(name, name, &["lock"])?)?;
        write!(all, "{}, ", constant(name))?;
    }
    for Kind { name: kind, doc, has_one_holder, others } in KINDS {
        let state = if has_one_holder { vec!["one-holder", kind] } else { vec![kind] };
        writeln!(module, "/// {doc}\npub mod {kind} {{")?;
        let shared = ["acquire", "release", "force"].map(|name| (name, name));
        let shared = shared.map(|(name, file)| (name, format!("As [`{0}`](crate::{0}).", constant(name)), file));
        let others = others.iter().map(|(name, doc, file)| (*name, (*doc).to_owned(), *file));
        for (name, doc, file) in shared.into_iter().chain(others) {
            let is_shared = SCRIPTS.iter().any(|(shared, _)| *shared == file);
            let full_name = if is_shared { format!("{kind}-{name}") } else { file.to_owned() };
            write_script(&mut module, name, doc, &script(&full_name, file, &state)?)?;
            write!(all, "{kind}::{}, ", constant(name))?;
        }
        writeln!(module, "}}")?;
    }
    let count = all.matches(',').count();
    writeln!(module, "/// Every script.\npub const ALL: [Script; {count}] = [{all}];")?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("scripts.rs"), module)?;
    Ok(())
}

fn write_script(module: &mut String, name: &str, doc: impl Display, script: &str) -> std::fmt::Result {
    writeln!(module, "/// {doc}\npub const {}: crate::Script = {script};", constant(name))
}

/// One script. `state` is the parts of the prelude with the state of its kind of lock.
fn script(name: &str, file: &str, state: &[&str]) -> Result<String, Box<dyn Error>> {
    let text = read(file)?;
    // The clock is between the pieces of a text.
    let own = |text: &str| pieces(text).iter().map(|piece| format!("{piece:?}")).collect::<Vec<_>>().join(READS_CLOCK);
    let (mut texts, mut parts) = (Vec::new(), Vec::new());
    let own_text = match text.split_once(MARK) {
        Some((before, after)) => {
            if state == ["lock"] {
                texts.push(before.to_owned());
                parts.push(own(before));
            }
            for part in [&["base"][..], state, &["queue"]].concat() {
                let text = prelude(part)?;
                let named = (0..pieces(&text).len()).map(|place| format!("crate::{}", shared(part, place)));
                parts.push(named.collect::<Vec<_>>().join(READS_CLOCK));
                texts.push(text);
            }
            after
        }
        None => &text,
    };
    texts.push(own_text.to_owned());
    parts.push(own(own_text));
    let clock = code(&prelude("clock")?);
    let source: String = texts.iter().map(|text| pieces(text).join(&clock)).collect();
    let digest = Sha1::from(&source).digest().to_string();
    let parts = parts.join(", ");
    Ok(format!("crate::Script {{ name: {name:?}, source: {source:?}, parts: &[{parts}], sha1: {digest:?} }}"))
}

fn prelude(part: &str) -> Result<String, Box<dyn Error>> {
    read(&format!("prelude/{part}"))
}

/// The pieces of a text, which is split where it reads the clock.
fn pieces(text: &str) -> Vec<String> {
    text.split(CLOCK).map(|piece| code(piece.trim_end_matches(' '))).collect()
}

/// The name of the constant with a piece of the prelude.
fn shared(part: &str, place: usize) -> String {
    format!("{}_PRELUDE_{place}", constant(part))
}

fn read(file: &str) -> Result<String, Box<dyn Error>> {
    let path = format!("src/{file}.lua");
    fs::read_to_string(&path).map_err(|error| format!("{path}: {error}").into())
}

/// The text without comment lines, with the numbers of `limits.rs`.
fn code(text: &str) -> String {
    let lines = text.split_inclusive('\n').filter(|line| !line.trim_start_matches(' ').starts_with("--"));
    lines.collect::<String>().replace("CUT_TTL", &limits::CUT_TTL.to_string())
}

/// The name of a constant.
fn constant(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}
