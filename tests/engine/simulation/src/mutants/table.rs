//! The mutants: the bug, and the rule of the design that it breaks.
//!
//! Some rules have no mutant. An acquire of a token that is held in the other mode conflicts: no engine can send it any
//! more, because a conversion uses a new token (`convert-keeps-token`). A used fence that is wrong can't move the counter
//! far, and a counter that is no number is left as it is: no engine writes one. A heartbeat marks the holder: every
//! script that lets somebody enter while others wait has marked it already. The ends of blocks that the client computes
//! (`client/batch.rs`, `lock/fences.rs`) need more hand-overs within a millisecond than the simulation has. A
//! renewal that waits for others is no longer needed too rarely; a test of the flow has that case.

use super::copy::Change;
use super::{Mutant, engine, kinds, scripts};
use crate::injected_bugs::{InjectedBugs, ScriptChange};
use crate::theme::Theme;

const NONE: InjectedBugs =
    InjectedBugs { scripts: &[], clock_stops_asleep: false, renewals_need_all_keys: false, none_key_left_out: false };

const fn engine(name: &'static str, changes: &'static [Change], theme: Theme, rule: &'static str) -> Mutant {
    Mutant { name, rule, engine: changes, bugs: NONE, theme }
}

const fn script(name: &'static str, changes: &'static [ScriptChange], theme: Theme, rule: &'static str) -> Mutant {
    Mutant { name, rule, engine: &[], bugs: InjectedBugs { scripts: changes, ..NONE }, theme }
}

/// Every mutant.
pub const TABLE: &[Mutant] = &[
    // The validity of a lease by the client's own clock.
    engine(
        "valid-from-reply",
        engine::VALID_FROM_REPLY,
        Theme::Network,
        "validity is measured from the time the command was sent",
    ),
    engine("no-drift", engine::NO_DRIFT, Theme::Clients, "validity leaves 1 % and 2 ms for clock drift"),
    engine("deadline-ignored", engine::DEADLINE_IGNORED, Theme::Network, "at the deadline the lease is lost"),
    engine("loss-untold", engine::LOSS_UNTOLD, Theme::Network, "a loss is reported"),
    engine(
        "loss-told-late",
        engine::LOSS_TOLD_LATE,
        Theme::Clients,
        "a late timer reports the loss before anything else runs",
    ),
    Mutant {
        name: "suspended-clock",
        rule: "the clock counts suspended time",
        engine: &[],
        bugs: InjectedBugs { clock_stops_asleep: true, ..NONE },
        theme: Theme::Clients,
    },
    engine("max-hold-ignored", engine::MAX_HOLD_IGNORED, Theme::Calm, "max_hold ends a renewed lease"),
    engine(
        "failed-renewal-releases",
        engine::FAILED_RENEWAL_RELEASES,
        Theme::Network,
        "a failed renewal never releases",
    ),
    engine(
        "failed-renewal-recreates",
        engine::FAILED_RENEWAL_RECREATES,
        Theme::Losing,
        "a renewal never re-creates a missing key",
    ),
    engine("renewal-ignores-gone", engine::RENEWAL_IGNORES_GONE, Theme::Losing, "a lease that is gone is lost"),
    engine("releases-another-token", engine::RELEASES_ANOTHER_TOKEN, Theme::Readers, "a lease is given back"),
    engine("no-margin", engine::NO_MARGIN, Theme::Short, "a loss is reported early enough for a late timer"),
    engine(
        "hand-over-unconfirmed",
        engine::HAND_OVER_UNCONFIRMED,
        Theme::Hot,
        "what the server has not confirmed for a second is not handed over",
    ),
    engine(
        "early-revocation-ignored",
        engine::EARLY_REVOCATION_IGNORED,
        Theme::Network,
        "a revocation counts even if it arrives before the reply",
    ),
    // How many commands are sent, and in which order.
    engine("unbounded-in-flight", engine::UNBOUNDED_IN_FLIGHT, Theme::Crowded, "commands under way are bounded"),
    engine("queue-starves", engine::QUEUE_STARVES, Theme::Crowded, "the most urgent commands are sent first"),
    engine(
        "queue-counts-as-silence",
        engine::QUEUE_COUNTS_AS_SILENCE,
        Theme::Crowded,
        "time in the client's own queue is no silence of the server's",
    ),
    // Waiting and grants.
    engine(
        "join-before-subscribed",
        engine::JOIN_BEFORE_SUBSCRIBED,
        Theme::Network,
        "subscribe, wait for the acknowledgement, then enqueue",
    ),
    engine(
        "no-heartbeats",
        engine::NO_HEARTBEATS,
        Theme::Messages,
        "a waiter's heartbeats keep its place, and find a lost grant",
    ),
    engine(
        "holder-death-ignored",
        engine::HOLDER_DEATH_IGNORED,
        Theme::Deaths,
        "the first waiter asks when the holder's lease is over",
    ),
    engine(
        "grant-from-receipt",
        engine::GRANT_FROM_RECEIPT,
        Theme::Messages,
        "a grant is valid from the earliest time at which it can have happened",
    ),
    engine(
        "stale-grant-taken",
        engine::STALE_GRANT_TAKEN,
        Theme::Stale,
        "a grant older than the last answered heartbeat is ignored",
    ),
    engine(
        "grant-assumes-ttl",
        engine::GRANT_ASSUMES_TTL,
        Theme::Messages,
        "a grant carries the TTL that was written, and only that counts",
    ),
    engine(
        "entered-is-again",
        engine::ENTERED_IS_AGAIN,
        Theme::Evicting,
        "if a late heartbeat enters anew, the lease was lost in between",
    ),
    engine("cancel-keeps-place", engine::CANCEL_KEEPS_PLACE, Theme::GivingUp, "a cancelled wait leaves the queue"),
    engine("no-resend", engine::NO_RESEND, Theme::Network, "a command that may have been applied is sent again"),
    // Hand-over inside a client.
    engine("last-come-first-served", engine::LAST_COME_FIRST_SERVED, Theme::Hot, "FIFO inside a client"),
    engine(
        "hand-over-past-block",
        engine::HAND_OVER_PAST_BLOCK,
        Theme::Hot,
        "each local holder gets a fence of the block",
    ),
    engine(
        "hand-over-past-budget",
        engine::HAND_OVER_PAST_BUDGET,
        Theme::Hot,
        "hand-overs are bounded once others wait",
    ),
    engine("hand-over-after-loss", engine::HAND_OVER_AFTER_LOSS, Theme::Short, "a lost lease is never handed over"),
    engine(
        "waiting-ignored",
        engine::WAITING_IGNORED,
        Theme::Hot,
        "`waiting` in answers and grants says that others wait",
    ),
    engine("stranded-caller", engine::STRANDED_CALLER, Theme::Calm, "the client asks with the next token at once"),
    engine(
        "no-refill-while-untold",
        engine::NO_REFILL_WHILE_UNTOLD,
        Theme::Hot,
        "a host without messages asks with refills",
    ),
    engine("refill-lowers-fence", engine::REFILL_LOWERS_FENCE, Theme::Hot, "a late refill never lowers the next fence"),
    // Giving up and converting.
    engine(
        "never-bury",
        engine::NEVER_BURY,
        Theme::GivingUp,
        "a token that is given up with unanswered commands is buried",
    ),
    engine(
        "downgrade-from-answer",
        engine::DOWNGRADE_FROM_ANSWER,
        Theme::Converts,
        "a downgraded lease is a reader's from the time the command was sent",
    ),
    engine(
        "upgrade-from-sending",
        engine::UPGRADE_FROM_SENDING,
        Theme::Converts,
        "an upgraded lease is exclusive only from the answer on",
    ),
    engine(
        "renew-while-converting",
        engine::RENEW_WHILE_CONVERTING,
        Theme::Converts,
        "renewals pause while a conversion is unanswered",
    ),
    engine("convert-keeps-token", engine::CONVERT_KEEPS_TOKEN, Theme::Converts, "a conversion uses a new token"),
    // The promises of the scripts.
    engine("side-keys-shared", engine::SIDE_KEYS_SHARED, Theme::Network, "`a` and `{a}` share no side key"),
    script("release-ignores-owner", scripts::RELEASE_IGNORES_OWNER, Theme::Network, "only the owner releases"),
    script("fence-without-max", scripts::FENCE_WITHOUT_MAX, Theme::Hot, "a fence is above all that were drawn"),
    script(
        "fence-for-each",
        scripts::FENCE_FOR_EACH,
        Theme::Readers,
        "a script draws one fence for all that it grants",
    ),
    script(
        "used-ignored",
        scripts::USED_IGNORED,
        Theme::Hot,
        "a fence is above the greatest that its last holder used",
    ),
    script(
        "lost-counter-at-clock",
        scripts::LOST_COUNTER_AT_CLOCK,
        Theme::Evicting,
        "a lost counter begins above every block",
    ),
    script(
        "force-draws-in-block",
        scripts::FORCE_DRAWS_IN_BLOCK,
        Theme::Hot,
        "what is drawn after a force is above the victims' blocks",
    ),
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
    script("release-digs-up", scripts::RELEASE_DIGS_UP, Theme::GivingUp, "a release leaves the grave of its token"),
    script("graves-counted", scripts::GRAVES_COUNTED, Theme::GivingUp, "graves count for no position"),
    script("grave-at-the-head", scripts::GRAVE_AT_THE_HEAD, Theme::GivingUp, "the head of the queue is a waiter"),
    script("graves-wait", scripts::GRAVES_WAIT, Theme::GivingUp, "graves are not counted as waiters"),
    script("joined-unmarked", scripts::JOINED_UNMARKED, Theme::Network, "who joins the queue marks the holder"),
    script(
        "handed-on-unmarked",
        scripts::HANDED_ON_UNMARKED,
        Theme::Network,
        "a hand-over keeps the mark while others wait",
    ),
    script(
        "foreign-marked",
        scripts::FOREIGN_MARKED,
        Theme::Foreign,
        "the value of another library's client is not rewritten",
    ),
    script("mark-without-ttl", scripts::MARK_WITHOUT_TTL, Theme::Network, "the mark leaves the TTL as it is"),
    // Several names at once.
    engine("multi-unsorted", engine::MULTI_UNSORTED, Theme::Multi, "all clients take names in the same order"),
    engine("multi-keeps-parts", engine::MULTI_KEEPS_PARTS, Theme::Multi, "a failure gives everything back"),
    engine("multi-loss-untold", engine::MULTI_LOSS_UNTOLD, Theme::Multi, "losing one name ends the whole lease"),
    script("multi-takes-held", scripts::MULTI_TAKES_HELD, Theme::Multi, "all names are free, or none is taken"),
    script("multi-digs-up", scripts::MULTI_DIGS_UP, Theme::Multi, "a buried token does not enter"),
    // Batches.
    engine(
        "batch-valid-from-reply",
        engine::BATCH_VALID_FROM_REPLY,
        Theme::Network,
        "an entry is valid from when its batch was sent",
    ),
    engine("batch-undone-is-done", engine::BATCH_UNDONE_IS_DONE, Theme::Network, "an entry left undone grants nothing"),
    engine(
        "batch-mixes-slots",
        engine::BATCH_MIXES_SLOTS,
        Theme::Network,
        "in a cluster, only names of one slot share a call",
    ),
    script(
        "batch-renews-expired-permits",
        scripts::BATCH_RENEWS_EXPIRED_PERMITS,
        Theme::Semaphore,
        "permits that have expired are not renewed",
    ),
    script(
        "batch-renews-others-reentrant",
        scripts::BATCH_RENEWS_OTHERS_REENTRANT,
        Theme::Reentrant,
        "a batch renews a reentrant lock only for its holder",
    ),
    script(
        "batch-takes-others-reentrant",
        scripts::BATCH_TAKES_OTHERS_REENTRANT,
        Theme::Reentrant,
        "an acquire takes only a free reentrant lock",
    ),
    script(
        "batch-frees-others-reentrant",
        scripts::BATCH_FREES_OTHERS_REENTRANT,
        Theme::Reentrant,
        "a release frees only what its token holds",
    ),
    script(
        "batch-reentrant-unpublished",
        scripts::BATCH_REENTRANT_UNPUBLISHED,
        Theme::Reentrant,
        "every release is published",
    ),
    script(
        "batch-takes-from-others",
        scripts::BATCH_TAKES_FROM_OTHERS,
        Theme::Network,
        "a batch takes only what is free",
    ),
    script(
        "batch-passes-waiters",
        scripts::BATCH_PASSES_WAITERS,
        Theme::GivingUp,
        "nobody overtakes a waiter by a batch, and no buried token enters",
    ),
    script(
        "batch-releases-for-others",
        scripts::BATCH_RELEASES_FOR_OTHERS,
        Theme::Network,
        "a batch releases only what the token holds",
    ),
    script("batch-grants-nobody", scripts::BATCH_GRANTS_NOBODY, Theme::Network, "a release leaves no waiter behind"),
    script("batch-renewal-lowers", scripts::BATCH_RENEWAL_LOWERS, Theme::Network, "a renewal never lowers the TTL"),
    script(
        "batch-draws-the-clock",
        scripts::BATCH_DRAWS_THE_CLOCK,
        Theme::Network,
        "the fence of a batch is above the counter",
    ),
    script(
        "batch-lowers-the-counter",
        scripts::BATCH_LOWERS_THE_COUNTER,
        Theme::Network,
        "a batch writes the fence that it drew",
    ),
    script(
        "batch-keeps-a-lost-counter",
        scripts::BATCH_KEEPS_A_LOST_COUNTER,
        Theme::Network,
        "a batch leaves a lost counter to the slow path",
    ),
    // The common path of one command.
    script("fast-takes-from-others", scripts::FAST_TAKES_FROM_OTHERS, Theme::Network, "it takes only what is free"),
    script(
        "fast-passes-waiters",
        scripts::FAST_PASSES_WAITERS,
        Theme::GivingUp,
        "it overtakes no waiter, and digs up no token",
    ),
    script("fast-draws-the-clock", scripts::FAST_DRAWS_THE_CLOCK, Theme::Hot, "its fence is above the counter"),
    script("fast-lowers-the-counter", scripts::FAST_LOWERS_THE_COUNTER, Theme::Hot, "it writes the fence that it drew"),
    script(
        "fast-keeps-a-lost-counter",
        scripts::FAST_KEEPS_A_LOST_COUNTER,
        Theme::Evicting,
        "it leaves a lost counter to the slow path",
    ),
    script(
        "fast-releases-for-others",
        scripts::FAST_RELEASES_FOR_OTHERS,
        Theme::Network,
        "it releases only what the token holds",
    ),
    script(
        "fast-release-ignores-the-mark",
        scripts::FAST_RELEASE_IGNORES_THE_MARK,
        Theme::Network,
        "it releases nothing that others wait for",
    ),
    engine(
        "common-release-forgets-used",
        engine::COMMON_RELEASE_FORGETS_USED,
        Theme::Hot,
        "a release that must tell a used fence takes the slow path",
    ),
    engine(
        "common-release-never-buries",
        engine::COMMON_RELEASE_NEVER_BURIES,
        Theme::GivingUp,
        "a release that must bury its token takes the slow path",
    ),
    engine("stamp-kept", engine::STAMP_KEPT, Theme::Network, "after `again`, the fence in the key is not known"),
    // The fences of a block.
    engine("used-forgotten", engine::USED_FORGOTTEN, Theme::Hot, "a release tells the greatest fence that was used"),
    engine("convert-forgets-used", engine::CONVERT_FORGETS_USED, Theme::Converts, "so does a convert"),
    engine(
        "used-by-a-fast-clock",
        engine::USED_BY_A_FAST_CLOCK,
        Theme::Hot,
        "only what is below the server's clock need not be told",
    ),
    engine(
        "used-by-an-old-answer",
        engine::USED_BY_AN_OLD_ANSWER,
        Theme::Hot,
        "the server's clock is known from the newest answer, at the time when it arrived",
    ),
    // Reentrant locks.
    engine("reentry-for-any-owner", engine::REENTRY_FOR_ANY_OWNER, Theme::Reentrant, "only the owner gets it again"),
    engine("holds-not-counted", engine::HOLDS_NOT_COUNTED, Theme::Reentrant, "each hold is released separately"),
    engine(
        "subscribed-unasked",
        engine::SUBSCRIBED_UNASKED,
        Theme::Reentrant,
        "a new listener asks once more, because a message may have come before",
    ),
    engine("word-ignored", engine::WORD_IGNORED, Theme::Reentrant, "a message on the channel wakes waiters"),
    engine(
        "waiter-trusts-messages",
        engine::WAITER_TRUSTS_MESSAGES,
        Theme::Reentrant,
        "a waiter never sleeps past the TTL, even if a message is lost",
    ),
    engine("no-pause", engine::NO_PAUSE, Theme::Reentrant, "the pause after local hand-overs lets other clients in"),
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
        engine::PERMITS_NOT_COUNTED,
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
        engine: &[],
        bugs: InjectedBugs { renewals_need_all_keys: true, ..NONE },
        theme: Theme::Moving,
    },
    Mutant {
        name: "none-key-left-out",
        rule: "one declared key never exists, so no script is stopped halfway while a slot moves",
        engine: &[],
        bugs: InjectedBugs { none_key_left_out: true, ..NONE },
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
    // Leases whose end their holder moves.
    engine("keep-ignored", engine::KEEP_IGNORED, Theme::Keeping, "a lease ends when its holder says"),
    engine(
        "kept-without-renewal",
        engine::KEPT_WITHOUT_RENEWAL,
        Theme::Keeping,
        "a lease that is kept for longer is renewed again",
    ),
    engine("fixed-lease-kept", engine::FIXED_LEASE_KEPT, Theme::Keeping, "nobody moves the end of a fixed lease"),
    engine(
        "renewed-past-its-end",
        engine::RENEWED_PAST_ITS_END,
        Theme::Keeping,
        "a lease that is valid until its end is not renewed",
    ),
    engine(
        "kept-for-a-whole-ttl",
        engine::KEPT_FOR_A_WHOLE_TTL,
        Theme::Keeping,
        "the last renewal is for no longer than until the end",
    ),
    engine(
        "keeps-one-of-several",
        engine::KEEPS_ONE_OF_SEVERAL,
        Theme::Keeping,
        "the end of a lease of several names is that of each name",
    ),
    engine(
        "quorum-keep-untold",
        engine::QUORUM_KEEP_UNTOLD,
        Theme::Keeping,
        "each server's machine of a quorum learns when the lease ends",
    ),
    engine(
        "linger-without-end",
        engine::LINGER_WITHOUT_END,
        Theme::Clients,
        "a lease lingers for no longer than its time",
    ),
    engine(
        "lingers-though-wanted",
        engine::LINGERS_THOUGH_WANTED,
        Theme::Clients,
        "a lease that another client waits for does not linger",
    ),
    engine("try-unheard", engine::TRY_UNHEARD, Theme::Clients, "another client's try ends the lingering"),
    // Locks over several servers.
    engine(
        "quorum-valid-by-best",
        engine::QUORUM_VALID_BY_BEST,
        Theme::Quorum,
        "a quorum's lease is valid only as long as a majority has it",
    ),
    engine(
        "quorum-releases-granted-only",
        engine::QUORUM_RELEASES_GRANTED_ONLY,
        Theme::Quorum,
        "after a failure, the client releases on all servers",
    ),
    engine(
        "quorum-counts-the-gone",
        engine::QUORUM_COUNTS_THE_GONE,
        Theme::Quorum,
        "a server counts only while it has the client's token",
    ),
    engine(
        "quorum-fence-not-raised",
        engine::QUORUM_FENCE_NOT_RAISED,
        Theme::Quorum,
        "the fence is raised on a majority before the acquire succeeds",
    ),
    engine(
        "quorum-greater-fence-counts",
        engine::QUORUM_GREATER_FENCE_COUNTS,
        Theme::Quorum,
        "a server that drew a greater fence does not count for a smaller one",
    ),
    engine(
        "quorum-fence-beyond-its-block",
        engine::QUORUM_FENCE_BEYOND_ITS_BLOCK,
        Theme::Quorum,
        "a server remembers only the fences that it reserved",
    ),
    engine(
        "quorum-forgets-its-place",
        engine::QUORUM_FORGETS_ITS_PLACE,
        Theme::Quorum,
        "a client whose callers have left gives its place in the queue back",
    ),
    engine(
        "quorum-passed-fence-forgotten",
        engine::QUORUM_PASSED_FENCE_FORGOTTEN,
        Theme::QuorumHot,
        "a local hand-over of a quorum has a fence above the one before it on every server",
    ),
    engine(
        "quorum-local-grant-counts",
        engine::QUORUM_LOCAL_GRANT_COUNTS,
        Theme::QuorumReaders,
        "a lease that a quorum's client hands over by itself counts after the server has confirmed it",
    ),
    engine(
        "quorum-readers-pass-writers",
        engine::QUORUM_READERS_PASS_WRITERS,
        Theme::QuorumReaders,
        "readers of a quorum wait behind a writer that waits",
    ),
    engine(
        "quorum-late-lease-kept",
        engine::QUORUM_LATE_LEASE_KEPT,
        Theme::Quorum,
        "a lease that a server grants after the release is given back",
    ),
    engine(
        "quorum-names-valid-by-best",
        engine::QUORUM_NAMES_VALID_BY_BEST,
        Theme::QuorumNames,
        "a lease of several names of a quorum is valid only as long as each name is",
    ),
    engine(
        "quorum-names-keep-parts",
        engine::QUORUM_NAMES_KEEP_PARTS,
        Theme::QuorumNames,
        "a lease of several names of a quorum that fails or is lost gives back every name",
    ),
    engine(
        "quorum-names-wait-for-ever",
        engine::QUORUM_NAMES_WAIT_FOR_EVER,
        Theme::QuorumNames,
        "a wait for several names of a quorum ends at its time",
    ),
    engine(
        "quorum-names-keep-untold",
        engine::QUORUM_NAMES_KEEP_UNTOLD,
        Theme::QuorumNames,
        "each name of a quorum learns when a lease of several names ends",
    ),
    script(
        "batch-readers-pass-waiters",
        scripts::BATCH_READERS_PASS_WAITERS,
        Theme::Readers,
        "a reader of a batch does not pass waiters",
    ),
    script(
        "batch-readers-beside-a-writer",
        scripts::BATCH_READERS_BESIDE_A_WRITER,
        Theme::Readers,
        "a reader of a batch does not enter beside a writer",
    ),
    script(
        "batch-permits-without-limit",
        scripts::BATCH_PERMITS_WITHOUT_LIMIT,
        Theme::Semaphore,
        "a batch grants no more permits than the limit",
    ),
    script(
        "batch-permits-come-back-twice",
        scripts::BATCH_PERMITS_COME_BACK_TWICE,
        Theme::Semaphore,
        "a batch gives back as many permits as were taken",
    ),
    script(
        "hand-over-to-the-dead",
        scripts::HAND_OVER_TO_THE_DEAD,
        Theme::Hot,
        "the short hand-over passes dead waiters over",
    ),
    script(
        "hand-over-loses-the-mark",
        scripts::HAND_OVER_LOSES_THE_MARK,
        Theme::Hot,
        "the next holder is told that others wait",
    ),
    script(
        "short-cut-for-given-up-tokens",
        scripts::SHORT_CUT_FOR_GIVEN_UP_TOKENS,
        Theme::Hot,
        "a token that was given up does not join by the short cut",
    ),
];
