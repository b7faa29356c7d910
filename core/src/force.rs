//! Force release: takes a lock from its holders, for operators.
//!
//! Only the server knows the kind of a lock, so the script of each family is tried until one fits. Running this script
//! twice would do more than running it once, so it is never resent once it may have run.

use crate::answer::Answer;
use crate::calls::Purpose;
use crate::error::Error;
use crate::event::{OpId, Outcome};
use crate::flow::within;
use crate::name::Name;
use crate::node::Node;
use crate::op::OpKind;
use crate::options::Family;
use crate::reply::{Failure, Reply};
use crate::resource::waited;
use crate::script::Form;
use crate::trouble::{Failed, Trouble};
use crate::vote::Votes;

impl Node {
    pub(crate) fn force(&mut self, op: OpId, name: &str) {
        if self.cx.closed {
            return self.cx.answer(op, Err(Error::Closed));
        }
        let name = match Name::check(&self.cx.config.prefix, name) {
            Ok(key) => Name::new(key, Family::Lock),
            Err(error) => return self.cx.answer(op, Err(error)),
        };
        self.cx.open(op, OpKind::Force { name }, Some(self.cx.patience()));
        self.send_force(op, Form::Digest);
    }

    pub(crate) fn send_force(&mut self, op: OpId, form: Form) {
        let Some(OpKind::Force { name }) = self.cx.ops.get(&op).map(|op| &op.kind) else { return };
        let command = self.cx.force_command(form, name);
        if self.cx.send(within::CALL, Purpose::Force { op }, command) {
            self.cx.op_sent(op);
        }
    }

    pub(crate) fn force_replied(&mut self, op: OpId, result: Result<Reply, Failure>, by_source: bool) {
        let failed = match result {
            Ok(reply) => match Answer::read(&reply) {
                Ok(answer) => {
                    let holders = u32::try_from(answer.value).unwrap_or(u32::MAX);
                    return self.cx.complete(op, Ok(Outcome::Revoked(holders)));
                }
                Err(text) => Failed::unreadable(text),
            },
            Err(failure) => Failed::by(failure, by_source),
        };
        match failed.trouble {
            Trouble::NoScript => self.send_force(op, Form::Source),
            // A second command could take the lock from the next holder.
            Trouble::Retry(cause) if failed.maybe_applied => {
                let waited = waited(&self.cx, op);
                let error = Error::Unreachable { waited, cause: Some(cause), votes: Votes::default() };
                self.cx.complete(op, Err(error));
            }
            Trouble::Retry(_) => self.cx.send_op_again(op),
            Trouble::Fatal(error @ Error::WrongKind(_)) => {
                let Some(OpKind::Force { name }) = self.cx.ops.get_mut(&op).map(|op| &mut op.kind) else { return };
                name.family = match name.family {
                    Family::Lock => Family::Reentrant,
                    Family::Reentrant => Family::Semaphore,
                    Family::Semaphore => return self.cx.complete(op, Err(error)),
                };
                self.cx.sends_another(op);
                self.send_force(op, Form::Digest);
            }
            Trouble::Fatal(error) => self.cx.complete(op, Err(error)),
        }
    }
}
