//! What must hold at every step. Each file watches one promise; each promise has one short, stable name.
//!
//! The watchers know true time and see everything, so they say what is so, not what a client may believe.

pub mod asking;
pub mod budget;
pub mod calls;
pub mod fences;
pub mod keys;
pub mod leases;
pub mod losses;
pub mod pace;
pub mod permits;
pub mod progress;
pub mod queue;
pub mod terms;
pub mod tokens;
pub mod vigil;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The invariant's name.
    pub invariant: &'static str,
    /// What was seen.
    pub detail: String,
}

/// What a watcher thinks of what it was told.
pub type Verdict = Result<(), Broken>;

/// A verdict against.
pub fn broken(invariant: &'static str, detail: impl Into<String>) -> Verdict {
    Err(Broken { invariant, detail: detail.into() })
}

/// Every invariant with what it promises, for people.
pub const ALL: [(&str, &str); 61] = [
    ("outlived", "the server keeps a lease at least as long as its holder believes"),
    ("heirless", "the head of the queue asks as soon as the holder's lease is over"),
    ("exclusive", "two valid leases of one name never overlap unless both are shared"),
    ("unbacked", "a valid lease stands on the server as its holder's"),
    (
        "fence-order",
        "an exclusive lease's fence is above every earlier one's of that name, a reader's above every writer's",
    ),
    ("fence-draw", "each fence the server draws is above all that were drawn, reserved or used before"),
    ("fence-ahead", "the server never reserves fences more than about a millisecond ahead of its clock"),
    ("fifo-local", "callers inside one client are served in their order"),
    ("fifo-remote", "the server grants in the order of its queue"),
    ("joins-deaf", "nobody joins the queue before its subscription is acknowledged"),
    ("claim", "a grant by message is kept for the waiter's claim window at most"),
    ("unserved", "no script leaves a free lock with somebody waiting for it"),
    ("budget", "once told that others wait, a client hands over at most local_handoffs times and for a second"),
    ("handed-on", "a token whose holder was told that it lost is not handed on"),
    (
        "next-unasked",
        "when the token that is held can't serve the callers that wait, the next one is asked for at once",
    ),
    ("unheard", "who hands over inside without a word from outside asks now and then whether others wait"),
    ("left-behind", "who does not wait any more leaves the queue"),
    ("convert-token", "a conversion gives a new token"),
    ("convert-pauses", "nothing is renewed while it is being converted"),
    ("key-short", "the lock's key lasts as long as the lease that was answered, and as every reader"),
    ("ends-once", "a call ends once"),
    ("ends-in-time", "a call ends by its own deadline"),
    ("answer", "a call's answer is true: validity, fence, holds, what became of a release"),
    ("loss-late", "a loss is told before anything else happens once the deadline is over"),
    ("loss-twice", "nothing is told of a lease after it was released or lost"),
    ("loss-early", "no lease is lost before its time without cause"),
    ("loss-needless", "no renewed lease expires while its renewals could have gone through"),
    ("loss-untold", "a renewal that finds the lease gone tells its holder at once"),
    ("confirmed-late", "no lease is confirmed by a server that can't write"),
    ("orphan-renewed", "a lease whose data the server lost is not renewed"),
    ("ended-renewed", "what has ended on the server is not renewed"),
    ("max-hold", "max_hold ends a lease exactly then"),
    ("key-without-ttl", "only foreign keys have no TTL"),
    ("key-outlives", "no key outlives what put it there"),
    ("key-unknown", "no other keys are written"),
    ("buried-grows", "a bury removes the tombstones that are over"),
    ("token-returns", "a token that was given up neither holds nor waits again"),
    ("in-flight", "a client has no more commands under way than it may have"),
    ("queue-silence", "time in the client's own queue is no silence of the server's"),
    ("unconfirmed", "what the server has not confirmed for a second is not handed over"),
    ("revoked", "nobody holds what it has heard to be taken by force"),
    ("margin", "a timer that is late by less than the margin tells a loss before the lease ends on the server"),
    ("busy-loop", "a client sends a bounded number of commands a second"),
    ("spinning", "a wake-up moves the next one, or does something"),
    ("stranded", "a free lock that is wanted is granted within a holder's TTL and a claim window"),
    ("starved", "the head of the queue is served while others come and go"),
    ("unfinished", "once faults stop, everybody finishes"),
    ("idle-traffic", "who has nothing to do sends nothing"),
    ("several-all", "a lease of several names has all of them, with a fence for each"),
    ("several-kept", "nothing is kept of several names by who did not get all of them, or has given them back"),
    ("script-error", "no script fails but for the server's state"),
    ("words", "every command is a known script with well-formed arguments"),
    ("permits", "no more permits are held than the last of their grants allowed, by each holder's own deadline"),
    ("reentry", "the owner of a reentrant lock has it again at once, by the same lease, and nobody else has"),
    ("unpublished", "whoever releases a reentrant lock says so on its channel"),
    ("unwoken", "a waiter for a reentrant lock asks at each word on its channel, and when it begins to listen"),
    ("asleep", "a waiter asks at least at every third of its claim window"),
    ("pause", "who gives a reentrant lock to those outside lets them in first"),
    ("foreign-touched", "what a client of another library put there stays as it is"),
    ("wrong-kind", "a name that holds another kind of lock is refused"),
    ("panic", "nothing panics"),
];
