//! The engine of a quorum, which is in a module of its own: few programs want it, and all would load it.

use leasehold_core::{Config, Engine as Core, Error, Failure, Vote};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::config::{config_of, time};
use crate::engine::Engine;
use crate::failure;
use crate::outcome::words;

#[wasm_bindgen]
impl Engine {
    /// An engine over the servers of these names, one a line; see [`Engine::new`].
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

/// What a server of a quorum said, and its words: `agreed`, `timed-out`, the code of an error, or nothing.
pub(crate) fn answer(vote: &Vote) -> (&'static str, &str) {
    match &vote.answer {
        None => ("", ""),
        Some(Ok(())) => ("agreed", ""),
        Some(Err(Error::Unreachable { cause: None | Some(Failure::TimedOut), .. })) => ("timed-out", ""),
        Some(Err(Error::Unreachable { cause: Some(cause), .. })) => ("unreachable", failure::write(cause).1),
        Some(Err(error)) => (error.code(), words(error).1),
    }
}
