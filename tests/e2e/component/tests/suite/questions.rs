//! What a manager asks a server before the first lock, and what it does with the answers of servers that aren't ready and of proxies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_wasmtime_host::{
    Answer, Connected, Endpoint, ErrorKind, Failure, Future, Messages, Provider, Servers, Topology,
};

use crate::common::*;
use crate::memory::{Memories, Memory, on_virtual_time};

/// The answer to a command in place of the server's. The number says how often the endpoint got this command before.
type Answers = fn(command: &str, before: usize) -> Option<Answer>;

/// Servers in memory behind a proxy.
struct Proxied(Memories, Answers);

struct Asked {
    server: Arc<dyn Endpoint>,
    answers: Answers,
    info: AtomicUsize,
    eval: AtomicUsize,
}

impl Provider for Proxied {
    fn open(&self, servers: Servers, response_timeout: Duration) -> Future<Connected> {
        let (opening, answers) = (self.0.open(servers, response_timeout), self.1);
        Box::pin(async move {
            let (info, eval) = Default::default();
            Ok(Arc::new(Asked { server: opening.await?, answers, info, eval }) as Arc<dyn Endpoint>)
        })
    }
}

impl Endpoint for Asked {
    fn call(&self, command: Vec<Vec<u8>>) -> Future<Answer> {
        let name = String::from_utf8_lossy(&command[0]).into_owned();
        let before = match &*name {
            "INFO" => self.info.fetch_add(1, Ordering::Relaxed),
            "EVAL" => self.eval.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        match (self.answers)(&name, before) {
            Some(answer) => Box::pin(async { answer }),
            None => self.server.call(command),
        }
    }

    fn subscribe(&self, channel: String) -> Future<Result<Messages, Failure>> {
        self.server.subscribe(channel)
    }
}

fn refusing(text: &str) -> Option<Answer> {
    Some(Err(Failure::Refused(text.to_owned())))
}

fn closing() -> Option<Answer> {
    Some(Err(Failure::Interrupted("the connection was closed".to_owned())))
}

#[tokio::test(start_paused = true)]
async fn the_servers_of_a_quorum_may_be_behind_proxies_that_close_the_connection_at_info() {
    let servers: [Memory; 3] = std::array::from_fn(|_| Memory::start());
    let closes = |command: &str, _| if command == "INFO" { closing() } else { None };
    let work = on_virtual_time(Proxied(Memories(servers.to_vec()), closes), async |locks| {
        let urls = servers.iter().map(Place::url).collect();
        let manager = ok(locks.open_at(Topology::Quorum(urls), quick()).await);
        let lease = ok(manager.acquire(mutex("job"), None).await);
        until("all three have it", || servers.iter().all(|server| is_there(server, "job"))).await;
        ok(lease.release().await);
    });
    work.await.unwrap();
}
