//! `leasehold force-release`: takes a lock from its holders, after a question.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use leasehold::Inspection;
use serde_json::json;

use crate::args::{ForceRelease, Servers};
use crate::render::{holder_line, is_endless, object, shown};
use crate::report::{Failure, Outcome, Output, exit};

/// What to do about a key without a TTL.
const KEPT: &str = "look at it with `redis-cli GET`, with the prefix before the name; --foreign deletes it";

pub(super) async fn run(servers: &Servers, arguments: &ForceRelease, output: Output) -> Outcome {
    let name = &arguments.name;
    let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !arguments.yes && !can_ask {
        return Err(not_confirmed(
            "there is no terminal to ask on",
            "look at it with `leasehold inspect`, then say --yes",
        ));
    }
    let locks = servers.locks().await?;
    let before = locks.inspect(name).await?;
    let deletes = arguments.foreign && is_endless(&before);
    if !arguments.yes {
        if before.holders.is_empty() {
            let json = || json!({ "name": name, "holders": 0, "before": object(name, &before, None) });
            output.print(json, || format!("{}: nobody holds it. Check the name and --prefix.", shown(name)))?;
            return Ok(0);
        }
        ask(name, &before, deletes)?;
    }
    let taken =
        if arguments.foreign { locks.force_release_foreign(name).await } else { locks.force_release(name).await };
    let holders = taken.map_err(|error| match (error.code(), before.holders.is_empty()) {
        // `inspect` could read the key, so this error means that it has no TTL.
        ("wrong-kind", false) => Failure { remedy: KEPT.to_owned(), ..error.into() },
        _ => error.into(),
    })?;
    let json = || json!({ "name": name, "holders": holders, "before": object(name, &before, None) });
    output.print(json, || match holders {
        0 => format!("{}: nobody held it. Check the name and --prefix.", shown(name)),
        1 if deletes => format!("{}: deleted", shown(name)),
        1 => format!("{}: taken from its holder", shown(name)),
        _ => format!("{}: taken from {holders} holders", shown(name)),
    })?;
    Ok(0)
}

/// Asks on the terminal. Only `y` and `yes` are a yes.
fn ask(name: &str, seen: &Inspection, deletes: bool) -> Outcome<()> {
    let gone = |error: io::Error| not_confirmed(&format!("the terminal is gone: {error}"), "");
    let mut terminal = io::stderr().lock();
    for holder in &seen.holders {
        writeln!(terminal, "holder  {}", holder_line(holder)).map_err(gone)?;
    }
    let (warning, what) = if deletes {
        (
            "The key has no TTL. It is another library's or somebody's data, and nothing brings it back.",
            format!("Delete {}", shown(name)),
        )
    } else {
        let warning = "A holder that is alive may go on writing until it is notified; only a fence stops it.";
        (warning, format!("Take {} from {}", shown(name), count(seen)))
    };
    let question = format!("{what} and grant the next of {} waiting?", seen.waiting);
    write!(terminal, "{warning}\n{question} [y/N] ").and_then(|()| terminal.flush()).map_err(gone)?;
    let mut answer = String::new();
    if io::stdin().lock().read_line(&mut answer).map_err(gone)? == 0 {
        return Err(not_confirmed("the terminal is gone or its input ended", ""));
    }
    if !["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        return Err(not_confirmed("the answer was not yes", ""));
    }
    Ok(())
}

fn count(seen: &Inspection) -> String {
    match seen.holders.len() {
        1 => "its holder".to_owned(),
        several => format!("its {several} holders"),
    }
}

fn not_confirmed(why: &str, remedy: &str) -> Failure {
    Failure::new(exit::NOT_CONFIRMED, "not-confirmed", format!("nothing was released: {why}"), remedy)
}
