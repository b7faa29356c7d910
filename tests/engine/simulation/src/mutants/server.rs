//! The deliberate bugs of the scripts once more, in the functions of `leasehold-memory`, under the same names.

use super::copy::Change;

/// The bugs.
pub(super) const SERVER: &[(&str, &[Change])] = &[
    (
        "release-ignores-owner",
        &[Change {
            file: "scripts/prelude/lock.rs",
            find: "        if self.holder.as_deref() == Some(token) {\n            self.free(base)?;",
            put: "        if self.holder.as_deref() == Some(token) || MUTANT && self.holder.is_some() && !self.is_shared() {\n            self.free(base)?;",
        }],
    ),
    (
        "fence-without-max",
        &[Change {
            file: "scripts/prelude/base.rs",
            find: "*self.fence.get_or_insert((self.last + 1).max(self.call.us))",
            put: "*self.fence.get_or_insert(if MUTANT { self.call.us } else { (self.last + 1).max(self.call.us) })",
        }],
    ),
    (
        "fence-for-each",
        &[Change {
            file: "scripts/prelude/base.rs",
            find: "pub(crate) fn draw(&mut self) -> i64 {",
            put: "pub(crate) fn draw(&mut self) -> i64 {\n        if MUTANT {\n            self.last = (self.last + 1).max(self.call.us);\n            self.fence = Some(self.last);\n        }",
        }],
    ),
    (
        "used-ignored",
        &[Change {
            file: "scripts/prelude/base.rs",
            find: "        base.pass(used);",
            put: "        if !MUTANT {\n            base.pass(used);\n        }",
        }],
    ),
    (
        "used-capped-by-the-clock",
        &[Change {
            file: "scripts/prelude/base.rs",
            find: "used.min(self.last.max(self.call.us) + 1024)",
            put: "used.min(if MUTANT { self.call.us } else { self.last.max(self.call.us) } + 1024)",
        }],
    ),
    (
        "adoption-draws-in-block",
        &[Change {
            file: "scripts/convert.rs",
            find: "        if adopts {\n            // The former",
            put: "        if adopts && !MUTANT {\n            // The former",
        }],
    ),
    (
        "adoption-raises-for-good",
        &[
            Change {
                file: "scripts/convert.rs",
                find: "            lock.base.pass(lock.base.call.us + 1023);",
                put: "            if MUTANT {\n                lock.base.pass_last();\n            } else {\n                lock.base.pass(lock.base.call.us + 1023);\n            }",
            },
            Change {
                file: "scripts/prelude/base.rs",
                find: "    /// Makes the next fence greater than this one, which was used.",
                put: "    pub(crate) fn pass_last(&mut self) {\n        self.pass(self.last + 1023);\n    }\n\n    /// Makes the next fence greater than this one, which was used.",
            },
        ],
    ),
    (
        "adoption-takes-a-place",
        &[Change { file: "scripts/convert.rs", find: "if adopts { 0 }", put: "if adopts && !MUTANT { 0 }" }],
    ),
    (
        "lost-counter-at-clock",
        &[Change {
            file: "scripts/prelude/base.rs",
            find: "let lost = call.us + 1024;",
            put: "let lost = call.us + if MUTANT { 0 } else { 1024 };",
        }],
    ),
    (
        "force-draws-in-block",
        &[Change {
            file: "scripts/force.rs",
            find: "    lock.base.pass(lock.base.call.us + 1023);",
            put: "    if !MUTANT {\n        lock.base.pass(lock.base.call.us + 1023);\n    }",
        }],
    ),
    (
        "block-uncut",
        &[Change {
            file: "scripts/prelude/queue.rs",
            find: "wanted.min(most).max(1)",
            put: "if MUTANT { wanted.max(1) } else { wanted.min(most).max(1) }",
        }],
    ),
    (
        "renewal-lowers",
        &[Change {
            file: "scripts/renew.rs",
            find: "            let ms = raised(call.pttl(name)?, ttl);",
            put: "            let ms = if MUTANT && ttl > 0 { ttl } else { raised(call.pttl(name)?, ttl) };",
        }],
    ),
    (
        "readers-lower",
        &[Change {
            file: "scripts/prelude/lock.rs",
            find: "self.write_holder(base, SHARED, left.max(ms))?;",
            put: "self.write_holder(base, SHARED, if MUTANT { ms } else { left.max(ms) })?;",
        }],
    ),
    (
        "readers-outlive-shared",
        &[
            Change {
                file: "scripts/prelude/lock.rs",
                find: "            base.call.del(&[base.keys.members])?;",
                put: "            if !MUTANT {\n                base.call.del(&[base.keys.members])?;\n            }",
            },
            Change {
                file: "scripts/renew.rs",
                find: "                call.del(&[readers])?;",
                put: "                if !MUTANT {\n                    call.del(&[readers])?;\n                }",
            },
        ],
    ),
    (
        "late-reader-renewed",
        &[Change {
            file: "scripts/renew.rs",
            find: "} else if expiry > call.now {",
            put: "} else if expiry > (if MUTANT { 0 } else { call.now }) {",
        }],
    ),
    (
        "renewal-recreates",
        &[Change {
            file: "scripts/renew.rs",
            find: "        None => Ok(call.answer(\"gone\", 0, 0, -1, false)),",
            put: "        None if MUTANT && readers.is_none() && ttl > 0 => {\n            call.set(name, &[token, b\" 5\"].concat(), crate::keys::Lifetime::Ms(ttl))?;\n            Ok(call.answer(\"renewed\", 0, ttl, -1, false))\n        }\n        None => Ok(call.answer(\"gone\", 0, 0, -1, false)),",
        }],
    ),
    (
        "release-writes-first",
        &[Change {
            file: "scripts/release.rs",
            find: "    let status = if prelude.give_up(token)? {",
            put: "    if MUTANT {\n        let last = prelude.base.call.get(keys.fence)?.unwrap_or(prelude.base.call.us_text());\n        prelude.base.call.set(keys.fence, &last, Lifetime::Forever)?;\n    }\n    let status = if prelude.give_up(token)? {",
        }],
    ),
    (
        "reader-renewal-adds-first",
        &[Change {
            file: "scripts/renew.rs",
            find: "    call.pexpire(name, keep)?;\n    call.zadd(readers,",
            put: "    if MUTANT {\n        call.zadd(readers, call.now + ms, token)?;\n    }\n    call.pexpire(name, keep)?;\n    call.zadd(readers,",
        }],
    ),
    (
        "refill-enters",
        &[Change {
            file: "scripts/acquire.rs",
            find: "if how == How::Refill {",
            put: "if how == How::Refill && !MUTANT {",
        }],
    ),
    (
        "late-head-purges-itself",
        &[
            Change {
                file: "scripts/acquire.rs",
                find: "        if queued {\n            self.write_record()?;",
                put: "        if queued && MUTANT {\n        } else if queued {\n            self.write_record()?;",
            },
            Change {
                file: "scripts/acquire.rs",
                find: "        if !queued {\n            self.join()?;",
                put: "        let queued = if MUTANT { self.prelude.score(self.request.token)? > 0 } else { queued };\n        if queued && MUTANT {\n            self.write_record()?;\n        }\n        if !queued {\n            self.join()?;",
            },
        ],
    ),
    (
        "dead-head-granted",
        &[Change {
            file: "scripts/prelude/queue.rs",
            find: "&& record.expiry > self.base.call.now",
            put: "&& (MUTANT || record.expiry > self.base.call.now)",
        }],
    ),
    (
        "grants-for-ttl",
        &[Change {
            file: "scripts/prelude/queue.rs",
            find: "record.ttl.min(record.claim)",
            put: "record.ttl.min(if MUTANT { i64::MAX } else { record.claim })",
        }],
    ),
    (
        "release-grants-nobody",
        &[Change {
            file: "scripts/release.rs",
            find: "    prelude.grant_and_answer(status, Said::default()).map(Answer::List)",
            put: "    if MUTANT {\n        return prelude.answer(status, Said::default()).map(Answer::List);\n    }\n    prelude.grant_and_answer(status, Said::default()).map(Answer::List)",
        }],
    ),
    (
        "convert-grants-nobody",
        &[Change {
            file: "scripts/convert.rs",
            find: "lock.grant_and_answer(\"converted\", Said { value, block, ms })",
            put: "if MUTANT {\n            lock.answer(\"converted\", Said { value, block, ms })\n        } else {\n            lock.grant_and_answer(\"converted\", Said { value, block, ms })\n        }",
        }],
    ),
    (
        "readers-barge",
        &[Change { file: "scripts/acquire.rs", find: "Ok(compatible && (", put: "Ok(compatible && (MUTANT || " }],
    ),
    (
        "upgrade-beside-readers",
        &[Change {
            file: "scripts/convert.rs",
            find: "mode == EXCLUSIVE && lock.kind.readers > 1",
            put: "mode == EXCLUSIVE && lock.kind.readers > 1 && !MUTANT",
        }],
    ),
    (
        "conflict-not-buried",
        &[Change {
            file: "scripts/convert.rs",
            find: "            lock.bury(new, 60_000)?;",
            put: "            if !MUTANT {\n                lock.bury(new, 60_000)?;\n            }",
        }],
    ),
    (
        "buried-ignored",
        &[Change {
            file: "scripts/acquire.rs",
            find: "if self.prelude.buried(token)? {",
            put: "if self.prelude.buried(token)? && !MUTANT {",
        }],
    ),
    (
        "buried-grows",
        &[Change {
            file: "scripts/prelude/queue.rs",
            find: "        self.base.remove_old_graves()?;",
            put: "        if !MUTANT {\n            self.base.remove_old_graves()?;\n        }",
        }],
    ),
    (
        "queue-without-ttl",
        &[Change {
            file: "scripts/acquire.rs",
            find: "        base.call.expire_at_least(base.keys.queue, claim)?;",
            put: "        if !MUTANT {\n            base.call.expire_at_least(base.keys.queue, claim)?;\n        }",
        }],
    ),
    (
        "release-digs-up",
        &[Change {
            file: "scripts/prelude/queue.rs",
            find: "        if self.score(token)? <= 0 {",
            put: "        let score = self.score(token)?;\n        if score == 0 || score < 0 && !MUTANT {",
        }],
    ),
    (
        "graves-counted",
        &[Change {
            file: "scripts/acquire.rs",
            find: "let position = rank - base.graves + 1;",
            put: "let position = rank + 1 - if MUTANT { 0 } else { base.graves };",
        }],
    ),
    (
        "grave-at-the-head",
        &[Change {
            file: "scripts/prelude/queue.rs",
            find: "let first = Range::Ranks(self.base.graves, self.base.graves + size - 1);",
            put: "let graves = if MUTANT { 0 } else { self.base.graves };\n            let first = Range::Ranks(graves, graves + size - 1);",
        }],
    ),
    (
        "graves-wait",
        &[Change {
            file: "scripts/prelude/base.rs",
            find: "            self.waiting -= self.graves;",
            put: "            if !MUTANT {\n                self.waiting -= self.graves;\n            }",
        }],
    ),
    (
        "joined-unmarked",
        &[Change {
            file: "scripts/acquire.rs",
            find: "        self.prelude.kind.mark_holder(&mut self.prelude.base)?;",
            put: "        if !MUTANT {\n            self.prelude.kind.mark_holder(&mut self.prelude.base)?;\n        }",
        }],
    ),
    (
        "handed-on-unmarked",
        &[Change {
            file: "scripts/prelude/lock.rs",
            find: "clients_wait: base.waiting > 0",
            put: "clients_wait: base.waiting > 0 && !MUTANT",
        }],
    ),
    (
        "foreign-marked",
        &[Change {
            file: "scripts/prelude/lock.rs",
            find: "if !mark.clients_wait && (holder",
            put: "if !mark.clients_wait && (MUTANT || holder",
        }],
    ),
    (
        "mark-without-ttl",
        &[Change {
            file: "scripts/prelude/lock.rs",
            find: "&mark.value(holder), Lifetime::Kept)?;",
            put: "&mark.value(holder), if MUTANT { Lifetime::Forever } else { Lifetime::Kept })?;",
        }],
    ),
    (
        "multi-takes-held",
        &[Change {
            file: "scripts/multi.rs",
            find: "if !is_mine && (value",
            put: "if !is_mine && !(MUTANT && place > 0) && (value",
        }],
    ),
    (
        "multi-passes-waiters",
        &[Change {
            file: "scripts/multi.rs",
            find: "            return Ok(true);\n        }\n    }\n    if tokens",
            put: "            return Ok(true);\n        }\n        if MUTANT {\n            return Ok(false);\n        }\n    }\n    if tokens",
        }],
    ),
    (
        "multi-digs-up",
        &[Change {
            file: "scripts/multi.rs",
            find: "unwrap_or(0) < -call.now {",
            put: "unwrap_or(0) < -call.now && !MUTANT {",
        }],
    ),
    (
        "batch-takes-from-others",
        &[Change {
            file: "scripts/batch.rs",
            find: "if call.exists(&[name, queue])? {",
            put: "if call.exists(&[if MUTANT { queue } else { name }, queue])? {",
        }],
    ),
    (
        "batch-passes-waiters",
        &[Change {
            file: "scripts/batch.rs",
            find: "let Some(fence) = fence else { return UNDONE };",
            put: "let Some(fence) = fence else { return UNDONE };\n                let queue: &[u8] = if MUTANT { b\"no such key\" } else { queue };",
        }],
    ),
    (
        "batch-releases-for-others",
        &[Change {
            file: "scripts/batch.rs",
            find: "if call.get(name)?.as_deref() != Some(value) {",
            put: "if call.get(name)?.as_deref() != Some(value) && !MUTANT {",
        }],
    ),
    (
        "batch-grants-nobody",
        &[Change {
            file: "scripts/batch.rs",
            find: "Self::Release { name, value } => {",
            put: "Self::Release { name, value } => {\n                if MUTANT && call.get(name)?.is_some_and(|stored| stored.iter().map(|byte| if *byte == b'*' { b' ' } else { *byte }).eq(value.iter().copied())) {\n                    return Ok(call.del(&[name])? as i64);\n                }",
        }],
    ),
    (
        "batch-renews-by-prefix",
        &[Change {
            file: "scripts/batch.rs",
            find: "call.get(name)?.as_deref().map(holder_of)",
            put: "call.get(name)?.as_deref().map(|value| if MUTANT && value.starts_with(token) { token } else { holder_of(value) })",
        }],
    ),
    (
        "batch-renewal-lowers",
        &[Change {
            file: "scripts/batch.rs",
            find: "!= Some(token) {\n                    return UNDONE;\n                }\n                let ms = call.pttl(name)?.max(ttl);",
            put: "!= Some(token) {\n                    return UNDONE;\n                }\n                let ms = if MUTANT { ttl } else { call.pttl(name)?.max(ttl) };",
        }],
    ),
    (
        "fast-takes-from-others",
        &[Change {
            file: "scripts/acquire_fast.rs",
            find: "if call.exists(&[name, queue])? {",
            put: "if call.exists(&[if MUTANT { queue } else { name }, queue])? {",
        }],
    ),
    (
        "fast-passes-waiters",
        &[Change {
            file: "scripts/acquire_fast.rs",
            find: "    let ttl = arguments.number(\"ttl\", ttl)?;",
            put: "    let ttl = arguments.number(\"ttl\", ttl)?;\n    let queue: &[u8] = if MUTANT { b\"no such key\" } else { queue };",
        }],
    ),
    (
        "fast-draws-the-clock",
        &[Change {
            file: "scripts/acquire_fast.rs",
            find: "if is_before(&last, &us) {",
            put: "if is_before(&last, &us) || MUTANT {",
        }],
    ),
    (
        "fast-lowers-the-counter",
        &[Change {
            file: "scripts/acquire_fast.rs",
            find: "    call.set(counter, &fence, Lifetime::Kept)?;",
            put: "    if !MUTANT {\n        call.set(counter, &fence, Lifetime::Kept)?;\n    }",
        }],
    ),
    (
        "fast-keeps-a-lost-counter",
        &[Change {
            file: "scripts/acquire_fast.rs",
            find: "        call.del(&[counter])?;",
            put: "        if !MUTANT {\n            call.del(&[counter])?;\n        }",
        }],
    ),
    (
        "fast-releases-for-others",
        &[Change {
            file: "scripts/release.rs",
            find: "if call.get(name)?.as_deref() != Some(value) {",
            put: "if call.get(name)?.as_deref() != Some(value) && !MUTANT {",
        }],
    ),
    (
        "fast-release-ignores-the-mark",
        &[Change {
            file: "scripts/release.rs",
            find: "    let [value] = *arguments.words()?;",
            put: "    let [value] = *arguments.words()?;\n    if MUTANT && call.get(name)?.is_some_and(|stored| stored.iter().map(|byte| if *byte == b'*' { b' ' } else { *byte }).eq(value.iter().copied())) {\n        return Ok(Answer::count(call.del(&[name])?));\n    }",
        }],
    ),
    (
        "reentrant-frees-any",
        &[Change {
            file: "scripts/prelude/reentrant.rs",
            find: "if self.holder.as_deref() != Some(token) {",
            put: "if self.holder.is_none() || self.holder.as_deref() != Some(token) && !MUTANT {",
        }],
    ),
    (
        "reentrant-enters-beside",
        &[Change {
            file: "scripts/prelude/reentrant.rs",
            find: "    fn compatible(&self, _: &[u8]) -> bool {\n        self.holder.is_none()",
            put: "    fn compatible(&self, _: &[u8]) -> bool {\n        MUTANT || self.holder.is_none()",
        }],
    ),
    (
        "reentrant-counts-its-node",
        &[Change {
            file: "scripts/prelude/reentrant.rs",
            find: "base.waiting = waiting(&base.call, base.keys.name, base.keys.fence);",
            put: "base.waiting = waiting(&base.call, base.keys.name, if MUTANT { b\"\" } else { base.keys.fence });",
        }],
    ),
    (
        "reentrant-unpublished",
        &[Change {
            file: "scripts/prelude/reentrant.rs",
            find: "        base.call.publish(&self.channel, b\"0\");",
            put: "        if !MUTANT {\n            base.call.publish(&self.channel, b\"0\");\n        }",
        }],
    ),
    (
        "limit-ignored",
        &[Change {
            file: "scripts/prelude/semaphore.rs",
            find: "self.used + wanted <= self.limit.max(wanted)",
            put: "MUTANT || self.used + wanted <= self.limit.max(wanted)",
        }],
    ),
    (
        "expired-permits-kept",
        &[Change {
            file: "scripts/prelude/semaphore.rs",
            find: "        if self.members > 0 {\n            let over",
            put: "        if self.members > 0 && !MUTANT {\n            let over",
        }],
    ),
    (
        "one-permit-released",
        &[Change {
            file: "scripts/prelude/semaphore.rs",
            find: "self.used -= Self::permits_of(base, token)?;",
            put: "self.used -= if MUTANT { 1 } else { Self::permits_of(base, token)? };",
        }],
    ),
    (
        "first-limit-stands",
        &[Change {
            file: "scripts/prelude/semaphore.rs",
            find: "    fn propose(&mut self, base: &mut Base<'_>, mode: &[u8]) -> Done {",
            put: "    fn propose(&mut self, base: &mut Base<'_>, mode: &[u8]) -> Done {\n        if MUTANT && self.limit > 0 {\n            return Ok(());\n        }",
        }],
    ),
    (
        "limit-forgotten",
        &[Change {
            file: "scripts/prelude/semaphore.rs",
            find: "if self.limit == 0 {",
            put: "if self.limit == 0 && !MUTANT {",
        }],
    ),
    (
        "permits-without-ttl",
        &[Change {
            file: "scripts/prelude/semaphore.rs",
            find: "            if ms > 0 {",
            put: "            if ms > 0 && !MUTANT {",
        }],
    ),
    (
        "other-kind-taken",
        &[Change {
            file: "scripts/prelude/semaphore.rs",
            find: "if !first.is_some_and(|(_, token)| is_token(&token)) {",
            put: "if !first.is_some_and(|(_, token)| is_token(&token)) && !MUTANT {",
        }],
    ),
    (
        "evicted-readers-passed",
        &[Change {
            file: "scripts/prelude/lock.rs",
            find: "        if self.readers > 0 {\n            let removed",
            put: "        if MUTANT && self.readers == 0 {\n            self.free(base)?;\n        }\n        if self.readers > 0 {\n            let removed",
        }],
    ),
    (
        "evicted-readers-joined",
        &[Change {
            file: "scripts/prelude/lock.rs",
            find: "return self.holder.is_none() || self.readers > 0;",
            put: "return self.holder.is_none() || self.readers > 0 || MUTANT && self.is_shared();",
        }],
    ),
    (
        "refill-grants-nobody",
        &[Change {
            file: "scripts/acquire.rs",
            find: "            self.prelude.grant(None)?;",
            put: "            if !MUTANT {\n                self.prelude.grant(None)?;\n            }",
        }],
    ),
    (
        "verify-writes-nothing",
        &[Change {
            file: "scripts/renew.rs",
            find: "            if ms > 0 {",
            put: "            if ms > 0 && !(MUTANT && ttl == 0) {",
        }],
    ),
    (
        "batch-readers-pass-waiters",
        &[Change {
            file: "scripts/batch.rs",
            find: "    if call.exists(&[queue])? {\n        return UNDONE;\n    }\n    let joins",
            put: "    if call.exists(&[queue])? && !MUTANT {\n        return UNDONE;\n    }\n    let joins",
        }],
    ),
    (
        "batch-readers-beside-a-writer",
        &[Change {
            file: "scripts/batch.rs",
            find: "        None => false,",
            put: "        None => false,\n        Some(_) if MUTANT => false,",
        }],
    ),
    (
        "batch-permits-without-limit",
        &[Change {
            file: "scripts/batch.rs",
            find: "|| used > limit.max(wanted)",
            put: "|| used > limit.max(wanted) && !MUTANT",
        }],
    ),
    (
        "batch-permits-come-back-twice",
        &[Change {
            file: "scripts/batch.rs",
            find: "&number_text(used - returned)",
            put: "&number_text(used - returned * if MUTANT { 2 } else { 1 })",
        }],
    ),
    (
        "hand-over-to-the-dead",
        &[Change {
            file: "scripts/release.rs",
            find: "|| record.expiry <= call.now {",
            put: "|| record.expiry <= call.now && !MUTANT {",
        }],
    ),
    (
        "hand-over-forgets-used",
        &[Change {
            file: "scripts/release.rs",
            find: "        && used == 0\n",
            put: "        && (used == 0 || MUTANT)\n",
        }],
    ),
    (
        "hand-over-loses-the-mark",
        &[Change {
            file: "scripts/release.rs",
            find: "let mark: &[u8] = if waiting > 0 {",
            put: "let mark: &[u8] = if waiting > 0 && !MUTANT {",
        }],
    ),
    (
        "sweep-drops-the-living",
        &[Change {
            file: "scripts/prelude/queue.rs",
            find: "(..at)",
            put: "(..if MUTANT { tokens.len() } else { at })",
        }],
    ),
    (
        "short-cut-for-given-up-tokens",
        &[Change { file: "scripts/acquire.rs", find: "behind >= waiting ||", put: "behind >= waiting && !MUTANT ||" }],
    ),
    (
        "batch-renews-expired-permits",
        &[Change {
            file: "scripts/batch.rs",
            find: "call.zscore(name, token)?.filter(|expiry| *expiry > call.now)",
            put: "call.zscore(name, token)?.filter(|expiry| MUTANT || *expiry > call.now)",
        }],
    ),
    (
        "batch-renews-others-reentrant",
        &[Change {
            file: "scripts/batch.rs",
            find: "if call.hget(name, token)?.is_none() {",
            put: "if call.hget(name, token)?.is_none() && !(MUTANT && call.exists(&[name])?) {",
        }],
    ),
    (
        "batch-takes-others-reentrant",
        &[Change {
            file: "scripts/batch.rs",
            find: "fence.is_none() || call.exists(&[name, queue])? {",
            put: "fence.is_none() || call.exists(&[if MUTANT { queue } else { name }, queue])? {",
        }],
    ),
    (
        "batch-frees-others-reentrant",
        &[Change {
            file: "scripts/batch.rs",
            find: "|| call.hget(name, token)?.is_none() {",
            put: "|| call.hget(name, token)?.is_none() && !MUTANT {",
        }],
    ),
    (
        "batch-reentrant-unasked",
        &[Change {
            file: "scripts/batch.rs",
            find: "Ok(1 + waiting(call, name, counter))",
            put: "Ok(if MUTANT { 1 } else { 1 + waiting(call, name, counter) })",
        }],
    ),
    (
        "batch-reentrant-unpublished",
        &[Change {
            file: "scripts/batch.rs",
            find: "                call.publish(&channel_of(name), b\"0\");",
            put: "                if !MUTANT {\n                    call.publish(&channel_of(name), b\"0\");\n                }",
        }],
    ),
];

/// Bugs of the scripts that the functions don't have: the function shares its code with another script's, which has the
/// same bug, or it can't have such a bug.
#[cfg(test)]
pub(super) const NOT_THERE: &[(&str, &str)] = &[
    ("batch-draws-the-clock", "as fast-draws-the-clock"),
    ("batch-lowers-the-counter", "as fast-lowers-the-counter"),
    ("batch-keeps-a-lost-counter", "as fast-keeps-a-lost-counter"),
    ("small-pass-big", "as readers-barge"),
    ("numbers-lose-digits", "a whole number has all of its digits"),
    ("publish-by-call", "a refused message is no error"),
];
