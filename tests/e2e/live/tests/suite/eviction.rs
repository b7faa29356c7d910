//! Servers that may delete keys to make room. `check_eviction` refuses them.

use leasehold::redis_1::{self, redis::Client};
use leasehold_live::{Tested, options};
use leasehold_servers::Server;

const PASSWORD: &str = "secret";

#[tokio::test]
async fn a_server_that_evicts_keys_is_refused_by_a_manager_that_checks_it_with_the_policy() -> Tested {
    let server = Server::start()?;
    let checking = || options().check_eviction(true);
    checking().connect(&server.url()).await?.mutex("door").acquire().await?.release().await?;
    for policy in ["volatile-lru", "allkeys-random", "volatile-ttl"] {
        server.cli(&["CONFIG", "SET", "maxmemory-policy", policy])?;
        let connection = Client::open(server.url())?.get_multiplexed_async_connection().await?;
        for outcome in
            [checking().connect(&server.url()).await, checking().from_connection(redis_1::connection(connection)).await]
        {
            let error = outcome.expect_err("it may lose every lock");
            assert_eq!(error.code(), "unsupported", "{error:?}");
            assert!(error.to_string().contains(policy) && error.to_string().contains("noeviction"), "{error}");
        }
        options().connect(&server.url()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn one_server_of_a_quorum_that_evicts_keys_is_refused() -> Tested {
    let servers = [Server::start()?, Server::start()?, Server::start()?];
    let urls = || servers.iter().map(Server::url);
    options().check_eviction(true).quorum(urls()).await?;
    servers[1].cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])?;
    let error = options().check_eviction(true).quorum(urls()).await.expect_err("it may lose a third of every lock");
    assert_eq!(error.code(), "unsupported", "{error:?}");
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
    options().quorum(urls()).await?;
    Ok(())
}

#[tokio::test]
async fn without_the_right_to_ask_the_check_is_refused_and_without_the_check_nothing_is_asked() -> Tested {
    let rules = format!("on >{PASSWORD} ~* &* +@all -config");
    let server = Server::builder().acl("app", &rules).start()?;
    let app = || options().username("app").password(PASSWORD);
    app().connect(&server.url()).await?.mutex("door").acquire().await?.release().await?;
    assert!(server.cli(&["ACL", "LOG"])?.list().is_empty(), "the server's log of refused commands");
    let error = app().check_eviction(true).connect(&server.url()).await.expect_err("it can't know");
    assert_eq!(error.code(), "auth", "{error:?}");
    Ok(())
}
