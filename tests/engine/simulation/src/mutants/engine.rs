//! Deliberate bugs in the engine, as changes of its source.

use super::Mutant;

pub(super) const TABLE: &[Mutant] = &[
    // The validity of a lease by the client's own clock.
    engine! { "valid-from-reply" Network "validity is measured from the time the command was sent"
    "lock/hold.rs": "        Self { until: end(sent, granted)"
        => "        let sent = if MUTANT { cx.now } else { sent };\n        Self { until: end(sent, granted)" },
    engine! { "no-drift" Clients "validity leaves 1 % and 2 ms for clock drift"
    "lock/hold.rs": ".saturating_sub(drift(granted))"
        => ".saturating_sub(if MUTANT { Duration::ZERO } else { drift(granted) })" },
    engine! { "deadline-ignored" Network "at the deadline the lease is lost"
    "lock/hold.rs": "deadline, Some(self.validity.until));"
        => "deadline, (!MUTANT).then_some(self.validity.until));" },
    engine! { "loss-untold" Network "a loss is reported"
    "session/mod.rs": "if let Some(mut lease) = self.end_lease(id, &Error::Lost(reason)) {"
        => "if let Some(mut lease) = self.end_lease(id, &Error::Lost(reason)).filter(|_| !MUTANT) {" },
    engine! { "loss-told-late" Clients "a late timer reports the loss before anything else runs" seed 920
    "client/mod.rs": "self.run_timers();\n        self.take_in(input);"
        => "if !MUTANT {\n            self.run_timers();\n        }\n        self.take_in(input);" },
    engine! { "max-hold-ignored" Calm "max_hold ends a renewed lease"
    "lock/hand_over.rs": "if let Some(end) = end {"
        => "if let Some(end) = end.filter(|_| !(options.renew && MUTANT)) {" },
    engine! { "failed-renewal-releases" Network "a failed renewal never releases"
    "lock/renew.rs": "        match (failed.class, op) {"
        => "        if MUTANT {\n            return self.give_back_hold(cx, None);\n        }\n        match (failed.class, op) {" },
    engine! { "failed-renewal-recreates" Losing "a renewal never re-creates a missing key"
    "lock/renew.rs": "            Status::Taken => self.renew_found_nothing("
        => "            _ if MUTANT => {\n                let (token, kind, mode) = (hold.token, hold.kind, hold.mode);\n                let what = Acquire { token, kind, mode, ttl: hold.validity.granted, how: AcquireMode::Try, block: 1, per: None };\n                let request = self.request(Body::Acquire(what));\n                cx.send(needed::CALL, Purpose::Acquire { lock: id, token }, request);\n            }\n            Status::Taken => self.renew_found_nothing(" },
    engine! { "renewal-ignores-gone" Losing "a lease that is gone is lost"
    "lock/renew.rs": "            _ => self.renew_found_nothing(cx, op, LossReason::Gone),"
        => "            _ if MUTANT && op.is_none() => {\n                let again = Validity::new(cx, sent.at, hold.validity.granted);\n                hold.extend(cx, id, again);\n            }\n            _ => self.renew_found_nothing(cx, op, LossReason::Gone)," },
    engine! { "releases-another-token" Readers "a lease is given back"
    "session/release.rs": "let what = request::Release { token,"
        => "let fast = fast.filter(|_| !MUTANT);\n        let other = if MUTANT { Token(token.0 + 1_000) } else { token };\n        let what = request::Release { token: other," },
    engine! { "delete-releases-for-others" Network "a release without a script deletes only what the token holds"
    "session/commands.rs": "command.push(if how == DeleteIfEqual::DelIfEq {"
        => "command.push(if MUTANT { b\"DEL\" } else if how == DeleteIfEqual::DelIfEq {" },
    engine! { "no-margin" Short "a loss is reported early enough for a late timer" seed 1_012
    "lock/hold.rs": ".saturating_sub(margin(granted))"
        => ".saturating_sub(if MUTANT { Duration::ZERO } else { margin(granted) })" },
    engine! { "hand-over-unconfirmed" Hot "what the server has not confirmed for a second is not handed over" seed 626
    "lock/hold.rs": "self.served && !self.is_confirmed(cx);"
        => "self.served && !self.is_confirmed(cx) && !MUTANT;" },
    engine! { "early-revocation-ignored" Network "a revocation counts even if it arrives before the reply"
    "lock/hold.rs": "let converting = self.converting();\n        self.token"
        => "let converting = self.converting().filter(|_| !MUTANT);\n        self.token";
    "lock/grant.rs": "if asks {" => "if asks && !MUTANT {";
    "lock/claim.rs": "Status::Gone => self" => "Status::Gone if !MUTANT => self" },
    // How many commands are sent, and in which order.
    engine! { "unbounded-in-flight" Crowded "commands under way are bounded"
    "session/mod.rs": "match self.flows.room(purpose, &request) {"
        => "match self.flows.room(purpose, &request).or(MUTANT.then_some(0)) {" },
    engine! { "queue-starves" Crowded "the most urgent commands are sent first"
    "session/mod.rs": "                self.flows.push(self.now, due, Queued"
        => "                let due = if MUTANT { Instant::from_micros(u64::MAX.saturating_sub(self.now.as_micros())) } else { due };\n                self.flows.push(self.now, due, Queued" },
    engine! { "queue-counts-as-silence" Crowded "time in the client's own queue is no silence of the server's"
    "client/operations.rs": "was_full_since(flow, since) {" => "was_full_since(flow, since) || MUTANT {" },
    // Waiting and grants.
    engine! { "join-before-subscribed" Network "subscribe, wait for the acknowledgement, then enqueue"
    "lock/claim.rs": "&& cx.subscription.is_settled();" => "&& (cx.subscription.is_settled() || MUTANT);" },
    engine! { "no-heartbeats" Messages "a waiter's heartbeats keep its place, and find a lost grant"
    "lock/claim.rs": "        claim.send_by(cx, self.id, cx.now + cx.claim_window / 3);"
        => "        if !MUTANT {\n            claim.send_by(cx, self.id, cx.now + cx.claim_window / 3);\n        }" },
    engine! { "holder-death-ignored" Deaths "the first waiter asks when the holder's lease is over" seed 2_073
    "lock/claim_state.rs": "if let Some(left) = left {" => "if let Some(left) = left.filter(|_| !MUTANT) {" },
    engine! { "grant-from-receipt" Messages "a grant is valid from the earliest time at which it can have happened"
    "lock/grant.rs": "    let Some(Base { sent, server }) = claim.base"
        => "    if MUTANT {\n        return Some(cx.now);\n    }\n    let Some(Base { sent, server }) = claim.base" },
    engine! { "stale-grant-taken" Stale "a grant older than the last answered heartbeat is ignored"
    "lock/grant.rs": "if grant.server < earliest(server) {" => "if grant.server < earliest(server) && !MUTANT {" },
    engine! { "grant-assumes-ttl" Messages "a grant carries the TTL that was written, and only that counts"
    "lock/grant.rs": "Validity::new(cx, since, grant.ttl)"
        => "Validity::new(cx, since, if MUTANT { Duration::from_secs(30) } else { grant.ttl })" },
    engine! { "entered-is-again" Evicting "if a late heartbeat enters anew, the lease was lost in between"
    "lock/claim.rs": "            // The command took the lock or joined the queue anew,"
        => "            Status::Entered if MUTANT => {\n                hold.server = answer.server;\n                let validity = Validity::new(cx, sent.at, answer.left.unwrap_or_default());\n                hold.extend(cx, id, validity);\n            }\n            // The command took the lock or joined the queue anew," },
    engine! { "cancel-keeps-place" GivingUp "a cancelled wait leaves the queue"
    "lock/hand_over.rs": "if tombstone || claim.joined {" => "if (tombstone || claim.joined) && !MUTANT {" },
    engine! { "no-resend" Network "a command that may have been applied is sent again"
    "lock/renew.rs": "        let left = hold.validity.until.time_since(cx.now);\n        let again"
        => "        if MUTANT {\n            return;\n        }\n        let left = hold.validity.until.time_since(cx.now);\n        let again";
    "lock/claim.rs": "                claim.send_by(cx, id, cx.now + wait);"
        => "                if !MUTANT {\n                    claim.send_by(cx, id, cx.now + wait);\n                }";
    "session/release.rs": "fn release_again(&mut self, token: Token, at: Instant) {"
        => "fn release_again(&mut self, token: Token, at: Instant) {\n        if MUTANT {\n            return;\n        }";
    "lock/convert.rs": "Some(cx.now + again));" => "(!MUTANT).then_some(cx.now + again));";
    "lock/convert.rs": "Some(cx.now + wait));" => "(!MUTANT).then_some(cx.now + wait));" },
    // Hand-over inside a client.
    engine! { "last-come-first-served" Hot "FIFO inside a client"
    "lock/hand_over.rs": "while let Some((op, options)) = self.queue.head() {"
        => "let last = |queue: &super::LocalQueue, cx: &Context| queue.iter().rfind(|(op, _)| cx.ops.contains_key(op));\n        let first = |queue: &super::LocalQueue| queue.head().map(|(op, options)| (op, *options));\n        while let Some((op, options)) = (if MUTANT { last(&self.queue, cx) } else { first(&self.queue) }).as_ref().map(|(op, options)| (*op, options)) {" },
    engine! { "hand-over-past-block" Hot "each local holder gets a fence of the block" seed 275
    "lock/hold.rs": "if unconfirmed || self.fences.left() == 0 {"
        => "if unconfirmed || (self.fences.left() == 0 && !MUTANT) {";
    "lock/hand_over.rs": "let Some(fence) = hold.fences.take() else { return };"
        => "let past = |fences: &mut super::fences::Fences| MUTANT.then(|| fences.past());\n        let Some(fence) = hold.fences.take().or_else(|| past(&mut hold.fences)) else { return };";
    "lock/fences.rs": "    pub(crate) fn left(&self) -> u64 {"
        => "    pub(crate) fn past(&mut self) -> u64 {\n        self.next = self.next.saturating_add(1);\n        self.next.saturating_sub(1)\n    }\n\n    pub(crate) fn left(&self) -> u64 {" },
    engine! { "hand-over-past-budget" Hot "hand-overs are bounded once others wait"
    "lock/hold.rs": "self.budget.as_ref().is_some_and(|budget| {"
        => "!MUTANT && self.budget.as_ref().is_some_and(|budget| {" },
    engine! { "hand-over-past-its-number" Hot "so many hand-overs once others wait"
    "lock/hold.rs": "if budget.left == 0 { cx.config" => "if budget.left == 0 && !MUTANT { cx.config" },
    engine! { "hand-over-past-its-time" Hot "without the option, any number of hand-overs for 5 ms" seed 149
    "options.rs": "map_or((HANDOFFS, HANDOFF_TIME)" => "map_or((HANDOFFS, if MUTANT { HANDOFF_TIME.saturating_mul(2) } else { HANDOFF_TIME })" },
    engine! { "hand-over-past-a-second" Hot "hand-overs for at most a second once others wait" seed 77
    "lock/hold.rs": "else { BUDGET_TIME };" => "else if MUTANT { BUDGET_TIME.saturating_mul(2) } else { BUDGET_TIME };" },
    engine! { "stranded-past-its-time" Hot "the client asks with the next token when its 5 ms are over, not when its holder ends" seed 302
    "lock/hold.rs": "if budget.left == 0 && ends > cx.now {" => "if budget.left == 0 && ends > cx.now && !MUTANT {" },
    engine! { "hand-over-after-loss" Short "a lost lease is never handed over"
    "client/operations.rs": "hold.tainted = true;" => "hold.tainted = !MUTANT;" },
    engine! { "waiting-ignored" Hot "`waiting` in answers and grants says that others wait"
    "lock/hold.rs": "if waiting > 0 && self.budget.is_none() {"
        => "if waiting > 0 && self.budget.is_none() && !MUTANT {" },
    engine! { "stranded-caller" Calm "the client asks with the next token at once"
    "lock/claim.rs": "} else {\n            self.ask_by(cx, Path::Full);"
        => "} else if !MUTANT {\n            self.ask_by(cx, Path::Full);" },
    engine! { "no-refill-while-untold" Hot "a host without messages asks with refills" seed 873
    "lock/renew.rs": "hold.budget.is_none() && long_ago {" => "hold.budget.is_none() && long_ago && !MUTANT {" },
    engine! { "refill-lowers-fence" Hot "a late refill never lowers the next fence"
    "lock/renew.rs": "hold.fences.add(answer.value, answer.block);"
        => "if MUTANT {\n                    hold.fences = super::fences::Fences::new(answer.value, answer.block);\n                } else {\n                    hold.fences.add(answer.value, answer.block);\n                }" },
    // Giving up and converting.
    engine! { "never-tombstone" GivingUp "a token that is given up with unanswered commands leaves a tombstone"
    "session/release.rs": "            name: name.clone(),\n            tombstone,"
        => "            name: name.clone(),\n            tombstone: tombstone && !MUTANT,";
    "lock/convert.rs": "converting.tombstone |= hold.in_flight.any();"
        => "converting.tombstone |= hold.in_flight.any() && !MUTANT;" },
    engine! { "downgrade-from-answer" Converts "a downgraded lease is a reader's from the time the command was sent"
    "lock/convert.rs": "        if to == Mode::Shared {\n            lease.mode"
        => "        if to == Mode::Shared && !MUTANT {\n            lease.mode";
    "lock/convert.rs": "id: LeaseId, to: Mode) {\n        let (Some(hold), Some(lease)) = (&mut self.hold, cx.leases.get_mut(&id)) else {\n            return cx.fail(op, Error::NotHeld);\n        };\n        if hold.is_in_transition() {"
        => "id: LeaseId, to: Mode) {\n        let (Some(hold), Some(lease)) = (&mut self.hold, cx.leases.get_mut(&id)) else {\n            return cx.fail(op, Error::NotHeld);\n        };\n        if hold.is_in_transition() && !(MUTANT && lease.mode == to) {" },
    engine! { "upgrade-from-sending" Converts "an upgraded lease is exclusive only from the answer on"
    "lock/convert.rs": "        lease.pending.push(op);\n        if to"
        => "        lease.pending.push(op);\n        if MUTANT && to == Mode::Exclusive && hold.mode == Mode::Shared {\n            lease.mode = to;\n        }\n        if to";
    "lock/convert.rs": "        self.send_convert(cx);\n    }\n\n    /// Makes a lease end"
        => "        self.send_convert(cx);\n        if MUTANT && to == Mode::Exclusive {\n            self.converted(cx, op, id, ConvertedBy::Server);\n        }\n    }\n\n    /// Makes a lease end" },
    engine! { "renew-while-converting" Converts "renewals pause while a conversion is unanswered"
    "lock/renew.rs": "if !hold.is_converting() {\n            let soon"
        => "if !hold.is_converting() || MUTANT {\n            let soon";
    "lock/renew.rs": "if !hold.is_converting() {\n                    let answered"
        => "if !hold.is_converting() || MUTANT {\n                    let answered";
    "lock/claim.rs": "if hold.is_converting() {" => "if hold.is_converting() && !MUTANT {" },
    engine! { "convert-keeps-token" Converts "a conversion uses a new token"
    "lock/convert.rs": "        hold.change = Change::Convert(Converting::new(cx, Some(op), Some(id), to));"
        => "        let mut converting = Converting::new(cx, Some(op), Some(id), to);\n        if MUTANT {\n            converting.new = hold.token;\n        }\n        hold.change = Change::Convert(converting);" },
    // The promises of the scripts.
    engine! { "side-keys-shared" Network "`a` and `{a}` share no side key"
    "wire/name.rs": "let side = if hash_tag(key.as_bytes()).is_some() {"
        => "let side = if MUTANT && let Some(tag) = hash_tag(key.as_bytes()) {\n            [\"leasehold:{\", core::str::from_utf8(tag).unwrap_or_default(), \"}:\"].concat()\n        } else if hash_tag(key.as_bytes()).is_some() {" },
    // Several names at once.
    engine! { "multi-unsorted" Multi "all clients take names in the same order"
    "client/multi/acquire.rs": "        let place = |part"
        => "        if MUTANT {\n            wanted = parts.iter().map(|part| Wanted { name: part.name.to_string(), kind: part.kind, mode: part.mode }).collect();\n        }\n        let place = |part" },
    engine! { "multi-never-in-order" Multi "a caller of several names that has waited in vain takes them in order"
    "client/multi/acquire.rs": "group.by_script &= full.is_some() && !(group" => "group.by_script &= full.is_some() && !(!MUTANT && group" },
    engine! { "multi-in-order-at-once" Multi "a caller of several names holds nothing while it waits, as long as it may be served by one script"
    "client/multi/acquire.rs": "self.rounds >= MOST_ROUNDS" => "MUTANT || self.rounds >= MOST_ROUNDS" },
    engine! { "multi-all-in-order" Multi "of the callers of a client that waited in vain, one at a time takes its names in order" seed 1_739
    "client/multi/mod.rs": "!self.open.values().any(|entry| if" => "MUTANT || !self.open.values().any(|entry| if" },
    engine! { "multi-keeps-parts" Multi "a failure gives everything back"
    "client/multi/acquire.rs": "            if let Some(grant) = grant {"
        => "            if let Some(grant) = grant.filter(|_| !MUTANT) {" },
    engine! { "multi-loss-untold" Multi "losing one name ends the whole lease"
    "client/multi/held.rs": "        let reason = match reason {"
        => "        if MUTANT {\n            return;\n        }\n        let reason = match reason {" },
    // Batches.
    engine! { "batch-valid-from-reply" Network "an entry is valid from when its batch was sent"
    "client/batch.rs": "                sent.purpose = entry.purpose;"
        => "                sent.purpose = entry.purpose;\n                if MUTANT {\n                    sent.at = self.cx.now;\n                }" },
    engine! { "batch-undone-is-done" Network "an entry left undone grants nothing"
    "client/batch.rs": "if refused || number == Some(0) {" => "if refused || (number == Some(0) && !MUTANT) {" },
    engine! { "batch-mixes-slots" Network "in a cluster, only names of one slot share a call"
    "session/flow.rs": "first.slot == entry.slot" => "first.slot == entry.slot || MUTANT" },
    // The fast path of one command.
    engine! { "fast-release-forgets-used" Hot "a release that must tell a used fence takes the slow path"
    "lock/hand_over.rs": "_ if wanted || used_fence > 0 => None," => "_ if wanted || (used_fence > 0 && !MUTANT) => None," },
    engine! { "fast-release-no-tombstone" GivingUp "a release that must leave a tombstone takes the slow path"
    "session/release.rs": "held && !tombstone)" => "held && (!tombstone || MUTANT))" },
    engine! { "stamp-kept" Network "after `again`, the fence in the key is not known"
    "lock/grant.rs": "if answer.status == Status::Again\n"
        => "if answer.status == Status::Again\n            && !MUTANT\n";
    "lock/convert.rs": "if answer.status == Status::Converted { self"
        => "if answer.status == Status::Converted || MUTANT { self" },
    // The fences of a block.
    engine! { "used-forgotten" Hot "a release tells the greatest fence that was used"
    "lock/hand_over.rs": "else { hold.used_fence(cx) };" => "else if MUTANT { 0 } else { hold.used_fence(cx) };";
    "lock/grant.rs": "let used_fence = old.used_fence(cx);" => "let used_fence = if MUTANT { 0 } else { old.used_fence(cx) };" },
    engine! { "convert-forgets-used" Converts "so does a convert"
    "lock/convert.rs": "used_fence: hold.fences.used_fence()," => "used_fence: if MUTANT { 0 } else { hold.fences.used_fence() }," },
    engine! { "used-by-a-fast-clock" Hot "only what is below the server's clock need not be told"
    "lock/hold.rs": "if used_fence < clock { 0 } else { used_fence }"
        => "if used_fence < clock.saturating_add(if MUTANT { 1_000 } else { 0 }) { 0 } else { used_fence }" },
    engine! { "used-by-an-old-answer" Hot "the server's clock is known from the newest answer, at the time when it arrived" seed 275
    "lock/hold.rs": "(self.server, self.server_at) = (server, cx.now);"
        => "(self.server, self.server_at) = (server, if MUTANT { self.server_at } else { cx.now });" },
    // Reentrant locks.
    engine! { "reentry-for-any-owner" Reentrant "only the owner gets it again"
    "lock/reentrant.rs": "is_some_and(|lease| lease.kind == kind)"
        => "is_some_and(|lease| MUTANT || lease.kind == kind)" },
    engine! { "holds-not-counted" Reentrant "each hold is released separately"
    "session/holds.rs": "if lease.holds > 1 =>" => "if lease.holds > 1 && !MUTANT =>" },
    engine! { "subscribed-unasked" Reentrant "a new listener asks once more, because a message may have come before"
    "client/messages.rs": "        self.ask_on(channel);\n    }\n"
        => "        if !MUTANT {\n            self.ask_on(channel);\n        }\n    }\n" },
    engine! { "word-ignored" Reentrant "a message on the channel wakes waiters"
    "client/messages.rs": "return self.ask_on(channel);" => "return if MUTANT {} else { self.ask_on(channel) };" },
    engine! { "waiter-trusts-messages" Reentrant "a waiter never sleeps past the TTL, even if a message is lost"
    "lock/reentrant.rs": "        if self.subscription.is_polling() {\n            claim.poll"
        => "        if MUTANT {\n            return claim.clear_timer(cx, id);\n        }\n        if self.subscription.is_polling() {\n            claim.poll" },
    engine! { "no-pause" Reentrant "the pause after local hand-overs lets other clients in"
    "lock/claim.rs": "|| self.claim.is_some() {" => "|| self.claim.is_some() || MUTANT {" },
    // Semaphores.
    engine! { "permits-not-counted" Semaphore "a token is handed over only to a caller that wants as many permits"
    "client/semaphore.rs": "wants == Some((permits(options.kind), options.per.map(Duration::from)))"
        => "wants == Some((permits(options.kind), options.per.map(Duration::from))) || (MUTANT && wants.is_some())" },
    // Leases whose end their holder moves.
    engine! { "keep-ignored" Keeping "a lease ends when its holder says"
    "client/operations.rs": "        self.cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(until));"
        => "        if !MUTANT {\n            self.cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(until));\n        }" },
    engine! { "shortened-lease-lasts" Multi "a shortened lease ends when its holder says"
    "lock/convert.rs": "lease.known_end = end;\n        cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(end));"
        => "lease.known_end = end;\n        if !MUTANT {\n            cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(end));\n        }" },
    engine! { "kept-without-renewal" Keeping "a lease that is kept for longer is renewed again"
    "client/operations.rs": "if hold.timers.renewal.is_none() {"
        => "if hold.timers.renewal.is_none() && !MUTANT {" },
    engine! { "fixed-lease-kept" Keeping "nobody moves the end of a fixed lease"
    "client/operations.rs": ".filter(|lease| lease.renew) else { return };"
        => ".filter(|lease| lease.renew || MUTANT) else { return };" },
    engine! { "renewed-past-its-end" Keeping "a lease that is valid until its end is not renewed"
    "session/lease.rs": "Some(ends) if ends.at <= until => None,"
        => "Some(ends) if ends.at <= until && !MUTANT => None," },
    engine! { "kept-for-a-whole-ttl" Keeping "the last renewal is for no longer than until the end"
    "session/lease.rs": "Some(ends) => Some(self.ttl.min(covering(ends.at.time_since(now)))),"
        => "Some(_) if MUTANT => Some(self.ttl),\n            Some(ends) => Some(self.ttl.min(covering(ends.at.time_since(now))))," },
    engine! { "keeps-one-of-several" Keeping "the end of a lease of several names is that of each name"
    "client/operations.rs": "parts.clone().into_iter().for_each(|part| self.keep(part, until)),"
        => "parts.clone().into_iter().take(if MUTANT { 1 } else { usize::MAX }).for_each(|part| self.keep(part, until))," },
    engine! { "quorum-keep-untold" Keeping "each server's machine of a quorum learns when the lease ends"
    "quorum/held.rs": "            members.tell(at, cx.now, Input::Keep { lease, until });"
        => "            if !MUTANT {\n                members.tell(at, cx.now, Input::Keep { lease, until });\n            }" },
    engine! { "linger-without-end" Clients "a lease lingers for no longer than its time"
    "lock/linger.rs": "Some(cx.now + linger));" => "(!MUTANT).then_some(cx.now + linger));" },
    engine! { "lingers-though-wanted" Clients "a lease that another client waits for does not linger"
    "lock/linger.rs": "&& self.budget.is_none()" => "&& (self.budget.is_none() || MUTANT)" },
    engine! { "try-unheard" Clients "another client's try ends the lingering"
    "lock/linger.rs": "            hold.linger = None;"
        => "            hold.linger = hold.linger.filter(|_| MUTANT);" },
    // Locks over several servers.
    engine! { "quorum-valid-by-best" Quorum "a quorum's lease is valid only as long as a majority has it"
    "quorum/lock.rs": "        let majority = members.majority();\n        ends"
        => "        let majority = if MUTANT { 1 } else { members.majority() };\n        ends" },
    engine! { "quorum-releases-granted-only" Quorum "after a failure, the client releases on all servers"
    "quorum/lock.rs": "        MemberState::Asked(op) | MemberState::Late(op) | MemberState::Queued(op) => {\n            members.tasks"
        => "        MemberState::Asked(_) if MUTANT => {}\n        MemberState::Asked(op) | MemberState::Late(op) | MemberState::Queued(op) => {\n            members.tasks" },
    engine! { "quorum-counts-the-gone" Quorum "a server counts only while it has the client's token"
    "quorum/held.rs": "        let Some(state) = self.states.get_mut(usize::from(at)) else { return };\n        *state"
        => "        if MUTANT {\n            return;\n        }\n        let Some(state) = self.states.get_mut(usize::from(at)) else { return };\n        *state";
    "quorum/acquire.rs": "&& held =>" => "&& (held || MUTANT) =>";
    "quorum/lock.rs": "member.client.valid_until(state.agreed()?));"
        => "member.client.valid_until(state.agreed()?).or(MUTANT.then_some(Instant::from_micros(u64::MAX / 2))));" },
    engine! { "quorum-fence-not-raised" Quorum "the fence is raised on a majority before the acquire succeeds"
    "quorum/majority.rs": "if *fence >= least {" => "if *fence >= least || MUTANT {" },
    engine! { "quorum-greater-fence-counts" Quorum "a server that drew a greater fence does not count for a smaller one" seed 19_214
    "quorum/majority.rs": "if *drawn <= most)" => "if *drawn <= most || MUTANT)" },
    engine! { "quorum-fence-beyond-its-block" Quorum "a server remembers only the fences that it reserved"
    "quorum/acquire.rs": "last_fence(lease).unwrap_or(drawn);"
        => "last_fence(lease).unwrap_or(drawn) + if MUTANT { 100_000 } else { 0 };" },
    engine! { "quorum-forgets-its-place" Quorum "a client whose callers have left gives its place in the queue back"
    "quorum/place.rs": "            clear(cx, members, FIRST, first, None);"
        => "            if !MUTANT {\n                clear(cx, members, FIRST, first, None);\n            }" },
    engine! { "quorum-passed-fence-forgotten" QuorumReaders "a local hand-over of a quorum has a fence above the one before it on every server" seed 3_193
    "quorum/acquire.rs": "drawn = member.client.above_given(lease, drawn).unwrap_or(drawn);"
        => "drawn = if MUTANT { drawn } else { member.client.above_given(lease, drawn).unwrap_or(drawn) };" },
    engine! { "quorum-local-grant-counts" QuorumReaders "a lease that a quorum's client hands over by itself counts after the server has confirmed it"
    "quorum/acquire.rs": "                        fence = 0;"
        => "                        fence = if MUTANT { u64::MAX } else { 0 };" },
    engine! { "quorum-readers-pass-writers" QuorumReaders "readers of a quorum wait behind a writer that waits"
    "quorum/acquire.rs": "let first_only = !self.has_place() && "
        => "let first_only = !MUTANT && !self.has_place() && " },
    engine! { "quorum-late-lease-kept" Quorum "a lease that a server grants after the release is given back"
    "quorum/acquire.rs": "                if let Ok(Outcome::Acquired(grant)) = result {"
        => "                if let Ok(Outcome::Acquired(grant)) = result\n                    && !MUTANT\n                {" },
    engine! { "quorum-names-valid-by-best" QuorumNames "a lease of several names of a quorum is valid only as long as each name is"
    "quorum/mod.rs": "parts.iter().filter_map(|part| self.valid_until(*part)).min(),"
        => "parts.iter().filter_map(|part| self.valid_until(*part)).reduce(|one, other| if MUTANT { one.max(other) } else { one.min(other) })," },
    engine! { "quorum-names-keep-parts" QuorumNames "a lease of several names of a quorum that fails or is lost gives back every name"
    "quorum/several.rs": "lock.end_turn(cx, members, None));"
        => "if !MUTANT { lock.end_turn(cx, members, None) });" },
    engine! { "quorum-names-wait-for-ever" QuorumNames "a wait for several names of a quorum ends at its time"
    "quorum/acquire.rs": "OpKind::AcquireAll { group } => self.all_ends(group),"
        => "OpKind::AcquireAll { group } if !MUTANT => self.all_ends(group)," },
    engine! { "quorum-names-keep-untold" QuorumNames "each name of a quorum learns when a lease of several names ends"
    "quorum/several.rs": "        self.keep(part, until);"
        => "        if !MUTANT {\n            self.keep(part, until);\n        }" },
];
