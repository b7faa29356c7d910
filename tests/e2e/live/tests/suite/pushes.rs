//! Connections that users bring, with RESP3 push messages: waiters are notified on the user's own connection.

use std::time::Duration;

use leasehold::{Error, LockManager, redis_1};
use leasehold_live::{
    ASKING, Tested, client, hands_over_by_message, is_there, options, queued, shared_server, soon, subscribed, unique,
    until,
};
use leasehold_servers::Server;
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

fn resp3(server: &Server) -> redis::RedisResult<Client> {
    Client::open(format!("{}?protocol=resp3", server.url()))
}

async fn multiplexed(server: &Server) -> redis::RedisResult<(MultiplexedConnection, UnboundedReceiver<PushInfo>)> {
    let (sender, pushes) = unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(sender);
    Ok((resp3(server)?.get_multiplexed_async_connection_with_config(&config).await?, pushes))
}

async fn reconnecting(
    server: &Server,
    resubscribes: bool,
) -> redis::RedisResult<(ConnectionManager, UnboundedReceiver<PushInfo>)> {
    let (sender, pushes) = unbounded_channel();
    let config = ConnectionManagerConfig::new().set_push_sender(sender);
    let config = if resubscribes { config.set_automatic_resubscription() } else { config };
    Ok((ConnectionManager::new_with_config(resp3(server)?, config).await?, pushes))
}

#[tokio::test]
async fn waiters_on_a_brought_connection_are_granted_by_push_in_one_round_trip() -> Tested {
    let server = Server::start()?;
    let ((one, to_one), (two, to_two)) = (multiplexed(&server).await?, multiplexed(&server).await?);
    let first = options().from_connection(redis_1::connection_with_push(one, to_one)).await?;
    let second = options().from_connection(redis_1::connection_with_push(two, to_two)).await?;
    hands_over_by_message(&first, &second, &[&server], "door").await?;

    let ((one, to_one), (two, to_two)) = (reconnecting(&server, false).await?, reconnecting(&server, true).await?);
    let first = options().from_connection(redis_1::connection_with_push(one, to_one)).await?;
    let second = options().from_connection(redis_1::connection_with_push(two, to_two)).await?;
    hands_over_by_message(&first, &second, &[&server], "door").await
}

#[tokio::test]
async fn a_waiter_gets_its_lock_after_the_connection_was_killed_and_waits_by_message_again() -> Tested {
    for resubscribes in [false, true] {
        let server = Server::start()?;
        let holder = options().connect(&server.url()).await?;
        let (mut connection, pushes) = reconnecting(&server, resubscribes).await?;
        let locks = options().from_connection(redis_1::connection_with_push(connection.clone(), pushes)).await?;
        let lease = holder.mutex("door").acquire().await?;
        let waiter = queued(&server, locks.mutex("door")).await;
        let id: u64 = redis::cmd("CLIENT").arg("ID").query_async(&mut connection).await?;
        server.cli(&["CLIENT", "KILL", "ID", &id.to_string()])?;
        lease.release().await?;
        soon("the lock after the break", waiter).await??.release().await?;

        let id: u64 = redis::cmd("CLIENT").arg("ID").query_async(&mut connection).await?;
        let line = || -> Option<String> {
            let list = server.cli(&["CLIENT", "LIST", "ID", &id.to_string()]).ok()?;
            list.text().map(str::to_owned)
        };
        until("it subscribes again", async || line().is_some_and(|line| !line.contains(" sub=0 "))).await;
        let lease = holder.mutex("door").acquire().await?;
        let waiter = queued(&server, locks.mutex("door")).await;
        lease.release().await?;
        soon("the lock by message", waiter).await??.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_callers_own_channels_and_messages_stay_theirs() -> Tested {
    let server = Server::start()?;
    let (to_locks, pushes) = unbounded_channel();
    let (mine, mut my_pushes): (UnboundedSender<PushInfo>, _) = unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
        let _ = to_locks.send(push.clone());
        mine.send(push)
    });
    let mut connection = resp3(&server)?.get_multiplexed_async_connection_with_config(&config).await?;
    connection.subscribe("news").await?;
    // Without a label, nothing delays the manager's end.
    let locks = options().label("").from_connection(redis_1::connection_with_push(connection.clone(), pushes)).await?;
    let holder = options().connect(&server.url()).await?;
    let lease = holder.mutex("door").acquire().await?;
    let waiter = queued(&server, locks.mutex("door")).await;
    server.cli(&["PUBLISH", "news", "rain"])?;
    lease.release().await?;
    let lease = soon("the lock", waiter).await??;
    let news = async {
        while let Some(push) = my_pushes.recv().await {
            if push.kind == PushKind::Message && push.data.first() == Some(&Value::BulkString(b"news".to_vec())) {
                return push.data.get(1).cloned();
            }
        }
        None
    };
    assert_eq!(soon("the news", news).await, Some(Value::BulkString(b"rain".to_vec())));
    lease.release().await?;

    // The manager leaves its channels and nothing else, even if it is closed during a wait.
    let lease = holder.mutex("door").acquire().await?;
    let waiter = queued(&server, locks.mutex("door")).await;
    locks.close().await;
    assert!(matches!(soon("the end of the wait", waiter).await?, Err(Error::Closed)));
    lease.release().await?;
    holder.close().await;
    until("its channel is left", async || subscribed(&server).is_ok_and(|count| count == 0)).await;
    assert_eq!(server.cli(&["PUBSUB", "CHANNELS"])?.list().len(), 1);
    let pong: String = redis::cmd("PING").query_async(&mut connection).await?;
    assert_eq!(pong, "PONG");
    Ok(())
}

#[tokio::test]
async fn a_caller_that_leaves_all_channels_does_not_strand_a_waiter() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let (mut connection, pushes) = multiplexed(server).await?;
    let locks = options().from_connection(redis_1::connection_with_push(connection.clone(), pushes)).await?;
    let holder = options().connect(&server.url()).await?;
    let lease = holder.mutex(&name).acquire().await?;
    let waiter = queued(server, locks.mutex(&name)).await;
    connection.subscribe(&["news", "weather"]).await?;
    let no_channel: [&str; 0] = [];
    let mut beside = connection.clone();
    let echo = redis::cmd("ECHO").arg("mine").to_owned();
    let (left, echoed) = tokio::join!(connection.unsubscribe(&no_channel), echo.query_async::<String>(&mut beside));
    left?;
    assert_eq!(echoed?, "mine");
    lease.release().await?;
    soon("the lock", waiter).await??.release().await?;
    // Three confirmations have arrived, and each command still gets its own reply.
    for number in 0..10 {
        let echo: u32 = redis::cmd("ECHO").arg(number).query_async(&mut connection).await?;
        assert_eq!(echo, number);
    }
    Ok(())
}

#[tokio::test]
async fn a_user_who_may_not_unsubscribe_waits_by_message_again_and_again() -> Tested {
    let server = Server::start()?;
    // Servers run HELLO for everyone.
    server.cli(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-hello", "-unsubscribe"])?;
    let url = format!("redis://app:secret@127.0.0.1:{}/?protocol=resp3", server.port());
    let (sender, pushes) = unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(sender);
    let connection = Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?;
    let locks = options().from_connection(redis_1::connection_with_push(connection, pushes)).await?;
    hands_over_by_message(&client(&server).await?, &locks, &[&server], "door").await
}

/// A client whose connection brings it no messages. It waits 500 ms for them before it polls. The server must also
/// answer within 500 ms when the client connects, so on a slow machine this function may return an error.
async fn deaf(
    server: &Server,
    what: &str,
) -> Result<(LockManager, MultiplexedConnection, impl Sized), Box<dyn std::error::Error + Send + Sync>> {
    let (resp3, its_own) = multiplexed(server).await?;
    let (other, of_another) = multiplexed(server).await?;
    let (sender, nothing) = unbounded_channel();
    let (connection, pushes) = match what {
        "RESP2" => (Client::open(server.url())?.get_multiplexed_async_connection().await?, nothing),
        "wrong" => (resp3, of_another),
        _ => {
            drop(sender);
            (resp3, nothing)
        }
    };
    let builder = options().response_timeout(Duration::from_millis(500)).claim_window(ASKING);
    let locks = builder.from_connection(redis_1::connection_with_push(connection.clone(), pushes)).await?;
    Ok((locks, connection, (its_own, other)))
}

#[tokio::test]
async fn without_resp3_or_with_the_wrong_receiver_waiters_poll() -> Tested {
    let server = shared_server();
    for what in ["RESP2", "wrong", "closed"] {
        let name = unique("door");
        let mut connected = None;
        until("a connection", async || {
            connected = deaf(server, what).await.ok();
            connected.is_some()
        })
        .await;
        let (locks, connection, _others) = connected.ok_or("connected")?;
        let holder = options().connect(&server.url()).await?;
        let lease = holder.mutex(&name).acquire().await?;
        let waiter = queued(server, locks.mutex(&name)).await;
        lease.release().await?;
        let lease = soon(what, waiter).await??;
        assert!(is_there(server, &name)?, "{what}");
        lease.release().await?;
        let mut connection = connection;
        let pong: String = redis::cmd("PING").query_async(&mut connection).await?;
        assert_eq!(pong, "PONG", "{what}");
    }
    Ok(())
}
