//! Deliberate faults, one per hazard, for `cargo xtask mutants`: the simulation has to find each of them.

/// A fault that can be switched on at run time where the feature `mutants` is built in.
#[allow(dead_code, unreachable_pub)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mutant {
    /// Validity is reckoned from the reply instead of the sending.
    ValidFromReply,
    /// Nothing is taken off for clocks that run apart.
    NoDrift,
    /// The local deadline tells nothing: a lease lives until the server says otherwise.
    DeadlineIgnored,
    /// A loss is not told.
    LossUntold,
    /// A late wake-up runs other timers and the input before it tells a loss.
    LossToldLate,
    /// A failed renewal gives the lease back.
    FailedRenewalReleases,
    /// A renewal that finds nothing acquires again with the same token.
    FailedRenewalRecreates,
    /// Local hand-over goes on when the fences of the block are used up.
    HandOverPastBlock,
    /// Local hand-over goes on when the budget is used up.
    HandOverPastBudget,
    /// A lease whose holder was told that it lost is handed on.
    HandOverAfterLoss,
    /// `waiting` in answers and grants tells the holder nothing.
    WaitingIgnored,
    /// Nobody asks for the next token when the present one can't serve a local caller.
    StrandedCaller,
    /// A host without messages never asks whether others wait.
    NoRefillWhileUntold,
    /// A waiter joins the queue before its subscription is acknowledged.
    JoinBeforeSubscribed,
    /// No heartbeats: a lost grant is never found, and a live waiter looks dead.
    NoHeartbeats,
    /// The head does not ask when the holder's lease should be over.
    HolderDeathIgnored,
    /// A grant's validity starts at its receipt.
    GrantFromReceipt,
    /// A grant that is older than the last answered heartbeat is taken.
    StaleGrantTaken,
    /// The grant's own milliseconds are ignored: the whole TTL is assumed.
    GrantAssumesTtl,
    /// A lease that is entered anew by a late heartbeat is taken for the one that is held.
    EnteredIsAgain,
    /// A release never buries, even if an acquire of its token is unanswered.
    NeverBury,
    /// A downgraded lease counts as exclusive until the answer.
    DowngradeFromAnswer,
    /// An upgraded lease counts as exclusive from the sending.
    UpgradeFromSending,
    /// Renewals go on while a convert is unanswered, and their answers count.
    RenewWhileConverting,
    /// A convert keeps its token.
    ConvertKeepsToken,
    /// A late refill sets the next fence, even to a lower one.
    RefillLowersFence,
    /// A waiting caller's cancel leaves its token in the server's queue.
    CancelKeepsPlace,
    /// A renewal goes on past `max_hold`.
    MaxHoldIgnored,
    /// A lost reply is never followed by a resend.
    NoResend,
    /// `a` and `{a}` share their side keys.
    SideKeysShared,
    /// A semaphore's token is handed to a caller that wants another number of permits.
    PermitsNotCounted,
    /// A quorum's lease is valid as long as its best server says.
    QuorumValidByBest,
    /// After a failed attempt a quorum takes back only what was granted, not what is still asked for.
    QuorumReleasesGrantedOnly,
    /// A server that has lost our token counts for the quorum's fence.
    QuorumCountsTheGone,
    /// A quorum's fence is the greatest of its servers', and is not told to the others.
    QuorumFenceNotRaised,
    /// The owner of a reentrant lock is not asked for: every caller of the client has it again.
    ReentryForAnyOwner,
    /// The first of several releases ends a lease.
    HoldsNotCounted,
    /// Who has begun to listen for a reentrant lock does not ask whether it came free before.
    SubscribedUnasked,
    /// A word on a reentrant lock's channel wakes nobody.
    WordIgnored,
    /// Who listens for a reentrant lock relies on it: it asks neither by and by nor when the holder's lease is over.
    WaiterTrustsMessages,
    /// Who gives a reentrant lock to those outside asks for it again at once.
    NoPause,
    /// Local callers are served last come, first served.
    LastComeFirstServed,
    /// Several names are taken in the caller's order.
    SeveralUnsorted,
    /// Who does not get all of several names keeps what it got.
    SeveralKeepsParts,
    /// A lease of several names goes on when one of them is lost.
    SeveralLossUntold,
    /// A command leaves at once, however many are unanswered.
    UnboundedInFlight,
    /// What waits for room goes out last come, first served.
    QueueStarves,
    /// The time in the client's own queue counts as the server's silence.
    QueueCountsAsSilence,
    /// What is taken by force before its reply has come is held all the same.
    EarlyRevocationIgnored,
    /// A loss is told at the end of the lease, not before it.
    NoMargin,
    /// A lease is handed over however long ago the server confirmed it.
    HandOverUnconfirmed,
}
