//! What to do about a command line that can't be used, where the parser doesn't say it.

use std::env;
use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory as _, Error};

use crate::args::Cli;

const PUT_AFTER: &str = "put the command after `--`: NAME -- COMMAND [ARGUMENTS]";
const NAME_BEFORE: &str = "the name comes before `--`: NAME -- COMMAND [ARGUMENTS]";
const NO_WAIT: &str =
    "`lead` waits for as long as it takes; to run a command if nobody else does, use `leasehold exec --wait 0`";
const RUNS_NOTHING: &str = "`acquire` runs no command: `leasehold exec` does";
const TRY_ONCE: &str = "to try once, as `flock --nonblock`, say `--wait 0`";
const ONLY_MUTEXES: &str = "`acquire` takes only mutexes: for readers and permits, use `leasehold exec`";

/// Words of other tools, and of other libraries.
const SUBCOMMANDS: [(&[&str], &str); 5] = [
    (&["lock", "take"], "`exec` runs a command under a lock, and `acquire` takes a lock for several commands"),
    (
        &["unlock", "free", "delete", "rm"],
        "`release` gives back what `acquire` took, `force-release` takes a lock away, and `forget` deletes a result",
    ),
    (&["elect", "election", "campaign", "leader"], "`lead` runs a program while this process leads an election"),
    (&["run", "flock"], "`exec` runs a command under a lock"),
    (&["show", "status", "info", "get", "who"], "`inspect` shows who holds a lock and who waits for it"),
];

/// The parser's error with our tips. `words` is the command line.
pub(crate) fn with_tips(mut error: Error, words: impl Iterator<Item = OsString>) -> Error {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let mut command = Cli::command();
    command.build();
    let subcommand = subcommand(&error, &command);
    if error.kind() == ErrorKind::UnknownArgument {
        // The parser advises to write the argument after `--`. With `exec`, that would make it the command.
        error.remove(ContextKind::Suggested);
    }
    // The parser's usage lists what is given, also by variables, but not all that is required.
    if let Some(subcommand) = subcommand {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(subcommand.clone().render_usage()));
    }
    let name = subcommand.map(Command::get_name).unwrap_or_default();
    let tip = tip(&error, name, &words).map(str::to_owned);
    let tips: Vec<_> = tip.into_iter().chain(variable(&error, &command, &words)).map(StyledStr::from).collect();
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// The subcommand that the error is about, from its usage: `Usage: leasehold exec ...`.
fn subcommand<'c>(error: &Error, command: &'c Command) -> Option<&'c Command> {
    let usage = error.get(ContextKind::Usage)?.to_string();
    usage.split_whitespace().find_map(|word| command.find_subcommand(word))
}

fn tip(error: &Error, subcommand: &str, words: &[String]) -> Option<&'static str> {
    let arguments = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    let is_split = words.iter().any(|word| word == "--");
    match (error.kind(), subcommand, arguments.as_str()) {
        (ErrorKind::InvalidSubcommand, ..) => {
            let word = error.get(ContextKind::InvalidSubcommand)?.to_string();
            SUBCOMMANDS.iter().find(|(words, _)| words.contains(&word.as_str())).map(|(_, tip)| *tip)
        }
        (ErrorKind::MissingRequiredArgument, "exec" | "lead", missing) if is_split && missing.contains("<NAME>") => {
            Some(NAME_BEFORE)
        }
        (ErrorKind::MissingRequiredArgument, "exec" | "lead", missing)
            if !is_split && missing.contains("<COMMAND>") =>
        {
            Some(PUT_AFTER)
        }
        (ErrorKind::UnknownArgument, "exec" | "acquire", "-n" | "--nb" | "--nonblock") => Some(TRY_ONCE),
        (ErrorKind::UnknownArgument, "lead", "--wait" | "-w") => Some(NO_WAIT),
        // A misspelt option has a tip of its own.
        (ErrorKind::UnknownArgument, "exec" | "lead", _)
            if !is_split && error.get(ContextKind::SuggestedArg).is_none() =>
        {
            Some(PUT_AFTER)
        }
        (ErrorKind::UnknownArgument, "acquire", "--read" | "-s" | "--permits" | "--of") => Some(ONLY_MUTEXES),
        (ErrorKind::UnknownArgument, "acquire", _) if is_split => Some(RUNS_NOTHING),
        _ => None,
    }
}

/// That a bad value comes from an environment variable, and from which.
fn variable(error: &Error, command: &Command, words: &[String]) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let value = error.get(ContextKind::InvalidValue)?.to_string();
    let option = options(command).find(|option| option.to_string() == *argument)?;
    let long = format!("--{}", option.get_long()?);
    let short = option.get_short().map(|short| format!("-{short}"));
    let gives = |word: &String| {
        word.strip_prefix(&long).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            || short.as_ref().is_some_and(|short| word.starts_with(short))
    };
    let variable = option.get_env()?;
    let is_it = env::var_os(variable).is_some_and(|set| set.to_string_lossy() == value) && !words.iter().any(gives);
    is_it.then(|| format!("the value is that of the environment variable {}", variable.to_string_lossy()))
}

/// The options of all commands.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    let below = command.get_subcommands().flat_map(Command::get_arguments);
    command.get_arguments().chain(below)
}
