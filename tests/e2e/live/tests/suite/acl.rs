//! Users with few rights: exactly those in SECURITY.md, all but one of them, and none for messages.

use std::error::Error;
use std::time::Duration;

use leasehold::{Lease, LockManager, Mode, ReleaseOutcome};
use leasehold_live::{ASKING, FENCE, LONG, Tested, begin, endless_keys, is_there, options, side, soon, until, waiters};
use leasehold_servers::Server;
use tokio::task::JoinHandle;

pub(super) const PASSWORD: &str = "secret";

/// The user's rules from SECURITY.md, word by word.
fn documented() -> Vec<String> {
    let text = include_str!("../../../../../SECURITY.md");
    let block =
        text.lines().skip_while(|line| !line.contains("ACL SETUSER")).take_while(|line| line.starts_with("    "));
    let words = block.flat_map(str::split_whitespace).skip(4).filter(|word| *word != "\\");
    let words = words.map(|word| word.trim_matches('\'')); // As the shell passes them on.
    words.map(|word| if word.starts_with('>') { format!(">{PASSWORD}") } else { word.to_owned() }).collect()
}

/// Makes a user with these rules, and returns the URL to connect as that user.
pub(super) fn user(server: &Server, name: &str, rules: &[String]) -> Result<String, leasehold_servers::Error> {
    let mut command = vec!["ACL", "SETUSER", name];
    command.extend(rules.iter().map(String::as_str));
    server.cli(&command)?;
    Ok(format!("redis://{name}:{PASSWORD}@127.0.0.1:{}/", server.port()))
}

/// A wait that ends long before the waiter asks by itself. Only for users that lack a right, because their waits fail
/// in any case.
pub(super) const BRIEF: Duration = Duration::from_millis(1_500);

type Done = Result<(), Box<dyn Error + Send + Sync>>;

/// Uses every branch of every script, as far as the user may.
async fn exercise(server: &Server, url: &str, name: &str, wait: Duration) -> Done {
    let connect = || options().wait(wait).connect(url);
    use_every_branch(server, [connect().await?, connect().await?], name).await
}

pub(super) async fn use_every_branch(server: &Server, clients: [LockManager; 2], name: &str) -> Done {
    let [first, second] = clients;
    let (ours, theirs) = (first.read_write(name), second.read_write(name));

    // Free, held, waited for and granted by message, converted, shared, waited for by a writer, upgraded.
    let lease = ours.write().acquire().await?;
    check(theirs.read().try_acquire().await?.is_none(), "it is held")?;
    let waiting = begin(theirs.read());
    joined(server, name, &waiting).await;
    check(lease.verify().await?, "it is ours")?;
    lease.extend(LONG * 2).await?;
    let seen = first.inspect(name).await?;
    check(seen.holders.len() == 1 && seen.waiters.len() == 1, "one holds and one waits")?;
    check(listens(server, &seen.waiters[0].token)?, "the waiter is subscribed")?;
    lease.downgrade().await?;
    let reader = soon("the reader's lease", waiting).await??;
    let waiting = begin(theirs.write());
    joined(server, name, &waiting).await;
    check(first.inspect(name).await?.holders.len() == 2, "two read")?;
    check(reader.verify().await?, "it is theirs")?;
    reader.extend(LONG * 2).await?;
    check(reader.release().await? == ReleaseOutcome::Released, "the reader's release")?;
    check(lease.release().await? == ReleaseOutcome::Released, "the other reader's release")?;
    let lease = soon("the writer's lease", waiting).await??;
    check(lease.mode() == Mode::Exclusive, "it is exclusive")?;
    check(lease.release().await? == ReleaseOutcome::Released, "the writer's release")?;

    // Several names by one script.
    first.multi(["lock:{pair}1", "lock:{pair}2"]).acquire().await?.release().await?;

    // A sole reader upgrades. A reader that an operator has removed is notified.
    let lease = ours.read().acquire().await?;
    lease.upgrade().await?;
    lease.release().await?;
    let (lease, kept) = (ours.read().acquire().await?, theirs.read().acquire().await?);
    let token = first.inspect(name).await?.holders[0].token.clone();
    server.cli(&["ZREM", &side(name, "readers"), &token])?;
    let (one, other) = (lease.verify().await?, kept.verify().await?);
    check(one != other, "just one is gone")?;
    drop((lease, kept));
    check(
        endless_keys(server)?.iter().all(|key| key == FENCE || key.starts_with("leasehold:fence:{")),
        "all keys end",
    )?;
    Ok(())
}

/// Waits until the call is in the server's queue, or has failed.
async fn joined(server: &Server, name: &str, waiting: &JoinHandle<Result<Lease, leasehold::Error>>) {
    let is_in = || waiters(server, name).is_ok_and(|count| count == 1);
    until("it waits or fails", async || waiting.is_finished() || is_in()).await;
}

/// Whether the token's client is subscribed to its channel.
fn listens(server: &Server, token: &str) -> Result<bool, leasehold_servers::Error> {
    let channel = format!("leasehold:{}", token.split(':').next().unwrap_or_default());
    Ok(server.cli(&["PUBSUB", "NUMSUB", &channel])?.list()[1].integer() == Some(1))
}

fn check(holds: bool, what: &str) -> Done {
    if holds { Ok(()) } else { Err(what.into()) }
}

#[tokio::test]
async fn a_user_with_exactly_the_documented_rights_can_do_everything() -> Tested {
    let server = Server::start()?;
    let url = user(&server, "leasehold", &documented())?;
    exercise(&server, &url, "lock:door", LONG).await?;
    exercise(&server, &url, "lock:{door}", LONG).await
}

#[tokio::test]
async fn a_close_without_the_right_to_release_counts_the_leases_that_stay() -> Tested {
    let server = Server::start()?;
    let locks = options().connect(&server.url()).await?;
    let mut leases = Vec::new();
    for name in ["one", "two", "three"] {
        leases.push(locks.mutex(name).acquire().await?);
    }
    server.cli(&["ACL", "SETUSER", "default", "-eval", "-evalsha"])?;
    for command in ["-delifeq", "-delex"] {
        // Fails where the server has no such command.
        drop(server.cli(&["ACL", "SETUSER", "default", command]));
    }
    assert_eq!(leases.remove(0).release().await.unwrap_err().code(), "auth");
    assert_eq!(soon("the end", locks.close()).await.unreleased, 3);
    assert!(is_there(&server, "one")? && is_there(&server, "two")? && is_there(&server, "three")?);
    assert_eq!(leases.remove(0).release().await.unwrap_err().code(), "closed");
    Ok(())
}

#[tokio::test]
async fn tenants_with_names_of_their_own_share_only_the_counter() -> Tested {
    let server = Server::start()?;
    let tenant = |name: &str| {
        let keys = [&format!("~{name}:*"), &format!("~leasehold:{{{name}:*"), &format!("~{FENCE}")].map(String::clone);
        let others = documented().into_iter().filter(|rule| !rule.starts_with('~'));
        user(&server, name, &others.chain(keys).collect::<Vec<_>>())
    };
    let (billing, shipping) =
        (options().connect(&tenant("billing")?).await?, options().connect(&tenant("shipping")?).await?);
    let (one, other) = (billing.read_write("billing:door"), shipping.semaphore("shipping:door", 2));
    let first = one.read().acquire().await?;
    let second = other.acquire().await?;
    assert!(second.fence() > first.fence());
    for lease in [first, second] {
        assert!(lease.verify().await?);
        lease.release().await?;
    }
    assert_eq!(billing.mutex("shipping:door").acquire().await.unwrap_err().code(), "auth");
    Ok(())
}

#[tokio::test]
async fn each_documented_right_is_needed() -> Tested {
    let server = Server::start()?;
    let rules = documented();
    let rights: Vec<&String> = rules.iter().filter(|rule| rule.starts_with(['+', '~', '&'])).collect();
    assert!(rights.len() > 20, "{rules:?}");
    for (place, right) in rights.into_iter().enumerate() {
        let rest: Vec<String> = rules.iter().filter(|rule| *rule != right).cloned().collect();
        let url = user(&server, &format!("without-{place}"), &rest)?;
        // Removes the scripts that another user has loaded.
        server.cli(&["SCRIPT", "FLUSH"])?;
        assert!(exercise(&server, &url, &format!("lock:{place}"), BRIEF).await.is_err(), "{right} is not needed");
    }
    Ok(())
}

#[tokio::test]
async fn without_the_right_to_the_channels_everything_works_by_asking() -> Tested {
    let server = Server::start()?;
    let rules: Vec<String> = documented().into_iter().filter(|rule| !rule.starts_with('&')).collect();
    let url = user(&server, "deaf", &rules)?;
    let asking = || options().claim_window(ASKING).connect(&url);
    let (first, second) = (asking().await?, asking().await?);
    for _ in 0..5 {
        let lease = first.read_write("lock:door").write().acquire().await?;
        let waiting = begin(second.read_write("lock:door").write());
        until("it waits", async || waiters(&server, "lock:door").is_ok_and(|count| count == 1)).await;
        lease.downgrade().await?;
        lease.release().await?;
        soon("the lock", waiting).await??.release().await?;
    }
    assert!(server.cli(&["PUBSUB", "CHANNELS"])?.list().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_name_outside_of_the_users_rights_is_refused_as_such() -> Tested {
    let server = Server::start()?;
    let url = user(&server, "leasehold", &documented())?;
    let locks = options().connect(&url).await?;
    for error in [
        locks.mutex("elsewhere").acquire().await.unwrap_err(),
        locks.mutex("elsewhere").try_acquire().await.unwrap_err(),
        locks.inspect("elsewhere").await.unwrap_err(),
    ] {
        assert_eq!((error.code(), error.name()), ("auth", Some("elsewhere")), "{error:?}");
    }
    locks.mutex("lock:door").acquire().await?.release().await?;
    Ok(())
}
