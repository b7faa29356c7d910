//! Whether a majority of the servers grants a lock, and with which fence.

use super::lock::{LAST_RETRY, MemberState, QuorumLock, Raise, Stage};
use super::members::{Members, Task};
use crate::event::Input;
use crate::ids::Caller;
use crate::session::Context;

impl QuorumLock {
    /// Counts the answers, and continues as soon as the outcome is certain.
    pub(super) fn decide(&mut self, cx: &mut Context, members: &mut Members) {
        let majority = members.majority();
        let called = matches!(self.states.first(), Some(MemberState::Ours { .. }));
        if called && matches!(self.stage, Stage::Idle) {
            return self.settle(cx, members);
        }
        if let Stage::Asking(_) | Stage::Raising(..) = self.stage {
            self.ask_those_that_owed(cx, members);
        }
        if matches!(self.stage, Stage::Asking(_)) && !self.asks_the_others(cx, members) {
            return;
        }
        if let Stage::Asking(op) = self.stage
            && self.count(|state| matches!(state, MemberState::Ours { .. })) >= majority
        {
            self.stage = Stage::Raising(op, self.greatest_fence());
        }
        if let Stage::Raising(_, fence) | Stage::Held(_, fence) = self.stage {
            self.raise(cx, members, fence);
        }
        if matches!(self.stage, Stage::Held(..)) {
            self.call_servers(cx, members);
        }
        let (agreed, open) = (self.agreed(), self.open(members));
        match self.stage {
            Stage::Raising(op, fence) if self.remember(fence) >= majority => self.grant(cx, members, op, fence),
            Stage::Asking(_) | Stage::Raising(..) if agreed.saturating_add(open) < majority => self.fail(cx, members),
            // A server with a greater fence is needed. Another client may have held that fence, so the quorum's fence must rise.
            Stage::Raising(op, fence) if self.remember(fence).saturating_add(open) < majority => {
                self.stage = Stage::Raising(op, self.greatest_fence());
                self.decide(cx, members);
            }
            // A server that has not answered yet may turn out to be silent.
            Stage::Asking(_) if self.timer.is_none() && self.is_split() => self.ask_after(cx, LAST_RETRY),
            _ => {}
        }
    }

    fn greatest_fence(&self) -> u64 {
        self.states.iter().map(MemberState::drawn).max().unwrap_or_default()
    }

    /// How many servers remember this fence and have drawn no greater one.
    fn remember(&self, most: u64) -> usize {
        self.count(|state| matches!(state, MemberState::Ours { drawn, raise: Raise::Done, .. } if *drawn <= most))
    }

    /// Makes every server of ours remember the fence. A server whose block reaches as far already does. With clocks that
    /// differ by less than a millisecond, these are most servers.
    fn raise(&mut self, cx: &Context, members: &mut Members, least: u64) {
        for (at, state) in (0..).zip(&mut self.states) {
            let MemberState::Ours { lease, fence, raise: raise @ (Raise::No | Raise::Done), .. } = state else {
                continue;
            };
            if *fence >= least {
                *raise = Raise::Done;
                // The release tells the server, if its clock has not passed the fence by then.
                if let Some(member) = members.get(at) {
                    member.client.gives_out(*lease, least);
                }
                continue;
            }
            let op = members.new_op(Some(Task::Member(self.id)));
            *raise = Raise::Asked(op, least);
            // The machine may not know the current time yet.
            members.tell(at, cx.now, Input::Wake);
            if let Some(member) = members.get(at) {
                member.client.raise(Caller::User(op), *lease, least);
            }
        }
    }
}
