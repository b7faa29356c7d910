//! Locks over several independent servers (Redlock). Each server's [`Client`] acquires, renews and releases by its own
//! rules, and a lease is held while a majority of them has it.
//!
//! ```text
//! user's call ──► Quorum ──► QuorumLock (a name) ──► one MemberState for each server ──► Client ──► commands
//!                    ├─────► Gather (a call with a part for each server)
//!                    └─────► Multi (a lease of several names, each a QuorumLock)
//! ```
//!
//! A client knows nothing about the others. Its outputs (grants, losses, results) come here and are counted.

mod acquire;
mod calls;
mod held;
mod lock;
mod majority;
mod members;
mod place;
mod roster;
mod several;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use crate::client::{AcquireAll, HoldAll, Multi};
use crate::error::{Error, Failure};
use crate::event::{Input, LeaseInfo, Outcome, Output, Reason};
use crate::ids::{Caller, ClientId, LeaseId, LockId, NodeId, OpId};
use crate::options::{Config, Kind, Mode};
use crate::session::{Context, Leased, NameHash, Names, Slab, Timer};
use crate::time::Instant;
use lock::QuorumLock;
use members::{CallKind, FIRST, Member, Members, Task};

pub use roster::Roster;

/// One client's locks on several servers.
#[derive(Clone)]
pub(crate) struct Quorum {
    /// What users see: their calls and leases, and the timers for both.
    pub(crate) cx: Context,
    members: Members,
    locks: Slab<QuorumLock>,
    /// The locks of writers.
    by_name: Names,
    pub(crate) multi: Multi,
    /// Names with new outputs from the servers' machines that are not counted yet.
    uncounted: Vec<LockId>,
}

/// The names lead to the list, which has them too.
impl Hash for Quorum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.cx, &self.members, &self.locks, &self.multi, &self.uncounted).hash(state);
    }
}

impl Quorum {
    /// # Errors
    /// [`Error::InvalidOption`] for an option that is out of its bounds, for fewer than three servers, an
    /// even number, or a duplicate.
    pub(crate) fn new(client: ClientId, config: Config, servers: &[&str]) -> Result<Self, Error> {
        check(servers)?;
        config.check()?;
        let config = Config { response_timeout: config.node_timeout, ..config };
        let members = Members::new(client, &config, servers)?;
        let by_name = Names::new(NameHash::new(client.seed()));
        let cx = Context::new(client, config);
        Ok(Self { cx, members, locks: Slab::new(), by_name, multi: Multi::default(), uncounted: Vec::new() })
    }

    /// Tells that one of the members is a cluster.
    pub(crate) fn set_cluster(&mut self, NodeId(at): NodeId) {
        self.members.set_cluster(at);
    }

    pub(crate) fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.cx.now = self.cx.now.max(now);
        // Leases that have expired, on any server, are reported before anything else.
        self.members.wake(self.cx.now);
        self.count();
        self.run_timers();
        self.take_in(input);
        self.count();
        self.run_timers();
    }

    pub(crate) fn resume(&mut self, now: Instant) {
        self.cx.resume(now);
        self.members.list.iter_mut().for_each(|member| member.client.cx.resume(now));
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.cx.outputs.pop_front()
    }

    pub(crate) fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        let members = self.members.list.iter().filter_map(|member| member.client.poll_timeout());
        members.chain(self.cx.timers.next()).min()
    }

    pub(crate) fn valid_until(&self, lease: LeaseId) -> Option<Instant> {
        let held = self.cx.leases.get(&lease)?;
        match &held.of {
            Leased::Lock(lock) => self.lock(*lock)?.valid_until(&self.members),
            Leased::Parts(parts) => parts.iter().filter_map(|part| self.valid_until(*part)).min(),
        }
    }

    pub(crate) fn lease(&self, id: LeaseId) -> Option<LeaseInfo> {
        self.cx.lease(id)
    }

    pub(crate) fn unreleased(&self, now: Instant) -> u32 {
        let on_each: Vec<_> = self.members.list.iter().map(|member| member.client.unreleased(now)).collect();
        calls::by_majority(&on_each, self.members.majority())
    }

    pub(crate) fn is_idle(&self) -> bool {
        let cx = &self.cx;
        let locks = self.locks.iter().count();
        let open = cx.ops.len() + cx.leases.len() + cx.outputs.len() + locks + self.members.tasks.len();
        open == 0
            && self.multi.is_empty()
            && cx.timers.next().is_none()
            && self.members.list.iter().all(Member::is_idle)
    }

    fn take_in(&mut self, input: Input<'_>) {
        let now = self.cx.now;
        match input {
            Input::Acquire { op, name, options } => self.acquire(Caller::User(op), name, options),
            Input::AcquireAll { op, one_script: true, .. } => self.cx.answer(Caller::User(op), Err(not_by_script())),
            Input::AcquireAll { op, parts, .. } if parts.iter().any(|part| part.kind != Kind::Lock) => {
                self.cx.answer(Caller::User(op), Err(no_such_kind()));
            }
            Input::AcquireAll { op, parts, options, .. } => {
                self.acquire_all(Caller::User(op), parts, options, false);
            }
            Input::Cancel { op } => self.end_acquire(Caller::User(op), Error::Cancelled),
            Input::Release { op, lease } => self.release(Caller::User(op), lease),
            Input::Extend { op, lease, ttl } => self.extend(Caller::User(op), lease, ttl.into()),
            Input::Campaign { op, .. } | Input::Observe { op, .. } => {
                self.cx.answer(Caller::User(op), Err(no_election()));
            }
            Input::Shorten { op, .. } => self.cx.answer(Caller::User(op), Err(crate::lock::not_shortened())),
            Input::Store { op, .. } | Input::Forget { op, .. } => {
                self.cx.answer(Caller::User(op), Err(no_such_kind()));
            }
            Input::Detach { op, .. } => self.cx.answer(Caller::User(op), Err(crate::options::not_detached())),
            Input::Convert { op, .. } => self.cx.answer(Caller::User(op), Err(not_converted())),
            Input::Hold { op, lease } => self.cx.nest(Caller::User(op), lease),
            Input::Keep { lease, until } => self.keep(lease, until),
            Input::StopRenewing { lease } => self.stop_renewing(lease),
            Input::Adopt { op, .. } | Input::Export { op, .. } => self.cx.answer(Caller::User(op), Err(not_adopted())),
            Input::Verify { op, lease } => self.verify(Caller::User(op), lease),
            Input::Inspect { op, name } => {
                self.ask_all(Caller::User(op), CallKind::Inspect, |op| Input::Inspect { op, name });
            }
            Input::ForceRelease { op, name, foreign } => {
                self.ask_all(Caller::User(op), CallKind::Force, |op| Input::ForceRelease { op, name, foreign });
            }
            Input::Drain { op, grace } => self.drain(Caller::User(op), grace.into()),
            Input::Close { op } => self.close(Caller::User(op)),
            Input::Reply { id, result } => {
                let (at, id) = self.members.inner(id);
                let owed = self.members.owed(at);
                self.members.tell(at, now, Input::Reply { id, result });
                if self.members.owed(at) < owed {
                    self.uncounted.extend(self.locks.iter().filter(|lock| lock.is_owed()).map(|lock| lock.id));
                }
            }
            Input::Message { .. } | Input::Subscribed { .. } | Input::Unsubscribed { .. } => {
                self.members.tell(FIRST, now, input);
            }
            Input::DedicatedReply { .. } | Input::Wake => {}
        }
    }

    fn run_timers(&mut self) {
        while let Some(timer) = self.cx.timers.pop_due(self.cx.now) {
            match timer {
                Timer::OpEnds(op) => self.wait_ends(op),
                Timer::Heartbeat(id) => self.with(id, QuorumLock::due),
                _ => {}
            }
            self.count();
        }
    }

    /// Processes the outputs of the servers' machines until there are no more. Everything that happens at one moment is
    /// processed before it is counted. So if two servers give up at the same time, both count.
    fn count(&mut self) {
        loop {
            let Some((at, output)) = self.members.poll_output() else {
                if let Some(id) = self.uncounted.pop() {
                    self.with(id, QuorumLock::decide);
                } else if self.cx.parts.is_empty() {
                    return;
                } else {
                    self.gather();
                }
                continue;
            };
            match output {
                Output::Send { id, command, .. } => {
                    let id = self.members.outer(at, id);
                    self.cx.outputs.push_back(Output::Send { id, node: NodeId(at), command });
                }
                Output::Unsubscribe { .. } if at == FIRST => self.cx.outputs.push_back(output),
                Output::Subscribe { .. } if at == FIRST && !self.cx.closed => self.cx.outputs.push_back(output),
                // Nobody waits at the other servers, or any more.
                Output::Subscribe { channel, .. } => {
                    let cause = Failure::Unsupported(String::new());
                    let input = Input::Unsubscribed { node: NodeId(0), channel: &channel, cause };
                    self.members.tell(at, self.cx.now, input);
                }
                Output::Unsubscribe { .. }
                | Output::Leader { .. }
                | Output::SendDedicated { .. }
                | Output::CloseDedicated { .. } => {}
                Output::Completed { op, result } => self.completed(at, op, result),
                Output::Lost { lease, reason } => {
                    let Some(member) = self.members.get(at) else { continue };
                    // Nobody will release it there.
                    member.client.cx.forget_loss(lease);
                    if let Some(id) = member.leases.remove(&lease) {
                        self.with(id, |lock, cx, members| lock.lost(cx, members, at, reason));
                        self.uncounted.push(id);
                    }
                }
            }
        }
    }

    fn completed(&mut self, at: u16, op: OpId, result: Result<Outcome, Error>) {
        match (self.members.tasks.remove(&op), result) {
            (Some(Task::Member(id)), result) => {
                self.with(id, |lock, cx, members| lock.answered(cx, members, (at, op), result));
                self.uncounted.push(id);
            }
            (Some(Task::Part(call, kind)), result) => self.part_ended(call, kind, at, result),
            // No caller wants it any more.
            (None, Ok(Outcome::Acquired(grant))) => self.members.release(at, self.cx.now, grant.lease, None),
            (None, _) => {}
        }
    }

    fn lock(&self, id: LockId) -> Option<&QuorumLock> {
        self.locks.get(id)
    }

    /// The lock for a caller. Writers of a name share one. Each reader has its own, so that readers hold the name together.
    fn lock_for(&mut self, name: &str, mode: Mode) -> Result<LockId, Error> {
        if let Some(id) = self.by_name.get(name).filter(|_| mode == Mode::Exclusive) {
            return Ok(id);
        }
        let key = crate::wire::Name::check(&self.cx.config.prefix, name)?;
        let name: Arc<str> = name.into();
        let id = self.locks.add(|id| QuorumLock::new(id, name.clone(), key, self.members.list.len()));
        if mode == Mode::Exclusive {
            self.by_name.insert(name, id);
        }
        Ok(id)
    }

    /// Runs one name's lock, and removes the name if nothing is left of it.
    fn with(&mut self, id: LockId, run: impl FnOnce(&mut QuorumLock, &mut Context, &mut Members)) {
        let Some(lock) = self.locks.get_mut(id) else { return };
        self.members.is_contended = lock.is_contended;
        run(lock, &mut self.cx, &mut self.members);
        self.members.is_contended = false;
        if lock.is_idle() {
            if self.by_name.get(&lock.name) == Some(id) {
                self.by_name.remove(&lock.name);
            }
            self.locks.remove(id);
        }
    }
}

/// Checks the servers: an odd number, at least three, without duplicates.
fn check(servers: &[&str]) -> Result<(), Error> {
    if servers.len() < 3 || servers.len().is_multiple_of(2) || u16::try_from(servers.len()).is_err() {
        let problem = format!(
            "lists {} servers: list an odd number, 3 or more, so that there is a majority; 3 or 5 are usual",
            servers.len()
        );
        return Err(Error::InvalidOption { field: "servers", problem });
    }
    let twice =
        servers.iter().enumerate().find(|(place, server)| servers.iter().take(*place).any(|one| one == *server));
    match twice {
        Some((_, server)) => {
            let problem = format!("lists {server} twice: list each server once");
            Err(Error::InvalidOption { field: "servers", problem })
        }
        None => Ok(()),
    }
}

fn not_by_script() -> Error {
    Error::unsupported("a quorum takes several names one after the other, not with one script")
}

fn no_election() -> Error {
    Error::unsupported("a quorum has no elections: hold one on a single server, a Sentinel or a cluster")
}

fn not_adopted() -> Error {
    Error::unsupported("leases of a quorum can't be adopted")
}

fn not_converted() -> Error {
    Error::unsupported("leases of a quorum can't be converted: release this one, and acquire the other mode")
}

fn no_such_kind() -> Error {
    Error::Unsupported(
        "a quorum has no semaphores, reentrant locks, onces and elections; use a single server or a cluster".into(),
    )
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::Quorum;
    use crate::ids::ClientId;
    use crate::options::{Config, Mode};

    #[test]
    fn a_new_name_gets_the_place_that_became_free_last_without_a_look_at_the_other_names() {
        let client = ClientId::from_random([1; 16]);
        let mut quorum = Quorum::new(client, Config::default(), &["a", "b", "c"]).unwrap();
        let mut open = |name: &str| quorum.lock_for(name, Mode::Exclusive).unwrap();
        let ids: Vec<_> = (0..9).map(|number| open(&format!("name:{number}"))).collect();
        for id in [ids[2], ids[7]] {
            quorum.with(id, |_, _, _| {});
        }
        let mut open = |name: &str| quorum.lock_for(name, Mode::Exclusive).unwrap();
        assert_eq!([open("x"), open("y")], [ids[7], ids[2]]);
    }
}
