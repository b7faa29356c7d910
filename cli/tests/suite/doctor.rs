//! `leasehold doctor`.

use std::collections::HashMap;

use leasehold_servers::{Server, follow, has_pexpiretime};
use serde_json::Value;

use crate::common::{Tested, at, exit, run, text, until};

const PASSWORD: &str = "secret";

/// The checks of one server: verdict, finding and remedy by name.
fn checks(url: &str, arguments: &[&str]) -> Result<(Option<i32>, Checks), Box<dyn std::error::Error>> {
    let output = at(url, &[&["--json", "doctor"], arguments].concat()).output()?;
    let lines: Result<Vec<Value>, _> = text(&output.stdout).lines().map(serde_json::from_str).collect();
    let of = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let named = lines?
        .iter()
        .map(|line| (of(line, "check"), [of(line, "verdict"), of(line, "finding"), of(line, "remedy")]))
        .collect();
    Ok((output.status.code(), named))
}

type Checks = HashMap<String, [String; 3]>;

/// The user's rules from SECURITY.md, for names that begin with `lock:`.
fn documented() -> Vec<String> {
    let text = include_str!("../../../SECURITY.md");
    let block =
        text.lines().skip_while(|line| !line.contains("ACL SETUSER")).take_while(|line| line.starts_with("    "));
    let words = block.flat_map(str::split_whitespace).skip(4).filter(|word| *word != "\\");
    let words = words.map(|word| word.trim_matches('\''));
    words.map(|word| if word.starts_with('>') { format!(">{PASSWORD}") } else { word.to_owned() }).collect()
}

fn user(server: &Server, rules: &[String]) -> Result<String, leasehold_servers::Error> {
    let mut command = vec!["ACL", "SETUSER", "app", "reset"];
    command.extend(rules.iter().map(String::as_str));
    server.cli(&command)?;
    Ok(format!("redis://app:{PASSWORD}@127.0.0.1:{}/", server.port()))
}

#[test]
fn a_good_server_has_no_problem() -> Tested {
    let server = Server::builder().arg("--appendonly", "yes").start()?;
    let (code, checks) = checks(&server.url(), &[])?;
    assert_eq!(code, Some(0), "{checks:?}");
    for name in [
        "connect",
        "version",
        "role",
        "eviction",
        "memory",
        "persistence",
        "replicas",
        "clock",
        "fences",
        "keyspace",
        "keys",
        "channels",
        "rights",
        "right +zadd",
        "locks",
    ] {
        assert_eq!(checks.get(name).map(|check| check[0].as_str()), Some("ok"), "{name}: {checks:?}");
    }
    assert!(checks.contains_key("latency"), "its verdict depends on the machine: {checks:?}");
    assert_eq!(server.cli(&["DBSIZE"])?.integer(), Some(0), "nothing is left");
    let shown = text(&run(&server, &["doctor"])?.stdout);
    assert!(shown.contains("may run all 28 commands") && !shown.contains("right +"), "{shown}");
    Ok(())
}

#[test]
fn the_documented_rights_suffice_and_each_missing_one_is_named() -> Tested {
    let server = Server::start()?;
    let rules = documented();
    let prefix = ["--prefix", "lock:"];
    let (code, found) = checks(&user(&server, &rules)?, &prefix)?;
    assert_eq!(code, Some(0), "{found:?}");
    assert_eq!(found["rights"][0], "ok", "{found:?}");
    let commands: Vec<_> = rules.iter().filter(|rule| rule.starts_with('+')).collect();
    assert_eq!(commands.len(), 28, "the doctor tries as many");
    for missing in commands {
        let others: Vec<_> = rules.iter().filter(|rule| *rule != missing).cloned().collect();
        let (code, found) = checks(&user(&server, &others)?, &prefix)?;
        let check = found.get(&format!("right {missing}")).ok_or(missing.clone())?;
        assert_eq!((code, check[0].as_str()), (Some(1), "problem"), "{missing}: {found:?}");
        assert!(check[2].starts_with(&format!("ACL SETUSER app {missing}")), "{check:?}");
        assert_eq!(check[2].contains("+pexpiretime +persist"), missing == "+time", "{check:?}");
        assert_eq!(found.iter().filter(|(name, check)| name.starts_with("right ") && check[0] == "problem").count(), 1);
    }
    Ok(())
}

#[test]
fn two_other_rights_stand_in_for_the_one_to_time() -> Tested {
    if !has_pexpiretime() {
        return Ok(());
    }
    let server = Server::start()?;
    let rules = |more: &[&str]| -> Vec<String> {
        let documented = documented().into_iter().filter(|rule| rule != "+time");
        documented.chain(more.iter().map(|rule| (*rule).to_owned())).collect()
    };
    let prefix = ["--prefix", "lock:"];
    let (code, found) = checks(&user(&server, &rules(&["+pexpiretime", "+persist"]))?, &prefix)?;
    assert_eq!((code, found["rights"][0].as_str(), found["locks"][0].as_str()), (Some(0), "ok", "ok"), "{found:?}");
    assert!(found["rights"][1].contains("whole milliseconds"), "{found:?}");
    for half in ["+pexpiretime", "+persist"] {
        let (code, found) = checks(&user(&server, &rules(&[half]))?, &prefix)?;
        assert_eq!((code, found["rights"][0].as_str()), (Some(1), "problem"), "{half}: {found:?}");
        assert!(found["rights"][2].contains("app +time; in place of +time"), "{half}: {found:?}");
    }
    Ok(())
}

#[test]
fn keys_and_channels_that_are_not_allowed_are_told() -> Tested {
    let server = Server::start()?;
    let url = user(&server, &documented())?;
    let (code, found) = checks(&url, &[])?;
    assert_eq!((code, found["keys"][0].as_str()), (Some(1), "problem"), "{found:?}");
    assert!(found["keys"][2].contains("--name"), "{found:?}");
    assert_eq!(checks(&url, &["--name", "lock:7"])?.0, Some(0), "a name that is allowed");
    let rules: Vec<_> =
        documented().into_iter().filter(|rule| rule != "~leasehold:*" && rule != "&leasehold:*").collect();
    let (code, found) = checks(&user(&server, &rules)?, &["--prefix", "lock:"])?;
    assert_eq!(code, Some(1));
    assert!(found["keys"][1].contains("leasehold:{lock:"), "{found:?}");
    assert_eq!(found["channels"][0], "warning", "{found:?}");
    Ok(())
}

#[test]
fn a_policy_that_evicts_is_a_problem() -> Tested {
    let server = Server::builder().arg("--maxmemory", "64mb").arg("--maxmemory-policy", "allkeys-lru").start()?;
    let (code, found) = checks(&server.url(), &[])?;
    assert_eq!((code, found["eviction"][0].as_str()), (Some(1), "problem"), "{found:?}");
    assert!(found["eviction"][1].contains("allkeys-lru") && found["eviction"][2].contains("noeviction"), "{found:?}");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"])?;
    assert_eq!(checks(&server.url(), &[])?.1["eviction"][0], "warning");
    Ok(())
}

#[test]
fn a_counter_that_refuses_every_lock_is_a_problem() -> Tested {
    let server = Server::start()?;
    server.cli(&["SET", "leasehold:fence", "1764024867000000"])?;
    let (code, found) = checks(&server.url(), &[])?;
    assert_eq!((code, found["fences"][0].as_str()), (Some(0), "ok"), "{found:?}");
    let last = server.cli(&["GET", "leasehold:fence"])?;
    assert!(last.text().is_some_and(|last| last > "1764024867000000"), "it goes on: {last:?}");
    for bad in [&["SET", "leasehold:fence", "v3:1"], &["SADD", "leasehold:fence", "member"]] {
        server.cli(&["DEL", "leasehold:fence"])?;
        server.cli(bad)?;
        let (code, found) = checks(&server.url(), &[])?;
        assert_eq!((code, found["fences"][0].as_str()), (Some(1), "problem"), "{found:?}");
        assert!(found["fences"][2].contains("DEL leasehold:fence"), "{found:?}");
    }
    Ok(())
}

#[test]
fn a_counter_that_this_user_may_not_write_is_told() -> Tested {
    let server = Server::start()?;
    let url =
        user(&server, &[&documented()[..], &["resetkeys".into(), "~lock:*".into(), "~leasehold:{*".into()]].concat())?;
    let (code, found) = checks(&url, &["--prefix", "lock:"])?;
    assert_eq!((code, found["keys"][0].as_str()), (Some(1), "problem"), "{found:?}");
    assert!(found["keys"][1].contains("leasehold:fence"), "{found:?}");
    Ok(())
}

#[test]
fn a_replica_and_a_primary_without_enough_replicas_are_problems() -> Tested {
    let (primary, replica) = (Server::start()?, Server::start()?);
    follow(&replica, &primary)?;
    let (code, found) = checks(&replica.url(), &[])?;
    assert_eq!((code, found["role"][0].as_str()), (Some(1), "problem"), "{found:?}");
    assert!(found["connect"][1].contains("with --sentinel"), "{found:?}");
    assert!(found["role"][2].contains(&primary.port().to_string()), "{found:?}");
    until("the primary has a replica", || {
        checks(&primary.url(), &[]).is_ok_and(|(_, found)| found["replicas"][0] == "warning")
    });
    primary.cli(&["CONFIG", "SET", "min-replicas-to-write", "2"])?;
    let (code, found) = checks(&primary.url(), &[])?;
    assert_eq!((code, found["replicas"][0].as_str()), (Some(1), "problem"), "{found:?}");
    Ok(())
}

#[test]
fn what_the_server_refuses_to_tell_is_unknown() -> Tested {
    let server = Server::builder().acl("app", "on >secret ~* &* +@all -config -info -scan -dbsize").start()?;
    let url = format!("redis://app:{PASSWORD}@127.0.0.1:{}/", server.port());
    let (code, found) = checks(&url, &[])?;
    assert_eq!(code, Some(0), "{found:?}");
    for name in ["version", "eviction", "keyspace"] {
        assert_eq!(found[name][0], "unknown", "{found:?}");
        assert!(found[name][2].contains("grant this user +"), "{found:?}");
    }
    server.cli(&["ACL", "SETUSER", "app", "+info"])?;
    let (_, found) = checks(&url, &[])?;
    assert_eq!((found["eviction"][0].as_str(), found["replicas"][0].as_str()), ("ok", "unknown"), "{found:?}");
    assert!(found["replicas"][2].contains("+config|get"), "{found:?}");
    Ok(())
}

#[test]
fn a_server_that_is_down_or_refuses_the_login_has_its_own_exit_code() -> Tested {
    let mut server = Server::builder().password("secret").start()?;
    let (code, found) = checks(&format!("redis://127.0.0.1:{}/", server.port()), &[])?;
    assert_eq!((code, found["connect"][0].as_str()), (Some(77), "problem"), "{found:?}");
    let url = server.url();
    server.stop();
    let (code, found) = checks(&url, &[])?;
    assert_eq!((code, found["connect"][0].as_str()), (Some(69), "problem"), "{found:?}");
    Ok(())
}

#[test]
fn each_server_of_a_quorum_is_checked() -> Tested {
    let mut servers = [Server::start()?, Server::start()?, Server::start()?];
    let urls = servers.each_ref().map(Server::url).join(",");
    servers[2].stop();
    let output = at(&urls, &["--quorum", "doctor"]).output()?;
    let shown = text(&output.stdout);
    assert_eq!(exit(&output).0, Some(1), "{shown}");
    assert_eq!(shown.matches("  ok       rights").count(), 2, "{shown}");
    assert!(shown.contains("PROBLEM  connection"), "{shown}");
    Ok(())
}
