//! URLs: any text as the address of a server.

use std::time::Duration;

use leasehold::redis_1::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};
use leasehold::{Error, LockManager};

use crate::RANDOM;

/// Nobody listens there.
const CLOSED: (&str, u16) = ("127.0.0.1", 1);
/// A shorter password may be in a message by chance.
const LEAST: usize = 6;

/// A URL that can't be used is refused with the name of the option. Any other one is connected to, here always at a
/// port of this machine where nobody listens. No error shows the password of any URL.
#[test]
fn urls() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let plain = runtime.block_on(connected(format!("redis://{}:{}", CLOSED.0, CLOSED.1).into_connection_info()));
    let no_url = runtime.block_on(LockManager::connect("no URL")).expect_err("no URL");
    // A password that is in the messages anyway can't be looked for.
    let plain = format!("{} {no_url}", plain.expect_err("nobody listens"));
    bolero::check!(name = "urls").with_iterations(RANDOM).for_each(|input| {
        let url = String::from_utf8_lossy(input);
        let text = runtime.block_on(async {
            match url.as_ref().into_connection_info() {
                Err(_) => {
                    let error = LockManager::connect(url.as_ref()).await.expect_err("it is no URL");
                    assert_field(&error, "url");
                    assert_field(&LockManager::cluster([url.as_ref()]).await.expect_err("no URL"), "cluster");
                    assert_field(&LockManager::quorum([url.as_ref()]).await.expect_err("no URL"), "servers");
                    assert_field(
                        &LockManager::sentinel("main", [url.as_ref()]).await.expect_err("no URL"),
                        "sentinels",
                    );
                    format!("{error} {error:?}")
                }
                Ok(info) => {
                    if matches!(info.addr(), ConnectionAddr::Unix(_)) {
                        let refused = LockManager::cluster([info.clone()]).await.expect_err("no host");
                        assert_field(&refused, "cluster");
                    }
                    let password = info.redis_settings().password().map(str::to_owned);
                    match connected(Ok::<_, Error>(info)).await {
                        Ok(_) => panic!("something listens on port 1"),
                        Err(error) => {
                            hides(&format!("{error} {error:?}"), password.as_deref().unwrap_or_default(), &plain);
                            format!("{error}")
                        }
                    }
                }
            }
        });
        hides(&text, written_password(&url).unwrap_or_default(), &plain);
    });
}

/// Connects as the URL says, but to the closed port.
async fn connected(info: Result<ConnectionInfo, impl std::fmt::Debug>) -> Result<LockManager, Error> {
    let info = info.expect("an address").set_addr(ConnectionAddr::Tcp(CLOSED.0.to_owned(), CLOSED.1));
    let builder = LockManager::builder().response_timeout(Duration::from_millis(100));
    builder.connect(info).await
}

fn assert_field(error: &Error, wanted: &str) {
    match error {
        Error::InvalidOption { field, problem, .. } => {
            assert!(*field == wanted && !problem.is_empty(), "{error}");
        }
        error => panic!("not refused early: {error}"),
    }
}

fn hides(text: &str, password: &str, plain: &str) {
    let shows = password.len() >= LEAST && text.contains(password) && !plain.contains(password);
    assert!(!shows, "the error shows the password `{password}`: {text}");
}

/// What stands between the user and the `@` before the host. An error may show the query, which is no place for a password.
fn written_password(url: &str) -> Option<&str> {
    let (place, query) = url.split_once(['?', '#']).unwrap_or((url, ""));
    let (_, authority) = place.split_once("://")?;
    let (login, _) = authority.split_once('@')?;
    let (_, password) = login.split_once(':')?;
    (!query.contains(password)).then_some(password)
}
