//! Values that can't be used are refused at once, and the error names the field.

use std::time::Duration;

use leasehold::{Builder, Error, Lock, Wait};
use leasehold_live::{Tested, client, options, shared_server, unique};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn assert_field(error: &Error, expected: &str) {
    let Error::InvalidOption { field, problem, .. } = error else { panic!("{expected}: {error:?}") };
    assert_eq!(*field, expected, "{error}");
    assert!(problem.len() > 10 && !error.is_retryable(), "{error}");
}

#[tokio::test]
async fn names_that_can_be_no_locks_are_refused() -> Tested {
    let locks = client(shared_server()).await?;
    let too_long = "n".repeat(64 * 1024 + 1);
    for name in ["", "a}b", "}a", "x{y", "{}x", "leasehold:door", "leasehold:{a}:fence", &too_long] {
        assert_field(&locks.mutex(name).acquire().await.unwrap_err(), "name");
        assert_field(&locks.mutex(name).try_acquire().await.unwrap_err(), "name");
        assert_field(&locks.read_write(name).read().acquire().await.unwrap_err(), "name");
        assert_field(&locks.inspect(name).await.unwrap_err(), "name");
    }
    Ok(())
}

#[tokio::test]
async fn odd_names_that_can_be_locks_are_locks() -> Tested {
    let locks = client(shared_server()).await?;
    let longest = "n".repeat(64 * 1024);
    for name in [" ", "a b\r\n", "ключ", "\0", "{a}", "x{a}y{}", "%s %d", "a:b:c", "shared", &longest] {
        let lease = locks.read_write(name).write().acquire().await?;
        lease.downgrade().await?;
        assert_eq!(locks.inspect(name).await?.holders.len(), 1);
        assert!(lease.verify().await?, "{name}");
        lease.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn times_out_of_bounds_are_refused() -> Tested {
    let (locks, name) = (client(shared_server()).await?, unique("door"));
    let lock = || locks.mutex(&name);
    let bad: Vec<(&str, Lock)> = vec![
        ("ttl", lock().ttl(Duration::ZERO)),
        ("ttl", lock().ttl(Duration::from_micros(9_999))),
        ("ttl", lock().ttl(DAY * 30 + Duration::from_millis(1))),
        ("ttl", lock().ttl(Duration::MAX)),
        ("wait", lock().wait(Wait::For(Duration::ZERO))),
        ("wait", lock().wait(Wait::For(DAY * 31))),
        ("wait", lock().wait(Wait::For(Duration::MAX))),
        ("max_hold", lock().max_hold(Duration::ZERO)),
        ("max_hold", lock().max_hold(Duration::MAX)),
        ("max_hold", lock().max_hold(DAY).renew(false)),
    ];
    for (field, lock) in bad {
        assert_field(&lock.acquire().await.unwrap_err(), field);
    }
    for ttl in [Duration::from_millis(10), DAY * 30] {
        lock().ttl(ttl).acquire().await?.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_clients_options_out_of_bounds_are_refused_before_anything_is_sent() -> Tested {
    let bad: Vec<(&str, Builder)> = vec![
        ("claim_window", options().claim_window(Duration::from_millis(99))),
        ("claim_window", options().claim_window(Duration::MAX)),
        ("response_timeout", options().response_timeout(Duration::ZERO)),
        ("response_timeout", options().response_timeout(DAY)),
        ("local_handoffs", options().local_handoffs(1024)),
    ];
    for (field, builder) in bad {
        // Nobody listens on this port, which would be a different error.
        assert_field(&builder.connect("redis://127.0.0.1:1/").await.unwrap_err(), field);
    }
    Ok(())
}

#[tokio::test]
async fn a_prefix_that_leaves_no_name_is_refused_with_the_name() -> Tested {
    let server = shared_server();
    for prefix in ["leasehold:", "open{"] {
        let locks = options().prefix(prefix).connect(&server.url()).await?;
        assert_field(&locks.mutex("door").acquire().await.unwrap_err(), "name");
    }
    let long = options().prefix("p".repeat(64 * 1024)).connect(&server.url()).await?;
    assert_field(&long.mutex("door").acquire().await.unwrap_err(), "name");
    Ok(())
}
