//! A client that learns only with its first commands that the server enforces the slots of a cluster.

use leasehold_core::{Config, Failure, Input, NodeId, OpId, Outcome, Part, hash_slot};

use super::client::{Client, fixed, tries, words};

/// The keys of each command that is out. The last one of a script's is the counter, or one that is never there.
fn keys(client: &Client) -> Vec<Vec<String>> {
    let keys = |words: &[String]| {
        let count = words[2].parse::<usize>().unwrap();
        words[3..3 + count].to_vec()
    };
    client.unanswered.iter().map(|(_, command)| keys(&words(command))).collect()
}

/// Answers every command as a server that enforces slots does, until `op` has ended.
fn serve(client: &mut Client, op: OpId) {
    for _ in 0..20 {
        client.feed(Input::Wake);
        let Some(keys) = keys(client).into_iter().next() else { break };
        let slots = keys.iter().map(|key| hash_slot(key.as_bytes()));
        if slots.clone().all(|slot| Some(slot) == slots.clone().next()) {
            client.answer();
        } else {
            client.answer_with(Err(Failure::Refused("CROSSSLOT Keys in request don't hash to the same slot".into())));
        }
    }
    assert!(matches!(client.result_of(op), Some(Ok(_))), "{:?}", client.result_of(op));
}

#[test]
fn a_command_that_left_before_is_sent_again_with_the_counter_of_its_slot() {
    for batches in [true, false] {
        let mut client = Client::new(Config { batches, ..Config::default() });
        let op = client.acquire("door", fixed());
        client.feed(Input::Wake);
        assert!(keys(&client)[0].contains(&"leasehold:fence".to_owned()), "{:?}", keys(&client));
        client.engine.set_cluster(NodeId(0));

        // As the driver says of a command that the server has refused for its keys.
        client.answer_with(Err(Failure::Refused("NOSCRIPT the keys are in different slots".into())));

        assert!(
            keys(&client)[0].iter().all(|key| hash_slot(key.as_bytes()) == hash_slot(b"door")),
            "{:?}",
            keys(&client)
        );
        serve(&mut client, op);
    }
}

#[test]
fn names_of_several_slots_are_then_taken_one_after_the_other_by_a_try_too() {
    for options in [fixed(), tries()] {
        let mut client = Client::new(Config::default());
        let parts = Part::mutexes(&["one", "other"]);
        let op = client.call(|op| Input::AcquireAll { op, parts: &parts, options: &options, one_script: false });
        client.engine.set_cluster(NodeId(0));
        client.answer_with(Err(Failure::Refused("NOSCRIPT the keys are in different slots".into())));
        serve(&mut client, op);
        assert!(matches!(client.result_of(op), Some(Ok(Outcome::AcquiredAll { .. }))), "{:?}", client.result_of(op));
    }
}
