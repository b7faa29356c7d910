//! The engine of a quorum. It is a WebAssembly module of its own, because few programs need it.

use leasehold_core::{Config, Engine as Core, Error, Failure, Vote};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::config::{config_of, time};
use crate::engine::Engine;
use crate::failure;
use crate::outcome::words;

#[wasm_bindgen]
impl Engine {
    /// Makes the engine of a quorum. `servers` has the name of one server on each line. See [`Engine::new`].
    #[expect(clippy::too_many_arguments, reason = "one crossing")]
    pub fn quorum(
        id: &[u8],
        prefix: String,
        local_handoffs: f64,
        claim_window: f64,
        response_timeout: f64,
        node_timeout: f64,
        mixed_fleet: bool,
        fence_retention: f64,
        servers: &str,
    ) -> Engine {
        let numbers = (local_handoffs, claim_window, response_timeout, fence_retention);
        let config = config_of(prefix, numbers, mixed_fleet)
            .and_then(|config| Ok(Config { node_timeout: time("node_timeout", node_timeout)?, ..config }));
        let servers: Vec<&str> = servers.lines().collect();
        Self::make(id, config, |id, config| Core::quorum(id, config, &servers))
    }
}

/// How a server of a quorum answered, and its message: `agreed`, `timed-out`, the code of an error, or empty for no answer yet.
pub(crate) fn answer(vote: &Vote) -> (&'static str, &str) {
    match &vote.answer {
        None => ("", ""),
        Some(Ok(())) => ("agreed", ""),
        Some(Err(Error::Unreachable { cause: None | Some(Failure::TimedOut), .. })) => ("timed-out", ""),
        Some(Err(Error::Unreachable { cause: Some(cause), .. })) => ("unreachable", failure::write(cause).1),
        Some(Err(error)) => (error.code(), words(error).1),
    }
}
