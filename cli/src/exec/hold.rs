//! Runs a command while a lease is held.
//!
//! A lease that is not renewed is nearly over once no more than `lead` of it is left. The command is then ended while
//! the lease still holds, so it doesn't overlap with the next holder.

use std::pin::pin;
use std::time::Duration;

use leasehold::LossReason;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, sleep_until};

#[cfg(unix)]
use super::child::{Child, Ended};
use super::events::Events;
#[cfg(unix)]
use super::guard::{Deadline, Guard};
use super::job::{Held, Job};
#[cfg(windows)]
use super::windows::{Child, Deadline, Ended, Guard};
use crate::report::Outcome;
use crate::signals::{Signal, Signals};

/// How often to look whether a process of the group is left after the command itself ended.
const GROUP_POLL: Duration = Duration::from_millis(20);
/// The command is killed so long before the lease ends, or a twentieth of the lease if that is less.
const LONGEST_MARGIN: Duration = Duration::from_secs(1);
/// How long the guard waits for this process to act, or a quarter of the time that is left if that is less.
const GUARD_WAITS: Duration = Duration::from_millis(250);
/// A lease that ends so shortly before the end of `--max-hold`, or a third of a TTL, ends because of it.
const NEARLY: Duration = Duration::from_secs(1);

/// Runs the command while the lease is held, and gives the lease back.
pub(super) async fn hold(held: Held, job: &Job<'_>, events: &Events<'_>, signals: &mut Signals) -> Outcome<End> {
    events.acquired(held.fence().get());
    let acquired = Instant::now();
    let (mut left, started) = (Left::default(), Guard::start(job.program.grace));
    let started = started.and_then(|guard| {
        let deadline = left.of(&held, job.program.grace).deadline();
        let child = Child::spawn(job, held.fence(), (&guard, deadline), events.output)?;
        Ok((guard, child))
    });
    let (guard, child) = match started {
        Ok(started) => started,
        Err(failure) => {
            let _ = held.release().await;
            return Err(failure);
        }
    };
    let mut run = Run { held, acquired, job, events, guard, child, ended: None, asked: false, left };
    // Where the command's process could not do that.
    run.guard.lease_ends(run.child.group(), left.deadline());
    let (ended, lost) = run.until_ended(signals).await?;
    let by_guard = run.guard.call_off().then(|| if run.is_held_for_too_long() { MAX_HOLD } else { PAUSED }.to_owned());
    let by = match (&lost, &by_guard) {
        (Some(_), _) => By::Us,
        (None, Some(_)) => By::Guard,
        (None, None) => By::Itself,
    };
    let asked = run.asked;
    let lost = match lost {
        Some(reason) => Some(reason),
        // A command that the guard asked to end may end with 0 before its work is done.
        None => run.held.give_back(ended.status() == 0 && by_guard.is_none(), events).await.or(by_guard),
    };
    Ok(End { ended, by, asked, lost })
}

/// How the command ended.
pub(super) struct End {
    pub(super) ended: Ended,
    pub(super) by: By,
    /// It got a signal that asks for its end, SIGTERM or SIGINT, through this process.
    pub(super) asked: bool,
    /// How the lease was lost, if it was lost before the command had ended.
    pub(super) lost: Option<String>,
}

/// What ended the command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Itself,
    /// This process, because of a loss that was said.
    Us,
    /// The guard, because this process was paused.
    Guard,
}

struct Run<'a> {
    held: Held,
    acquired: Instant,
    job: &'a Job<'a>,
    events: &'a Events<'a>,
    guard: Guard,
    child: Child,
    /// How the command ended. Processes of its group may be left.
    ended: Option<Ended>,
    /// It got a signal that asks for its end.
    asked: bool,
    left: Left,
}

/// How a lease ends that the command has held for too long.
pub(super) const MAX_HOLD: &str = "it reached its --max-hold";
/// How it ends when the guard has to act.
const PAUSED: &str = "`leasehold` was paused until the lease was nearly over";

/// Waits for the next tick, or until this time if that is earlier.
async fn first(ticks: &mut Interval, time: Instant) {
    tokio::select! {
        _ = ticks.tick() => {}
        () = sleep_until(time) => {}
    }
}

/// What is left of the lease.
#[derive(Clone, Copy, Default)]
struct Left {
    /// How long the command may still run. The lease lasts a little longer, because a busy machine ends it late.
    time: Duration,
    /// How long before that the command gets SIGTERM.
    lead: Duration,
    /// The most that was left. A grant from the queue is short at first.
    most: Duration,
    /// The lease has ended.
    over: bool,
}

impl Left {
    fn of(&mut self, held: &Held, grace: Duration) -> Self {
        let left = held.remaining();
        self.most = self.most.max(left);
        self.time = left.saturating_sub((self.most / 20).min(LONGEST_MARGIN));
        self.lead = grace.min(self.most / 3);
        self.over = left.is_zero();
        *self
    }

    /// When the guard acts: a little later than this process, if it runs.
    fn deadline(self) -> Deadline {
        Deadline::of(self.time, self.lead.saturating_sub((self.lead / 4).min(GUARD_WAITS)))
    }

    /// Why the command is ended, and how long it may take to end.
    fn not_renewed(self, grace: Duration) -> (String, Duration) {
        if self.over {
            return ("it was not renewed, and has ended".to_owned(), grace);
        }
        ("it was not renewed, and will end soon".to_owned(), self.time.min(grace))
    }
}

fn text_of(reason: LossReason) -> String {
    if reason == LossReason::MaxHold { MAX_HOLD.to_owned() } else { reason.to_string() }
}

impl Run<'_> {
    /// Waits for the command's end. The second value says how the lease was lost, if it was.
    async fn until_ended(&mut self, signals: &mut Signals) -> Outcome<(Ended, Option<String>)> {
        let mut lost = pin!(self.held.lost());
        let tick = (self.job.ttl / 10).clamp(Duration::from_millis(10), Duration::from_millis(500));
        let mut ticks = interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Some(ended) = self.ended
                && !(self.job.program.group && self.child.group_lives())
            {
                return Ok((ended, None));
            }
            let left = self.left.of(&self.held, self.job.program.grace);
            let nearly_over = Instant::now() + left.time.saturating_sub(left.lead);
            let (reason, grace) = tokio::select! {
                biased;
                reason = &mut lost => (text_of(reason), self.job.program.grace),
                changed = self.child.changed(), if self.ended.is_none() => {
                    self.ended = changed?;
                    if self.ended.is_none() {
                        self.child.follow_stop(&self.held);
                    }
                    continue;
                }
                () = sleep(GROUP_POLL), if self.ended.is_some() => continue,
                signal = signals.next() => {
                    self.pass_on(signal);
                    continue;
                }
                () = first(&mut ticks, nearly_over) => {
                    let left = self.left.of(&self.held, self.job.program.grace);
                    if left.time > left.lead {
                        self.guard.lease_ends(self.child.group(), left.deadline());
                        continue;
                    }
                    let (reason, grace) = left.not_renewed(self.job.program.grace);
                    (if self.is_held_for_too_long() { MAX_HOLD.to_owned() } else { reason }, grace)
                }
            };
            self.events.lost(&reason, grace);
            let ended = self.end(grace, signals).await?;
            return Ok((ended, Some(reason)));
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        self.asked |= matches!(signal, Signal::SIGTERM | Signal::SIGINT);
        self.child.signal(signal);
    }

    /// Whether the lease ends because of `--max-hold`: so it would end soon even if it were renewed.
    fn is_held_for_too_long(&self) -> bool {
        let ends = self.acquired.elapsed() + self.held.remaining() + NEARLY.max(self.job.ttl / 3);
        self.job.max_hold.is_some_and(|limit| ends >= limit)
    }

    /// Ends the command and all processes of its group: SIGTERM, and SIGKILL after the grace period.
    async fn end(&mut self, grace: Duration, signals: &mut Signals) -> Outcome<Ended> {
        let last = Instant::now() + grace;
        self.guard.kill_in(self.child.group(), grace);
        self.child.signal(Signal::SIGTERM);
        // A process that is stopped acts on no signal but these.
        self.child.signal(Signal::SIGCONT);
        while self.ended.is_none() {
            tokio::select! {
                biased;
                () = sleep_until(last) => break,
                changed = self.child.changed() => self.ended = changed?,
                signal = signals.next() => self.pass_on(signal),
            }
        }
        while self.ended.is_some() && self.child.group_lives() && Instant::now() < last {
            sleep(GROUP_POLL).await;
        }
        self.child.signal(Signal::SIGKILL);
        loop {
            match self.ended {
                Some(ended) => return Ok(ended),
                None => self.ended = self.child.changed().await?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_lets_exec_act_first() {
        for (lead, expected) in [(5000, 4750), (400, 300)] {
            let lead = Duration::from_millis(lead);
            let left = Left { time: Duration::from_secs(20), lead, most: Duration::from_secs(30), over: false };
            let Deadline { term_at, end } = left.deadline();
            assert_eq!(Duration::from_nanos(end - term_at), Duration::from_millis(expected));
        }
    }
}
