//! Locks over several independent servers (Redlock): each server's [`Node`] takes, keeps and gives back by its own rules, and a
//! lease is held while a majority of them agrees.
//!
//! ```text
//! user's call ──► Quorum ──► Ballot (a name) ──► one Seat a server ──► Node ──► commands
//!                    └─────► Tally (a call that every server has a part in)
//! ```
//!
//! A node knows nothing of the others. What it tells its user, a grant, a loss or an answer, comes here and is counted.

mod ask;
mod ballot;
mod held;
mod inspect;
mod members;
mod tally;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use foldhash::fast::FixedState;

use crate::context::{Context, ResourceId, Table};
use crate::error::Error;
use crate::event::{CallId, Input, LeaseId, NodeId, OpId, Outcome, Output, Reason};
use crate::options::Config;
use crate::reply::Failure;
use crate::time::Instant;
use crate::timers::Timer;
use crate::token::ClientId;

use ballot::Ballot;
use members::{Members, Task};
pub(crate) use tally::Tally;

/// One client's locks on several servers.
pub(crate) struct Quorum {
    /// What users see: their calls, their leases, and the timers of both.
    pub(crate) cx: Context,
    pub(crate) members: Members,
    ballots: Vec<Option<Box<Ballot>>>,
    by_name: Table<Arc<str>, ResourceId>,
    /// Names of which servers have told something that is not counted yet.
    told: Vec<ResourceId>,
}

impl Quorum {
    /// # Errors
    /// [`Error::InvalidOption`] for an option out of its bounds, fewer than three servers, an even number of them, or one that is named twice.
    pub(crate) fn new(client: ClientId, config: Config, servers: &[&str]) -> Result<Self, Error> {
        check(servers)?;
        config.check()?;
        let config = Config { response_timeout: config.node_timeout, ..config };
        let members = Members::new(client, &config, servers)?;
        let by_name = Table::with_hasher(FixedState::with_seed(client.seed()));
        Ok(Self { cx: Context::new(client, config), members, ballots: Vec::new(), by_name, told: Vec::new() })
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn set_mutant(&mut self, mutant: crate::mutant::Mutant) {
        self.cx.mutant = Some(mutant);
        self.members.list.iter_mut().for_each(|member| member.node.set_mutant(mutant));
    }

    pub(crate) fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.cx.now = self.cx.now.max(now);
        // What has ended is told before anything else happens, on every server.
        self.members.wake(self.cx.now);
        self.count();
        self.run_timers();
        self.take_in(input);
        self.count();
        self.run_timers();
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.cx.outputs.pop_front()
    }

    pub(crate) fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        let members = self.members.list.iter().filter_map(|member| member.node.poll_timeout());
        members.chain(self.cx.timers.next()).min()
    }

    pub(crate) fn valid_until(&self, lease: LeaseId) -> Option<Instant> {
        let held = self.cx.leases.get(&lease)?;
        self.ballot(held.resource)?.valid_until(&self.cx, &self.members)
    }

    pub(crate) fn is_idle(&self) -> bool {
        let cx = &self.cx;
        let open = cx.ops.len() + cx.leases.len() + cx.outputs.len() + self.by_name.len() + self.members.tasks.len();
        open == 0 && cx.timers.next().is_none() && self.members.list.iter().all(|member| member.node.is_idle())
    }

    fn take_in(&mut self, input: Input<'_>) {
        let now = self.cx.now;
        match input {
            Input::Acquire { op, name, options } => self.acquire(op, name, options),
            Input::Cancel { op } => self.end_acquire(op, Error::Cancelled),
            Input::Release { op, lease } => self.release(op, lease),
            Input::Extend { op, lease, ttl } => self.extend(op, lease, ttl),
            Input::Convert { op, .. } | Input::AcquireAll { op, .. } => self.cx.answer(op, Err(only_exclusive())),
            Input::Hold { op, lease } => self.hold(op, lease),
            Input::Keep { lease, until } => self.keep(lease, until),
            Input::Verify { op, lease } => self.verify(op, lease),
            Input::Inspect { op, name } => self.inspect(op, name),
            Input::ForceRelease { op, name } => self.force(op, name),
            Input::Close { op } => self.close(op),
            Input::Reply { call, result } => {
                let (at, call) = self.members.inner(call.0);
                self.members.tell(at, now, Input::Reply { call: CallId(call), result });
            }
            // Whoever waits asks again: nothing is subscribed to.
            Input::Message { .. } | Input::Subscribed { .. } | Input::Unsubscribed { .. } | Input::Wake => {}
        }
    }

    fn run_timers(&mut self) {
        while let Some(timer) = self.cx.timers.pop_due(self.cx.now) {
            match timer {
                Timer::OpEnds(op) => self.wait_ends(op),
                Timer::Heartbeat(id) => self.with(id, Ballot::due),
                _ => {}
            }
            self.count();
        }
    }

    /// Takes in what the servers' own machines put out, until they have nothing more to say. All that they tell at one moment is in before
    /// it is counted: of two that give up at once, both have said so.
    fn count(&mut self) {
        loop {
            let Some((at, output)) = self.members.poll_output() else {
                let Some(id) = self.told.pop() else { return };
                self.with(id, Ballot::decide);
                continue;
            };
            match output {
                Output::Send { call, command, .. } => {
                    let call = CallId(self.members.outer(at, call.0));
                    self.cx.outputs.push_back(Output::Send { call, node: NodeId(at), command });
                }
                // A lock that is taken by force is missed at the next renewal.
                Output::Subscribe { channel, .. } => {
                    let cause = Failure::Unsupported("a quorum subscribes to nothing".into());
                    let input = Input::Unsubscribed { node: NodeId(0), channel: &channel, cause };
                    self.members.tell(at, self.cx.now, input);
                }
                Output::Unsubscribe { .. } => {}
                Output::Completed { op, result } => self.completed(at, op, result),
                Output::Lost { lease, reason } => {
                    if let Some(Task::Seat(id)) = self.members.tasks.remove(&self.members.lease_key(at, lease)) {
                        self.with(id, |ballot, cx, members| ballot.lost(cx, members, at, reason));
                        self.told.push(id);
                    }
                }
            }
        }
    }

    fn completed(&mut self, at: u16, op: OpId, result: Result<Outcome, Error>) {
        match (self.members.tasks.remove(&op), result) {
            (Some(Task::Seat(id)), result) => {
                self.with(id, |ballot, cx, members| ballot.answered(cx, members, (at, op), result));
                self.told.push(id);
            }
            (Some(Task::Part(call)), result) => self.part_ended(call, at, result),
            // Nobody wants it any more.
            (None, Ok(Outcome::Acquired(grant))) => self.members.release(at, self.cx.now, grant.lease, None),
            (None, _) => {}
        }
    }

    fn ballot(&self, id: ResourceId) -> Option<&Ballot> {
        self.ballots.get(id.0 as usize)?.as_deref()
    }

    /// The name's ballot; a new one if the name is not in use.
    fn ballot_of(&mut self, name: &str) -> Result<ResourceId, Error> {
        if let Some(id) = self.by_name.get(name) {
            return Ok(*id);
        }
        let key = crate::name::Name::check(&self.cx.config.prefix, name)?;
        let free = self.ballots.iter().position(Option::is_none).unwrap_or(self.ballots.len());
        let id = ResourceId(u32::try_from(free).unwrap_or(u32::MAX));
        let name: Arc<str> = name.into();
        let ballot = Some(Box::new(Ballot::new(id, name.clone(), key, self.members.list.len())));
        match self.ballots.get_mut(free) {
            Some(place) => *place = ballot,
            None => self.ballots.push(ballot),
        }
        self.by_name.insert(name, id);
        Ok(id)
    }

    /// Runs one name's ballot, and forgets the name when nothing is left of it.
    fn with(&mut self, id: ResourceId, run: impl FnOnce(&mut Ballot, &mut Context, &mut Members)) {
        let Some(place) = self.ballots.get_mut(id.0 as usize) else { return };
        let Some(ballot) = place else { return };
        run(ballot, &mut self.cx, &mut self.members);
        if ballot.is_idle() {
            self.by_name.remove(&ballot.name);
            *place = None;
        }
    }
}

/// An odd number of servers, so many that one may be lost, each named once.
fn check(servers: &[&str]) -> Result<(), Error> {
    let refuse = |problem: String| Err(Error::InvalidOption { field: "servers", problem });
    if servers.len() < 3 || servers.len().is_multiple_of(2) || u16::try_from(servers.len()).is_err() {
        return refuse(format!(
            "are {}: choose an odd number from 3 on, so that there is a majority; 3 or 5 are usual",
            servers.len()
        ));
    }
    let twice =
        servers.iter().enumerate().find(|(place, server)| servers.iter().take(*place).any(|one| one == *server));
    match twice {
        Some((_, server)) => refuse(format!("have {server} twice: each must be a server of its own")),
        None => Ok(()),
    }
}

fn only_exclusive() -> Error {
    Error::Unsupported("a quorum has exclusive locks only: the other kinds need one server or cluster".into())
}
