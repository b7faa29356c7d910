//! What a client tells others about itself, and what it learns about them.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, CommandId, Config, Engine, Failure, Input, Inspection, Instant, Labels, NodeId, OpId,
    Outcome, Output, Reply, Scalar, check_label,
};

const OTHER: &str = "0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b";
const HOUR: Duration = Duration::from_secs(3600);

fn labels(label: &str) -> Labels {
    Labels::new(ClientId::from_random([7; 16]), label)
}

fn at(after: Duration) -> Instant {
    Instant::from_micros(1_000_000) + after
}

fn subscribe(channel: &str) -> Output {
    Output::Subscribe { node: NodeId(0), channel: channel.into() }
}

fn own_channel() -> String {
    format!("leasehold:{}", ClientId::from_random([7; 16]))
}

/// The commands that wait to be sent, as text.
fn commands(labels: &mut Labels) -> Vec<(CommandId, String)> {
    std::iter::from_fn(|| labels.poll_command()).map(|(id, command)| (id, format!("{command:?}"))).collect()
}

fn text(text: &str) -> Reply {
    Reply::One(Scalar::Text(text.into()))
}

/// An engine with an acquire of `door` in flight.
fn waiting() -> (Engine, CommandId) {
    waiting_for("door")
}

fn waiting_for(name: &str) -> (Engine, CommandId) {
    let config = Config { prefix: "billing:".into(), ..Config::default() };
    let mut engine = Engine::new(ClientId::from_random([7; 16]), config).unwrap();
    let options = AcquireOptions::default();
    engine.handle(at(Duration::ZERO), Input::Acquire { op: OpId(1), name, options: &options });
    engine.handle(at(Duration::ZERO), Input::Wake);
    let Some(Output::Send { id, .. }) = engine.poll_output() else { panic!("no command") };
    // The fast path tells nothing about the holder.
    engine.handle(at(Duration::ZERO), Input::Reply { id, result: Ok(Reply::One(Scalar::Int(0))) });
    let Some(Output::Send { id, .. }) = engine.poll_output() else { panic!("no command") };
    (engine, id)
}

/// An acquire's answer that names its holder.
fn busy(status: &str, token: &str, since: i64) -> Result<Reply, Failure> {
    let mut list = vec![Scalar::Text(status.into())];
    list.extend([1, 0, 1_700_000_012_000_000, 21_000, 1, 0].map(Scalar::Int));
    list.extend([Scalar::Text(token.into()), Scalar::Int(since)]);
    Ok(Reply::List(list))
}

#[test]
fn a_label_is_written_when_the_client_subscribes_and_again_before_the_server_forgets_it() {
    let mut labels = labels("web-3/4711");
    let now = || at(Duration::ZERO);
    assert!(!labels.holds_back(now, &mut subscribe("redisson_lock__channel:{door}")));
    assert!(commands(&mut labels).is_empty(), "the channel of a lock");
    assert!(!labels.holds_back(now, &mut subscribe(&own_channel())));
    let id = ClientId::from_random([7; 16]);
    let set = format!("SET leasehold:client:{id} web-3/4711 PX 86400000");
    let told = commands(&mut labels);
    assert_eq!(told.iter().map(|(_, command)| command.as_str()).collect::<Vec<_>>(), [&set]);
    labels.keep(at(7 * HOUR), || None);
    assert!(commands(&mut labels).is_empty());
    labels.keep(at(9 * HOUR), || None);
    assert_eq!(commands(&mut labels).len(), 1);
    labels.keep(at(10 * HOUR), || None);
    assert!(commands(&mut labels).is_empty());
    // After a break the server may be another one.
    labels.holds_back(|| at(10 * HOUR), &mut subscribe(&own_channel()));
    assert_eq!(commands(&mut labels).len(), 1);
}

#[test]
fn while_the_server_is_down_a_label_is_written_once_a_second() {
    let (mut labels, (engine, _)) = (labels("web-3"), waiting());
    let after = |ms| at(Duration::from_millis(ms));
    labels.holds_back(|| after(0), &mut subscribe(&own_channel()));
    let mut written = 0;
    for ms in 0..5_000 {
        for (id, _) in commands(&mut labels) {
            written += 1;
            assert!(labels.takes(after(ms), id, &Err(Failure::Unavailable("down".into())), &engine));
        }
        labels.keep(after(ms), || None);
    }
    assert_eq!(written, 5);
    assert_eq!(labels.poll_timeout(true), Some(after(5_000)));
    assert_eq!(labels.poll_timeout(false), None, "nobody needs it while the client uses no locks");
}

#[test]
fn a_client_without_a_label_tells_and_deletes_nothing() {
    let mut labels = labels("");
    labels.holds_back(|| at(Duration::ZERO), &mut subscribe(&own_channel()));
    labels.keep(at(9 * HOUR), || None);
    labels.close();
    assert!(commands(&mut labels).is_empty());
}

#[test]
fn a_close_ends_when_the_label_is_deleted_or_cannot_be() {
    for result in [Ok(Reply::One(Scalar::Int(1))), Err(Failure::TimedOut), Err(Failure::Refused("NOPERM".into()))] {
        let (mut labels, (engine, _)) = (labels("web-3"), waiting());
        labels.holds_back(|| at(Duration::ZERO), &mut subscribe(&own_channel()));
        commands(&mut labels);
        labels.close();
        let closed = Outcome::Closed { lost: 3, unreleased: 2 };
        let mut output = Output::Completed { op: OpId(9), result: Ok(closed.clone()) };
        assert!(labels.holds_back(|| at(Duration::ZERO), &mut output));
        let [(id, del)] = commands(&mut labels).try_into().unwrap();
        assert!(del.starts_with("DEL leasehold:client:"), "{del}");
        assert_eq!(labels.poll_completed(), None);
        assert!(labels.takes(at(Duration::ZERO), id, &result, &engine));
        assert_eq!(labels.poll_completed(), Some((OpId(9), closed)));
    }
}

#[test]
fn two_closes_end_when_the_label_is_deleted() {
    let (mut labels, (engine, _)) = (labels("web-3"), waiting());
    labels.holds_back(|| at(Duration::ZERO), &mut subscribe(&own_channel()));
    commands(&mut labels);
    let closed = Outcome::Closed { lost: 0, unreleased: 0 };
    for op in [OpId(8), OpId(9)] {
        labels.close();
        let mut output = Output::Completed { op, result: Ok(closed.clone()) };
        assert!(labels.holds_back(|| at(Duration::ZERO), &mut output));
    }
    let [(id, _)] = commands(&mut labels).try_into().unwrap();
    assert!(labels.takes(at(Duration::ZERO), id, &Ok(Reply::One(Scalar::Int(1))), &engine));
    let ended: Vec<_> = std::iter::from_fn(|| labels.poll_completed()).collect();
    assert_eq!(ended, [(OpId(8), closed.clone()), (OpId(9), closed)]);
}

#[test]
fn the_holder_of_a_busy_lock_is_known_with_its_label_and_the_time_that_it_has_held() {
    let (mut labels, (engine, id)) = (labels("web-3"), waiting());
    assert_eq!(engine.wanted_by(id), Some("door"));
    let answer = busy("waiting", &format!("{OTHER}:5"), 1_700_000_000_000_000);
    assert!(!labels.takes(at(Duration::ZERO), id, &answer, &engine), "it is the engine's");
    let [(get, command)] = commands(&mut labels).try_into().unwrap();
    assert_eq!(command, format!("GET leasehold:client:{OTHER}"));
    let holder = labels.holder(at(Duration::ZERO), "door").unwrap();
    assert_eq!(holder.to_string(), format!("held by {OTHER} for 12 s"));
    assert!(labels.takes(at(Duration::ZERO), get, &Ok(text("web-4/1")), &engine));
    let holder = labels.holder(at(Duration::from_secs(5)), "door").unwrap();
    assert_eq!(holder.to_string(), "held by web-4/1 for 17 s");
    assert_eq!((holder.client.as_str(), labels.holder(at(Duration::ZERO), "other")), (OTHER, None));
    // The next answer asks for nothing.
    labels.takes(at(Duration::from_secs(20)), id, &answer, &engine);
    assert!(commands(&mut labels).is_empty());
    labels.granted("door");
    assert_eq!(labels.holder(at(Duration::from_secs(5)), "door"), None);
}

#[test]
fn a_try_asks_nobody_and_a_label_that_is_missing_is_asked_for_again_after_a_while() {
    let (mut labels, (engine, id)) = (labels("web-3"), waiting());
    let token = format!("{OTHER}:5");
    labels.takes(at(Duration::ZERO), id, &busy("busy", &token, 0), &engine);
    assert!(commands(&mut labels).is_empty());
    assert_eq!(labels.holder(at(Duration::ZERO), "door").and_then(|holder| holder.held), None, "0 is unknown");
    for (second, asks) in [(0, 1), (1, 0), (4, 0), (6, 1), (7, 0)] {
        let now = at(Duration::from_secs(second));
        labels.takes(now, id, &busy("waiting", &token, 0), &engine);
        let asked = commands(&mut labels);
        assert_eq!(asked.len(), asks, "after {second} s");
        for (get, _) in asked {
            labels.takes(now, get, &Ok(Reply::One(Scalar::Nil)), &engine);
        }
    }
}

#[test]
fn what_is_no_token_and_no_label_is_ignored() {
    let (mut labels, (engine, id)) = (labels("web-3"), waiting());
    for token in ["", "shared", "somebody", "0b0b:1", &format!("{OTHER}:"), &format!("{OTHER}:x")] {
        labels.takes(at(Duration::ZERO), id, &busy("waiting", token, 0), &engine);
        assert!(commands(&mut labels).is_empty() && labels.holder(at(Duration::ZERO), "door").is_none(), "{token}");
    }
    for told in ["", "a\nb", "\u{1b}[2J", &"x".repeat(1 << 20)] {
        let mut labels = crate::labels("web-3");
        labels.takes(at(Duration::ZERO), id, &busy("waiting", &format!("{OTHER}:1"), 0), &engine);
        let [(get, _)] = commands(&mut labels).try_into().unwrap();
        labels.takes(at(Duration::ZERO), get, &Ok(text(told)), &engine);
        assert_eq!(labels.holder(at(Duration::ZERO), "door").and_then(|holder| holder.label), None, "{told:.20}");
    }
    // A late or strange reply is nobody's.
    assert!(labels.takes(at(Duration::ZERO), CommandId(u64::MAX), &Ok(text("x")), &engine));
}

#[test]
fn an_inspection_gets_its_labels_in_one_round_trip_and_ends_without_those_that_fail() {
    let (mut labels, mut engine) =
        (labels("web-3"), Engine::new(ClientId::from_random([7; 16]), Config::default()).unwrap());
    let own = ClientId::from_random([7; 16]);
    let third = OTHER.replace('b', "c");
    engine.handle(at(Duration::ZERO), Input::Inspect { op: OpId(1), name: "door" });
    let Some(Output::Send { id, .. }) = engine.poll_output() else { panic!("no command") };
    let words: &[&str] = &[
        &format!("{OTHER}:1"),
        "exclusive 1 1 1 1",
        &format!("{third}:2"),
        "shared 1 1 1 1",
        &format!("{OTHER}:3"),
        "shared 1 1 1 1",
    ];
    let mut list: Vec<Scalar> = vec![
        Scalar::Int(9_000_000),
        Scalar::Text(format!("{own}:4").into()),
        Scalar::Int(500),
        Scalar::Int(5_000_000),
        Scalar::Int(0),
        Scalar::Int(3),
    ];
    for waiter in words.chunks(2) {
        list.extend([Scalar::Text(waiter[0].into()), Scalar::Text(waiter[1].into()), Scalar::Int(8_000_000)]);
    }
    list.push(Scalar::Int(5_000_000));
    engine.handle(at(Duration::ZERO), Input::Reply { id, result: Ok(Reply::List(list)) });
    let mut output = engine.poll_output().unwrap();
    assert!(labels.holds_back(|| at(Duration::ZERO), &mut output));
    let [(first, get), (second, _)] = commands(&mut labels).try_into().unwrap();
    assert_eq!(get, format!("GET leasehold:client:{OTHER}"));
    labels.takes(at(Duration::ZERO), second, &Err(Failure::TimedOut), &engine);
    assert_eq!(labels.poll_completed(), None);
    labels.takes(at(Duration::ZERO), first, &Ok(text("web-4")), &engine);
    let Some((OpId(1), Outcome::Inspected(seen))) = labels.poll_completed() else { panic!("no result") };
    let Inspection { holders, waiters, .. } = *seen;
    assert_eq!((holders[0].label.as_deref(), holders[0].held), (Some("web-3"), Some(Duration::from_secs(4))));
    assert_eq!(
        waiters.iter().map(|waiter| waiter.label.as_deref()).collect::<Vec<_>>(),
        [Some("web-4"), None, Some("web-4")]
    );
    assert!(waiters.iter().all(|waiter| waiter.waited == Some(Duration::from_secs(1))));
}

#[test]
fn a_label_has_at_most_128_bytes_and_no_control_characters() {
    assert!(check_label("").is_ok() && check_label(&"é".repeat(64)).is_ok());
    for label in ["é".repeat(65), "x".repeat(1 << 20), "a\tb".into(), "\u{9b}1m".into()] {
        assert_eq!(check_label(&label).unwrap_err().code(), "invalid-option");
    }
}

const THIRD: &str = "0c0c0c0c-0c0c-0c0c-0c0c-0c0c0c0c0c0c";

/// Labels of a client whose leases have labels, and an inspection of `door` that begins: others hold and wait.
fn inspecting(holders: &[&str], waiters: &[&str]) -> (Labels, Engine) {
    let own = ClientId::from_random([7; 16]);
    let (mut labels, mut engine) =
        (labels("web-3").with_leases("billing:"), Engine::new(own, Config::default()).unwrap());
    let number = |number: usize| Scalar::Int(i64::try_from(number).unwrap());
    let mut list =
        vec![Scalar::Int(9_000_000), Scalar::Text("shared".into()), Scalar::Int(500), Scalar::Int(5_000_000)];
    list.push(number(holders.len()));
    for holder in holders {
        list.extend([Scalar::Text(format!("{holder}:1").into()), Scalar::Int(9_500)]);
    }
    list.push(number(waiters.len()));
    for (place, waiter) in waiters.iter().enumerate() {
        let words = [format!("{waiter}:{}", place + 5), "exclusive 1 1 1 1".into()];
        list.extend(words.map(|word| Scalar::Text(word.into())));
        list.push(Scalar::Int(8_000_000));
    }
    list.push(Scalar::Int(0));
    engine.handle(at(Duration::ZERO), Input::Inspect { op: OpId(1), name: "door" });
    let Some(Output::Send { id, .. }) = engine.poll_output() else { panic!("no command") };
    labels.inspects(OpId(1), "door");
    engine.handle(at(Duration::ZERO), Input::Reply { id, result: Ok(Reply::List(list)) });
    assert!(labels.holds_back(|| at(Duration::ZERO), &mut engine.poll_output().unwrap()));
    (labels, engine)
}

/// Answers the commands for the labels of clients. Returns the messages, which one subscriber gets.
fn published(labels: &mut Labels, engine: &Engine) -> Vec<String> {
    published_to(labels, engine, &Ok(Reply::One(Scalar::Int(1))))
}

/// The same with what the server says about the messages.
fn published_to(labels: &mut Labels, engine: &Engine, result: &Result<Reply, Failure>) -> Vec<String> {
    let mut messages = Vec::new();
    for (id, command) in commands(labels) {
        let none = Ok(Reply::One(Scalar::Nil));
        labels.takes(at(Duration::ZERO), id, if command.starts_with("GET") { &none } else { result }, engine);
        messages.extend(command.strip_prefix("PUBLISH leasehold:").map(String::from));
    }
    messages
}

fn subscribed(labels: &mut Labels) -> bool {
    labels.channel(&own_channel(), None)
}

fn told(labels: &mut Labels, after: Duration, text: &str) {
    assert!(labels.hears(at(after), &own_channel(), text.as_bytes()));
}

/// The labels and the times of the holders and of the waiters, if the inspection has ended.
type Entries = Vec<(Option<String>, Option<u128>)>;

fn inspected(labels: &mut Labels) -> Option<(Entries, Entries)> {
    let (_, Outcome::Inspected(seen)) = labels.poll_completed()? else { panic!("no result") };
    let Inspection { holders, waiters, .. } = *seen;
    let time = |time: Option<Duration>| time.map(|time| time.as_millis());
    Some((
        holders.into_iter().map(|holder| (holder.lease_label, time(holder.held))).collect(),
        waiters.into_iter().map(|waiter| (waiter.lease_label, time(waiter.waited))).collect(),
    ))
}

#[test]
fn clients_are_asked_over_their_channels_and_tell_what_they_call_their_leases() {
    let (mut labels, engine) = inspecting(&[OTHER], &[THIRD, OTHER]);
    assert_eq!(published(&mut labels, &engine), Vec::<String>::new(), "no answer could arrive");
    assert_eq!((labels.wants_channel(), labels.wants_channel()), (Some(own_channel()), None));
    assert!(subscribed(&mut labels), "the engine did not ask");
    let own = ClientId::from_random([7; 16]);
    let asked = [OTHER, THIRD].map(|client| format!("{client} asked {own} billing:door"));
    assert_eq!(published(&mut labels, &engine), asked);
    told(&mut labels, Duration::ZERO, &format!("told {OTHER} 4321 - job 17\n\nbilling:door"));
    assert_eq!(inspected(&mut labels), None, "one is silent");
    told(&mut labels, Duration::ZERO, &format!("told {THIRD} - 1234 \nnext job\nbilling:door"));
    let (holders, waiters) = inspected(&mut labels).unwrap();
    assert_eq!(holders, [(Some("job 17".into()), Some(4321))]);
    assert_eq!(waiters, [(Some("next job".into()), Some(1234)), (None, Some(1000))]);
    assert_eq!(labels.poll_timeout(true), None);
}

#[test]
fn a_client_that_is_silent_is_waited_for_no_longer_than_100_ms() {
    let (mut labels, engine) = inspecting(&[OTHER], &[]);
    subscribed(&mut labels);
    published(&mut labels, &engine);
    let end = Duration::from_millis(100);
    assert_eq!(labels.poll_timeout(true), Some(at(end)));
    labels.wake(at(end - Duration::from_millis(1)));
    assert_eq!(inspected(&mut labels), None);
    labels.wake(at(end));
    assert_eq!(inspected(&mut labels).unwrap().0, [(None, None)]);
    // A late answer is nobody's.
    told(&mut labels, end, &format!("told {OTHER} 1 - late\n\nbilling:door"));
    assert_eq!((inspected(&mut labels), commands(&mut labels)), (None, vec![]));
}

#[test]
fn the_time_to_subscribe_is_part_of_the_100_ms() {
    let (mut labels, engine) = inspecting(&[OTHER], &[]);
    published(&mut labels, &engine);
    let end = at(Duration::from_millis(100));
    assert_eq!(labels.poll_timeout(true), Some(end));
    subscribed(&mut labels);
    assert_eq!(published(&mut labels, &engine).len(), 1);
    assert_eq!(labels.poll_timeout(true), Some(end));
}

#[test]
fn a_client_without_a_subscription_is_not_waited_for() {
    for result in [Ok(Reply::One(Scalar::Int(0))), Err(Failure::Refused("NOPERM".into())), Err(Failure::TimedOut)] {
        let (mut labels, engine) = inspecting(&[OTHER], &[THIRD]);
        subscribed(&mut labels);
        assert_eq!(published_to(&mut labels, &engine, &result).len(), 2);
        assert_eq!(inspected(&mut labels).unwrap().0, [(None, None)], "{result:?}");
        assert_eq!(labels.poll_timeout(true), None);
    }
}

#[test]
fn in_a_cluster_a_subscriber_of_another_server_is_waited_for() {
    let (mut labels, engine) = inspecting(&[OTHER], &[]);
    labels.set_cluster();
    subscribed(&mut labels);
    published_to(&mut labels, &engine, &Ok(Reply::One(Scalar::Int(0))));
    assert_eq!(inspected(&mut labels), None);
    told(&mut labels, Duration::ZERO, &format!("told {OTHER} 1 - job 17\n\nbilling:door"));
    assert_eq!(inspected(&mut labels).unwrap().0, [(Some("job 17".into()), Some(1))]);
}

#[test]
fn a_client_that_has_nothing_of_the_lock_ends_the_wait() {
    let (mut labels, engine) = inspecting(&[OTHER], &[]);
    subscribed(&mut labels);
    published(&mut labels, &engine);
    told(&mut labels, Duration::ZERO, &format!("told {OTHER} - - \n\nbilling:door"));
    assert_eq!(inspected(&mut labels).unwrap().0, [(None, None)]);
}

#[test]
fn without_messages_an_inspection_ends_without_labels_of_leases() {
    for (failure, again) in [
        (Failure::Refused("NOPERM".into()), false),
        (Failure::Unsupported("no".into()), false),
        (Failure::TimedOut, true),
    ] {
        let (mut labels, engine) = inspecting(&[OTHER], &[]);
        labels.channel(&own_channel(), Some(&failure));
        published(&mut labels, &engine);
        assert_eq!(inspected(&mut labels).is_some(), !again, "{failure:?}");
        labels.wake(at(Duration::from_millis(100)));
        assert_eq!(inspected(&mut labels).is_some(), again, "{failure:?}");
    }
}

#[test]
fn malformed_foreign_and_second_answers_are_ignored_and_a_bad_label_is_missing() {
    let (mut labels, engine) = inspecting(&[OTHER], &[THIRD]);
    subscribed(&mut labels);
    published(&mut labels, &engine);
    let long = "x".repeat(129);
    for text in [
        "told ",
        "told x 1 - a\n\nbilling:door",
        &format!("told {OTHER}:1 1 - a\n\nbilling:door"),
        &format!("told {OTHER} -1 - a\n\nbilling:door"),
        &format!("told {OTHER} +1 - a\n\nbilling:door"),
        &format!("told {OTHER} 1000000000000000 - a\n\nbilling:door"),
        &format!("told {OTHER} 1 a\n\nbilling:door"),
        &format!("told {OTHER} 1 - a billing:door"),
        &format!("told {OTHER} 1 - a\nbilling:door"),
        &format!("told {OTHER} 1 - a\n\nbilling:other"),
        &format!("told {} 1 - a\n\nbilling:door", OTHER.replace('b', "d")),
    ] {
        told(&mut labels, Duration::ZERO, text);
    }
    assert!(labels.hears(at(Duration::ZERO), &own_channel(), b"told \xff"));
    assert!(!labels.hears(at(Duration::ZERO), &own_channel(), b"wanted door"), "it is the engine's");
    assert!(!labels.hears(at(Duration::ZERO), "redisson_lock__channel:{door}", b"told "));
    told(&mut labels, Duration::ZERO, &format!("told {OTHER} 7 - {long}\n\u{1b}[2J\nbilling:door"));
    told(&mut labels, Duration::ZERO, &format!("told {OTHER} 8 - second\n\nbilling:door"));
    assert_eq!(inspected(&mut labels), None, "one is silent");
    labels.wake(at(Duration::from_millis(100)));
    assert_eq!(inspected(&mut labels).unwrap().0, [(None, Some(7))]);
}

#[test]
fn the_inspecting_client_asks_itself_without_a_message() {
    let own = ClientId::from_random([7; 16]).to_string();
    for (leases, expected) in [
        (vec![Some((at(Duration::ZERO), Some("mine")))], (Some("mine".to_string()), Some(2_000))),
        (vec![None], (None, None)),
    ] {
        let (mut labels, engine) = inspecting(&[&own], &[]);
        assert_eq!(labels.wants_channel(), None);
        let question = labels.poll_question().unwrap();
        assert_eq!(question.name(), "door");
        assert_eq!(inspected(&mut labels), None);
        labels.answer(at(Duration::from_secs(2)), &question, leases.into_iter(), std::iter::empty());
        assert_eq!(inspected(&mut labels).unwrap().0, [expected]);
        assert_eq!(published(&mut labels, &engine), Vec::<String>::new());
    }
}

#[test]
fn a_client_that_is_asked_tells_its_leases_and_its_first_caller_that_waits() {
    let mut labels = labels("web-3").with_leases("billing:");
    let own = ClientId::from_random([7; 16]);
    let second = |second| at(Duration::from_secs(second));
    let mut answer = |text: &str, leases: &[(u64, Option<&'static str>)], waits: &[(u64, Option<&'static str>)]| {
        assert!(labels.hears(second(9), &own_channel(), text.as_bytes()));
        let question = labels.poll_question()?;
        assert_eq!(question.name(), "front door");
        let given = |list: &[(u64, Option<&'static str>)]| -> Vec<_> {
            list.iter().map(|(since, label)| Some((second(*since), *label))).chain([None]).collect()
        };
        labels.answer(second(9), &question, given(leases).into_iter(), given(waits).into_iter());
        commands(&mut labels).pop().map(|(_, command)| command)
    };
    let asked = format!("asked {OTHER} billing:front door");
    let told = |rest: &str| Some(format!("PUBLISH leasehold:{OTHER} told {own} {rest}\nbilling:front door"));
    assert_eq!(answer(&asked, &[(7, Some("job 17"))], &[]), told("2000 - job 17\n"));
    assert_eq!(answer(&asked, &[(7, None)], &[(8, Some("b")), (6, Some("a"))]), told("2000 3000 \na"));
    assert_eq!(answer(&asked, &[(7, Some("b")), (3, Some("a")), (8, Some("a"))], &[]), told("6000 - a, b\n"));
    assert_eq!(answer(&asked, &[], &[]), told("- - \n"), "the asker waits no longer");
    for text in [
        "asked ",
        "asked x billing:front door",
        &format!("asked {own} billing:front door"),
        &format!("asked {OTHER} door"),
    ] {
        assert_eq!(answer(text, &[(7, None)], &[]), None, "{text}");
    }
}

#[test]
fn a_client_answers_at_most_100_questions_in_a_second() {
    let mut labels = labels("web-3").with_leases("");
    let asked = format!("asked {OTHER} door");
    for (milliseconds, answers) in [(0, 100), (999, 0), (1_000, 100), (1_500, 0)] {
        for _ in 0..150 {
            labels.hears(at(Duration::from_millis(milliseconds)), &own_channel(), asked.as_bytes());
        }
        let answered = std::iter::from_fn(|| labels.poll_question()).count();
        assert_eq!(answered, answers, "after {milliseconds} ms");
    }
}

#[test]
fn an_inspect_asks_at_most_64_other_clients() {
    let clients: Vec<String> = (0..80).map(|number| format!("{number:08}-0b0b-0b0b-0b0b-0b0b0b0b0b0b")).collect();
    let holders: Vec<&str> = clients.iter().map(String::as_str).collect();
    let (mut labels, engine) = inspecting(&holders, &[]);
    subscribed(&mut labels);
    assert_eq!(published(&mut labels, &engine).len(), 64);
    for client in &clients[..64] {
        assert_eq!(inspected(&mut labels), None);
        told(&mut labels, Duration::ZERO, &format!("told {client} 1 - \n\nbilling:door"));
    }
    assert!(inspected(&mut labels).is_some(), "it waits for no client that was not asked");
}

/// The answer about a key of another library, or other data. `left` is -1 without a TTL.
fn found(status: &str, left: i64) -> Result<Reply, Failure> {
    let mut list = vec![Scalar::Text(status.into())];
    list.extend([1, 0, 1_700_000_012_000_000, left, 1, 1].map(Scalar::Int));
    list.extend([Scalar::Text("somebody's data".into()), Scalar::Int(0)]);
    Ok(Reply::List(list))
}

#[test]
fn a_key_without_a_ttl_is_named_and_reported_once_after_a_claim_window() {
    const WINDOW: Duration = Duration::from_secs(3);
    let (mut labels, (engine, id)) = (labels("web-3").with_blocked(WINDOW), waiting());
    let after = |ms| at(Duration::from_millis(ms));
    let mut told = Vec::new();
    let mut finds = |labels: &mut Labels, ms, answer| {
        labels.takes(after(ms), id, &answer, &engine);
        told.extend(std::iter::from_fn(|| labels.poll_blocked()).map(|blocked| (ms, blocked)));
    };
    for ms in [0, 1_000, 2_000, 2_999, 3_000, 4_000, 20_000] {
        finds(&mut labels, ms, found(if ms == 0 { "busy" } else { "waiting" }, -1));
    }
    let holder = labels.holder(after(20_000), "door").unwrap();
    assert!(holder.foreign && !holder.own && holder.client.is_empty(), "{holder:?}");
    assert_eq!(
        holder.to_string(),
        "held by another library's key or other data, without a TTL: it never ends by itself"
    );
    assert!(commands(&mut labels).is_empty(), "it has no label");
    // Nobody wanted the lock for longer than a window, and later the key had a TTL for a while.
    for ms in [21_000, 22_000, 23_000] {
        finds(&mut labels, ms, found("waiting", -1));
    }
    finds(&mut labels, 23_500, found("waiting", 5_000));
    assert_eq!(labels.holder(after(23_500), "door"), None);
    for ms in [24_000, 25_000, 26_000] {
        finds(&mut labels, ms, found("waiting", -1));
    }
    let blocked = |waited| ("door".to_owned(), Duration::from_millis(waited));
    assert_eq!(told, [(3_000, blocked(3_000)), (23_000, blocked(3_000))]);
}

#[test]
fn keys_without_a_ttl_are_told_however_many_locks_are_busy_meanwhile() {
    let mut labels = labels("web-3").with_blocked(Duration::from_secs(3));
    let mut told = Vec::new();
    let calls: Vec<_> = (0..200).map(|place| (place, waiting_for(&format!("job:{place}")))).collect();
    for second in 0..6 {
        for (place, (engine, id)) in &calls {
            let answer = if place % 2 == 0 { found("waiting", -1) } else { busy("waiting", &format!("{OTHER}:1"), 0) };
            labels.takes(at(Duration::from_secs(second)), *id, &answer, engine);
        }
        told.extend(
            std::iter::from_fn(|| labels.poll_blocked()).map(|(name, waited)| (second, name, waited.as_secs())),
        );
    }
    let all: Vec<_> = (0..200).step_by(2).map(|place| (3, format!("job:{place}"), 3)).collect();
    assert_eq!(told, all);
}

#[test]
fn a_label_is_written_once_a_lease_is_held_for_a_second_and_not_for_shorter_ones() {
    let mut labels = labels("web-3");
    let after = |ms| at(Duration::from_millis(ms));
    assert_eq!(labels.poll_timeout(true), None);
    // Locks that are soon released. The client wakes once a second and looks whether it has held one for long enough.
    for ms in (0..3_000).step_by(10) {
        labels.holds(after(ms));
        assert!(labels.poll_timeout(true).is_some_and(|at| at >= after(ms)), "{ms}");
        labels.keep(after(ms + 9), || Some(after(ms)));
        assert_eq!(labels.poll_timeout(false), None, "nobody needs it while the client uses no locks");
    }
    assert!(commands(&mut labels).is_empty());
    labels.holds(after(5_000));
    labels.keep(after(5_000), || Some(after(5_000)));
    assert_eq!(labels.poll_timeout(true), Some(after(6_000)));
    labels.keep(after(6_000), || Some(after(5_000)));
    assert_eq!(commands(&mut labels).len(), 1);
    labels.holds(after(6_000));
    labels.keep(after(8_000), || Some(after(5_000)));
    assert!(commands(&mut labels).is_empty());
    assert_eq!(labels.poll_timeout(true), None);
}
