//! What callers that come and go behind a patient one leave behind: nothing.

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use leasehold_core::{AcquireOptions, ClientId, Config, Engine, Input, Instant, NodeId, OpId, Output, Wait};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

#[test]
fn a_hundred_thousand_callers_that_time_out_behind_a_patient_one_take_no_memory() {
    let mut engine = Engine::new(ClientId::from_random([7; 16]), Config::default()).expect("the defaults are valid");
    let patient = AcquireOptions { wait: Wait::Forever, ..AcquireOptions::default() };
    let hasty = AcquireOptions { wait: Wait::For(Duration::from_millis(1)), ..AcquireOptions::default() };
    let mut ended = 0;
    let mut handle = |at: u64, input: Input<'_>| {
        engine.handle(Instant::from_micros(at), input);
        while let Some(output) = engine.poll_output() {
            ended += u64::from(matches!(output, Output::Completed { .. }));
        }
        ended
    };

    handle(0, Input::Acquire { op: OpId(0), name: "job", options: &patient });
    handle(0, Input::Subscribed { node: NodeId(0), channel: "leasehold:x" });
    let mut settled = 0;
    for op in 1..=100_000 {
        let at = op * 1_000;
        handle(at, Input::Acquire { op: OpId(op), name: "job", options: &hasty });
        if op == 10_000 {
            settled = ALLOCATOR.allocated();
        }
    }
    assert_eq!(handle(200_000_000, Input::Wake), 100_000, "every caller but the first has ended");

    let grown = ALLOCATOR.allocated().saturating_sub(settled);
    assert!(grown < 16 * 1024, "{grown} bytes more after another 90,000 callers");
}
