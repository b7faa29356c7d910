//! A host of the engine without a clock, I/O or randomness. It links exactly what the engine needs.

use std::hint::black_box;
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, CommandId, Config, Engine, Failure, Input, Instant, LeaseId, Mode, NodeId, OpId, Reply,
};

fn main() {
    let (op, lease, id, node) = black_box((OpId(1), LeaseId(1), CommandId(1), NodeId(0)));
    let Ok(mut engine) = Engine::new(ClientId::from_random(black_box([7; 16])), Config::default()) else { return };
    let inputs = [
        Input::Acquire { op, name: "invoice:42", options: &AcquireOptions::default() },
        Input::Subscribed { node, channel: "leasehold:" },
        Input::Reply { id, result: black_box(Ok(Reply::List(Vec::new()))) },
        Input::Message { node, channel: "leasehold:", payload: b"wanted invoice:42" },
        Input::Extend { op, lease, ttl: black_box(Duration::MAX) },
        Input::Convert { op, lease, mode: Mode::Shared },
        Input::Hold { op, lease },
        Input::Verify { op, lease },
        Input::Inspect { op, name: "invoice:42" },
        Input::Cancel { op },
        Input::Release { op, lease },
        Input::Wake,
        Input::Unsubscribed { node, channel: "leasehold:", cause: Failure::Unsupported(String::new()) },
        Input::Drain { op, grace: black_box(Duration::MAX) },
        Input::Close { op },
    ];
    for input in inputs {
        engine.handle(black_box(Instant::from_micros(1)), black_box(input));
    }
    while let Some(output) = engine.poll_output() {
        black_box(output);
    }
    black_box((engine.poll_timeout(), engine.valid_until(lease)));
}
