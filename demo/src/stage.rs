use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::fleet::{Language, Place, READERS, Role, WRITERS, Worker};
use crate::latecomers::{Arrival, News, State};
use crate::report::{Judgement, Report, names};
use crate::screen::Screen;

/// How long to wait for what should happen soon.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long workers that have joined share the lock before the next act, so that the viewer sees them.
const SEEN: Duration = Duration::from_secs(2);
const FRAME: Duration = Duration::from_millis(100);

/// All processes, what they reported so far, and the screen.
pub(crate) struct Stage<'a> {
    place: &'a Place,
    judge: Worker,
    workers: Vec<Option<Worker>>,
    arrivals: Vec<Arrival>,
    /// When the last latecomers joined.
    joined: Option<Instant>,
    inbox: Receiver<(usize, Event)>,
    outbox: Sender<(usize, Event)>,
    report: Report,
    screen: Screen,
}

/// The judge's number. The workers are 0, 1, and so on.
const JUDGE: usize = WRITERS + READERS;

impl<'a> Stage<'a> {
    /// Starts the judge and the workers in Rust, and waits for their first hand-over. `began` is when the demo was started.
    pub(crate) fn open(place: &'a Place, began: Instant, arrivals: Vec<Arrival>) -> Result<Self> {
        let (outbox, inbox): (Sender<_>, _) = channel();
        let judge = Worker::start(place, Role::Judge, JUDGE, &outbox)?;
        let report = Report::new((0..JUDGE).map(|number| place.language(number)));
        let workers = (0..JUDGE).map(|_| None).collect();
        let screen = Screen::new(began);
        let mut stage = Self { place, judge, workers, arrivals, joined: None, inbox, outbox, report, screen };
        stage.play_until(PATIENCE, "the server to answer", |number, event| {
            number == JUDGE && matches!(event, Event::Ready { .. })
        })?;
        let mut missing = stage.start(Language::Rust)?;
        stage.play_until(PATIENCE, "the workers to be ready", |_, event| {
            missing -= usize::from(matches!(event, Event::Ready { .. }));
            missing == 0
        })?;
        let mut turns = 0;
        stage.play_until(PATIENCE, "the first hand-over", |_, event| {
            turns += usize::from(matches!(event, Event::Done(_)));
            turns == 2
        })?;
        stage.screen.note("the first hand-over".to_owned());
        Ok(stage)
    }

    /// Lets the workers run until all latecomers that are awaited have joined.
    pub(crate) fn play_until_all_awaited_are_here(&mut self) -> Result {
        while self.arrivals.iter().any(|arrival| arrival.awaited && arrival.is_expected()) {
            self.next(FRAME)?;
        }
        Ok(())
    }

    /// From now on everything counts for the picture.
    pub(crate) fn raise_the_curtain(&mut self) {
        self.report.complete(now());
    }

    /// Whether this worker shares the lock.
    pub(crate) fn is_here(&self, number: usize) -> bool {
        let language = self.place.language(number);
        let late = self.arrivals.iter().find(|arrival| arrival.language == language);
        self.workers[number].is_some() && late.is_none_or(|late| matches!(late.state, State::Here))
    }

    /// Starts the workers of a language. Returns how many there are.
    fn start(&mut self, language: Language) -> Result<usize> {
        let numbers: Vec<usize> = (0..JUDGE).filter(|number| self.place.language(*number) == language).collect();
        for number in &numbers {
            let role = if *number < WRITERS { Role::Writer } else { Role::Reader };
            self.workers[*number] = Some(Worker::start(self.place, role, *number, &self.outbox)?);
        }
        Ok(numbers.len())
    }

    /// Lets the workers run for at least `least`, and for at most `most` if others may still join. Workers that have
    /// just joined get [`SEEN`] more.
    pub(crate) fn play_for(&mut self, (least, most): (Duration, Duration)) -> Result {
        let began = Instant::now();
        loop {
            let (time, joined) = (began.elapsed(), self.joined);
            let is_settled = joined.is_none_or(|joined| joined.elapsed() >= SEEN || time >= most + SEEN);
            let may_change = self.arrivals.iter().any(Arrival::is_expected);
            if time >= least && is_settled && (!may_change || time >= most) {
                return Ok(());
            }
            self.next(if time < least { least - time } else { FRAME })?;
        }
    }

    /// Lets the workers run until each one that has joined has had a turn, and the paused one another turn. If a worker
    /// gets no turn, the report says so.
    pub(crate) fn play_until_all_had_a_turn(&mut self) -> Result {
        let end = Instant::now() + PATIENCE;
        while self.report.without_a_turn().next().is_some() && Instant::now() < end {
            self.next(FRAME)?;
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

    /// Pauses a writer (SIGSTOP) between its read and its write. Returns the fence of its lease.
    pub(crate) fn pause_in_section(&mut self, number: usize) -> Result<u64> {
        let fence = self.linger(number)?;
        self.worker(number)?.process.pause()?;
        self.report.paused(number, now());
        self.screen.note(format!("writer {} is paused while it holds the lock with fence {fence}", number + 1));
        Ok(fence)
    }

    /// Lets the workers run until a writer with a greater fence has written.
    pub(crate) fn play_until_an_update_after(&mut self, fence: u64) -> Result {
        let later =
            |number, event: &Event| number < WRITERS && matches!(event, Event::Done(turn) if turn.fence > fence);
        self.play_until(PATIENCE, "another writer to write", later).map(drop)
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
        let end = Instant::now() + PATIENCE;
        let judgement = loop {
            if let Some(judgement) = self.report.judgement_of(number) {
                break judgement;
            }
            if Instant::now() > end {
                return Err(never(PATIENCE, "the paused writer to try its late write"));
            }
            self.next(FRAME)?;
        };
        self.screen.note(match judgement {
            Judgement::Refused(fence) => {
                format!("the late write of writer {} with fence {fence} is refused", number + 1)
            }
            Judgement::Accepted => format!("the late write of writer {} is ACCEPTED", number + 1),
        });
        Ok(())
    }

    /// Ends all processes and returns the report.
    pub(crate) fn close(mut self) -> Result<Report> {
        let missing = std::mem::take(&mut self.arrivals).into_iter().filter_map(Arrival::end);
        self.report.stopping(missing.collect());
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
        Err(never(limit, what))
    }

    /// The next event, if one comes within a frame.
    fn next(&mut self, rest: Duration) -> Result<Option<(usize, Event)>> {
        let next = match self.inbox.recv_timeout(rest.min(FRAME)) {
            Ok((number, event)) => {
                self.report.add(number, now(), &event)?;
                self.connected(number, &event);
                Some((number, event))
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(Error::new("all workers have ended")),
        };
        self.look_after_arrivals()?;
        self.screen.show(&self.report);
        Ok(next)
    }

    /// Starts the latecomers whose programs have been built.
    fn look_after_arrivals(&mut self) -> Result {
        for at in 0..self.arrivals.len() {
            let language = self.arrivals[at].language;
            match self.arrivals[at].poll()? {
                News::Nothing => {}
                News::Built => {
                    let processes = self.start(language)?;
                    self.arrivals[at].started(processes);
                }
                News::Failed => self.screen.note(format!("the workers in {} are missing", language.name())),
            }
        }
        self.screen.building = self.arrivals.iter().filter_map(Arrival::line).collect();
        Ok(())
    }

    /// Notes when the last latecomer of a language has joined.
    fn connected(&mut self, number: usize, event: &Event) {
        if !matches!(event, Event::Ready { .. }) || number >= JUDGE {
            return;
        }
        let language = self.place.language(number);
        for arrival in self.arrivals.iter_mut().filter(|arrival| arrival.language == language) {
            if arrival.connected() {
                self.joined = Some(Instant::now());
                let numbers: Vec<usize> =
                    (0..JUDGE).filter(|number| self.place.language(*number) == language).collect();
                let joins = if numbers.len() == 1 { "joins" } else { "join" };
                self.screen.note(format!("{} ({}) {joins}", names(numbers.into_iter()), language.name()));
            }
        }
    }
}

fn never(limit: Duration, what: &str) -> Error {
    Error::new(format!("waited {limit:?} for {what}, but it did not happen"))
}

/// Microseconds of the system's clock, which the workers use too.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
