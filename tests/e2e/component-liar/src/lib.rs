//! A connection provider as a component that breaks its promises, on a server in memory.
//!
//! A command for a lock whose name contains a word of [`Manners`] is answered in that way. All others are answered as a
//! server does.

mod bindings;
mod manners;
mod server;

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use futures_channel::mpsc;
use futures_util::StreamExt;
use wit_bindgen::{StreamReader, StreamResult};

use bindings::exports::leasehold::lock::connection::{self, Failure, GuestEndpoint, Reply, Servers};
use bindings::wasi::clocks::monotonic_clock::{now, wait_for, wait_until};
use bindings::wit_stream;
use manners::Manners;
use server::execute;

/// Longer than the response timeout of the tests.
const LATE: Duration = Duration::from_millis(700);
/// How long the component blocks, once.
const DEAF: Duration = Duration::from_secs(5);

thread_local! {
    static HAS_BLOCKED: Cell<bool> = const { Cell::new(false) };
}

struct Component;

impl connection::Guest for Component {
    type Endpoint = Endpoint;
}

struct Endpoint;

impl GuestEndpoint for Endpoint {
    async fn open(_servers: Servers, _response_timeout_ms: u64) -> Result<connection::Endpoint, Failure> {
        Ok(connection::Endpoint::new(Self))
    }

    async fn call(&self, command: Vec<Vec<u8>>) -> Result<Reply, Failure> {
        match Manners::of(&command) {
            Manners::Good => execute(&command),
            Manners::Reversed => {
                manners::turn().await;
                execute(&command)
            }
            Manners::Swapped => server::swapped(&command),
            Manners::Twice => {
                let _ = execute(&command);
                execute(&command)
            }
            Manners::Late => {
                let answer = execute(&command);
                wait_for(nanoseconds(LATE)).await;
                answer
            }
            Manners::Never => pending().await,
            Manners::Garbage => manners::garbage(),
            Manners::Deaf => {
                if !HAS_BLOCKED.replace(true) {
                    wait_until(now() + nanoseconds(DEAF));
                }
                execute(&command)
            }
            Manners::Trap => std::process::abort(),
        }
    }

    async fn subscribe(&self, channel: String) -> Result<StreamReader<Vec<u8>>, Failure> {
        let (sender, mut payloads) = mpsc::unbounded();
        let (mut messages, reader) = wit_stream::new();
        server::subscribe(channel, sender);
        wit_bindgen::spawn_local(async move {
            while let Some(payload) = payloads.next().await {
                let (result, _) = messages.write(vec![payload]).await;
                if !matches!(result, StreamResult::Complete(_)) {
                    return;
                }
            }
        });
        Ok(reader)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
