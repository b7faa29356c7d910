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
    let config = Config { prefix: "billing:".into(), ..Config::default() };
    let mut engine = Engine::new(ClientId::from_random([7; 16]), config).unwrap();
    let options = AcquireOptions::default();
    engine.handle(at(Duration::ZERO), Input::Acquire { op: OpId(1), name: "door", options: &options });
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
    labels.keep(at(7 * HOUR));
    assert!(commands(&mut labels).is_empty());
    labels.keep(at(9 * HOUR));
    assert_eq!(commands(&mut labels).len(), 1);
    labels.keep(at(10 * HOUR));
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
        labels.keep(after(ms));
    }
    assert_eq!(written, 5);
}

#[test]
fn a_client_without_a_label_tells_and_deletes_nothing() {
    let mut labels = labels("");
    labels.holds_back(|| at(Duration::ZERO), &mut subscribe(&own_channel()));
    labels.keep(at(9 * HOUR));
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
        let closed = Outcome::Closed { unreleased: 2 };
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
    let Some((OpId(1), Outcome::Inspected(Inspection { holders, waiters, .. }))) = labels.poll_completed() else {
        panic!("no result");
    };
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
