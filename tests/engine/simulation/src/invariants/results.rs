//! The results of a once: at most one counts at a time, only a holder stores one, and every caller that ends well has it.

use std::collections::HashMap;

use leasehold_core::{OpId, Outcome, ReleaseOutcome};
use leasehold_harness::Micros;
use leasehold_model::{Executed, ModelServer};

use super::broken;
use super::keys::Part;
use crate::client::UserCall;
use crate::faults::Fault;
use crate::kinds::LockKind;
use crate::wire::{Answer, Message, ScriptCommand, Status, Token};
use crate::world::ClusterRun;

/// The results of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    /// Every result that was stored.
    stored: Vec<Stored>,
    /// The fence of the lease with which each of them was to be stored.
    fences: HashMap<u64, u64>,
    /// What was there before the script that runs.
    before: (Option<Token>, Option<Stored>),
}

/// A result on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    writer: Token,
    fence: u64,
    value: u64,
    /// When it ends, in the server's µs.
    until: u64,
    /// When it was forgotten.
    forgotten: Option<Micros>,
}

impl Stored {
    fn on(model: &ModelServer, server_us: u64, key: &str) -> Option<Self> {
        let record = model.get(server_us, key)?;
        let mut words = record.splitn(3, ' ');
        let [writer, fence, value] = std::array::from_fn(|_| words.next());
        Some(Self {
            writer: Token::read(writer?.as_bytes())?,
            fence: fence?.parse().ok()?,
            value: value?.parse().ok()?,
            until: model.expires(server_us, key)?,
            forgotten: None,
        })
    }
}

impl Results {
    /// A caller with this fence is about to store a value.
    pub(crate) fn stores(&mut self, value: u64, fence: u64) {
        self.fences.insert(value, fence);
    }

    /// Whether a result has another fence than the caller that stored it.
    fn has_wrong_fence(&self, stored: &Stored) -> bool {
        self.fences.get(&stored.value).is_some_and(|fence| *fence != stored.fence)
    }
}

impl ClusterRun<'_> {
    fn result_on(&self, server: usize, name: usize) -> Option<Stored> {
        let server_us = self.servers.time(server, self.world.now);
        Stored::on(&self.servers.models[server], server_us, self.watch.keys.key(name, Part::Result))
    }

    /// A server is about to run a script.
    pub(crate) fn observe_before_once(&mut self, server: usize, name: usize) {
        if self.mix.kinds[name] == LockKind::Once {
            let server_us = self.servers.time(server, self.world.now);
            let holders = self.watch.keys.holders(&self.servers.models[server], server_us, name);
            let holder = holders.first().map(|(token, _)| *token);
            self.watch.locks[name].results.before = (holder, self.result_on(server, name));
        }
    }

    /// A server ran a script of a once.
    pub(crate) fn observe_once(&mut self, name: usize, script: &ScriptCommand, answer: &Answer, executed: &Executed) {
        if self.mix.kinds[name] != LockKind::Once {
            return;
        }
        let server = self.servers.home(name);
        let after = self.result_on(server, name);
        let server_us = self.servers.time(server, self.world.now);
        let waiting = self.watch.keys.waiting(&self.servers.models[server], server_us, name);
        let refused = self.servers.list[server].suffers(Fault::PublishRefused, self.world.now);
        let results = &mut self.watch.locks[name].results;
        let (holder, before) = results.before;
        let is_new = after.is_some_and(|after| before.is_none_or(|before| before.writer != after.writer));
        let detail = || format!("{script:?} was answered {answer:?}: {before:?} of {holder:?} became {after:?}");
        let published = || executed.published.iter().map(|(_, payload)| Message::read(payload));
        let grants = answer.grants() || published().any(|it| matches!(it, Some(Message::Grant { .. })));
        let told = published()
            .filter(|it| matches!(it, Some(Message::Done { key }) if *key == self.servers.names[name]))
            .count();
        let stores = match *script {
            ScriptCommand::Release { token, stores: Some(value), .. } => Some((token, value)),
            _ => None,
        };
        let verdict = match (after, stores) {
            _ if is_new && before.is_some() => broken("once-again", detail()),
            _ if grants && after.is_some() => broken("once-again", detail()),
            (Some(after), stores)
                if is_new && (stores != Some((after.writer, after.value)) || holder != Some(after.writer)) =>
            {
                broken("once-loser", detail())
            }
            (Some(after), _) if is_new && results.has_wrong_fence(&after) => broken("once-fence", detail()),
            (after, Some((token, _)))
                if answer.status == Status::Released && after.is_none_or(|after| after.writer != token) =>
            {
                broken("once-dropped", detail())
            }
            (Some(_), _) if is_new && !refused && told != waiting.len().min(64) => broken("once-untold", detail()),
            (after, _)
                if answer.status == Status::Done
                    && after.map(|after| (after.fence, Some(after.value))) != Some((answer.value, answer.result)) =>
            {
                broken("once-value", detail())
            }
            _ => Ok(()),
        };
        results.stored.extend(after.filter(|_| is_new));
        self.watch.check(verdict);
    }

    /// Deletes the result of a once, if there is one, as a caller's `forget` does.
    pub(crate) fn forget_result(&mut self, name: usize) {
        let server = self.servers.home(name);
        if self.result_on(server, name).is_none()
            || self.servers.list[server].suffers(Fault::ServerCrash, self.world.now)
        {
            return;
        }
        let (now, server_us) = (self.world.now, self.servers.time(server, self.world.now));
        let key = self.watch.keys.key(name, Part::Result).to_owned();
        let model = &mut self.servers.models[server];
        model.set_read_only(false);
        model.execute(server_us, &[b"DEL", key.as_bytes()]);
        self.note_line("all", format_args!("   {key} is forgotten"));
        for stored in &mut self.watch.locks[name].results.stored {
            stored.forgotten.get_or_insert(now);
        }
    }

    /// A call about a once has ended.
    pub(crate) fn check_result(&mut self, place: usize, op: OpId, outcome: &Outcome) {
        let client = &self.clients[place];
        let open = client.ops[op.0 as usize];
        if self.mix.kinds[open.name] != LockKind::Once {
            return;
        }
        let server = self.servers.home(open.name);
        let (stored, current) = (&self.watch.locks[open.name].results.stored, self.result_on(server, open.name));
        let since: Micros = client.clock.when(open.since.as_micros());
        // A replica's clock may be behind.
        let slack = 5_000 + self.watch.longest.behind_ms * 1_000;
        let counted = |it: &Stored| {
            it.forgotten.is_none_or(|at| at >= since) && it.until + slack >= self.servers.time(server, since)
        };
        let verdict = match (open.call, outcome) {
            (UserCall::Acquire(_), Outcome::Stored { fence, value }) => {
                let value = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                let found = stored.iter().any(|it| (it.fence, Some(it.value)) == (*fence, value) && counted(it));
                if found {
                    Ok(())
                } else {
                    broken("once-value", format!("{open:?} ended with {outcome:?}: {stored:?}"))
                }
            }
            (UserCall::Store(value), Outcome::Released(released)) => {
                let is_stored = stored.iter().any(|it| it.value == value);
                let is_there = current.is_some_and(|it| it.value == value);
                match released {
                    ReleaseOutcome::Released if !is_stored => {
                        broken("once-untrue", format!("{open:?} was told that it is stored: {stored:?}"))
                    }
                    ReleaseOutcome::AlreadyExpired | ReleaseOutcome::NotOwner if is_there => {
                        broken("once-untrue", format!("{open:?} was told {released:?}, and it is stored: {stored:?}"))
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        };
        self.watch.check(verdict);
    }
}
