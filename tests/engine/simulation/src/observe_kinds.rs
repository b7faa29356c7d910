//! Tells the watchers what happens to reentrant locks and semaphores.

use leasehold_core::{AcquireOptions, Grant, Instant};
use leasehold_model::Executed;

use crate::client::{Op, UserCall};
use crate::faults::Fault;
use crate::invariants::hand_overs::Limit;
use crate::invariants::leases::Held;
use crate::invariants::{Verdict, broken};
use crate::kinds::{LockKind, permits};
use crate::wire::{Answer, ScriptCommand, Status};
use crate::world::ClusterRun;

impl ClusterRun<'_> {
    /// What only a script of one kind does.
    pub(crate) fn observe_kind(&mut self, name: usize, script: &ScriptCommand, answer: &Answer, executed: &Executed) {
        if !matches!(script, ScriptCommand::Renew { .. } | ScriptCommand::Inspect) && self.is_squatted(name) {
            let detail = format!("{script:?} was answered {answer:?} under another kind's name");
            self.watch.check(broken("wrong-kind", detail));
        }
        if let (LockKind::Reentrant, ScriptCommand::Acquire { token, .. }) = (self.mix.kinds[name], script)
            && answer.grants()
            && let (true, itself) = self.listen_for(name, token.life)
            && answer.waiting <= i64::from(itself)
        {
            let detail = format!("{script:?} was answered {answer:?}, and another client listens");
            self.watch.check(broken("uncounted", detail));
        }
        let server = self.servers.home(name);
        let released = matches!(script, ScriptCommand::Release { .. }) && answer.status == Status::Released;
        let refused = self.servers.list[server].suffers(Fault::PublishRefused, self.world.now);
        if self.mix.kinds[name] == LockKind::Reentrant && released && !refused {
            let channel = crate::channels::channel_of(&self.servers.names[name]);
            if !executed.published.iter().any(|(on, payload)| *on == channel && payload == b"0") {
                let detail = format!("{script:?} freed the lock, and published {:?}", executed.published);
                self.watch.check(broken("unpublished", detail));
            }
        }
    }

    /// Whether a lock's name holds another kind of lock, so that a script is right to fail.
    pub(crate) fn holds_another_kind(&self, name: usize, script: &ScriptCommand) -> bool {
        (*script == ScriptCommand::Inspect && self.mix.kinds[name] != LockKind::Lock) || self.is_squatted(name)
    }

    /// Whether a user's call may fail for that reason.
    pub(crate) fn may_be_another_kind(&self, op: &Op) -> bool {
        (op.call == UserCall::Inspect && self.mix.kinds[op.name] != LockKind::Lock)
            || self.watch.locks[op.name].squatted
    }

    /// The owner of a reentrant lock takes it once more.
    pub(crate) fn held_by_owner(&mut self, held: usize, options: &AcquireOptions, grant: &Grant) {
        self.counts.grants += 1;
        self.counts.local += 1;
        let held = &mut self.watch.leases.held[held];
        held.holds += 1;
        if held.kind != options.kind || held.fence != grant.fence || !grant.local {
            let detail = format!("{options:?} was given {grant:?} of {held:?}");
            self.watch.check(broken("reentry", detail));
        }
    }

    /// A caller has permits.
    pub(crate) fn acquired_permits(
        &mut self,
        place: usize,
        now: Instant,
        name: usize,
        options: &AcquireOptions,
        grant: &Grant,
    ) -> Verdict {
        let client = &self.clients[place];
        let token = client.token_of(grant.lease);
        let lock = &mut self.watch.locks[name];
        let semaphores = &mut self.watch.semaphores[place][name];
        let (mut verdict, mut orphan) = (Ok(()), false);
        if let Some(token) = token {
            semaphores.begins(token);
            let hold = semaphores.hold(token);
            if hold.token == Some(token) {
                self.counts.local += u64::from(grant.local);
                verdict = hold.handed_over(now, Limit::of(&client.config), client.config.mixed_fleet);
            } else {
                hold.begin(now, Some(token), lock.lost_at);
                hold.orphan |= self.watch.forced.contains(&token);
            }
            orphan = hold.orphan;
            verdict = verdict.and(semaphores.rises(token, grant.fence));
            let (wants, has) = (permits(options.kind), lock.permits.wants(token));
            if has > 0 && wants != has {
                verdict = broken("permits", format!("{options:?} got {token:?}, which the server counts as {has}"));
            }
        }
        let client = &self.clients[place];
        let held = Held {
            life: client.life,
            client: place,
            lease: grant.lease,
            name,
            kind: options.kind,
            allowed: lock.permits.allowed(token),
            mode: grant.mode,
            fence: grant.fence,
            valid_until: grant.valid_until,
            until: client.clock.when(grant.valid_until.as_micros()),
            since: self.world.now,
            since_local: now,
            ttl: options.ttl,
            left: grant.valid_until.since(now),
            renew: options.renew,
            ends: options.max_hold.map(|most| now + most),
            kept: None,
            holds: 1,
            orphan,
            token,
        };
        self.watch.leases.held.push(held);
        let held = self.watch.leases.held.iter().filter(|held| held.name == name);
        let permits = self.watch.locks[name].permits.check(held, self.world.now);
        verdict.and(permits)
    }
}
