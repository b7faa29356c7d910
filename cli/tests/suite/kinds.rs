//! The kinds of locks in `inspect` and `ls`.

use leasehold::{Begun, LockManager, Owner};
use leasehold_servers::Server;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::common::{Tested, finish, inspect, run, start, text, until, waiters};

#[tokio::test(flavor = "multi_thread")]
async fn inspect_and_ls_show_the_kind_and_the_permits() -> Tested {
    let server = Server::start()?;
    let builder = LockManager::builder().response_timeout(std::time::Duration::from_secs(60));
    let locks = builder.connect(&server.url()).await?;
    let hour = std::time::Duration::from_secs(3600);
    let _permits = [
        locks.semaphore("reports", 5).permits(2).ttl(hour).acquire().await?,
        locks.semaphore("reports", 5).permits(1).ttl(hour).acquire().await?,
    ];
    let _mutex = locks.mutex("door").ttl(hour).acquire().await?;
    let _reader = locks.read_write("page").read().ttl(hour).acquire().await?;
    let _reentrant = locks.reentrant("account", &Owner::new()).ttl(hour).acquire().await?;

    let reports = inspect(&server, "reports");
    assert_eq!((&reports["kind"], &reports["limit"], &reports["permits"]), (&"semaphore".into(), &5.into(), &3.into()));
    let holders = reports["holders"].as_array().ok_or("the holders")?;
    let mut permits: Vec<_> = holders.iter().map(|holder| holder["permits"].as_u64()).collect();
    permits.sort_unstable();
    assert_eq!(permits, [Some(1), Some(2)]);
    for (name, kind, mode) in
        [("door", "lock", "exclusive"), ("page", "lock", "shared"), ("account", "reentrant", "exclusive")]
    {
        let lock = inspect(&server, name);
        assert_eq!((&lock["kind"], &lock["holders"][0]["mode"]), (&kind.into(), &mode.into()), "{name}");
        assert_eq!((&lock["limit"], &lock["permits"]), (&Value::Null, &Value::Null), "{name}");
    }
    assert_eq!(inspect(&server, "free")["kind"], Value::Null);

    let shown = text(&run(&server, &["inspect", "reports"])?.stdout);
    assert!(shown.contains("kind    semaphore, 3 of 5 permits are taken\n"), "{shown}");
    assert!(shown.contains(", 2 permits") && shown.contains(", 1 permit") && !shown.contains("shared"), "{shown}");

    let waiting = start(&server, &["exec", "--permits", "5", "--of", "5", "reports", "--", "true"])?;
    until("it waits", || waiters(&server, "reports") == 1);
    let shown = text(&run(&server, &["inspect", "reports"])?.stdout);
    assert!(shown.contains("waiter  1. ") && !shown.contains("exclusive") && !shown.contains("shared"), "{shown}");
    assert_eq!(inspect(&server, "reports")["waiters"][0]["mode"], Value::Null);
    kill(Pid::from_raw(i32::try_from(waiting.pid())?), Signal::SIGTERM)?;
    finish(waiting)?;

    let table = text(&run(&server, &["ls"])?.stdout);
    let row = |name: &str| table.lines().find(|line| line.ends_with(&format!("  {name}"))).unwrap_or_default();
    let words = |name: &str| row(name).split_whitespace().take(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words("reports"), ["held", "semaphore", "3/5"], "{table}");
    assert_eq!(words("door"), ["held", "exclusive", "-"], "{table}");
    assert_eq!(words("page"), ["held", "shared", "-"], "{table}");
    assert_eq!(words("account"), ["held", "reentrant", "-"], "{table}");
    let listed = text(&run(&server, &["--json", "ls", "reports"])?.stdout);
    let listed: Value = serde_json::from_str(&listed)?;
    assert_eq!((&listed["kind"], &listed["limit"], &listed["permits"]), (&"semaphore".into(), &5.into(), &3.into()));
    Ok(())
}

#[test]
fn data_without_a_ttl_has_no_kind() -> Tested {
    let server = Server::start()?;
    server.cli(&["SET", "job", "somebody's data"])?;
    assert_eq!(inspect(&server, "job")["kind"], Value::Null);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_and_ls_know_an_election_and_a_once() -> Tested {
    let server = Server::start()?;
    let builder = LockManager::builder().response_timeout(std::time::Duration::from_secs(60));
    let locks = builder.connect(&server.url()).await?;
    let hour = std::time::Duration::from_secs(3600);
    let term = locks.election("scheduler").value("10.0.0.7:8080 blue").ttl(hour).campaign().await?;
    let once = locks.once("nightly").ttl(hour);
    let Begun::Work(work) = once.begin::<Value>().await? else { return Err("it is done".into()) };

    let scheduler = inspect(&server, "scheduler");
    assert_eq!(scheduler["kind"], "election");
    let leader = json!({ "fence": term.fence().get(), "value": "10.0.0.7:8080 blue" });
    assert_eq!((&scheduler["leader"], &scheduler["last_fence"]), (&leader, &term.fence().get().into()));
    let nightly = inspect(&server, "nightly");
    assert_eq!((&nightly["kind"], &nightly["leader"]), (&"once".into(), &Value::Null));
    assert!(work.is_held() && nightly["holders"].as_array().is_some_and(|holders| holders.len() == 1), "{nightly}");

    let shown = text(&run(&server, &["inspect", "scheduler"])?.stdout);
    let term = format!("kind    election, term {}\n  value   10.0.0.7:8080 blue\n", term.fence());
    assert!(shown.contains(&term) && shown.contains(", leads for ") && !shown.contains("exclusive"), "{shown}");
    let shown = text(&run(&server, &["inspect", "nightly"])?.stdout);
    assert!(shown.contains("kind    once\n") && shown.contains("  holder  "), "{shown}");
    let table = text(&run(&server, &["ls"])?.stdout);
    for (name, kind) in [("scheduler", "election"), ("nightly", "once")] {
        let row = table.lines().find(|line| line.ends_with(&format!("  {name}"))).unwrap_or_default();
        assert!(row.starts_with(&format!("held  {kind} ")), "{table}");
    }

    let fence = work.fence().get();
    work.store(&json!({ "rows": 7 })).await?;
    let nightly = inspect(&server, "nightly");
    assert_eq!((&nightly["state"], &nightly["kind"]), (&"done".into(), &"once".into()), "{nightly}");
    let result = &nightly["result"];
    assert_eq!((&result["fence"], &result["bytes"]), (&fence.into(), &10.into()), "{nightly}");
    let day = 24 * 3_600_000;
    assert!(result["remaining_ms"].as_u64().is_some_and(|left| (1..=day).contains(&left)), "{nightly}");
    assert!(result["began_ms"].is_u64(), "{nightly}");
    let shown = text(&run(&server, &["inspect", "nightly"])?.stdout);
    assert!(shown.starts_with("nightly: done\n  kind    once\n  result  stored, 10 bytes; "), "{shown}");
    assert!(shown.contains(&format!("with the fence {fence}\n")), "{shown}");
    locks.forget("nightly").await?;
    let nightly = inspect(&server, "nightly");
    assert_eq!((&nightly["state"], &nightly["result"]), (&"free".into(), &Value::Null));
    Ok(())
}
