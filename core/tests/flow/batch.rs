//! What a client has to say to a server at one moment travels as one call.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Config, DeleteIfEqual, Error, Failure, Input, Instant, Mode, NodeId, Outcome, Reason,
    ReleaseOutcome, Reply, Scalar, Wait,
};
use leasehold_harness::answers::Entry;

use crate::client::{Client, SERVER_US, answer_anything, batch_reply, denied, entries, fixed, name_of, tries, words};

/// A client whose driver always has more to say, until the test wakes the engine.
fn batching() -> Client {
    batching_with(Config::default())
}

fn batching_with(config: Config) -> Client {
    let mut client = Client::new(config);
    client.busy = true;
    client
}

/// The names in the only command that is out, with what each wants.
fn out(client: &Client) -> Vec<(String, String)> {
    let [(_, command)] = &client.unanswered[..] else { panic!("{:?}", client.unanswered) };
    let owned = |entry: Entry<'_>| (entry.what.to_owned(), entry.name.to_owned());
    entries(command).expect("a batch").into_iter().map(owned).collect()
}

/// The server answers the oldest command, a batch, and leaves the entries about these names undone.
fn leave_undone(client: &mut Client, names: &[&str]) {
    let (id, command) = client.unanswered.remove(0);
    let undone = |name: &str| names.contains(&name).then_some(0);
    let reply = batch_reply(&entries(&command).expect("a batch"), client.now, |entry| undone(entry.name));
    client.reply(id, Ok(reply));
}

fn fail(client: &mut Client, failure: Failure) {
    client.answer_with(Err(failure));
}

#[test]
fn what_is_said_at_one_moment_travels_as_one_call() {
    let mut client = batching();
    let calls: Vec<_> = (0..64).map(|place| client.acquire(&format!("n{place}"), fixed())).collect();
    assert!(client.unanswered.is_empty(), "the driver may have more to say");
    let now = client.now;
    assert_eq!(client.engine.poll_timeout().map(|(at, why)| (at.as_micros() <= now, why)), Some((true, Reason::Batch)));

    client.feed(Input::Wake);
    assert_eq!(out(&client).len(), 64);
    client.now += 300;
    client.answer();

    let mut fences = Vec::new();
    for call in calls {
        let grant = client.grant_of(call);
        // As if each command had travelled alone: counted from when it was sent, less drift and margin.
        assert_eq!(grant.valid_until.as_micros(), 1_000_000 + 600_000_000 - 6_002_000 - 50_000);
        fences.push(grant.fence);
    }
    assert!(fences.iter().all(|fence| *fence == 1_700_000_000_000_000 + client.now));
    assert!(client.unanswered.is_empty());
}

#[test]
fn a_command_that_is_alone_has_a_short_script_of_its_own() {
    let mut client = batching();
    let call = client.acquire("alone", fixed());
    client.feed(Input::Wake);
    assert_eq!(words(&client.unanswered[0].1)[1], leasehold_lua::ACQUIRE_FAST.sha1);
    client.answer();
    let grant = client.grant_of(call);
    let op = client.call(|op| Input::Release { op, lease: grant.lease });
    client.feed(Input::Wake);
    let released = words(&client.unanswered[0].1);
    assert_eq!(released[1], leasehold_lua::RELEASE_FAST.sha1);
    assert!(released[4].ends_with(&format!(":1 {}", grant.fence)), "the value as it was written: {}", released[4]);
    client.answer();
    assert_eq!(client.result_of(op), Some(&Ok(Outcome::Released(ReleaseOutcome::Released))));
}

/// What a client sends that holds a lock and releases it.
fn release(client: &mut Client, name: &str) -> Vec<String> {
    let call = client.acquire(name, fixed());
    client.feed(Input::Wake);
    client.answer();
    let lease = client.grant_of(call).lease;
    client.call(|op| Input::Release { op, lease });
    client.feed(Input::Wake);
    words(&client.unanswered[0].1)
}

#[test]
fn a_release_alone_needs_no_script_where_the_server_can_delete_a_key_by_its_value() {
    for (how, expected) in
        [(DeleteIfEqual::DelIfEq, &["DELIFEQ", "alone"][..]), (DeleteIfEqual::DelEx, &["DELEX", "alone", "IFEQ"])]
    {
        let mut client = batching();
        client.engine.set_delete_if_equal(Some(how));
        let released = release(&mut client, "alone");
        let (value, command) = released.split_last().unwrap();
        assert_eq!(command, expected);
        assert!(value.contains(":1 17"), "the value as it was written: {value}");
        assert_eq!(client.unanswered[0].1.key(), Some(&b"alone"[..]));
        client.answer();
        assert_eq!(
            client.ended.last().map(|(_, result)| result),
            Some(&Ok(Outcome::Released(ReleaseOutcome::Released)))
        );
    }
}

#[test]
fn a_release_without_a_script_that_finds_waiters_is_sent_to_its_own_script() {
    let mut client = batching();
    client.engine.set_delete_if_equal(Some(DeleteIfEqual::DelIfEq));
    release(&mut client, "wanted");
    client.answer_with(Ok(Reply::One(Scalar::Int(0))));
    assert_eq!(words(&client.unanswered[0].1)[1], leasehold_lua::RELEASE.sha1);
    client.answer();
    assert_eq!(release(&mut client, "next")[0], "DELIFEQ");
}

#[test]
fn a_server_that_refuses_the_release_without_a_script_gets_scripts_from_then_on() {
    for refusal in ["ERR unknown command 'DELIFEQ'", "NOPERM User a has no permissions to run the 'delifeq' command"] {
        let mut client = batching();
        client.engine.set_delete_if_equal(Some(DeleteIfEqual::DelIfEq));
        release(&mut client, "first");
        client.answer_with(Err(Failure::Refused(refusal.into())));
        assert_eq!(words(&client.unanswered[0].1)[1], leasehold_lua::RELEASE.sha1);
        client.answer();
        assert_eq!(release(&mut client, "second")[1], leasehold_lua::RELEASE_FAST.sha1);
    }
}

#[test]
fn a_cluster_always_uses_scripts() {
    let mut client = batching();
    client.engine.set_cluster(NodeId(0));
    client.engine.set_delete_if_equal(Some(DeleteIfEqual::DelIfEq));
    assert_eq!(release(&mut client, "alone")[1], leasehold_lua::RELEASE_FAST.sha1);
}

#[test]
fn a_command_alone_whose_fast_path_does_nothing_is_sent_to_its_own_script() {
    let mut client = batching();
    let call = client.acquire("held", tries());
    client.feed(Input::Wake);
    leave_undone(&mut client, &["held"]);
    assert_eq!(words(&client.unanswered[0].1)[1], leasehold_lua::ACQUIRE.sha1);
    client.answer();
    assert!(matches!(client.result_of(call), Some(Ok(Outcome::Acquired(_)))));
}

#[test]
fn a_fence_above_the_clock_is_answered_with_the_clock() {
    let mut client = batching();
    let call = client.acquire("alone", fixed());
    client.feed(Input::Wake);
    let server = SERVER_US + client.now as i64;
    client.answer_with(Ok(Reply::List([server, server + 7].map(Scalar::Int).to_vec())));
    let grant = client.grant_of(call);
    assert_eq!(grant.fence as i64, server + 7);
}

#[test]
fn a_release_tells_a_fence_that_the_servers_clock_may_not_have_reached() {
    for passes in [false, true] {
        let mut client = batching();
        let mut lease = client.hold(1, AcquireOptions { linger: Some(Duration::from_secs(1)), ..fixed() })[0];
        client.feed(Input::Subscribed { node: NodeId(0), channel: "leasehold:07070707-0707-0707-0707-070707070707" });
        let mut last = 0;
        // Ten hand-overs in no time.
        for _ in 0..10 {
            let (op, call) = (client.next_op(), client.next_op());
            let options = fixed();
            client.feed(Input::Acquire { op: call, name: "n0", options: &options });
            client.feed(Input::Release { op, lease });
            let grant = client.grant_of(call);
            (lease, last) = (grant.lease, grant.fence);
        }
        if passes {
            client.now += 1_000;
        }
        client.call(|op| Input::Release { op, lease });
        client.feed(Input::Wake);
        let words = words(&client.unanswered.last().unwrap().1);
        if passes {
            assert_eq!(words[1], leasehold_lua::RELEASE_FAST.sha1);
        } else {
            assert_eq!((words[1].as_str(), words[11].as_str()), (leasehold_lua::RELEASE.sha1, &*last.to_string()));
        }
    }
}

#[test]
fn an_entry_that_was_left_undone_is_sent_alone_with_the_same_token() {
    let mut client = batching();
    let [free, held] = ["free", "held"].map(|name| client.acquire(name, fixed()));
    client.feed(Input::Wake);
    let token = entries(&client.unanswered[0].1).expect("a batch")[1].token.to_owned();
    leave_undone(&mut client, &["held"]);
    assert!(matches!(client.result_of(free), Some(Ok(Outcome::Acquired(_)))));

    let [(_, command)] = &client.unanswered[..] else { panic!("{:?}", client.unanswered) };
    assert!(name_of(command) == "held" && words(command).contains(&token));
    client.answer();
    assert!(matches!(client.result_of(held), Some(Ok(Outcome::Acquired(_)))));
}

#[test]
fn a_try_for_a_held_lock_is_busy_and_its_neighbour_is_not() {
    let mut client = batching();
    let [free, held] = ["free", "held"].map(|name| client.acquire(name, tries()));
    client.feed(Input::Wake);
    leave_undone(&mut client, &["held"]);
    client.answer_with(Ok(denied("busy")));
    assert!(matches!(client.result_of(free), Some(Ok(Outcome::Acquired(_)))));
    assert!(matches!(client.result_of(held), Some(Err(Error::Busy { .. }))), "{:?}", client.result_of(held));
}

#[test]
fn a_call_that_is_refused_as_a_whole_is_split_so_that_one_name_is_not_another_ones_error() {
    let mut client = batching();
    let [mine, forbidden] = ["mine", "forbidden"].map(|name| client.acquire(name, fixed()));
    client.feed(Input::Wake);
    fail(&mut client, Failure::Refused("NOPERM No permissions to access a key".into()));
    assert_eq!(client.unanswered.len(), 2);
    client.answer();
    fail(&mut client, Failure::Refused("NOPERM No permissions to access a key".into()));
    assert!(matches!(client.result_of(mine), Some(Ok(Outcome::Acquired(_)))));
    assert!(matches!(client.result_of(forbidden), Some(Err(Error::Auth(_)))), "{:?}", client.result_of(forbidden));
}

#[test]
fn a_server_that_lost_the_script_gets_its_text_at_once_and_only_then() {
    for names in [&["a", "b"][..], &["a"]] {
        let mut client = batching();
        for round in 0..2 {
            for name in names {
                client.acquire(&format!("{name}{round}"), fixed());
            }
            client.feed(Input::Wake);
            assert_eq!(words(&client.unanswered[0].1)[0], "EVALSHA");
            if round == 0 {
                fail(&mut client, Failure::Refused("NOSCRIPT No matching script.".into()));
                assert_eq!(words(&client.unanswered[0].1)[0], "EVAL");
            }
            client.serve(Duration::from_micros(100));
        }
        assert_eq!(client.ended.len(), 2 * names.len());
        assert!(client.ended.iter().all(|(_, result)| result.is_ok()));
    }
}

#[test]
fn releases_go_first_so_that_the_next_caller_of_the_same_name_finds_it_free() {
    let mut client = batching();
    let leases = client.hold(2, fixed());
    client.acquire("other", fixed());
    for lease in leases {
        client.call(|op| Input::Release { op, lease });
    }
    client.acquire("n0", fixed());
    client.feed(Input::Wake);
    let sent: Vec<_> = out(&client).into_iter().map(|(what, name)| what + " " + &name).collect();
    assert_eq!(sent, ["release n0", "release n1", "acquire other", "acquire n0"]);
}

#[test]
fn entries_of_a_call_without_a_reply_are_asked_again_each_with_its_token_and_a_late_reply_grants_nothing_twice() {
    let mut client = batching();
    let calls = ["a", "b"].map(|name| client.acquire(name, fixed()));
    client.feed(Input::Wake);
    let (late, command) = client.unanswered.remove(0);
    let token = |entry: Entry<'_>| entry.token.to_owned();
    let tokens = |command| entries(command).expect("a batch").into_iter().map(token).collect::<Vec<_>>();
    let before = tokens(&command);
    client.pass(Duration::from_millis(2_500));
    let mut again: Vec<String> = Vec::new();
    for (_, command) in &client.unanswered {
        match entries(command) {
            Some(_) => again.extend(tokens(command)),
            None => again.push(words(command)[9].clone()),
        }
    }
    assert!(before.iter().all(|token| again.contains(token)), "{before:?} {again:?}");
    client.serve(Duration::from_micros(100));
    let ended = client.ended.len();
    let reply = batch_reply(&entries(&command).expect("a batch"), client.now, |_| None);
    client.feed(Input::Reply { id: late, result: Ok(reply) });
    assert_eq!((client.ended.len(), ended), (2, 2));
    assert!(calls.iter().all(|call| matches!(client.result_of(*call), Some(Ok(Outcome::Acquired(_))))));
}

#[test]
fn while_two_calls_are_out_the_next_waits_and_grows() {
    let mut client = batching();
    for round in 0..2 {
        client.acquire(&format!("first{round}"), fixed());
        client.feed(Input::Wake);
    }
    for place in 0..10 {
        client.acquire(&format!("next{place}"), fixed());
        client.feed(Input::Wake);
    }
    assert_eq!(client.unanswered.len(), 2);
    client.answer();
    client.feed(Input::Wake);
    assert_eq!(client.unanswered.len(), 2, "the ten share a batch");
    assert_eq!(entries(&client.unanswered[1].1).map(|entries| entries.len()), Some(10));
}

#[test]
fn lost_replies_hold_a_command_up_for_20_ms_at_most_even_if_earlier_replies_were_slow() {
    let mut client = batching();
    client.acquire("slow", fixed());
    client.feed(Input::Wake);
    client.pass(Duration::from_millis(500));
    client.answer();
    for round in 0..2 {
        client.acquire(&format!("lost{round}"), fixed());
        client.feed(Input::Wake);
    }
    client.acquire("next", fixed());
    client.pass(Duration::from_millis(21));
    assert!(client.unanswered.iter().any(|(_, command)| name_of(command) == "next"));
}

#[test]
fn a_full_window_serves_first_what_is_needed_first_alone_or_in_a_batch() {
    let mut client = batching_with(Config { max_in_flight: 1, ..Config::default() });
    client.acquire("busy", fixed());
    client.feed(Input::Wake);
    let mut left = Vec::new();
    for round in 0..20 {
        client.pass(Duration::from_millis(10));
        let name = format!("alone{round}");
        client.call(|op| Input::Inspect { op, name: &name });
        client.acquire(&format!("together{round}"), fixed());
        client.feed(Input::Wake);
        answer_anything(&mut client);
        client.feed(Input::Wake);
        left.extend(client.unanswered.iter().map(|(_, command)| entries(command).is_some()));
    }
    assert!(left.iter().filter(|together| **together).count() >= 4, "{left:?}");
}

#[test]
fn no_call_has_more_than_64_entries_and_64_never_wait() {
    let mut client = batching();
    for place in 0..1_000 {
        client.acquire(&format!("n{place}"), fixed());
    }
    client.feed(Input::Wake);
    let sizes: Vec<_> =
        client.unanswered.iter().map(|(_, command)| entries(command).map_or(1, |all| all.len())).collect();
    assert_eq!(sizes[..15], [64; 15]);
    client.serve(Duration::from_micros(100));
    assert_eq!(client.ended.len(), 1_000);
}

#[test]
fn a_call_that_is_cancelled_before_its_command_left_sends_nothing() {
    let mut client = batching();
    let [kept, cancelled] = ["kept", "cancelled"].map(|name| client.acquire(name, fixed()));
    client.feed(Input::Cancel { op: cancelled });
    client.feed(Input::Wake);
    assert_eq!(name_of(&client.unanswered[0].1), "kept");
    client.serve(Duration::from_micros(100));
    assert!(matches!(client.result_of(kept), Some(Ok(Outcome::Acquired(_)))));
    assert_eq!(client.result_of(cancelled), Some(&Err(Error::Cancelled)));
}

#[test]
fn a_call_that_is_cancelled_while_its_entry_is_out_leaves_no_lock_behind() {
    let mut client = batching();
    let [_, cancelled] = ["kept", "held"].map(|name| client.acquire(name, fixed()));
    client.feed(Input::Wake);
    client.feed(Input::Cancel { op: cancelled });
    leave_undone(&mut client, &["held"]);
    client.feed(Input::Wake);
    // The token has a tombstone, so no late copy of its command can take the lock. The command itself is not sent again.
    let about: Vec<_> = client.unanswered.iter().filter(|(_, command)| name_of(command) == "held").collect();
    assert_eq!(about.len(), 1, "{about:?}");
    assert_eq!(words(&about[0].1)[10], "60000", "a release that leaves a tombstone");
}

#[test]
fn a_reply_that_no_script_of_ours_gives_is_an_error_and_grants_nothing() {
    for number in [-1, 1 << 53, i64::MAX] {
        let mut client = batching();
        let calls = ["a", "b"].map(|name| client.acquire(name, fixed()));
        client.feed(Input::Wake);
        let (id, _) = client.unanswered.remove(0);
        let server = SERVER_US + client.now as i64;
        let result = Ok(Reply::List([server, number, 1, 1].map(Scalar::Int).to_vec()));
        client.feed(Input::Reply { id, result });
        for call in calls {
            assert!(matches!(client.result_of(call), Some(Err(Error::Protocol(_)))), "{:?}", client.result_of(call));
        }
    }
}

#[test]
fn the_fences_of_a_block_end_where_the_server_ends_them() {
    let mut client = batching();
    let options = AcquireOptions { linger: Some(Duration::from_millis(100)), ..fixed() };
    client.acquire("other", options);
    let mut call = client.acquire("n", options);
    client.feed(Input::Wake);
    // A fence this far ahead of the server's clock leaves room for one more.
    let (id, _) = client.unanswered.remove(0);
    let server = SERVER_US + client.now as i64;
    let ahead = server + 1_022;
    let result = Ok(Reply::List([server, ahead, 1, 1].map(Scalar::Int).to_vec()));
    client.feed(Input::Reply { id, result });
    client.feed(Input::Subscribed { node: NodeId(0), channel: "leasehold:07070707-0707-0707-0707-070707070707" });
    let mut fences = Vec::new();
    while let Some(Ok(Outcome::Acquired(grant))) = client.result_of(call).cloned() {
        fences.push(grant.fence as i64 - ahead);
        let (op, lease) = (client.next_op(), grant.lease);
        client.feed(Input::Release { op, lease });
        call = client.acquire("n", options);
    }
    assert_eq!(fences, [0, 1], "the third caller waits for more");
}

#[test]
fn in_a_cluster_only_names_of_one_slot_share_a_batch() {
    let mut client = batching();
    client.engine.set_cluster(NodeId(0));
    for name in ["a", "{tenant}1", "b", "{tenant}2", "c", "{tenant}3"] {
        client.acquire(name, fixed());
    }
    client.feed(Input::Wake);
    let mut calls: Vec<Vec<String>> = client
        .unanswered
        .iter()
        .map(|(_, command)| entries(command).unwrap().into_iter().map(|entry| entry.name.to_owned()).collect())
        .collect();
    calls.sort();
    assert_eq!(calls, [vec!["a"], vec!["b"], vec!["c"], vec!["{tenant}1", "{tenant}2", "{tenant}3"]]);
}

#[test]
fn the_requests_of_every_kind_of_lock_share_a_batch() {
    let mut client = batching();
    let semaphore = leasehold_core::Kind::Semaphore { permits: 1, limit: 2 };
    let reentrant = leasehold_core::Kind::Reentrant(leasehold_core::Owner(1));
    let calls = [
        client.acquire("read", AcquireOptions { mode: Mode::Shared, ..fixed() }),
        client.acquire("permits", AcquireOptions { kind: semaphore, ..fixed() }),
        client.acquire("reentrant", AcquireOptions { kind: reentrant, ..fixed() }),
    ];
    client.feed(Input::Wake);
    let words = |all: [&str; 3]| {
        all.map(|text| text.split_once(' ').map(|(what, name)| (what.to_owned(), name.to_owned())).unwrap())
    };
    assert_eq!(out(&client), words(["share read", "permit permits", "acquire-reentrant reentrant"]));
    client.answer();
    for call in calls {
        let grant = client.grant_of(call);
        client.call(|op| Input::Release { op, lease: grant.lease });
    }
    client.feed(Input::Wake);
    assert_eq!(out(&client), words(["unshare read", "unpermit permits", "release-reentrant reentrant"]));
}

/// Only a lock that nobody waits for is given back by the fast path.
#[test]
fn a_batch_tells_whether_others_wait_for_a_reentrant_lock() {
    for (number, wanted) in [(1, false), (2, true)] {
        let mut client = batching();
        let reentrant = leasehold_core::Kind::Reentrant(leasehold_core::Owner(1));
        let call = client.acquire("job", AcquireOptions { kind: reentrant, ..fixed() });
        client.acquire("other", fixed());
        client.feed(Input::Wake);
        let (id, command) = client.unanswered.remove(0);
        let say = |entry: &Entry<'_>| (entry.name == "job").then_some(number);
        let reply = batch_reply(&entries(&command).expect("a batch"), client.now, say);
        client.reply(id, Ok(reply));
        let grant = client.grant_of(call);
        client.call(|op| Input::Release { op, lease: grant.lease });
        client.feed(Input::Wake);
        let common = client.unanswered.iter().any(|(_, command)| entries(command).is_some());
        assert_eq!(common, !wanted, "{number}");
    }
}

#[test]
fn a_renewal_that_waits_for_others_does_not_leave_once_the_lease_needs_none() {
    for keeps in [false, true] {
        let mut client = batching();
        let call = client.acquire("kept", AcquireOptions { wait: Wait::No, ..AcquireOptions::default() });
        client.feed(Input::Wake);
        client.pass(Duration::from_millis(500));
        client.answer();
        let grant = client.grant_of(call);
        client.pass(Duration::from_secs(8));
        client.unanswered.clear();
        for round in 0..2 {
            client.acquire(&format!("lost{round}"), fixed());
            client.feed(Input::Wake);
        }
        let waits = |client: &Client| client.engine.poll_timeout().is_some_and(|(_, reason)| reason == Reason::Batch);
        while !waits(&client) {
            client.pass(Duration::from_millis(1));
        }
        if keeps {
            let until = Instant::from_micros(client.now + 1_000_000);
            client.feed(Input::Keep { lease: grant.lease, until });
        }
        client.pass(Duration::from_millis(25));
        assert_eq!(client.unanswered.iter().any(|(_, command)| name_of(command) == "kept"), !keeps);
    }
}

#[test]
fn ten_thousand_leases_are_renewed_with_at_most_20_calls_a_second() {
    let mut client = batching();
    let options = AcquireOptions { wait: Wait::No, ..AcquireOptions::default() };
    for place in 0..10_000 {
        client.acquire(&format!("n{place}"), options);
        if place % 100 == 0 {
            client.pass(Duration::from_millis(97));
            client.serve(Duration::from_micros(50));
        }
    }
    client.pass(Duration::ZERO);
    client.serve(Duration::from_micros(50));
    let mut calls = 0;
    for _ in 0..30_000 {
        client.pass(Duration::from_millis(1));
        while !client.unanswered.is_empty() {
            client.answer();
            calls += 1;
            client.feed(Input::Wake);
        }
    }
    assert!(client.lost.is_empty());
    assert!((400..=600).contains(&calls), "{calls} calls in 30 s");
}

#[test]
fn a_close_gives_ten_thousand_leases_back_in_batches() {
    let mut client = batching();
    let leases = {
        for place in 0..10_000 {
            client.acquire(&format!("n{place}"), fixed());
        }
        client.pass(Duration::ZERO);
        client.serve(Duration::from_micros(50));
        client.ended.drain(..).filter(|(_, result)| result.is_ok()).count()
    };
    assert_eq!(leases, 10_000);
    let op = client.call(|op| Input::Close { op });
    client.pass(Duration::ZERO);
    let calls = client.serve(Duration::from_micros(50));
    assert!(calls <= 170, "{calls} calls");
    assert_eq!(client.result_of(op), Some(&Ok(Outcome::Closed { lost: 10_000, unreleased: 0 })));
}

#[test]
fn a_released_lease_that_was_gone_is_told_as_expired() {
    let mut client = batching();
    let leases = client.hold(2, fixed());
    let ops: Vec<_> = leases.iter().map(|lease| (client.next_op(), *lease)).collect();
    for (op, lease) in &ops {
        client.feed(Input::Release { op: *op, lease: *lease });
    }
    client.feed(Input::Wake);
    leave_undone(&mut client, &["n1"]);
    let (id, command) = client.unanswered.remove(0);
    assert_eq!(name_of(&command), "n1");
    client.reply(id, Ok(denied("gone")));
    assert_eq!(client.result_of(ops[0].0), Some(&Ok(Outcome::Released(ReleaseOutcome::Released))));
    assert_eq!(client.result_of(ops[1].0), Some(&Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired))));
}

#[test]
fn a_later_caller_of_a_command_that_waits_for_room_has_its_time_again() {
    // Nothing is sent again meanwhile.
    let claim_window = Duration::from_secs(30);
    let mut client = batching_with(Config { max_in_flight: 1, claim_window, ..Config::default() });
    let timeout = Config::default().response_timeout;
    client.acquire("first", fixed());
    client.feed(Input::Wake);
    let holds = client.acquire("n", tries());
    client.pass(Duration::from_millis(10));
    let tries = client.acquire("n", tries());
    client.pass(timeout - Duration::from_millis(20));
    client.answer();
    client.feed(Input::Wake);
    assert_eq!(name_of(&client.unanswered[0].1), "n");

    // The time of the second call is over, and its command left a moment ago.
    client.pass(Duration::from_millis(30));
    assert_eq!(client.result_of(tries), None);
    client.answer();
    assert!(matches!(client.result_of(holds), Some(Ok(Outcome::Acquired(_)))), "{:?}", client.ended);
    assert!(matches!(client.result_of(tries), Some(Err(Error::Busy { .. }))), "{:?}", client.ended);
}

#[test]
fn the_time_of_a_release_that_was_left_undone_begins_when_it_leaves_alone() {
    let mut client = batching_with(Config { max_in_flight: 2, ..Config::default() });
    let timeout = Config::default().response_timeout;
    let leases = client.hold(2, fixed());
    let calls: Vec<_> = leases.into_iter().map(|lease| client.call(|op| Input::Release { op, lease })).collect();
    client.feed(Input::Wake);
    // Something waits for room meanwhile, so the call's time depends on when its command left.
    for name in ["other", "another"] {
        client.call(|op| Input::Inspect { op, name });
    }
    client.pass(Duration::from_millis(10));
    leave_undone(&mut client, &["n0"]);
    while client.unanswered.iter().any(|(_, command)| name_of(command) != "n0") {
        client.unanswered.sort_by_key(|(_, command)| name_of(command) == "n0");
        answer_anything(&mut client);
    }
    client.pass(timeout + Duration::from_millis(5));
    assert!(matches!(client.result_of(calls[0]), Some(Err(Error::Unreachable { .. }))), "{:?}", client.ended);
}
