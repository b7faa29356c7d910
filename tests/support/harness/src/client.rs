//! One client: an engine, what it has sent, and what it told its users. The test is its server, and its clock.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, Command, CommandId, Config, Engine, Error, Failure, Grant, Input, Instant, Leader,
    LeaseId, LossReason, NodeId, OpId, Outcome, Output, Reply,
};

use crate::answers;
use crate::clock::Micros;

/// An engine, its commands that have no answer yet, and what it told its users.
pub struct Client {
    /// The engine.
    pub engine: Engine,
    /// What its clock shows.
    pub now: Micros,
    /// Commands without an answer, the oldest first.
    pub unanswered: Vec<(CommandId, Command)>,
    /// The most commands that were unanswered at once.
    pub most: usize,
    /// Whether the driver always has more to say. It wakes the engine only when the test does.
    pub busy: bool,
    /// All commands for dedicated connections.
    pub dedicated: Vec<(OpId, Command)>,
    /// The calls whose dedicated connections were closed.
    pub closed: Vec<OpId>,
    /// The channels that it wants to hear.
    pub channels: Vec<String>,
    /// The results of calls.
    pub ended: Vec<(OpId, Result<Outcome, Error>)>,
    /// The leases that were lost, and when.
    pub lost: Vec<(LeaseId, Micros, LossReason)>,
    /// What observers of elections were told, and when.
    pub leaders: Vec<(OpId, Micros, Option<Leader>)>,
    /// The servers of commands. Numbers are used again.
    nodes: HashMap<CommandId, NodeId>,
    last_op: u64,
}

impl Client {
    /// A client of one server.
    ///
    /// # Panics
    /// If an option is out of its bounds.
    pub fn new(config: Config) -> Self {
        Self::of(Engine::new(ClientId::from_random([7; 16]), config).expect("valid options"))
    }

    /// The client of this engine. Its clock shows a second.
    pub fn of(engine: Engine) -> Self {
        let (unanswered, dedicated, closed, channels, ended) = Default::default();
        let (now, most, lost, nodes, last_op) = (1_000_000, 0, Vec::new(), HashMap::new(), 0);
        let (busy, leaders) = (false, Vec::new());
        Self { engine, now, unanswered, most, busy, dedicated, closed, channels, ended, lost, leaders, nodes, last_op }
    }

    /// Passes an input in, and keeps what comes out. Then nothing else happens, so the engine is woken if it is time.
    pub fn feed(&mut self, input: Input<'_>) {
        self.feed_only(input);
        if !self.busy && self.engine.poll_timeout().is_some_and(|(at, _)| at.as_micros() <= self.now) {
            self.feed_only(Input::Wake);
        }
    }

    fn feed_only(&mut self, input: Input<'_>) {
        for output in self.tell(input) {
            match output {
                Output::Send { id, node, command } => {
                    self.unanswered.push((id, command));
                    self.nodes.insert(id, node);
                }
                Output::SendDedicated { op, command } => self.dedicated.push((op, command)),
                Output::CloseDedicated { op } => self.closed.push(op),
                Output::Completed { op, result } => self.ended.push((op, result)),
                Output::Lost { lease, reason } => self.lost.push((lease, self.now, reason)),
                Output::Leader { op, leader } => self.leaders.push((op, self.now, leader)),
                Output::Subscribe { channel, .. } => self.channels.push(channel),
                Output::Unsubscribe { channel, .. } => self.channels.retain(|other| *other != channel),
            }
        }
        self.most = self.most.max(self.unanswered.len());
    }

    /// Passes an input in. Returns what comes out.
    pub fn tell(&mut self, input: Input<'_>) -> Vec<Output> {
        self.engine.handle(Instant::from_micros(self.now), input);
        std::iter::from_fn(|| self.engine.poll_output()).collect()
    }

    /// The number of the next call.
    pub fn next_op(&mut self) -> OpId {
        self.last_op += 1;
        OpId(self.last_op)
    }

    /// A user's call.
    pub fn call<'a>(&mut self, input: impl FnOnce(OpId) -> Input<'a>) -> OpId {
        let op = self.next_op();
        self.feed(input(op));
        op
    }

    /// A user acquires a lock.
    pub fn acquire(&mut self, name: &str, options: AcquireOptions) -> OpId {
        self.call(|op| Input::Acquire { op, name, options: &options })
    }

    /// Lets time pass, and wakes the engine whenever it wants that, and at the end.
    pub fn pass(&mut self, time: Duration) {
        self.pass_until(self.now + time.as_micros() as u64);
        self.feed(Input::Wake);
    }

    /// Lets time pass, and wakes the engine whenever it wants that.
    pub fn pass_until(&mut self, until: Micros) {
        while let Some((at, _)) = self.engine.poll_timeout().filter(|(at, _)| at.as_micros() <= until) {
            self.now = self.now.max(at.as_micros());
            self.feed(Input::Wake);
        }
        self.now = until;
    }

    /// A command ends.
    pub fn reply(&mut self, id: CommandId, result: Result<Reply, Failure>) {
        self.feed(Input::Reply { id, result });
    }

    /// The oldest command ends.
    ///
    /// # Panics
    /// If all have an answer.
    pub fn answer_with(&mut self, result: Result<Reply, Failure>) {
        let (id, _) = self.unanswered.remove(0);
        self.reply(id, result);
    }

    /// The server leaves the fast path of everything undone. What is unanswered now has its own script.
    ///
    /// # Panics
    /// If a command's words are not those of the fast path.
    pub fn leave_undone(&mut self) {
        let (common, own) = self.unanswered.drain(..).partition(|(_, command)| answers::entries(command).is_some());
        self.unanswered = own;
        let common: Vec<_> = common;
        for (id, command) in common {
            let entries = answers::entries(&command).unwrap_or_default();
            self.reply(id, Ok(answers::batch_reply(&entries, self.now, |_| Some(0))));
        }
    }

    /// The server answers the oldest command, as one that grants everything.
    ///
    /// # Panics
    /// If all have an answer.
    pub fn answer(&mut self) -> Command {
        let (id, command) = self.unanswered.remove(0);
        self.reply(id, Ok(answers::granting(&command, self.now)));
        command
    }

    /// The server answers everything, each command `pace` after the one before.
    pub fn serve(&mut self, pace: Duration) -> usize {
        let mut served = 0;
        while !self.unanswered.is_empty() {
            self.pass(pace);
            self.answer();
            served += 1;
        }
        served
    }

    /// Takes `count` names, and answers what that takes. Returns the leases.
    ///
    /// # Panics
    /// If something else ends as well, or a name is not acquired.
    pub fn hold(&mut self, count: usize, options: AcquireOptions) -> Vec<LeaseId> {
        for place in 0..count {
            self.acquire(&format!("n{place}"), options);
        }
        self.feed(Input::Wake);
        self.serve(Duration::from_micros(10));
        let granted = |(_, result): (OpId, Result<Outcome, Error>)| match result {
            Ok(Outcome::Acquired(grant)) => grant.lease,
            other => panic!("not acquired: {other:?}"),
        };
        let leases: Vec<_> = self.ended.drain(..).map(granted).collect();
        assert_eq!(leases.len(), count);
        leases
    }

    /// The server of a command.
    pub fn node_of(&self, id: CommandId) -> NodeId {
        self.nodes.get(&id).copied().unwrap_or_default()
    }

    /// How a call has ended.
    pub fn result_of(&self, op: OpId) -> Option<&Result<Outcome, Error>> {
        self.ended.iter().find(|(ended, _)| *ended == op).map(|(_, result)| result)
    }

    /// What a call has acquired.
    ///
    /// # Panics
    /// If it has not ended, or acquired nothing.
    pub fn grant_of(&self, op: OpId) -> Grant {
        match self.result_of(op) {
            Some(Ok(Outcome::Acquired(grant))) => *grant,
            other => panic!("not acquired: {other:?}"),
        }
    }
}
