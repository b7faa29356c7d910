//! What a client of a quorum has learned from each server, from the answers alone. A try ends as soon as too few servers are
//! left for a majority.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::{CommandId, Failure, Instant, Reply};
use leasehold_harness::Micros;

use crate::wire::{AcquireMode, Answer, Asked, Entry, ScriptCommand, Status, Token};

/// One client's attempts, the newest of each server and name.
#[derive(Default)]
pub(crate) struct Attempts {
    list: Vec<Attempt>,
    /// Commands without an answer.
    sent: HashMap<CommandId, Sent>,
}

struct Attempt {
    server: usize,
    key: Vec<u8>,
    token: Token,
    /// When it was sent first.
    since: Micros,
    /// The server has refused it, or has lost its lease.
    is_out: bool,
    /// When the server's lease has surely ended, unless it is renewed.
    ends: Option<Instant>,
    /// The server's time of the newest answer. An older one, to an earlier copy of the command, says nothing.
    newest: u64,
}

struct Sent {
    server: usize,
    at: Instant,
    calls: Vec<(ScriptCommand, Option<Entry>)>,
}

impl Attempts {
    /// A command leaves.
    pub(crate) fn sends(&mut self, server: usize, id: CommandId, (now, at): (Micros, Instant), words: &[&[u8]]) {
        let Some(asked) = Asked::read(words) else { return };
        for Asked { script, key, .. } in &asked {
            match *script {
                ScriptCommand::Acquire { token, how, .. } if how != AcquireMode::Refill => {
                    let same = |it: &Attempt| it.server == server && it.key == *key;
                    if !self.list.iter().any(|it| same(it) && it.token == token) {
                        self.list.retain(|it| !same(it));
                        let key = key.to_vec();
                        let fresh = Attempt { server, key, token, since: now, is_out: false, ends: None, newest: 0 };
                        self.list.push(fresh);
                    }
                }
                ScriptCommand::Release { token, .. } => {
                    self.list.retain(|it| (it.server, it.token) != (server, token));
                }
                _ => {}
            }
        }
        let calls = asked.iter().map(|asked| (asked.script, asked.entry)).collect();
        self.sent.insert(id, Sent { server, at, calls });
    }

    /// An answer arrives. The client ignores one that comes after the timeout.
    pub(crate) fn answered(&mut self, id: CommandId, at: Instant, timeout: Duration, result: &Result<Reply, Failure>) {
        let (Some(sent), Ok(reply)) = (self.sent.remove(&id), result) else { return };
        if at.since(sent.at) >= timeout {
            return;
        }
        for (script, entry) in sent.calls {
            let answer = entry.map_or_else(|| Answer::read(reply), |entry| entry.answer(&script, reply));
            let token = script.token();
            let attempt = self.list.iter_mut().find(|it| it.server == sent.server && Some(it.token) == token);
            let (Some(answer), Some(attempt)) = (answer, attempt) else { continue };
            if answer.server_us < attempt.newest {
                continue;
            }
            attempt.newest = answer.server_us;
            match (script, answer.status) {
                (ScriptCommand::Acquire { .. }, Status::Busy)
                | (ScriptCommand::Renew { .. }, Status::Gone | Status::Taken) => attempt.is_out = true,
                (_, Status::Entered | Status::Again | Status::Renewed) => {
                    let ends = sent.at + Duration::from_millis(answer.ms.try_into().unwrap_or(0));
                    attempt.ends = attempt.ends.max(Some(ends));
                }
                _ => {}
            }
        }
    }

    /// How many servers can no longer agree to a try of this name that began at `since`.
    pub(crate) fn out(&self, key: &[u8], since: Micros, at: Instant) -> usize {
        let of = |it: &&Attempt| it.key == key && it.since >= since;
        self.list.iter().filter(of).filter(|it| it.is_out || it.ends.is_some_and(|ends| ends < at)).count()
    }
}
