//! A driver that is late first reports the leases that have expired, and then reads what the server has answered.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, CommandId, Config, Engine, Error, Input, Instant, LeaseId, LossReason, OpId, Outcome,
    Output, Reply, Scalar,
};

const SERVER: i64 = 1_700_000_000_000_000;

struct Client {
    engine: Engine,
    now: u64,
    sent: Vec<CommandId>,
    ended: Vec<(OpId, Result<Outcome, Error>)>,
    lost: Vec<LossReason>,
}

impl Client {
    fn new(engine: Engine) -> Self {
        Self { engine, now: 1_000_000, sent: vec![], ended: vec![], lost: vec![] }
    }

    fn of_one_server() -> Self {
        let config = Config { batches: false, ..Config::default() };
        Self::new(Engine::new(ClientId::from_random([7; 16]), config).expect("the options are valid"))
    }

    fn feed(&mut self, input: Input<'_>) {
        self.engine.handle(Instant::from_micros(self.now), input);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send { id, .. } => self.sent.push(id),
                Output::Completed { op, result } => self.ended.push((op, result)),
                Output::Lost { reason, .. } => self.lost.push(reason),
                _ => {}
            }
        }
    }

    /// The server answers the oldest commands.
    fn answer(&mut self, commands: usize, status: &str, ttl: i64) {
        for id in self.sent.drain(..commands).collect::<Vec<_>>() {
            let numbers = [SERVER + 5, 33, SERVER + self.now as i64, ttl, 0, 0].map(Scalar::Int);
            let list = [Scalar::Text(status.into())].into_iter().chain(numbers).collect();
            self.feed(Input::Reply { id, result: Ok(Reply::List(list)) });
        }
    }

    fn hold(&mut self, name: &str, options: &AcquireOptions) -> LeaseId {
        self.feed(Input::Acquire { op: OpId(1), name, options });
        let ttl = i64::try_from(options.ttl.as_millis()).expect("a short time");
        self.answer(self.sent.len(), "entered", ttl);
        match self.ended.pop() {
            Some((OpId(1), Ok(Outcome::Acquired(grant)))) => grant.lease,
            other => panic!("{other:?}"),
        }
    }
}

fn fixed(ttl: u64) -> AcquireOptions {
    AcquireOptions { ttl: Duration::from_secs(ttl), renew: false, ..AcquireOptions::default() }
}

#[test]
fn expire_reports_a_lease_that_has_ended_and_judges_no_silence() {
    let mut client = Client::of_one_server();
    let [_, other] = [client.hold("a", &fixed(3)), client.hold("b", &fixed(60))];
    client.feed(Input::Verify { op: OpId(2), lease: other });
    client.now += 5_000_000;
    client.engine.catch_up(Instant::from_micros(client.now));
    client.engine.expire(Instant::from_micros(client.now));
    client.collect();
    assert_eq!((&client.lost[..], &client.ended[..]), (&[LossReason::Expired][..], &[][..]));
    client.answer(1, "renewed", 60_000);
    assert!(matches!(client.ended[..], [(OpId(2), Ok(Outcome::Verified(true)))]), "{:?}", client.ended);
}
