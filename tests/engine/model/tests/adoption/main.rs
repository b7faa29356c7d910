//! Leases go from client to client, on virtual time: commands and messages are lost, late and doubled, and clients crash.

mod world;

use leasehold_core::{AcquireOptions, Config, Error, Input, LeaseToken};
use leasehold_harness::Client;
use leasehold_harness::answers::entries;
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
    let mut client = Client::new(Config::default());
    client.acquire("job", AcquireOptions::default());
    let [(_, command)] = &client.unanswered[..] else { panic!("the token asks for the lock") };
    let token = LeaseToken::read(&entries(command).expect("the common path")[0].token).unwrap();
    let options = AcquireOptions::default();
    let adopts = client.call(|op| Input::Adopt { op, name: "job", token, options: &options });
    assert_eq!(client.result_of(adopts), Some(&Err(Error::NotHeld)));
    assert_eq!(client.unanswered.len(), 1, "the server would have buried the token, which may wait");
}
