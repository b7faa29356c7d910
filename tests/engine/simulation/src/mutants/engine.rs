//! Deliberate bugs in the engine, as changes of its source.

use super::copy::Change;

pub(super) const VALID_FROM_REPLY: &[Change] = &[Change {
    file: "lock/hold.rs",
    find: "        Self { until: end(sent, granted)",
    put: "        let sent = if MUTANT { cx.now } else { sent };\n        Self { until: end(sent, granted)",
}];
pub(super) const NO_DRIFT: &[Change] = &[Change {
    file: "lock/hold.rs",
    find: ".saturating_sub(drift(granted))",
    put: ".saturating_sub(if MUTANT { Duration::ZERO } else { drift(granted) })",
}];
pub(super) const DEADLINE_IGNORED: &[Change] = &[Change {
    file: "lock/hold.rs",
    find: "deadline, Some(self.validity.until));",
    put: "deadline, (!MUTANT).then_some(self.validity.until));",
}];
pub(super) const LOSS_UNTOLD: &[Change] = &[Change {
    file: "session/mod.rs",
    find: "if let Some(mut lease) = self.end_lease(id, &Error::Lost(reason)) {",
    put: "if let Some(mut lease) = self.end_lease(id, &Error::Lost(reason)).filter(|_| !MUTANT) {",
}];
pub(super) const LOSS_TOLD_LATE: &[Change] = &[Change {
    file: "client/mod.rs",
    find: "self.run_timers();\n        self.take_in(input);",
    put: "if !MUTANT {\n            self.run_timers();\n        }\n        self.take_in(input);",
}];
pub(super) const MAX_HOLD_IGNORED: &[Change] = &[Change {
    file: "lock/hand_over.rs",
    find: "if let Some(end) = end {",
    put: "if let Some(end) = end.filter(|_| !(options.renew && MUTANT)) {",
}];
pub(super) const FAILED_RENEWAL_RELEASES: &[Change] = &[Change {
    file: "lock/renew.rs",
    find: "        match (failed.class, op) {",
    put: "        if MUTANT {\n            return self.give_back_hold(cx, None);\n        }\n        match (failed.class, op) {",
}];
pub(super) const FAILED_RENEWAL_RECREATES: &[Change] = &[Change {
    file: "lock/renew.rs",
    find: "            Status::Taken => self.renew_found_nothing(",
    put: "            _ if MUTANT => {\n                let (token, kind, mode) = (hold.token, hold.kind, hold.mode);\n                let what = Acquire { token, kind, mode, ttl: hold.validity.granted, how: AcquireMode::Try, block: 1 };\n                let request = self.request(Ask::Acquire(what));\n                cx.send(needed::CALL, Purpose::Acquire { lock: id, token }, request);\n            }\n            Status::Taken => self.renew_found_nothing(",
}];
pub(super) const RENEWAL_IGNORES_GONE: &[Change] = &[Change {
    file: "lock/renew.rs",
    find: "            _ => self.renew_found_nothing(cx, op, LossReason::Gone),",
    put: "            _ if MUTANT && op.is_none() => {\n                let again = Validity::new(cx, sent.at, hold.validity.granted);\n                hold.extend(cx, id, again);\n            }\n            _ => self.renew_found_nothing(cx, op, LossReason::Gone),",
}];
pub(super) const RELEASES_ANOTHER_TOKEN: &[Change] = &[Change {
    file: "session/release.rs",
    find: "let what = request::Release { token,",
    put: "let common = common.filter(|_| !MUTANT);\n        let other = if MUTANT { Token(token.0 + 1_000) } else { token };\n        let what = request::Release { token: other,",
}];
pub(super) const NO_MARGIN: &[Change] = &[Change {
    file: "lock/hold.rs",
    find: ".saturating_sub(margin(granted))",
    put: ".saturating_sub(if MUTANT { Duration::ZERO } else { margin(granted) })",
}];
pub(super) const HAND_OVER_UNCONFIRMED: &[Change] = &[Change {
    file: "lock/hold.rs",
    find: "self.served && !self.is_confirmed(cx);",
    put: "self.served && !self.is_confirmed(cx) && !MUTANT;",
}];
pub(super) const EARLY_REVOCATION_IGNORED: &[Change] = &[
    Change {
        file: "lock/grant.rs",
        find: "let converting = hold.converting.as_ref();\n            hold.token",
        put: "let converting = hold.converting.as_ref().filter(|_| !MUTANT);\n            hold.token",
    },
    Change { file: "lock/grant.rs", find: "if asks {", put: "if asks && !MUTANT {" },
    Change { file: "lock/claim.rs", find: "Status::Gone => self", put: "Status::Gone if !MUTANT => self" },
];
pub(super) const UNBOUNDED_IN_FLIGHT: &[Change] = &[Change {
    file: "session/mod.rs",
    find: "match self.flows.room(purpose, &request) {",
    put: "match self.flows.room(purpose, &request).or(MUTANT.then_some(0)) {",
}];
pub(super) const QUEUE_STARVES: &[Change] = &[Change {
    file: "session/mod.rs",
    find: "                self.flows.push(self.now, due, Queued",
    put: "                let due = if MUTANT { Instant::from_micros(u64::MAX.saturating_sub(self.now.as_micros())) } else { due };\n                self.flows.push(self.now, due, Queued",
}];
pub(super) const QUEUE_COUNTS_AS_SILENCE: &[Change] = &[Change {
    file: "client/operations.rs",
    find: "was_full_since(flow, since) {",
    put: "was_full_since(flow, since) || MUTANT {",
}];
pub(super) const JOIN_BEFORE_SUBSCRIBED: &[Change] = &[Change {
    file: "lock/claim.rs",
    find: "&& cx.subscription.is_settled();",
    put: "&& (cx.subscription.is_settled() || MUTANT);",
}];
pub(super) const NO_HEARTBEATS: &[Change] = &[Change {
    file: "lock/claim.rs",
    find: "        claim.send_by(cx, self.id, cx.now + cx.config.claim_window / 3);",
    put: "        if !MUTANT {\n            claim.send_by(cx, self.id, cx.now + cx.config.claim_window / 3);\n        }",
}];
pub(super) const HOLDER_DEATH_IGNORED: &[Change] = &[Change {
    file: "lock/claim.rs",
    find: "if let Some(left) = left {",
    put: "if let Some(left) = left.filter(|_| !MUTANT) {",
}];
pub(super) const GRANT_FROM_RECEIPT: &[Change] = &[Change {
    file: "lock/grant.rs",
    find: "    let Some(Base { sent, server }) = claim.base",
    put: "    if MUTANT {\n        return Some(cx.now);\n    }\n    let Some(Base { sent, server }) = claim.base",
}];
pub(super) const STALE_GRANT_TAKEN: &[Change] = &[Change {
    file: "lock/grant.rs",
    find: "if grant.server < server {",
    put: "if grant.server < server && !MUTANT {",
}];
pub(super) const GRANT_ASSUMES_TTL: &[Change] = &[Change {
    file: "lock/grant.rs",
    find: "Validity::new(cx, since, grant.ttl)",
    put: "Validity::new(cx, since, if MUTANT { Duration::from_secs(30) } else { grant.ttl })",
}];
pub(super) const ENTERED_IS_AGAIN: &[Change] = &[Change {
    file: "lock/claim.rs",
    find: "            // The command took the lock or joined the queue anew,",
    put: "            Status::Entered if MUTANT => {\n                hold.server = answer.server;\n                let validity = Validity::new(cx, sent.at, answer.left.unwrap_or_default());\n                hold.extend(cx, id, validity);\n            }\n            // The command took the lock or joined the queue anew,",
}];
pub(super) const CANCEL_KEEPS_PLACE: &[Change] = &[Change {
    file: "lock/hand_over.rs",
    find: "if bury || claim.joined {",
    put: "if (bury || claim.joined) && !MUTANT {",
}];
pub(super) const NO_RESEND: &[Change] = &[
    Change {
        file: "lock/renew.rs",
        find: "        let left = hold.validity.until.since(cx.now);\n        let again",
        put: "        if MUTANT {\n            return;\n        }\n        let left = hold.validity.until.since(cx.now);\n        let again",
    },
    Change {
        file: "lock/claim.rs",
        find: "                claim.send_by(cx, id, cx.now + wait);",
        put: "                if !MUTANT {\n                    claim.send_by(cx, id, cx.now + wait);\n                }",
    },
    Change {
        file: "session/release.rs",
        find: "fn release_again(&mut self, token: Token, at: Instant) {",
        put: "fn release_again(&mut self, token: Token, at: Instant) {\n        if MUTANT {\n            return;\n        }",
    },
    Change { file: "lock/convert.rs", find: "Some(cx.now + again));", put: "(!MUTANT).then_some(cx.now + again));" },
    Change { file: "lock/convert.rs", find: "Some(cx.now + wait));", put: "(!MUTANT).then_some(cx.now + wait));" },
];
pub(super) const LAST_COME_FIRST_SERVED: &[Change] = &[Change {
    file: "lock/hand_over.rs",
    find: "while let Some((op, options)) = self.queue.head() {",
    put: "let last = |queue: &super::LocalQueue, cx: &Context| queue.iter().rfind(|(op, _)| cx.ops.contains_key(op));\n        while let Some((op, options)) = if MUTANT { last(&self.queue, cx) } else { self.queue.head() } {",
}];
pub(super) const HAND_OVER_PAST_BLOCK: &[Change] = &[
    Change {
        file: "lock/hold.rs",
        find: "if unconfirmed || self.fences.left() == 0 {",
        put: "if unconfirmed || (self.fences.left() == 0 && !MUTANT) {",
    },
    Change {
        file: "lock/hand_over.rs",
        find: "let Some(fence) = hold.fences.take() else { return };",
        put: "let past = |fences: &mut super::fences::Fences| MUTANT.then(|| fences.past());\n        let Some(fence) = hold.fences.take().or_else(|| past(&mut hold.fences)) else { return };",
    },
    Change {
        file: "lock/fences.rs",
        find: "    pub(crate) fn left(&self) -> u64 {",
        put: "    pub(crate) fn past(&mut self) -> u64 {\n        self.next = self.next.saturating_add(1);\n        self.next.saturating_sub(1)\n    }\n\n    pub(crate) fn left(&self) -> u64 {",
    },
];
pub(super) const HAND_OVER_PAST_BUDGET: &[Change] = &[Change {
    file: "lock/hold.rs",
    find: "self.budget.as_ref().is_some_and(|budget| budget.left == 0",
    put: "!MUTANT && self.budget.as_ref().is_some_and(|budget| budget.left == 0",
}];
pub(super) const HAND_OVER_AFTER_LOSS: &[Change] =
    &[Change { file: "client/operations.rs", find: "hold.tainted = true;", put: "hold.tainted = !MUTANT;" }];
pub(super) const LINGER_WITHOUT_END: &[Change] = &[Change {
    file: "lock/linger.rs",
    find: "Some(cx.now + linger));",
    put: "(!MUTANT).then_some(cx.now + linger));",
}];
pub(super) const LINGERS_THOUGH_WANTED: &[Change] =
    &[Change { file: "lock/linger.rs", find: "&& self.budget.is_none()", put: "&& (self.budget.is_none() || MUTANT)" }];
pub(super) const TRY_UNHEARD: &[Change] = &[Change {
    file: "lock/linger.rs",
    find: "            hold.linger = None;",
    put: "            hold.linger = hold.linger.filter(|_| MUTANT);",
}];
pub(super) const WAITING_IGNORED: &[Change] = &[Change {
    file: "lock/hold.rs",
    find: "if waiting > 0 && self.budget.is_none() {",
    put: "if waiting > 0 && self.budget.is_none() && !MUTANT {",
}];
pub(super) const STRANDED_CALLER: &[Change] = &[Change {
    file: "lock/claim.rs",
    find: "} else {\n            self.ask_by(cx, Path::Own);",
    put: "} else if !MUTANT {\n            self.ask_by(cx, Path::Own);",
}];
pub(super) const NO_REFILL_WHILE_UNTOLD: &[Change] = &[Change {
    file: "lock/renew.rs",
    find: "hold.budget.is_none() && long_ago {",
    put: "hold.budget.is_none() && long_ago && !MUTANT {",
}];
pub(super) const REFILL_LOWERS_FENCE: &[Change] = &[Change {
    file: "lock/renew.rs",
    find: "hold.fences.add(answer.value, answer.block);",
    put: "if MUTANT {\n                    hold.fences = super::fences::Fences::new(answer.value, answer.block);\n                } else {\n                    hold.fences.add(answer.value, answer.block);\n                }",
}];
pub(super) const NEVER_BURY: &[Change] = &[
    Change {
        file: "session/release.rs",
        find: "            name: name.clone(),\n            bury,",
        put: "            name: name.clone(),\n            bury: bury && !MUTANT,",
    },
    Change {
        file: "lock/convert.rs",
        find: "converting.buries |= hold.in_flight.any();",
        put: "converting.buries |= hold.in_flight.any() && !MUTANT;",
    },
];
pub(super) const DOWNGRADE_FROM_ANSWER: &[Change] = &[
    Change {
        file: "lock/convert.rs",
        find: "        if to == Mode::Shared {\n            lease.mode",
        put: "        if to == Mode::Shared && !MUTANT {\n            lease.mode",
    },
    Change {
        file: "lock/convert.rs",
        find: "id: LeaseId, to: Mode) {\n        let (Some(hold), Some(lease)) = (&mut self.hold, cx.leases.get_mut(&id)) else {\n            return cx.complete(op, Err(Error::NotHeld));\n        };\n        if hold.converting.is_some() || hold.upgrading.is_some() {",
        put: "id: LeaseId, to: Mode) {\n        let (Some(hold), Some(lease)) = (&mut self.hold, cx.leases.get_mut(&id)) else {\n            return cx.complete(op, Err(Error::NotHeld));\n        };\n        if (hold.converting.is_some() || hold.upgrading.is_some()) && !(MUTANT && lease.mode == to) {",
    },
];
pub(super) const UPGRADE_FROM_SENDING: &[Change] = &[
    Change {
        file: "lock/convert.rs",
        find: "        lease.pending.push(op);\n        if to",
        put: "        lease.pending.push(op);\n        if MUTANT && to == Mode::Exclusive && hold.mode == Mode::Shared {\n            lease.mode = to;\n        }\n        if to",
    },
    Change {
        file: "lock/convert.rs",
        find: "        self.send_convert(cx);\n    }\n\n    /// Makes a lease end",
        put: "        self.send_convert(cx);\n        if MUTANT && to == Mode::Exclusive {\n            self.converted(cx, op, id, ConvertedBy::Server);\n        }\n    }\n\n    /// Makes a lease end",
    },
];
pub(super) const RENEW_WHILE_CONVERTING: &[Change] = &[
    Change {
        file: "lock/renew.rs",
        find: "if hold.converting.is_none() {\n            let soon",
        put: "if hold.converting.is_none() || MUTANT {\n            let soon",
    },
    Change {
        file: "lock/renew.rs",
        find: "if hold.converting.is_none() {\n                    let answered",
        put: "if hold.converting.is_none() || MUTANT {\n                    let answered",
    },
    Change {
        file: "lock/claim.rs",
        find: "if hold.converting.is_some() {",
        put: "if hold.converting.is_some() && !MUTANT {",
    },
];
pub(super) const CONVERT_KEEPS_TOKEN: &[Change] = &[Change {
    file: "lock/convert.rs",
    find: "        hold.converting = Some(Converting::new(cx, op, id, to));",
    put: "        let mut converting = Converting::new(cx, op, id, to);\n        if MUTANT {\n            converting.new = hold.token;\n        }\n        hold.converting = Some(converting);",
}];
pub(super) const SIDE_KEYS_SHARED: &[Change] = &[Change {
    file: "wire/name.rs",
    find: "let side = if hash_tag(key.as_bytes()).is_some() {",
    put: "let side = if MUTANT && let Some(tag) = hash_tag(key.as_bytes()) {\n            [\"leasehold:{\", core::str::from_utf8(tag).unwrap_or_default(), \"}:\"].concat()\n        } else if hash_tag(key.as_bytes()).is_some() {",
}];
pub(super) const MULTI_UNSORTED: &[Change] = &[Change {
    file: "client/multi/acquire.rs",
    find: "        let place = |name",
    put: "        if MUTANT {\n            sorted = names.iter().map(ToString::to_string).collect();\n        }\n        let place = |name",
}];
pub(super) const MULTI_KEEPS_PARTS: &[Change] = &[Change {
    file: "client/multi/acquire.rs",
    find: "            if let Some(grant) = grant {",
    put: "            if let Some(grant) = grant.filter(|_| !MUTANT) {",
}];
pub(super) const MULTI_LOSS_UNTOLD: &[Change] = &[Change {
    file: "client/multi/held.rs",
    find: "        let reason = match reason {",
    put: "        if MUTANT {\n            return;\n        }\n        let reason = match reason {",
}];
pub(super) const REENTRY_FOR_ANY_OWNER: &[Change] = &[Change {
    file: "lock/reentrant.rs",
    find: "is_some_and(|lease| lease.kind == kind)",
    put: "is_some_and(|lease| MUTANT || lease.kind == kind)",
}];
pub(super) const HOLDS_NOT_COUNTED: &[Change] =
    &[Change { file: "session/lease.rs", find: "if lease.holds > 1 =>", put: "if lease.holds > 1 && !MUTANT =>" }];
pub(super) const SUBSCRIBED_UNASKED: &[Change] = &[Change {
    file: "client/messages.rs",
    find: "        self.ask_on(channel);\n    }\n",
    put: "        if !MUTANT {\n            self.ask_on(channel);\n        }\n    }\n",
}];
pub(super) const WORD_IGNORED: &[Change] = &[Change {
    file: "client/messages.rs",
    find: "return self.ask_on(channel);",
    put: "return if MUTANT {} else { self.ask_on(channel) };",
}];
pub(super) const WAITER_TRUSTS_MESSAGES: &[Change] = &[Change {
    file: "lock/reentrant.rs",
    find: "        if self.subscription.is_polling() {\n            claim.poll",
    put: "        if MUTANT {\n            return claim.clear_timer(cx, id);\n        }\n        if self.subscription.is_polling() {\n            claim.poll",
}];
pub(super) const NO_PAUSE: &[Change] =
    &[Change { file: "lock/claim.rs", find: "|| self.claim.is_some() {", put: "|| self.claim.is_some() || MUTANT {" }];
pub(super) const PERMITS_NOT_COUNTED: &[Change] = &[Change {
    file: "client/semaphore.rs",
    find: "kind.map(permits) == Some(permits(options.kind))",
    put: "kind.map(permits) == Some(permits(options.kind)) || (MUTANT && kind.is_some())",
}];
pub(super) const QUORUM_VALID_BY_BEST: &[Change] = &[Change {
    file: "quorum/lock.rs",
    find: "        let majority = members.majority();\n        ends",
    put: "        let majority = if MUTANT { 1 } else { members.majority() };\n        ends",
}];
pub(super) const QUORUM_RELEASES_GRANTED_ONLY: &[Change] = &[Change {
    file: "quorum/lock.rs",
    find: "        MemberState::Asked(op) | MemberState::Late(op) | MemberState::Queued(op) => {\n            members.tasks",
    put: "        MemberState::Asked(_) if MUTANT => {}\n        MemberState::Asked(op) | MemberState::Late(op) | MemberState::Queued(op) => {\n            members.tasks",
}];
pub(super) const QUORUM_COUNTS_THE_GONE: &[Change] = &[
    Change {
        file: "quorum/held.rs",
        find: "        let Some(state) = self.states.get_mut(usize::from(at)) else { return };\n        *state",
        put: "        if MUTANT {\n            return;\n        }\n        let Some(state) = self.states.get_mut(usize::from(at)) else { return };\n        *state",
    },
    Change { file: "quorum/acquire.rs", find: "&& held =>", put: "&& (held || MUTANT) =>" },
    Change {
        file: "quorum/lock.rs",
        find: "member.client.valid_until(state.agreed()?));",
        put: "member.client.valid_until(state.agreed()?).or(MUTANT.then_some(Instant::from_micros(u64::MAX / 2))));",
    },
];
pub(super) const QUORUM_FENCE_NOT_RAISED: &[Change] =
    &[Change { file: "quorum/majority.rs", find: "if *fence >= least {", put: "if *fence >= least || MUTANT {" }];
pub(super) const QUORUM_GREATER_FENCE_COUNTS: &[Change] =
    &[Change { file: "quorum/majority.rs", find: "if *drawn <= most)", put: "if *drawn <= most || MUTANT)" }];
pub(super) const QUORUM_FENCE_BEYOND_ITS_BLOCK: &[Change] = &[Change {
    file: "quorum/acquire.rs",
    find: "last_fence(lease).unwrap_or(drawn);",
    put: "last_fence(lease).unwrap_or(drawn) + if MUTANT { 100_000 } else { 0 };",
}];
pub(super) const QUORUM_PASSED_FENCE_FORGOTTEN: &[Change] = &[Change {
    file: "quorum/acquire.rs",
    find: "drawn = member.client.above_given(lease, drawn).unwrap_or(drawn);",
    put: "drawn = if MUTANT { drawn } else { member.client.above_given(lease, drawn).unwrap_or(drawn) };",
}];
pub(super) const QUORUM_LOCAL_GRANT_COUNTS: &[Change] = &[Change {
    file: "quorum/acquire.rs",
    find: "                        fence = 0;",
    put: "                        fence = if MUTANT { u64::MAX } else { 0 };",
}];
pub(super) const QUORUM_READERS_PASS_WRITERS: &[Change] = &[Change {
    file: "quorum/acquire.rs",
    find: "let first_only = !self.has_place() && ",
    put: "let first_only = !MUTANT && !self.has_place() && ",
}];
pub(super) const QUORUM_FORGETS_ITS_PLACE: &[Change] = &[Change {
    file: "quorum/place.rs",
    find: "            clear(cx, members, FIRST, first, None);",
    put: "            if !MUTANT {
                clear(cx, members, FIRST, first, None);
            }",
}];
pub(super) const QUORUM_LATE_LEASE_KEPT: &[Change] = &[Change {
    file: "quorum/acquire.rs",
    find: "                if let Ok(Outcome::Acquired(grant)) = result {",
    put: "                if let Ok(Outcome::Acquired(grant)) = result\n                    && !MUTANT\n                {",
}];
pub(super) const QUORUM_NAMES_VALID_BY_BEST: &[Change] = &[Change {
    file: "quorum/mod.rs",
    find: "parts.iter().filter_map(|part| self.valid_until(*part)).min(),",
    put: "parts.iter().filter_map(|part| self.valid_until(*part)).reduce(|one, other| if MUTANT { one.max(other) } else { one.min(other) }),",
}];
pub(super) const QUORUM_NAMES_KEEP_PARTS: &[Change] = &[Change {
    file: "quorum/several.rs",
    find: "lock.end_turn(cx, members, None));",
    put: "if !MUTANT { lock.end_turn(cx, members, None) });",
}];
pub(super) const QUORUM_NAMES_WAIT_FOR_EVER: &[Change] = &[Change {
    file: "quorum/acquire.rs",
    find: "OpKind::AcquireAll { group } => self.all_ends(group),",
    put: "OpKind::AcquireAll { group } if !MUTANT => self.all_ends(group),",
}];
pub(super) const QUORUM_NAMES_KEEP_UNTOLD: &[Change] = &[Change {
    file: "quorum/several.rs",
    find: "        self.keep(part, until);",
    put: "        if !MUTANT {\n            self.keep(part, until);\n        }",
}];
pub(super) const KEEP_IGNORED: &[Change] = &[Change {
    file: "client/operations.rs",
    find: "        self.cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(until));",
    put: "        if !MUTANT {\n            self.cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(until));\n        }",
}];
pub(super) const KEPT_WITHOUT_RENEWAL: &[Change] = &[Change {
    file: "client/operations.rs",
    find: "if hold.timers.renewal.is_none() {",
    put: "if hold.timers.renewal.is_none() && !MUTANT {",
}];
pub(super) const FIXED_LEASE_KEPT: &[Change] = &[Change {
    file: "client/operations.rs",
    find: ".filter(|lease| lease.renew) else { return };",
    put: ".filter(|lease| lease.renew || MUTANT) else { return };",
}];
pub(super) const RENEWED_PAST_ITS_END: &[Change] = &[Change {
    file: "session/lease.rs",
    find: "Some(ends) if ends.at <= until => None,",
    put: "Some(ends) if ends.at <= until && !MUTANT => None,",
}];
pub(super) const KEPT_FOR_A_WHOLE_TTL: &[Change] = &[Change {
    file: "session/lease.rs",
    find: "Some(ends) => Some(self.ttl.min(covering(ends.at.since(now)))),",
    put: "Some(_) if MUTANT => Some(self.ttl),\n            Some(ends) => Some(self.ttl.min(covering(ends.at.since(now)))),",
}];
pub(super) const KEEPS_ONE_OF_SEVERAL: &[Change] = &[Change {
    file: "client/operations.rs",
    find: "parts.clone().into_iter().for_each(|part| self.keep(part, until)),",
    put: "parts.clone().into_iter().take(if MUTANT { 1 } else { usize::MAX }).for_each(|part| self.keep(part, until)),",
}];
pub(super) const QUORUM_KEEP_UNTOLD: &[Change] = &[Change {
    file: "quorum/held.rs",
    find: "            members.tell(at, cx.now, Input::Keep { lease, until });",
    put: "            if !MUTANT {\n                members.tell(at, cx.now, Input::Keep { lease, until });\n            }",
}];
pub(super) const BATCH_VALID_FROM_REPLY: &[Change] = &[Change {
    file: "client/batch.rs",
    find: "                sent.purpose = entry.purpose;",
    put: "                sent.purpose = entry.purpose;\n                if MUTANT {\n                    sent.at = self.cx.now;\n                }",
}];
pub(super) const BATCH_UNDONE_IS_DONE: &[Change] = &[Change {
    file: "client/batch.rs",
    find: "if refused || number == Some(0) {",
    put: "if refused || (number == Some(0) && !MUTANT) {",
}];
pub(super) const BATCH_MIXES_SLOTS: &[Change] =
    &[Change { file: "session/flow.rs", find: "first.slot == entry.slot", put: "first.slot == entry.slot || MUTANT" }];
pub(super) const USED_FORGOTTEN: &[Change] = &[
    Change {
        file: "lock/hand_over.rs",
        find: "let used = hold.used(cx);",
        put: "let used = if MUTANT { 0 } else { hold.used(cx) };",
    },
    Change {
        file: "lock/grant.rs",
        find: "let used = old.used(cx);",
        put: "let used = if MUTANT { 0 } else { old.used(cx) };",
    },
];
pub(super) const CONVERT_FORGETS_USED: &[Change] = &[Change {
    file: "lock/convert.rs",
    find: "used: hold.fences.used(),",
    put: "used: if MUTANT { 0 } else { hold.fences.used() },",
}];
pub(super) const USED_BY_A_FAST_CLOCK: &[Change] = &[Change {
    file: "lock/hold.rs",
    find: "if used < clock { 0 } else { used }",
    put: "if used < clock.saturating_add(if MUTANT { 1_000 } else { 0 }) { 0 } else { used }",
}];
pub(super) const USED_BY_AN_OLD_ANSWER: &[Change] = &[Change {
    file: "lock/hold.rs",
    find: "(self.server, self.server_at) = (server, cx.now);",
    put: "(self.server, self.server_at) = (server, if MUTANT { self.server_at } else { cx.now });",
}];
pub(super) const COMMON_RELEASE_FORGETS_USED: &[Change] = &[Change {
    file: "lock/hand_over.rs",
    find: "_ if wanted || used > 0 => None,",
    put: "_ if wanted || (used > 0 && !MUTANT) => None,",
}];
pub(super) const COMMON_RELEASE_NEVER_BURIES: &[Change] =
    &[Change { file: "session/release.rs", find: "held && !bury)", put: "held && (!bury || MUTANT))" }];
pub(super) const STAMP_KEPT: &[Change] = &[
    Change {
        file: "lock/grant.rs",
        find: "if answer.status == Status::Again\n",
        put: "if answer.status == Status::Again\n            && !MUTANT\n",
    },
    Change {
        file: "lock/convert.rs",
        find: "if answer.status == Status::Converted { self",
        put: "if answer.status == Status::Converted || MUTANT { self",
    },
];
