//! Leases go from client to client, on virtual time: commands and messages are lost, late and doubled, and clients crash.

mod world;

use leasehold_core::{AcquireOptions, ClientId, Config, Engine, Error, Input, Instant, LeaseToken, OpId, Output};
use world::World;

/// How many runs there are. `LEASEHOLD_SEEDS` sets another number.
const SEEDS: u64 = 400;

#[test]
fn one_holder_at_a_time_whoever_adopts_and_whatever_the_network_does() {
    let seeds = std::env::var("LEASEHOLD_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let mut adopted = 0;
    for seed in 0..seeds {
        adopted += World::new(seed).run();
    }
    assert!(adopted > seeds, "only {adopted} adoptions in {seeds} runs");
}

#[test]
fn a_client_asks_no_server_for_a_token_of_its_own_that_holds_nothing() {
    let id = ClientId::from_random([7; 16]);
    let mut engine = Engine::new(id, Config::default()).unwrap();
    let (token, options) = (LeaseToken::read(&format!("{id}:1")).unwrap(), AcquireOptions::default());
    engine.handle(Instant::default(), Input::Acquire { op: OpId(1), name: "job", options: &options });
    engine.handle(Instant::default(), Input::Wake);
    assert!(matches!(engine.poll_output(), Some(Output::Send { .. })), "the token asks for the lock");
    while engine.poll_output().is_some() {}
    engine.handle(Instant::default(), Input::Adopt { op: OpId(2), name: "job", token, options: &options });
    let Some(Output::Completed { op: OpId(2), result: Err(Error::NotHeld) }) = engine.poll_output() else {
        panic!("the server would have buried the token, which may wait");
    };
    assert!(engine.poll_output().is_none());
}
