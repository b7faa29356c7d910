//! Every way to connect, and why it may fail.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::redis_1::redis::{self, Client, IntoConnectionInfo, ProtocolVersion};
use leasehold::{Error, LockManager, redis_1};
use leasehold_live::{
    ASKING, CLOSE, OldServer, Tested, ToyServer, client, hands_over_by_message, hasty, options, queued, shared_server,
    soon, unique, until,
};
use leasehold_servers::Server;

/// How long a client waits for a server that never answers.
const TIMEOUT: Duration = Duration::from_millis(500);

async fn refused(url: &str) -> Error {
    soon("an end of connecting", options().connect(url)).await.expect_err("it connected")
}

/// The same for a server that accepts connections and says nothing.
async fn unanswered(url: &str) -> Error {
    let connecting = options().response_timeout(TIMEOUT).connect(url);
    soon("an end of connecting", connecting).await.expect_err("it connected")
}

#[tokio::test]
async fn a_wrong_or_missing_password_is_told_at_once() -> Tested {
    let server = Server::builder().password("secret").start()?;
    let port = server.port();
    for url in [
        format!("redis://127.0.0.1:{port}/"),
        format!("redis://:wrong@127.0.0.1:{port}/"),
        format!("redis://nobody:secret@127.0.0.1:{port}/"),
    ] {
        let error = refused(&url).await;
        assert_eq!(error.code(), "auth", "{url}: {error:?}");
        assert!(!error.is_retryable());
    }
    client(&server).await?.mutex("door").acquire().await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_password_that_is_changed_while_we_are_connected_is_told_after_the_next_break() -> Tested {
    let server = Server::builder().password("secret").start()?;
    let locks = client(&server).await?;
    let lease = locks.mutex("door").acquire().await?;
    let mut operator = server.connect()?;
    operator.call(&["CONFIG", "SET", "requirepass", "changed"])?;
    operator.call(&["CLIENT", "KILL", "TYPE", "normal"])?;
    let error = soon("an end", locks.mutex("window").acquire()).await.unwrap_err();
    assert_eq!(error.code(), "auth", "{error:?}");
    drop(lease);
    Ok(())
}

#[tokio::test]
async fn a_password_that_is_set_while_we_are_connected_without_one_is_told_after_the_next_break() -> Tested {
    let server = Server::start()?;
    let locks = client(&server).await?;
    locks.mutex("door").acquire().await?.release().await?;
    let mut operator = server.connect()?;
    operator.call(&["CONFIG", "SET", "requirepass", "secret"])?;
    operator.call(&["CLIENT", "KILL", "TYPE", "normal"])?;
    let error = soon("an end", locks.mutex("window").acquire()).await.unwrap_err();
    assert_eq!(error.code(), "auth", "{error:?}");
    Ok(())
}

#[tokio::test]
async fn nobody_there_is_told_as_unreachable_with_the_cause() -> Tested {
    // Bound to find a free port, and closed again.
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = |address| format!("redis://{address}/");
    for error in [refused(&url(closed)).await, unanswered(&url(silent.local_addr()?)).await] {
        assert_eq!(error.code(), "unreachable", "{error:?}");
        assert!(error.is_retryable());
        assert!(matches!(&error, Error::Unreachable { cause: Some(_), .. }), "{error:?}");
        assert!(std::error::Error::source(&error).is_none(), "the message has the cause already: {error:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_message_of_a_failed_connect_says_where_and_why_and_tells_no_password() -> Tested {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let silent = silent.local_addr()?;
    let url = |address| format!("redis://app:secret@{address}/3");
    for (address, error, cause) in [
        (closed, refused(&url(closed)).await, "connection refused"),
        (silent, unanswered(&url(silent)).await, "no answer within #"),
    ] {
        assert_eq!(timeless(&error.to_string()), format!("can't connect to redis://{address}: {cause}"));
    }
    Ok(())
}

#[tokio::test]
async fn the_message_of_a_slow_connect_tells_the_whole_time() -> Tested {
    let limit = Duration::from_millis(600);
    // The login takes most of the time, and the question for the version has no answer in the rest.
    let slow = ToyServer::start(move |words| match words.first() {
        Some(word) if word.eq_ignore_ascii_case("INFO") => String::new(),
        Some(word) if word.eq_ignore_ascii_case("SELECT") => {
            std::thread::sleep(limit / 3);
            "+OK\r\n".to_owned()
        }
        _ => "+OK\r\n".to_owned(),
    })?;
    let error = options().response_timeout(limit).connect(&format!("{}3", slow.url())).await.unwrap_err();
    assert!(error.waited().is_some_and(|waited| waited >= limit), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_connect_outlasts_a_pause_of_its_own_process() -> Tested {
    let server = Server::start()?;
    let limit = Duration::from_millis(500);
    // The server has this time to answer after the pause. A slow machine may need several attempts.
    until("a connect that was paused", async || {
        let url = server.url();
        let connecting = tokio::spawn(async move { options().response_timeout(limit).connect(&url).await });
        tokio::task::yield_now().await;
        std::thread::sleep(limit * 2);
        connecting.await.is_ok_and(|connected| connected.is_ok())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn the_message_of_a_call_without_a_server_says_which_lock_which_server_and_why() -> Tested {
    let mut server = Server::builder().password("secret").start()?;
    let locks = hasty(&server, TIMEOUT).await;
    server.stop();
    let expected = format!("lock `door`: redis://{} was not available within #: connection refused", server.address());
    // On a slow machine, the wait may end before the client knows the cause.
    until("the cause is known", async || {
        let error = locks.mutex("door").wait(TIMEOUT).acquire().await.unwrap_err();
        assert!(error.code() == "unreachable" && error.waited() >= Some(TIMEOUT), "{error}");
        timeless(&error.to_string()) == expected
    })
    .await;
    until("the cause is known", async || timeless(&locks.inspect("door").await.unwrap_err().to_string()) == expected)
        .await;
    Ok(())
}

/// The message without its time, which differs each time: `12 ms` or `1.1 s`.
fn timeless(message: &str) -> String {
    let Some((before, after)) = message.split_once(" within ") else { return message.to_owned() };
    let of_time = |char: char| char.is_ascii_digit() || ". ms".contains(char);
    format!("{before} within #{}", after.trim_start_matches(of_time))
}

#[tokio::test]
async fn a_servers_endless_words_are_shortened() -> Tested {
    let endless = |words: &[String]| match words.first() {
        Some(word) if word.eq_ignore_ascii_case("EVALSHA") => format!("-ERR {}\r\n", "x".repeat(5 << 20)),
        Some(word) if word.eq_ignore_ascii_case("EVAL") => format!("*1\r\n*1\r\n+{}\r\n", "x".repeat(5 << 20)),
        _ => "+OK\r\n".to_owned(),
    };
    let locks = options().connect(&ToyServer::start(endless)?.url()).await?;
    let error = locks.mutex("door").acquire().await.unwrap_err();
    assert_eq!(error.code(), "server");
    let (text, shown) = (error.to_string(), format!("{error:?}"));
    assert!(text.contains("ERR xxx") && text.ends_with(".."), "{:.300}", text);
    assert!(text.len() < 500 && shown.len() < 600, "{} and {} bytes", text.len(), shown.len());
    // A plain `ERR` to INFO would be taken for a proxy that doesn't know the command.
    let refusing = ToyServer::start(|_| format!("-DENIED {}\r\n", "x".repeat(5 << 20)))?;
    let error = options().connect(&refusing.url()).await.unwrap_err();
    let (text, shown) = (error.to_string(), format!("{error:?}"));
    assert!(text.len() < 500 && shown.len() < 600, "{} and {} bytes", text.len(), shown.len());
    Ok(())
}

#[tokio::test]
async fn a_proxy_that_closes_the_connection_at_info_is_asked_a_few_times_and_used() -> Tested {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let proxy = ToyServer::start(move |words| match words.first().map(String::as_str) {
        Some("INFO") => {
            count.fetch_add(1, Ordering::Relaxed);
            CLOSE.to_owned()
        }
        // A free lock.
        Some("EVALSHA") if words[2] == "3" => "$16\r\n1800000000000000\r\n".to_owned(),
        Some("EVALSHA") => ":1\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    })?;
    let locks = soon("a connection", options().connect(&proxy.url())).await?;
    let lease = soon("the lock", locks.mutex("door").acquire()).await?;
    assert_eq!(u64::from(lease.fence()), 1_800_000_000_000_000);
    lease.release().await?;
    assert!((1..=10).contains(&asked.load(Ordering::Relaxed)), "{asked:?} questions");
    // A server that closes the connection at every command is unreachable.
    let closing = ToyServer::start(|_| CLOSE.to_owned())?;
    assert_eq!(refused(&closing.url()).await.code(), "unreachable");
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_too_old_is_told_with_its_version_and_the_one_needed() -> Tested {
    let error = refused(&OldServer::start()?.url()).await;
    assert_eq!(error.code(), "unsupported", "{error:?}");
    let text = error.to_string();
    assert!(text.contains("5.0.14") && text.contains("6.2"), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_url_that_is_none_is_told_as_such() -> Tested {
    for url in ["", "127.0.0.1", "http://127.0.0.1/", "redis://127.0.0.1:port/"] {
        let error = refused(url).await;
        assert!(matches!(error, Error::InvalidOption { field: "url", .. }), "{url}: {error:?}");
    }
    Ok(())
}

/// Two clients pass the lock between them.
async fn works(first: &LockManager, second: &LockManager, server: &Server, name: &str) -> Tested {
    for _ in 0..3 {
        let lease = first.mutex(name).acquire().await?;
        let waiting = queued(server, second.mutex(name)).await;
        lease.release().await?;
        let lease = soon("the lock", waiting).await??;
        assert!(lease.verify().await?);
        lease.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_connection_that_the_caller_brings_polls_and_is_never_closed() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    for protocol in [ProtocolVersion::RESP2, ProtocolVersion::RESP3] {
        let info = server.url().into_connection_info()?;
        let settings = info.redis_settings().clone().set_protocol(protocol);
        let mut connection =
            Client::open(info.set_redis_settings(settings))?.get_multiplexed_async_connection().await?;
        let polling = options().claim_window(ASKING).from_connection(redis_1::connection(connection.clone())).await?;
        works(&client(server).await?, &polling, server, &name).await?;
        works(&polling, &client(server).await?, server, &name).await?;
        polling.close().await;
        let pong: String = redis::cmd("PING").query_async(&mut connection).await?;
        assert_eq!(pong, "PONG");
    }
    Ok(())
}

#[tokio::test]
async fn a_client_that_the_caller_brings_has_everything_whatever_its_protocol() -> Tested {
    let server = Server::start()?;
    for protocol in [ProtocolVersion::RESP2, ProtocolVersion::RESP3] {
        let info = server.url().into_connection_info()?;
        let settings = info.redis_settings().clone().set_protocol(protocol);
        let theirs = Client::open(info.set_redis_settings(settings))?;
        let (first, second) = (options().connect(theirs.clone()).await?, options().connect(theirs).await?);
        works(&first, &second, &server, "door").await?;
        assert_eq!(first.inspect("door").await?.holders, []);
        hands_over_by_message(&first, &second, &[&server], "gate").await?;
    }
    Ok(())
}

#[tokio::test]
async fn locks_are_where_the_urls_database_and_the_prefix_say() -> Tested {
    let server = Server::start()?;
    let locks = options().prefix("billing:").connect(&format!("{}3", server.url())).await?;
    let lease = locks.mutex("door").acquire().await?;
    assert_eq!(lease.name(), "door");
    assert_eq!(client(&server).await?.inspect("billing:door").await?.holders, []);
    let mut third = server.connect()?;
    third.call(&["SELECT", "3"])?;
    assert!(third.call(&["GET", "billing:door"])?.text().is_some_and(|token| token.contains('-')));
    lease.release().await?;
    assert!(third.call(&["GET", "billing:door"])?.is_nil());
    Ok(())
}
