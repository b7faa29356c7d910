//! Builds the texts of the scripts and their digests. It inserts the prelude and leaves out comment lines: the server
//! doesn't need them, and every program that embeds the engine carries these texts.
//!
//! This is a build script because constant evaluation takes 15 s for the same, in every crate that uses a script.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use sha1_smol::Sha1;

/// Marks where a script wants the prelude, on a separate line. The code before it is the script's fast path.
const MARK: &str = "--@prelude\n";

/// What several scripts share.
const PRELUDE: [&str; 5] = ["base", "lock", "reentrant", "semaphore", "queue"];

/// Each script: the name of its constant, its file, and the part of the prelude with the state of its kind of lock.
const SCRIPTS: [(&str, &str, &str); 17] = [
    ("acquire", "acquire", "lock"),
    ("release", "release", "lock"),
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
    ("semaphore-renew", "semaphore-renew", "semaphore"),
    ("semaphore-force", "force", "semaphore"),
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
    let text = fs::read_to_string(format!("src/{file}.lua"))?;
    let (before, after) = text.split_once(MARK).map_or((text.as_str(), None), |(before, after)| (before, Some(after)));
    // Only a plain lock has a fast path.
    let before = if kind == "lock" || after.is_none() { code(before) } else { String::new() };
    let (shared, names) = match after {
        Some(_) => {
            let names = ["base", kind, "queue"];
            (
                [prelude(names[0])?, prelude(names[1])?, prelude(names[2])?].concat(),
                names.map(|part| format!("{}_PRELUDE", constant(part))),
            )
        }
        None => (String::new(), ["\"\"", "\"\"", "\"\""].map(String::from)),
    };
    let after = code(after.unwrap_or_default());
    let source = [before.as_str(), &shared, &after].concat();
    let digest = Sha1::from(&source).digest().to_string();
    let [base, state, queue] = names;
    writeln!(
        module,
        "pub(crate) const {}: crate::Script = crate::Script {{ name: {name:?}, source: {source:?}, \
         parts: [{before:?}, {base}, {state}, {queue}, {after:?}], sha1: {digest:?} }};",
        constant(name)
    )?;
    Ok(())
}

fn prelude(part: &str) -> Result<String, Box<dyn Error>> {
    Ok(code(&fs::read_to_string(format!("src/prelude/{part}.lua"))?))
}

/// The text without comment lines.
fn code(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.trim_start_matches(' ').starts_with("--")).collect()
}

/// The name of a constant.
fn constant(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}
