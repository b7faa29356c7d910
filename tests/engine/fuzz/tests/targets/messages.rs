//! Messages: any bytes on any channel, to a client that holds locks, waits for others and inspects one.

use leasehold_fuzz::{Answering, Step, World};

use crate::RANDOM;

/// What the client does before the message comes.
const BEFORE: [&str; 15] = [
    "acquire a forever",
    "acquire c shared",
    "acquire s permits=2",
    "acquire {t}1 linger=1000",
    "serve 8",
    "server SET b 00000000-0000-4000-8000-000000000001:1 PX 60000",
    "server HSET r 00000000-0000-4000-8000-000000000001:1 1",
    "acquire b forever",
    "acquire b shared",
    "acquire r forever",
    "serve 8",
    "subscribed",
    "serve 8",
    "inspect a",
    "serve 1",
];

/// A message does at most what it says: the engine does not panic, and the rules of [`World`] hold. The first line of an
/// input is the channel, the rest is the message.
#[test]
fn messages() {
    bolero::check!(name = "messages").with_iterations(RANDOM).for_each(|input| {
        for answering in [Answering::Server, Answering::Nobody] {
            let mut world = waiting();
            receive(&mut world, input);
            receive(&mut world, input);
            world.end(answering);
        }
    });
}

fn waiting() -> World {
    let mut world = World::new("");
    for line in BEFORE {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        world.step(Step { verb, rest });
    }
    world
}

fn receive(world: &mut World, input: &[u8]) {
    let at = input.iter().position(|byte| *byte == b'\n').unwrap_or_default();
    let (channel, payload) = input.split_at(at);
    let payload = payload.strip_prefix(b"\n").unwrap_or(payload);
    let channel = world.filled_in(&String::from_utf8_lossy(channel));
    let payload = match std::str::from_utf8(payload) {
        Ok(text) => world.filled_in(text).into_bytes(),
        Err(_) => payload.to_vec(),
    };
    world.message(&channel, &payload);
}

/// Otherwise the target would only show that the engine ignores what it does not wait for.
#[test]
fn the_client_waits_for_the_grant_of_the_corpus() {
    let mut world = waiting();
    assert_eq!(world.leases(), 4);
    receive(&mut world, include_bytes!("__fuzz__/messages/corpus/a-grant"));
    assert_eq!(world.leases(), 5);
    receive(&mut world, include_bytes!("__fuzz__/messages/corpus/revoked"));
    assert_eq!(world.leases(), 4);
}
