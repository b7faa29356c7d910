//! Flow control: how many commands leave at once, in which order, what a silent or a slow server changes, and which
//! requests share a batch.

mod batch;
mod client;
mod closing;
mod draining;
mod pauses;
mod slots;

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Command, Config, Error, Failure, Input, Mode, NodeId, OpId, Outcome, Part, ReleaseOutcome, Reply,
    Scalar, Wait,
};

use self::client::{
    Client, SERVER_US, denied, fill, fixed, granting, name_of, serve_until_it_leaves, size_of, status, tries, words,
};

#[test]
fn a_mass_release_is_sent_in_pieces_each_once_and_close_waits_for_all_of_it() {
    for batches in [true, false] {
        let mut client = Client::new(Config { batches, ..Config::default() });
        client.hold(10_000, fixed());
        client.most = 0;

        let op = client.call(|op| Input::Close { op });
        let (mut sent, mut most) = (0, 0);
        while !client.unanswered.is_empty() {
            client.pass(Duration::from_micros(100));
            let released = size_of(&client.answer());
            (sent, most) = (sent + released, most.max(released));
        }

        assert_eq!(sent, 10_000, "each release is sent once");
        assert!(most <= 64 && client.most <= 1_024, "{most} in a call, {} calls at once", client.most);
        assert_eq!(client.result_of(op), Some(&Ok(Outcome::Closed { lost: 10_000, unreleased: 0 })), "{batches}");
    }
}

#[test]
fn a_caller_behind_dead_waiters_asks_again_at_once_whether_it_waits_or_tries() {
    for (word, wait) in [("waiting", Wait::Forever), ("busy", Wait::No)] {
        let mut client = Client::new(Config::default());
        let op = client.acquire("job", AcquireOptions { wait, ..tries() });
        client.leave_undone();
        let answer = |client: &mut Client, block| {
            let [(id, _)] = client.unanswered[..] else { panic!("{:?}", client.unanswered) };
            client.unanswered.clear();
            client.reply(id, Ok(status(word, [0, block, SERVER_US, -2, 5, 0])));
        };
        for _ in 0..100 {
            answer(&mut client, 1);
            assert_eq!(client.result_of(op), None, "no time has passed");
        }
        assert_eq!(client.unanswered.len(), 1);
        client.answer();
        assert!(matches!(client.result_of(op), Some(Ok(Outcome::Acquired(_)))), "{wait:?}");
    }
}

#[test]
fn a_client_that_asks_for_its_own_lease_leaves_the_lease_its_time_even_if_an_operator_has_made_the_key_persistent() {
    let mut client = Client::new(Config { mixed_fleet: true, ..Config::default() });
    client.hold(1, fixed());
    client.pass(Duration::from_secs(500));
    client.acquire("n0", tries());
    let [(_, refill)] = &client.unanswered[..] else { panic!("{:?}", client.unanswered) };
    let words = words(refill);
    let [_, _, ttl, how, ..] = &words[9..] else { panic!("{words:?}") };
    assert_eq!(how, "refill");
    // The script shortens a key without a TTL to this time. 0 would delete it while the client still holds the lease.
    let left = ttl.parse::<u64>().unwrap();
    assert!((90_000..=100_000).contains(&left), "{left} ms of 100 s");
}

#[test]
fn a_close_ends_when_a_server_falls_silent_and_tells_what_it_could_not_give_back() {
    let mut client = Client::new(Config::default());
    client.hold(3_000, fixed());
    let op = client.call(|op| Input::Close { op });
    let mut left = 3_000;
    while left > 1_000 {
        client.pass(Duration::from_micros(100));
        left -= size_of(&client.answer());
    }
    client.pass(Duration::from_millis(1_999));
    assert_eq!(client.result_of(op), None);
    client.pass(Duration::from_millis(1));
    assert_eq!(client.result_of(op), Some(&Ok(Outcome::Closed { lost: 3_000, unreleased: left as u32 })));
}

#[test]
fn a_close_ends_after_a_sleep_in_which_releases_were_given_up() {
    let millis = Duration::from_millis;
    let config = Config { claim_window: millis(300), response_timeout: millis(250), ..Config::default() };
    let mut client = Client::new(config);
    client.hold(1, fixed());
    client.acquire("busy", AcquireOptions { wait: Wait::Forever, ..fixed() });
    client.answer_with(Ok(denied("busy")));
    client.feed(Input::Subscribed { node: NodeId(0), channel: "leasehold:07070707-0707-0707-0707-070707070707" });
    client.answer_with(Ok(denied("waiting")));
    let op = client.call(|op| Input::Close { op });

    client.now += 400_000;
    client.feed(Input::Wake);

    assert_eq!(client.result_of(op), Some(&Ok(Outcome::Closed { lost: 1, unreleased: 1 })));
}

#[test]
fn a_close_with_nothing_held_ends_at_once_even_if_the_server_is_silent() {
    let mut client = Client::new(Config::default());
    let waits = client.acquire("job", AcquireOptions { wait: Wait::For(Duration::from_secs(3)), ..fixed() });
    client.pass(Duration::from_secs(3));
    assert!(matches!(client.result_of(waits), Some(Err(Error::Unreachable { .. }))));

    let op = client.call(|op| Input::Close { op });
    assert_eq!(client.result_of(op), Some(&Ok(Outcome::Closed { lost: 0, unreleased: 0 })));
}

/// The server refuses every command until the slot has moved, for this long or until the call ends.
fn moves_slot(client: &mut Client, time: Duration, op: OpId) {
    let until = client.now + time.as_micros() as u64;
    while client.now < until && client.result_of(op).is_none() {
        for (id, _) in std::mem::take(&mut client.unanswered) {
            let text = "TRYAGAIN Multiple keys request during rehashing of slot".to_owned();
            client.reply(id, Err(Failure::Refused(text)));
        }
        client.pass(Duration::from_millis(10));
    }
}

#[test]
fn a_release_that_waits_for_a_moving_slot_ends_with_its_outcome() {
    let mut client = Client::new(Config::default());
    let lease = client.hold(1, fixed())[0];
    let op = client.call(|op| Input::Release { op, lease });
    moves_slot(&mut client, Duration::from_secs(60), op);
    assert_eq!(client.result_of(op), None);
    client.pass(Duration::from_secs(2));
    client.serve(Duration::from_micros(100));
    assert_eq!(client.result_of(op), Some(&Ok(Outcome::Released(ReleaseOutcome::Released))));
    assert!(client.engine.is_idle());
}

#[test]
fn a_release_that_waits_for_a_moving_slot_ends_with_the_lease_or_with_the_servers_silence() {
    let minute = Duration::from_secs(60);
    for (moves, ends) in [(minute * 20, minute * 10), (minute, minute + Duration::from_secs(6))] {
        let mut client = Client::new(Config::default());
        let lease = client.hold(1, fixed())[0];
        let (op, began) = (client.next_op(), client.now);
        client.feed(Input::Release { op, lease });
        moves_slot(&mut client, moves, op);
        while client.result_of(op).is_none() {
            client.pass(Duration::from_millis(10));
        }
        assert!(matches!(client.result_of(op), Some(Err(Error::Unreachable { .. }))));
        let took = Duration::from_micros(client.now - began);
        assert!(took <= ends && took > ends.min(moves) - Duration::from_secs(10), "{took:?}");
    }
}

#[test]
fn an_acquire_goes_before_releases_that_nobody_waits_for() {
    let mut client = Client::new(Config::default());
    for lease in client.hold(3_000, fixed()) {
        client.call(|op| Input::Release { op, lease });
    }
    client.pass(Duration::from_millis(30));
    client.acquire("urgent", fixed());
    let before = (0..).find(|_| name_of(&client.answer()) == "urgent").unwrap();
    assert!(before <= 1_024, "{before} commands went before it");
}

#[test]
fn a_script_that_the_server_does_not_know_goes_before_the_commands_that_need_it() {
    let mut client = Client::new(Config { max_in_flight: 1, ..Config::default() });
    let names = ["first", "second", "third"].map(|name| (name, client.acquire(name, fixed())));
    client.pass(Duration::from_millis(40));

    client.answer_with(Err(Failure::Refused("NOSCRIPT No matching script.".into())));

    let [(_, sent)] = &client.unanswered[..] else { panic!("{:?}", client.unanswered) };
    assert_eq!((&words(sent)[0][..], name_of(sent)), ("EVAL", names[0].0.to_owned()));
    assert_eq!(client.serve(Duration::from_micros(100)), 2, "the others share a batch, behind it");
    assert!(names.iter().all(|(_, op)| matches!(client.result_of(*op), Some(Ok(Outcome::Acquired(_))))));
}

#[test]
fn what_waits_for_room_goes_out_in_the_end_whatever_comes_after_it() {
    let mut client = Client::new(Config { max_in_flight: 4, ..Config::default() });
    let lease = client.hold(1, fixed())[0];
    for place in 0..20 {
        client.acquire(&format!("busy{place}"), fixed());
    }
    let op = client.call(|op| Input::Release { op, lease });
    // Callers go on coming, as fast as the server answers.
    for place in 0..2_000 {
        client.acquire(&format!("more{place}"), fixed());
        client.pass(Duration::from_millis(1));
        client.answer();
    }
    assert_eq!(client.result_of(op), Some(&Ok(Outcome::Released(ReleaseOutcome::Released))));
}

#[test]
fn thousands_of_renewals_that_are_due_at_once_lose_no_lease() {
    let mut client = Client::new(Config::default());
    client.hold(10_000, AcquireOptions { ttl: Duration::from_secs(30), ..AcquireOptions::default() });
    client.most = 0;
    // A server that takes 200 µs for each: two seconds for all of them.
    for _ in 0..200 {
        client.pass(Duration::from_millis(100));
        client.serve(Duration::from_micros(200));
    }
    assert!(client.lost.is_empty(), "{} lost", client.lost.len());
    assert!(client.most <= 1_024, "{} at once", client.most);
}

#[test]
fn no_lease_is_lost_because_commands_without_a_reply_fill_the_window() {
    for batches in [false, true] {
        let mut client = Client::new(Config { batches, ..Config::default() });
        client.hold(1, AcquireOptions::default());
        client.pass(Duration::from_secs(9));
        for place in 0..64 {
            client.acquire(&format!("fill{place}"), AcquireOptions { mode: Mode::Shared, ..fixed() });
            client.feed(Input::Wake);
        }
        let lost: Vec<_> = client.unanswered.drain(..).collect();
        client.pass(Duration::from_millis(1_200));
        let is_renewal = |(_, command): &(_, Command)| words(command)[1] == leasehold_lua::RENEW.sha1;
        assert!(lost.len() > 1 && client.unanswered.iter().any(is_renewal), "{batches}: {:?}", client.unanswered);
    }
}

#[test]
fn time_in_our_own_queue_is_no_silence_of_the_servers() {
    let mut client = Client::new(Config { max_in_flight: 4, ..Config::default() });
    let leases = client.hold(100, fixed());
    let ops = leases.into_iter().map(|lease| client.call(|op| Input::Release { op, lease }));
    let ops: Vec<_> = ops.collect();
    // Ten seconds for all: five response timeouts.
    client.serve(Duration::from_millis(100));
    for op in ops {
        assert_eq!(client.result_of(op), Some(&Ok(Outcome::Released(ReleaseOutcome::Released))), "{op:?}");
    }
}

#[test]
fn the_window_grows_again_if_the_way_to_the_server_is_longer_after_a_silence() {
    let mut client = Client::new(Config::default());
    client.hold(100, fixed());
    for place in 0..5_000 {
        client.acquire(&format!("w{place}"), AcquireOptions { wait: Wait::Forever, ..fixed() });
    }
    client.pass(Duration::from_secs(5));
    client.unanswered.clear();
    client.most = 0;

    for _ in 0..100 {
        client.pass(Duration::from_millis(150));
        for _ in 0..client.unanswered.len() {
            client.answer();
        }
    }

    assert!(client.most > 500, "{} at once", client.most);
}

#[test]
fn several_names_wait_for_room_as_long_as_the_server_answers() {
    for one_script in [false, true] {
        let mut client = Client::new(Config { max_in_flight: 4, ..Config::default() });
        fill(&mut client, 100);
        let (options, parts) = (tries(), Part::mutexes(&["{a}1", "{a}2"]));
        let op = client.call(|op| Input::AcquireAll { op, parts: &parts, options: &options, one_script });

        serve_until_it_leaves(&mut client, "{a}1", op);

        assert_eq!(client.result_of(op), None, "by one script: {one_script}");
    }
}

#[test]
fn an_upgrade_that_needs_a_fence_waits_for_room_as_long_as_the_server_answers() {
    let mut client = Client::new(Config { max_in_flight: 4, ..Config::default() });
    let lease = client.hold(1, fixed())[0];
    let reader = client.acquire("n0", AcquireOptions { mode: Mode::Shared, ..fixed() });
    client.call(|op| Input::Release { op, lease });
    // A reader needs a fence of its own, and the token has no more.
    while client.result_of(reader).is_none() {
        client.pass(Duration::from_millis(1));
        let (id, command) = client.unanswered.remove(0);
        let Reply::List(mut answer) = granting(&command, client.now) else { panic!("{command:?}") };
        if words(&command).contains(&"refill".to_owned()) {
            answer[0] = Scalar::Text("again".into());
        }
        client.reply(id, Ok(Reply::List(answer)));
    }
    let grant = client.grant_of(reader);
    let lease = grant.lease;
    fill(&mut client, 100);

    let op = client.call(|op| Input::Convert { op, lease, mode: Mode::Exclusive });
    serve_until_it_leaves(&mut client, "n0", op);

    assert_eq!(client.result_of(op), None);
}

#[test]
fn a_force_waits_for_room_again_with_the_script_of_another_kind() {
    let mut client = Client::new(Config { max_in_flight: 1, ..Config::default() });
    let op = client.call(|op| Input::ForceRelease { op, name: "job", foreign: false });
    fill(&mut client, 30);
    client.pass(Duration::from_millis(100));
    client.answer_with(Err(Failure::Refused("WRONGTYPE Operation against a key".into())));

    serve_until_it_leaves(&mut client, "job", op);

    assert_eq!(client.result_of(op), None);
}

#[test]
fn a_try_has_its_time_again_once_the_server_asks_for_the_script() {
    let mut client = Client::new(Config { max_in_flight: 1, ..Config::default() });
    client.acquire("first", fixed());
    let op = client.acquire("second", tries());
    client.pass(Duration::from_millis(1_500));
    client.answer();
    client.pass(Duration::from_millis(900));

    client.answer_with(Err(Failure::Refused("NOSCRIPT No matching script.".into())));
    client.pass(Duration::from_millis(1_900));

    assert_eq!(client.result_of(op), None, "the source left 1.9 s ago, and the response timeout is 2 s");
}

#[test]
fn tries_at_a_silent_server_of_a_cluster_end_although_another_server_answers() {
    let mut client = Client::new(Config::default());
    client.engine.set_cluster(NodeId(0));
    let ops: Vec<OpId> = (0..400).map(|place| client.acquire(&format!("{{silent}}{place}"), tries())).collect();
    for round in 0..82 {
        client.acquire(&format!("live{round}"), fixed());
        client.pass(Duration::from_millis(50));
        while let Some(at) = client.unanswered.iter().position(|(_, command)| name_of(command).starts_with("live")) {
            let (id, command) = client.unanswered.remove(at);
            client.reply(id, Ok(granting(&command, client.now)));
        }
    }
    let open = ops.iter().filter(|op| client.result_of(**op).is_none()).count();
    assert_eq!(open, 0, "of 400, after 4.1 s");
}

#[test]
fn a_silent_server_is_asked_by_a_few_commands_only() {
    let mut client = Client::new(Config { response_timeout: Duration::from_millis(10), ..Config::default() });
    let mut sent = 0;
    for _ in 0..20 {
        for place in 0..100 {
            let wait = Wait::For(Duration::from_millis(100));
            client.acquire(&format!("n{place}"), AcquireOptions { wait, ..fixed() });
        }
        client.pass(Duration::from_millis(100));
        sent += client.unanswered.drain(..).count();
    }
    assert_eq!(client.ended.len(), 2_000, "every wait has ended at its time");
    assert!((1_000..3_500).contains(&sent), "{sent} commands in two seconds: 16 in each response timeout");
}

#[test]
fn a_slow_release_is_sent_again_less_and_less_often() {
    let mut client = Client::new(Config { response_timeout: Duration::from_secs(8), ..Config::default() });
    let lease = client.hold(1, fixed())[0];
    client.call(|op| Input::Release { op, lease });
    // The first round trips took half a second.
    let mut slow = Client::new(Config { response_timeout: Duration::from_secs(8), ..Config::default() });
    slow.acquire("job", fixed());
    slow.pass(Duration::from_millis(500));
    slow.answer();
    let lease = slow.ended.drain(..).find_map(|(_, result)| match result {
        Ok(Outcome::Acquired(grant)) => Some(grant.lease),
        _ => None,
    });
    slow.call(|op| Input::Release { op, lease: lease.unwrap() });
    let mut sent = vec![];
    for tenth in 0..60 {
        sent.resize(slow.unanswered.len(), tenth);
        slow.pass(Duration::from_millis(100));
    }
    assert_eq!(sent, [0, 15, 45], "in tenths of a second: after one probe timeout of 1.5 s, then after two");
}

#[test]
fn a_silent_server_of_a_cluster_holds_up_the_names_near_its_own_and_no_others() {
    let mut client = Client::new(Config::default());
    client.engine.set_cluster(NodeId(0));
    // One slot, whose server says nothing.
    for place in 0..500 {
        client.acquire(&format!("{{silent}}{place}"), fixed());
    }
    client.unanswered.clear();
    for place in 0..200 {
        client.acquire(&format!("live{place}"), fixed());
    }
    assert!(client.unanswered.len() >= 190, "{} of 200 have left", client.unanswered.len());
}

#[test]
fn a_connection_that_is_closed_for_good_ends_calls_at_once() {
    let mut client = Client::new(Config::default());
    let lease = client.hold(1, fixed())[0];
    let acquire = client.acquire("other", fixed());
    let release = client.next_op();
    client.feed(Input::Release { op: release, lease });
    for (id, _) in std::mem::take(&mut client.unanswered) {
        client.reply(id, Err(Failure::Closed("the client was quit".into())));
    }
    for op in [acquire, release] {
        let closed = |cause: &Failure| matches!(cause, Failure::Closed(_));
        let result = client.result_of(op);
        assert!(
            matches!(result, Some(Err(Error::Unreachable { cause: Some(cause), .. })) if closed(cause)),
            "{result:?}"
        );
    }
    assert!(client.unanswered.is_empty(), "nothing is sent any more");
}

#[test]
fn a_try_ends_at_its_callers_deadline() {
    let mut client = Client::new(Config::default());
    let within = Some(Duration::from_millis(300));
    let op = client.acquire("job", AcquireOptions { wait: Wait::No, within, ..fixed() });
    client.pass(Duration::from_millis(299));
    assert_eq!(client.result_of(op), None);
    client.pass(Duration::from_millis(1));
    assert!(matches!(client.result_of(op), Some(Err(Error::Unreachable { cause: Some(Failure::TimedOut), .. }))));
}

#[test]
fn a_try_ends_at_its_callers_deadline_while_its_command_waits_for_room() {
    let tries = AcquireOptions { within: Some(Duration::from_millis(300)), ..tries() };
    for names in [&["job"][..], &["{a}1", "{a}2"]] {
        let mut client = Client::new(Config { max_in_flight: 4, ..Config::default() });
        fill(&mut client, 100);
        let op = client.next_op();
        match names {
            [name] => client.feed(Input::Acquire { op, name, options: &tries }),
            _ => {
                client.feed(Input::AcquireAll { op, parts: &Part::mutexes(names), options: &tries, one_script: false })
            }
        }
        for time in [100, 100, 99] {
            assert_eq!(client.result_of(op), None);
            client.pass(Duration::from_millis(time));
            client.answer();
        }
        assert_eq!(client.result_of(op), None);
        client.pass(Duration::from_millis(1));
        assert!(matches!(client.result_of(op), Some(Err(Error::Unreachable { .. }))), "{names:?}");
    }
}

#[test]
fn a_lease_is_lost_by_the_clock_before_it_ends_on_the_server() {
    for (ttl, margin_us) in [(10, 500), (200, 10_000), (1_000, 50_000), (60_000, 50_000)] {
        let mut client = Client::new(Config::default());
        let options = AcquireOptions { ttl: Duration::from_millis(ttl), ..AcquireOptions::default() };
        let lease = client.hold(1, options)[0];
        let sent = 1_000_000;
        let drift = ttl * 1_000 / 100 + 2_000;
        let until = client.engine.valid_until(lease).unwrap().as_micros();
        assert_eq!(until, sent + ttl * 1_000 - drift - margin_us, "{ttl} ms");
    }
}

#[test]
fn a_lease_that_the_server_has_not_confirmed_for_a_second_is_not_handed_over_unasked() {
    let mut client = Client::new(Config::default());
    let options = AcquireOptions { ttl: Duration::from_secs(30), ..AcquireOptions::default() };
    let lease = client.hold(1, options)[0];
    client.pass(Duration::from_millis(1_100));
    let next = client.acquire("n0", options);
    let (id, _) = client.unanswered.pop().expect("the client asks at once");
    client.call(|op| Input::Release { op, lease });
    assert_eq!(client.result_of(next), None);

    // The server was emptied meanwhile.
    client.reply(id, Ok(status("gone", [0, 0, SERVER_US + 2_000_000, 0, 0, 0])));
    client.serve(Duration::from_millis(1));
    let grant = client.grant_of(next);
    assert!(!grant.local, "it comes from the server");
}

#[test]
fn a_local_waiter_gets_its_turn_soon_although_the_renewal_that_it_needs_was_lost() {
    let mut client = Client::new(Config::default());
    let options = AcquireOptions { ttl: Duration::from_secs(30), ..AcquireOptions::default() };
    let first = client.acquire("n", options);
    client.leave_undone();
    client.answer_with(Ok(status("entered", [SERVER_US, 100, SERVER_US, 30_000, 0, 0])));
    let lease = client.grant_of(first).lease;

    client.pass(Duration::from_millis(500));
    let next = client.acquire("n", AcquireOptions { renew: false, ..options });
    client.call(|op| Input::Release { op, lease });
    let renews = |(_, command): &(_, Command)| words(command)[1] == leasehold_lua::RENEW.sha1;
    let renewal = client.unanswered.iter().position(renews).expect("a renewal");
    let (id, _) = client.unanswered.remove(renewal);
    client.reply(id, Err(Failure::Interrupted("connection reset".into())));

    client.pass(Duration::from_millis(200));
    assert!(client.unanswered.iter().any(renews), "{:?}", client.unanswered);
    client.serve(Duration::from_millis(1));
    assert!(matches!(client.result_of(next), Some(Ok(Outcome::Acquired(_)))), "{:?}", client.ended);
}

#[test]
fn a_refused_renewal_that_a_local_reader_waits_for_is_retried_before_the_lease_of_the_others_ends() {
    for trip in [0, 5, 10].map(Duration::from_millis) {
        let mut client = Client::new(Config::default());
        let options =
            AcquireOptions { ttl: Duration::from_millis(120), mode: Mode::Shared, ..AcquireOptions::default() };
        client.acquire("n", options);
        client.leave_undone();
        client.pass(trip);
        client.answer_with(Ok(status("entered", [SERVER_US, 100, SERVER_US, 120, 0, 0])));
        let renews = |(_, command): &(_, Command)| words(command)[1] == leasehold_lua::RENEW.sha1;
        let leaves = |client: &mut Client| {
            while client.lost.is_empty() && !client.unanswered.iter().any(renews) {
                client.pass(Duration::from_millis(1));
            }
        };

        // The server is silent, so another reader needs a renewal when little time is left.
        client.pass(Duration::from_millis(90) - trip);
        client.unanswered.clear();
        let next = client.acquire("n", options);
        leaves(&mut client);
        let (id, _) = client.unanswered.remove(client.unanswered.iter().position(renews).expect("a renewal"));
        client.reply(id, Err(Failure::Refused("BUSY a script runs".into())));

        leaves(&mut client);
        client.serve(Duration::from_micros(100));
        assert_eq!(client.lost, [], "{trip:?}");
        assert!(matches!(client.result_of(next), Some(Ok(Outcome::Acquired(_)))), "{:?}", client.ended);
    }
}

#[test]
fn a_grant_that_is_older_than_the_answer_that_another_client_holds_the_lock_is_no_grant() {
    let mut client = Client::new(Config::default());
    let options = AcquireOptions { ttl: Duration::from_secs(30), ..AcquireOptions::default() };
    let call = client.acquire("n", options);
    client.leave_undone();
    let (late, _) = client.unanswered.remove(0);
    client.pass(Duration::from_millis(1_100));
    let (id, _) = client.unanswered.pop().expect("the client asks again");

    // The server granted the first one and lost its data. Another client has the lock when the second one arrives.
    let (first, second) = (SERVER_US + 1_000_000, SERVER_US + 2_000_000);
    client.reply(id, Ok(status("waiting", [1, 1, second, 30_000, 0, 0])));
    client.reply(late, Ok(status("entered", [first, 1, first, 30_000, 0, 0])));
    assert_eq!(client.result_of(call), None, "{:?}", client.ended);
}
