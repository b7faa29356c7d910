//! Passwords, users and databases with more than one server.

use leasehold::{Error, LockManager};
use leasehold_live::{PATIENCE, Tested, begin, is_there, options, soon, until};
use leasehold_servers::{Cluster, PRIMARY, Sentinel, Server, follow};

const PASSWORD: &str = "secret";

const TEXT: &str = include_str!("../../../../../SECURITY.md");

/// The user's rules from SECURITY.md, plus those that it adds for `more`.
fn documented(more: &str) -> String {
    let block =
        TEXT.lines().skip_while(|line| !line.contains("ACL SETUSER")).take_while(|line| line.starts_with("    "));
    let words = block.flat_map(str::split_whitespace).skip(4).filter(|word| *word != "\\");
    let words = words.map(|word| word.trim_matches('\'')); // As the shell passes them on.
    let words = words.map(|word| if word.starts_with('>') { format!(">{PASSWORD}") } else { word.to_owned() });
    words.chain(added(more)).collect::<Vec<_>>().join(" ")
}

/// The rules in SECURITY.md's line about `what`.
fn added(what: &str) -> impl Iterator<Item = String> {
    let line = TEXT.lines().find(|line| line.starts_with(&format!("- {what}: "))).expect("it is documented");
    line.split('`').filter(|word| word.starts_with(['+', '&'])).map(str::to_owned)
}

async fn works(first: &LockManager, second: &LockManager, name: &str) -> Tested {
    let lease = first.mutex(name).acquire().await?;
    let waiting = begin(second.mutex(name));
    until("it waits", async || first.inspect(name).await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
    lease.release().await?;
    let lease = soon("the lock", waiting).await??;
    assert!(lease.verify().await?);
    lease.release().await?;
    Ok(())
}

fn code(outcome: Result<LockManager, Error>) -> &'static str {
    outcome.map_or_else(|error| error.code(), |_| "connected")
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn a_cluster_takes_a_user_with_the_documented_rights_and_no_wrong_password() -> Tested {
    let rules = documented("a cluster");
    let cluster = Cluster::steady(|| Server::builder().acl("app", &rules))?;
    let locks = async || {
        let builder = options().prefix("lock:");
        builder.username("app").password(PASSWORD).cluster(cluster.urls()).await
    };
    let (first, second) = (locks().await?, locks().await?);
    for name in ["a", "b", "c"] {
        works(&first, &second, name).await?;
    }
    let to = (cluster.owner("lock:a")? + 1) % 3;
    let lease = first.mutex("a").acquire().await?;
    let moving = cluster.begin_move("lock:a", to)?;
    moving.key("lock:a")?;
    assert!(lease.verify().await?, "half of it has moved");
    moving.finish()?;
    lease.release().await?;
    works(&first, &second, "a").await?;
    assert_eq!(code(options().username("app").password("wrong").cluster(cluster.urls()).await), "auth");
    Ok(())
}

#[tokio::test]
async fn sentinel_and_the_primary_have_logins_of_their_own() -> Tested {
    let rules = documented("Sentinel");
    let server =
        || Server::builder().password("for-the-primary").acl("app", &rules).arg("--masterauth", "for-the-primary");
    let (primary, replica) = (server().start()?, server().start()?);
    follow(&replica, &primary)?;
    let settings = format!("sentinel auth-pass {PRIMARY} for-the-primary");
    let rights: Vec<String> = added("the sentinels' own user, if they have users").collect();
    let watcher = format!("on >{PASSWORD} resetkeys resetchannels -@all {}", rights.join(" "));
    let builder = Server::builder().password("for-the-sentinel").acl("watcher", &watcher);
    let sentinel = Sentinel::start(builder, &primary, 1, &settings)?;
    let port = sentinel.server().port();
    let url = format!("redis://watcher:{PASSWORD}@127.0.0.1:{port}/");
    let locks = async || {
        let builder = options().prefix("lock:").database(0).username("app").password(PASSWORD);
        builder.sentinel(PRIMARY, [url.as_str()]).await
    };
    let (first, second) = (locks().await?, locks().await?);
    works(&first, &second, "door").await?;
    sentinel.fail_over()?;
    until("a lock on the new primary", async || {
        let lease = first.mutex("window").acquire().await;
        let there = is_there(&replica, "lock:window").is_ok_and(|there| there);
        lease.is_ok() && there
    })
    .await;
    assert_eq!(code(options().password("wrong").sentinel(PRIMARY, [url.as_str()]).await), "auth");
    assert_eq!(code(options().sentinel(PRIMARY, [url]).await), "auth", "the sentinel's own is not the primary's");
    let without = format!("redis://127.0.0.1:{port}/");
    assert_eq!(code(options().password("for-the-primary").sentinel(PRIMARY, [without]).await), "auth");
    Ok(())
}

#[tokio::test]
async fn replicas_are_waited_for_with_the_documented_rights_and_without_them_the_lease_is_given_back() -> Tested {
    let (with, without) = (documented("`wait_for_replicas`"), documented("Sentinel"));
    let server = Server::builder().acl("with", &with).acl("without", &without).start()?;
    let replica = Server::start()?;
    follow(&replica, &server)?;
    let lock = async |user: &str| {
        let locks = options().prefix("lock:").username(user).password(PASSWORD).connect(&server.url()).await?;
        Ok::<_, Error>(locks.mutex("door").wait_for_replicas(1, PATIENCE))
    };
    lock("with").await?.acquire().await?.release().await?;
    let error = lock("without").await?.acquire().await.unwrap_err();
    assert_eq!(error.code(), "auth", "{error:?}");
    assert!(error.to_string().contains("wait"), "{error}");
    assert!(!is_there(&server, "lock:door")?);
    Ok(())
}

#[tokio::test]
async fn what_the_builder_says_goes_before_the_url() -> Tested {
    let server = Server::builder().password(PASSWORD).start()?;
    let url = format!("redis://:wrong@127.0.0.1:{}/1", server.port());
    let locks = options().password(PASSWORD).database(3).connect(&url).await?;
    let lease = locks.mutex("door").acquire().await?;
    let mut third = server.connect()?;
    third.call(&["SELECT", "3"])?;
    assert!(third.call(&["GET", "door"])?.text().is_some());
    lease.release().await?;
    let error = options().database(99).connect(&server.url()).await.unwrap_err();
    assert_eq!(error.code(), "server", "{error:?}");
    assert!(!format!("{:?}", options().password(PASSWORD)).contains(PASSWORD), "it is told nowhere");
    Ok(())
}
