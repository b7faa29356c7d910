//! Elections: campaigns, and who leads. `lock/election.rs` has what observers know.

use super::Client;
use crate::error::{Error, Failure};
use crate::ids::Caller;
use crate::options::{AcquireOptions, Family, Kind, Wait, check_value};
use crate::session::OpKind;
use crate::time::{Instant, millis};
use crate::wire::{Failed, Name, Reply, Scalar, Term, integer};

impl Client {
    pub(super) fn campaign(&mut self, op: Caller, name: &str, value: &str, options: &AcquireOptions) {
        let AcquireOptions { ttl, renew, max_hold, .. } = *options;
        let (kind, wait) = (Kind::Election, Wait::Forever);
        let options = AcquireOptions { kind, ttl, renew, max_hold, wait, ..AcquireOptions::default() };
        if let Err(error) = self.stand(name, value) {
            return self.cx.refuse(op, error);
        }
        self.acquire(op, name, &options);
        // If the call has failed, its name is of no use.
        if let Some(id) = self.election(name) {
            self.after(id);
        }
    }

    /// Sets the value of the next term.
    fn stand(&mut self, name: &str, value: &str) -> Result<(), Error> {
        check_value(value)?;
        let id = self.locks.of(&self.cx, name, Family::Election)?;
        let Some(lock) = self.locks.get_mut(id) else { return Ok(()) };
        if lock.hold.is_some() || !lock.queue.is_empty() {
            return Err(Error::Conflict("this client leads already, or campaigns: wait until that has ended"));
        }
        lock.name = lock.name.with_value(value);
        Ok(())
    }

    fn election(&self, name: &str) -> Option<crate::ids::LockId> {
        self.locks.find(Family::Election, &Name::key(&self.cx.config.prefix, name))
    }

    pub(super) fn observe(&mut self, op: Caller, name: &str) {
        if self.cx.closed {
            return self.cx.refuse(op, Error::Closed);
        }
        let id = match self.locks.of(&self.cx, name, Family::Election) {
            Ok(id) => id,
            Err(error) => return self.cx.refuse(op, error),
        };
        self.cx.open(op, OpKind::Observe { lock: id }, None);
        self.with(id, |lock, cx| lock.observe(cx, op));
    }

    /// A message on the channel of an election's observers.
    pub(super) fn leader_published(&mut self, key: &str, payload: &[u8]) {
        if let Some(term) = Term::published(payload) {
            self.told(key, None, Ok(Some(term)));
        }
    }

    /// An answer to the observers' question, or none.
    #[inline(never)]
    pub(super) fn leader_answered(&mut self, key: &str, asked: Instant, result: Result<Reply, Failure>) {
        let told = match &result {
            Ok(reply) => read(reply).ok_or_else(|| Failed::unreadable("expected who leads".into())),
            Err(failure) => Err(Failed::by(failure.clone())),
        };
        self.told(key, Some(asked), told);
    }

    #[inline(never)]
    fn told(&mut self, key: &str, asked: Option<Instant>, told: Result<Option<Term<'_>>, Failed>) {
        let Some(id) = self.locks.find(Family::Election, key) else { return };
        self.with(id, |lock, cx| match told {
            Ok(term) => lock.told_who_leads(cx, asked, term),
            Err(failed) => lock.not_told(cx, failed),
        });
    }
}

/// Who leads, according to an answer. None if it is malformed.
fn read(reply: &Reply) -> Option<Option<Term<'_>>> {
    let Reply::List(list) = reply else { return None };
    let [server, left, Scalar::Text(said)] = list.as_slice() else { return None };
    if said.is_empty() {
        return Some(None);
    }
    // In its last millisecond, a key has 0 ms. Without a TTL, it has -1.
    let left = u64::try_from(integer(left)?).map_or_else(|_| millis(AcquireOptions::default().ttl), |left| left.max(1));
    let server = u64::try_from(integer(server)?).ok()?;
    Term::read(core::str::from_utf8(said).ok()?, server, left).map(Some)
}
