//! `leasehold doctor` and `leasehold ls` behind proxies that don't know all commands.

use leasehold_servers::requests::Words;
use leasehold_servers::{Fate, Proxy, Server};

use crate::common::{Tested, at, exit, text};

/// What the doctor shows, and its exit code.
fn doctor(proxy: &Proxy) -> Result<(Option<i32>, String), Box<dyn std::error::Error>> {
    let output = at(&proxy.url(), &["doctor"]).output()?;
    assert_eq!(proxy.server().cli(&["DBSIZE"])?.integer(), Some(0), "no key is left");
    Ok((output.status.code(), text(&output.stdout)))
}

#[test]
fn the_doctor_takes_locks_behind_a_proxy_that_closes_the_connection_at_its_questions() -> Tested {
    let proxy = Proxy::start(Server::start()?, Fate::as_of_twemproxy)?;
    let (code, shown) = doctor(&proxy)?;
    assert_eq!(code, Some(0), "{shown}");
    for words in ["warning  proxy", "URL of the server itself", "ok       fences", "ok       locks"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    Ok(())
}

#[test]
fn a_command_that_a_proxy_does_not_know_is_no_missing_right() -> Tested {
    let proxy = Proxy::start(Server::start()?, Fate::as_of_envoy)?;
    let (code, shown) = doctor(&proxy)?;
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("ACL SETUSER") && !shown.contains("grant this user"), "{shown}");
    for words in ["warning  channels", "waiters poll", "unknown  rights", "SUBSCRIBE", "ok       locks"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    Ok(())
}

#[test]
fn an_address_that_refuses_keys_of_different_slots_in_its_own_words_enforces_slots() -> Tested {
    let own_words = |words: &Words| match words.get(2) {
        Some(keys) if keys == b"2" && words[0] == b"EVAL" => {
            let refusal = b"return redis.error_reply('CROSSSLOT These keys have different hashes')".to_vec();
            Fate::Becomes(vec![b"EVAL".to_vec(), refusal, b"0".to_vec()])
        }
        _ => Fate::Passes,
    };
    let proxy = Proxy::start(Server::start()?, own_words)?;
    let shown = text(&at(&proxy.url(), &["doctor"]).output()?.stdout);
    assert!(shown.contains("ok       slots"), "{shown}");
    Ok(())
}

#[test]
fn a_lock_is_listed_behind_a_proxy_as_far_as_that_is_possible() -> Tested {
    for (fate, searches) in [(Fate::as_of_twemproxy as fn(&_) -> _, false), (Fate::as_of_envoy, true)] {
        let proxy = Proxy::start(Server::start()?, fate)?;
        let taken = at(&proxy.url(), &["acquire", "--ttl", "10m", "job"]).output()?;
        assert!(taken.status.success(), "{taken:?}");
        for command in [&["ls", "job"][..], &["inspect", "job"]] {
            let output = at(&proxy.url(), command).output()?;
            assert!(output.status.success() && text(&output.stdout).contains("held"), "{output:?}");
        }
        let output = at(&proxy.url(), &["ls"]).output()?;
        if searches {
            assert!(output.status.success() && text(&output.stdout).contains("job"), "{output:?}");
            continue;
        }
        let (code, message) = exit(&output);
        assert_eq!(code, Some(69), "{message}");
        for words in ["SCAN", "a proxy may", "URL of the server", "`leasehold inspect NAME`"] {
            assert!(message.contains(words), "{words}: {message}");
        }
    }
    Ok(())
}
