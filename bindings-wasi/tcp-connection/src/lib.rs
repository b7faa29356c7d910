//! A connection provider as a component: Redis's protocol over `wasi:sockets`.
//!
//! Composed with the lock component, it is `leasehold-tcp.wasm`, which needs only standard WASI.
//!
//! ```text
//!   a call ...   a call ...         one task for each call of the lock component
//!        \         /
//!         commands                  a channel
//!            |
//!         pipeline                  one task for each endpoint: connects, and reconnects after a break
//!            |
//!        Connection                 a TCP socket and the parser of the replies
//! ```
//!
//! `client` has what the component exports and its tasks. They use the connections of `net`.

mod bindings;
mod client;
mod limits;
mod net;
mod refusal;
mod time;

/// Everything that the component exports.
struct Component;

impl bindings::exports::leasehold::lock::connection::Guest for Component {
    type Endpoint = client::Endpoint;
}
