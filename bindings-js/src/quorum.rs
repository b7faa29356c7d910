//! The engine of a quorum. It is a WebAssembly module of its own, because few programs need it.

use alloc::vec::Vec;
use leasehold_core::{ClientId, Config, Engine, Error, Failure, Vote};

/// The engine of a quorum, if there are servers: the name of one on each line. Without servers, the engine of one server.
pub(crate) fn engine(id: ClientId, config: Config, servers: &str) -> Result<Engine, Error> {
    if servers.is_empty() {
        return Engine::new(id, config);
    }
    let servers: Vec<&str> = servers.lines().collect();
    Engine::quorum(id, config, &servers)
}

/// How a server of a quorum answered, and its message: `agreed`, `timed-out`, the code of an error, or empty for no answer yet.
pub(crate) fn answer(vote: &Vote) -> (&'static str, &str) {
    match &vote.answer {
        None => ("", ""),
        Some(Ok(())) => ("agreed", ""),
        Some(Err(Error::Unreachable { cause: None | Some(Failure::TimedOut), .. })) => ("timed-out", ""),
        Some(Err(Error::Unreachable { cause: Some(cause), .. })) => ("unreachable", cause.text()),
        Some(Err(error)) => (error.code(), error.problem()),
    }
}
