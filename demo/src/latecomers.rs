//! Workers whose programs are still being built when the story begins. They join when they are ready.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::fleet::Language;
use crate::progress::{Build, Work};

/// Workers that may join later, and how their programs are built.
#[derive(Debug)]
pub struct Latecomers {
    /// Their language.
    pub language: Language,
    /// What builds their programs, one command after the other.
    pub builds: Vec<Build>,
    /// Whether the story waits for them. Otherwise the report says at the end if they are missing.
    pub awaited: bool,
}

/// The state of the latecomers of one language: `Building` → `Starting` → `Here`. The first two may become `Missing`.
pub(crate) struct Arrival {
    pub(crate) language: Language,
    pub(crate) awaited: bool,
    pub(crate) state: State,
    builds: VecDeque<Build>,
}

pub(crate) enum State {
    Building(Work),
    /// Everything is built, and the processes have started.
    Starting {
        /// How many of them are not connected yet.
        missing: usize,
        since: Instant,
    },
    Here,
    /// They will not join, for this reason.
    Missing(String),
}

/// What has just happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Nothing,
    Built,
    Failed,
}

/// How long processes may take to connect: a WASI worker first compiles its component.
const START: Duration = Duration::from_secs(120);

impl Arrival {
    /// Starts the first build.
    pub(crate) fn begin(latecomers: Latecomers) -> Result<Self> {
        let Latecomers { language, builds, awaited } = latecomers;
        let mut builds = VecDeque::from(builds);
        let first = builds.pop_front().ok_or_else(|| Error::new("latecomers without a build"))?;
        Ok(Self { language, awaited, state: begun(first), builds })
    }

    /// Whether they may still join.
    pub(crate) fn is_expected(&self) -> bool {
        matches!(self.state, State::Building(_) | State::Starting { .. })
    }

    /// Checks the builds, and starts the next one.
    ///
    /// # Errors
    /// If they are awaited, and they can't join.
    pub(crate) fn poll(&mut self) -> Result<News> {
        let news = match &mut self.state {
            State::Building(work) => match work.poll(Duration::ZERO) {
                None => News::Nothing,
                Some(Err(error)) => {
                    self.state = State::Missing(format!("{error}\n{}", work.output()).trim_end().to_owned());
                    News::Failed
                }
                Some(Ok(())) => match self.builds.pop_front() {
                    None => News::Built,
                    Some(next) => {
                        self.state = begun(next);
                        News::Nothing
                    }
                },
            },
            State::Starting { since, .. } if since.elapsed() > START => {
                self.state = State::Missing(format!("they did not connect within {START:?}"));
                News::Failed
            }
            _ => News::Nothing,
        };
        match &self.state {
            State::Missing(reason) if self.awaited => {
                Err(Error::new(format!("the workers in {} are missing: {reason}", self.language.name())))
            }
            _ => Ok(news),
        }
    }

    /// This many of their processes have started.
    pub(crate) fn started(&mut self, processes: usize) {
        self.state = State::Starting { missing: processes, since: Instant::now() };
    }

    /// One of their processes is connected. Returns whether it is the last one.
    pub(crate) fn connected(&mut self) -> bool {
        let State::Starting { missing, .. } = &mut self.state else { return false };
        *missing = missing.saturating_sub(1);
        let all = *missing == 0;
        if all {
            self.state = State::Here;
        }
        all
    }

    /// What is being done for them.
    pub(crate) fn line(&self) -> Option<String> {
        match &self.state {
            State::Building(work) => Some(work.line()),
            State::Starting { .. } => Some(format!("starting the workers in {}", self.language.name())),
            State::Here | State::Missing(_) => None,
        }
    }

    /// The story ends. If they are missing, returns their language and the reason.
    pub(crate) fn end(self) -> Option<(Language, String)> {
        match self.state {
            State::Here => None,
            State::Missing(reason) => Some((self.language, reason)),
            State::Building(_) | State::Starting { .. } => {
                Some((self.language, "their programs were not built in time".to_owned()))
            }
        }
    }
}

fn begun(mut build: Build) -> State {
    match Work::start(build.what, &mut build.command) {
        Ok(work) => State::Building(work),
        Err(error) => State::Missing(error.to_string()),
    }
}
