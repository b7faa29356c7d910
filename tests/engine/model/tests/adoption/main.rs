//! Leases go from client to client, on virtual time: commands and messages are lost, late and doubled, and clients crash.

mod world;

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
