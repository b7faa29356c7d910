//! An engine that is given anything in any order: users who misuse it, servers that answer garbage, a clock that jumps.
//! Whatever happens, it neither panics nor hangs, ends every call once, keeps its holders apart, and leaves nothing.

mod rules;
mod world;

use world::FuzzedEngine;

const SEEDS: u64 = 30;
const INPUTS: usize = 10_000;

#[test]
fn any_inputs_end_every_call_once_and_leave_nothing_when_the_server_answers() {
    for seed in 0..SEEDS {
        let mut fuzzed = FuzzedEngine::new(seed);
        for _ in 0..INPUTS {
            fuzzed.anything_happens();
        }
        fuzzed.everything_is_given_up();
        fuzzed.the_server_answers_until_idle();
    }
}

#[test]
fn any_inputs_end_every_call_once_and_leave_nothing_when_the_server_falls_silent() {
    for seed in SEEDS..2 * SEEDS {
        let mut fuzzed = FuzzedEngine::new(seed);
        for _ in 0..INPUTS {
            fuzzed.anything_happens();
        }
        fuzzed.everything_is_given_up();
        fuzzed.nobody_answers_until_idle();
    }
}

#[test]
fn a_close_ends_every_call_and_lease_and_leaves_nothing() {
    for seed in 0..SEEDS {
        let mut fuzzed = FuzzedEngine::new(seed);
        for _ in 0..500 {
            fuzzed.anything_happens();
        }
        fuzzed.closes();
        for _ in 0..500 {
            fuzzed.anything_happens();
        }
        if seed % 2 == 0 {
            fuzzed.the_server_answers_until_idle();
        } else {
            fuzzed.nobody_answers_until_idle();
        }
    }
}
