//! Elections on a server in memory, and on its time.

use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use leasehold::testing::Server;
use leasehold::{Election, Error, ErrorCode, Leader, LockManager, LossReason};
use tokio::time::{sleep, timeout};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn election(locks: &LockManager, value: &str) -> Election {
    locks.election("chief").value(value)
}

fn value(leader: Option<Leader>) -> Option<String> {
    leader.map(|leader| leader.value)
}

#[tokio::test(start_paused = true)]
async fn one_leads_the_next_follows_its_resignation_and_observers_learn_it() {
    let server = Server::new();
    let [first, second, third] = [(); 3].map(|()| server.manager().unwrap());
    let mut observer = election(&third, "").observe();
    assert_eq!(observer.next().await.unwrap(), None);

    let (a, b) = (election(&first, "a"), election(&second, "b b"));
    let term = a.campaign().await.unwrap();
    let leader = observer.next().await.unwrap().unwrap();
    assert_eq!((leader.value.as_str(), leader.fence), ("a", term.fence()));
    assert!(a.is_leader() && !b.is_leader() && term.is_leader() && term.verify().await.unwrap());

    let next = tokio::spawn(b.campaign());
    sleep(seconds(100)).await;
    assert!(!next.is_finished() && term.is_leader(), "the term is renewed");
    assert!(timeout(seconds(100), observer.next()).await.is_err(), "nothing has changed");
    let fence = term.fence();
    term.resign().await.unwrap();
    assert!(!a.is_leader());
    let next = next.await.unwrap().unwrap();
    assert!(next.fence() > fence && b.is_leader());
    assert_eq!(value(observer.next().await.unwrap()).as_deref(), Some("b b"));
    drop(next);
    assert_eq!(observer.next().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn in_an_outage_nobody_leads_once_the_ttl_is_over_and_campaigns_go_on() {
    let server = Server::new();
    let [first, second] = [(); 2].map(|()| server.manager().unwrap());
    let (a, b) = (election(&first, "a").ttl(seconds(10)), election(&second, "b").ttl(seconds(10)));
    let term = a.campaign().await.unwrap();
    let next = tokio::spawn(b.campaign());
    sleep(seconds(20)).await;
    server.stop();
    let lost = timeout(seconds(10), term.lost()).await.unwrap();
    assert_eq!(lost, LossReason::Expired);
    assert!(!a.is_leader() && !term.is_leader());
    drop(term);
    let again = tokio::spawn(a.campaign());
    sleep(seconds(300)).await;
    assert!(!next.is_finished() && !again.is_finished());
    server.start();
    let both = async {
        tokio::select! {
            term = next => term,
            term = again => term,
        }
    };
    let term = timeout(seconds(20), both).await.unwrap().unwrap().unwrap();
    assert!(term.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_program_that_does_not_stop_its_work_is_unhealthy_after_the_grace() {
    let server = Server::new();
    let locks = server.manager().unwrap();
    let election = election(&locks, "a");
    assert!(election.is_healthy(Duration::ZERO));
    let term = election.campaign().await.unwrap();
    sleep(seconds(60)).await;
    assert!(election.is_healthy(Duration::ZERO));
    server.expire("chief").unwrap();
    assert_eq!(term.lost().await, LossReason::Gone);
    sleep(seconds(5)).await;
    assert!(election.is_healthy(seconds(5)) && !election.is_healthy(seconds(4)));
    drop(term);
    assert!(election.is_healthy(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_campaign_that_is_dropped_ends_and_a_second_one_conflicts() {
    let server = Server::new();
    let [first, second] = [(); 2].map(|()| server.manager().unwrap());
    let term = election(&first, "a").campaign().await.unwrap();
    let conflict = election(&first, "b").campaign().await.unwrap_err();
    assert_eq!(conflict.code(), ErrorCode::Conflict.code());
    assert!(timeout(seconds(5), election(&second, "b").campaign()).await.is_err());
    term.resign().await.unwrap();
    sleep(seconds(1)).await;
    let term = election(&first, "c").campaign().await.unwrap();
    assert!(term.is_leader(), "the other campaign has ended");

    let mutex = second.mutex("chief").try_acquire().await.unwrap_err();
    assert!(matches!(mutex, Error::WrongKind { .. }), "{mutex}");
}

#[tokio::test(start_paused = true)]
async fn a_close_ends_campaigns_terms_and_observers() {
    let server = Server::new();
    let [first, second] = [(); 2].map(|()| server.manager().unwrap());
    let term = election(&first, "a").campaign().await.unwrap();
    let waits = tokio::spawn(election(&second, "b").campaign());
    let mut observer = election(&second, "").observe();
    assert_eq!(value(observer.next().await.unwrap()).as_deref(), Some("a"));
    second.close().await;
    assert!(matches!(waits.await.unwrap(), Err(Error::Closed)));
    assert!(matches!(observer.next().await, Err(Error::Closed)));
    assert!(matches!(observer.next().await, Err(Error::Closed)));
    assert!(observer.next().await.is_err() && StreamExt::next(&mut observer).await.is_none());

    assert_eq!(first.close().await.lost, 1);
    assert_eq!(term.lost().await, LossReason::Closed);
    let later = election(&first, "a").campaign().await;
    assert!(matches!(later, Err(Error::Closed)));
}

#[tokio::test(start_paused = true)]
async fn a_term_that_was_lost_stays_unhealthy_while_the_candidate_leads_again() {
    let server = Server::new();
    let locks = server.manager().unwrap();
    let election = election(&locks, "a");
    let first = election.campaign().await.unwrap();
    server.expire("chief").unwrap();
    assert_eq!(first.lost().await, LossReason::Gone);
    sleep(seconds(5)).await;
    let second = election.campaign().await.unwrap();
    assert!(election.is_leader() && !election.is_healthy(seconds(4)));
    drop(first);
    assert!(election.is_leader() && election.is_healthy(Duration::ZERO));
    second.resign().await.unwrap();
    assert!(!election.is_leader() && election.is_healthy(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_leader_leads_since_it_was_elected_however_late_the_change_is_fetched() {
    let server = Server::new();
    let [first, second] = [(); 2].map(|()| server.manager().unwrap());
    let observed = election(&second, "");
    let (mut late, mut prompt) = (observed.observe(), observed.observe());
    assert_eq!((late.next().await.unwrap(), prompt.next().await.unwrap()), (None, None));
    let _term = election(&first, "a").campaign().await.unwrap();
    assert!(prompt.next().await.unwrap().is_some());
    let known = SystemTime::now();
    while SystemTime::now() < known + Duration::from_millis(5) {
        std::hint::spin_loop();
    }
    let leader = late.next().await.unwrap().unwrap();
    assert!(leader.since <= known, "{:?} too late", leader.since.duration_since(known));
}

#[tokio::test(start_paused = true)]
async fn in_an_outage_observers_say_that_nobody_leads_once_the_ttl_and_a_claim_window_are_over() {
    let server = Server::new();
    let [first, second] = [(); 2].map(|()| server.manager().unwrap());
    let term = election(&first, "a").ttl(seconds(10)).campaign().await.unwrap();
    let mut observer = election(&second, "").observe();
    assert_eq!(value(observer.next().await.unwrap()).as_deref(), Some("a"));
    sleep(seconds(20)).await;
    server.stop();
    let told = timeout(seconds(10 + 3 + 3), observer.next()).await.expect("it still says that a leads");
    assert_eq!(told.unwrap(), None);
    assert_eq!(term.lost().await, LossReason::Expired);
    drop(term);
    server.start();
    let _again = timeout(seconds(20), election(&first, "b").campaign()).await.unwrap().unwrap();
    assert_eq!(value(observer.next().await.unwrap()).as_deref(), Some("b"));
}
