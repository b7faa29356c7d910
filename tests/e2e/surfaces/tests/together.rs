//! All surfaces at once on one lock: readers and writers, reentrant owners, permits.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_component_tests::with_component;
use leasehold_servers::{Connection, Server};
use leasehold_surfaces::{Component, Native, Node, Step, Surface};
use leasehold_wasmtime_host::RedisProvider;
use serde_json::{Value, json};
use tokio::sync::Barrier;

const CLIENTS: [&str; 2] = ["a", "b"];
/// How many writers each client has. It also has one reader.
const WRITERS: usize = 2;
const ROUNDS: usize = 15;
/// The permits of the semaphore, and the most that one caller takes.
const PERMITS: usize = 3;

/// A counter on the server that only the lock protects, and what the holders have seen.
struct Account {
    connection: RefCell<Connection>,
    /// The greatest fence of all leases so far, and of the writers.
    greatest: Cell<u64>,
    written: Cell<u64>,
    /// Which surface had the lock, in the order of the leases.
    turns: RefCell<Vec<&'static str>>,
    /// Lets all workers start at the same moment, because a process starts later than a task.
    ready: Barrier,
}

impl Account {
    fn run(&self, command: &[&str]) -> i64 {
        let reply = self.connection.borrow_mut().call(command).unwrap();
        reply.integer().or_else(|| reply.text().and_then(|text| text.parse().ok())).unwrap_or(0)
    }

    async fn write(&self, fence: u64) {
        assert!(fence > self.greatest.replace(fence), "a writer's fence is greater than all before");
        self.written.set(fence);
        let seen = self.run(&["GET", "counter"]);
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.run(&["SET", "counter", &(seen + 1).to_string()]);
        tokio::task::yield_now().await;
        self.run(&["SET", "mirror", &(seen + 1).to_string()]);
    }

    async fn read(&self, fence: u64) {
        assert!(fence > self.written.get(), "a reader's fence is greater than those of the writers before");
        self.greatest.set(self.greatest.get().max(fence));
        let counter = self.run(&["GET", "counter"]);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(counter, self.run(&["GET", "mirror"]), "a reader saw half a change");
    }
}

/// A lease of one surface that another one takes over. Returns the token with which the next one can.
async fn adopt<S: Surface>(surface: &S, token: &str, fence: &mut u64) -> String {
    surface.perform(&Step(&json!({ "do": "open", "client": "a" }))).await;
    let adopt = json!({ "do": "adopt", "client": "a", "lock": "job", "token": token, "as": "job" });
    let lease = surface.perform(&Step(&adopt)).await;
    let adopted = lease["fence"].as_u64().unwrap_or_else(|| panic!("{}: {lease}", S::NAME));
    assert!(adopted > std::mem::replace(fence, adopted), "{}: each adopter has a greater fence", S::NAME);
    let told = surface.perform(&Step(&json!({ "do": "token", "lease": "job" }))).await;
    told.as_str().unwrap_or_else(|| panic!("{}: {told}", S::NAME)).to_owned()
}

/// Every worker of one surface.
async fn work<S: Surface>(surface: S, account: &Account) {
    let surface = &begin(surface, account).await;
    let workers = CLIENTS.iter().flat_map(|client| (0..=WRITERS).map(move |number| (client, number)));
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
    account.turns.borrow_mut().push(S::NAME);
    if reads {
        account.read(fence).await
    } else {
        account.write(fence).await
    }
    let released: Value = surface.perform(&Step(&json!({ "do": "release", "lease": name }))).await;
    assert!(released == "released" || released == "still-held", "{}: {released}", S::NAME);
}

/// The reentrant owners of one surface. Each takes the lock twice.
async fn own<S: Surface>(surface: S, account: &Account) {
    let surface = &begin(surface, account).await;
    let workers = CLIENTS.iter().flat_map(|client| (0..WRITERS).map(move |number| (client, number)));
    join_all(workers.map(async |(client, number)| {
        for _ in 0..ROUNDS {
            let (outer, inner) = (format!("{client}{number}"), format!("{client}{number} again"));
            let acquire = |name: &str| {
                json!({ "do": "acquire", "client": client, "lock": "account", "owner": number + 1, "as": name })
            };
            let lease = surface.perform(&Step(&acquire(&outer))).await;
            let fence = lease["fence"].as_u64().unwrap_or_else(|| panic!("{}: {lease}", S::NAME));
            assert_eq!(surface.perform(&Step(&acquire(&inner))).await["fence"], fence, "{}", S::NAME);
            account.turns.borrow_mut().push(S::NAME);
            release(surface, &inner, "still-held").await;
            account.write(fence).await;
            release(surface, &outer, "released").await;
        }
    }))
    .await;
}

/// The callers that take permits on one surface, with different weights.
async fn share<S: Surface>(surface: S, account: &Account, out: &Cell<usize>) {
    let surface = &begin(surface, account).await;
    let workers = CLIENTS.iter().flat_map(|client| (1..=PERMITS).map(move |permits| (client, permits)));
    join_all(workers.map(async |(client, permits)| {
        for _ in 0..ROUNDS {
            let name = format!("{client}{permits}");
            let acquire = json!({ "do": "acquire", "client": client, "lock": "account", "limit": PERMITS, "permits": permits, "as": name });
            let lease = surface.perform(&Step(&acquire)).await;
            assert_eq!(lease["held"], true, "{}: {lease}", S::NAME);
            account.turns.borrow_mut().push(S::NAME);
            out.set(out.get() + permits);
            assert!(out.get() <= PERMITS, "{}: {} of {PERMITS} are out", S::NAME, out.get());
            tokio::time::sleep(Duration::from_millis(1)).await;
            out.set(out.get() - permits);
            release(surface, &name, "released").await;
        }
    }))
    .await;
}

/// The callers that take two names as one lock. Each surface names them in a different order.
async fn transfer<S: Surface>(surface: S, account: &Account, names: [&str; 2]) {
    let surface = &begin(surface, account).await;
    join_all(CLIENTS.map(async |client| {
        for _ in 0..ROUNDS {
            let acquire = json!({ "do": "acquire", "client": client, "names": names, "as": client });
            let lease = surface.perform(&Step(&acquire)).await;
            let fence = lease["fence"].as_u64().unwrap_or_else(|| panic!("{}: {lease}", S::NAME));
            account.turns.borrow_mut().push(S::NAME);
            account.write(fence).await;
            release(surface, client, "released").await;
        }
    }))
    .await;
}

async fn begin<S: Surface>(surface: S, account: &Account) -> S {
    for client in CLIENTS {
        assert_eq!(surface.perform(&Step(&json!({ "do": "open", "client": client, "handoffs": 2 }))).await, "open");
    }
    account.ready.wait().await;
    surface
}

async fn release<S: Surface>(surface: &S, lease: &str, outcome: &str) {
    let released = surface.perform(&Step(&json!({ "do": "release", "lease": lease }))).await;
    assert_eq!(released, outcome, "{}: {lease}", S::NAME);
}

fn account(server: &Server) -> Account {
    Account {
        connection: RefCell::new(Connection::open(server.address(), Duration::from_secs(15)).unwrap()),
        greatest: Cell::new(0),
        written: Cell::new(0),
        turns: RefCell::default(),
        ready: Barrier::new(3),
    }
}

fn beside_each_other(account: Account) {
    let turns = account.turns.into_inner();
    let handovers = turns.windows(2).filter(|two| two[0] != two[1]).count();
    assert!(handovers > turns.len() / 10, "they worked one after the other, with {handovers} hand-overs: {turns:?}");
}

#[tokio::test]
async fn owners_on_every_surface_exclude_each_other_and_come_back_to_their_own() {
    let server = Server::start().unwrap();
    let (urls, account) = ([server.url()], account(&server));
    let all = with_component(RedisProvider, async |locks| {
        let node = Node::new(&urls);
        tokio::join!(
            own(Native::new(&urls), &account),
            own(node, &account),
            own(Component::new(&urls, locks), &account)
        );
    });
    tokio::time::timeout(Duration::from_secs(120), all).await.expect("all is done in time").unwrap();
    let updates = 3 * CLIENTS.len() * WRITERS * ROUNDS;
    assert_eq!(account.run(&["GET", "counter"]), i64::try_from(updates).unwrap());
    beside_each_other(account);
}

#[tokio::test]
async fn permits_of_every_surface_together_are_never_more_than_the_limit() {
    let server = Server::start().unwrap();
    let (urls, account, out) = ([server.url()], account(&server), Cell::new(0));
    let all = with_component(RedisProvider, async |locks| {
        let node = Node::new(&urls);
        tokio::join!(
            share(Native::new(&urls), &account, &out),
            share(node, &account, &out),
            share(Component::new(&urls, locks), &account, &out),
        );
    });
    tokio::time::timeout(Duration::from_secs(120), all).await.expect("all is done in time").unwrap();
    assert_eq!(account.run(&["EXISTS", "account"]), 0);
    beside_each_other(account);
}

#[tokio::test]
async fn pairs_of_names_in_opposite_orders_never_deadlock_between_surfaces() {
    let server = Server::start().unwrap();
    let (urls, account) = ([server.url()], account(&server));
    let (there, back) = (["from", "to"], ["to", "from"]);
    let all = with_component(RedisProvider, async |locks| {
        let node = Node::new(&urls);
        tokio::join!(
            transfer(Native::new(&urls), &account, there),
            transfer(node, &account, back),
            transfer(Component::new(&urls, locks), &account, back),
        );
    });
    tokio::time::timeout(Duration::from_secs(120), all).await.expect("all is done in time").unwrap();
    let updates = 3 * CLIENTS.len() * ROUNDS;
    assert_eq!(account.run(&["GET", "counter"]), i64::try_from(updates).unwrap());
    beside_each_other(account);
}

#[tokio::test]
async fn the_crate_the_package_and_the_component_lose_no_update_and_their_fences_rise() {
    let server = Server::start().unwrap();
    let (urls, account) = ([server.url()], account(&server));
    let all = with_component(RedisProvider, async |locks| {
        let node = Node::new(&urls);
        tokio::join!(
            work(Native::new(&urls), &account),
            work(node, &account),
            work(Component::new(&urls, locks), &account),
        );
    });
    tokio::time::timeout(Duration::from_secs(120), all).await.expect("all is done in time").unwrap();
    let updates = 3 * CLIENTS.len() * WRITERS * ROUNDS;
    assert_eq!(account.run(&["GET", "counter"]), i64::try_from(updates).unwrap());
    beside_each_other(account);
}

#[tokio::test]
async fn a_lease_goes_from_one_surface_to_the_next() {
    let server = Server::start().unwrap();
    let urls = [server.url()];
    let work = with_component(RedisProvider, async |locks| {
        let (native, node, component) = (Native::new(&urls), Node::new(&urls), Component::new(&urls, locks));
        native.perform(&Step(&json!({ "do": "open", "client": "first" }))).await;
        native.perform(&Step(&json!({ "do": "acquire", "client": "first", "lock": "job", "as": "first" }))).await;
        let token = native.perform(&Step(&json!({ "do": "token", "lease": "first" }))).await;
        let mut fence = 0;
        let token = adopt(&node, token.as_str().unwrap(), &mut fence).await;
        let token = adopt(&component, &token, &mut fence).await;
        adopt(&native, &token, &mut fence).await;
        release(&native, "job", "released").await;
    });
    work.await.unwrap();
}
