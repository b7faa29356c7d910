//! The command line.

use std::time::Duration;

use lexopt::prelude::*;

use crate::scenario::{self, Scenario};
use crate::step::Step;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
Explores every order of messages, replies, timers and faults, with real engines and the server in memory.

Usage: leasehold-explorer [OPTIONS] [SCENARIO..]

Options:
  --faults N    at most this many faults in each run: 0 to 3 [1]
  --slow        messages may take up to the response timeout without a fault; else they arrive before time passes
  --states N    stop each scenario after this many states
  --budget N    stop after this many states, which the scenarios share; the same work on every machine
  --minutes M   stop after this time, which the scenarios share
  --sample N    run on from one of N states without faults, until all calls have ended [16]
  --jobs J      threads [2]
  --steps S     take these steps of a scenario, and tell what happens
  --brief       print only which invariant broke, and where
  --list        list the scenarios
  --help        print this help
";

/// The options of the command line.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) help: bool,
    pub(crate) scenarios: Vec<&'static Scenario>,
    pub(crate) faults: u8,
    pub(crate) slow: bool,
    pub(crate) states: u64,
    pub(crate) budget: u64,
    pub(crate) time: Duration,
    pub(crate) sample: u64,
    pub(crate) jobs: usize,
    pub(crate) steps: Option<Vec<Step>>,
    pub(crate) brief: bool,
    pub(crate) list: bool,
}

impl Options {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    /// If an argument is invalid. The text is for the user.
    pub(crate) fn read(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, lexopt::Error> {
        let mut options = Self {
            help: false,
            scenarios: Vec::new(),
            faults: 1,
            slow: false,
            states: u64::MAX,
            budget: u64::MAX,
            time: Duration::MAX,
            sample: 16,
            jobs: 2,
            steps: None,
            brief: false,
            list: false,
        };
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Long("help") | Short('h') => options.help = true,
                Long("faults") => options.faults = parser.value()?.parse()?,
                Long("slow") => options.slow = true,
                Long("states") => options.states = parser.value()?.parse()?,
                Long("budget") => options.budget = parser.value()?.parse()?,
                Long("minutes") => {
                    let minutes: f64 = parser.value()?.parse()?;
                    options.time = Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())?;
                }
                Long("sample") => options.sample = parser.value()?.parse::<u64>()?.max(1),
                Long("jobs") => options.jobs = parser.value()?.parse::<usize>()?.max(1),
                Long("steps") => {
                    let text = parser.value()?.string()?;
                    options.steps = Some(text.split_whitespace().map(str::parse).collect::<Result<_, String>>()?);
                }
                Long("brief") => options.brief = true,
                Long("list") => options.list = true,
                Value(name) => {
                    let name = name.string()?;
                    let named = Scenario::named(&name);
                    options.scenarios.push(named.ok_or_else(|| format!("there is no scenario `{name}`: see --list"))?);
                }
                _ => return Err(arg.unexpected()),
            }
        }
        if options.faults > 3 {
            return Err("choose 0 to 3 faults".into());
        }
        if options.scenarios.is_empty() {
            options.scenarios = scenario::ALL.iter().filter(|it| it.clients.len() == 2).collect();
        }
        if options.steps.is_some() && options.scenarios.len() != 1 {
            return Err("`--steps` needs one scenario".into());
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, lexopt::Error> {
        Options::read(line.split_whitespace().map(Into::into))
    }

    #[test]
    fn a_command_line_is_read() {
        let options = read("--faults 2 --minutes 0.5 writers three").unwrap();
        assert_eq!((options.faults, options.time, options.scenarios.len()), (2, Duration::from_secs(30), 2));
        assert_eq!(read("--budget 600").unwrap().budget, 600);
        assert!(read("").unwrap().scenarios.iter().all(|scenario| scenario.clients.len() == 2));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["--faults 4", "nobody", "--steps pass", "--steps sleep writers", "--minutes -1"] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
