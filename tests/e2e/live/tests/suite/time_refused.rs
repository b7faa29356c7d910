//! Servers that refuse `TIME` in scripts.

use leasehold::{Error, LockManager, Owner};
use leasehold_live::{Tested, client, options};
use leasehold_servers::{Reply, Server, has_pexpiretime};

use super::acl::use_every_branch;

#[tokio::test]
async fn every_kind_works_where_scripts_may_not_ask_for_the_time() -> Tested {
    if !has_pexpiretime() {
        return Ok(());
    }
    let server = Server::builder().refusing_time().start()?;
    let [first, second] = [client(&server).await?, client(&server).await?];
    for name in ["lock:door", "lock:{door}"] {
        use_every_branch(&server, [first.clone(), second.clone()], name).await?;
    }
    other_kinds(&first, &second).await
}

async fn other_kinds(first: &LockManager, second: &LockManager) -> Tested {
    let owner = Owner::new();
    let lease = first.reentrant("again", &owner).acquire().await?;
    assert!(second.reentrant("again", &Owner::new()).try_acquire().await?.is_none());
    lease.extend(std::time::Duration::from_secs(100)).await?;
    lease.release().await?;

    let permit = first.semaphore("few", 1).acquire().await?;
    assert!(second.semaphore("few", 1).try_acquire().await?.is_none());
    permit.release().await?;

    let lease = first.mutex("door").acquire().await?;
    assert_eq!(second.force_release("door").await?, 1);
    assert!(second.mutex("door").acquire().await?.fence() > lease.fence());
    Ok(())
}

#[tokio::test]
async fn a_server_that_has_no_other_clock_for_scripts_is_unsupported() -> Tested {
    let missing = Server::builder().without_clock().start()?;
    let mut servers = vec![(missing, "unsupported", "PEXPIRETIME")];
    if has_pexpiretime() {
        let denied = Server::builder().acl("default", "on nopass ~* &* +@all -time -pexpiretime").start()?;
        servers.push((denied, "auth", "command"));
    }
    for (server, code, words) in servers {
        let error: Option<Error> = options().connect(server.url()).await.err();
        let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(error.is_some_and(|error| error.code() == code) && text.contains(words), "{text}");
    }
    Ok(())
}

/// The clock gives a key without a TTL one for a moment, or creates the key. A user who may not end that must not begin.
#[tokio::test]
async fn a_user_who_lacks_a_right_leaves_a_foreign_key_as_it_is() -> Tested {
    if !has_pexpiretime() {
        return Ok(());
    }
    for right in ["persist", "pexpire", "pttl", "set", "del"] {
        let user = format!("on nopass ~* &* +@all -time -{right}");
        let server = Server::builder().acl("default", "on nopass ~* &* +@all").acl("app", &user).start()?;
        server.cli(&["SET", "door", "precious"])?;
        let url = format!("redis://app:any@127.0.0.1:{}", server.port());
        let client = options().connect(url).await?;
        for name in ["door", "gate"] {
            let _ = client.inspect(name).await;
            let _ = client.mutex(name).try_acquire().await;
        }
        assert_eq!(server.cli(&["PTTL", "door"])?, Reply::Integer(-1), "without the right to {right}");
        assert_eq!(server.cli(&["GET", "door"])?, Reply::Text("precious".to_owned()), "without the right to {right}");
        assert_ne!(server.cli(&["GET", "gate"])?, Reply::Text(String::new()), "without the right to {right}");
    }
    Ok(())
}
