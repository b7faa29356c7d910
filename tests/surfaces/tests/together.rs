//! All surfaces at once on one lock, readers and writers.

use std::cell::RefCell;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_component_tests::with_component;
use leasehold_servers::{Connection, Server};
use leasehold_surfaces::{Component, Native, Node, Step, Surface};
use leasehold_wasmtime_host::RedisProvider;
use serde_json::{Value, json};

const CLIENTS: [&str; 2] = ["a", "b"];
/// Of each client, and a reader beside them.
const WRITERS: usize = 2;
const ROUNDS: usize = 15;

/// What the lock protects, and nothing else: a counter on the server, and what its holders have seen.
struct Account {
    connection: RefCell<Connection>,
    /// The greatest fence of all leases so far.
    greatest: RefCell<u64>,
}

impl Account {
    fn run(&self, command: &[&str]) -> i64 {
        let reply = self.connection.borrow_mut().call(command).unwrap();
        reply.integer().or_else(|| reply.text().and_then(|text| text.parse().ok())).unwrap_or(0)
    }

    async fn write(&self, fence: u64) {
        assert!(fence > self.greatest.replace(fence), "a writer's fence is greater than all before");
        let seen = self.run(&["GET", "counter"]);
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.run(&["SET", "counter", &(seen + 1).to_string()]);
        tokio::task::yield_now().await;
        self.run(&["SET", "mirror", &(seen + 1).to_string()]);
    }

    async fn read(&self, fence: u64) {
        let greatest = *self.greatest.borrow();
        self.greatest.replace(greatest.max(fence));
        let counter = self.run(&["GET", "counter"]);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(counter, self.run(&["GET", "mirror"]), "a reader saw half a change");
    }
}

/// Every worker of one surface.
async fn work<S: Surface>(surface: S, account: &Account) {
    for client in CLIENTS {
        assert_eq!(surface.perform(&Step(&json!({ "do": "open", "client": client }))).await, "open");
    }
    let workers = CLIENTS.iter().flat_map(|client| (0..=WRITERS).map(move |number| (client, number)));
    let surface = &surface;
    join_all(workers.map(async |(client, number)| {
        for _ in 0..ROUNDS {
            turn(surface, account, client, number).await;
        }
    }))
    .await;
}

async fn turn<S: Surface>(surface: &S, account: &Account, client: &str, number: usize) {
    let reads = number == WRITERS;
    let name = format!("{client}{number}");
    let mode = if reads { "shared" } else { "exclusive" };
    let acquire = json!({ "do": "acquire", "client": client, "lock": "account", "mode": mode, "as": name });
    let lease = surface.perform(&Step(&acquire)).await;
    let fence = lease["fence"].as_u64().unwrap_or_else(|| panic!("{}: {lease}", S::NAME));
    if reads {
        account.read(fence).await
    } else {
        account.write(fence).await
    }
    let released: Value = surface.perform(&Step(&json!({ "do": "release", "lease": name }))).await;
    assert!(released == "released" || released == "still-held", "{}: {released}", S::NAME);
}

#[tokio::test]
async fn the_crate_the_package_and_the_component_lose_no_update_and_their_fences_rise() {
    let server = Server::start().unwrap();
    let url = server.url();
    let connection = Connection::open(server.address(), Duration::from_secs(15)).unwrap();
    let account = Account { connection: RefCell::new(connection), greatest: RefCell::new(0) };
    let all = with_component(RedisProvider, async |locks| {
        let node = Node::new(&url);
        tokio::join!(
            work(Native::new(&url), &account),
            work(node, &account),
            work(Component::new(&url, locks), &account),
        );
    });
    tokio::time::timeout(Duration::from_secs(120), all).await.expect("all is done in time").unwrap();
    let updates = 3 * CLIENTS.len() * WRITERS * ROUNDS;
    assert_eq!(account.run(&["GET", "counter"]), i64::try_from(updates).unwrap());
}
