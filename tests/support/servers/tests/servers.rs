//! Tests of the servers that other tests use.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_servers::{Cluster, Connection, Error, Reply, Sentinel, Server, follow};

#[test]
fn a_server_answers_and_is_gone_when_dropped() {
    let server = Server::start().unwrap();
    assert_eq!(server.cli(&["PING"]).unwrap().text(), Some("PONG"));
    let (address, pid) = (server.address(), server.pid().unwrap());
    drop(server);
    assert!(Connection::open(address, Duration::from_secs(1)).is_err());
    assert!(!runs(pid));
}

#[test]
fn a_restarted_server_keeps_its_port_and_forgets_its_keys() {
    let mut server = Server::start().unwrap();
    let port = server.port();
    server.cli(&["SET", "a", "1"]).unwrap();
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(server.cli(&["GET", "a"]).unwrap(), Reply::Nil);
}

#[test]
fn a_paused_server_is_silent_until_it_is_resumed() {
    let server = Server::start().unwrap();
    let mut connection = Connection::open(server.address(), Duration::from_millis(200)).unwrap();
    server.pause().unwrap();
    assert!(connection.call(&["PING"]).is_err());
    server.resume().unwrap();
    assert_eq!(server.cli(&["PING"]).unwrap().text(), Some("PONG"));
}

#[test]
fn directives_passwords_and_users_reach_the_server() {
    let server = Server::builder()
        .arg("--maxmemory", "9mb")
        .password("secret")
        .acl("reader", "on >other ~open:* +get")
        .start()
        .unwrap();
    assert_eq!(server.cli(&["CONFIG", "GET", "maxmemory"]).unwrap().list()[1].text(), Some("9437184"));
    assert!(server.url().contains(":secret@"));
    let mut reader = server.connect().unwrap();
    reader.call(&["AUTH", "reader", "other"]).unwrap();
    assert_eq!(reader.call(&["GET", "open:a"]).unwrap(), Reply::Nil);
    assert!(matches!(reader.call(&["GET", "shut:a"]).unwrap(), Reply::Error(text) if text.starts_with("NOPERM")));
}

#[test]
fn a_server_that_refuses_to_start_says_why() {
    let error = Server::builder().arg("--no-such-directive", "1").start().unwrap_err();
    assert!(matches!(&error, Error::NotStarted(log) if log.contains("no-such-directive")), "{error}");
}

#[test]
fn a_missing_program_is_an_error_that_names_it() {
    let error = Server::builder().program("/no/such/server").start().unwrap_err();
    assert!(error.to_string().contains("/no/such/server"), "{error}");
}

#[test]
fn servers_started_at_once_get_ports_of_their_own() {
    let starts: Vec<_> = (0..6).map(|_| std::thread::spawn(|| Server::start().unwrap())).collect();
    let servers: Vec<_> = starts.into_iter().map(|start| start.join().unwrap()).collect();
    for (number, server) in servers.iter().enumerate() {
        server.cli(&["SET", "number", &number.to_string()]).unwrap();
    }
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(server.cli(&["GET", "number"]).unwrap().text(), Some(number.to_string().as_str()));
    }
}

#[test]
fn a_cluster_moves_a_slot_and_knows_who_serves_it() {
    let cluster = Cluster::steady(Server::builder).unwrap();
    let from = cluster.owner("a").unwrap();
    cluster.server(from).cli(&["SET", "a", "1"]).unwrap();
    let to = (from + 1) % 3;
    let moving = cluster.begin_move("a", to).unwrap();
    assert_eq!(moving.keys().unwrap(), 1);
    moving.finish().unwrap();
    assert_eq!(cluster.owner("a").unwrap(), to);
    assert_eq!(cluster.server(to).cli(&["GET", "a"]).unwrap().text(), Some("1"));
}

#[test]
fn a_sentinel_makes_a_replica_the_primary() {
    let (primary, replica) = (Server::start().unwrap(), Server::start().unwrap());
    follow(&replica, &primary).unwrap();
    let sentinel = Sentinel::start(Server::builder(), &primary, 1, "").unwrap();
    assert_eq!(sentinel.primary().unwrap(), primary.port());
    sentinel.be_patient().unwrap();
    sentinel.fail_over().unwrap();
    assert_eq!(sentinel.primary().unwrap(), replica.port());
}

const HOLDS: &str = "LEASEHOLD_HOLDS_A_SERVER";

/// The next test runs this one in a separate process, which it kills.
#[test]
fn holds_a_server() {
    if std::env::var_os(HOLDS).is_none() {
        return;
    }
    let server = Server::start().unwrap();
    println!("pid={}", server.pid().unwrap());
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn no_server_outlives_a_killed_test_process() {
    use std::io::{BufRead, BufReader};
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holds_a_server", "--nocapture"])
        .env(HOLDS, "")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let pid = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("pid=").and_then(|(_, pid)| pid.trim().parse().ok()))
        .unwrap();
    assert!(runs(pid));
    process.kill().unwrap();
    process.wait().unwrap();
    let killed = Instant::now();
    while runs(pid) {
        assert!(killed.elapsed() < Duration::from_secs(60), "the server outlived its test process");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn runs(pid: u32) -> bool {
    // A killed orphan may stay a zombie for a moment, but it doesn't run any more.
    match std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) {
        Ok(stat) => !stat.contains(") Z "),
        Err(_) => Command::new("kill").args(["-0", &pid.to_string()]).stderr(Stdio::null()).status().unwrap().success(),
    }
}
