//! `leasehold doctor` takes and releases locks, and says why it can't.

use leasehold_servers::{Cluster, PRIMARY, Reply, Sentinel, Server};
use serde_json::Value;

use crate::common::{Tested, at, exit, text, until};

const PASSWORD: &str = "secret";
const SLOTS: u32 = 16_384;

/// One check that the doctor has shown.
#[derive(Debug)]
struct Shown {
    server: String,
    check: String,
    verdict: String,
    finding: String,
    remedy: String,
}

/// What the doctor shows, and its exit code.
fn doctor(url: &str, arguments: &[&str]) -> Result<(Option<i32>, Vec<Shown>), Box<dyn std::error::Error>> {
    let output = at(url, &[&["--json", "doctor"], arguments].concat()).output()?;
    let shown = text(&output.stdout);
    // A user of this program knows its options, not the API of the crate.
    assert!(!shown.contains("LockManager::"), "{shown}");
    let lines: Result<Vec<Value>, _> = shown.lines().map(serde_json::from_str).collect();
    let of = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let lines = lines?;
    let shown = lines.iter().map(|line| Shown {
        server: of(line, "server"),
        check: of(line, "check"),
        verdict: of(line, "verdict"),
        finding: of(line, "finding"),
        remedy: of(line, "remedy"),
    });
    Ok((output.status.code(), shown.collect()))
}

/// The last check of each server. There is one for each primary.
fn locks(shown: &[Shown]) -> Vec<&Shown> {
    shown.iter().filter(|one| one.check == "locks").collect()
}

/// Whether there is no problem. A busy machine may be too slow for a quorum.
fn is_fit(shown: &[Shown]) -> bool {
    shown.iter().all(|one| one.verdict != "problem" || one.check == "latency")
}

/// The only verdict about locks.
fn verdict(shown: &[Shown]) -> &Shown {
    let [one] = locks(shown)[..] else { panic!("one server: {shown:?}") };
    assert!(shown.last().is_some_and(|last| last.check == "locks"), "the last check: {shown:?}");
    one
}

fn as_app(server: &Server, rules: &str) -> Result<String, leasehold_servers::Error> {
    let mut command = vec!["ACL", "SETUSER", "app", "reset", "on", ">secret", "&*"];
    command.extend(rules.split(' '));
    server.cli(&command)?;
    Ok(format!("redis://app:{PASSWORD}@127.0.0.1:{}/", server.port()))
}

/// A cluster of one server. Each command for keys of several slots is refused, as with an endpoint in front of a cluster.
fn lone_cluster() -> Result<Server, leasehold_servers::Error> {
    let server = Server::builder().arg("--cluster-enabled", "yes").start()?;
    let slots: Vec<String> = (0..SLOTS).map(|slot| slot.to_string()).collect();
    let mut command = vec!["CLUSTER", "ADDSLOTS"];
    command.extend(slots.iter().map(String::as_str));
    server.cli(&command)?;
    until("the cluster is ready", || {
        server.cli(&["CLUSTER", "INFO"]).is_ok_and(|info| info.text().unwrap_or_default().contains("cluster_state:ok"))
    });
    Ok(server)
}

fn keys(server: &Server) -> Result<Vec<String>, leasehold_servers::Error> {
    let keys = server.cli(&["KEYS", "*"])?;
    Ok(keys.list().iter().filter_map(Reply::text).map(str::to_owned).collect())
}

#[test]
fn every_kind_is_taken_and_released_on_one_server_and_nothing_is_left() -> Tested {
    let server = Server::start()?;
    let (code, shown) = doctor(&server.url(), &[])?;
    let one = verdict(&shown);
    assert_eq!((code, one.verdict.as_str()), (Some(0), "ok"), "{one:?}");
    for what in
        ["mutex", "reader", "reentrant", "semaphore", "several names", "once", "election", "queue", "leasehold-doctor:"]
    {
        assert!(one.finding.contains(what), "{what}: {one:?}");
    }
    assert!(keys(&server)?.is_empty(), "{:?}", keys(&server)?);
    // A counter that others have drawn from stays, and goes on.
    server.cli(&["SET", "leasehold:fence", "5"])?;
    assert_eq!(doctor(&server.url(), &[])?.0, Some(0));
    assert_eq!(keys(&server)?, ["leasehold:fence"]);
    assert_ne!(server.cli(&["GET", "leasehold:fence"])?.text(), Some("5"));
    Ok(())
}

#[test]
fn an_address_that_enforces_slots_is_fit_and_told() -> Tested {
    let server = lone_cluster()?;
    // A user who may not ask for the slots can't use a cluster.
    let url = as_app(&server, "~* +@all -cluster")?;
    for (url, arguments) in
        [(&server.url(), &[][..]), (&server.url(), &["--cluster"]), (&url, &[]), (&url, &["--cluster-slots"])]
    {
        let (code, shown) = doctor(url, arguments)?;
        assert_eq!((code, verdict(&shown).verdict.as_str()), (Some(0), "ok"), "{shown:?}");
        let told = shown.iter().any(|one| one.check == "slots" && one.finding.contains("enforces the slots"));
        assert_eq!(told, arguments != ["--cluster"], "{shown:?}");
    }
    let plain = Server::start()?;
    let refused = at(&plain.url(), &["--cluster-slots", "exec", "job", "--", "true"]).output()?;
    assert!(refused.status.code() == Some(64) && text(&refused.stderr).contains("--cluster-slots"), "{refused:?}");
    let (code, shown) = doctor(&url, &["--cluster"])?;
    let [connect] = &shown[..] else { panic!("it stops: {shown:?}") };
    assert_eq!((code, connect.verdict.as_str()), (Some(77), "problem"), "{connect:?}");
    assert!(connect.remedy.contains("+cluster"), "{connect:?}");
    assert!(keys(&server)?.is_empty(), "{:?}", keys(&server)?);
    Ok(())
}

#[test]
fn a_lock_is_taken_on_each_primary_of_a_cluster() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let (code, shown) = doctor(&cluster.server(0).url(), &[])?;
    assert_eq!(code, Some(1), "{shown:?}");
    for check in ["connect", "slots"] {
        let one = shown.iter().find(|one| one.check == check);
        let told = one.is_some_and(|one| {
            one.verdict == "problem" && [&one.finding, &one.remedy].iter().any(|text| text.contains("--cluster"))
        });
        assert!(told, "{check}: {shown:?}");
    }
    let (code, shown) = doctor(&cluster.server(1).url(), &["--cluster"])?;
    assert_eq!(code, Some(0), "{shown:?}");
    let mut servers: Vec<_> = locks(&shown).iter().map(|one| (one.server.clone(), one.verdict.clone())).collect();
    servers.sort();
    let mut expected: Vec<_> =
        (0..3).map(|place| (format!("127.0.0.1:{}", cluster.server(place).port()), "ok".to_owned())).collect();
    expected.sort();
    assert_eq!(servers, expected, "{shown:?}");
    for place in 0..3 {
        assert!(keys(cluster.server(place))?.is_empty(), "{:?}", keys(cluster.server(place))?);
    }
    // Names with one hash tag are all on one server. The others need not have them.
    let (code, shown) = doctor(&cluster.server(1).url(), &["--cluster", "--prefix", "{app}:"])?;
    assert_eq!(code, Some(0), "{shown:?}");
    assert_eq!(locks(&shown).iter().filter(|one| one.finding.contains("queue")).count(), 1, "{shown:?}");
    Ok(())
}

#[test]
fn a_lock_is_taken_on_the_primary_behind_sentinel() -> Tested {
    let primary = Server::start()?;
    let sentinel = Sentinel::start(Server::builder(), &primary, 0, "")?;
    sentinel.be_patient()?;
    let (code, shown) = doctor(&sentinel.server().url(), &["--sentinel", PRIMARY])?;
    assert_eq!((code, verdict(&shown).verdict.as_str()), (Some(0), "ok"), "{shown:?}");
    assert!(keys(&primary)?.is_empty(), "{:?}", keys(&primary)?);
    let (_, shown) = doctor(&sentinel.server().url(), &[])?;
    assert!(shown[0].finding.contains("--sentinel"), "{shown:?}");
    Ok(())
}

#[test]
fn a_lock_is_taken_on_each_server_of_a_quorum() -> Tested {
    let servers = [Server::start()?, Server::start()?, Server::start()?];
    let urls = servers.each_ref().map(Server::url).join(",");
    let (_, shown) = doctor(&urls, &["--quorum"])?;
    assert!(is_fit(&shown), "{shown:?}");
    assert_eq!(locks(&shown).iter().filter(|one| one.verdict == "ok").count(), 3, "{shown:?}");
    for server in &servers {
        // A server that answered after the others may remember for a minute that a lock was given back.
        for key in keys(server)?.iter().filter(|key| *key != "leasehold:fence:quorum") {
            assert!(key.starts_with("leasehold:{leasehold-doctor:"), "{key}");
            assert_ne!(server.cli(&["PTTL", key])?.integer(), Some(-1), "{key} ends by itself");
        }
    }
    // The majority grants every lock. So the doctor must look at each server to find the one that grants none.
    servers[1].cli(&["CONFIG", "SET", "maxmemory", "1"])?;
    let (code, shown) = doctor(&urls, &["--quorum"])?;
    assert_eq!(code, Some(1), "{shown:?}");
    let full = format!("127.0.0.1:{}", servers[1].port());
    for one in locks(&shown) {
        assert_eq!(one.verdict == "problem", one.server == full, "{one:?}");
        assert_eq!(one.finding.contains("OOM"), one.server == full, "{one:?}");
    }
    Ok(())
}

#[test]
fn a_full_server_grants_no_lock() -> Tested {
    let server = Server::start()?;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"])?;
    let (code, shown) = doctor(&server.url(), &[])?;
    let one = verdict(&shown);
    assert_eq!((code, one.verdict.as_str()), (Some(1), "problem"), "{one:?}");
    assert!(one.finding.contains("OOM") && one.remedy.contains("maxmemory"), "{one:?}");
    assert!(keys(&server)?.is_empty(), "{:?}", keys(&server)?);
    Ok(())
}

#[test]
fn a_name_that_the_user_may_not_lock_is_told_and_how_to_try_another_one() -> Tested {
    let server = Server::start()?;
    let url = as_app(&server, "+@all ~lock:* ~*:lock ~leasehold:*")?;
    let (code, shown) = doctor(&url, &[])?;
    let one = verdict(&shown);
    assert_eq!((code, one.verdict.as_str()), (Some(1), "problem"), "{one:?}");
    assert!(one.finding.contains("`leasehold-doctor:"), "the name that was tried: {one:?}");
    assert!(one.remedy.contains("--name") && one.remedy.contains("ACL SETUSER app"), "{one:?}");
    for (pattern, tried) in
        [("lock:*", "`lock:leasehold-doctor:"), ("*:lock", ":lock`"), ("lock:7", "`lock:7:leasehold")]
    {
        let (code, shown) = doctor(&url, &["--name", pattern])?;
        let one = verdict(&shown);
        assert_eq!((code, one.verdict.as_str()), (Some(0), "ok"), "{pattern}: {one:?}");
        assert!(one.finding.contains(tried), "{pattern}: {one:?}");
    }
    assert!(keys(&server)?.is_empty(), "{:?}", keys(&server)?);
    Ok(())
}

#[test]
fn a_right_that_is_missing_is_named_and_nothing_is_tried() -> Tested {
    let server = Server::start()?;
    let (code, shown) = doctor(&as_app(&server, "~* +@all -hset")?, &[])?;
    let one = verdict(&shown);
    assert_eq!((code, one.verdict.as_str()), (Some(1), "problem"), "{one:?}");
    assert!(one.finding.contains("+hset") && one.finding.contains("`leasehold-doctor:"), "{one:?}");
    assert_eq!(one.remedy, "ACL SETUSER app +hset");
    assert!(keys(&server)?.is_empty(), "{:?}", keys(&server)?);
    Ok(())
}

#[test]
fn the_list_for_people_ends_with_the_locks() -> Tested {
    let server = Server::start()?;
    let output = at(&server.url(), &["doctor"]).output()?;
    let shown = text(&output.stdout);
    assert_eq!(exit(&output).0, Some(0), "{shown}");
    assert!(shown.lines().last().is_some_and(|line| line.starts_with("  ok       locks ")), "{shown}");
    Ok(())
}
