//! Deliberate faults, one for each hazard. The simulation must find each of them: `cargo xtask mutants`.

/// A fault that can be switched on at run time, if the feature `mutants` is enabled.
#[allow(dead_code, unreachable_pub)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mutant {
    /// Validity is measured from the reply instead of from the time the command was sent.
    ValidFromReply,
    /// Nothing is subtracted for clock drift.
    NoDrift,
    /// The local deadline is ignored: a lease is held until the server says otherwise.
    DeadlineIgnored,
    /// A loss is not reported.
    LossUntold,
    /// A late wake-up handles other timers and the input before it reports a loss.
    LossToldLate,
    /// A failed renewal gives the lease back.
    FailedRenewalReleases,
    /// A renewal that finds no lease acquires again with the same token.
    FailedRenewalRecreates,
    /// Local hand-overs go on after the block of fences is used up.
    HandOverPastBlock,
    /// Local hand-overs go on after the budget is used up.
    HandOverPastBudget,
    /// A lease is handed over after its holder was notified of a loss.
    HandOverAfterLoss,
    /// The holder ignores `waiting` in answers and grants.
    WaitingIgnored,
    /// The next token is not asked for when the current one can't serve a local caller.
    StrandedCaller,
    /// A host without messages never asks whether others wait.
    NoRefillWhileUntold,
    /// A waiter joins the queue before its subscription is acknowledged.
    JoinBeforeSubscribed,
    /// No heartbeats: a lost grant is never found, and a live waiter looks dead.
    NoHeartbeats,
    /// The head of the queue does not ask when the holder's lease should have ended.
    HolderDeathIgnored,
    /// A grant's validity starts when the message arrives.
    GrantFromReceipt,
    /// A grant is accepted although it is older than the last answered heartbeat.
    StaleGrantTaken,
    /// The milliseconds in a grant are ignored, and the whole TTL is assumed.
    GrantAssumesTtl,
    /// A lease that a late heartbeat entered anew is mistaken for the one that is held.
    EnteredIsAgain,
    /// A release never buries the token, even if an acquire of it is unanswered.
    NeverBury,
    /// A downgraded lease counts as exclusive until the answer arrives.
    DowngradeFromAnswer,
    /// An upgraded lease counts as exclusive from the moment the command is sent.
    UpgradeFromSending,
    /// Renewals go on while a convert is unanswered, and their answers count.
    RenewWhileConverting,
    /// A convert keeps the old token.
    ConvertKeepsToken,
    /// A late refill sets the next fence, even to a lower one.
    RefillLowersFence,
    /// Cancelling a wait leaves the token in the server's queue.
    CancelKeepsPlace,
    /// Renewals go on past `max_hold`.
    MaxHoldIgnored,
    /// A command whose reply is lost is never resent.
    NoResend,
    /// `a` and `{a}` share their side keys.
    SideKeysShared,
    /// A semaphore's token is handed to a caller that wants another number of permits.
    PermitsNotCounted,
    /// A quorum's lease is valid as long as its longest-lasting server says.
    QuorumValidByBest,
    /// After a failed attempt, a quorum takes back only granted leases, not pending requests.
    QuorumReleasesGrantedOnly,
    /// A server that has lost our token counts for the quorum's fence.
    QuorumCountsTheGone,
    /// A quorum's fence is the greatest of its servers', but the other servers are not raised to it.
    QuorumFenceNotRaised,
    /// A reentrant lock ignores its owner: every caller of the client can take it again.
    ReentryForAnyOwner,
    /// The first of several releases ends a lease.
    HoldsNotCounted,
    /// A waiter that has just subscribed to a reentrant lock does not ask whether the lock came free before.
    SubscribedUnasked,
    /// A message on a reentrant lock's channel wakes no waiter.
    WordIgnored,
    /// A waiter for a reentrant lock relies on messages alone: it neither polls nor asks when the holder's lease should have ended.
    WaiterTrustsMessages,
    /// A client that gives a reentrant lock back asks for it again at once.
    NoPause,
    /// Local callers are served last come, first served.
    LastComeFirstServed,
    /// Several names are taken in the caller's order.
    SeveralUnsorted,
    /// A failed acquire of several names keeps those that it has already taken.
    SeveralKeepsParts,
    /// A lease of several names goes on when one of them is lost.
    SeveralLossUntold,
    /// A command leaves at once, however many are in flight.
    UnboundedInFlight,
    /// Queued commands leave last come, first served.
    QueueStarves,
    /// The time in the client's own queue counts as the server's silence.
    QueueCountsAsSilence,
    /// A lease that was taken by force before its reply arrived counts as held.
    EarlyRevocationIgnored,
    /// A loss is reported when the lease ends, not before.
    NoMargin,
    /// A lease is handed over even if the server has not confirmed it for a long time.
    HandOverUnconfirmed,
}
