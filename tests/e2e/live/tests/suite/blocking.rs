//! The blocking API: threads without a runtime hold locks, wait for them and hear of losses.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leasehold::blocking::{Builder, Lease, LockManager};
use leasehold::{Error, LossReason, Mode, Owner, ReleaseOutcome};
use leasehold_live::{
    LONG, PATIENCE, RENEWED, SOON, Tested, connections, is_there, shared_server, unique, until_blocking, waiters,
};
use leasehold_servers::Server;

/// The same as the [`options`](leasehold_live::options) of the other tests.
fn options() -> Builder {
    LockManager::builder().ttl(LONG).claim_window(PATIENCE).response_timeout(PATIENCE).wait(LONG)
}

fn client(server: &Server) -> Result<LockManager, Error> {
    options().connect(server.url())
}

#[test]
fn a_lease_is_renewed_while_its_thread_does_something_else() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server)?;
    let lease = locks.mutex(&name).ttl(RENEWED).acquire()?;
    let before = lease.remaining();
    until_blocking("the first renewal is due", || lease.remaining() < before * 3 / 4);
    until_blocking("it is renewed", || lease.remaining() > before * 4 / 5);
    assert!(lease.verify()?);
    assert_eq!(lease.release()?, ReleaseOutcome::Released);
    assert!(!is_there(server, &name)?);
    Ok(())
}

#[test]
fn a_waiting_thread_is_granted_when_the_holder_releases() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let (first, second) = (client(server)?, client(server)?);
    let lease = first.mutex(&name).acquire()?;
    assert!(second.mutex(&name).try_acquire()?.is_none());
    let before = lease.fence();
    thread::scope(|threads| -> Tested {
        let waiting = threads.spawn(|| second.mutex(&name).acquire());
        until_blocking("it waits", || waiters(server, &name).is_ok_and(|count| count == 1));
        lease.release()?;
        assert!(waiting.join().expect("no panic")?.fence() > before);
        Ok(())
    })
}

#[test]
fn every_kind_and_every_call_works() -> Tested {
    let (server, name) = (shared_server(), unique("kinds"));
    let locks = client(server)?;
    let lock = locks.mutex(&name).label("nightly");
    assert_eq!(lock.names().collect::<Vec<_>>(), [&name]);
    let lease = lock.acquire()?;
    lease.extend(LONG * 2)?;
    assert!(lease.remaining() > LONG, "{:?}", lease.remaining());
    let nested = lease.nested()?;
    assert_eq!((lease.hold_count(), lease.name(), lease.fences().len()), (2, name.as_str(), 1));
    assert_eq!(locks.inspect(&name)?.holders.len(), 1);
    nested.release()?;
    lease.downgrade()?;
    assert_eq!(lease.mode(), Mode::Shared);
    let reader = locks.read_write(&name).read().acquire()?;
    assert_eq!(lease.upgrade().unwrap_err().code(), "conflict");
    reader.release()?;
    lease.upgrade()?;
    lease.release()?;
    locks.read_write(&name).write().acquire()?.release()?;

    let owner = Owner::new();
    let outer = locks.reentrant(unique("again"), &owner).acquire()?;
    locks.reentrant(outer.name(), &owner).acquire()?.release()?;
    outer.release()?;

    let reports = locks.semaphore(unique("reports"), 2);
    let (one, two) = (reports.acquire()?, reports.permits(1).acquire()?);
    assert!(reports.try_acquire()?.is_none());
    one.release()?;
    two.release()?;

    let several = locks.multi([unique("several"), unique("several")]).acquire()?;
    assert_eq!(several.fences().len(), 2);
    assert_eq!(several.release()?, ReleaseOutcome::Released);

    let taken = locks.mutex(&name).acquire()?;
    assert_eq!(locks.force_release(&name)?, 1);
    assert_eq!(taken.wait_lost(SOON)?, Some(LossReason::Revoked));
    assert_eq!(locks.close()?.unreleased, 0);
    assert_eq!(locks.mutex(&name).acquire().unwrap_err().code(), "closed");
    Ok(())
}

#[test]
fn a_loss_is_told_by_the_wait_by_the_callback_and_at_the_end_of_run() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server)?;
    let (sender, losses) = mpsc::channel();
    let told = sender.clone();
    let done = locks.mutex(&name).run(|lease| {
        lease.on_lost(move |reason| {
            let _ = told.send(reason);
        });
        assert_eq!(lease.wait_lost(Duration::from_millis(1))?, None);
        // Nothing has waited yet, so the client has no subscription. It has to ask.
        locks.force_release(&name)?;
        assert!(!lease.verify()?);
        assert_eq!(lease.wait_lost(SOON)?, Some(LossReason::Gone));
        assert!(!lease.is_held());
        // The callback of a lease that is lost already is called at once.
        lease.on_lost(move |reason| {
            let _ = sender.send(reason);
        });
        Ok::<_, Error>(())
    });
    assert!(matches!(done, Err(Error::Lost { reason: LossReason::Gone, .. })), "{done:?}");
    assert_eq!([losses.recv_timeout(SOON)?, losses.recv_timeout(SOON)?], [LossReason::Gone; 2]);

    let (sender, losses) = mpsc::channel();
    let lease = locks.mutex(&name).acquire()?;
    lease.on_lost(move |reason| {
        let _ = sender.send(reason);
    });
    lease.release()?;
    assert_eq!(losses.recv_timeout(SOON), Err(mpsc::RecvTimeoutError::Disconnected), "a release is no loss");
    Ok(())
}

#[test]
fn a_callback_that_panics_or_blocks_does_not_stop_the_renewals() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server)?;
    let lost = locks.mutex(unique("lost")).acquire()?;
    let kept = locks.mutex(&name).acquire()?;
    let (sender, answers) = mpsc::channel();
    let inside = locks.clone();
    lost.on_lost(move |_| {
        let _ = sender.send(inside.mutex("any").acquire().map(drop));
    });
    lost.on_lost(|_| panic!("the callback's own panic"));
    locks.force_release(lost.name())?;
    assert!(!lost.verify()?);
    let answer = answers.recv_timeout(SOON)?;
    assert!(matches!(&answer, Err(Error::Unsupported { .. })), "{answer:?}");
    assert!(kept.verify()?);
    Ok(())
}

#[test]
fn a_panic_in_the_work_releases_the_lock() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server)?;
    let broken = || locks.mutex(&name).run(|_: &Lease| -> Result<(), Error> { panic!("the work's own panic") });
    assert!(catch_unwind(AssertUnwindSafe(broken)).is_err());
    let lease = client(server)?.mutex(&name).acquire()?;
    assert!(lease.verify()?);
    Ok(())
}

#[test]
fn the_last_handle_releases_the_leases_and_ends_the_thread() -> Tested {
    let server = Server::start()?;
    let locks = client(&server)?;
    let held = |name| locks.mutex(name).acquire();
    let (first, second) = (held("first")?, held("second")?);
    drop(first);
    until_blocking("a dropped lease is released", || is_there(&server, "first").is_ok_and(|there| !there));
    drop(locks);
    assert!(second.verify()?, "the lease keeps the client");
    drop(second);
    until_blocking("the last lease is released", || is_there(&server, "second").is_ok_and(|there| !there));
    until_blocking("the connections are closed", || connections(&server).is_ok_and(|count| count == 0));
    Ok(())
}

#[test]
fn close_ends_the_waits_of_other_threads() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let (holder, locks) = (client(server)?, client(server)?);
    let _lease = holder.mutex(&name).acquire()?;
    let mine = locks.mutex(unique("mine")).acquire()?;
    thread::scope(|threads| -> Tested {
        let waiting = threads.spawn(|| locks.mutex(&name).acquire().map(drop));
        until_blocking("it waits", || waiters(server, &name).is_ok_and(|count| count == 1));
        locks.close()?;
        assert!(matches!(waiting.join().expect("no panic"), Err(Error::Closed)));
        assert_eq!(mine.wait_lost(SOON)?, Some(LossReason::Closed));
        Ok(())
    })
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let error = options().connect("redis://127.0.0.1:1/").unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error}");
    assert_eq!(options().ttl(Duration::ZERO).connect("nonsense").unwrap_err().code(), "invalid-option");
}

/// Every call that blocks is refused in a task, and none panics. Everything else works there.
fn refused_in_a_task(server: &Server, locks: &LockManager, lease: Lease, doomed: Lease) {
    let refused = |call: &str, error: Option<Error>| {
        let error = error.unwrap_or_else(|| panic!("{call} blocks a task"));
        assert!(matches!(error, Error::Unsupported { .. }), "{call}: {error}");
        assert!(error.to_string().contains("spawn_blocking"), "{error}");
    };
    refused("connect", client(server).err());
    refused("acquire", locks.mutex("any").acquire().err());
    refused("run", locks.mutex("any").run(|_| Ok::<_, Error>(())).err());
    refused("verify", lease.verify().err());
    refused("wait_lost", lease.wait_lost(Duration::ZERO).err());
    refused("close", locks.close().err());
    refused("release", doomed.release().err());
    assert!(lease.is_held());
    drop(lease);
}

#[test]
fn inside_a_tokio_task_blocking_calls_fail_and_in_spawn_blocking_they_work() -> Tested {
    let server = shared_server();
    let builders = [tokio::runtime::Builder::new_current_thread, || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1);
        builder
    }];
    for builder in builders {
        let locks = client(server)?;
        let held = |name| locks.mutex(unique(name)).acquire();
        let (kept, doomed, spawned, unwanted) = (held("a")?, held("b")?, held("c")?, held("d")?);
        let names = [&kept, &doomed, &spawned, &unwanted].map(|lease| lease.name().to_owned());
        let runtime = builder().enable_all().build()?;
        runtime.block_on(async {
            refused_in_a_task(server, &locks, kept, doomed);
            let inside = locks.clone();
            tokio::spawn(async move { refused_in_a_task(shared_server(), &inside, spawned, unwanted) }).await?;
            tokio::task::spawn_blocking(|| {
                let locks = client(server)?;
                locks.mutex(unique("door")).acquire()?.release()?;
                locks.close().map(drop)
            })
            .await??;
            Tested::Ok(())
        })?;
        // The refused and the dropped leases are released in the background.
        for name in &names {
            until_blocking("it is released", || is_there(server, name).is_ok_and(|there| !there));
        }
        locks.close()?;
    }
    Ok(())
}
