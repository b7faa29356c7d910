//! What to do about a command line that can't be used, where the parser doesn't say it.

use std::env;
use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory as _, Error};

use crate::args::Cli;

const PUT_AFTER: &str = "put the command after `--`: leasehold exec [OPTIONS] NAME -- COMMAND [ARGUMENTS]";
const NAME_BEFORE: &str = "the lock's name comes before `--`: leasehold exec [OPTIONS] NAME -- COMMAND [ARGUMENTS]";

/// The parser's error with our tips. `words` is the command line.
pub(crate) fn with_tips(mut error: Error, words: impl Iterator<Item = OsString>) -> Error {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let mut tips = Vec::new();
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    if usage.contains("leasehold exec ") {
        // The parser advises to write the argument after `--`. That would make it the command.
        error.remove(ContextKind::Suggested);
        tips.extend(tip_of_exec(&error, &words).map(str::to_owned));
    }
    if let Some(variable) = variable(&error, &words) {
        tips.push(format!("the value is that of the environment variable {variable}"));
    }
    if !tips.is_empty() {
        let tips = tips.into_iter().map(StyledStr::from).collect();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// What is missing between the options, the name and the command of `exec`.
fn tip_of_exec(error: &Error, words: &[String]) -> Option<&'static str> {
    let is_about = |what: &str| error.get(ContextKind::InvalidArg).is_some_and(|arg| arg.to_string().contains(what));
    let is_split = words.iter().any(|word| word == "--");
    match error.kind() {
        ErrorKind::MissingRequiredArgument if is_split && is_about("<NAME>") => Some(NAME_BEFORE),
        ErrorKind::MissingRequiredArgument if !is_split && is_about("<COMMAND>") => Some(PUT_AFTER),
        // A misspelt option has a tip of its own.
        ErrorKind::UnknownArgument if !is_split && error.get(ContextKind::SuggestedArg).is_none() => Some(PUT_AFTER),
        _ => None,
    }
}

/// The environment variable that a bad value comes from.
fn variable(error: &Error, words: &[String]) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let value = error.get(ContextKind::InvalidValue)?.to_string();
    let mut command = Cli::command();
    command.build();
    let option = options(&command).find(|option| option.to_string() == *argument)?;
    let long = format!("--{}", option.get_long()?);
    let short = option.get_short().map(|short| format!("-{short}"));
    let gives = |word: &String| {
        word.strip_prefix(&long).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            || short.as_ref().is_some_and(|short| word.starts_with(short))
    };
    let variable = option.get_env()?;
    let is_it = env::var_os(variable).is_some_and(|set| set.to_string_lossy() == value) && !words.iter().any(gives);
    is_it.then(|| variable.to_string_lossy().into_owned())
}

/// The options of all commands.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    let below = command.get_subcommands().flat_map(Command::get_arguments);
    command.get_arguments().chain(below)
}
