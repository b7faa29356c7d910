//! The script that takes several names of one slot at once.
//!
//! Each name has its own machine with a request, as usual. Only the command is shared. Its answer is distributed to the
//! machines, so each machine handles late, lost and duplicate answers by what it knows about its token.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::answer::{Answer, Status, fence, integer, time_left};
use crate::calls::{Call, Purpose};
use crate::context::{Context, ResourceId};
use crate::error::Error;
use crate::event::{LeaseId, OpId};
use crate::flow::within;
use crate::lease::covering;
use crate::name::Name;
use crate::node::Node;
use crate::op::OpKind;
use crate::options::{Family, Wait};
use crate::reply::{Failure, Reply};
use crate::request::Request;
use crate::resource::Resource;
use crate::script::Form;
use crate::several::{Entry, part};
use crate::token::Token;
use crate::trouble::{Failed, Trouble};
use crate::vote::Votes;

impl Node {
    /// Asks for all names with one script, if none of them is in use here.
    pub(crate) fn at_once(&mut self, number: LeaseId) {
        let Some(group) = self.several.wanted(number) else { return };
        let (op, options, names) = (group.op, group.options, group.names.clone());
        let tries = options.wait == Wait::No;
        for name in &names {
            let in_use = self.resources.find(Family::Lock, &Name::key(&self.cx.config.prefix, name));
            let Some(resource) = in_use.and_then(|id| self.resources.get(id)) else { continue };
            // Another local caller comes first.
            let busy = resource.busy(&self.cx, op);
            return self.start_over(number, busy);
        }
        for (index, name) in names.iter().enumerate() {
            let Ok(resource) = self.resources.of(&self.cx, name, Family::Lock) else { return };
            let op = OpId(part(number, index));
            self.cx.open(op, OpKind::Acquire { resource, tries }, None);
            self.with(resource, |resource, cx| {
                resource.queue.push(op, options);
                let request = Request::new(cx.new_token(), &options);
                resource.request = Some(Request { first_sent: Some(cx.now), ..request });
            });
        }
        self.send_several(number, Form::Digest);
    }

    pub(crate) fn send_several(&mut self, number: LeaseId, form: Form) {
        let Some(group) = self.several.wanted(number) else { return };
        let ttl = group.options.ttl;
        let ttl = group.options.max_hold.map_or(ttl, |most| ttl.min(covering(most)));
        let (names, nobody) =
            (group.names.clone(), Error::Unreachable { waited: Duration::ZERO, cause: None, votes: Votes::default() });
        let mut parts = Vec::new();
        for name in names {
            let id = self.resources.find(Family::Lock, &Name::key(&self.cx.config.prefix, &name));
            let token = id.and_then(|id| self.resources.get(id)).and_then(Resource::present_token);
            // A part was held in the meantime and lost again.
            let (Some(id), Some(token)) = (id, token) else { return self.start_over(number, nobody) };
            parts.push((id, token));
        }
        let script = self.cx.new_lease();
        let named = parts.iter().filter_map(|(id, token)| Some((&self.resources.get(*id)?.name, *token)));
        let command = self.cx.several_command(form, &named.collect::<Vec<_>>(), ttl);
        self.several.insert(script, Entry::Script { group: number, parts });
        if self.cx.send(within::CALL, Purpose::Several { script }, command) {
            self.several_sent(script);
        }
    }

    /// The script has left: from now on it may take any of its tokens.
    pub(crate) fn several_sent(&mut self, script: LeaseId) {
        let Some((group, parts)) = self.several.script(script) else { return };
        self.for_each(&parts, |resource, token, _| {
            if let Some(strays) = resource.strays_of(token) {
                strays.sent();
            }
        });
        if let Some(op) = self.several.wanted(group).map(|group| group.op) {
            self.cx.op_sent(op);
        }
    }

    /// Whether a queued script is still needed. If its group is gone, the script is removed.
    pub(crate) fn wants_several(&mut self, script: LeaseId) -> bool {
        let Some((group, _)) = self.several.script(script) else { return false };
        let wanted = self.several.wanted(group).is_some_and(|group| group.by_script);
        if !wanted {
            self.several.remove(script);
        }
        wanted
    }

    pub(crate) fn several_replied(&mut self, call: &Call, script: LeaseId, result: Result<Reply, Failure>) {
        let Some(Entry::Script { group, parts }) = self.several.remove(script) else { return };
        let failed = match result.map(|reply| read(&reply, parts.len())) {
            Ok(Ok(Taken::All(answers))) => {
                let mut answers = answers.iter();
                self.for_each(&parts, |resource, token, cx| {
                    if let Some(answer) = answers.next() {
                        resource.acquire_answered(cx, call, token, answer);
                    }
                });
                self.gather();
                // One part came too late to be useful, or was held before and lost.
                let waited = Duration::ZERO;
                return self.start_over(
                    group,
                    Error::Unreachable { waited, cause: Some(Failure::TimedOut), votes: Votes::default() },
                );
            }
            Ok(Ok(Taken::None(holder_remaining))) => {
                self.script_ended(&parts, false, None);
                return self.start_over(
                    group,
                    Error::Busy { waited: Duration::ZERO, holder_remaining, votes: Votes::default() },
                );
            }
            Ok(Err(text)) => Failed::unreadable(text),
            Err(failure) => Failed::by(failure, call.by_source),
        };
        let cause = if let Trouble::Retry(cause) = &failed.trouble { Some(cause) } else { None };
        self.script_ended(&parts, failed.maybe_applied, cause);
        match failed.trouble {
            Trouble::NoScript => {
                if let Some(op) = self.several.wanted(group).map(|group| group.op) {
                    self.cx.sends_another(op);
                }
                self.send_several(group, Form::Source);
            }
            // The same script again: tokens that have been granted by now are reported as such.
            Trouble::Retry(_) => {
                if let Some(op) = self.several.wanted(group).map(|group| group.op) {
                    self.cx.send_op_again(op);
                }
            }
            Trouble::Fatal(error) => self.fail_all(group, error),
        }
    }

    fn script_ended(&mut self, parts: &[(ResourceId, Token)], maybe_applied: bool, cause: Option<&Failure>) {
        self.for_each(parts, |resource, token, _| {
            if let Some(strays) = resource.strays_of(token) {
                strays.ended(maybe_applied);
            }
            if let Some(request) = resource.request.as_mut().filter(|request| request.token == token) {
                request.trouble = cause.cloned();
            }
        });
    }

    fn for_each(&mut self, parts: &[(ResourceId, Token)], mut run: impl FnMut(&mut Resource, Token, &mut Context)) {
        for (resource, token) in parts {
            self.with(*resource, |resource, cx| run(resource, *token, cx));
        }
    }

    /// Ends a part's caller. The callers behind it relied on the script, so they now ask for themselves.
    pub(crate) fn stop_wanting(&mut self, op: OpId) {
        let Some(OpKind::Acquire { resource, .. }) = self.cx.ops.get(&op).map(|op| &op.kind) else { return };
        let resource = *resource;
        self.cancel(op, Error::Cancelled);
        self.with(resource, |resource, cx| {
            if resource.request.as_ref().is_some_and(|request| request.timer.is_none()) {
                resource.heartbeat_due(cx);
            }
        });
    }
}

impl Resource {
    fn present_token(&self) -> Option<Token> {
        let held = self.tenure.as_ref().map(|tenure| tenure.token);
        held.or_else(|| Some(self.request.as_ref()?.token))
    }

    fn strays_of(&mut self, token: Token) -> Option<&mut crate::tenure::Strays> {
        if let Some(request) = self.request.as_mut().filter(|request| request.token == token) {
            return Some(&mut request.strays);
        }
        self.tenure.as_mut().filter(|tenure| tenure.token == token).map(|tenure| &mut tenure.strays)
    }
}

enum Taken {
    /// One answer for each name, as if each had been asked for alone.
    All(Vec<Answer>),
    /// The remaining time of the lease that is in the way.
    None(Option<Duration>),
}

fn read(reply: &Reply, names: usize) -> Result<Taken, String> {
    let taken = match reply {
        Reply::List(list) => taken(list),
        Reply::One(_) => None,
    };
    let fits = |taken: &Taken| !matches!(taken, Taken::All(answers) if answers.len() != names);
    taken.filter(fits).ok_or_else(|| format!("several answered {reply}"))
}

fn taken(list: &[crate::reply::Scalar]) -> Option<Taken> {
    let [server, ms, parts @ ..] = list else { return None };
    let server = u64::try_from(integer(server)?).ok()?;
    let ms = u64::try_from(integer(ms)?).ok();
    let mut answers = Vec::new();
    for part in parts.chunks(2) {
        let [status, value] = part else { return None };
        let status = Answer::status(status)?;
        if status == Status::Busy {
            return Some(Taken::None(ms.map(Duration::from_millis)));
        }
        let left = time_left(ms)?;
        let value = fence(u64::try_from(integer(value)?).ok()?, 1)?;
        answers.push(Answer { status, value, block: 1, server, left, waiting: Some(0), foreign: false });
    }
    Some(Taken::All(answers))
}
