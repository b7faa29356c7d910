//! The server's half of the protocol for the npm package: a server in memory for `leasehold/testing`, and the scripts as
//! transactions for `leasehold/without-scripts`.
//!
//! It is a WebAssembly module of its own, so that programs that only use locks don't load it. `ts/server` is the other half,
//! and the only user.

#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod resp;
mod script_call;

use alloc::vec::Vec;
use leasehold_core::Scalar;
use leasehold_memory::{Executed, Server};
use wasm_bindgen::prelude::wasm_bindgen;

pub use script_call::ScriptCall;

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ALLOCATOR: rlsf::SmallGlobalTlsf = rlsf::SmallGlobalTlsf::new();

/// The server never panics, and an allocation that fails can't be reported.
#[cfg(target_arch = "wasm32")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// One server.
#[wasm_bindgen]
#[derive(Default)]
pub struct Memory {
    server: Server,
}

#[wasm_bindgen]
impl Memory {
    /// An empty server.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Memory {
        Self::default()
    }

    /// Runs a command. `now` is the server's time in µs since 1970. `text` has the words one after the other, and `lengths` how many
    /// bytes each has. The answer is the reply in RESP, and after it the channel and the text of each message that was published.
    pub fn call(&mut self, now: f64, text: &[u8], lengths: &[u32]) -> Vec<u8> {
        let mut answer = Vec::new();
        let Some(words) = split(text, lengths) else {
            resp::write_error(&mut answer, "ERR the lengths don't fit the text");
            return answer;
        };
        match self.server.execute(now as u64, &words) {
            Ok(executed) => write_executed(&mut answer, executed),
            Err(error) => resp::write_error(&mut answer, &alloc::format!("ERR {error}")),
        }
        answer
    }

    /// One more client listens on a channel.
    pub fn subscribe(&mut self, channel: &str) {
        self.server.subscribe(channel.as_bytes());
    }

    /// One client less listens on a channel.
    pub fn unsubscribe(&mut self, channel: &str) {
        self.server.unsubscribe(channel.as_bytes());
    }
}

/// The reply, and after it the channel and the text of each message.
fn write_executed(answer: &mut Vec<u8>, executed: Executed) {
    match &executed.reply {
        Ok(reply) => resp::write_reply(answer, reply),
        Err(text) => resp::write_error(answer, text),
    }
    for message in executed.published {
        resp::write_scalar(answer, &Scalar::Text(message.channel));
        resp::write_scalar(answer, &Scalar::Text(message.payload));
    }
}

/// The words of a command. None if the lengths don't fit the text.
fn split<'a>(mut text: &'a [u8], lengths: &[u32]) -> Option<Vec<&'a [u8]>> {
    let mut words = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (word, rest) = text.split_at_checked(usize::try_from(*length).ok()?)?;
        words.push(word);
        text = rest;
    }
    text.is_empty().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: f64 = 1.8e15;

    fn call(memory: &mut Memory, words: &[&str]) -> String {
        let lengths: Vec<u32> = words.iter().map(|word| u32::try_from(word.len()).unwrap()).collect();
        String::from_utf8(memory.call(NOW, words.concat().as_bytes(), &lengths)).unwrap()
    }

    #[test]
    fn the_reply_comes_first_and_then_the_messages() {
        let mut memory = Memory::new();
        memory.subscribe("news");
        assert_eq!(call(&mut memory, &["SET", "a", "ä"]), "$2\r\nOK\r\n");
        assert_eq!(call(&mut memory, &["GET", "a"]), "$2\r\nä\r\n");
        assert_eq!(call(&mut memory, &["PUBLISH", "news", "hello"]), ":1\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
        memory.unsubscribe("news");
        assert!(call(&mut memory, &["PUBLISH", "news", "hello"]).starts_with(":0"));
    }

    #[test]
    fn bad_input_gets_an_error() {
        let mut memory = Memory::new();
        assert!(call(&mut memory, &["NONSENSE"]).starts_with("-ERR unknown command 'NONSENSE'"));
        assert!(call(&mut memory, &[]).starts_with("-ERR empty command"));
        for lengths in [&[9][..], &[1], &[u32::MAX]] {
            assert!(memory.call(NOW, b"PING", lengths).starts_with(b"-ERR the lengths"), "{lengths:?}");
        }
        assert!(memory.call(1.0, b"PING", &[4]).starts_with(b"-ERR the server's time"));
        assert!(memory.call(f64::INFINITY, b"PING", &[4]).starts_with(b"-ERR the time"));
    }
}
