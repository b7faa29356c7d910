//! Deliberate bugs of a once.

use super::Mutant;

pub(super) const TABLE: &[Mutant] = &[
    script! { "once-loser-stores" Once "only the holder stores a result"
    "once-release": "if holder ~= token then\n" => "if not holder then\n" },
    script! { "once-copy-is-gone" Once "a release that finds its own token in the result has stored it"
    "once-release": "    return writer == token\n" => "    return false\n" },
    script! { "once-granted-again" Once "while there is a result, nobody is granted the lock"
    "once-acquire" "once-release" "once-force": "not holder and not result and mode" => "not holder and mode" },
    script! { "once-result-unseen" Once "an acquire looks at the result"
    "once-acquire": "if result then\n" => "if false then\n" },
    script! { "once-untold" Once "all who wait for a result are told at once"
    "once-release": "    publish(waiter, 'done ' .. KEYS[1])\n" => "" },
    script! { "once-drops-the-result" Once "the step that gives the lock back stores the result"
    "once-release": "if #ARGV == 6 then" => "if #ARGV == 7 then" },
    script! { "once-of-another-fence" Once "only work that had the fence of the lock stores a result" seed 3156455984654
    "once-release": "if ARGV[5] ~= held_fence then" => "if false then" },
    script! { "once-keeps-for-ever" Once "a result lives for its time"
    "once-release": "ARGV[4], 'PX', ARGV[3])" => "ARGV[4])" },
    script! { "once-wrong-fence" Once "a result has the fence of its writer"
    "once-acquire": "tonumber(result[1])" => "tonumber(result[1]) + 1" },
    script! { "once-drops-those-behind" Once "a grant leaves the waiters behind the new holder in their places" seed 98000034782
    "once-acquire" "once-release" "once-force": "if mode ~= 'shared' and not string.find(mode, '^%d') then"
        => "if mode == 'exclusive' then" },
    script! { "once-new-fence" Once "an acquire that arrives again leaves a once its fence"
    "once-acquire": "return answer('again', epoch or fence, size, ms)" => "return answer('again', draw(), size, ms)" },
    engine! { "once-gone-counts-as-stored" Once "only a result that is there is stored"
    "session/release.rs": "release.in_flight.any() && release.result.is_none()"
        => "release.in_flight.any() && (MUTANT || release.result.is_none())" },
    engine! { "once-handed-over" Once "no caller gets a once from another one of its client"
    "lock/hand_over.rs": "hold.tainted |= self.name.family == Family::Once" => "hold.tainted |= !MUTANT && self.name.family == Family::Once" },
    engine! { "once-forgotten-answer" Once "no caller gets a result that was forgotten before it asked"
    "lock/claim.rs": "is_some_and(|op| op.since <= sent)" => "is_some_and(|op| MUTANT || op.since <= sent)" },
];
