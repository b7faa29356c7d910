//! Builds the texts of the scripts and their digests. It inserts the prelude and leaves out comment lines: the server
//! doesn't need them, and every program that embeds the engine carries these texts.
//!
//! This is a build script because constant evaluation takes 15 s for the same, in every crate that uses a script.

use std::error::Error;
use std::fmt::Write;
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

/// What several scripts share.
const PRELUDE: [&str; 8] = ["base", "one-holder", "lock", "reentrant", "semaphore", "once", "election", "queue"];

/// The kinds whose state is a hash with one holder.
const ONE_HOLDER: [&str; 3] = ["reentrant", "once", "election"];

/// Each script: the name of its constant, its file, and the part of the prelude with the state of its kind of lock.
const SCRIPTS: [(&str, &str, &str); 27] = [
    ("acquire", "acquire", "lock"),
    ("acquire-fast", "acquire-fast", "lock"),
    ("release", "release", "lock"),
    ("release-fast", "release-fast", "lock"),
    ("renew", "renew", "lock"),
    ("convert", "convert", "lock"),
    ("raise", "raise", "lock"),
    ("inspect", "inspect", "lock"),
    ("multi", "multi", "lock"),
    ("batch", "batch", "lock"),
    ("force", "force", "lock"),
    ("reentrant-acquire", "acquire", "reentrant"),
    ("reentrant-release", "release", "reentrant"),
    ("reentrant-renew", "reentrant-renew", "reentrant"),
    ("reentrant-force", "force", "reentrant"),
    ("semaphore-acquire", "acquire", "semaphore"),
    ("semaphore-release", "release", "semaphore"),
    ("semaphore-convert", "convert", "semaphore"),
    ("semaphore-renew", "semaphore-renew", "semaphore"),
    ("semaphore-force", "force", "semaphore"),
    ("once-acquire", "acquire", "once"),
    ("once-release", "release", "once"),
    ("once-force", "force", "once"),
    ("election-acquire", "acquire", "election"),
    ("election-release", "release", "election"),
    ("election-force", "force", "election"),
    ("leader", "leader", "election"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=src");
    let mut module = String::from("// Made by build.rs.\n");
    for part in PRELUDE {
        writeln!(module, "const {}_PRELUDE: &str = {:?};", constant(part), prelude(part)?)?;
    }
    for (name, file, kind) in SCRIPTS {
        script(&mut module, name, file, kind)?;
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("scripts.rs"), module)?;
    Ok(())
}

/// Writes the constant of one script.
fn script(module: &mut String, name: &str, file: &str, kind: &str) -> Result<(), Box<dyn Error>> {
    let text = with_clock(&fs::read_to_string(format!("src/{file}.lua"))?)?;
    let (before, own, shared) = match text.split_once(MARK) {
        Some((before, own)) if kind == "lock" => (code(before), code(own), vec!["base", kind, "queue"]),
        Some((_, own)) if ONE_HOLDER.contains(&kind) => {
            (String::new(), code(own), vec!["base", "one-holder", kind, "queue"])
        }
        Some((_, own)) => (String::new(), code(own), vec!["base", kind, "queue"]),
        None => (String::new(), code(&text), vec![]),
    };
    let mut source = before.clone();
    for part in &shared {
        source += &prelude(part)?;
    }
    source += &own;
    let digest = Sha1::from(&source).digest().to_string();
    let mut parts = shared.iter().map(|part| format!("{}_PRELUDE", constant(part))).collect::<Vec<_>>();
    parts.resize(4, "\"\"".to_owned());
    let parts = parts.join(", ");
    writeln!(
        module,
        "pub(crate) const {}: crate::Script = crate::Script {{ name: {name:?}, source: {source:?}, \
         parts: [{before:?}, {parts}, {own:?}], sha1: {digest:?} }};",
        constant(name)
    )?;
    Ok(())
}

fn prelude(part: &str) -> Result<String, Box<dyn Error>> {
    Ok(code(&with_clock(&fs::read_to_string(format!("src/prelude/{part}.lua"))?)?))
}

/// The text, with the lines that read the clock in place of each mark.
fn with_clock(text: &str) -> Result<String, Box<dyn Error>> {
    Ok(text.replace(CLOCK, &fs::read_to_string("src/prelude/clock.lua")?))
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
