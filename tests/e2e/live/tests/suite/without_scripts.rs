//! Servers that refuse scripts: the client runs them, in transactions.

use std::time::Duration;

use leasehold::{Builder, Error, LockManager, LossReason, Owner, QuorumMember, ReleaseOutcome, redis_1};
use leasehold_live::{LONG, Tested, begin, options, shared_server, soon, unique, until, waiters};
use leasehold_servers::{Connection, Server};
use tokio::task::JoinSet;

use super::acl::{BRIEF, PASSWORD, use_every_branch, user};

/// The rights from lua/README.md, word by word, for names that begin with `lock:`.
fn documented() -> Vec<String> {
    let text = include_str!("../../../../../lua/README.md");
    let section = text.lines().skip_while(|line| *line != "## Without scripts");
    let block = section.skip_while(|line| !line.starts_with("    ")).take_while(|line| line.starts_with("    "));
    let password = format!(">{PASSWORD}");
    let rules = block.flat_map(str::split_whitespace).map(|rule| rule.replace("~invoice:", "~lock:"));
    ["on".to_owned(), password].into_iter().chain(rules).collect()
}

/// A server whose user may run no script, and that user's URL.
fn refusing() -> Result<(Server, String), leasehold_servers::Error> {
    let server = Server::start()?;
    let url = user(&server, "scriptless", &documented())?;
    Ok((server, url))
}

fn scriptless() -> Builder {
    options().without_scripts()
}

/// Uses every command that a client without scripts sends.
async fn use_everything(
    server: &Server,
    url: &str,
    name: &str,
    wait: Duration,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let patient = || scriptless().wait(wait).connect(url);
    let (first, second) = (patient().await?, patient().await?);
    use_every_branch(server, [first.clone(), second.clone()], name).await?;
    // Of two waiters, one is granted and the other stays.
    let lease = first.mutex(name).acquire().await?;
    let (one, other) = (begin(first.mutex(name)), begin(second.mutex(name)));
    let third = patient().await?;
    let waiting = begin(third.mutex(name));
    until("all wait or fail", async || {
        [&one, &other, &waiting].iter().any(|call| call.is_finished())
            || waiters(server, name).is_ok_and(|count| count == 2)
    })
    .await;
    lease.release().await?;
    for call in [one, other, waiting] {
        soon("its turn", call).await??.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_documented_rights_are_enough_and_none_of_them_is_too_much() -> Tested {
    let (server, url) = refusing()?;
    use_everything(&server, &url, "lock:door", LONG).await?;
    let rights: Vec<String> = documented().into_iter().filter(|rule| rule.starts_with(['+', '~', '&'])).collect();
    assert!(rights.len() > 15 && !rights.iter().any(|right| right.contains("eval")), "{rights:?}");
    // Clients in other languages unsubscribe. This one closes its connection.
    for (place, right) in rights.iter().filter(|right| *right != "+unsubscribe").enumerate() {
        let rest: Vec<String> = documented().into_iter().filter(|rule| rule != right).collect();
        let url = user(&server, &format!("without-{place}"), &rest)?;
        let used = use_everything(&server, &url, &format!("lock:{place}"), BRIEF).await;
        assert!(used.is_err(), "{right} is not needed");
    }
    Ok(())
}

#[tokio::test]
async fn every_kind_of_lock_works() -> Tested {
    let (server, url) = refusing()?;
    let (first, second) = (scriptless().connect(&url).await?, scriptless().connect(&url).await?);

    let semaphore = first.semaphore("lock:pool", 3).permits(2);
    let permits = semaphore.acquire().await?;
    assert!(second.semaphore("lock:pool", 3).permits(2).try_acquire().await?.is_none());
    let waiting = begin(second.semaphore("lock:pool", 3).permits(2));
    until("it waits", async || waiters(&server, "lock:pool").is_ok_and(|count| count == 1)).await;
    permits.release().await?;
    soon("the permits", waiting).await??.release().await?;

    let (ours, theirs) = (Owner::new(), Owner::new());
    let lease = first.reentrant("lock:again", &ours).acquire().await?;
    let again = first.reentrant("lock:again", &ours).acquire().await?;
    assert!(second.reentrant("lock:again", &theirs).try_acquire().await?.is_none());
    let waiting = begin(second.reentrant("lock:again", &theirs));
    again.release().await?;
    lease.release().await?;
    soon("the reentrant lock", waiting).await??.release().await?;

    let lease = first.mutex("lock:job").acquire().await?;
    let adopted = second.mutex("lock:job").adopt(&lease.token()?).await?;
    assert!(adopted.fence() > lease.fence());
    assert!(matches!(soon("the loss", lease.lost()).await, LossReason::Revoked | LossReason::Taken));
    assert_eq!(first.force_release("lock:job").await?, 1);
    assert!(matches!(soon("the loss", adopted.lost()).await, LossReason::Revoked | LossReason::Gone));

    let lease = first.mutex("lock:long").acquire().await?;
    lease.extend(LONG * 2).await?;
    assert!(lease.remaining() > LONG);
    assert_eq!(lease.release().await?, ReleaseOutcome::Released);
    Ok(())
}

/// Adds one to a number on the server that no transaction protects. Only a lock does.
fn add_one(connection: &mut Connection, key: &str) -> std::io::Result<u64> {
    let before = connection.call(&["GET", key])?.text().and_then(|text| text.parse().ok()).unwrap_or(0);
    std::thread::yield_now();
    connection.call(&["SET", key, &(before + 1).to_string()])?;
    Ok(before + 1)
}

#[tokio::test]
async fn clients_with_and_without_scripts_share_the_locks() -> Tested {
    let (server, name, count) = (shared_server(), unique("shared"), unique("count"));
    let mut tasks = JoinSet::new();
    for client in 0..4 {
        let builder = if client % 2 == 0 { scriptless() } else { options() };
        let locks = builder.connect(&server.url()).await?;
        for _ in 0..4 {
            let (lock, count) = (locks.mutex(&name), count.clone());
            let mut connection = server.connect()?;
            tasks.spawn(async move {
                let mut turns = Vec::new();
                for _ in 0..25 {
                    let lease = lock.acquire().await?;
                    let turn = add_one(&mut connection, &count).expect("the server answers");
                    turns.push((turn, lease.fence().get()));
                    lease.release().await?;
                }
                Ok::<_, Error>(turns)
            });
        }
    }
    let mut turns = Vec::new();
    while let Some(done) = tasks.join_next().await {
        turns.extend(done??);
    }
    turns.sort_unstable();
    let counted: Vec<u64> = turns.iter().map(|(turn, _)| *turn).collect();
    assert_eq!(counted, (1..=400).collect::<Vec<u64>>(), "no turn was lost and none was shared");
    assert!(turns.is_sorted_by(|before, after| before.1 < after.1), "fences grow from turn to turn");
    Ok(())
}

#[tokio::test]
async fn many_locks_at_once_are_taken_although_all_share_the_fence() -> Tested {
    let server = Server::start()?;
    let mut tasks = JoinSet::new();
    for client in 0..8 {
        let locks = scriptless().connect(&server.url()).await?;
        tasks.spawn(async move {
            for turn in 0..20 {
                locks.mutex(format!("door-{client}-{turn}")).acquire().await?.release().await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let stats = server.cli(&["INFO", "commandstats"])?;
    assert!(!stats.text().unwrap_or_default().contains("cmdstat_eval"), "no script was run");
    Ok(())
}

#[tokio::test]
async fn without_the_option_the_error_tells_which_right_is_missing() -> Tested {
    let (_server, url) = refusing()?;
    let error = options().connect(&url).await?.mutex("lock:door").acquire().await.unwrap_err();
    assert_eq!(error.code(), "auth");
    assert!(error.to_string().contains("evalsha"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_and_a_provided_connection_are_refused_by_name() -> Tested {
    let server = shared_server();
    let cluster = scriptless().cluster([server.url()]).await.unwrap_err();
    let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let provided = scriptless().from_connection(redis_1::connection(connection)).await.unwrap_err();
    let members = [server.url().into(), QuorumMember::cluster([server.url()]), "redis://127.0.0.1:1/".into()];
    let member = scriptless().quorum(members).await.unwrap_err();
    for (error, what) in [(cluster, "a cluster"), (provided, "that you provide"), (member, "a cluster")] {
        assert!(matches!(&error, Error::InvalidOption { field: "without_scripts", .. }), "{error:?}");
        assert!(error.to_string().contains(what), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn a_quorum_works_too() -> Tested {
    let servers = [Server::start()?, Server::start()?, Server::start()?];
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let mut clients = Vec::<LockManager>::new();
    for _ in 0..2 {
        clients.push(scriptless().quorum(urls.clone()).await?);
    }
    let lease = clients[0].mutex("door").acquire().await?;
    assert!(clients[1].mutex("door").try_acquire().await?.is_none());
    let waiting = begin(clients[1].mutex("door"));
    let fence = lease.fence();
    lease.release().await?;
    let next = soon("the lock", waiting).await??;
    assert!(next.fence() > fence);
    next.release().await?;
    Ok(())
}
