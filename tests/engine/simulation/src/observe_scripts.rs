//! Tells the watchers what happens on the servers.

use leasehold_core::{Mode, Reply, Scalar};
use leasehold_harness::Micros;
use leasehold_model::Executed;

use crate::faults::Fault;
use crate::invariants::broken;
use crate::invariants::hand_overs::{Hold, ServerGrant};
use crate::invariants::keys::{Part, holder_of};
use crate::invariants::leases::Held;
use crate::invariants::waiters;
use crate::kinds::LockKind;
use crate::wire::{AcquireMode, Answer, Asked, Message, ScriptCommand, Status, Token, is_fast_reply};
use crate::world::ClusterRun;

/// A grant of a script.
struct Granted {
    token: Token,
    mode: Mode,
    fence: u64,
    ms: u64,
    how: Granting,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Granting {
    /// To the caller, which had nothing.
    Entered,
    /// To the caller, which already had it.
    Again,
    /// To the caller, in another mode.
    Converted,
    /// To the caller, from another client.
    Adopted,
    /// To a waiter.
    Message,
}

impl ClusterRun<'_> {
    /// A server is about to run a script.
    pub(crate) fn observe_before(&mut self, server: usize, name: usize) {
        self.observe_before_once(server, name);
        if self.mix.kinds[name] == LockKind::Semaphore {
            let server_us = self.servers.time(server, self.world.now);
            if !self.watch.keys.knows_permits(&self.servers.models[server], server_us, name) {
                self.watch.locks[name].permits.forgets();
            }
        }
    }

    /// A server ran a script.
    pub(crate) fn observe(&mut self, server: usize, name: usize, script: &ScriptCommand, executed: &Executed) {
        let server_us = self.servers.time(server, self.world.now);
        let reply = match &executed.reply {
            Ok(reply) => reply,
            Err(text) if text.starts_with("NOSCRIPT") => return,
            // Releases and renewals are never refused for lack of memory.
            Err(text)
                if text.starts_with("OOM")
                    && !matches!(script, ScriptCommand::Release { .. } | ScriptCommand::Renew { .. }) =>
            {
                return self.observe_refusal(server, name, script, server_us);
            }
            Err(text) if ["TRYAGAIN", "READONLY"].iter().any(|code| text.starts_with(code)) => {
                return self.observe_refusal(server, name, script, server_us);
            }
            Err(text) if text.contains("WRONGTYPE") && self.holds_another_kind(name, script) => return,
            Err(text) => return self.watch.check(broken("script-error", format!("{script:?}: {text}"))),
        };
        let Some(answer) = Answer::read(reply) else {
            if *script != ScriptCommand::Inspect {
                self.watch.check(broken("words", format!("{script:?} was answered {reply:?}")));
            }
            return;
        };
        self.observe_kind(name, script, &answer, executed);
        self.observe_once(name, script, &answer, executed);
        self.observe_adoption(name, script, &answer);
        self.observe_detached(server, name, script, server_us);
        self.observe_call(server, name, script, &answer, server_us);
        self.observe_late_copy(name, script, &answer);
        self.observe_grants(name, script, &answer, executed, server_us);
        self.observe_mark(server, name, script, &answer, executed, server_us);
        self.observe_end(server, name, script, &answer, server_us);
        self.observe_key(server, name, &answer, server_us);
        self.observe_backing(server, name, server_us);
    }

    /// A server answered an acquire that asks how many callers wait at other clients.
    pub(crate) fn observe_counted(
        &mut self,
        server: usize,
        name: usize,
        words: &[&[u8]],
        waited: bool,
        executed: &Executed,
    ) {
        let Ok(Reply::List(reply)) = &executed.reply else { return };
        let Some((_, Some(most))) = waiters::counts(words).filter(|_| self.mix.limits > 0) else { return };
        let Some((ScriptCommand::Acquire { token, .. }, _)) = ScriptCommand::read(words) else { return };
        let (Some(answer), Some(Scalar::Int(told))) = (Answer::read(&Reply::List(reply.clone())), reply.get(9)) else {
            return;
        };
        let server_us = self.servers.time(server, self.world.now);
        let records = self.watch.keys.callers(&self.servers.models[server], server_us, name);
        let told = (*told as u64, answer.status == Status::Busy);
        let verdict = waiters::answered((token, most, waited), told, &records);
        self.watch.check(verdict);
    }

    /// A server refused a script. If the script was the second copy of a conversion and the server ran the first copy, the
    /// client takes the refusal as the answer. With its next renewal, it finds out that the old token holds nothing.
    fn observe_refusal(&mut self, server: usize, name: usize, script: &ScriptCommand, server_us: u64) {
        let ScriptCommand::Convert { old, new, .. } = *script else { return };
        let holders = self.watch.keys.holders(&self.servers.models[server], server_us, name);
        if holders.iter().any(|(holder, _)| *holder == new) {
            let moved = self.watch.leases.held.iter_mut().filter(|held| held.token == Some(old));
            moved.for_each(|held| held.orphan = true);
        }
    }

    /// A server that has lost its tombstones ran a late copy of a conversion that it had refused. If the client hears nothing of
    /// it, it finds out with its next renewal.
    fn observe_late_copy(&mut self, name: usize, script: &ScriptCommand, answer: &Answer) {
        let ScriptCommand::Convert { old, .. } = *script else { return };
        if answer.status != Status::Converted || self.watch.locks[name].tokens.lost_at.is_none() {
            return;
        }
        let (clients, leases) = (&self.clients, &mut self.watch.leases);
        for held in leases.held.iter_mut().filter(|held| held.token == Some(old)) {
            let client = &clients[held.client];
            held.orphan |= !client.open.iter().any(|op| client.ops[*op as usize].converts(name));
        }
    }

    /// A server ran a batch. For the watchers, each entry that was not left undone is a script call of its own.
    pub(crate) fn observe_batch(
        &mut self,
        server: usize,
        asked: &[Asked<'_>],
        names: &[usize],
        answers: &[Option<Answer>],
        executed: &Executed,
    ) {
        match &executed.reply {
            Ok(reply) if is_fast_reply(reply, asked.len()) => {}
            Err(text) if ["NOSCRIPT", "TRYAGAIN", "READONLY"].iter().any(|code| text.starts_with(code)) => return,
            Err(text) if text.starts_with("OOM") && matches!(asked[0].script, ScriptCommand::Acquire { .. }) => return,
            // The release of a lost lease finds another kind of lock. Its own script says so.
            Err(text) if text.contains("WRONGTYPE") && asked.len() == 1 => return,
            reply => return self.watch.check(broken("words", format!("{asked:?} was answered {reply:?}"))),
        }
        for ((asked, name), answer) in asked.iter().zip(names).zip(answers) {
            if let (ScriptCommand::Release { token, .. }, None) = (asked.script, answer)
                && executed.reply.is_ok()
                // A replica refuses the delete, and the batch leaves the entry undone.
                && !self.servers.list[server].suffers(Fault::NotReady, self.world.now)
                && self.watch.locks[*name].lost_at.is_none()
            {
                let server_us = self.servers.time(server, self.world.now);
                let verdict = self.watch.keys.undone(&self.servers.models[server], server_us, *name, token);
                self.watch.check(verdict);
            }
            if let Some(answer) = answer {
                let channel = crate::channels::channel_of(&self.servers.names[*name]);
                let published = executed.published.iter().filter(|(on, _)| *on == channel).cloned().collect();
                let executed = Executed { reply: Ok(answer.as_reply()), published };
                self.observe(server, *name, &asked.script, &executed);
            }
        }
    }

    /// A waiter is told its place, and every script that lets somebody wait or enter says in N whether clients wait.
    fn observe_mark(
        &mut self,
        server: usize,
        name: usize,
        script: &ScriptCommand,
        answer: &Answer,
        executed: &Executed,
        server_us: u64,
    ) {
        let model = &self.servers.models[server];
        if let (ScriptCommand::Acquire { token, .. }, Status::Waiting) = (script, answer.status) {
            let verdict = self.watch.keys.placed(model, server_us, name, *token, (answer.value, answer.waiting));
            self.watch.check(verdict);
        }
        let told = |(_, payload): &(String, Vec<u8>)| matches!(Message::read(payload), Some(Message::Grant { .. }));
        let wrote = matches!(answer.status, Status::Waiting | Status::Entered | Status::Converted);
        if self.mix.kinds[name] == LockKind::Lock && (wrote || executed.published.iter().any(told)) {
            let verdict = self.watch.keys.marked(&self.servers.models[server], server_us, name);
            self.watch.check(verdict);
        }
    }

    /// The lock's key lasts as long as the lease that was just answered.
    fn observe_key(&mut self, server: usize, name: usize, answer: &Answer, server_us: u64) {
        let answered = answer.grants() || answer.status == Status::Renewed;
        let promised = if answered { server_us / 1_000 + answer.ms.max(0) as u64 } else { 0 };
        let verdict = self.watch.keys.lasts(&self.servers.models[server], server_us, name, promised);
        self.watch.check(verdict);
    }

    /// What a script does before it grants.
    fn observe_call(&mut self, server: usize, name: usize, script: &ScriptCommand, answer: &Answer, server_us: u64) {
        let now_ms = server_us / 1_000;
        let lock = &mut self.watch.locks[name];
        lock.queue.begins(now_ms);
        match *script {
            ScriptCommand::Acquire { token, how, claim_ms, .. } if how != AcquireMode::Refill => match answer.status {
                Status::Entered | Status::Waiting | Status::Busy => {
                    if let ScriptCommand::Acquire { permits: Some(permits), .. } = *script {
                        lock.permits.asks(token, permits, !lock.queue.has(token));
                    }
                    lock.queue.calls(token, now_ms, claim_ms);
                }
                Status::Done => lock.queue.leaves(token),
                _ => {}
            },
            ScriptCommand::Release { token, .. } => {
                lock.queue.leaves(token);
                lock.permits.released(token);
            }
            // A late command may have put the old token into the queue. A tombstone takes it out. An adoption that takes nothing
            // over leaves the queue as it is.
            ScriptCommand::Convert { old, tombstone: true, .. } if script.adopts().is_none() || answer.grants() => {
                let waiting = self.watch.keys.waiting(&self.servers.models[server], server_us, name);
                let gone = Some(old).filter(|old| !waiting.contains(old));
                gone.into_iter().for_each(|old| lock.queue.leaves(old));
            }
            ScriptCommand::Renew { token, .. } if answer.status == Status::Renewed => {
                let verdict = lock.terms.renewed(token, now_ms, answer.ms.try_into().unwrap_or(0));
                lock.permits.renewed(token, now_ms, answer.ms.try_into().unwrap_or(0));
                let lost_at = lock.lost_at;
                if !self.grants_went_unseen(name) {
                    self.watch.check(verdict);
                }
                self.observe_orphan(name, token, lost_at);
            }
            _ => {}
        }
        if self.servers.list[server].suffers(Fault::PublishRefused, self.world.now) {
            // A granted waiter can only be noticed by its absence from the queue.
            let mut waiting = self.watch.keys.waiting(&self.servers.models[server], server_us, name);
            if let ScriptCommand::Acquire { token, .. } = *script {
                waiting.push(token);
            }
            self.watch.locks[name].queue.keep(&waiting);
            for (holder, _) in self.watch.keys.holders(&self.servers.models[server], server_us, name) {
                self.watch.locks[name].fences.granted(holder);
            }
        }
    }

    /// If the server's data was lost, its holder finds out at its next renewal.
    fn observe_orphan(&mut self, name: usize, token: Token, lost_at: Option<Micros>) {
        let orphan = |hold: &&Hold| hold.orphan && hold.token == Some(token);
        let hold = {
            let semaphores = self.watch.semaphores.iter().flat_map(|semaphores| semaphores[name].each());
            self.watch.holds.iter().map(|holds| &holds[name]).chain(semaphores).find(orphan).copied()
        };
        let Some(hold) = hold else { return };
        // Unless a late command of it has taken the lock again.
        let anew = hold.last_granted(token).is_some_and(|grant| lost_at.is_none_or(|lost| grant.at >= lost));
        if !anew {
            let detail = format!("{hold:?} was renewed after the server had lost it");
            self.watch.check(broken("orphan-renewed", detail));
        }
    }

    /// What a script does after it has granted.
    fn observe_end(&mut self, server: usize, name: usize, script: &ScriptCommand, answer: &Answer, server_us: u64) {
        let now_ms = server_us / 1_000;
        let lock = &mut self.watch.locks[name];
        match *script {
            ScriptCommand::Acquire { token, mode, claim_ms, how: AcquireMode::Wait, .. }
                if answer.status == Status::Waiting =>
            {
                // Several waiters for permits may be granted at once.
                let mode = if self.mix.kinds[name] == LockKind::Semaphore { Mode::Shared } else { mode };
                lock.queue.waits(token, mode, now_ms, claim_ms);
                let verdict = lock.tokens.seen(self.world.now, token, "waits");
                self.watch.check(verdict);
            }
            ScriptCommand::Release { tombstone: true, .. } => {
                let verdict = self.watch.keys.after_tombstone(&self.servers.models[server], server_us, name);
                self.watch.check(verdict);
            }
            ScriptCommand::Renew { .. } | ScriptCommand::Inspect => return,
            // The result is there, so the script looks at no waiter and drops none.
            _ if answer.status == Status::Done => return,
            _ => {}
        }
        let lasts = self.watch.keys.queue_expires(&self.servers.models[server], server_us, name);
        let lock = &mut self.watch.locks[name];
        lock.queue.lasts(lasts / 1_000);
        if !lock.queue.is_empty() && !self.servers.list[server].suffers(Fault::PublishRefused, self.world.now) {
            let value = match self.mix.kinds[name] {
                LockKind::Semaphore => {
                    let members = self.watch.keys.holders(&self.servers.models[server], server_us, name);
                    let lives =
                        |(token, until): (Token, Option<u64>)| until.is_some_and(|at| at > now_ms).then_some(token);
                    let members: Vec<Token> = members.into_iter().filter_map(lives).collect();
                    let first = lock.queue.first_alive(now_ms);
                    let free = first.is_some_and(|first| lock.permits.suffice(first, &members));
                    (!free).then(|| "full".to_string())
                }
                LockKind::Once => {
                    let holders = self.watch.keys.holders(&self.servers.models[server], server_us, name);
                    let result = self.watch.keys.key(name, Part::Result);
                    let done = self.servers.models[server].get(server_us, result).is_some();
                    (done || !holders.is_empty()).then(|| "full".to_string())
                }
                _ => {
                    let value = self.servers.models[server].get(server_us, &self.servers.names[name]);
                    let evicted = || self.watch.keys.readers(&self.servers.models[server], server_us, name) == 0;
                    let value = value.map(|value| holder_of(&value).to_string());
                    if value.as_deref() == Some("shared") && evicted() { Some("full".to_string()) } else { value }
                }
            };
            let verdict = lock.queue.served(now_ms, value.as_deref());
            self.watch.check(verdict);
        }
    }

    /// All grants of a script, in the order in which it drew the fences.
    fn observe_grants(
        &mut self,
        name: usize,
        script: &ScriptCommand,
        answer: &Answer,
        executed: &Executed,
        server_us: u64,
    ) {
        let mut grants = Vec::new();
        if answer.grants()
            && let ScriptCommand::Acquire { token, mode, .. } | ScriptCommand::Convert { new: token, mode, .. } =
                *script
        {
            let how = match *script {
                _ if script.adopts().is_some() => Granting::Adopted,
                ScriptCommand::Convert { .. } => Granting::Converted,
                _ if answer.status == Status::Entered => Granting::Entered,
                _ => Granting::Again,
            };
            let ms = answer.ms.try_into().unwrap_or(0);
            grants.push(Granted { token, mode, fence: answer.value, ms, how });
        }
        for (_, payload) in &executed.published {
            if let Some(Message::Grant { token, mode, fence, ms, .. }) = Message::read(payload) {
                grants.push(Granted { token, mode, fence, ms, how: Granting::Message });
            }
        }
        // A caller that did not wait enters after the waiters ahead of it.
        let queue = &self.watch.locks[name].queue;
        grants.sort_by_key(|grant| match grant.how {
            Granting::Again | Granting::Converted | Granting::Adopted => None,
            Granting::Entered | Granting::Message => Some(queue.place(grant.token)),
        });
        if let Some(other) = grants.iter().find(|grant| grant.fence != grants[0].fence) {
            let detail = format!("one script drew {} and {}", grants[0].fence, other.fence);
            self.watch.check(broken("fence-shared", detail));
        }
        for grant in grants {
            self.observe_grant(name, &grant, server_us);
        }
    }

    fn observe_grant(&mut self, name: usize, grant: &Granted, server_us: u64) {
        let now_ms = server_us / 1_000;
        let blind = self.grants_went_unseen(name);
        let is_again = grant.how == Granting::Again;
        let keeps_fence = (self.mix.kinds[name] == LockKind::Once && is_again).then(|| {
            let home = self.servers.home(name);
            let held = self.servers.models[home].hash(server_us, self.watch.keys.key(name, Part::Lock));
            let field = format!("once {}", grant.fence);
            if held.iter().any(|(_, it)| *it == field) {
                Ok(())
            } else {
                broken("once-fence", format!("{} of {held:?}", grant.fence))
            }
        });
        let lock = &mut self.watch.locks[name];
        // Several holders of permits that are granted together share a fence, as readers do.
        let mode = if self.mix.kinds[name] == LockKind::Semaphore { Mode::Shared } else { grant.mode };
        if matches!(grant.how, Granting::Entered | Granting::Message) {
            lock.fences.granted(grant.token);
        }
        let in_script = self.servers.models[self.servers.home(name)].time_in_scripts(server_us);
        lock.blocks.granted(grant.token.life, grant.fence, in_script);
        // An acquire of a once that arrives again keeps its fence.
        let drawn = keeps_fence.unwrap_or_else(|| lock.fences.drawn(mode, grant.fence, !is_again, server_us));
        let back = lock.tokens.seen(self.world.now, grant.token, "is granted");
        let turn = match grant.how {
            Granting::Entered => lock.queue.granted(grant.token, now_ms, None),
            Granting::Message => lock.queue.granted(grant.token, now_ms, Some(grant.ms)),
            Granting::Again if !blind => lock.terms.renewed(grant.token, now_ms, grant.ms),
            Granting::Again => Ok(()),
            Granting::Converted | Granting::Adopted => Ok(()),
        };
        lock.terms.set(grant.token, now_ms, grant.ms);
        if self.mix.kinds[name] == LockKind::Semaphore {
            let now = self.world.now;
            let believed = self.watch.leases.held.iter();
            let believed = believed.filter(|held| held.name == name && held.until > now && !held.orphan);
            let believed: Vec<&Held> = believed.collect();
            let again = grant.how == Granting::Again;
            let verdict = lock.permits.granted(grant.token, now_ms, grant.ms, again, &believed);
            self.watch.check(verdict);
        }
        self.watch.check(back.and(drawn).and(turn));
        if grant.how == Granting::Adopted {
            return;
        }
        let holder = self.clients.iter_mut().enumerate().find(|(_, client)| client.life == grant.token.life);
        let Some((place, client)) = holder else { return };
        let hold = match self.mix.kinds[name] {
            LockKind::Semaphore => self.watch.semaphores[place][name].hold(grant.token),
            _ => &mut self.watch.holds[place][name],
        };
        let granted = ServerGrant { token: grant.token, at: self.world.now, server_us: in_script };
        match grant.how {
            Granting::Converted => hold.last_converted = Some(granted),
            how => hold.server_granted(granted, how != Granting::Again),
        }
        if matches!(grant.how, Granting::Entered | Granting::Message) {
            client.granted[name] = self.world.now + grant.ms * 1_000;
        }
    }

    /// Whether the message of some grant was refused, so that nothing is known of it.
    fn grants_went_unseen(&self, name: usize) -> bool {
        self.servers.list[self.servers.home(name)].last_until(Fault::PublishRefused) > 0
    }

    /// The server has every valid lease, under its holder's token.
    pub(crate) fn observe_backing(&mut self, server: usize, name: usize, server_us: u64) {
        let now = self.world.now;
        let valid = |held: &&Held| held.name == name && held.until > now && !held.orphan;
        if !self.watch.leases.held.iter().any(|held| valid(&held)) {
            return;
        }
        let (model, kind) = (&self.servers.models[server], self.mix.kinds[name]);
        if kind != LockKind::Lock {
            let there = self.watch.keys.holders(model, server_us, name);
            let mine = |held: &Held, token: Token| token.life == held.life && held.token.is_none_or(|own| own == token);
            let backed = |held: &&Held| there.iter().any(|(token, _)| mine(held, *token));
            if let Some(held) = self.watch.leases.held.iter().filter(valid).find(|held| !backed(held)) {
                let verdict = broken("unbacked", format!("the server has {there:?} for {held:?}"));
                self.watch.check(verdict);
            }
            return;
        }
        let value = model.get(server_us, &self.servers.names[name]);
        let holder = value.as_deref().and_then(|value| Token::read(value.as_bytes()));
        let shared = value.as_deref().map(holder_of) == Some("shared");
        let backed = |held: &Held| {
            holder.is_some_and(|holder| holder.life == held.life) || (shared && held.mode == Mode::Shared)
        };
        if let Some(held) = self.watch.leases.held.iter().filter(valid).find(|held| !backed(held)) {
            let verdict = broken("unbacked", format!("the server has {value:?} for {held:?}"));
            self.watch.check(verdict);
        }
    }

    /// The server keeps a lease at least as long as its holder takes it to be valid.
    pub(crate) fn observe_terms(&mut self, server: usize, name: usize, server_us: u64) {
        let Some(expires) = self.watch.keys.lock_expires(&self.servers.models[server], server_us, name) else { return };
        let now = self.world.now;
        let believed =
            self.watch.leases.held.iter().filter(|held| held.name == name && held.until > now && !held.orphan);
        let own_ends = self.watch.keys.holders(&self.servers.models[server], server_us, name);
        let ends = |held: &Held| {
            let own = own_ends.iter().find(|(token, _)| held.token == Some(*token)).and_then(|(_, until)| *until);
            own.map_or(expires, |until| until * 1_000)
        };
        let early = |held: &&Held| self.servers.time(server, held.until) > ends(held) + 2_000;
        if let Some(held) = believed.into_iter().find(early) {
            let verdict =
                broken("outlived", format!("the server's key ends at {expires}, now is {server_us}: {held:?}"));
            self.watch.check(verdict);
        }
    }
}
