//! `once`: one manager does the work, and all callers of all managers get its result. On a server in memory.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::testing::Server;
use leasehold::{Error, LockManager, Wait};

type AnyError = Box<dyn StdError + Send + Sync>;
type Tested = Result<(), AnyError>;

#[tokio::test(start_paused = true)]
async fn twenty_callers_of_four_managers_do_the_work_once_and_get_the_same_result() -> Tested {
    let server = Server::new();
    let worked = Arc::new(AtomicU32::new(0));
    let mut calls = tokio::task::JoinSet::new();
    for place in 0..20 {
        let (locks, worked) = (server.manager()?, Arc::clone(&worked));
        calls.spawn(async move {
            let once = locks.once("report").keep(Duration::from_secs(3_600));
            let work = once.run(async |lease| {
                worked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(90)).await;
                Ok::<_, Error>(BTreeMap::from([("fence".to_owned(), lease.fence().get()), ("by".to_owned(), place)]))
            });
            work.await.map_err(|error| error.to_string())
        });
    }
    let results: Result<Vec<_>, String> = calls.join_all().await.into_iter().collect();
    // The default wait is a minute, and the work takes longer: the others give up.
    assert!(results.is_err());
    assert_eq!(worked.load(Ordering::Relaxed), 1);
    let later: BTreeMap<String, u64> =
        server.manager()?.once("report").run(async |_| Err::<_, AnyError>("done before".into())).await?;
    assert_eq!(later.len(), 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_that_fails_stores_nothing_and_the_next_caller_does_it() -> Tested {
    let locks = LockManager::in_memory()?;
    let runs = Cell::new(0);
    for _ in 0..2 {
        let once = locks.once("job");
        let failed = once.run(async |_| -> Result<u32, AnyError> {
            runs.set(runs.get() + 1);
            Err("no paper".into())
        });
        assert_eq!(failed.await.unwrap_err().to_string(), "no paper");
    }
    assert_eq!(runs.get(), 2);
    assert_eq!(locks.once("job").run(async |_| Ok::<_, AnyError>(7)).await?, 7);
    assert_eq!(locks.once("job").run(async |_| -> Result<u32, AnyError> { panic!("it is done") }).await?, 7);
    assert!(locks.forget("job").await?);
    assert!(!locks.forget("job").await?);
    assert_eq!(locks.once("job").run(async |_| Ok::<_, AnyError>(8)).await?, 8);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_long_or_of_another_type_is_an_error_with_a_name() -> Tested {
    let locks = LockManager::in_memory()?;
    let long = locks.once("job").run(async |_| Ok::<_, Error>("x".repeat(65_536))).await;
    assert!(matches!(long, Err(Error::InvalidOption { field: "result", .. })), "{long:?}");
    let odd = locks.once("job").run(async |_| Ok::<_, Error>(BTreeMap::from([((1, 2), 3)]))).await;
    assert!(matches!(odd, Err(Error::InvalidOption { field: "result", .. })), "{odd:?}");
    assert_eq!(locks.once("job").run(async |_| Ok::<_, Error>("short".to_owned())).await?, "short");
    let number: Result<u32, Error> = locks.once("job").run(async |_| Ok(1)).await;
    assert!(matches!(number, Err(Error::Protocol { .. })), "{number:?}");
    let never =
        locks.once("other").keep(Duration::ZERO).run(async |_| -> Result<u32, Error> { panic!("it ran") }).await;
    assert!(matches!(never, Err(Error::InvalidOption { field: "keep", .. })), "{never:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_wait_skips_the_work() -> Tested {
    let server = Server::new();
    let (first, second) = (server.manager()?, server.manager()?);
    let done = first
        .once("nightly")
        .run(async |_| {
            let skipped = second.once("nightly").wait(Wait::No).run(async |_| Ok::<u32, Error>(2)).await;
            assert!(matches!(skipped, Err(Error::Busy { .. })), "{skipped:?}");
            Ok::<u32, Error>(1)
        })
        .await?;
    assert_eq!(done, 1);
    assert_eq!(second.once("nightly").wait(Wait::No).run(async |_| Ok::<u32, Error>(2)).await?, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_whose_lease_is_taken_stores_nothing() -> Tested {
    let server = Server::new();
    let (first, second) = (server.manager()?, server.manager()?);
    let lost = first
        .once("job")
        .run(async |_| {
            second.force_release("job").await?;
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok::<u32, Error>(1)
        })
        .await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
    assert_eq!(second.once("job").run(async |_| Ok::<u32, Error>(2)).await?, 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_result_is_kept_for_24_hours_unless_the_options_say_otherwise() -> Tested {
    let locks = LockManager::in_memory()?;
    let options = serde_json::from_str(r#"{ "keep": "1h" }"#)?;
    let (day, hour) = (locks.once("day"), locks.once("hour").options(&options));
    for once in [&day, &hour] {
        assert_eq!(once.run(async |_| Ok::<_, AnyError>(1)).await?, 1);
    }
    tokio::time::sleep(Duration::from_secs(3_599)).await;
    assert_eq!(hour.run(async |_| Ok::<_, AnyError>(2)).await?, 1);
    tokio::time::sleep(Duration::from_secs(23 * 3_600)).await;
    assert_eq!(hour.run(async |_| Ok::<_, AnyError>(2)).await?, 2);
    assert_eq!(day.run(async |_| Ok::<_, AnyError>(2)).await?, 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(day.run(async |_| Ok::<_, AnyError>(2)).await?, 2);
    Ok(())
}

#[cfg(feature = "blocking")]
mod blocking {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use leasehold::blocking::{Begun, Lease, LockManager};
    use leasehold::testing::Server;
    use leasehold::{Error, Wait};

    use super::{AnyError, Tested};

    fn never(_: &Lease) -> Result<u32, AnyError> {
        panic!("it is done")
    }

    #[test]
    fn threads_of_several_managers_get_the_result_of_the_one_that_works() -> Tested {
        let (server, worked) = (Server::new(), AtomicU32::new(0));
        let results = thread::scope(|threads| {
            let call = || -> Result<u64, Error> {
                let locks = LockManager::builder().in_memory(&server)?;
                locks.once("report").wait(Wait::Forever).run(|lease| {
                    worked.fetch_add(1, Ordering::Relaxed);
                    Ok(lease.fence().get())
                })
            };
            let calls = [(); 4].map(|()| threads.spawn(call));
            calls.map(|call| call.join().expect("no panic").map_err(|error| error.to_string()))
        });
        assert_eq!(worked.load(Ordering::Relaxed), 1);
        assert!(results.iter().all(|result| result.is_ok() && *result == results[0]), "{results:?}");
        Ok(())
    }

    #[test]
    fn failed_work_stores_nothing_and_a_forgotten_result_is_worked_out_again() -> Tested {
        let locks = LockManager::in_memory()?;
        let job = locks.once("job").label("nightly");
        assert_eq!(job.run(|_| Err::<u32, AnyError>("no paper".into())).unwrap_err().to_string(), "no paper");
        let Begun::Work(lease) = job.begin::<u32>()? else { panic!("nothing was stored") };
        assert!(matches!(job.clone().wait(Wait::No).begin::<u32>(), Err(Error::Busy { .. })));
        lease.store(&7)?;
        assert_eq!(job.run(never)?, 7);
        assert!(locks.forget("job")?);
        assert!(!locks.forget("job")?);
        assert_eq!(job.run(|_| Ok::<_, AnyError>(8))?, 8);
        assert!(matches!(locks.once("job").begin()?, Begun::Stored(8)));
        Ok(())
    }

    #[test]
    fn work_whose_lease_was_taken_stores_nothing() -> Tested {
        let locks = LockManager::in_memory()?;
        let lost = locks.once("job").run(|_| -> Result<u32, Error> {
            locks.force_release("job")?;
            Ok(1)
        });
        assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
        assert_eq!(locks.once("job").run(|_| Ok::<_, AnyError>(2))?, 2);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_refused_at_once_if_so_many_wait_for_the_result() -> Tested {
    let server = Server::new();
    let [one, other, third] = [server.manager()?, server.manager()?, server.manager()?];
    let work = one.once("report").run(async |_| {
        let waiting =
            other.once("report").max_waiters(1).run(async |_| -> Result<u32, AnyError> { panic!("it waits") });
        let refused = async {
            while third.inspect("report").await?.waiting == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let refused = third.once("report").max_waiters(1).run(async |_| Ok::<u32, Error>(0)).await;
            assert!(matches!(refused, Err(Error::Busy { waiters: Some(1), .. })), "{refused:?}");
            Ok::<_, AnyError>(())
        };
        tokio::select! {
            _ = waiting => panic!("the work is not done"),
            refused = refused => refused?,
        }
        Ok::<_, AnyError>(7)
    });
    assert_eq!(work.await?, 7);
    let later = third.once("report").max_waiters(0).run(async |_| -> Result<u32, AnyError> { panic!("it is done") });
    assert_eq!(later.await?, 7);
    Ok(())
}
