//! `leasehold exec`: runs a command under a lock.
//!
//! ```text
//!  wait for the lock ──► run ──► the command ended ──► release ──► its status
//!        │ signal, busy   │ lease lost
//!        ▼                ▼
//!      leave            SIGTERM ──► grace ──► SIGKILL ──► "lost"
//! ```
//!
//! A second process, the guard, ends the command if this one is killed or paused while the lease runs out.

mod child;
mod events;
mod guard;
mod lookup;
mod terminal;

use std::pin::pin;
use std::time::Duration;

use leasehold::{Lease, Lock, LockManager, ReleaseOutcome, Wait};
use nix::sys::signal::Signal;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::args::{Exec, Servers};
use crate::report::{Failure, Outcome, Output, exit};

use child::{Child, Ended};
use events::Events;
use guard::Guard;
pub(crate) use guard::run as guard;

/// How often to look whether a process of the group is left after the command itself ended.
const GROUP_POLL: Duration = Duration::from_millis(20);

pub(crate) async fn run(servers: &Servers, arguments: &Exec, output: Output) -> Outcome {
    let Some(program) = arguments.command.first() else {
        return Err(Failure::usage("there is no command", "give one after `--`"));
    };
    // Nobody should wait an hour for a lock and then read of a typing error.
    lookup::check(program)?;
    let events = Events { output, all: arguments.verbose || output.json, name: &arguments.name };
    let mut signals = child::Signals::listen()?;
    let locks = tokio::select! {
        signal = signals.next() => return Ok(interrupted(signal)),
        locks = servers.locks_as(arguments.label.as_deref()) => locks?,
    };
    let acquired = tokio::select! {
        signal = signals.next() => Err(signal),
        acquired = acquire(&locks, arguments, &events) => Ok(acquired),
    };
    let lease = match acquired {
        Ok(lease) => lease?,
        Err(signal) => {
            // Leaves the queue, so the next waiter needn't wait for us.
            locks.close().await;
            return Ok(interrupted(signal));
        }
    };
    let outcome = hold(lease, arguments, &events, &mut signals).await;
    locks.close().await;
    outcome
}

fn interrupted(signal: Signal) -> u8 {
    exit::SIGNALLED.saturating_add(u8::try_from(signal as i32).unwrap_or_default())
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
        let remedy = "`leasehold inspect NAME` shows who holds it; --wait sets how long to wait";
        return Err(busy(Failure::new(exit::BUSY, "busy", message, remedy)));
    }
    let wait = arguments.wait.map_or(Wait::Forever, Wait::For);
    lock.wait(wait).acquire().await.map_err(|error| busy(error.into()))
}

/// Runs the command while the lease is held, and gives the lease back.
async fn hold(lease: Lease, arguments: &Exec, events: &Events<'_>, signals: &mut child::Signals) -> Outcome {
    events.acquired(lease.fence().get());
    let started = Guard::start(arguments.grace).and_then(|guard| Ok((guard, Child::spawn(arguments, &lease)?)));
    let (guard, child) = match started {
        Ok(started) => started,
        Err(failure) => {
            let _ = lease.release().await;
            return Err(failure);
        }
    };
    let mut run = Run { lease, arguments, events, guard, child };
    let (ended, lost) = run.until_ended(signals).await?;
    run.guard.call_off();
    let lost = match lost {
        Some(reason) => Some(reason),
        None => run.release().await,
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
}

impl Run<'_> {
    /// Waits for the command's end. The second value says how the lease was lost, if it was.
    async fn until_ended(&mut self, signals: &mut child::Signals) -> Outcome<(Ended, Option<String>)> {
        let mut lost = pin!(self.lease.lost());
        let tick = (self.arguments.ttl / 10).clamp(Duration::from_millis(10), Duration::from_millis(500));
        let mut ticks = interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                reason = &mut lost => {
                    let reason = reason.to_string();
                    self.events.lost(&reason, self.arguments.grace);
                    let ended = self.end(signals).await?;
                    return Ok((ended, Some(reason)));
                }
                ended = self.child.changed() => match ended? {
                    Some(ended) => return Ok((ended, None)),
                    None => self.child.follow_stop(&self.lease),
                },
                signal = signals.next() => self.child.signal(signal),
                _ = ticks.tick() => self.guard.lease_ends_in(self.child.group(), self.lease.remaining()),
            }
        }
    }

    /// Ends the command and all processes of its group: SIGTERM, and SIGKILL after the grace period.
    async fn end(&mut self, signals: &mut child::Signals) -> Outcome<Ended> {
        let last = Instant::now() + self.arguments.grace;
        self.guard.kill_in(self.child.group(), self.arguments.grace);
        self.child.signal(Signal::SIGTERM);
        // A process that is stopped acts on no signal but these.
        self.child.signal(Signal::SIGCONT);
        let mut ended = None;
        while ended.is_none() {
            tokio::select! {
                biased;
                () = sleep_until(last) => break,
                changed = self.child.changed() => ended = changed?,
                signal = signals.next() => self.child.signal(signal),
            }
        }
        while ended.is_some() && self.child.group_lives() && Instant::now() < last {
            sleep(GROUP_POLL).await;
        }
        self.child.signal(Signal::SIGKILL);
        loop {
            match ended {
                Some(ended) => return Ok(ended),
                None => ended = self.child.changed().await?,
            }
        }
    }

    /// Gives the lease back. Returns how it was lost, if the command ended after that.
    async fn release(self) -> Option<String> {
        match self.lease.release().await {
            Ok(ReleaseOutcome::AlreadyExpired) => Some("it had expired when the command ended".to_owned()),
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
