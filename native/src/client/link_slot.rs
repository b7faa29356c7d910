//! The link to the servers, and which task its replies wake.
//!
//! Most calls are alone: nothing else is in flight. Such a call is sent by its caller, which then *leads*: the reply wakes
//! the caller's task directly, and that task passes it to the engine. All other replies wake the driver. A task that leads
//! has one command in flight. As soon as the driver has a turn, it leads again, and the caller waits as every other one.
//!
//! ```text
//! driver leads --a call finds nothing in flight--> caller leads
//!      ^                                               |
//!      '--reply, a turn of the driver, future dropped--'
//! ```
//!
//! The waker of the link locks nothing of the client: it may be called while the link is polled, and while foreign code has
//! locks of its own. While the link is locked, it only sets a flag. The task that unlocks the link then wakes the leader.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Wake, Waker};

use leasehold_core::{Abilities, OpId, Output};
use tokio::runtime::{EnterGuard, Handle};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::Sent;
use crate::net::{Completion, Link};

pub(super) struct LinkSlot {
    slot: Mutex<Option<Slot>>,
    wakeup: Arc<Wakeup>,
    /// A waker of `wakeup`.
    waker: Waker,
    /// The runtime of the driver. Callers may run on another one, or on none.
    runtime: Handle,
}

pub(super) struct Slot {
    link: Link,
    /// The commands of a lone call. Empty between calls.
    pub(super) outputs: Vec<Output>,
    /// What the link has returned, and the engine has not got yet.
    pub(super) completions: Vec<Completion>,
    /// When the driver polls the link by itself.
    polled_at: Option<Instant>,
}

/// What the link's waker knows.
struct Wakeup {
    /// Whether the link has to be polled.
    woken: AtomicBool,
    /// Whether a task has locked the link.
    locked: AtomicBool,
    /// Whether a caller leads.
    has_leader: AtomicBool,
    leader: Mutex<Option<(OpId, Waker)>>,
    /// Notified when the driver has something to do.
    driver: Notify,
}

/// The link, locked.
pub(super) struct LinkGuard<'a> {
    /// None only while this is dropped.
    slot: Option<MutexGuard<'a, Option<Slot>>>,
    owner: &'a LinkSlot,
    _context: EnterGuard<'a>,
}

impl LinkSlot {
    /// Must be called on the runtime of the driver.
    pub(super) fn new(link: Link) -> Self {
        let wakeup = Arc::new(Wakeup {
            woken: AtomicBool::new(false),
            locked: AtomicBool::new(false),
            has_leader: AtomicBool::new(false),
            leader: Mutex::new(None),
            driver: Notify::new(),
        });
        let slot = Slot { link, outputs: Vec::new(), completions: Vec::new(), polled_at: None };
        let waker = Waker::from(Arc::clone(&wakeup));
        Self { slot: Mutex::new(Some(slot)), wakeup, waker, runtime: Handle::current() }
    }

    /// Resolves when the driver has something to do.
    pub(super) async fn driver_notified(&self) {
        self.wakeup.driver.notified().await;
    }

    pub(super) fn notify_driver(&self) {
        self.wakeup.driver.notify_one();
    }

    /// The driver leads from now on. It waits for a caller that uses the link.
    pub(super) fn lock_as_driver(&self) -> LinkGuard<'_> {
        let guard = LinkGuard::new(self, self.slot.lock().unwrap_or_else(PoisonError::into_inner));
        self.wakeup.set_leader(None);
        guard
    }

    /// The link, if no command is in flight and no other task uses it.
    pub(super) fn try_lock_idle(&self) -> Option<LinkGuard<'_>> {
        if self.wakeup.has_leader.load(Ordering::SeqCst) {
            return None;
        }
        self.try_lock().filter(|guard| guard.slot().is_some_and(Slot::is_idle))
    }

    /// The link, if this call leads and no other task uses it. The task that uses it wakes the leader afterwards, if it has
    /// missed a wake-up.
    pub(super) fn try_lock_as_leader(&self, op: OpId) -> Option<LinkGuard<'_>> {
        if self.wakeup.is_led_by(op) { self.try_lock() } else { None }
    }

    fn try_lock(&self) -> Option<LinkGuard<'_>> {
        let slot = match self.slot.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(LinkGuard::new(self, slot))
    }

    /// The replies wake this call's task from now on.
    pub(super) fn lead(&self, op: OpId, waker: &Waker) {
        self.wakeup.set_leader(Some((op, waker)));
    }

    /// A call ends. If it led, the driver leads again.
    pub(super) fn resign(&self, op: OpId) {
        if self.wakeup.is_led_by(op) {
            self.wakeup.set_leader(None);
            // Its reply may have woken the call already.
            self.notify_driver();
        }
    }

    /// A leading call has taken its reply.
    pub(super) fn end_lead(&self) {
        self.wakeup.set_leader(None);
    }

    /// The driver has stopped.
    pub(super) fn close(&self) {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.wakeup.set_leader(None);
        // The connection ends here.
        drop(slot);
    }
}

impl Slot {
    fn is_idle(&self) -> bool {
        self.completions.is_empty() && self.link.is_idle()
    }

    /// Sends a command, if this is one.
    pub(super) fn send(&mut self, sent: &mut Sent, output: Output) {
        if let Output::Send { id, node, command } = output {
            sent.add(&command);
            self.link.send(node, id, command);
        }
    }

    /// Sends the commands of a lone call.
    pub(super) fn send_outputs(&mut self) {
        let (mut sent, mut outputs) = (Sent::none(), mem::take(&mut self.outputs));
        for output in outputs.drain(..) {
            self.send(&mut sent, output);
        }
        self.outputs = outputs;
        sent.record();
    }

    /// What a server can do that was not ready at first. Before any answer of its own is in `completions`.
    pub(super) fn take_abilities(&mut self) -> Option<Abilities> {
        self.link.take_abilities()
    }

    /// When the driver has to poll the link because a reply is overdue. The driver then does.
    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        self.polled_at = self.link.poll_timeout();
        self.polled_at
    }

    /// Whether the driver has to know of a reply that is overdue sooner.
    pub(super) fn is_due_sooner(&self) -> bool {
        match (self.link.poll_timeout(), self.polled_at) {
            (Some(at), Some(polled_at)) => at < polled_at,
            (at, _) => at.is_some(),
        }
    }
}

impl<'a> LinkGuard<'a> {
    fn new(owner: &'a LinkSlot, slot: MutexGuard<'a, Option<Slot>>) -> Self {
        owner.wakeup.locked.store(true, Ordering::SeqCst);
        Self { slot: Some(slot), owner, _context: owner.runtime.enter() }
    }

    fn slot(&self) -> Option<&Slot> {
        self.slot.as_ref()?.as_ref()
    }

    /// None once the driver has stopped.
    pub(super) fn get(&mut self) -> Option<&mut Slot> {
        self.slot.as_mut()?.as_mut()
    }

    /// Takes the replies that are there. True if there is one.
    pub(super) fn poll(&mut self) -> bool {
        self.owner.wakeup.woken.store(false, Ordering::SeqCst);
        let mut context = Context::from_waker(&self.owner.waker);
        let Some(Slot { link, completions, .. }) = self.get() else { return false };
        link.poll_completions(&mut context, completions).is_ready()
    }
}

impl Drop for LinkGuard<'_> {
    fn drop(&mut self) {
        let wakeup = &self.owner.wakeup;
        // Before it is unlocked, because the next task sets it.
        wakeup.locked.store(false, Ordering::SeqCst);
        self.slot = None;
        // After it is unlocked, because the leader may have failed to lock it.
        if wakeup.woken.load(Ordering::SeqCst) {
            wakeup.wake_leader();
        }
    }
}

impl Wakeup {
    fn is_led_by(&self, op: OpId) -> bool {
        self.has_leader.load(Ordering::SeqCst)
            && self.leader.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|(led, _)| *led == op)
    }

    fn set_leader(&self, leader: Option<(OpId, &Waker)>) {
        if leader.is_none() && !self.has_leader.load(Ordering::SeqCst) {
            return;
        }
        let mut place = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_leader.store(leader.is_some(), Ordering::SeqCst);
        let old = mem::replace(&mut *place, leader.map(|(op, waker)| (op, waker.clone())));
        drop(place);
        // Foreign code may run here.
        drop(old);
    }

    fn wake_leader(&self) {
        let leader = if self.has_leader.load(Ordering::SeqCst) {
            let place = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
            place.as_ref().map(|(_, waker)| waker.clone())
        } else {
            None
        };
        match leader {
            Some(waker) => waker.wake(),
            None => self.driver.notify_one(),
        }
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.locked.load(Ordering::SeqCst) {
            self.wake_leader();
        }
    }
}
