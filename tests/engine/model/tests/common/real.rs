use leasehold_core::{Reply, Scalar};
use leasehold_memory::{Ended, Transaction};
use leasehold_servers::{Connection, Reply as Raw, Server};

use super::Host;

/// A connection to a real server.
pub(crate) struct Real(pub(crate) Connection);

impl Real {
    pub(crate) fn connect(server: &Server) -> Self {
        Self(server.connect().unwrap())
    }
}

impl Host for Real {
    fn run(&mut self, words: &[&str]) -> Result<Reply, String> {
        match self.0.call(words).unwrap() {
            Raw::Error(text) => Err(text),
            Raw::List(items) => Ok(Reply::List(items.into_iter().map(scalar).collect())),
            single => Ok(Reply::One(scalar(single))),
        }
    }
}

impl Real {
    /// Runs leasehold's scripts as transactions, without `EVAL` and `EVALSHA`.
    pub(crate) fn run_without_scripts(&mut self, words: &[&str]) -> Result<Reply, String> {
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let Some(transaction) = Transaction::of(&bytes) else { return self.run(words) };
        let read = self.run_all(&transaction.reads());
        let writes = transaction.run(&read)?;
        let written = self.run_all(writes.commands());
        match writes.end(&written) {
            Ended::Done(executed) => {
                for message in executed.published {
                    self.run_bytes(&[b"PUBLISH".to_vec(), message.channel, message.payload]).unwrap();
                }
                executed.reply
            }
            Ended::Refused(text) => Err(text),
            // A key has expired, which older servers take for a change.
            Ended::Changed => self.run_without_scripts(words),
            other => panic!("nobody else uses the server, and the transaction ended with {other:?}"),
        }
    }

    fn run_all(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Result<Reply, String>> {
        commands.iter().map(|words| self.run_bytes(words)).collect()
    }

    fn run_bytes(&mut self, words: &[Vec<u8>]) -> Result<Reply, String> {
        let words: Vec<&str> = words.iter().map(|word| str::from_utf8(word).unwrap()).collect();
        self.run(&words)
    }
}

fn scalar(raw: Raw) -> Scalar {
    match raw {
        Raw::Nil => Scalar::Nil,
        Raw::Integer(number) => Scalar::Int(number),
        Raw::Text(text) => Scalar::Text(text.into_bytes()),
        other => panic!("not flat: {other:?}"),
    }
}

/// The next message of a subscribed connection: channel and payload.
pub(crate) fn receive_message(connection: &mut Connection) -> (String, String) {
    let message = connection.receive().unwrap();
    let [.., channel, payload] = message.list() else { panic!("not a message: {message:?}") };
    (channel.text().unwrap().to_owned(), payload.text().unwrap().to_owned())
}
