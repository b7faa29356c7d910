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
    /// Whether the story waits for them. Otherwise it tells at the end that they are missing.
    pub awaited: bool,
}

/// Where the latecomers of one language are: `Building` → `Starting` → `Here`. Each but the last may become `Missing`.
pub(crate) struct Arrival {
    pub(crate) language: Language,
    pub(crate) awaited: bool,
    pub(crate) state: State,
    builds: VecDeque<Build>,
}

pub(crate) enum State {
    Building(Work),
    /// Everything is built. So many of the processes are not connected yet.
    Starting {
        missing: usize,
        since: Instant,
    },
    Here,
    /// They don't come, for this reason.
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

    /// Whether they may still come.
    pub(crate) fn is_expected(&self) -> bool {
        matches!(self.state, State::Building(_) | State::Starting { .. })
    }

    /// Looks after the builds.
    ///
    /// # Errors
    /// If they are awaited, and they can't come.
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

    /// So many of their processes were started.
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

    /// The story ends. Returns why they are missing, if they are.
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
