//! Values that leave the program and come back: options from a config file, tokens and fences in a job, and what a manager
//! says about its locks.

use std::time::Duration;

use leasehold::testing::Server;
use leasehold::{
    Error, ErrorCode, Fence, Inspection, LeaseToken, LockManager, LockOptions, LossReason, ManagerOptions, Mode,
    Snapshot, Wait,
};
use serde::{Deserialize, Serialize};
use tokio::task::yield_now;

/// What one process passes to another one.
#[derive(Serialize, Deserialize)]
struct Job {
    token: LeaseToken,
    fence: Fence,
}

#[tokio::test(start_paused = true)]
async fn options_come_from_a_config_file() {
    #[derive(Deserialize)]
    struct Config {
        locks: ManagerOptions,
        nightly: LockOptions,
    }
    let text = r#"{
        "locks": { "prefix": "billing:", "wait": "no" },
        "nightly": { "ttl": "10s", "renew": false, "wait": "20s" }
    }"#;
    let Config { locks, nightly } = serde_json::from_str(text).unwrap();
    let server = Server::new();
    let locks = LockManager::builder().options(&locks).in_memory(&server).unwrap();
    let lease = locks.mutex("report").options(&nightly).acquire().await.unwrap();
    assert!(lease.remaining() <= Duration::from_secs(10));
    assert_eq!(server.manager().unwrap().inspect("billing:report").await.unwrap().holders.len(), 1);
    let busy = locks.mutex("report").acquire().await.unwrap_err();
    assert_eq!(busy.kind(), ErrorCode::Busy);
    // The fixed lease ends before this wait does.
    assert!(locks.mutex("report").options(&nightly).acquire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_option_out_of_its_bounds_is_refused_where_it_is_used() {
    let options: LockOptions = serde_json::from_str(r#"{ "ttl": "1ms" }"#).unwrap();
    let refused = LockManager::in_memory().unwrap().mutex("report").options(&options).acquire().await;
    assert!(matches!(refused, Err(Error::InvalidOption { field: "ttl", .. })), "{refused:?}");
    for text in [r#"{ "ttl": 30 }"#, r#"{ "ttl": "30" }"#, r#"{ "tll": "30s" }"#] {
        assert!(serde_json::from_str::<LockOptions>(text).is_err(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_carries_a_token_and_a_fence() {
    let server = Server::new();
    let (accepting, working) = (server.manager().unwrap(), server.manager().unwrap());
    let lease = accepting.mutex("invoice:42").acquire().await.unwrap();
    let job = Job { token: lease.token().unwrap(), fence: lease.fence() };
    assert_eq!(format!("{:?}", job.token), "LeaseToken(..)", "a log must not have it");

    let Job { token, fence } = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
    let adopted = working.mutex("invoice:42").adopt(&token).await.unwrap();
    assert!(adopted.fence() > fence);
    assert_eq!(i64::from(fence), i64::try_from(fence.get()).unwrap());
    assert!(token.to_string().parse::<LeaseToken>().is_ok_and(|same| same == token));
    let no_token: Error = "no token".parse::<LeaseToken>().unwrap_err();
    assert!(matches!(no_token, Error::InvalidOption { field: "token", .. }), "{no_token:?}");
    assert!(serde_json::from_str::<LeaseToken>("\"no token\"").is_err());
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_sees_is_written_and_read() {
    let locks = LockManager::in_memory().unwrap();
    let lease = locks.mutex("report").acquire().await.unwrap();
    let seen = locks.inspect("report").await.unwrap();
    assert_eq!(seen.last_fence, Some(lease.fence()));
    let json = serde_json::to_value(&seen).unwrap();
    assert_eq!((&json["holders"][0]["mode"], &json["holders"][0]["remaining"]), (&"exclusive".into(), &"30s".into()));
    assert_eq!(serde_json::from_value::<Inspection>(json).unwrap(), seen);
    assert_eq!(serde_json::to_value(LossReason::MaxHold).unwrap(), "max-hold");
    assert_eq!(serde_json::to_value(ErrorCode::Busy).unwrap(), "busy");
}

#[tokio::test(start_paused = true)]
async fn a_manager_lists_what_it_holds_waits_for_and_keeps() {
    let server = Server::new();
    let (locks, other) = (server.manager().unwrap(), server.manager().unwrap());
    let names = |found: &Snapshot| {
        let of = |locks: &[leasehold::LockInfo]| locks.iter().map(|it| (it.name.clone(), it.mode)).collect::<Vec<_>>();
        [of(&found.held), of(&found.pending), of(&found.lingering)]
    };
    assert_eq!(locks.query(), Snapshot::default());

    let door = other.mutex("door").acquire().await.unwrap();
    let first = locks.mutex("a").acquire().await.unwrap();
    let second = locks.read_write("b").read().acquire().await.unwrap();
    let waiting = tokio::spawn(locks.mutex("door").acquire());
    while locks.query().pending.is_empty() {
        yield_now().await;
    }
    let found = locks.query();
    let (exclusive, shared) = (Mode::Exclusive, Mode::Shared);
    let held = vec![("a".to_owned(), exclusive), ("b".to_owned(), shared)];
    assert_eq!(names(&found), [held, vec![("door".to_owned(), exclusive)], vec![]]);
    let token = &other.inspect("a").await.unwrap().holders[0].token;
    assert!(token.starts_with(&format!("{}:", found.held[0].client)), "{token}");

    door.release().await.unwrap();
    let door = waiting.await.unwrap().unwrap();
    assert!(locks.query().pending.is_empty() && locks.query().held.len() == 3);
    // A lost lease is no longer held, though its value is still there.
    server.expire("a").unwrap();
    first.lost().await;
    drop((second, door));
    assert_eq!(names(&locks.query()), [vec![], vec![], vec![]]);

    // Lingering needs messages, so the manager must have subscribed.
    locks.mutex("c").linger(Duration::from_secs(5)).acquire().await.unwrap().release().await.unwrap();
    let found = names(&locks.query());
    assert_eq!(found, [vec![], vec![], vec![("c".to_owned(), exclusive)]]);
}

#[tokio::test(start_paused = true)]
async fn without_a_wait_an_acquire_is_busy_at_once() {
    let server = Server::new();
    let (locks, other) = (server.manager().unwrap(), server.manager().unwrap());
    let lease = locks.mutex("door").acquire().await.unwrap();
    for manager in [&locks, &other] {
        let busy = manager.mutex("door").wait(Wait::No).acquire().await.unwrap_err();
        assert!(matches!(&busy, Error::Busy { waited, .. } if waited.is_zero()), "{busy:?}");
    }
    lease.release().await.unwrap();
    assert!(locks.mutex("door").wait(Wait::No).acquire().await.is_ok());
}
