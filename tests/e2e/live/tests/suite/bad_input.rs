//! Names that can't be used are refused at once, and the error names the field. The fuzz target `options` tries all options.

use leasehold::Error;
use leasehold_live::{Tested, client, options, shared_server};

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
