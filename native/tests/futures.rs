//! A call's future owns what it needs: it outlives the lock and the manager that made it, and another thread can run it.

use std::time::Duration;

use leasehold::testing::Server;
use leasehold::{Error, Lease, LockManager, Owner};
use tokio::time::{sleep, timeout};

/// What `tokio::spawn` takes.
fn owned<F: Future + Send + 'static>(future: F) -> F {
    future
}

fn in_memory() -> LockManager {
    Server::new().manager().unwrap()
}

/// Every kind of lock, as a temporary value that is dropped at the end of the statement.
macro_rules! every_kind {
    ($locks:ident, $check:ident) => {
        $check!("a mutex", $locks.mutex("mutex"));
        $check!("a lock with options", $locks.mutex("options").ttl(Duration::from_secs(9)).label("job"));
        $check!("a reader", $locks.read_write("pages").read());
        $check!("a writer", $locks.read_write("pages").write());
        $check!("a reentrant lock", $locks.reentrant("account", &Owner::new()));
        $check!("a permit", $locks.semaphore("reports", 5));
        $check!("several permits", $locks.semaphore("reports", 5).permits(3));
        $check!("several names", $locks.multi(["one", "two"]));
    };
}

#[tokio::test(start_paused = true)]
async fn the_future_of_an_acquire_can_be_a_variable_and_outlives_its_lock() {
    let locks = in_memory();
    macro_rules! check {
        ($kind:literal, $lock:expr) => {
            let (future, second) = ($lock.acquire(), $lock.try_acquire());
            let lease = owned(future).await.expect($kind);
            drop(lease);
            drop(owned(second).await.expect($kind));
        };
    }
    every_kind!(locks, check);
}

#[tokio::test(start_paused = true)]
async fn an_acquire_can_be_spawned() {
    let locks = in_memory();
    macro_rules! check {
        ($kind:literal, $lock:expr) => {
            drop(tokio::spawn($lock.acquire()).await.unwrap().expect($kind));
            drop(tokio::spawn($lock.try_acquire()).await.unwrap().expect($kind));
        };
    }
    every_kind!(locks, check);
}

#[tokio::test(start_paused = true)]
async fn an_acquire_can_have_a_timeout_from_outside() {
    let locks = in_memory();
    macro_rules! check {
        ($kind:literal, $lock:expr) => {
            let limited = timeout(Duration::from_secs(1), $lock.acquire());
            drop(limited.await.expect($kind).expect($kind));
        };
    }
    every_kind!(locks, check);
}

#[tokio::test(start_paused = true)]
async fn an_acquire_can_be_a_branch_of_a_select() {
    let locks = in_memory();
    macro_rules! check {
        ($kind:literal, $lock:expr) => {
            tokio::select! {
                lease = $lock.acquire() => drop(lease.expect($kind)),
                () = sleep(Duration::from_secs(1)) => panic!("{} is free", $kind),
            }
        };
    }
    every_kind!(locks, check);
}

#[tokio::test(start_paused = true)]
async fn work_that_owns_its_data_can_be_spawned_under_a_lock() {
    async fn pay(invoice: String, lease: &Lease) -> Result<String, Error> {
        assert!(lease.is_held());
        Ok(invoice)
    }
    let (locks, invoice) = (in_memory(), "42".to_owned());
    let paying = locks.mutex("invoice").run(async move |lease| pay(invoice, lease).await);
    drop(locks);
    assert_eq!(owned(paying).await.unwrap(), "42");
}

#[tokio::test(start_paused = true)]
async fn the_other_calls_of_locks_and_managers_can_be_spawned_too() {
    let server = Server::new();
    let (locks, operator) = (server.manager().unwrap(), server.manager().unwrap());
    let lease = locks.mutex("job").acquire().await.unwrap();

    let adopting = operator.mutex("job").adopt(&lease.token().unwrap());
    let adopted = tokio::spawn(adopting).await.unwrap().unwrap();
    // The name is a temporary value, which is dropped at the end of the statement.
    let inspecting = operator.clone().inspect(String::from("job").as_str());
    assert_eq!(tokio::spawn(inspecting).await.unwrap().unwrap().holders.len(), 1);
    let forcing = operator.clone().force_release(String::from("job").as_str());
    assert_eq!(tokio::spawn(forcing).await.unwrap().unwrap(), 1);
    drop((lease, adopted));
    let closing = locks.clone().close();
    drop(locks);
    assert_eq!(tokio::spawn(closing).await.unwrap().unreleased, 0);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_outlives_its_manager_keeps_the_client_open_until_it_ends() {
    let acquiring = in_memory().mutex("job").acquire();
    let lease = acquiring.await.unwrap();
    assert!(lease.is_held());
}

/// The futures of connecting own their arguments, too.
#[test]
fn a_manager_can_be_made_in_a_task() {
    let client = || leasehold::redis_1::redis::Client::open("redis://127.0.0.1/").unwrap();
    drop(owned(LockManager::connect("redis://127.0.0.1/")));
    drop(owned(LockManager::connect(client())));
    drop(owned(LockManager::connect(&"redis://127.0.0.1/".to_owned())));
    drop(owned(LockManager::cluster(["redis://127.0.0.1:7000/"])));
    drop(owned(LockManager::sentinel("main", vec!["redis://127.0.0.1:26379/".to_owned()])));
    drop(owned(LockManager::quorum(["redis://10.0.0.1/", "redis://10.0.0.2/", "redis://10.0.0.3/"])));
    drop(owned(LockManager::builder().prefix("billing:").connect("redis://127.0.0.1/")));
}
