//! Every call ends within its documented time.

use super::story::{Call, Fault, Story};
use super::{Rule, Verdict, ms};
use crate::history::Op;

/// How late a call may end on a busy machine.
const LATE: u64 = 250_000;

pub(super) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    for call in &story.calls {
        let end = call.ended.unwrap_or(story.end);
        let stalled = story.stalled(call.by, call.began, end);
        let allowed = call.began + within(story, call) + stalled + LATE;
        if call.ended.is_some() && matches!(call.op, Op::Acquire | Op::Try) {
            verdict.figures.longest_acquire = verdict.figures.longest_acquire.max(end - call.began);
        }
        if call.ended.is_some() {
            let late = end.saturating_sub(call.began + within(story, call) + stalled);
            verdict.figures.latest_end = verdict.figures.latest_end.max(late);
            if end > allowed {
                let (op, took, within) = (call.op, ms(end - call.began), ms(call.within));
                let text = format!("{}: {op:?} of `{}` took {took} instead of {within}", call.by, call.name);
                verdict.violated(Rule::Bounds, allowed, call.name, text);
            }
        } else if !story.was_killed(call.by) && story.end > allowed {
            let (by, op, name, number) = (call.by, call.op, call.name, call.number);
            let text = format!("{by}: {op:?} of `{name}` (call {number}) never ended");
            verdict.violated(Rule::Bounds, allowed, name, text);
        }
    }
}

/// The documented time. If a server is silent, a release may wait in its client until an earlier command has timed out.
/// The time limit of the release begins when it leaves. A close ends one response timeout after the last confirmation.
fn within(story: &Story<'_>, call: &Call<'_>) -> u64 {
    let end = call.began + call.within;
    let silent =
        |fault: &Fault<'_>| fault.strikes_servers() && fault.begin <= end && fault.end + call.within >= call.began;
    let may_queue = matches!(call.op, Op::Release | Op::Store | Op::Close) && story.faults.iter().any(silent);
    if may_queue { call.within * 2 } else { call.within }
}
