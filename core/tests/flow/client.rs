//! What the tests of the flow do with a client, and how its users ask.

use std::time::Duration;

use leasehold_core::{AcquireOptions, Command, CommandId, Failure, OpId, Wait};

pub(crate) use leasehold_harness::Client;
pub(crate) use leasehold_harness::answers::{
    SERVER_US, batch_reply, denied, entries, granting, name_of, status, words,
};

/// The server answers the oldest command, or refuses one that grants nothing.
pub(crate) fn answer_anything(client: &mut Client) {
    let (id, command) = client.unanswered.remove(0);
    let known = entries(&command).is_some();
    client.reply(id, if known { Ok(granting(&command, client.now)) } else { Err(Failure::Refused("ERR".into())) });
}

/// How many requests a command carries.
pub(crate) fn size_of(command: &Command) -> usize {
    entries(command).map_or(1, |entries| entries.len())
}

/// Fills the window and the queue behind it.
pub(crate) fn fill(client: &mut Client, count: usize) {
    for place in 0..count {
        client.acquire(&format!("fill{place}"), fixed());
    }
}

/// The server answers a command every 100 ms until one about `name` leaves or the call ends.
pub(crate) fn serve_until_it_leaves(client: &mut Client, name: &str, op: OpId) {
    let about = |(_, command): &(CommandId, Command)| name_of(command) == name;
    while client.result_of(op).is_none() && !client.unanswered.iter().any(about) {
        client.pass(Duration::from_millis(100));
        if !client.unanswered.is_empty() {
            client.answer();
        }
    }
}

pub(crate) fn tries() -> AcquireOptions {
    AcquireOptions { wait: Wait::No, ..fixed() }
}

pub(crate) fn fixed() -> AcquireOptions {
    AcquireOptions { ttl: Duration::from_secs(600), renew: false, ..AcquireOptions::default() }
}
