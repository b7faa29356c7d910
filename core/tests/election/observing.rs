//! What observers learn, and how often they ask.

use leasehold_core::Leader;

use super::*;

pub(crate) fn told(world: &World, place: usize, op: OpId) -> Vec<Option<Leader>> {
    let of = world.clients[place].leaders.iter().filter(|(observer, ..)| *observer == op);
    of.map(|(_, _, leader)| leader.clone()).collect()
}

pub(crate) fn values(world: &World, place: usize, op: OpId) -> Vec<Option<String>> {
    told(world, place, op).into_iter().map(|leader| Some(leader?.value)).collect()
}

pub(crate) fn fences(world: &World, place: usize, op: OpId) -> Vec<Option<u64>> {
    told(world, place, op).into_iter().map(|leader| Some(leader?.fence)).collect()
}

fn observe(world: &mut World, place: usize) -> OpId {
    let op = world.clients[place].call(|op| Input::Observe { op, name: NAME });
    settle(world);
    op
}

fn questions(world: &World) -> usize {
    world.carried_out.iter().filter(|script| **script == "leader").count()
}

const CHANNEL: &str = "leasehold:{job}:leader";

#[test]
fn observers_learn_each_change_without_campaigning_and_late_ones_the_present() {
    let mut world = World::new(4);
    let observes = observe(&mut world, 3);
    assert_eq!(values(&world, 3, observes), [None]);
    let campaigns = [0, 1, 2].map(|place| campaign(&mut world, place));
    let grants = campaigns.map(|_| ());
    let mut expected = vec![None];
    for (place, _) in grants.iter().enumerate() {
        let grant = term(&world, place, campaigns[place]).unwrap();
        expected.push(Some(grant.fence));
        assert_eq!(fences(&world, 3, observes), expected);
        assert_eq!(values(&world, 3, observes).last().unwrap().as_deref(), Some(VALUES[place]));
        world.pass(seconds(50));
        let late = observe(&mut world, 3);
        let leader = told(&world, 3, late).pop().flatten().unwrap();
        assert_eq!((&*leader.value, leader.fence), (VALUES[place], grant.fence));
        assert!((49_990..=50_010).contains(&leader.led.as_millis()), "{leader:?}");
        world.clients[3].feed(Input::Cancel { op: late });
        assert_eq!(world.clients[3].result_of(late), Some(&Err(Error::Cancelled)));
        resign(&mut world, place, grant.lease);
    }
    expected.push(None);
    assert_eq!(fences(&world, 3, observes), expected);
    assert_eq!(world.clients[3].channels, [CHANNEL]);
    world.clients[3].feed(Input::Cancel { op: observes });
    assert!(world.clients[3].engine.is_idle() && world.clients[3].channels.is_empty());
}

#[test]
fn observers_ask_once_for_each_ttl_whenever_the_leader_renews() {
    let mut world = World::new(3);
    campaign(&mut world, 0);
    let observers = [observe(&mut world, 2), observe(&mut world, 2)];
    world.pass(seconds(3_000));
    let asked = questions(&world);
    assert!((90..=101).contains(&asked), "{asked} questions in 100 TTLs");
    for op in observers {
        assert_eq!(values(&world, 2, op), [Some(VALUES[0].to_owned())]);
    }
}

#[test]
fn observers_learn_that_a_leader_died_when_its_ttl_is_over() {
    let mut world = World::new(2);
    campaign(&mut world, 0);
    let observes = observe(&mut world, 1);
    world.pass(seconds(100));
    world.still[0] = true;
    world.pass(seconds(61));
    assert_eq!(values(&world, 1, observes), [Some(VALUES[0].to_owned()), None]);
}

#[test]
fn after_a_break_observers_ask_once_and_learn_what_they_missed() {
    let mut world = World::new(3);
    let leads = campaign(&mut world, 0);
    campaign(&mut world, 1);
    let observes = observe(&mut world, 2);
    let before = questions(&world);
    let cause = Failure::Interrupted("reset".into());
    world.clients[2].channels.clear();
    world.clients[2].feed(Input::Unsubscribed { node: NodeId(0), channel: CHANNEL, cause });
    let lease = term(&world, 0, leads).unwrap().lease;
    resign(&mut world, 0, lease);
    world.pass(seconds(1));
    let expected = [Some(VALUES[0].to_owned()), Some(VALUES[1].to_owned())];
    assert_eq!(values(&world, 2, observes), expected);
    assert_eq!(questions(&world), before + 1);
}

#[test]
fn without_messages_observers_ask_once_for_each_claim_window() {
    let mut world = World::new(2);
    let observes = world.clients[1].call(|op| Input::Observe { op, name: NAME });
    let cause = Failure::Unsupported("no messages".into());
    world.clients[1].channels.clear();
    world.clients[1].feed(Input::Unsubscribed { node: NodeId(0), channel: CHANNEL, cause });
    settle(&mut world);
    let leads = campaign(&mut world, 0);
    world.pass(seconds(3));
    let lease = term(&world, 0, leads).unwrap().lease;
    resign(&mut world, 0, lease);
    world.pass(seconds(3));
    assert_eq!(values(&world, 1, observes), [None, Some(VALUES[0].to_owned()), None]);
    world.pass(seconds(300));
    let asked = questions(&world);
    assert!((100..=104).contains(&asked), "{asked}");
}

#[test]
fn late_and_repeated_messages_and_answers_change_nothing() {
    let mut world = World::new(1);
    let observes = observe(&mut world, 0);
    for payload in [
        "leader 100 100 30000 a",
        "leader 100 100 30000 a",
        "leader 99 99 30000 z",
        "leader 100 150 0 ",
        "leader 100 100 30000 a",
        "leader 200 200 30000 b c",
        "leader 100 150 0 ",
        "leader 200 200",
        "leader x 1 1 1",
        "leader 210 210 0 ",
        "leader 220 220 0 ",
        "leader 230 230 30000 b c",
        "leader 300 1 99999999999 y",
        "nobody",
    ] {
        message(&mut world, 0, payload);
    }
    assert_eq!(fences(&world, 0, observes), [None, Some(100), None, Some(200), None, Some(230)]);
    assert_eq!(values(&world, 0, observes).pop().unwrap().as_deref(), Some("b c"));
}

/// A message on the channel of the election.
fn message(world: &mut World, place: usize, payload: &str) {
    let (node, payload) = (NodeId(0), payload.as_bytes());
    world.clients[place].feed(Input::Message { node, channel: CHANNEL, payload });
}

/// The server answers a question.
fn answer(world: &mut World, place: usize, said: &str) {
    assert_eq!(scripts(&world.clients[place]), ["leader"]);
    let left = if said.is_empty() { -2 } else { 30_000 };
    let said = Scalar::Text(said.as_bytes().to_vec());
    world.clients[place].answer_with(Ok(Reply::List(vec![Scalar::Int(1_000), Scalar::Int(left), said])));
    // What is asked for in the same moment may be older.
    world.clients[place].now += 1;
}

#[test]
fn after_a_failover_that_lost_terms_observers_learn_the_leader_of_the_new_server() {
    let mut world = World::new(1);
    let observes = observe(&mut world, 0);
    message(&mut world, 0, "leader 900 900 30000 a");
    world.pass_in_silence(seconds(30));
    // The new primary has not got the last terms, and its clock is slower.
    answer(&mut world, 0, "700 b");
    assert_eq!(fences(&world, 0, observes), [None, Some(900), Some(700)]);

    // Copies of what the old server has said are only a reason to ask.
    message(&mut world, 0, "leader 900 900 30000 a");
    message(&mut world, 0, "leader 900 900 30000 a");
    answer(&mut world, 0, "700 b");
    message(&mut world, 0, "leader 650 650 30000 z");
    answer(&mut world, 0, "700 b");
    assert_eq!(fences(&world, 0, observes), [None, Some(900), Some(700)]);

    // Terms whose numbers the old server has used count when an answer has them.
    message(&mut world, 0, "leader 800 800 30000 c");
    answer(&mut world, 0, "800 c");
    message(&mut world, 0, "leader 800 850 0 ");
    answer(&mut world, 0, "");
    message(&mut world, 0, "leader 860 860 30000 d");
    answer(&mut world, 0, "860 d");
    message(&mut world, 0, "leader 1000 1000 30000 e");
    assert!(world.clients[0].unanswered.is_empty());
    let expected = [None, Some(900), Some(700), Some(800), None, Some(860), Some(1_000)];
    assert_eq!(fences(&world, 0, observes), expected);
}

#[test]
fn a_late_message_does_not_delay_the_next_question() {
    let mut world = World::new(1);
    let observes = observe(&mut world, 0);
    message(&mut world, 0, "leader 100 100 30000 a");
    world.pass_in_silence(seconds(29));
    message(&mut world, 0, "leader 100 100 30000 a");
    assert!(world.clients[0].unanswered.is_empty());
    world.pass_in_silence(seconds(1));
    answer(&mut world, 0, "");
    assert_eq!(fences(&world, 0, observes), [None, Some(100), None]);
}

#[test]
fn an_answer_that_may_be_older_than_a_message_is_asked_for_again() {
    let mut world = World::new(1);
    let observes = observe(&mut world, 0);
    world.pass_in_silence(seconds(30));
    // The term ends before the server answers, and the message of its end is lost.
    world.clients[0].now += 1;
    message(&mut world, 0, "leader 100 100 30000 a");
    world.clients[0].now += 1;
    answer(&mut world, 0, "");
    assert_eq!(fences(&world, 0, observes), [None, Some(100)]);
    answer(&mut world, 0, "");
    assert_eq!(fences(&world, 0, observes), [None, Some(100), None]);
}

#[test]
fn in_an_outage_observers_say_that_nobody_leads_after_the_ttl_and_a_claim_window() {
    for is_silent in [false, true] {
        let mut world = World::new(2);
        campaign(&mut world, 0);
        let observes = observe(&mut world, 1);
        world.pass(seconds(100));
        world.outage = true;
        let began = world.clients[1].now;
        while values(&world, 1, observes).len() < 2 {
            world.pass(Duration::from_millis(100));
            let cause = Failure::Interrupted("the server is gone".into());
            while !is_silent && !world.clients[1].unanswered.is_empty() {
                world.clients[1].answer_with(Err(cause.clone()));
            }
            let took = Duration::from_micros(world.clients[1].now - began);
            assert!(took <= seconds(36), "{took:?}");
        }
        world.pass(seconds(60));
        world.clients.iter_mut().for_each(|client| client.unanswered.clear());
        world.outage = false;
        world.pass(seconds(5));
        assert_eq!(values(&world, 1, observes), [Some(VALUES[0].to_owned()), None]);
    }
}

#[test]
fn an_observer_that_was_cut_off_learns_the_same_leader_again() {
    let mut world = World::new(2);
    campaign(&mut world, 0);
    let observes = observe(&mut world, 1);
    world.pass(seconds(100));
    world.still[1] = true;
    world.pass(seconds(1));
    // Only the observer can't reach the server.
    for _ in 0..200 {
        world.pass(Duration::from_millis(200));
        world.clients[1].feed(Input::Wake);
    }
    assert_eq!(values(&world, 1, observes), [Some(VALUES[0].to_owned()), None]);
    let late = world.clients[1].call(|op| Input::Observe { op, name: NAME });
    assert_eq!(values(&world, 1, late), [None]);
    world.clients[1].unanswered.clear();
    world.still[1] = false;
    world.pass(seconds(4));
    for op in [observes, late] {
        let leader = told(&world, 1, op).pop().flatten().unwrap();
        assert_eq!((&*leader.value, leader.led.as_secs() >= 141), (VALUES[0], true), "{leader:?}");
    }
}

#[test]
fn a_single_question_that_fails_does_not_end_a_term() {
    let mut world = World::new(2);
    campaign(&mut world, 0);
    let observes = observe(&mut world, 1);
    world.pass(seconds(10));
    let (due, _) = world.clients[1].engine.poll_timeout().unwrap();
    world.pass(Duration::from_micros(due.as_micros() - world.clients[1].now - 1));
    world.outage = true;
    world.pass(Duration::from_micros(1));
    assert_eq!(scripts(&world.clients[1]), ["leader"]);
    world.outage = false;
    world.clients[1].answer_with(Err(Failure::Interrupted("reset".into())));
    world.pass(seconds(100));
    assert_eq!(values(&world, 1, observes), [Some(VALUES[0].to_owned())]);
}

#[test]
fn a_key_in_its_last_millisecond_or_without_a_ttl_has_a_leader() {
    let mut world = World::new(1);
    let observes = world.clients[0].call(|op| Input::Observe { op, name: NAME });
    world.clients[0].feed(Input::Subscribed { node: NodeId(0), channel: CHANNEL });
    for (left, fence, wait) in [(0, 100, 1), (-1, 200, 30_000)] {
        let said = Scalar::Text(format!("{fence} a").into_bytes());
        world.clients[0].answer_with(Ok(Reply::List(vec![Scalar::Int(1_000), Scalar::Int(left), said])));
        assert_eq!(fences(&world, 0, observes).pop(), Some(Some(fence)));
        world.clients[0].pass(Duration::from_millis(wait));
        assert_eq!(scripts(&world.clients[0]), ["leader"]);
    }
    world.clients[0].answer_with(Ok(Reply::One(Scalar::Int(1))));
    assert!(matches!(world.clients[0].result_of(observes), Some(Err(Error::Protocol(_)))));
}

#[test]
fn a_question_that_fails_is_asked_again() {
    let mut world = World::new(2);
    campaign(&mut world, 0);
    world.outage = true;
    let observes = observe(&mut world, 1);
    world.clients[1].feed(Input::Subscribed { node: NodeId(0), channel: CHANNEL });
    world.pass(seconds(20));
    assert!(told(&world, 1, observes).is_empty());
    world.clients.iter_mut().for_each(|client| client.unanswered.clear());
    world.outage = false;
    world.pass(seconds(4));
    assert_eq!(values(&world, 1, observes), [Some(VALUES[0].to_owned())]);
}

#[test]
fn an_answer_that_may_be_older_than_the_leader_ends_no_term() {
    // By a coarse clock, all of this happens at one moment.
    let mut world = World::new(2);
    let observes = world.clients[1].call(|op| Input::Observe { op, name: NAME });
    let channel = CHANNEL;
    world.clients[1].feed(Input::Subscribed { node: NodeId(0), channel });
    let (question, answer) = world.carry_out(1);
    let leads = campaign(&mut world, 0);
    assert_eq!(values(&world, 1, observes), [Some(VALUES[0].to_owned())]);
    world.clients[1].reply(question, answer);
    assert_eq!(values(&world, 1, observes), [Some(VALUES[0].to_owned())]);
    // It asks once the leader's TTL is over.
    let lease = term(&world, 0, leads).unwrap().lease;
    world.still[1] = true;
    resign(&mut world, 0, lease);
    world.still[1] = false;
    world.pass(seconds(31));
    assert_eq!(values(&world, 1, observes), [Some(VALUES[0].to_owned()), None]);
}

#[test]
fn a_closed_client_observes_nothing_and_keeps_nothing() {
    let mut world = World::new(1);
    world.clients[0].call(|op| Input::Close { op });
    let op = world.clients[0].call(|op| Input::Observe { op, name: NAME });
    assert_eq!(world.clients[0].result_of(op), Some(&Err(Error::Closed)));
    assert!(world.clients[0].engine.is_idle());
}
