//! Servers that answer, and can't do anything now.

use std::thread;

use leasehold_servers::requests::{Words, is};
use leasehold_servers::{Fate, Proxy, Server};

use crate::common::{Tested, at, exit, finish, leasehold, start, text, until};

#[test]
fn acquire_waits_while_a_long_script_runs_and_says_what_to_do_if_that_takes_too_long() -> Tested {
    let server = Server::builder().arg("--lua-time-limit", "1").start()?;
    let mut connection = server.connect()?;
    let script = thread::spawn(move || connection.call(&["EVAL", "while true do end", "0"]).map(drop));
    let mut side = server.connect()?;
    until("the script runs", || side.call(&["PING"]).is_ok_and(|reply| format!("{reply:?}").contains("BUSY")));
    let waiting = |name, more: &[&str]| {
        start(&server, &[&["--timeout", "5s", "acquire", "--wait", "300s"], more, &[name]].concat())
    };
    let waiting = [waiting("job", &[])?, waiting("loud", &["--verbose"])?];
    // A busy machine may let no answer arrive in so short a time.
    until("the server's answer", || {
        let short = ["--timeout", "500ms", "acquire", "--wait", "500ms", "other"];
        let (code, message) = exit(&leasehold(&server, &short).output().expect("the program runs"));
        assert_eq!(code, Some(69), "{message}");
        message.contains("BUSY ") && message.contains("longer --wait") && message.contains("SCRIPT KILL")
    });
    server.cli(&["SCRIPT", "KILL"])?;
    for process in waiting {
        let (code, token, message) = finish(process)?;
        assert_eq!((code, token.trim().is_empty()), (Some(0), false), "{message}");
    }
    script.join().expect("it ended").ok();
    Ok(())
}

/// As predixy answers while its server is down.
fn without_server(words: &Words) -> Fate {
    let refusal = b"return redis.error_reply('ERR no server connection avaliable')".to_vec();
    match words.first() {
        word if is(word, "EVAL") || is(word, "EVALSHA") => {
            Fate::Becomes(vec![b"EVAL".to_vec(), refusal, b"0".to_vec()])
        }
        _ => Fate::Passes,
    }
}

#[test]
fn a_proxy_whose_server_is_down_is_waited_for_and_the_message_names_the_server_behind_it() -> Tested {
    let proxy = Proxy::start(Server::start()?, without_server)?;
    until("the proxy's answer", || {
        let short = ["--timeout", "500ms", "acquire", "--wait", "500ms", "job"];
        let (code, message) = exit(&at(&proxy.url(), &short).output().expect("the program runs"));
        assert_eq!(code, Some(69), "{message}");
        message.contains("no server connection avaliable") && message.contains("the server behind it")
    });
    Ok(())
}

/// As a node of a cluster whose administrator has renamed CLUSTER.
fn as_node(words: &Words) -> Fate {
    let refusing = |text: &str| {
        let script = format!("return redis.error_reply('{text}')");
        Fate::Becomes(vec![b"EVAL".to_vec(), script.into_bytes(), b"0".to_vec()])
    };
    match words.first() {
        word if is(word, "CLUSTER") => Fate::refusing("CLUSTER"),
        word if is(word, "EVAL") && words.get(2).is_some_and(|keys| keys == b"2") => refusing("CROSSSLOT not one slot"),
        word if is(word, "GET") && words.get(1).is_some_and(|key| key.starts_with(b"leasehold:fence:{")) => {
            refusing("MOVED 1024 10.0.0.2:6379")
        }
        _ => Fate::Passes,
    }
}

#[test]
fn the_doctor_does_not_take_a_node_that_refuses_cluster_slots_for_an_address_that_has_all_slots() -> Tested {
    let proxy = Proxy::start(Server::start()?, as_node)?;
    let shown = text(&at(&proxy.url(), &["doctor"]).output()?.stdout);
    for words in ["belongs to a cluster, and refuses CLUSTER SLOTS", "then give --cluster"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(!shown.contains("--cluster-slots"), "{shown}");
    Ok(())
}
