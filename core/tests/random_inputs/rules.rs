//! What must hold after each input, and what a server that keeps no state would answer.

use leasehold_core::{Command, Error, Grant, Input, Instant, Mode, Outcome, Output, ReleaseOutcome, Reply, Scalar};

use crate::world::{About, FuzzedEngine, Held};

impl FuzzedEngine {
    pub(crate) fn input(&mut self, input: Input<'_>) {
        self.engine.handle(Instant::from_micros(self.now), input);
        let mut outputs = 0;
        while let Some(output) = self.engine.poll_output() {
            outputs += 1;
            assert!(outputs < 10_000, "seed {}: no end of outputs", self.seed);
            self.observe(output);
        }
        if let Some((at, reason)) = self.engine.poll_timeout() {
            assert!(at.as_micros() > self.now, "seed {}: {reason:?} is due, and was not done", self.seed);
        }
    }

    fn observe(&mut self, output: Output) {
        match output {
            Output::Send { id, command, .. } => {
                assert!(id.0 > self.last_call, "seed {}: {id:?} was used before", self.seed);
                self.last_call = id.0;
                self.calls.insert(id.0, command);
            }
            Output::SendDedicated { op, command } => {
                assert!(self.ops.contains_key(&op.0), "seed {}: {op:?} has ended, and sends", self.seed);
                self.dedicated.insert(op.0, command);
            }
            Output::CloseDedicated { op } => {
                self.dedicated.remove(&op.0);
            }
            Output::Completed { op, result } => {
                assert!(!self.dedicated.contains_key(&op.0), "seed {}: the connection of {op:?} stays open", self.seed);
                let about = self.ops.remove(&op.0);
                let about = about.unwrap_or_else(|| panic!("seed {}: {op:?} ended twice: {result:?}", self.seed));
                self.ended(about, result);
            }
            Output::Lost { lease, .. } => {
                let held = self.leases.remove(&lease.0);
                assert!(held.is_some(), "seed {}: {lease:?} is lost, but was not held", self.seed);
            }
            Output::Subscribe { .. } => assert!(!self.closed, "seed {}: closed, and subscribes", self.seed),
            Output::Unsubscribe { .. } => {}
        }
    }

    fn ended(&mut self, about: About, result: Result<Outcome, Error>) {
        match (about, result) {
            (About::Name(name), Ok(Outcome::Acquired(grant))) => self.acquired(name, grant),
            (About::Name(_), result) => assert!(result.is_err(), "seed {}: {result:?} of an acquire", self.seed),
            (About::Lease(lease), Ok(outcome)) => self.done_to(lease, &outcome),
            (About::Lease(_) | About::Client, _) => {}
        }
    }

    fn acquired(&mut self, name: &'static str, grant: Grant) {
        if let Some(held) = self.leases.get_mut(&grant.lease.0).filter(|_| name == "r") {
            held.holds += 1;
            return;
        }
        assert!(self.used_leases.insert(grant.lease.0), "seed {}: {:?} was used before", self.seed, grant.lease);
        assert!(grant.valid_until.as_micros() > self.now, "seed {}: over when it begins: {grant:?}", self.seed);
        assert!(!self.closed, "seed {}: closed, and grants", self.seed);
        self.last_lease = self.last_lease.max(grant.lease.0);
        self.leases.insert(grant.lease.0, Held { name, mode: grant.mode, holds: 1 });
        self.holders_are_apart(name);
    }

    /// After a lease has ended, nothing succeeds for it any more.
    fn done_to(&mut self, lease: u64, outcome: &Outcome) {
        let Some(held) = self.leases.get_mut(&lease) else {
            let fits = matches!(outcome, Outcome::Released(_) | Outcome::Verified(false));
            return assert!(fits, "seed {}: {outcome:?} for lease {lease}, which has ended", self.seed);
        };
        match outcome {
            Outcome::Released(released) => {
                assert_eq!(*released, ReleaseOutcome::StillHeld, "seed {}: lease {lease} is held", self.seed);
            }
            Outcome::Held(holds) => held.holds = *holds,
            Outcome::Converted(grant) => {
                held.mode = grant.mode;
                let name = held.name;
                self.holders_are_apart(name);
            }
            _ => {}
        }
    }

    fn holders_are_apart(&self, name: &str) {
        // Each adopted lease had a token of its own, and this server forgets what it granted.
        if matches!(name, "s" | "adopted") {
            return;
        }
        let modes: Vec<Mode> = self.leases.values().filter(|held| held.name == name).map(|held| held.mode).collect();
        let apart = modes.len() == 1 || modes.iter().all(|mode| *mode == Mode::Shared);
        assert!(apart, "seed {}: {name} is held at once as {modes:?}", self.seed);
    }
}

/// What a script might answer: the lock is free, and nothing that was held is there any more.
pub(crate) fn sane_answer(command: &Command, server: u64) -> Reply {
    let words: Vec<&[u8]> = command.words().collect();
    let sent =
        |script: &leasehold_lua::Script| words[1] == script.sha1.as_bytes() || words[1] == script.source.as_bytes();
    let script = leasehold_lua::ALL.into_iter().find(sent).expect("a script of ours");
    let is = |known: leasehold_lua::Script| script.name.ends_with(known.name);
    let ttl = |at: usize| std::str::from_utf8(words[at]).expect("text").parse().expect("a number");
    if is(leasehold_lua::INSPECT) {
        return Reply::List(vec![int(server), Scalar::Text(Vec::new()), int(0), int(0), int(0), int(0)]);
    }
    if is(leasehold_lua::RELEASE) {
        return answer("released", [0, 0, server, 0, 0, 0]);
    }
    if is(leasehold_lua::RENEW) {
        return answer("renewed", [0, 0, server, ttl(words.len() - 1), 0, 0]);
    }
    if is(leasehold_lua::RAISE) {
        return answer("raised", [0, 0, server, 10_000, 0, 0]);
    }
    if is(leasehold_lua::CONVERT) {
        return answer("converted", [server, 33, server, ttl(12), 0, 0]);
    }
    let status = if words[12] == b"refill" { "again" } else { "entered" };
    answer(status, [server, 33, server, ttl(11), 0, 0])
}

pub(crate) fn answer(status: &str, numbers: [u64; 6]) -> Reply {
    let mut list = vec![Scalar::Text(status.into())];
    list.extend(numbers.map(int));
    Reply::List(list)
}

fn int(number: u64) -> Scalar {
    Scalar::Int(i64::try_from(number).expect("numbers of a server fit"))
}
