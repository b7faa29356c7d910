//! The mutants: the bug, and the rule of the design that it breaks.
//!
//! One rule has no mutant: an acquire of a token that is held in the other mode conflicts. No engine can send it any
//! more, because a conversion uses a new token (`convert-keeps-token`).

use leasehold_core::Mutant as Engine;

use super::{Mutant, kinds, scripts};
use crate::mix::Theme;
use crate::tampering::{ScriptChange, Tampering};

const NONE: Tampering = Tampering {
    engine: None,
    scripts: &[],
    clock_stops_asleep: false,
    renewals_need_all_keys: false,
    none_key_left_out: false,
};

const fn engine(name: &'static str, fault: Engine, theme: Theme, rule: &'static str) -> Mutant {
    Mutant { name, rule, tampering: Tampering { engine: Some(fault), ..NONE }, theme }
}

const fn script(name: &'static str, changes: &'static [ScriptChange], theme: Theme, rule: &'static str) -> Mutant {
    Mutant { name, rule, tampering: Tampering { scripts: changes, ..NONE }, theme }
}

/// Every mutant.
pub const TABLE: &[Mutant] = &[
    // The validity of a lease by the client's own clock.
    engine(
        "valid-from-reply",
        Engine::ValidFromReply,
        Theme::Network,
        "validity is measured from the time the command was sent",
    ),
    engine("no-drift", Engine::NoDrift, Theme::Clients, "validity leaves 1 % and 2 ms for clock drift"),
    engine("deadline-ignored", Engine::DeadlineIgnored, Theme::Network, "at the deadline the lease is lost"),
    engine("loss-untold", Engine::LossUntold, Theme::Network, "a loss is reported"),
    engine(
        "loss-told-late",
        Engine::LossToldLate,
        Theme::Clients,
        "a late timer reports the loss before anything else runs",
    ),
    Mutant {
        name: "suspended-clock",
        rule: "the clock counts suspended time",
        tampering: Tampering { clock_stops_asleep: true, ..NONE },
        theme: Theme::Clients,
    },
    engine("max-hold-ignored", Engine::MaxHoldIgnored, Theme::Calm, "max_hold ends a renewed lease"),
    engine("failed-renewal-releases", Engine::FailedRenewalReleases, Theme::Network, "a failed renewal never releases"),
    engine(
        "failed-renewal-recreates",
        Engine::FailedRenewalRecreates,
        Theme::Losing,
        "a renewal never re-creates a missing key",
    ),
    engine("no-margin", Engine::NoMargin, Theme::Short, "a loss is reported early enough for a late timer"),
    engine(
        "hand-over-unconfirmed",
        Engine::HandOverUnconfirmed,
        Theme::Hot,
        "what the server has not confirmed for a second is not handed over",
    ),
    engine(
        "early-revocation-ignored",
        Engine::EarlyRevocationIgnored,
        Theme::Network,
        "a revocation counts even if it arrives before the reply",
    ),
    // How many commands are sent, and in which order.
    engine("unbounded-in-flight", Engine::UnboundedInFlight, Theme::Crowded, "commands under way are bounded"),
    engine("queue-starves", Engine::QueueStarves, Theme::Crowded, "the most urgent commands are sent first"),
    engine(
        "queue-counts-as-silence",
        Engine::QueueCountsAsSilence,
        Theme::Crowded,
        "time in the client's own queue is no silence of the server's",
    ),
    // Waiting and grants.
    engine(
        "join-before-subscribed",
        Engine::JoinBeforeSubscribed,
        Theme::Network,
        "subscribe, wait for the acknowledgement, then enqueue",
    ),
    engine(
        "no-heartbeats",
        Engine::NoHeartbeats,
        Theme::Messages,
        "a waiter's heartbeats keep its place, and find a lost grant",
    ),
    engine(
        "holder-death-ignored",
        Engine::HolderDeathIgnored,
        Theme::Deaths,
        "the first waiter asks when the holder's lease is over",
    ),
    engine(
        "grant-from-receipt",
        Engine::GrantFromReceipt,
        Theme::Messages,
        "a grant is valid from the earliest time at which it can have happened",
    ),
    engine(
        "stale-grant-taken",
        Engine::StaleGrantTaken,
        Theme::Stale,
        "a grant older than the last answered heartbeat is ignored",
    ),
    engine(
        "grant-assumes-ttl",
        Engine::GrantAssumesTtl,
        Theme::Messages,
        "a grant carries the TTL that was written, and only that counts",
    ),
    engine(
        "entered-is-again",
        Engine::EnteredIsAgain,
        Theme::Evicting,
        "if a late heartbeat enters anew, the lease was lost in between",
    ),
    engine("cancel-keeps-place", Engine::CancelKeepsPlace, Theme::GivingUp, "a cancelled wait leaves the queue"),
    engine("no-resend", Engine::NoResend, Theme::Network, "a command that may have been applied is sent again"),
    // Hand-over inside a client.
    engine("last-come-first-served", Engine::LastComeFirstServed, Theme::Hot, "FIFO inside a client"),
    engine(
        "hand-over-past-block",
        Engine::HandOverPastBlock,
        Theme::Hot,
        "each local holder gets a fence of the block",
    ),
    engine("hand-over-past-budget", Engine::HandOverPastBudget, Theme::Hot, "hand-overs are bounded once others wait"),
    engine("hand-over-after-loss", Engine::HandOverAfterLoss, Theme::Short, "a lost lease is never handed over"),
    engine(
        "waiting-ignored",
        Engine::WaitingIgnored,
        Theme::Hot,
        "`waiting` in answers and grants says that others wait",
    ),
    engine("stranded-caller", Engine::StrandedCaller, Theme::Calm, "the client asks with the next token at once"),
    engine(
        "no-refill-while-untold",
        Engine::NoRefillWhileUntold,
        Theme::Hot,
        "a host without messages asks with refills",
    ),
    engine("refill-lowers-fence", Engine::RefillLowersFence, Theme::Hot, "a late refill never lowers the next fence"),
    // Giving up and converting.
    engine(
        "never-bury",
        Engine::NeverBury,
        Theme::GivingUp,
        "a token that is given up with unanswered commands is buried",
    ),
    engine(
        "downgrade-from-answer",
        Engine::DowngradeFromAnswer,
        Theme::Converts,
        "a downgraded lease is a reader's from the time the command was sent",
    ),
    engine(
        "upgrade-from-sending",
        Engine::UpgradeFromSending,
        Theme::Converts,
        "an upgraded lease is exclusive only from the answer on",
    ),
    engine(
        "renew-while-converting",
        Engine::RenewWhileConverting,
        Theme::Converts,
        "renewals pause while a conversion is unanswered",
    ),
    engine("convert-keeps-token", Engine::ConvertKeepsToken, Theme::Converts, "a conversion uses a new token"),
    // The promises of the scripts.
    engine("side-keys-shared", Engine::SideKeysShared, Theme::Network, "`a` and `{a}` share no side key"),
    script("release-ignores-owner", scripts::RELEASE_IGNORES_OWNER, Theme::Network, "only the owner releases"),
    script("fence-without-max", scripts::FENCE_WITHOUT_MAX, Theme::Hot, "a fence is above all reserved fences"),
    script("block-uncut", scripts::BLOCK_UNCUT, Theme::Hot, "fences never run ahead of the clock"),
    script("numbers-lose-digits", scripts::NUMBERS_LOSE_DIGITS, Theme::Network, "numbers keep their digits"),
    script("renewal-lowers", scripts::RENEWAL_LOWERS, Theme::Calm, "no script lowers a TTL"),
    script("readers-lower", scripts::READERS_LOWER, Theme::Readers, "`shared` keeps the longest TTL of its readers"),
    script(
        "readers-outlive-shared",
        scripts::READERS_OUTLIVE_SHARED,
        Theme::Losing,
        "readers count only while N is shared",
    ),
    script("late-reader-renewed", scripts::LATE_READER_RENEWED, Theme::Lingering, "an expired reader is not renewed"),
    script("renewal-recreates", scripts::RENEWAL_RECREATES, Theme::Losing, "a renewal never re-creates a missing key"),
    script("publish-by-call", scripts::PUBLISH_BY_CALL, Theme::Messages, "a refused PUBLISH is only a lost hint"),
    script("release-writes-first", scripts::RELEASE_WRITES_FIRST, Theme::Servers, "a release is allowed at maxmemory"),
    script(
        "reader-renewal-adds-first",
        scripts::READER_RENEWAL_ADDS_FIRST,
        Theme::Servers,
        "a reader's renewal is allowed at maxmemory",
    ),
    script("refill-enters", scripts::REFILL_ENTERS, Theme::Hot, "a refill neither enters nor joins"),
    script(
        "late-head-purges-itself",
        scripts::LATE_HEAD_PURGES_ITSELF,
        Theme::Servers,
        "a waiter refreshes its record before any purge",
    ),
    script("dead-head-granted", scripts::DEAD_HEAD_GRANTED, Theme::Clients, "dead waiters at the head are dropped"),
    script("grants-for-ttl", scripts::GRANTS_FOR_TTL, Theme::Clients, "a grant is kept for the claim window"),
    script("release-grants-nobody", scripts::RELEASE_GRANTS_NOBODY, Theme::Network, "every release ends by granting"),
    script("convert-grants-nobody", scripts::CONVERT_GRANTS_NOBODY, Theme::Converts, "every convert ends by granting"),
    script("readers-barge", scripts::READERS_BARGE, Theme::Readers, "nobody overtakes a live waiter"),
    script("upgrade-beside-readers", scripts::UPGRADE_BESIDE_READERS, Theme::Converts, "only a sole reader upgrades"),
    script(
        "conflict-not-buried",
        scripts::CONFLICT_NOT_BURIED,
        Theme::Converts,
        "after a conflict, no copy of the call converts",
    ),
    script("buried-ignored", scripts::BURIED_IGNORED, Theme::GivingUp, "a buried token neither waits nor enters"),
    script("buried-grows", scripts::BURIED_GROWS, Theme::Unhurried, "burying a token removes expired tombstones"),
    script("queue-without-ttl", scripts::QUEUE_WITHOUT_TTL, Theme::Network, "no key is without TTL"),
    // Several names at once.
    engine("several-unsorted", Engine::SeveralUnsorted, Theme::Several, "all clients take names in the same order"),
    engine("several-keeps-parts", Engine::SeveralKeepsParts, Theme::Several, "a failure gives everything back"),
    engine("several-loss-untold", Engine::SeveralLossUntold, Theme::Several, "losing one name ends the whole lease"),
    script("several-takes-held", scripts::SEVERAL_TAKES_HELD, Theme::Several, "all names are free, or none is taken"),
    script("several-digs-up", scripts::SEVERAL_DIGS_UP, Theme::Several, "a buried token does not enter"),
    // Reentrant locks.
    engine("reentry-for-any-owner", Engine::ReentryForAnyOwner, Theme::Reentrant, "only the owner gets it again"),
    engine("holds-not-counted", Engine::HoldsNotCounted, Theme::Reentrant, "each hold is released separately"),
    engine(
        "subscribed-unasked",
        Engine::SubscribedUnasked,
        Theme::Reentrant,
        "a new listener asks once more, because a message may have come before",
    ),
    engine("word-ignored", Engine::WordIgnored, Theme::Reentrant, "a message on the channel wakes waiters"),
    engine(
        "waiter-trusts-messages",
        Engine::WaiterTrustsMessages,
        Theme::Reentrant,
        "a waiter never sleeps past the TTL, even if a message is lost",
    ),
    engine("no-pause", Engine::NoPause, Theme::Reentrant, "the pause after local hand-overs lets other clients in"),
    script(
        "reentrant-frees-any",
        kinds::REENTRANT_FREES_ANY,
        Theme::Reentrant,
        "another client's field is not touched",
    ),
    script("reentrant-enters-beside", kinds::REENTRANT_ENTERS_BESIDE, Theme::Reentrant, "one owner at a time"),
    script("reentrant-unpublished", kinds::REENTRANT_UNPUBLISHED, Theme::Reentrant, "every release is published"),
    // Semaphores.
    engine(
        "permits-not-counted",
        Engine::PermitsNotCounted,
        Theme::Semaphore,
        "a token is handed over only to a caller that wants as many permits",
    ),
    script("limit-ignored", kinds::LIMIT_IGNORED, Theme::Semaphore, "never more permits than the limit"),
    script(
        "expired-permits-kept",
        kinds::EXPIRED_PERMITS_KEPT,
        Theme::Semaphore,
        "the permits of a crashed holder come back",
    ),
    script(
        "one-permit-released",
        kinds::ONE_PERMIT_RELEASED,
        Theme::Semaphore,
        "a release gives all of its permits back",
    ),
    script("small-pass-big", kinds::SMALL_PASS_BIG, Theme::Semaphore, "small requests don't overtake a big one"),
    script("first-limit-stands", kinds::FIRST_LIMIT_STANDS, Theme::Semaphore, "the limit of the latest acquire counts"),
    script(
        "limit-forgotten",
        kinds::LIMIT_FORGOTTEN,
        Theme::Semaphore,
        "after all holders died, the first waiter's limit counts",
    ),
    script("permits-without-ttl", kinds::PERMITS_WITHOUT_TTL, Theme::Semaphore, "no key is without TTL"),
    script("other-kind-taken", kinds::OTHER_KIND_TAKEN, Theme::Semaphore, "another kind's name is left as it is"),
    Mutant {
        name: "renewal-needs-all-keys",
        rule: "an exclusive renewal declares only N, and goes on while a slot moves",
        tampering: Tampering { renewals_need_all_keys: true, ..NONE },
        theme: Theme::Moving,
    },
    Mutant {
        name: "none-key-left-out",
        rule: "one declared key never exists, so no script is stopped halfway while a slot moves",
        tampering: Tampering { none_key_left_out: true, ..NONE },
        theme: Theme::Converts,
    },
    script(
        "evicted-readers-passed",
        scripts::EVICTED_READERS_PASSED,
        Theme::Evicting,
        "evicted readers keep others out",
    ),
    script("evicted-readers-joined", scripts::EVICTED_READERS_JOINED, Theme::Evicting, "nobody joins evicted readers"),
    script(
        "refill-grants-nobody",
        scripts::REFILL_GRANTS_NOBODY,
        Theme::Evicting,
        "a refill without a lease ends by granting",
    ),
    script("verify-writes-nothing", scripts::VERIFY_WRITES_NOTHING, Theme::Servers, "a replica confirms no lease"),
    // Locks over several servers.
    engine(
        "quorum-valid-by-best",
        Engine::QuorumValidByBest,
        Theme::Quorum,
        "a quorum's lease is valid only as long as a majority has it",
    ),
    engine(
        "quorum-releases-granted-only",
        Engine::QuorumReleasesGrantedOnly,
        Theme::Quorum,
        "after a failure, the client releases on all servers",
    ),
    engine(
        "quorum-counts-the-gone",
        Engine::QuorumCountsTheGone,
        Theme::Quorum,
        "a server counts only while it has the client's token",
    ),
    engine(
        "quorum-fence-not-raised",
        Engine::QuorumFenceNotRaised,
        Theme::Quorum,
        "the fence is raised on a majority before the acquire succeeds",
    ),
];
