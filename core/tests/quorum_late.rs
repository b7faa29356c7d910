//! Answers of a quorum's servers that arrive after the majority has granted the lease, or after it was released.
#![cfg(feature = "quorum")]

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, CommandId, Config, Engine, Input, LeaseId, NodeId, OpId, Outcome, Reply, Scalar, Wait,
};
use leasehold_harness::Client;
use leasehold_harness::answers::{status, words};

const SERVERS: [&str; 3] = ["a:1", "b:1", "c:1"];

fn options(ttl: u64) -> AcquireOptions {
    let mut options = AcquireOptions::default();
    (options.ttl, options.wait) = (Duration::from_millis(ttl), Wait::Forever);
    options
}

/// An engine that holds a lease of 3 s on a majority of the servers, before one of them has answered.
struct Late {
    client: Client,
    /// The one that has not answered.
    server: u16,
    /// Another one, which has.
    other: u16,
    late: CommandId,
    lease: LeaseId,
}

impl Late {
    /// For each server that may be late. The first one is special, because clients queue there.
    fn held() -> [Self; 3] {
        [0, 1, 2].map(Self::new)
    }

    /// The same after a release.
    fn released() -> [Self; 3] {
        Self::held().map(|mut it| {
            it.handle(Input::Release { op: OpId(2), lease: it.lease });
            it
        })
    }

    fn new(server: u16) -> Self {
        let engine = Engine::quorum(ClientId::from_random([7; 16]), Config::default(), &SERVERS).unwrap();
        let [other, last] = [(server + 1) % 3, (server + 2) % 3];
        let mut it = Self { client: Client::of(engine), server, other, late: CommandId(0), lease: LeaseId(0) };
        it.acquire(1, 3_000);
        it.late = it.asked(server).unwrap();
        it.enters(other);
        it.lease = it.enters(last).expect("a majority agrees");
        it.forget();
        it
    }

    /// What comes next is seen alone.
    fn forget(&mut self) {
        self.client.unanswered.clear();
        self.client.ended.clear();
    }

    fn handle(&mut self, input: Input<'_>) -> Option<LeaseId> {
        self.client.now += 1_000;
        let ended = self.client.ended.len();
        self.client.feed(input);
        let granted = |(_, result): &(OpId, _)| match result {
            Ok(Outcome::Acquired(grant)) => Some(grant.lease),
            _ => None,
        };
        self.client.ended[ended..].iter().find_map(granted)
    }

    fn acquire(&mut self, op: u64, ttl: u64) {
        self.forget();
        self.handle(Input::Acquire { op: OpId(op), name: "n", options: &options(ttl) });
    }

    /// The commands that were sent to a server.
    fn sent(&self, server: u16) -> Vec<(CommandId, Vec<String>)> {
        let to_it = |id| self.client.node_of(id) == NodeId(server);
        let sent = self.client.unanswered.iter().filter(|(id, _)| to_it(*id));
        sent.map(|(id, command)| (*id, words(command))).collect()
    }

    /// The acquire that was sent to a server.
    fn asked(&self, server: u16) -> Option<CommandId> {
        let is_acquire = |words: &[String]| words[1] == leasehold_lua::ACQUIRE_FAST.sha1;
        self.sent(server).into_iter().find_map(|(id, words)| is_acquire(&words).then_some(id))
    }

    fn enters(&mut self, server: u16) -> Option<LeaseId> {
        let id = self.asked(server).unwrap();
        self.answer(id)
    }

    fn answer(&mut self, id: CommandId) -> Option<LeaseId> {
        self.handle(Input::Reply { id, result: Ok(Reply::One(Scalar::Text("1000000".into()))) })
    }

    fn reply(&mut self, id: CommandId, word: &str, numbers: [i64; 6]) -> Option<LeaseId> {
        self.handle(Input::Reply { id, result: Ok(status(word, numbers)) })
    }

    /// The server confirms the only renewal that it was sent.
    fn renews(&mut self, server: u16) {
        let [(id, _)] = self.sent(server)[..] else { panic!("not one command to server {server}") };
        self.reply(id, "renewed", [0, 0, 1_000_000, 9_000, -1, 0]);
    }
}

#[test]
fn the_next_caller_takes_a_late_answer_over() {
    for mut it in Late::released() {
        it.acquire(3, 3_000);
        assert!(it.asked(it.server).is_none(), "server {} is asked already", it.server);
        assert_eq!(it.enters(it.other), None);
        assert!(it.answer(it.late).is_some(), "the late answer of server {} makes the majority", it.server);
    }
}

#[test]
fn a_late_answer_does_not_serve_a_caller_with_another_ttl() {
    for mut it in Late::released() {
        it.acquire(3, 9_000);
        assert_eq!(it.enters(it.other), None);
        assert_eq!(it.answer(it.late), None);
    }
}

#[test]
fn a_lease_that_arrives_late_is_given_back_if_nobody_wants_it() {
    for mut it in Late::released() {
        let server = it.server;
        // A tombstone would cost the late server more than to give its lease back.
        assert!(it.sent(server).is_empty(), "only the two other servers get a release");
        it.forget();
        assert_eq!(it.answer(it.late), None);
        assert!(!it.sent(server).is_empty(), "server {server} gets a release");
    }
}

#[test]
fn a_call_counts_a_server_that_grants_later_in_place_of_one_that_has_died() {
    let ttl = Duration::from_secs(9);
    let calls =
        [|lease, _| Input::Verify { op: OpId(2), lease }, |lease, ttl| Input::Extend { op: OpId(2), lease, ttl }];
    for (call, mut it) in calls.into_iter().flat_map(|call| Late::held().map(|it| (call, it))) {
        // The two servers that have granted the lease are asked. One of them has died.
        it.handle(call(it.lease, ttl));
        it.renews(3 - it.server - it.other);
        it.forget();
        it.answer(it.late);
        assert!(it.client.ended.is_empty(), "{:?}", it.client.ended);
        it.renews(it.server);
        let ended = &it.client.ended[..];
        assert!(matches!(ended, [(_, Ok(Outcome::Verified(true) | Outcome::Extended { .. }))]), "{ended:?}");
    }
}
