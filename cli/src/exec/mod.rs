//! `leasehold exec`: runs a command under a lock.
//!
//! ```text
//!  wait for the lock ──► run ──► the command ended ──► release ──► its status
//!        │ signal, busy   │ lease lost, or nearly over
//!        ▼                ▼
//!      leave            SIGTERM ──► grace ──► SIGKILL ──► "lost"
//! ```
//!
//! A lease that is not renewed is nearly over once no more than `lead` of it is left. The command is then ended while
//! the lease still holds, so it doesn't overlap with the next holder.
//!
//! A second process, the guard, ends the command if this one is killed or paused while the lease runs out. `windows.rs`
//! does without it, and without signals.

#[cfg(unix)]
mod child;
mod events;
#[cfg(unix)]
mod guard;
#[cfg(unix)]
mod helper;
#[cfg(unix)]
mod lookup;
#[cfg(unix)]
mod own;
#[cfg(unix)]
mod start;
#[cfg(unix)]
mod terminal;
#[cfg(windows)]
mod windows;

use std::pin::pin;
use std::time::Duration;

use leasehold::{Error, Lease, Lock, LockManager, LossReason, Once, ReleaseOutcome};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, sleep_until};

use crate::args::{Exec, Servers};
use crate::report::{Failure, Outcome, Output};
use crate::signals::{Signal, Signals, status};
use crate::taking::Taking;

#[cfg(unix)]
use child::{Child, Ended, FORWARDED};
use events::Events;
#[cfg(unix)]
use guard::{Deadline, Guard};
#[cfg(unix)]
pub(crate) use helper::run as helper;
#[cfg(windows)]
pub(crate) use windows::helper;
#[cfg(windows)]
use windows::{Child, Deadline, Ended, FORWARDED, Guard, lookup};

/// How often to look whether a process of the group is left after the command itself ended.
const GROUP_POLL: Duration = Duration::from_millis(20);
/// The command is killed so long before the lease ends, or a twentieth of the lease if that is less.
const LONGEST_MARGIN: Duration = Duration::from_secs(1);
/// How long the guard waits for this process to act, or a quarter of the time that is left if that is less.
const GUARD_WAITS: Duration = Duration::from_millis(250);
/// A lease that ends so shortly before the end of `--max-hold`, or a third of a TTL, ends because of it.
const NEARLY: Duration = Duration::from_secs(1);

pub(crate) async fn run(servers: &Servers, arguments: &Exec, output: Output) -> Outcome {
    let Some(program) = arguments.command.first() else {
        return Err(Failure::usage("there is no command", "give one after `--`"));
    };
    // Nobody should wait an hour for a lock and then read of a typing error.
    lookup::check(program)?;
    let take = &arguments.take;
    let token = take.token()?;
    let events = Events { output, all: take.says_all(output), name: &take.name };
    let mut signals = Signals::listen(&FORWARDED)?;
    let locks = tokio::select! {
        signal = signals.ending() => return Ok(status(signal)),
        locks = servers.locks_as(take.label.as_deref()) => locks?,
    };
    let taking = Taking { take, locks: &locks, output, token };
    let acquired = tokio::select! {
        signal = signals.ending() => Err(Ok(status(signal))),
        acquired = taking.lease(lock(&locks, arguments)), if !arguments.once => acquired,
        acquired = taking.once(once(&locks, arguments)), if arguments.once => acquired,
    };
    let outcome = match acquired {
        Ok(lease) => hold(lease, arguments, &events, &mut signals).await,
        Err(outcome) => outcome,
    };
    // Also leaves the queue, so that the next waiter doesn't wait for this one.
    locks.close().await;
    outcome
}

fn lock(locks: &LockManager, arguments: &Exec) -> Lock {
    let name = &arguments.take.name;
    let lock = match (arguments.permits, arguments.of) {
        (Some(permits), Some(limit)) => locks.semaphore(name, limit).permits(permits),
        _ if arguments.read => locks.read_write(name).read(),
        _ => locks.mutex(name),
    };
    let lock = lock.ttl(arguments.ttl);
    let lock = match arguments.max_hold {
        Some(limit) => lock.max_hold(limit),
        None => lock,
    };
    match arguments.at_least {
        Some(time) => lock.at_least(time),
        None => lock,
    }
}

fn once(locks: &LockManager, arguments: &Exec) -> Once {
    let once = locks.once(&arguments.take.name).ttl(arguments.ttl).wait(arguments.take.wait);
    let once = match arguments.max_hold {
        Some(limit) => once.max_hold(limit),
        None => once,
    };
    match arguments.keep {
        Some(time) => once.keep(time),
        None => once,
    }
}

/// Runs the command while the lease is held, and gives the lease back.
async fn hold(lease: Lease, arguments: &Exec, events: &Events<'_>, signals: &mut Signals) -> Outcome {
    events.acquired(lease.fence().get());
    let acquired = Instant::now();
    let (mut left, started) = (Left::default(), Guard::start(arguments.grace));
    let started = started.and_then(|guard| {
        let deadline = left.of(&lease, arguments.grace).deadline();
        let child = Child::spawn(arguments, &lease, (&guard, deadline), events.output)?;
        Ok((guard, child))
    });
    let (guard, child) = match started {
        Ok(started) => started,
        Err(failure) => {
            let _ = lease.release().await;
            return Err(failure);
        }
    };
    let mut run = Run { lease, acquired, arguments, events, guard, child, ended: None, left };
    // Where the command's process could not do that.
    run.guard.lease_ends(run.child.group(), left.deadline());
    let (ended, lost) = run.until_ended(signals).await?;
    let ended_by_guard = run.guard.call_off().then(|| {
        if run.is_held_for_too_long() {
            MAX_HOLD
        } else {
            "`leasehold exec` was paused until the lease was nearly over"
        }
    });
    let lost = match lost {
        Some(reason) => Some(reason),
        None => {
            let lost = run.release().await;
            lost.or(ended_by_guard.map(str::to_owned))
        }
    };
    match lost {
        None => Ok(ended.status()),
        Some(reason) => {
            let message = format!("lock `{}`: the lease was lost: {reason}; the command {ended}", events.name);
            let remedy = if reason == MAX_HOLD {
                "find out why the command takes so long, or give it more time with --max-hold"
            } else {
                "check what the command wrote; only a resource that checks LEASEHOLD_FENCE refuses late writes"
            };
            Err(Failure::new(arguments.lost_exit_code, "lost", message, remedy))
        }
    }
}

struct Run<'a> {
    lease: Lease,
    acquired: Instant,
    arguments: &'a Exec,
    events: &'a Events<'a>,
    guard: Guard,
    child: Child,
    /// How the command ended. Processes of its group may be left.
    ended: Option<Ended>,
    left: Left,
}

/// How a lease ends that the command has held for too long.
const MAX_HOLD: &str = "it reached its --max-hold";

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
    fn of(&mut self, lease: &Lease, grace: Duration) -> Self {
        let left = lease.remaining();
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
        let mut lost = pin!(self.lease.lost());
        let tick = (self.arguments.ttl / 10).clamp(Duration::from_millis(10), Duration::from_millis(500));
        let mut ticks = interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if let Some(ended) = self.ended
                && !(self.arguments.group && self.child.group_lives())
            {
                return Ok((ended, None));
            }
            let left = self.left.of(&self.lease, self.arguments.grace);
            let nearly_over = Instant::now() + left.time.saturating_sub(left.lead);
            let (reason, grace) = tokio::select! {
                biased;
                reason = &mut lost => (text_of(reason), self.arguments.grace),
                changed = self.child.changed(), if self.ended.is_none() => {
                    self.ended = changed?;
                    if self.ended.is_none() {
                        self.child.follow_stop(&self.lease);
                    }
                    continue;
                }
                () = sleep(GROUP_POLL), if self.ended.is_some() => continue,
                signal = signals.next() => {
                    self.child.signal(signal);
                    continue;
                }
                () = first(&mut ticks, nearly_over) => {
                    let left = self.left.of(&self.lease, self.arguments.grace);
                    if left.time > left.lead {
                        self.guard.lease_ends(self.child.group(), left.deadline());
                        continue;
                    }
                    let (reason, grace) = left.not_renewed(self.arguments.grace);
                    (if self.is_held_for_too_long() { MAX_HOLD.to_owned() } else { reason }, grace)
                }
            };
            self.events.lost(&reason, grace);
            let ended = self.end(grace, signals).await?;
            return Ok((ended, Some(reason)));
        }
    }

    /// Whether the lease ends because of `--max-hold`: so it would end soon even if it were renewed.
    fn is_held_for_too_long(&self) -> bool {
        let ends = self.acquired.elapsed() + self.lease.remaining() + NEARLY.max(self.arguments.ttl / 3);
        self.arguments.max_hold.is_some_and(|limit| ends >= limit)
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
                signal = signals.next() => self.child.signal(signal),
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

    /// Gives the lease back, and stores that the command has succeeded. Returns why that is not stored, as far as is known.
    async fn store(self) -> Option<String> {
        match self.lease.store(&()).await {
            Ok(()) => {
                self.events.released();
                None
            }
            Err(Error::Lost { reason, .. }) => Some(format!("{reason}, so its success is not stored")),
            Err(error) => Some(format!("its success is perhaps not stored: {error}")),
        }
    }

    /// Gives the lease back. Returns how it was lost, if the command ended after that.
    async fn release(self) -> Option<String> {
        if self.arguments.once && self.ended.is_some_and(|ended| ended.status() == 0) {
            return self.store().await;
        }
        match self.lease.release().await {
            Ok(ReleaseOutcome::AlreadyExpired) => {
                Some("it had expired or was taken by force when the command ended".to_owned())
            }
            Ok(ReleaseOutcome::NotOwner) => Some("another client had taken it when the command ended".to_owned()),
            Ok(ReleaseOutcome::Detached) => {
                self.events.detached();
                None
            }
            Ok(_) => {
                self.events.released();
                None
            }
            // The lease was valid when the command ended. Now it ends with its TTL.
            Err(error) => {
                self.events.not_released(&error.into());
                None
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
