//! Mutants of what clients tell each other through the server: fences that were used or raised, leases that are adopted, releases.

use super::Mutant;

pub(super) const TABLE: &[Mutant] = &[
    engine! { "batch-block-uncut" Adopting "a block that the client computes ends near the clock" seed 314
    "client/batch.rs": ".min(ahead)" => ".min(if MUTANT { AHEAD } else { ahead })" },
    script! { "used-capped-by-the-clock" Adopting "a used fence counts although the server's clock is slower than the one that drew it"
    "acquire" "release" "convert": "math.min(used_fence, math.max(last, us) + 2048)" => "math.min(used_fence, us + 2048)" },
    script! { "adoption-draws-in-block" Adopting "an adopter's fence is above the former holder's block" seed 784
    "convert": "    pass(us + 2022)\n" => "" },
    script! { "adoption-raises-for-good" Adopting "adoptions leave the counter within a millisecond of the clock"
    "convert": "    pass(us + 2022)\n" => "    pass(last + 2022)\n" },
    script! { "sweep-drops-the-living" Crowded "only dead waiters lose their places"
    "acquire" "release" "convert": "sweep(tokens, at - 1)" => "sweep(tokens, #tokens)" },
    script! { "adoption-takes-a-place" Adopting "a waiter keeps its place"
    "convert": "leave_tombstone(old, adopts and 0 or tombstone_ms)" => "leave_tombstone(old, tombstone_ms)" },
    engine! { "adoption-no-tombstone" Adopting "the former holder's token never comes back"
    "lock/claim.rs": "tombstone: true, used_fence: 0" => "tombstone: !MUTANT, used_fence: 0" },
    engine! { "hand-over-after-passing-on" Adopting "a token that was passed on is not handed over"
    "lock/hand_over.rs": "        hold.tainted = true;\n" => "        hold.tainted |= !MUTANT;\n" },
    engine! { "detached-given-back" Adopting "a client that gets no answer leaves the lease that it detaches to the server"
    "lock/hand_over.rs": "take_converting(|converting| converting.lease.is_some())"
        => "take_converting(|converting| MUTANT || converting.lease.is_some())" },
    engine! { "detached-too-short" Adopting "the server keeps a detached lease for its time"
    "lock/convert.rs": "hold.keep.map(|keep| covering(keep.time_since(cx.now)))"
        => "hold.keep.map(|keep| if MUTANT { keep.time_since(cx.now) / 2 } else { covering(keep.time_since(cx.now)) })" },
    engine! { "detached-released" Adopting "a detached lease is not given back"
    "lock/convert.rs": "        converting.complete(cx, result);\n        self.forget_detached(cx);\n"
        => "        converting.complete(cx, result);\n        if MUTANT {\n            let params = crate::session::ReleaseParams::of(converting.new, false);\n            cx.give_back(&self.name, params);\n        }\n        self.forget_detached(cx);\n" },
    engine! { "detached-renewed" Adopting "a detached lease is not renewed"
    "lock/convert.rs": "    fn detached(&mut self, cx: &mut Context, converting: &Converting) {\n"
        => "    fn detached(&mut self, cx: &mut Context, converting: &Converting) {\n        if MUTANT {\n            let what = crate::session::Renew { token: converting.new, mode: converting.to, ttl: Some(Duration::from_millis(50)) };\n            let purpose = Purpose::Renew { lock: self.id, token: converting.new, op: None };\n            let request = self.request(Body::Renew(what));\n            cx.send(needed::CALL, purpose, request);\n        }\n" },
    engine! { "undone-release-is-done" Network "a release that was left undone is sent to its own script"
    "client/batch.rs": "and_then(|answers| integer(answers.numbers.get(index)?));"
        => "and_then(|answers| integer(answers.numbers.get(index)?));\n            let number = number.map(|number| if MUTANT && matches!(entry.purpose, Purpose::Release { .. }) { 1 } else { number });" },
    engine! { "quorum-loss-uncounted" Quorum "a try ends as soon as too few servers are left for a majority" seed 7_104
    "quorum/mod.rs": "at, reason));\n                        self.uncounted.push(id);"
        => "at, reason));\n                        if !MUTANT {\n                            self.uncounted.push(id);\n                        }" },
    script! { "raise-writes-nothing" Quorum "a server remembers the fence that it confirms"
    "raise": "  redis.call('SET', KEYS[2], ARGV[2], 'KEEPTTL')\n" => "" },
    script! { "raise-for-others" Quorum "a server without the lease does not confirm it" seed 742
    "raise": "if not of or of ~= ARGV[1] and not (expiry and expiry > now) then" => "if not of then" },
];
