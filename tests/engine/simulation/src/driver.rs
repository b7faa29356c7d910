//! The driver of the engines: passes inputs in with the client's time, and carries outputs out.

use leasehold_core::{CommandId, Failure, Input, Instant, NodeId, Output, Reply};

use crate::channels::{OWN, Topic};
use crate::client::{Client, Delivery, SentCommand};
use crate::invariants::{broken, calls, draining, losses, waiters};
use crate::kinds::LockKind;
use crate::watch::Watch;
use crate::wire::{AcquireMode, Answer, Life, Message, ScriptCommand, Status};
use crate::world::{ClusterRun, Phase};

const NODE: NodeId = NodeId(0);

impl ClusterRun<'_> {
    /// A new client takes a place.
    pub(crate) fn start_client(&mut self, place: usize) {
        let life = self.lives;
        self.lives += 1;
        let client = Client::start(&mut self.world.rng, &self.mix, life, self.world.now);
        let longest = &mut self.watch.longest;
        longest.claim_ms = longest.claim_ms.max(client.config.claim_window.as_millis() as u64);
        if self.world.transcript.is_written() {
            let line = format!("starts as {} ({life}), {:?}, {} users", client.uuid, client.config, client.users.len());
            self.note_line(&format!("c{place}"), format_args!("{line}"));
        }
        if client.engine.is_none() {
            self.watch.check(broken("answer", "an engine refused a valid configuration"));
        }
        let users = client.users.len();
        if place < self.clients.len() {
            self.clients[place] = client;
        } else {
            self.clients.push(client);
        }
        self.watch.renew_client(place);
        for user in 0..users {
            let after = self.world.rng.range(self.mix.think);
            self.schedule_step(place, user, after);
        }
    }

    /// A client's process is gone. Only its commands on their way are left.
    pub(crate) fn drop_client(&mut self, place: usize) {
        let client = &mut self.clients[place];
        client.engine = None;
        client.asleep_until = None;
        client.take_topics();
        client.inbox.clear();
        client.users.clear();
        client.open.clear();
        client.sent.clear();
        self.watch.leases.forget(client.life);
        let (life, now) = (client.life, self.world.now);
        self.watch.locks.iter_mut().for_each(|lock| lock.wanting.gone(life, now));
        self.count_listeners();
    }

    /// Something reaches a client. It waits in the inbox while the process stands still.
    pub(crate) fn deliver(&mut self, place: usize, life: Life, what: Delivery) {
        let client = &mut self.clients[place];
        if client.life != life || client.engine.is_none() {
            return;
        }
        if client.asleep_until.is_some() {
            return client.inbox.push(what);
        }
        self.watch.paces[place].cause(self.world.now);
        if matches!(what, Delivery::Subscribed(Topic::Own) | Delivery::Unsubscribed(Topic::Own, _)) {
            client.hears_since = Some(client.clock.instant(self.world.now));
        }
        match what {
            Delivery::Reply(id, result) => self.reply(place, id, result),
            Delivery::Message(Topic::Own, payload) => self.message(place, &payload),
            what => self.on_channel(place, &what),
        }
    }

    /// A message arrives on a channel, or the channel's subscription changes. Clients that wait for a lock there ask
    /// again.
    fn on_channel(&mut self, place: usize, what: &Delivery) {
        let (Delivery::Message(topic, _) | Delivery::Subscribed(topic) | Delivery::Unsubscribed(topic, _)) = what
        else {
            return;
        };
        let channel = match *topic {
            Topic::Own => OWN.to_string(),
            Topic::Lock(name) => self.servers.channels[name].clone(),
        };
        let (node, channel) = (NODE, channel.as_str());
        let waited = self.waits_on(place, *topic);
        match what {
            Delivery::Message(_, payload) => self.feed(place, Input::Message { node, channel, payload }),
            Delivery::Unsubscribed(_, cause) => {
                self.feed(place, Input::Unsubscribed { node, channel, cause: cause.clone() });
            }
            _ => self.feed(place, Input::Subscribed { node, channel }),
        }
        self.check_woken(place, waited);
    }

    fn reply(&mut self, place: usize, id: CommandId, result: Result<Reply, Failure>) {
        let client = &mut self.clients[place];
        let now = client.clock.instant(self.world.now);
        // An answer after the engine's own timeout is ignored, and so is a second answer.
        client.notice_pause(now);
        let patience = client.config.response_timeout;
        let sent: Vec<SentCommand> = client.sent.extract_if(.., |sent| sent.id == id).collect();
        for sent in sent {
            let client = &mut self.clients[place];
            let answer = result.as_ref().ok().and_then(|reply| sent.answer(reply));
            if matches!(sent.script, ScriptCommand::Release { .. }) && answer.is_some() {
                client.released_at = now;
            }
            if now.since(sent.since) >= patience {
                continue;
            }
            if let (ScriptCommand::Release { token, .. }, None, Ok(_)) = (sent.script, answer, &result) {
                self.watch.holds[place][sent.name].left_undone(token);
            }
            let client = &mut self.clients[place];
            match (answer, &result) {
                (Some(answer), _) => self.learn(place, now, &sent, &answer),
                (None, Err(Failure::Refused(text))) if sent.entry.is_none() && text.contains("WRONGTYPE") => {
                    self.learn_overwritten(place, &sent);
                }
                (None, Err(Failure::Refused(text))) if text.starts_with("NOSCRIPT") => client.lacked_script = now,
                _ => {}
            }
        }
        self.feed(place, Input::Reply { id, result });
    }

    /// Records what a client learns from an answer and must act on.
    fn learn(&mut self, place: usize, now: Instant, sent: &SentCommand, answer: &Answer) {
        if self.is_adopted(sent.script.token()) {
            return self.learn_adopted(place, sent, answer);
        }
        if let ScriptCommand::Acquire { token, .. } = sent.script {
            self.watch.polling[place][sent.name].answered(token, answer.status);
        }
        // In a run without a mixed fleet, only a call that waits behind too many gets this answer.
        if let ScriptCommand::Acquire { token, how: AcquireMode::Wait, .. } = sent.script
            && answer.status == Status::Busy
            && self.mix.limits > 0
        {
            self.watch.commands[place][sent.name].is_gone(token);
            self.watch.semaphores[place][sent.name].begins(token);
        }
        if self.mix.kinds[sent.name] == LockKind::Semaphore {
            return self.learn_permits(place, now, sent, answer);
        }
        let client = &self.clients[place];
        let (script, name, sent_at) = (sent.script, sent.name, client.clock.when(sent.at.as_micros()));
        let converting = client.open.iter().any(|op| client.ops[*op as usize].converts(name));
        // The server counts the listeners on a reentrant lock's channel, possibly including the client itself.
        let ourselves = i64::from(self.mix.kinds[name] == LockKind::Reentrant);
        let hold = &mut self.watch.holds[place][name];
        let commands = &mut self.watch.commands[place][name];
        commands.note_waiting(now);
        if let ScriptCommand::Acquire { token, .. } | ScriptCommand::Convert { new: token, .. } = script
            && answer.grants()
        {
            commands.granted(token);
        }
        match (script, answer.status) {
            (
                ScriptCommand::Renew { token, .. } | ScriptCommand::Acquire { token, .. },
                Status::Gone | Status::Taken | Status::Done,
            )
            | (ScriptCommand::Convert { old: token, .. }, Status::Converted | Status::Again) => commands.is_gone(token),
            _ => {}
        }
        if let ScriptCommand::Acquire { token, .. } = script
            && answer.waiting > 0
        {
            hold.perhaps_told(token);
        }
        if let ScriptCommand::Acquire { token, .. }
        | ScriptCommand::Renew { token, .. }
        | ScriptCommand::Convert { new: token, .. } = script
            && (answer.grants() || answer.status == Status::Renewed)
        {
            hold.confirmed(now, token, matches!(script, ScriptCommand::Convert { .. }));
        }
        if let (ScriptCommand::Convert { old, .. }, Status::Converted | Status::Again) = (script, answer.status) {
            hold.moved_from(old);
        }
        let tokens = &mut self.watch.locks[name].tokens;
        match script {
            ScriptCommand::Acquire { token, .. } | ScriptCommand::Convert { new: token, .. }
                if answer.grants() && answer.waiting > ourselves =>
            {
                // The client ignores late copies of a conversion's answer, as it does while it converts.
                hold.told(now, Some(token), converting || matches!(script, ScriptCommand::Convert { .. }));
            }
            _ => {}
        }
        if let ScriptCommand::Acquire { token, .. } | ScriptCommand::Convert { new: token, .. } = script
            && answer.grants()
            && hold.is_anew(token, answer.status == Status::Entered, answer.server_us)
            && !converting
        {
            let held = Watch::of_callers(&self.watch.leases, &self.watch.adopted, client.life, name);
            self.watch.doomed.extend(held.map(|held| (held.lease, "loss-untold")));
        }
        match (script, answer.status) {
            (ScriptCommand::Release { token, .. }, _) => tokens.given_up(self.world.now, sent_at, token),
            (ScriptCommand::Convert { old, .. }, Status::Converted | Status::Again) => {
                tokens.given_up(self.world.now, sent_at, old)
            }
            (ScriptCommand::Renew { token, .. }, Status::Gone | Status::Taken)
                if hold.holds_by(token) && !converting =>
            {
                let held = Watch::of_callers(&self.watch.leases, &self.watch.adopted, client.life, name);
                self.watch.doomed.extend(held.map(|held| (held.lease, "loss-untold")));
            }
            _ => {}
        }
    }

    fn message(&mut self, place: usize, payload: &[u8]) {
        let now = self.clients[place].clock.instant(self.world.now);
        let message = Message::read(payload);
        if let Some(Message::Grant { key, .. } | Message::Wanted { key }) = message
            && let Some(name) = self.servers.name(key.as_bytes())
        {
            let commands = &mut self.watch.commands[place][name];
            commands.note_waiting(now);
            if let Some(Message::Grant { token, .. }) = message {
                commands.granted(token);
            }
            if let Some(Message::Grant { token, waiting: 0, .. }) = message {
                self.watch.holds[place][name].nobody_waits(token);
            }
        }
        if let Some(Message::Tried { key }) = message
            && let Some(name) = self.servers.name(key.as_bytes())
        {
            self.watch.holds[place][name].tried(now);
        }
        let told = match message {
            Some(Message::Grant { token, waiting, key, .. }) if waiting > 0 => Some((Some(token), key)),
            Some(Message::Wanted { key }) => Some((None, key)),
            _ => None,
        };
        if let Some((about, name)) = told.and_then(|(about, key)| Some((about, self.servers.name(key.as_bytes())?))) {
            self.watch.holds[place][name].told(now, about, false);
            match about {
                Some(token) => self.watch.semaphores[place][name].hold(token).told(now, about, false),
                None => self.watch.semaphores[place][name].all().for_each(|hold| hold.told(now, about, false)),
            }
        }
        let revoked = crate::wire::revoked(payload);
        if let Some((token, name)) = revoked {
            // A heartbeat that is due at this very moment leaves first, still with that token.
            self.feed(place, Input::Wake);
            self.watch.revoked.push(token);
            if let Some(name) = self.servers.name(name.as_bytes()) {
                self.watch.commands[place][name].is_gone(token);
                self.watch.semaphores[place][name].begins(token);
            }
        }
        self.feed(place, Input::Message { node: NODE, channel: OWN, payload });
        if revoked.is_some() {
            self.check_revoked(place);
        }
    }

    /// Passes one input in, carries all outputs out, sets the timer, and checks the invariants.
    pub(crate) fn feed(&mut self, place: usize, input: Input<'_>) {
        self.watch.now = self.world.now;
        if self.world.transcript.is_written() {
            self.note_input(place, &input);
        }
        let client = &mut self.clients[place];
        let (now, life) = (client.clock.instant(self.world.now), client.life);
        if matches!(input, Input::Message { .. } | Input::Reply { result: Ok(_) | Err(Failure::Refused(_)), .. }) {
            client.heard_at = now;
        }
        if matches!(&input, Input::Reply { result: Err(Failure::Refused(text)), .. } if text.starts_with("TRYAGAIN")) {
            client.moved_at = now;
        }
        client.notice_pause(now);
        let Some(engine) = client.engine.as_mut() else { return };
        let over = self.watch.leases.of(life).filter(|held| held.valid_until <= now);
        self.watch.doomed.extend(over.map(|held| (held.lease, "loss-late")));
        engine.catch_up(now);
        engine.handle(now, input);
        let mut outputs = std::mem::take(&mut self.spare_outputs);
        outputs.extend(std::iter::from_fn(|| engine.poll_output()));
        for output in outputs.drain(..) {
            self.carry_out(place, now, output);
        }
        self.spare_outputs = outputs;
        self.clients[place].forget_unanswered(now);
        self.after(place, now, life);
    }

    fn note_input(&mut self, place: usize, input: &Input<'_>) {
        let who = format!("c{place}");
        match input {
            Input::Wake => {}
            Input::Message { payload, .. } => {
                let text = String::from_utf8_lossy(payload);
                self.note_line(&who, format_args!("<- message {text}"));
            }
            Input::Reply { id, result: Ok(_) } => self.note_line(&who, format_args!("<- answer to #{}", id.0)),
            _ => self.note_line(&who, format_args!("<- {input:?}")),
        }
    }

    fn carry_out(&mut self, place: usize, now: Instant, output: Output) {
        if self.world.transcript.is_written() && !matches!(output, Output::Send { .. }) {
            self.note_line(&format!("c{place}"), format_args!("  -> {output:?}"));
        }
        match output {
            Output::Send { id, node: _, command } => self.send(place, id, command),
            Output::Subscribe { channel, .. } => self.subscribe(place, &channel),
            Output::Unsubscribe { channel, .. } => self.unsubscribe(place, &channel),
            Output::Completed { op, result } => self.completed(place, now, op, &result),
            Output::Lost { lease, reason } => self.lost(place, now, lease, reason),
            // No simulated user waits for replicas.
            Output::Leader { .. } | Output::SendDedicated { .. } | Output::CloseDedicated { .. } => {}
        }
    }

    fn after(&mut self, place: usize, now: Instant, life: Life) {
        let client = &self.clients[place];
        let doomed = std::mem::take(&mut self.watch.doomed);
        let Some(engine) = client.engine.as_ref().filter(|_| client.life == life) else { return };
        for (lease, invariant) in doomed {
            if let Some(held) = self.watch.leases.find(life, lease) {
                let detail = format!("not told at {now:?}: {:?}", self.watch.leases.held[held]);
                self.watch.check(broken(invariant, detail));
            }
        }
        for index in 0..self.watch.leases.held.len() {
            let held = &self.watch.leases.held[index];
            if held.life != life {
                continue;
            }
            let verdict = match engine.valid_until(held.lease) {
                None if self.watch.detaches == Some(held.lease) => Ok(()),
                None => broken("loss-untold", format!("the engine has forgotten {held:?}")),
                Some(until) if until == held.valid_until => Ok(()),
                Some(until) => {
                    let when = client.clock.when(until.as_micros());
                    self.watch.leases.changed(self.world.now, index, |held| held.validity(until, when))
                }
            };
            self.watch.check(verdict);
        }
        for (name, lock) in self.watch.locks.iter().enumerate() {
            if self.mix.kinds[name] == LockKind::Semaphore && self.watch.leases.has(life, name) {
                let held = self.watch.leases.held.iter().filter(|held| held.name == name);
                let verdict = lock.permits.check(held, self.world.now);
                if verdict.is_err() {
                    self.watch.check(verdict);
                    break;
                }
            }
        }
        let verdict = losses::overdue(self.watch.leases.of(life), now).and_then(|()| calls::overdue(client, now));
        // The user of a lease that is detached at this moment does not hold it any more.
        let detached = self.watch.detaches.filter(|lease| engine.lease(*lease).is_none());
        let holds = self.watch.leases.of(life).any(|held| Some(held.lease) != detached);
        self.watch.check(verdict.and_then(|()| draining::check(client, engine, holds, now)));
        let trouble = self.clients[place].trouble_until.max(self.calm_since);
        let troubled = self.servers.list.iter().map(|server| server.last_trouble()).max().unwrap_or(0).max(trouble);
        if self.mix.limits > 0 && troubled + 20_000_000 < self.world.now {
            let verdict = waiters::admitted(&self.clients[place], now);
            self.watch.check(verdict);
        }
        self.clients[place].drained = None;
        self.check_commands(place, now);
        self.set_wake(place);
    }

    /// A command is sent. The client must not send too many.
    pub(crate) fn keep_pace(&mut self, place: usize) {
        if let Phase::Resting { since, .. } = self.phase
            && self.world.now > since.max(self.calm_since) + 10_000_000
        {
            let detail = format!("c{place} sends {} s after everything was over", (self.world.now - since) / 1_000_000);
            self.watch.check(broken("idle-traffic", detail));
        }
        let load = self.load(place);
        let verdict = self.watch.paces[place].command(self.world.now, load);
        self.watch.check(verdict);
    }

    pub(crate) fn load(&self, place: usize) -> u64 {
        let client = &self.clients[place];
        (client.open.len() + self.watch.leases.of(client.life).count()) as u64
    }

    /// A client doesn't hold a lease whose revocation it has received.
    fn check_revoked(&mut self, place: usize) {
        let life = self.clients[place].life;
        let revoked = |held: &&crate::invariants::leases::Held| {
            held.token.is_some_and(|token| self.watch.revoked.contains(&token))
        };
        let held = self.watch.leases.of(life).find(revoked).cloned();
        if let Some(held) = held {
            let verdict = broken("revoked", format!("c{place} has received its revocation, but still holds {held:?}"));
            self.watch.check(verdict);
        }
    }

    /// Notes the longest times of the run.
    pub(crate) fn note_longest(&mut self, place: usize, script: &ScriptCommand) {
        let longest = &mut self.watch.longest;
        let ttl_ms = match *script {
            ScriptCommand::Acquire { ttl_ms, .. }
            | ScriptCommand::Renew { ttl_ms, .. }
            | ScriptCommand::Convert { ttl_ms, .. } => ttl_ms,
            ScriptCommand::Release { .. } | ScriptCommand::Inspect => 0,
        };
        // A command asks for what its users want, or a little more if the validity must reach a certain time.
        let users = self.clients[place].longest_ttl_ms;
        // Includes the clock drift and the margin for a late timer.
        let most = users * 102 / 100 + 10 + (users * 6 / 100).min(55) + longest.behind_ms;
        longest.ttl_ms = longest.ttl_ms.max(ttl_ms);
        if ttl_ms > most {
            let detail = format!("c{place} asks for {ttl_ms} ms, its users for {most} at most");
            self.watch.check(broken("words", detail));
        }
    }

    /// Whether faults may strike now.
    pub(crate) fn faults_are_on(&self) -> bool {
        match self.phase {
            Phase::Busy => true,
            Phase::Ending { .. } => !self.mix.liveness,
            Phase::Resting { .. } => false,
        }
    }
}
