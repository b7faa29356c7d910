use std::time::Duration;

use serde_json::{Value, json};

use super::event::{Event, Turn};
use super::fleet::{Language, Role};
use super::{STALL_LIMIT, TTL, WRITERS};
use crate::error::{Error, Result};

/// All that the workers told, and what follows from it.
pub(crate) struct Report {
    pub(crate) server: String,
    pub(crate) workers: Vec<Seen>,
    turns: Vec<(Role, Turn)>,
    killed_at: u64,
    paused_at: u64,
    stopping: bool,
    pub(crate) refused: u64,
    slipped: u64,
    torn: u64,
    counter: i64,
    mirror: i64,
}

/// What is known of one worker.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) role: Role,
    pub(crate) language: Language,
    pub(crate) turns: u64,
    pub(crate) state: State,
    /// Its turns after it came back from a pause.
    turns_since_resumed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Starting,
    Working,
    Lingering,
    Killed,
    Paused,
    Resumed,
}

impl Report {
    /// About these workers: first the writers, then the readers.
    pub(crate) fn new(languages: impl Iterator<Item = Language>) -> Self {
        let workers = languages.enumerate().map(|(number, language)| Seen {
            role: if number < WRITERS { Role::Writer } else { Role::Reader },
            language,
            turns: 0,
            state: State::Starting,
            turns_since_resumed: None,
        });
        Self {
            server: String::new(),
            workers: workers.collect(),
            turns: Vec::new(),
            killed_at: 0,
            paused_at: 0,
            stopping: false,
            refused: 0,
            slipped: 0,
            torn: 0,
            counter: 0,
            mirror: 0,
        }
    }

    /// Takes note of what a worker told; an error if it ended and should not have.
    pub(crate) fn add(&mut self, number: usize, event: &Event) -> Result {
        let Some(worker) = self.workers.get_mut(number) else { return self.add_judge(event) };
        match event {
            Event::Ready { .. } => worker.state = State::Working,
            Event::Lingering { .. } => worker.state = State::Lingering,
            Event::Refused { .. } => self.refused += 1,
            Event::Slipped { .. } => self.slipped += 1,
            Event::Done(turn) => {
                worker.turns += 1;
                if let Some(turns) = &mut worker.turns_since_resumed {
                    *turns += 1;
                }
                self.torn += u64::from(!turn.consistent);
                self.turns.push((worker.role, *turn));
            }
            Event::Ended if self.stopping || worker.state == State::Killed => {}
            Event::Ended => return Err(Error::new(format!("{} ended by itself", name(number)))),
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
        self.workers[number].state = State::Killed;
    }

    pub(crate) fn paused(&mut self, number: usize, at: u64) {
        self.paused_at = at;
        self.workers[number].state = State::Paused;
    }

    pub(crate) fn resumed(&mut self, number: usize) {
        self.workers[number].state = State::Resumed;
        self.workers[number].turns_since_resumed = Some(0);
    }

    /// From now on it is right that workers end.
    pub(crate) fn stopping(&mut self) {
        self.stopping = true;
    }

    /// How often somebody had the lock.
    pub(crate) fn turns(&self) -> usize {
        self.turns.len()
    }

    /// Updates that writers made, each under the lock.
    pub(crate) fn updates(&self) -> u64 {
        self.turns.iter().filter(|(role, _)| *role == Role::Writer).count() as u64
    }

    pub(crate) fn reads(&self) -> u64 {
        self.turns() as u64 - self.updates()
    }

    pub(crate) fn torn(&self) -> u64 {
        self.torn
    }

    /// What the shared counter lacks.
    fn lost(&self) -> i64 {
        i64::try_from(self.updates()).unwrap_or(i64::MAX).saturating_sub(self.counter)
    }

    /// Whether each exclusive lease had a greater fence than all leases before it.
    fn fences_rise(&self) -> bool {
        let mut turns = self.turns.clone();
        turns.sort_by_key(|(_, turn)| turn.granted);
        let mut greatest = 0;
        turns.iter().all(|(role, turn)| {
            let rises = *role == Role::Reader || turn.fence > greatest;
            greatest = greatest.max(turn.fence);
            rises
        })
    }

    /// From one writer's release to the next writer's grant, where the next one was waiting already; in order of size.
    fn handovers(&self) -> Vec<Duration> {
        let mut turns = self.turns.clone();
        turns.sort_by_key(|(_, turn)| turn.fence);
        let pairs = turns.windows(2).filter_map(|pair| match pair {
            [(Role::Writer, before), (Role::Writer, after)] if after.asked < before.released => {
                after.granted.checked_sub(before.released)
            }
            _ => None,
        });
        let mut times: Vec<Duration> = pairs.map(Duration::from_micros).collect();
        times.sort_unstable();
        times
    }

    /// The longest time without a grant, from this moment until the lock was surely back.
    fn longest_stall(&self, from: u64) -> Duration {
        let until = from + u64::try_from(STALL_LIMIT.as_micros()).unwrap_or(0);
        let mut moments: Vec<u64> = self.turns.iter().map(|(_, turn)| turn.granted).filter(|at| *at > from).collect();
        moments.push(from);
        moments.sort_unstable();
        let pairs = moments.windows(2).take_while(|pair| pair[0] < until);
        Duration::from_micros(pairs.map(|pair| pair[1] - pair[0]).max().unwrap_or(u64::MAX))
    }

    /// Everything that is not as promised.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |right: bool, problem: String| {
            if !right {
                problems.push(problem);
            }
        };
        check(self.lost() == 0, format!("{} updates are lost", self.lost()));
        check(self.mirror == self.counter, format!("the counter is {}, its mirror {}", self.counter, self.mirror));
        check(self.torn == 0, format!("{} reads saw a half-made update", self.torn));
        check(self.refused > 0, "the late write of the paused writer was not refused".to_owned());
        check(self.slipped == 0, format!("{} late writes went through", self.slipped));
        check(self.fences_rise(), "a fence did not rise".to_owned());
        for (what, from) in [("kill", self.killed_at), ("pause", self.paused_at)] {
            let stall = self.longest_stall(from);
            check(stall <= STALL_LIMIT, format!("{stall:.1?} without a grant after the {what}"));
        }
        for (number, worker) in self.workers.iter().enumerate() {
            check(worker.turns > 0, format!("{} was never granted", name(number)));
            check(worker.turns_since_resumed != Some(0), format!("{} was never granted again", name(number)));
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
                State::Killed => "killed by SIGKILL while it held the lock",
                State::Resumed => "paused by SIGSTOP past its TTL, and back again",
                _ => "",
            };
            println!("  {:<9} {:<4}  {:>8}  {fate}", name(number), worker.language.name(), worker.turns);
        }
        let handovers = self.handovers();
        let rising = if self.fences_rise() { "yes" } else { "NO" };
        println!();
        row("updates made under the lock", self.updates().to_string());
        row("updates lost", self.lost().to_string());
        row("reads / half-made updates seen", format!("{} / {}", self.reads(), self.torn));
        row("stale writes refused by fence", format!("{} (let through: {})", self.refused, self.slipped));
        row("fences rising", format!("{rising}, over {} grants", self.turns()));
        row("hand-over p50 / p99", format!("{} / {}", shown(at(&handovers, 50)), shown(at(&handovers, 99))));
        row(
            "longest stall after the kill",
            format!("{} (a lease lasts {TTL:?})", shown(self.longest_stall(self.killed_at))),
        );
        row("longest stall after the pause", shown(self.longest_stall(self.paused_at)));
        let problems = self.problems();
        for problem in &problems {
            println!("  WRONG: {problem}");
        }
        if problems.is_empty() {
            println!("\n  Everything as promised.");
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let handovers = self.handovers();
        let workers: Vec<Value> = self
            .workers
            .iter()
            .enumerate()
            .map(|(number, worker)| {
                json!({ "name": name(number), "language": worker.language.name(), "grants": worker.turns, "killed": worker.state == State::Killed,
                    "paused": worker.state == State::Resumed })
            })
            .collect();
        json!({
            "server": self.server,
            "workers": workers,
            "updates": self.updates(),
            "updates_lost": self.lost(),
            "reads": self.reads(),
            "torn_reads": self.torn,
            "stale_writes_refused": self.refused,
            "stale_writes_let_through": self.slipped,
            "fences_rising": self.fences_rise(),
            "handovers": handovers.len(),
            "handover_p50_us": micros(at(&handovers, 50)),
            "handover_p99_us": micros(at(&handovers, 99)),
            "stall_after_kill_us": micros(self.longest_stall(self.killed_at)),
            "stall_after_pause_us": micros(self.longest_stall(self.paused_at)),
            "problems": self.problems(),
        })
    }
}

pub(crate) fn name(number: usize) -> String {
    match number.checked_sub(WRITERS) {
        None => format!("writer {}", number + 1),
        Some(reader) => format!("reader {}", reader + 1),
    }
}

fn row(what: &str, value: String) {
    println!("  {what:<32}{value}");
}

fn shown(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 { format!("{:.2} ms", seconds * 1000.0) } else { format!("{seconds:.2} s") }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The value below which this share of the sorted times lies.
fn at(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or_default()
}
