//! The promises that are checked at every step. Each file checks one topic. Each promise has a short, stable name.
//!
//! The watchers know the true time and see everything. So they check what is true, not what a client may assume.

pub(crate) mod blocks;
pub(crate) mod calls;
pub(crate) mod commands;
pub(crate) mod draining;
pub(crate) mod fences;
pub(crate) mod hand_overs;
pub(crate) mod keys;
pub(crate) mod leases;
pub(crate) mod losses;
pub(crate) mod pace;
pub(crate) mod permits;
pub(crate) mod polling;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod results;
pub(crate) mod terms;
pub(crate) mod tokens;
pub(crate) mod waiters;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The invariant's name.
    pub invariant: &'static str,
    /// What was seen.
    pub detail: String,
}

/// A watcher's verdict about an observation.
pub type Verdict = Result<(), Broken>;

/// A verdict that a promise was broken.
pub fn broken(invariant: &'static str, detail: impl Into<String>) -> Verdict {
    Err(Broken { invariant, detail: detail.into() })
}

/// Every invariant with its promise, for people.
pub const ALL: [(&str, &str); 105] = [
    ("outlived", "the server keeps a lease at least as long as its holder takes it to be valid"),
    ("heirless", "the first waiter asks as soon as the holder's lease is over"),
    ("exclusive", "two valid leases of one name never overlap unless both are shared"),
    ("unbacked", "the server has every valid lease, under its holder's token"),
    (
        "fence-order",
        "an exclusive lease's fence is above all earlier fences of its name; a reader's is above all earlier writers'",
    ),
    ("fence-draw", "each fence that the server draws is above all fences drawn, reserved or used before"),
    ("fence-ahead", "no fence is drawn or used more than about a millisecond ahead of the server's clock"),
    ("cross-slot", "in a cluster, only names of one slot share a call"),
    ("counter-begun", "the fast path leaves a lost counter to the slow path"),
    ("counter-lowered", "no script lowers the counter of fences, or deletes it"),
    ("used-untold", "once a holder gave the lock back, the next fence is above all that it used"),
    ("used-dropped", "the counter reaches the fence that a release or a conversion tells"),
    ("fence-reserved", "a holder uses only the fences that its server reserved for it"),
    ("fence-shared", "a script draws one fence for all that it grants"),
    ("unmarked", "while clients wait, the value of the lock's key says so"),
    ("position", "a waiter is told its place, and how many wait"),
    ("release-undone", "the fast path gives a lock back that nobody waits for"),
    ("fifo-local", "callers inside one client are served in order"),
    ("fifo-remote", "the server grants in the order of its queue"),
    ("joins-deaf", "a client joins the queue only after its subscription is acknowledged"),
    ("claim", "a grant by message is kept for at most the waiter's claim window"),
    ("unserved", "no script leaves a lock free while a client waits for it"),
    (
        "budget",
        "once a client knows that others wait, it hands over at most local_handoffs times, or as often as 5 ms allow, and for at most a second",
    ),
    (
        "drains",
        "a client that drains grants nothing, keeps nothing unused, and ends when nothing is held or its time is over",
    ),
    ("lingers", "a lease that nobody holds is given back when its time is over, or when another client asks for it"),
    ("handed-on", "after its holder was notified of a loss or passed it on, a token is not handed over"),
    ("next-unasked", "if the held token can't serve the waiting callers, the client asks for the next one at once"),
    ("unheard", "a client that hands over locally and hears nothing regularly asks whether others wait"),
    ("left-behind", "a client that no longer waits leaves the queue"),
    ("detached-touched", "a client neither renews nor releases a lease that it has detached"),
    ("detached-kept", "the server keeps a detached lease for its time, unless somebody takes it"),
    ("convert-token", "a conversion uses a new token"),
    ("convert-pauses", "a lease is not renewed while it is being converted"),
    ("key-short", "the lock's key lasts as long as the lease that was answered, and as long as every reader"),
    ("ends-once", "a call ends once"),
    ("ends-in-time", "a call ends by its own deadline"),
    ("answer", "a call's answer is true: validity, fence, holds, the outcome of a release"),
    ("loss-late", "once the deadline is over, the loss is reported before anything else happens"),
    ("loss-twice", "nothing is reported about a lease after it was released or lost"),
    ("loss-early", "no lease is lost early without a cause"),
    ("loss-needless", "no renewed lease expires while its renewals could have gone through"),
    ("loss-untold", "if a renewal finds the lease gone, the holder is notified at once"),
    ("confirmed-late", "a server that can't write confirms no lease"),
    ("orphan-renewed", "a lease whose data the server lost is not renewed"),
    ("ended-renewed", "a lease that has ended on the server is not renewed"),
    ("renewed-for-another", "a renewal is confirmed only to a token that holds the lock"),
    ("max-hold", "a lease ends exactly at its max_hold, or when its holder says that it ends"),
    ("needless-renewal", "a lease that is valid until its end is not renewed"),
    ("key-without-ttl", "only keys of other libraries have no TTL"),
    ("key-outlives", "no key outlives what it was written for"),
    ("key-unknown", "no other keys are written"),
    ("tombstones-grow", "a new tombstone removes expired ones"),
    ("token-returns", "a token that was given up never holds or waits again"),
    ("in-flight", "a client never has more commands under way than allowed"),
    ("queue-silence", "time in the client's own queue doesn't count as the server's silence"),
    ("unconfirmed", "a lease that the server has not confirmed for a second is not handed over"),
    ("revoked", "a client doesn't hold a lease once it has received its revocation"),
    ("margin", "a timer that is late by less than the margin reports a loss before the lease ends on the server"),
    ("busy-loop", "a client sends a bounded number of commands per second"),
    ("spinning", "every wake-up does something, or moves the next wake-up"),
    ("stranded", "a free lock that is wanted is granted within a holder's TTL and a claim window"),
    ("starved", "the first waiter is served while others come and go"),
    ("unfinished", "once faults stop, every user finishes"),
    ("idle-traffic", "a client that has nothing to do sends nothing"),
    ("multi-all", "a lease of several names has all of them, with a fence for each"),
    ("multi-kept", "a client that did not get all of several names, or gave them back, keeps none of them"),
    ("multi-part", "a script for several names takes all of them or none"),
    (
        "multi-holds",
        "a caller that waits for several names on one server holds none, until it has waited four times in vain; then one caller of a client takes them in order",
    ),
    ("multi-starved", "a caller of several names is served, however busy each of them is"),
    ("script-error", "a script fails only because of the server's state"),
    ("words", "every command is a known script with well-formed arguments"),
    ("permits", "by each holder's own deadline, no more permits are held than the limit of the latest grant allows"),
    ("reentry", "the owner of a reentrant lock gets it again at once, with the same lease, and nobody else does"),
    ("unpublished", "a release of a reentrant lock is published on its channel"),
    ("uncounted", "a client that takes a reentrant lock is told that others wait, if another client listens for it"),
    ("unwoken", "a waiter for a reentrant lock asks at each message on its channel, and when it has subscribed"),
    ("asleep", "a waiter asks at least every third of its claim window"),
    ("pause", "a client that gives a reentrant lock to other clients lets them in first"),
    ("foreign-touched", "a key of another library's client stays as it is"),
    ("wrong-kind", "an acquire of a name that holds another kind of lock is refused"),
    ("once-again", "while a once has a result, nobody is granted the lock, and no other result is stored"),
    ("once-loser", "only the release of the holder stores a result, and only its own"),
    ("once-dropped", "a release that brings a result is answered `released` only if the result is there"),
    ("once-untold", "all who wait for a result are told when it is stored, 64 at most"),
    ("once-value", "a caller that gets a result gets one that counted during its call"),
    ("once-untrue", "a holder is told truly whether its result is stored"),
    ("once-fence", "a result has the fence with which its writer worked"),
    ("miscounted", "a server counts the callers of live waiters, and refuses a call that doesn't accept so many"),
    ("refused-early", "a call is refused only if as many callers wait as it doesn't accept"),
    ("overadmitted", "no call waits behind more callers of its own client than it accepts"),
    ("callers-stale", "each heartbeat says for how many callers it is"),
    ("undecided", "a try on a quorum ends as soon as too few servers are left for a majority"),
    ("two-leaders", "by their own clocks, at most one client leads"),
    ("term-number", "a term has the fence and the value that the server has"),
    ("term-order", "a later term has a greater fence"),
    ("campaign-ends", "a campaign ends with a term, or with its client"),
    ("call-stays", "a close ends campaigns and observers"),
    ("resigned-late", "without faults, the next leader leads within 50 ms of a resignation"),
    ("leaderless", "somebody leads within the TTL and a second, and a claim window for each dead candidate"),
    ("observer-back", "an observer never goes back to an earlier term"),
    ("observer-wrong", "an observer learns the value of the leader with that fence"),
    ("observer-early", "an observer is told that a term is over only if it is"),
    ("observer-late", "an observer learns a new leader by message, and an end at the latest a TTL later"),
    ("asks-often", "observers ask once for each TTL, and once for each subscription and term"),
    ("panic", "nothing panics"),
];
