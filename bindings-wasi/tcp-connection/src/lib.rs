//! A connection provider as a component: Redis's protocol over `wasi:sockets`.
//!
//! Composed with the lock component, it is `leasehold-tcp.wasm`, which needs only standard WASI.
//!
//! ```text
//!   a call ...   a call ...         tasks of the lock component's calls
//!        \         /
//!         commands                  a channel
//!            |
//!         link::run                 one task for each endpoint: connects, and reconnects after a break
//!            |
//!       session::run                what is sent and answered over one connection
//!            |
//!        Connection                 a TCP socket and the parser of the replies
//! ```

mod address;
mod bindings;
mod connection;
mod dial;
mod endpoint;
mod limits;
mod link;
mod resp;
mod session;
mod subscription;
mod timer;

/// Everything that the component exports.
struct Component;

impl bindings::exports::leasehold::lock::connection::Guest for Component {
    type Endpoint = endpoint::Endpoint;
}
