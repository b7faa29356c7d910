//! Mutants of what clients tell each other through the server: fences that were used or raised, leases that are adopted, releases.
//! Each is here with its changes.

use super::copy::Change;
use super::table::{engine, script};
use super::{Mutant, Theme};
use crate::injected_bugs::ScriptChange;

pub(super) const TABLE: &[Mutant] = &[
    engine(
        "batch-block-uncut",
        BATCH_BLOCK_UNCUT,
        Theme::Adopting,
        "a block that the client computes ends near the clock",
    ),
    script(
        "used-capped-by-the-clock",
        USED_CAPPED_BY_THE_CLOCK,
        Theme::Adopting,
        "a used fence counts although the server's clock is slower than the one that drew it",
    ),
    script(
        "adoption-draws-in-block",
        ADOPTION_DRAWS_IN_BLOCK,
        Theme::Adopting,
        "an adopter's fence is above the former holder's block",
    ),
    script(
        "adoption-raises-for-good",
        ADOPTION_RAISES_FOR_GOOD,
        Theme::Adopting,
        "adoptions leave the counter within a millisecond of the clock",
    ),
    script("sweep-drops-the-living", SWEEP_DROPS_THE_LIVING, Theme::Crowded, "only dead waiters lose their places"),
    script("adoption-takes-a-place", ADOPTION_TAKES_A_PLACE, Theme::Adopting, "a waiter keeps its place"),
    engine("adoption-unburied", ADOPTION_UNBURIED, Theme::Adopting, "the former holder's token never comes back"),
    engine(
        "hand-over-after-passing-on",
        HAND_OVER_AFTER_PASSING_ON,
        Theme::Adopting,
        "a token that was passed on is not handed over",
    ),
    engine(
        "detached-given-back",
        DETACHED_GIVEN_BACK,
        Theme::Adopting,
        "a client that gets no answer leaves the lease that it detaches to the server",
    ),
    engine("detached-released", DETACHED_RELEASED, Theme::Adopting, "a detached lease is not given back"),
    engine("detached-renewed", DETACHED_RENEWED, Theme::Adopting, "a detached lease is not renewed"),
    engine(
        "undone-release-is-done",
        UNDONE_RELEASE_IS_DONE,
        Theme::Network,
        "a release that was left undone is sent to its own script",
    ),
    engine(
        "quorum-loss-uncounted",
        QUORUM_LOSS_UNCOUNTED,
        Theme::Quorum,
        "a try ends as soon as too few servers are left for a majority",
    ),
    script(
        "raise-writes-nothing",
        RAISE_WRITES_NOTHING,
        Theme::Quorum,
        "a server remembers the fence that it confirms",
    ),
    script("raise-for-others", RAISE_FOR_OTHERS, Theme::Quorum, "a server without the lease does not confirm it"),
];

/// The same change in every script that grants.
macro_rules! granting {
    ($find:expr, $put:expr) => {
        &[("acquire", $find, $put), ("release", $find, $put), ("convert", $find, $put)]
    };
}

const SWEEP_DROPS_THE_LIVING: &[ScriptChange] = granting!("sweep(tokens, at - 1)", "sweep(tokens, #tokens)");
const BATCH_BLOCK_UNCUT: &[Change] =
    &[Change { file: "client/batch.rs", find: ".min(ahead)", put: ".min(if MUTANT { AHEAD } else { ahead })" }];
const USED_CAPPED_BY_THE_CLOCK: &[ScriptChange] =
    granting!("math.min(used, math.max(last, us) + 1024)", "math.min(used, us + 1024)");
const ADOPTION_DRAWS_IN_BLOCK: &[ScriptChange] = &[("convert", "    pass(us + 1023)\n", "")];
const ADOPTION_RAISES_FOR_GOOD: &[ScriptChange] = &[("convert", "    pass(us + 1023)\n", "    pass(last + 1023)\n")];
const ADOPTION_TAKES_A_PLACE: &[ScriptChange] =
    &[("convert", "bury(old, adopts and 0 or bury_ms)", "bury(old, bury_ms)")];
const ADOPTION_UNBURIED: &[Change] =
    &[Change { file: "lock/claim.rs", find: "bury: true, used: 0", put: "bury: !MUTANT, used: 0" }];
const HAND_OVER_AFTER_PASSING_ON: &[Change] = &[Change {
    file: "lock/hand_over.rs",
    find: "        hold.tainted = true;\n",
    put: "        hold.tainted |= !MUTANT;\n",
}];
const DETACHED_GIVEN_BACK: &[Change] = &[Change {
    file: "lock/hand_over.rs",
    find: "take_if(|converting| converting.lease.is_some())",
    put: "take_if(|converting| MUTANT || converting.lease.is_some())",
}];
const DETACHED_RELEASED: &[Change] = &[Change {
    file: "lock/convert.rs",
    find: "        converting.complete(cx, result);\n        self.forget_detached(cx);\n",
    put: "        converting.complete(cx, result);\n        if MUTANT {\n            let params = crate::session::ReleaseParams::of(converting.new, false);\n            cx.give_back(&self.name, params);\n        }\n        self.forget_detached(cx);\n",
}];
const DETACHED_RENEWED: &[Change] = &[Change {
    file: "lock/convert.rs",
    find: "    fn detached(&mut self, cx: &mut Context, converting: &Converting) {\n",
    put: "    fn detached(&mut self, cx: &mut Context, converting: &Converting) {\n        if MUTANT {\n            let what = crate::session::Renew { token: converting.new, mode: converting.to, ttl: Some(Duration::from_millis(50)) };\n            let purpose = Purpose::Renew { lock: self.id, token: converting.new, op: None };\n            let request = self.request(Ask::Renew(what));\n            cx.send(needed::CALL, purpose, request);\n        }\n",
}];
const UNDONE_RELEASE_IS_DONE: &[Change] = &[Change {
    file: "client/batch.rs",
    find: "and_then(|answers| integer(answers.numbers.get(index)?));",
    put: "and_then(|answers| integer(answers.numbers.get(index)?));\n            let number = number.map(|number| if MUTANT && matches!(entry.purpose, Purpose::Release { .. }) { 1 } else { number });",
}];
pub(super) const RAISE_WRITES_NOTHING: &[ScriptChange] =
    &[("raise", "  redis.call('SET', KEYS[2], ARGV[2], 'KEEPTTL')\n", "")];
const RAISE_FOR_OTHERS: &[ScriptChange] =
    &[("raise", "if not of or of ~= ARGV[1] and not (expiry and expiry > now) then", "if not of then")];
const QUORUM_LOSS_UNCOUNTED: &[Change] = &[Change {
    file: "quorum/mod.rs",
    find: "at, reason));\n                        self.uncounted.push(id);",
    put: "at, reason));\n                        if !MUTANT {\n                            self.uncounted.push(id);\n                        }",
}];
