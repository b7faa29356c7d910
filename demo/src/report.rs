use std::time::Duration;

use crate::error::{Error, Result};
use crate::event::{Event, Turn};
use crate::fleet::{Language, Role, TTL, WRITERS};

/// For how long after a crash or a pause a stall counts as its consequence: the rest of the lease, and some time for a
/// busy machine.
const AFTERMATH: Duration = Duration::from_secs(3);

/// Everything that the workers reported, and the conclusions.
pub(crate) struct Report {
    pub(crate) server: String,
    pub(crate) workers: Vec<Seen>,
    /// Each turn, and the number of the worker that had it.
    turns: Vec<(usize, Turn)>,
    marks: Vec<Mark>,
    /// When all workers had started, except for those that join during the story.
    complete_at: u64,
    killed_at: u64,
    paused_at: u64,
    stopping: bool,
    pub(crate) refused: u64,
    slipped: u64,
    torn: u64,
    counter: i64,
    mirror: i64,
    /// The languages of the workers that did not join, and why.
    pub(crate) missing: Vec<(Language, String)>,
}

/// Something that happened to a worker, for the picture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) worker: usize,
    /// Microseconds of the system's clock.
    pub(crate) at: u64,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    /// It was stopped while it held the lock, since this time.
    Stopped {
        since: u64,
    },
    Killed,
    Paused,
    Resumed,
    /// It joined later than the others.
    Joined,
    Refused {
        fence: u64,
    },
    Slipped {
        fence: u64,
    },
}

/// What the resource answered to a late write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    Refused(u64),
    Accepted,
}

/// What is known about one worker.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) role: Role,
    pub(crate) language: Language,
    pub(crate) turns: u64,
    pub(crate) state: State,
    /// When it was last seen to stay in its critical section, as it was told to.
    lingering_since: u64,
    /// Its turns after it was resumed.
    turns_since_resumed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It has not joined yet.
    Starting,
    /// It never joined.
    Missing,
    Working,
    Lingering,
    Killed,
    Paused,
    Resumed,
}

impl Report {
    /// A report about these workers: first the writers, then the readers.
    pub(crate) fn new(languages: impl Iterator<Item = Language>) -> Self {
        let workers = languages.enumerate().map(|(number, language)| Seen {
            role: if is_writer(number) { Role::Writer } else { Role::Reader },
            language,
            turns: 0,
            state: State::Starting,
            lingering_since: 0,
            turns_since_resumed: None,
        });
        Self {
            server: String::new(),
            workers: workers.collect(),
            turns: Vec::new(),
            marks: Vec::new(),
            complete_at: 0,
            killed_at: 0,
            paused_at: 0,
            stopping: false,
            refused: 0,
            slipped: 0,
            torn: 0,
            counter: 0,
            mirror: 0,
            missing: Vec::new(),
        }
    }

    /// Notes a worker's event, which came at `at`. Returns an error if the worker ended too early.
    pub(crate) fn add(&mut self, number: usize, at: u64, event: &Event) -> Result {
        let Some(worker) = self.workers.get_mut(number) else { return self.add_judge(event) };
        match event {
            Event::Ready { .. } if worker.state == State::Starting => {
                worker.state = State::Working;
                if self.complete_at > 0 {
                    self.mark(number, at, What::Joined);
                }
            }
            Event::Ready { .. } => {}
            Event::Lingering { .. } => (worker.state, worker.lingering_since) = (State::Lingering, at),
            Event::Refused { fence } => {
                self.refused += 1;
                self.mark(number, at, What::Refused { fence: *fence });
            }
            Event::Slipped { fence } => {
                self.slipped += 1;
                self.mark(number, at, What::Slipped { fence: *fence });
            }
            Event::Done(turn) => {
                worker.turns += 1;
                if let Some(turns) = &mut worker.turns_since_resumed {
                    *turns += 1;
                }
                self.torn += u64::from(!turn.consistent);
                self.turns.push((number, *turn));
            }
            Event::Ended if self.stopping || worker.state == State::Killed => {}
            Event::Ended => return Err(Error::new(format!("{} ended too early", name(number)))),
            Event::Final { .. } => {}
        }
        Ok(())
    }

    fn add_judge(&mut self, event: &Event) -> Result {
        match event {
            Event::Ready { server } => self.server.clone_from(server),
            Event::Final { counter, mirror } => (self.counter, self.mirror) = (*counter, *mirror),
            Event::Ended if !self.stopping => return Err(Error::new("the shared state could not be set up")),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn killed(&mut self, number: usize, at: u64) {
        self.killed_at = at;
        self.stopped(number, at, State::Killed, What::Killed);
    }

    pub(crate) fn paused(&mut self, number: usize, at: u64) {
        self.paused_at = at;
        self.stopped(number, at, State::Paused, What::Paused);
    }

    fn stopped(&mut self, number: usize, at: u64, state: State, what: What) {
        let since = self.workers[number].lingering_since;
        self.workers[number].state = state;
        self.mark(number, at, What::Stopped { since });
        self.mark(number, at, what);
    }

    pub(crate) fn resumed(&mut self, number: usize, at: u64) {
        self.workers[number].state = State::Resumed;
        self.workers[number].turns_since_resumed = Some(0);
        self.mark(number, at, What::Resumed);
    }

    pub(crate) fn mark(&mut self, worker: usize, at: u64, what: What) {
        self.marks.push(Mark { worker, at, what });
    }

    pub(crate) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// From now on everything counts for the picture.
    pub(crate) fn complete(&mut self, at: u64) {
        self.complete_at = at;
    }

    /// The turns that count for the picture.
    pub(crate) fn turns_of_all(&self) -> impl Iterator<Item = &(usize, Turn)> {
        self.turns.iter().filter(|(_, turn)| turn.granted >= self.complete_at)
    }

    /// From now on workers may end. The workers in these languages did not join.
    pub(crate) fn stopping(&mut self, missing: Vec<(Language, String)>) {
        self.stopping = true;
        self.missing = missing;
        for worker in self.workers.iter_mut().filter(|worker| worker.state == State::Starting) {
            worker.state = State::Missing;
        }
    }

    /// Every turn with the lock, and the number of the worker that had it.
    pub(crate) fn turns(&self) -> &[(usize, Turn)] {
        &self.turns
    }

    /// How many updates the writers made under the lock.
    pub(crate) fn updates(&self) -> u64 {
        self.turns.iter().filter(|(number, _)| is_writer(*number)).count() as u64
    }

    pub(crate) fn reads(&self) -> u64 {
        self.turns.len() as u64 - self.updates()
    }

    pub(crate) fn torn(&self) -> u64 {
        self.torn
    }

    /// How many updates are missing from the shared counter.
    pub(crate) fn lost(&self) -> i64 {
        i64::try_from(self.updates()).unwrap_or(i64::MAX).saturating_sub(self.counter)
    }

    /// Whether each writer's fence was greater than every fence before it.
    fn fences_rise(&self) -> bool {
        let mut turns = self.turns.clone();
        turns.sort_by_key(|(_, turn)| turn.granted);
        let mut greatest = 0;
        turns.iter().all(|(number, turn)| {
            let rises = !is_writer(*number) || turn.fence > greatest;
            greatest = greatest.max(turn.fence);
            rises
        })
    }

    /// The times from one writer's release to the next writer's grant, if the next one was waiting already; sorted.
    fn handovers(&self) -> Vec<Duration> {
        let mut turns = self.turns.clone();
        turns.sort_by_key(|(_, turn)| turn.fence);
        let pairs = turns.windows(2).filter_map(|pair| match pair {
            [(one, before), (other, after)] => {
                let waited = is_writer(*one) && is_writer(*other) && after.asked < before.released;
                waited.then(|| after.granted.checked_sub(before.released))?
            }
            _ => None,
        });
        let mut times: Vec<Duration> = pairs.map(Duration::from_micros).collect();
        times.sort_unstable();
        times
    }

    /// The longest time without a grant, from this moment until the lock must be free again.
    fn longest_stall(&self, from: u64) -> Duration {
        let until = from + u64::try_from(AFTERMATH.as_micros()).unwrap_or(0);
        let mut moments: Vec<u64> = self.turns.iter().map(|(_, turn)| turn.granted).filter(|at| *at > from).collect();
        moments.push(from);
        moments.sort_unstable();
        let pairs = moments.windows(2).take_while(|pair| pair[0] < until);
        Duration::from_micros(pairs.map(|pair| pair[1] - pair[0]).max().unwrap_or(u64::MAX))
    }

    /// The workers that have joined but never held the lock, and the paused one if it has not held the lock again.
    pub(crate) fn without_a_turn(&self) -> impl Iterator<Item = usize> {
        let is_here = |worker: &Seen| !matches!(worker.state, State::Starting | State::Missing);
        let waits = move |worker: &Seen| worker.turns == 0 || worker.turns_since_resumed == Some(0);
        let workers = self.workers.iter().enumerate();
        workers.filter(move |(_, worker)| is_here(worker) && waits(worker)).map(|(number, _)| number)
    }

    /// What the resource answered to the late write of this worker, which was paused.
    pub(crate) fn judgement_of(&self, number: usize) -> Option<Judgement> {
        let own = self.marks.iter().filter(|mark| mark.worker == number);
        // A slow machine may have made it late before the pause, too.
        let mut since = own.skip_while(|mark| !matches!(mark.what, What::Paused));
        since.find_map(|mark| match mark.what {
            What::Refused { fence } => Some(Judgement::Refused(fence)),
            What::Slipped { .. } => Some(Judgement::Accepted),
            _ => None,
        })
    }

    /// Every promise that was broken.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |right: bool, problem: String| {
            if !right {
                problems.push(problem);
            }
        };
        check(self.lost() == 0, format!("{} updates were lost", self.lost()));
        check(self.mirror == self.counter, format!("the counter is {}, its mirror {}", self.counter, self.mirror));
        check(self.torn == 0, format!("{} reads saw half an update", self.torn));
        check(self.refused > 0, "the late write of the paused writer was not refused".to_owned());
        check(self.slipped == 0, format!("{} late writes went through", self.slipped));
        check(self.fences_rise(), "a fence was not greater than the one before".to_owned());
        for number in self.without_a_turn() {
            check(false, format!("{} did not get the lock, or not again after its pause", name(number)));
        }
        problems
    }

    pub(crate) fn verdict(&self) -> Result {
        let problems = self.problems();
        if problems.is_empty() { Ok(()) } else { Err(Error::new(problems.join("; "))) }
    }

    /// The table at the end.
    pub(crate) fn print(&self) {
        println!("\n  worker            grants");
        for (number, worker) in self.workers.iter().enumerate() {
            let fate = match worker.state {
                State::Killed => "killed (SIGKILL) while it held the lock",
                State::Resumed => "paused (SIGSTOP) until after its lease had expired, then resumed",
                State::Missing => "missing",
                _ => "",
            };
            println!("  {:<9} {:<4}  {:>8}  {fate}", name(number), worker.language.name(), worker.turns);
        }
        let handovers = self.handovers();
        let rising = if self.fences_rise() { "yes" } else { "NO" };
        println!();
        row("updates made under the lock", self.updates().to_string());
        row("updates lost", self.lost().to_string());
        row("reads / half updates seen", format!("{} / {}", self.reads(), self.torn));
        row("late writes refused by their fence", format!("{} (accepted: {})", self.refused, self.slipped));
        row("every fence greater than the last", format!("{rising}, in {} grants", self.turns.len()));
        row("hand-over p50 / p99", format!("{} / {}", shown(at(&handovers, 50)), shown(at(&handovers, 99))));
        row(
            "longest stall after the kill",
            format!("{} (the lease lasts {TTL:?})", shown(self.longest_stall(self.killed_at))),
        );
        row("longest stall after the pause", shown(self.longest_stall(self.paused_at)));
        let problems = self.problems();
        for problem in &problems {
            println!("  BROKEN: {problem}");
        }
        if problems.is_empty() {
            println!("\n  Every promise was kept.");
        }
        for (language, reason) in &self.missing {
            let numbers = self.workers.iter().enumerate().filter(|(_, worker)| worker.language == *language);
            println!("\n  Without {} ({}): {reason}", names(numbers.map(|(number, _)| number)), language.name());
            println!("  `cargo xtask demo --{}` waits for them.", language.name().to_lowercase());
        }
    }
}

fn is_writer(number: usize) -> bool {
    number < WRITERS
}

pub(crate) fn name(number: usize) -> String {
    match number.checked_sub(WRITERS) {
        None => format!("writer {}", number + 1),
        Some(reader) => format!("reader {}", reader + 1),
    }
}

/// `writers 7 and 8`.
pub(crate) fn names(numbers: impl Iterator<Item = usize>) -> String {
    let numbers: Vec<usize> = numbers.collect();
    match numbers.as_slice() {
        [one] => name(*one),
        several if several.iter().all(|number| is_writer(*number)) => {
            let numbers: Vec<String> = several.iter().map(|number| (number + 1).to_string()).collect();
            format!("writers {}", numbers.join(" and "))
        }
        several => several.iter().map(|number| name(*number)).collect::<Vec<_>>().join(" and "),
    }
}

fn row(what: &str, value: String) {
    println!("  {what:<36}{value}");
}

fn shown(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 { format!("{:.2} ms", seconds * 1000.0) } else { format!("{seconds:.2} s") }
}

/// A percentile of the sorted times.
fn at(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or_default()
}
