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
//! A second process, the guard, ends the command if this one is killed or paused while the lease runs out.

mod child;
mod events;
mod guard;
mod helper;
mod lookup;
mod own;
mod start;
mod terminal;

use std::pin::pin;
use std::time::Duration;

use leasehold::{Lease, Lock, LockManager, ReleaseOutcome, Wait};
use nix::sys::signal::Signal;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::args::{Exec, Servers};
use crate::render::is_endless;
use crate::report::{BUSY, Failure, Outcome, Output, exit};
use crate::signals::{Signals, status};

use child::{Child, Ended, FORWARDED};
use events::Events;
use guard::{Deadline, Guard};
pub(crate) use helper::run as helper;

/// How often to look whether a process of the group is left after the command itself ended.
const GROUP_POLL: Duration = Duration::from_millis(20);
/// The command is killed so long before the lease ends, or a twentieth of the lease if that is less.
const LONGEST_MARGIN: Duration = Duration::from_secs(1);
/// How long to wait before saying that a key without a TTL blocks the lock: a claim window, as in a program's client.
const ENDLESS_AFTER: Duration = Duration::from_secs(3);

pub(crate) async fn run(servers: &Servers, arguments: &Exec, output: Output) -> Outcome {
    let Some(program) = arguments.command.first() else {
        return Err(Failure::usage("there is no command", "give one after `--`"));
    };
    // Nobody should wait an hour for a lock and then read of a typing error.
    lookup::check(program)?;
    let events = Events { output, all: arguments.verbose || output.json, name: &arguments.name };
    let mut signals = Signals::listen(&FORWARDED)?;
    let locks = tokio::select! {
        signal = signals.next() => return Ok(status(signal)),
        locks = servers.locks_as(arguments.label.as_deref()) => locks?,
    };
    let acquired = tokio::select! {
        signal = signals.next() => Err(Ok(status(signal))),
        acquired = acquire(&locks, arguments, &events) => acquired.map_err(Err),
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
    let name = &arguments.name;
    let lock = match (arguments.permits, arguments.of) {
        (Some(permits), Some(limit)) => locks.semaphore(name, limit).permits(permits),
        _ if arguments.read => locks.read_write(name).read(),
        _ => locks.mutex(name),
    };
    lock.ttl(arguments.ttl)
}

async fn acquire(locks: &LockManager, arguments: &Exec, events: &Events<'_>) -> Outcome<Lease> {
    let busy = |mut failure: Failure| {
        if failure.exit == exit::BUSY {
            failure.exit = arguments.busy_exit_code;
        }
        failure
    };
    let lock = lock(locks, arguments);
    let tries = arguments.wait.is_some_and(|wait| wait.is_zero());
    if tries || events.all {
        if let Some(lease) = lock.try_acquire().await.map_err(Failure::from)? {
            return Ok(lease);
        }
        let seen = if events.all { locks.inspect(&arguments.name).await.ok() } else { None };
        events.waiting(seen.as_ref());
    }
    if tries {
        let message = format!("lock `{}`: busy", arguments.name);
        return Err(busy(Failure::new(exit::BUSY, "busy", message, BUSY)));
    }
    let wait = arguments.wait.map_or(Wait::Forever, Wait::For);
    let mut acquired = pin!(lock.wait(wait).acquire());
    let acquired = tokio::select! {
        acquired = &mut acquired => acquired,
        () = tell_endless(locks, events) => acquired.await,
    };
    acquired.map_err(|error| busy(error.into()))
}

/// Says once that a key without a TTL blocks the lock: such a wait may never end.
async fn tell_endless(locks: &LockManager, events: &Events<'_>) {
    sleep(ENDLESS_AFTER).await;
    if locks.inspect(events.name).await.is_ok_and(|seen| is_endless(&seen)) {
        events.blocked();
    }
}

/// Runs the command while the lease is held, and gives the lease back.
async fn hold(lease: Lease, arguments: &Exec, events: &Events<'_>, signals: &mut Signals) -> Outcome {
    events.acquired(lease.fence().get());
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
    let mut run = Run { lease, arguments, events, guard, child, ended: None, left };
    // Where the command's process could not do that.
    run.guard.lease_ends(run.child.group(), left.deadline());
    let (ended, lost) = run.until_ended(signals).await?;
    let paused = run.guard.call_off();
    let lost = match lost {
        Some(reason) => Some(reason),
        None => {
            let lost = run.release().await;
            lost.or(paused.then(|| "`leasehold exec` was paused until the lease was nearly over".to_owned()))
        }
    };
    match lost {
        None => Ok(ended.status()),
        Some(reason) => {
            let message = format!("lock `{}`: the lease was lost: {reason}; the command {ended}", arguments.name);
            let remedy =
                "check what the command wrote; only a resource that checks LEASEHOLD_FENCE refuses late writes";
            Err(Failure::new(arguments.lost_exit_code, "lost", message, remedy))
        }
    }
}

struct Run<'a> {
    lease: Lease,
    arguments: &'a Exec,
    events: &'a Events<'a>,
    guard: Guard,
    child: Child,
    /// How the command ended. Processes of its group may be left.
    ended: Option<Ended>,
    left: Left,
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

    fn deadline(self) -> Deadline {
        Deadline::of(self.time, self.lead)
    }

    /// Why the command is ended, and how long it may take to end.
    fn not_renewed(self, grace: Duration) -> (String, Duration) {
        if self.over {
            return ("it was not renewed, and has ended".to_owned(), grace);
        }
        ("it was not renewed, and will end soon".to_owned(), self.time.min(grace))
    }
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
            let (reason, grace) = tokio::select! {
                biased;
                reason = &mut lost => (reason.to_string(), self.arguments.grace),
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
                _ = ticks.tick() => {
                    let left = self.left.of(&self.lease, self.arguments.grace);
                    if left.time > left.lead {
                        self.guard.lease_ends(self.child.group(), left.deadline());
                        continue;
                    }
                    left.not_renewed(self.arguments.grace)
                }
            };
            self.events.lost(&reason, grace);
            let ended = self.end(grace, signals).await?;
            return Ok((ended, Some(reason)));
        }
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

    /// Gives the lease back. Returns how it was lost, if the command ended after that.
    async fn release(self) -> Option<String> {
        match self.lease.release().await {
            Ok(ReleaseOutcome::AlreadyExpired) => {
                Some("it had expired or was taken by force when the command ended".to_owned())
            }
            Ok(ReleaseOutcome::NotOwner) => Some("another client had taken it when the command ended".to_owned()),
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
