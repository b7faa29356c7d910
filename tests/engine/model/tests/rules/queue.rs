use crate::common::model::{Model, model_lock};
use crate::common::{EXCLUSIVE, Lock, SHARED, channel, token};

#[test]
fn waiters_are_served_in_the_order_they_came() {
    let mut lock = model_lock();
    for client in 1..=4 {
        lock.wait(&token(client, 1), EXCLUSIVE);
    }
    for client in 1..=4 {
        assert_eq!(lock.holder(), Some(token(client, 1)));
        lock.release(&token(client, 1));
    }
    assert_eq!(lock.holder(), None);
}

#[test]
fn waiters_keep_their_order_when_the_servers_clock_steps_back() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.host.now_us -= 1_000_000;
    assert_eq!(lock.wait(&token(3, 1), EXCLUSIVE).value, 2);
    assert_eq!(lock.queue(), [token(2, 1), token(3, 1)]);
}

#[test]
fn a_waiter_learns_its_place_and_how_long_the_holder_may_stay() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.pass_ms(100);
    let head = lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!((head.status.as_str(), head.value, head.ms, head.waiting), ("waiting", 1, 29_900, 1));
    let second = lock.wait(&token(3, 1), EXCLUSIVE);
    assert_eq!((second.status.as_str(), second.value, second.waiting), ("waiting", 2, 2));
}

#[test]
fn a_heartbeat_keeps_the_place_and_is_counted_once() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.pass_ms(1_000);
    let heartbeat = lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!((heartbeat.value, heartbeat.waiting), (1, 2));
    assert_eq!(lock.waiters()[0], (token(2, 1), "exclusive 30000 3000 1 1 1700000004000".to_owned()));
}

#[test]
fn every_answer_tells_the_holder_how_many_wait() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.wait(&token(3, 1), EXCLUSIVE);
    assert_eq!(lock.wait(&token(1, 1), EXCLUSIVE).waiting, 2);
    assert_eq!(lock.refill(&token(1, 1), EXCLUSIVE).waiting, 2);
    assert_eq!(lock.try_acquire(&token(4, 1), EXCLUSIVE).waiting, 2);
    assert_eq!(lock.convert(&token(1, 1), &token(1, 2), SHARED).waiting, 2);
    assert_eq!(lock.release(&token(9, 1)).waiting, 2);
    assert_eq!(lock.release(&token(1, 2)).waiting, 1, "the head was granted");
    assert_eq!(lock.renew(&token(2, 1), EXCLUSIVE, 5_000).waiting, -1, "a renewal does not see the queue");
}

#[test]
fn a_silent_waiter_is_dropped_after_its_claim_window_when_it_is_its_turn() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.pass_ms(2_000);
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.pass_ms(1_000);
    lock.release(&token(1, 1));
    assert_eq!(lock.holder(), Some(token(3, 1)));
    assert_eq!(lock.waiters(), []);
}

#[test]
fn a_late_heartbeat_refreshes_itself_before_anybody_is_dropped() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.claim = 60_000;
    lock.wait(&token(9, 9), EXCLUSIVE);
    lock.release(&token(9, 9));
    // The side keys now live for a minute, but the head's own record expires after three seconds.
    lock.claim = 3_000;
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.claim = 60_000;
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.pass_ms(5_000);
    assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).value, 1);
    assert_eq!(lock.queue(), [token(2, 1), token(3, 1)]);
}

#[test]
fn a_waiter_that_tries_while_the_lock_is_held_keeps_its_place() {
    let mut lock = model_lock();
    let [holder, first, second] = [token(1, 1), token(2, 1), token(3, 1)];
    lock.wait(&holder, EXCLUSIVE);
    lock.wait(&first, EXCLUSIVE);
    lock.wait(&second, EXCLUSIVE);
    for _ in 0..3 {
        lock.pass_ms(lock.claim * 2 / 3);
        assert_eq!(lock.try_acquire(&first, EXCLUSIVE).status, "busy");
        lock.wait(&second, EXCLUSIVE);
    }
    assert_eq!(lock.wait(&first, EXCLUSIVE).value, 1, "it is still the first");
}

#[test]
fn the_queue_lives_as_long_as_its_most_patient_waiter() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.claim = 500;
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.pass_ms(100);
    lock.wait(&token(3, 1), EXCLUSIVE);
    assert_eq!((lock.pttl(2), lock.pttl(3)), (2_900, 2_900));
}

#[test]
fn a_waiter_whose_record_was_lost_is_dropped_when_it_is_its_turn() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.command(&["DEL", "leasehold:{invoice:42}:waiters"]);
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.release(&token(1, 1));
    assert_eq!(lock.holder(), Some(token(3, 1)));
}

#[test]
fn a_lost_queue_is_joined_again_by_the_next_heartbeat() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.command(&["DEL", "leasehold:{invoice:42}:queue"]);
    assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).value, 1);
    assert_eq!(lock.queue(), [token(2, 1)]);
}

#[test]
fn the_head_and_only_the_head_tells_the_holder_that_it_is_wanted() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    let wanted = vec![(channel(&token(1, 1)), "wanted invoice:42".to_owned())];
    assert_eq!(lock.messages(), wanted);
    lock.wait(&token(3, 1), EXCLUSIVE);
    assert_eq!(lock.messages(), []);
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!(lock.messages(), wanted);
    lock.try_acquire(&token(4, 1), EXCLUSIVE);
    let tried = vec![(channel(&token(1, 1)), "tried invoice:42".to_owned())];
    assert_eq!(lock.messages(), tried, "a try never waits");
}

#[test]
fn the_head_tells_every_reader_that_it_is_wanted_but_at_most_64() {
    let mut lock = model_lock();
    for client in 1..=70 {
        lock.wait(&token(client, 1), SHARED);
    }
    lock.wait(&token(99, 1), EXCLUSIVE);
    let messages = lock.messages();
    assert_eq!(messages.len(), 64);
    assert_eq!(messages[0], (channel(&token(1, 1)), "wanted invoice:42".to_owned()));
}

#[test]
fn a_token_that_was_given_up_counts_for_no_position_and_no_length() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.release_with_tombstone(&token(9, 1), 60_000);
    let told = |lock: &mut Lock<Model>, number| {
        let answer = lock.wait(&token(number, 1), EXCLUSIVE);
        (answer.value, answer.waiting)
    };
    assert_eq!(told(&mut lock, 2), (1, 1), "the first joins");
    assert_eq!(told(&mut lock, 3), (2, 2), "the second joins");
    assert_eq!((told(&mut lock, 2), told(&mut lock, 3)), ((1, 2), (2, 2)), "heartbeats");
    assert_eq!(lock.try_acquire(&token(4, 1), EXCLUSIVE).waiting, 2);
    assert_eq!(lock.release(&token(1, 1)).waiting, 1);
    assert_eq!((lock.holder(), lock.is_marked()), (Some(token(2, 1)), true));
    assert_eq!(lock.release(&token(2, 1)).waiting, 0);
    assert_eq!((lock.holder(), lock.is_marked()), (Some(token(3, 1)), false), "a tombstone marks no holder");
}

#[test]
fn a_token_that_was_given_up_stays_so_while_others_wait() {
    let mut lock = model_lock();
    for others in 0..3 {
        (0..others).for_each(|other| drop(lock.wait(&token(other, 1), EXCLUSIVE)));
        lock.wait(&token(5, 1), EXCLUSIVE);
        lock.release_with_tombstone(&token(9, others.into()), 60_000);
        for how in ["wait", "try"] {
            assert_eq!(
                lock.acquire(&token(9, others.into()), EXCLUSIVE, how).unwrap().status,
                "gone",
                "{how} {others}"
            );
        }
    }
}

#[test]
fn a_tombstone_lasts_until_its_end_even_if_others_wait_meanwhile() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.release_with_tombstone(&token(9, 1), 60_000);
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!(lock.pttl(2), 60_000);
    lock.pass_ms(58_000);
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!(lock.pttl(2), 3_000, "a waiter still needs its place");
}

#[test]
fn tombstones_that_are_over_are_removed_by_the_next_grant() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.release_with_tombstone(&token(8, 1), 60_000);
    lock.release_with_tombstone(&token(9, 1), 500);
    lock.wait(&token(2, 1), SHARED);
    lock.pass_ms(1_000);
    assert_eq!(lock.tombstones().len(), 2);
    lock.release(&token(1, 1));
    assert_eq!((lock.holder(), lock.tombstones()), (Some("shared".to_owned()), vec![token(8, 1)]));
}

#[test]
fn a_token_never_holds_and_waits_at_once() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.release(&token(1, 1));
    assert_eq!((lock.holder(), lock.queue(), lock.waiters()), (Some(token(2, 1)), vec![], vec![]));
    assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).status, "again");
    assert_eq!(lock.queue(), Vec::<String>::new());
}

#[test]
fn a_try_does_not_overtake_those_who_wait() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.command(&["DEL", "invoice:42"]);
    assert_eq!(lock.try_acquire(&token(3, 1), EXCLUSIVE).status, "busy");
    assert_eq!(lock.holder(), Some(token(2, 1)));
}

#[test]
fn a_waiter_may_try_and_enter_when_it_is_the_head() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.pass_ms(2_000);
    assert_eq!(lock.try_acquire(&token(2, 1), EXCLUSIVE).status, "busy");
    lock.pass_ms(2_000);
    lock.command(&["DEL", "invoice:42"]);
    assert_eq!(lock.try_acquire(&token(2, 1), EXCLUSIVE).status, "entered", "the try refreshed its place");
}

/// Writes waiters into the queue that died long ago.
fn crowd(lock: &mut Lock<Model>, dead: u32) {
    let [_, _, queue, waiters, ..] = lock.keys.clone();
    let dead = (0..dead).map(|place| ((1_000 + place).to_string(), token(1_000_000 + place, 1))).collect::<Vec<_>>();
    let joins = dead.iter().flat_map(|(score, token)| [score.as_str(), token]);
    lock.command(&["ZADD", &queue].into_iter().chain(joins).collect::<Vec<_>>());
    let records = dead.iter().flat_map(|(_, token)| [token.as_str(), "exclusive 30000 3000 1 1 5"]);
    lock.command(&["HSET", &waiters].into_iter().chain(records).collect::<Vec<_>>());
}

#[test]
fn a_script_drops_about_a_thousand_dead_waiters_and_grants_nobody_past_the_others() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    crowd(&mut lock, 2_200);
    assert_eq!(lock.release(&token(1, 1)).waiting, 2_200 - 1_111);
    assert_eq!(lock.holder(), None);
    let busy = lock.try_acquire(&token(2, 1), EXCLUSIVE);
    assert_eq!((busy.status.as_str(), busy.block, busy.waiting), ("entered", 1, 0), "the next call drops the others");
}

#[test]
fn a_client_behind_a_crowd_of_dead_waiters_is_told_to_ask_again_at_once() {
    let mut lock = model_lock();
    crowd(&mut lock, 3_300);
    let waiting = lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!((waiting.status.as_str(), waiting.block, waiting.ms), ("waiting", 1, -2));
    assert_eq!(waiting.value, 3_300 - 1_111 + 1);
    let busy = lock.try_acquire(&token(3, 1), EXCLUSIVE);
    assert_eq!((busy.status.as_str(), busy.block, busy.ms), ("busy", 1, -2));
    assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).status, "entered");
}

#[test]
fn only_the_dead_before_the_first_live_waiter_are_dropped() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.release_with_tombstone(&token(9, 1), 60_000);
    crowd(&mut lock, 30);
    lock.wait(&token(2, 1), SHARED);
    lock.wait(&token(3, 1), SHARED);
    let late = token(2_000_000, 1);
    lock.command(&["ZADD", "leasehold:{invoice:42}:queue", "9007199254740000", &late]);
    lock.release(&token(1, 1));
    assert_eq!((lock.readers(), lock.queue()), (vec![token(2, 1), token(3, 1)], vec![]));
    crowd(&mut lock, 30);
    lock.wait(&token(4, 1), EXCLUSIVE);
    lock.command(&["ZADD", "leasehold:{invoice:42}:queue", "9007199254740000", &late]);
    lock.wait(&token(4, 1), EXCLUSIVE);
    assert_eq!(lock.queue(), [token(4, 1), late]);
}
