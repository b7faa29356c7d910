//! A script's call as a transaction, for a server that refuses scripts.

use alloc::string::String;
use alloc::vec::Vec;

use leasehold_core::{Reply, Scalar};
use leasehold_memory::{Ended, Transaction, Writes};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{resp, split, write_executed};

/// The call of a script. Commands and replies cross as RESP.
#[wasm_bindgen]
pub struct ScriptCall {
    transaction: Transaction,
    writes: Option<Writes>,
}

#[wasm_bindgen]
impl ScriptCall {
    /// The call that a command makes, given as for `Memory.call`. Undefined if it calls no script of leasehold.
    pub fn of(text: &[u8], lengths: &[u32]) -> Option<ScriptCall> {
        let transaction = Transaction::of(&split(text, lengths)?)?;
        Some(Self { transaction, writes: None })
    }

    /// The commands that watch and read the keys.
    pub fn reads(&self) -> Vec<u8> {
        commands(&self.transaction.reads())
    }

    /// Takes the replies to them. Returns the commands that write, or the server's error.
    pub fn run(&mut self, replies: &[u8]) -> Vec<u8> {
        match self.transaction.run(&resp::read_replies(replies)) {
            Ok(writes) => {
                let written = commands(writes.commands());
                self.writes = Some(writes);
                written
            }
            Err(text) => error(&text),
        }
    }

    /// Takes the replies to the commands that write. Returns the script's answer and its messages as `Memory.call` does; nothing
    /// if another client has changed a key; and `?` if it is not known what the server has done.
    pub fn end(&mut self, replies: &[u8]) -> Vec<u8> {
        let Some(writes) = self.writes.take() else { return b"?".to_vec() };
        match writes.end(&resp::read_replies(replies)) {
            Ended::Done(executed) => {
                let mut answer = Vec::new();
                write_executed(&mut answer, executed);
                answer
            }
            Ended::Changed => Vec::new(),
            Ended::Refused(text) => error(&text),
            Ended::Unclear => b"?".to_vec(),
        }
    }
}

fn commands(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for words in commands {
        resp::write_reply(&mut bytes, &Reply::List(words.iter().cloned().map(Scalar::Text).collect()));
    }
    bytes
}

fn error(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::write_error(&mut bytes, &String::from(text));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(words: &[&str]) -> Option<ScriptCall> {
        let lengths: Vec<u32> = words.iter().map(|word| u32::try_from(word.len()).unwrap()).collect();
        ScriptCall::of(words.concat().as_bytes(), &lengths)
    }

    fn release() -> ScriptCall {
        let script = leasehold_lua::RELEASE_FAST;
        call(&["EVALSHA", script.sha1, "1", "door", "a:1 7"]).unwrap()
    }

    const TIME: &str = "*2\r\n$10\r\n1800000000\r\n$1\r\n7\r\n";

    #[test]
    fn a_script_runs_on_what_was_read() {
        let mut call = release();
        assert!(call.reads().starts_with(b"*2\r\n$5\r\nWATCH\r\n$4\r\ndoor\r\n*1\r\n$4\r\nTIME\r\n"));
        let wrong = "-WRONGTYPE no\r\n";
        let read = format!("$2\r\nOK\r\n{TIME}$6\r\nstring\r\n:50\r\n$5\r\na:1 7\r\n{wrong}{wrong}");
        let writes = String::from_utf8(call.run(read.as_bytes())).unwrap();
        assert_eq!(writes, "*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n$4\r\ndoor\r\n*1\r\n$4\r\nEXEC\r\n");
        assert_eq!(call.end(b"$2\r\nOK\r\n$6\r\nQUEUED\r\n*1\r\n:1\r\n"), b":1\r\n");
    }

    #[test]
    fn a_race_a_refusal_and_a_strange_answer_are_told_apart() {
        let read = format!("$2\r\nOK\r\n{TIME}$4\r\nnone\r\n:-2\r\n$-1\r\n*0\r\n*0\r\n");
        for (replies, end) in [
            ("$2\r\nOK\r\n$-1\r\n", ""),
            ("$2\r\nOK\r\n-EXECABORT no\r\n", "-EXECABORT no\r\n"),
            ("$2\r\nOK\r\n$4\r\nwhat\r\n", "?"),
            ("$2\r\nOK\r\n*1\r\n$5\r\nError\r\n", "?"),
            ("", "?"),
            ("*9", "?"),
        ] {
            let mut call = release();
            call.run(read.as_bytes());
            assert_eq!(String::from_utf8(call.end(replies.as_bytes())).unwrap(), end, "{replies}");
        }
        assert_eq!(release().run(b"-NOPERM no\r\n"), b"-NOPERM no\r\n");
        assert!(release().run(b"").starts_with(b"-ERR TIME"));
    }

    #[test]
    fn other_commands_are_no_calls() {
        assert!(call(&["GET", "door"]).is_none());
        assert!(call(&["EVAL", "return 1", "0"]).is_none());
        assert!(call(&[]).is_none());
    }
}
