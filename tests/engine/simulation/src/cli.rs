//! The command line.

use std::path::PathBuf;

use lexopt::prelude::*;

use crate::theme::Theme;

/// The text of `--help`.
pub const HELP: &str = "\
Runs engines and model servers on virtual time, one world for each seed, and checks every promise at every step.

Usage: leasehold-simulation [OPTIONS]            many seeds
       leasehold-simulation --seed S [OPTIONS]   one seed, with everything that happens in it
       leasehold-simulation mutants [NAME..]     deliberate bugs, each of which must be found
       leasehold-simulation mutants --explored [NAME..]   those that the explorer finds, and those that it can't

Options:
  --seeds N    how many seeds to run [20000]
  --start S    the first seed [0]
  --seed S     replay this seed
  --mix NAME   run only this theme, e.g. hot, converts, losing (by default each seed draws its own)
  --jobs J     threads [2]
  --log FILE   run in slices of 10,000 seeds and add each to FILE; the next run goes on where FILE ends,
               and the summary at the end is the sum of all slices
  --quiet      print only the summary at the end
  --help       print this help
";

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Print the help.
    Help,
    /// Run many seeds.
    Seeds,
    /// Replay one seed.
    Replay(u64),
    /// Run the mutants of these names, or all.
    Mutants(Vec<String>),
    /// Show which of the mutants the explorer finds.
    Explored(Vec<String>),
}

/// The options of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What to do.
    pub task: Task,
    /// How many seeds.
    pub seeds: u64,
    /// The first seed.
    pub start: u64,
    /// Only this theme.
    pub theme: Option<Theme>,
    /// How many threads.
    pub jobs: usize,
    /// The log of the slices.
    pub log: Option<PathBuf>,
    /// Print no progress.
    pub quiet: bool,
}

impl Options {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    /// If an argument is invalid. The text is for the user.
    pub fn read(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, lexopt::Error> {
        let mut options =
            Self { task: Task::Seeds, seeds: 20_000, start: 0, theme: None, jobs: 2, log: None, quiet: false };
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Long("help") | Short('h') => options.task = Task::Help,
                Long("seeds") => options.seeds = parser.value()?.parse()?,
                Long("start") => options.start = parser.value()?.parse()?,
                Long("seed") => options.task = Task::Replay(parser.value()?.parse()?),
                Long("mix") => options.theme = Some(theme(&parser.value()?.string()?)?),
                Long("jobs") => options.jobs = parser.value()?.parse::<usize>()?.max(1),
                Long("log") => options.log = Some(parser.value()?.into()),
                Long("explored") => match options.task {
                    Task::Mutants(names) => options.task = Task::Explored(names),
                    _ => return Err("`--explored` comes after `mutants`".into()),
                },
                Long("quiet") => options.quiet = true,
                Value(word) if options.task == Task::Seeds && word == "mutants" => {
                    options.task = Task::Mutants(Vec::new())
                }
                Value(word) => match &mut options.task {
                    Task::Mutants(names) | Task::Explored(names) => names.push(word.string()?),
                    _ => return Err(Value(word).unexpected()),
                },
                _ => return Err(arg.unexpected()),
            }
        }
        Ok(options)
    }
}

fn theme(name: &str) -> Result<Theme, lexopt::Error> {
    Theme::named(name).ok_or_else(|| format!("there is no mix `{name}`; there are {:?}", Theme::ALL).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, lexopt::Error> {
        Options::read(line.split_whitespace().map(Into::into))
    }

    #[test]
    fn a_command_line_is_read() {
        let options = read("--seeds 7 --start 3 --mix hot --jobs 1").unwrap();
        assert_eq!((options.task, options.seeds, options.start, options.theme), (Task::Seeds, 7, 3, Some(Theme::Hot)));
        assert_eq!(read("--seed 9").unwrap().task, Task::Replay(9));
        assert_eq!(read("mutants no-drift x").unwrap().task, Task::Mutants(vec!["no-drift".into(), "x".into()]));
    }

    #[test]
    fn contradictory_options_are_refused() {
        for line in ["--seeds many", "--mix nothing", "--what", "mutant"] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
