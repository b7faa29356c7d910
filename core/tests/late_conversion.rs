//! The server refuses an upgrade, and a delayed copy of the command is carried out all the same.

use leasehold_core::{
    AcquireOptions, ClientId, Command, CommandId, Config, Engine, Error, Input, Instant, Mode, OpId, Outcome, Output,
    Reply, Scalar,
};

const SERVER: i64 = 1_700_000_000_000_000;

struct Reader {
    engine: Engine,
    now: u64,
    sent: Vec<(CommandId, Command)>,
    ended: Vec<Result<Outcome, Error>>,
    lost: usize,
}

impl Reader {
    fn tell(&mut self, input: Input<'_>) {
        self.engine.handle(Instant::from_micros(self.now), input);
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send { id, command, .. } => self.sent.push((id, command)),
                Output::Completed { result, .. } => self.ended.push(result),
                Output::Lost { .. } => self.lost += 1,
                _ => {}
            }
        }
    }

    /// Waits until a command has left.
    fn next(&mut self) -> (CommandId, Command) {
        while self.sent.is_empty() {
            self.now = self.engine.poll_timeout().expect("the client has something to do").0.as_micros();
            self.tell(Input::Wake);
        }
        self.sent.remove(0)
    }

    fn answer(&mut self, id: CommandId, status: &str, fence: i64) {
        self.now += 1_000;
        let numbers = [fence, 1, SERVER + self.now as i64, 30_000, 0, 0].map(Scalar::Int);
        let list = [Scalar::Text(status.into())].into_iter().chain(numbers).collect();
        self.tell(Input::Reply { id, result: Ok(Reply::List(list)) });
    }
}

fn has(command: &Command, word: &str) -> bool {
    command.words().any(|other| other.starts_with(word.as_bytes()))
}

/// The token that a convert moves the lease to: the second one in the command.
fn new_token(command: &Command) -> String {
    let id = ClientId::from_random([7; 16]).to_string();
    let words = command.words().map(|word| String::from_utf8_lossy(word).into_owned());
    words.filter(|word| word.starts_with(&id)).nth(1).expect("a convert has two tokens")
}

#[test]
fn the_lease_goes_on_under_the_new_token_which_is_given_back_at_the_end() {
    let engine = Engine::new(ClientId::from_random([7; 16]), Config { batches: false, ..Config::default() }).unwrap();
    let mut reader = Reader { engine, now: 1_000_000, sent: vec![], ended: vec![], lost: 0 };
    let options = AcquireOptions { mode: Mode::Shared, renew: false, ..AcquireOptions::default() };
    reader.tell(Input::Acquire { op: OpId(1), name: "job", options: &options });
    let (id, _) = reader.next();
    reader.answer(id, "entered", SERVER + 5);
    let lease = match reader.ended.pop() {
        Some(Ok(Outcome::Acquired(grant))) => grant.lease,
        other => panic!("{other:?}"),
    };

    reader.tell(Input::Convert { op: OpId(2), lease, mode: Mode::Exclusive });
    let (first, command) = reader.next();
    let (copy, again) = reader.next();
    let new = new_token(&command);
    assert_eq!(new_token(&again), new, "the answer is late, so the client asks again");
    reader.answer(first, "conflict", 0);
    assert!(matches!(reader.ended.pop(), Some(Err(Error::Conflict(_)))));
    reader.answer(copy, "converted", SERVER + 9);
    assert_eq!(reader.lost, 0);

    reader.now += 1_000_000;
    reader.sent.clear();
    reader.tell(Input::Release { op: OpId(3), lease });
    let (_, release) = reader.next();
    assert!(has(&release, &new), "{release:?} gives {new} back");
}
