use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::fleet::{Language, Place, READERS, Role, WRITERS, Worker};
use crate::progress::Work;
use crate::report::Report;
use crate::screen::Screen;

/// How long to wait for what should happen soon.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long to wait for all workers: a WASI worker first compiles its component.
const START: Duration = Duration::from_secs(60);
const FRAME: Duration = Duration::from_millis(100);

/// All processes, what they reported so far, and the screen.
pub(crate) struct Stage {
    judge: Worker,
    workers: Vec<Option<Worker>>,
    inbox: Receiver<(usize, Event)>,
    outbox: Sender<(usize, Event)>,
    report: Report,
    screen: Screen,
}

/// The judge's number. The workers are 0, 1, and so on.
const JUDGE: usize = WRITERS + READERS;

impl Stage {
    /// Starts the judge and the workers in Rust, and waits until they are ready. `began` is when the demo was started.
    pub(crate) fn open(place: &Place, began: Instant) -> Result<Self> {
        let (outbox, inbox): (Sender<_>, _) = channel();
        let judge = Worker::start(place, Role::Judge, JUDGE, &outbox)?;
        let report = Report::new((0..JUDGE).map(|number| place.language(number)));
        let workers = (0..JUDGE).map(|_| None).collect();
        let mut stage = Self { judge, workers, inbox, outbox, report, screen: Screen::new(began) };
        stage.play_until(PATIENCE, "the server to answer", |number, event| {
            number == JUDGE && matches!(event, Event::Ready { .. })
        })?;
        stage.start(place, |language| language == Language::Rust)?;
        let mut turns = 0;
        stage.play_until(PATIENCE, "the first hand-over", |_, event| {
            turns += usize::from(matches!(event, Event::Done(_)));
            turns == 2
        })?;
        stage.screen.note("the first hand-over".to_owned());
        Ok(stage)
    }

    /// Starts the other workers. From now on everything counts for the picture.
    pub(crate) fn complete(&mut self, place: &Place) -> Result {
        self.start(place, |language| language != Language::Rust)?;
        self.screen.note("all ten processes share the lock".to_owned());
        self.report.complete(now());
        Ok(())
    }

    /// Starts the workers of some languages and waits until they are ready.
    fn start(&mut self, place: &Place, wanted: impl Fn(Language) -> bool) -> Result {
        let numbers: Vec<usize> = (0..JUDGE).filter(|number| wanted(place.language(*number))).collect();
        for number in &numbers {
            let role = if *number < WRITERS { Role::Writer } else { Role::Reader };
            self.workers[*number] = Some(Worker::start(place, role, *number, &self.outbox)?);
        }
        let mut missing = numbers.len();
        if missing > 0 {
            self.play_until(START, "the workers to be ready", |_, event| {
                missing -= usize::from(matches!(event, Event::Ready { .. }));
                missing == 0
            })?;
        }
        Ok(())
    }

    /// Lets the workers run while something is built.
    pub(crate) fn play_while(&mut self, mut work: Work) -> Result {
        loop {
            self.screen.building = work.line();
            self.next(FRAME)?;
            if let Some(outcome) = work.poll(Duration::ZERO) {
                self.screen.building = String::new();
                return outcome;
            }
        }
    }

    /// Lets the workers run.
    pub(crate) fn play_for(&mut self, time: Duration) -> Result {
        let end = Instant::now() + time;
        while let Some(rest) = end.checked_duration_since(Instant::now()) {
            self.next(rest)?;
        }
        Ok(())
    }

    /// Kills a writer (SIGKILL) between its read and its write.
    pub(crate) fn kill_in_section(&mut self, number: usize) -> Result {
        let fence = self.linger(number)?;
        if let Some(mut worker) = self.workers[number].take() {
            worker.process.kill();
        }
        self.report.killed(number, now());
        self.screen.note(format!("writer {} is killed while it holds the lock with fence {fence}", number + 1));
        Ok(())
    }

    /// Pauses a writer (SIGSTOP) between its read and its write.
    pub(crate) fn pause_in_section(&mut self, number: usize) -> Result {
        let fence = self.linger(number)?;
        self.worker(number)?.process.pause()?;
        self.report.paused(number, now());
        self.screen.note(format!("writer {} is paused while it holds the lock with fence {fence}", number + 1));
        Ok(())
    }

    /// Resumes a paused writer (SIGCONT).
    pub(crate) fn resume(&mut self, number: usize) -> Result {
        self.worker(number)?.process.resume()?;
        self.report.resumed(number, now());
        self.screen
            .note(format!("writer {} is resumed: its lease has expired, but it still tries to write", number + 1));
        Ok(())
    }

    /// Waits until the resource has refused or accepted the late write of a resumed writer.
    pub(crate) fn play_until_refused(&mut self, number: usize) -> Result {
        let judged =
            |from, event: &Event| from == number && matches!(event, Event::Refused { .. } | Event::Slipped { .. });
        let event = self.play_until(PATIENCE, "the paused writer to try its late write", judged)?;
        self.screen.note(match event {
            Event::Refused { fence } => {
                format!("the late write of writer {} with fence {fence} is refused", number + 1)
            }
            _ => format!("the late write of writer {} is ACCEPTED", number + 1),
        });
        Ok(())
    }

    /// Ends all processes and returns the report.
    pub(crate) fn close(mut self) -> Result<Report> {
        self.report.stopping();
        for worker in self.workers.iter_mut().flatten() {
            worker.stop();
        }
        for worker in self.workers.iter_mut().flatten() {
            worker.join(PATIENCE)?;
        }
        self.judge.stop();
        self.play_until(PATIENCE, "the last look at the shared state", |_, event| {
            matches!(event, Event::Final { .. })
        })?;
        self.judge.join(PATIENCE)?;
        self.screen.end(&self.report);
        Ok(self.report)
    }

    /// Tells a writer to stay in its next critical section, and waits until it does.
    fn linger(&mut self, number: usize) -> Result<u64> {
        self.worker(number)?.linger()?;
        let there = |from, event: &Event| from == number && matches!(event, Event::Lingering { .. });
        match self.play_until(PATIENCE, "a writer to enter its critical section", there)? {
            Event::Lingering { fence } => Ok(fence),
            _ => Ok(0),
        }
    }

    fn worker(&mut self, number: usize) -> Result<&mut Worker> {
        self.workers[number].as_mut().ok_or_else(|| Error::new(format!("writer {} has ended", number + 1)))
    }

    /// Lets the workers run until an event that is wanted.
    fn play_until(
        &mut self,
        limit: Duration,
        what: &str,
        mut wanted: impl FnMut(usize, &Event) -> bool,
    ) -> Result<Event> {
        let end = Instant::now() + limit;
        while let Some(rest) = end.checked_duration_since(Instant::now()) {
            if let Some((number, event)) = self.next(rest)?
                && wanted(number, &event)
            {
                return Ok(event);
            }
        }
        Err(Error::new(format!("waited {limit:?} for {what}, but it did not happen")))
    }

    /// The next event, if one comes within a frame.
    fn next(&mut self, rest: Duration) -> Result<Option<(usize, Event)>> {
        let next = match self.inbox.recv_timeout(rest.min(FRAME)) {
            Ok((number, event)) => {
                self.report.add(number, now(), &event)?;
                Some((number, event))
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(Error::new("all workers have ended")),
        };
        self.screen.show(&self.report);
        Ok(next)
    }
}

/// Microseconds of the system's clock, which the workers use too.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
