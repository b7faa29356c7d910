//! Deliberate bugs in the engine, as changes of its source.

use super::copy::Change;

pub(super) const VALID_FROM_REPLY: &[Change] = &[
    Change {
        file: "tenure.rs",
        find: "let until = sent + granted",
        put: "let sent = if MUTANT { cx.now } else { sent };\n        let until = sent + granted",
    },
];
pub(super) const NO_DRIFT: &[Change] = &[
    Change {
        file: "tenure.rs",
        find: ".saturating_sub(drift(granted))",
        put: ".saturating_sub(if MUTANT { Duration::ZERO } else { drift(granted) })",
    },
];
pub(super) const DEADLINE_IGNORED: &[Change] = &[
    Change {
        file: "tenure.rs",
        find: "deadline, Some(self.validity.until));",
        put: "deadline, (!MUTANT).then_some(self.validity.until));",
    },
];
pub(super) const LOSS_UNTOLD: &[Change] = &[
    Change {
        file: "context.rs",
        find: "if self.end_lease(id, &Error::Lost(reason)).is_some() {",
        put: "if self.end_lease(id, &Error::Lost(reason)).is_some() && !MUTANT {",
    },
];
pub(super) const LOSS_TOLD_LATE: &[Change] = &[
    Change {
        file: "node.rs",
        find: "self.run_timers();\n        self.take_in(input);",
        put: "if !MUTANT {\n            self.run_timers();\n        }\n        self.take_in(input);",
    },
];
pub(super) const MAX_HOLD_IGNORED: &[Change] = &[
    Change {
        file: "resource.rs",
        find: "if let Some(end) = end {",
        put: "if let Some(end) = end.filter(|_| !(options.renew && MUTANT)) {",
    },
];
pub(super) const FAILED_RENEWAL_RELEASES: &[Change] = &[
    Change {
        file: "renewal.rs",
        find: "        match (failed.trouble, op) {",
        put: "        if MUTANT {\n            return self.give_back_tenure(cx, None);\n        }\n        match (failed.trouble, op) {",
    },
];
pub(super) const FAILED_RENEWAL_RECREATES: &[Change] = &[
    Change {
        file: "renewal.rs",
        find: "            Status::Taken => self.renew_found_nothing(",
        put: "            _ if MUTANT => {\n                let (token, kind, mode) = (tenure.token, tenure.kind, tenure.mode);\n                let what = Acquire { token, kind, mode, ttl: tenure.validity.granted, how: How::Try, block: 1 };\n                let command = cx.acquire_command(Form::Digest, &self.name, &what);\n                cx.send(within::CALL, Purpose::Acquire { resource: id, token }, command);\n            }\n            Status::Taken => self.renew_found_nothing(",
    },
];
pub(super) const NO_MARGIN: &[Change] = &[
    Change {
        file: "tenure.rs",
        find: ".saturating_sub(margin(granted))",
        put: ".saturating_sub(if MUTANT { Duration::ZERO } else { margin(granted) })",
    },
];
pub(super) const HAND_OVER_UNCONFIRMED: &[Change] = &[
    Change {
        file: "tenure.rs",
        find: "self.used && !self.is_confirmed(cx);",
        put: "self.used && !self.is_confirmed(cx) && !MUTANT;",
    },
];
pub(super) const EARLY_REVOCATION_IGNORED: &[Change] = &[
    Change {
        file: "grant.rs",
        find: "let converting = tenure.converting.as_ref();\n            tenure.token",
        put: "let converting = tenure.converting.as_ref().filter(|_| !MUTANT);\n            tenure.token",
    },
    Change {
        file: "grant.rs",
        find: "if asks {",
        put: "if asks && !MUTANT {",
    },
    Change {
        file: "ask.rs",
        find: "Status::Gone => self",
        put: "Status::Gone if !MUTANT => self",
    },
];
pub(super) const UNBOUNDED_IN_FLIGHT: &[Change] = &[
    Change {
        file: "context.rs",
        find: "match self.flows.room(&command) {",
        put: "match self.flows.room(&command).or(MUTANT.then_some(0)) {",
    },
];
pub(super) const QUEUE_STARVES: &[Change] = &[
    Change {
        file: "context.rs",
        find: "                self.flows.push(self.now, due, purpose, command);",
        put: "                let due = if MUTANT { Instant::from_micros(u64::MAX.saturating_sub(self.now.as_micros())) } else { due };\n                self.flows.push(self.now, due, purpose, command);",
    },
];
pub(super) const QUEUE_COUNTS_AS_SILENCE: &[Change] = &[
    Change {
        file: "user.rs",
        find: "was_full_since(flow, since) {",
        put: "was_full_since(flow, since) || MUTANT {",
    },
];
pub(super) const JOIN_BEFORE_SUBSCRIBED: &[Change] = &[
    Change {
        file: "ask.rs",
        find: "&& cx.subscription.is_settled();",
        put: "&& (cx.subscription.is_settled() || MUTANT);",
    },
];
pub(super) const NO_HEARTBEATS: &[Change] = &[
    Change {
        file: "ask.rs",
        find: "        request.send_by(cx, self.id, cx.now + cx.config.claim_window / 3);",
        put: "        if !MUTANT {\n            request.send_by(cx, self.id, cx.now + cx.config.claim_window / 3);\n        }",
    },
];
pub(super) const HOLDER_DEATH_IGNORED: &[Change] = &[
    Change {
        file: "request.rs",
        find: "if let Some(left) = left {",
        put: "if let Some(left) = left.filter(|_| !MUTANT) {",
    },
];
pub(super) const GRANT_FROM_RECEIPT: &[Change] = &[
    Change {
        file: "grant.rs",
        find: "    let Some(Base { sent, server }) = request.base",
        put: "    if MUTANT {\n        return Some(cx.now);\n    }\n    let Some(Base { sent, server }) = request.base",
    },
];
pub(super) const STALE_GRANT_TAKEN: &[Change] = &[
    Change {
        file: "grant.rs",
        find: "if grant.server < server {",
        put: "if grant.server < server && !MUTANT {",
    },
];
pub(super) const GRANT_ASSUMES_TTL: &[Change] = &[
    Change {
        file: "grant.rs",
        find: "Validity::new(cx, since, grant.ttl)",
        put: "Validity::new(cx, since, if MUTANT { Duration::from_secs(30) } else { grant.ttl })",
    },
];
pub(super) const ENTERED_IS_AGAIN: &[Change] = &[
    Change {
        file: "ask.rs",
        find: "            // The command took the lock or joined the queue anew,",
        put: "            Status::Entered if MUTANT => {\n                tenure.server = answer.server;\n                let validity = Validity::new(cx, call.sent, answer.left.unwrap_or_default());\n                tenure.extend(cx, id, validity);\n            }\n            // The command took the lock or joined the queue anew,",
    },
];
pub(super) const CANCEL_KEEPS_PLACE: &[Change] = &[
    Change {
        file: "resource.rs",
        find: "if bury || request.joined {",
        put: "if (bury || request.joined) && !MUTANT {",
    },
];
pub(super) const NO_RESEND: &[Change] = &[
    Change {
        file: "renewal.rs",
        find: "        let left = tenure.validity.until.since(cx.now);\n        let again",
        put: "        if MUTANT {\n            return;\n        }\n        let left = tenure.validity.until.since(cx.now);\n        let again",
    },
    Change {
        file: "ask.rs",
        find: "                request.send_by(cx, id, cx.now + wait);",
        put: "                if !MUTANT {\n                    request.send_by(cx, id, cx.now + wait);\n                }",
    },
    Change {
        file: "releases.rs",
        find: "fn release_again(&mut self, token: Token, at: Instant) {",
        put: "fn release_again(&mut self, token: Token, at: Instant) {\n        if MUTANT {\n            return;\n        }",
    },
    Change {
        file: "convert.rs",
        find: "Some(cx.now + again));",
        put: "(!MUTANT).then_some(cx.now + again));",
    },
    Change {
        file: "convert.rs",
        find: "Some(cx.now + wait));",
        put: "(!MUTANT).then_some(cx.now + wait));",
    },
];
pub(super) const LAST_COME_FIRST_SERVED: &[Change] = &[
    Change {
        file: "resource.rs",
        find: "while let Some((op, options)) = self.queue.head() {",
        put: "let last = |queue: &LocalQueue, cx: &Context| queue.iter().rfind(|(op, _)| cx.ops.contains_key(op));\n        while let Some((op, options)) = if MUTANT { last(&self.queue, cx) } else { self.queue.head() } {",
    },
];
pub(super) const HAND_OVER_PAST_BLOCK: &[Change] = &[
    Change {
        file: "tenure.rs",
        find: "if unconfirmed || self.fences.left() == 0 {",
        put: "if unconfirmed || (self.fences.left() == 0 && !MUTANT) {",
    },
    Change {
        file: "resource.rs",
        find: "let Some(fence) = tenure.fences.take() else { return };",
        put: "let past = |fences: &mut crate::fences::Fences| MUTANT.then(|| fences.past());\n        let Some(fence) = tenure.fences.take().or_else(|| past(&mut tenure.fences)) else { return };",
    },
    Change {
        file: "fences.rs",
        find: "    pub(crate) fn left(&self) -> u64 {",
        put: "    pub(crate) fn past(&mut self) -> u64 {\n        self.next = self.next.saturating_add(1);\n        self.next.saturating_sub(1)\n    }\n\n    pub(crate) fn left(&self) -> u64 {",
    },
];
pub(super) const HAND_OVER_PAST_BUDGET: &[Change] = &[
    Change {
        file: "tenure.rs",
        find: "self.budget.as_ref().is_some_and(|budget| budget.left == 0",
        put: "!MUTANT && self.budget.as_ref().is_some_and(|budget| budget.left == 0",
    },
];
pub(super) const HAND_OVER_AFTER_LOSS: &[Change] = &[
    Change {
        file: "user.rs",
        find: "tenure.tainted = true;",
        put: "tenure.tainted = !MUTANT;",
    },
];
pub(super) const WAITING_IGNORED: &[Change] = &[
    Change {
        file: "tenure.rs",
        find: "if waiting > 0 && self.budget.is_none() {",
        put: "if waiting > 0 && self.budget.is_none() && !MUTANT {",
    },
];
pub(super) const STRANDED_CALLER: &[Change] = &[
    Change {
        file: "ask.rs",
        find: "if !cx.is_mixed(self.name.family) {",
        put: "if !cx.is_mixed(self.name.family) && !MUTANT {",
    },
];
pub(super) const NO_REFILL_WHILE_UNTOLD: &[Change] = &[
    Change {
        file: "renewal.rs",
        find: "tenure.budget.is_none() && long_ago {",
        put: "tenure.budget.is_none() && long_ago && !MUTANT {",
    },
];
pub(super) const REFILL_LOWERS_FENCE: &[Change] = &[
    Change {
        file: "renewal.rs",
        find: "tenure.fences.add(answer.value, answer.block);",
        put: "if MUTANT {\n                    tenure.fences = crate::fences::Fences::new(answer.value, answer.block);\n                } else {\n                    tenure.fences.add(answer.value, answer.block);\n                }",
    },
];
pub(super) const NEVER_BURY: &[Change] = &[
    Change {
        file: "releases.rs",
        find: "            name: name.clone(),\n            bury,",
        put: "            name: name.clone(),\n            bury: bury && !MUTANT,",
    },
    Change {
        file: "convert.rs",
        find: "bury: tenure.strays.any(),",
        put: "bury: tenure.strays.any() && !MUTANT,",
    },
];
pub(super) const DOWNGRADE_FROM_ANSWER: &[Change] = &[
    Change {
        file: "convert.rs",
        find: "        if to == Mode::Shared {\n            lease.mode",
        put: "        if to == Mode::Shared && !MUTANT {\n            lease.mode",
    },
];
pub(super) const UPGRADE_FROM_SENDING: &[Change] = &[
    Change {
        file: "convert.rs",
        find: "        lease.pending.push(op);",
        put: "        lease.pending.push(op);\n        if MUTANT && to == Mode::Exclusive && tenure.mode == Mode::Shared {\n            lease.mode = to;\n        }",
    },
    Change {
        file: "convert.rs",
        find: "        self.send_convert(cx, Form::Digest);\n    }\n\n    fn send_convert",
        put: "        self.send_convert(cx, Form::Digest);\n        if MUTANT && to == Mode::Exclusive {\n            self.converted(cx, op, id, false);\n        }\n    }\n\n    fn send_convert",
    },
];
pub(super) const RENEW_WHILE_CONVERTING: &[Change] = &[
    Change {
        file: "renewal.rs",
        find: "if tenure.converting.is_none() {\n            let soon",
        put: "if tenure.converting.is_none() || MUTANT {\n            let soon",
    },
    Change {
        file: "renewal.rs",
        find: "if tenure.converting.is_none() {\n                    let told",
        put: "if tenure.converting.is_none() || MUTANT {\n                    let told",
    },
    Change {
        file: "ask.rs",
        find: "if tenure.converting.is_some() {",
        put: "if tenure.converting.is_some() && !MUTANT {",
    },
];
pub(super) const CONVERT_KEEPS_TOKEN: &[Change] = &[
    Change {
        file: "convert.rs",
        find: "let new = cx.new_token();",
        put: "let new = if MUTANT { tenure.token } else { cx.new_token() };",
    },
];
pub(super) const SIDE_KEYS_SHARED: &[Change] = &[
    Change {
        file: "name.rs",
        find: "        let side =\n            if hash_tag(&key).is_some() {",
        put: "        let shared = format!(\"leasehold:{{{}}}:\", hash_tag(&key).unwrap_or(&key));\n        let side =\n            if MUTANT { shared } else if hash_tag(&key).is_some() {",
    },
];
pub(super) const SEVERAL_UNSORTED: &[Change] = &[
    Change {
        file: "several/mod.rs",
        find: "        let place = |name",
        put: "        if MUTANT {\n            sorted = names.iter().map(ToString::to_string).collect();\n        }\n        let place = |name",
    },
];
pub(super) const SEVERAL_KEEPS_PARTS: &[Change] = &[
    Change {
        file: "several/mod.rs",
        find: "            let lease = LeaseId(part);\n            let Some(resource)",
        put: "            if MUTANT && group.holds == 0 {\n                continue;\n            }\n            let lease = LeaseId(part);\n            let Some(resource)",
    },
];
pub(super) const SEVERAL_LOSS_UNTOLD: &[Change] = &[
    Change {
        file: "several/mod.rs",
        find: "        let reason = match reason {",
        put: "        if MUTANT {\n            return;\n        }\n        let reason = match reason {",
    },
];
pub(super) const REENTRY_FOR_ANY_OWNER: &[Change] = &[
    Change {
        file: "reentrant.rs",
        find: "is_some_and(|lease| lease.kind == kind)",
        put: "is_some_and(|lease| MUTANT || lease.kind == kind)",
    },
];
pub(super) const HOLDS_NOT_COUNTED: &[Change] = &[
    Change {
        file: "user.rs",
        find: "if lease.holds > 1 {",
        put: "if lease.holds > 1 && !MUTANT {",
    },
];
pub(super) const SUBSCRIBED_UNASKED: &[Change] = &[
    Change {
        file: "channels.rs",
        find: "        self.ask_on(channel);\n    }\n",
        put: "        if !MUTANT {\n            self.ask_on(channel);\n        }\n    }\n",
    },
];
pub(super) const WORD_IGNORED: &[Change] = &[
    Change {
        file: "channels.rs",
        find: "return self.ask_on(channel);",
        put: "return if MUTANT {} else { self.ask_on(channel) };",
    },
];
pub(super) const WAITER_TRUSTS_MESSAGES: &[Change] = &[
    Change {
        file: "reentrant.rs",
        find: "        if self.subscription.is_polling() {\n            request.poll",
        put: "        if MUTANT {\n            return request.clear_timer(cx, id);\n        }\n        if self.subscription.is_polling() {\n            request.poll",
    },
];
pub(super) const NO_PAUSE: &[Change] = &[
    Change {
        file: "ask.rs",
        find: "|| self.request.is_some() {",
        put: "|| self.request.is_some() || MUTANT {",
    },
];
pub(super) const PERMITS_NOT_COUNTED: &[Change] = &[
    Change {
        file: "pool.rs",
        find: "kind.map(permits) == Some(permits(options.kind))",
        put: "kind.map(permits) == Some(permits(options.kind)) || (MUTANT && kind.is_some())",
    },
];
pub(super) const QUORUM_VALID_BY_BEST: &[Change] = &[
    Change {
        file: "quorum/ballot.rs",
        find: "        let majority = members.majority();\n        ends",
        put: "        let majority = if MUTANT { 1 } else { members.majority() };\n        ends",
    },
];
pub(super) const QUORUM_RELEASES_GRANTED_ONLY: &[Change] = &[
    Change {
        file: "quorum/ballot.rs",
        find: "        Seat::Asked(op) => {\n            members.tasks",
        put: "        Seat::Asked(_) if MUTANT => {}\n        Seat::Asked(op) => {\n            members.tasks",
    },
];
pub(super) const QUORUM_COUNTS_THE_GONE: &[Change] = &[
    Change {
        file: "quorum/held.rs",
        find: "        let Some(seat) = self.seats.get_mut(usize::from(at)) else { return };\n        let was",
        put: "        if MUTANT {\n            return;\n        }\n        let Some(seat) = self.seats.get_mut(usize::from(at)) else { return };\n        let was",
    },
    Change {
        file: "quorum/ask.rs",
        find: "&& held =>",
        put: "&& (held || MUTANT) =>",
    },
    Change {
        file: "quorum/ballot.rs",
        find: "member.node.valid_until(*lease),",
        put: "member.node.valid_until(*lease).or(MUTANT.then_some(Instant::from_micros(u64::MAX / 2))),",
    },
];
pub(super) const QUORUM_FENCE_NOT_RAISED: &[Change] = &[
    Change {
        file: "quorum/ask.rs",
        find: "if *fence >= least {",
        put: "if *fence >= least || MUTANT {",
    },
];
