//! What another thread of this process needs to renew a lease while the driver is blocked.

use super::Client;
use crate::ids::{LeaseId, LockId, Token};
use crate::session::{Body, Form, Leased, Renew, Renewal};
use crate::time::{Duration, Instant};
use crate::wire::Command;

impl Client {
    /// Tells how to renew a lease. Tells nothing if nothing renews it, or no longer.
    pub(crate) fn renewals(&self, id: LeaseId, tell: &mut dyn FnMut(Renewal)) {
        let Some(lease) = self.cx.leases.get(&id).filter(|lease| lease.renew) else { return };
        match &lease.of {
            Leased::Parts(parts) => parts.iter().for_each(|part| self.renewals(*part, tell)),
            Leased::Lock(lock) => {
                if let Some((command, token)) = self.renewal(*lock, Some(lease.ttl), Form::Digest) {
                    tell(Renewal { lease: id, token: token.0, ends: lease.ends.map(|ends| ends.at), command });
                }
            }
        }
    }

    /// A renewal of a lock that this client holds, and its token.
    pub(super) fn renewal(&self, lock: LockId, ttl: Option<Duration>, form: Form) -> Option<(Command, Token)> {
        let lock = self.locks.get(lock)?;
        let hold = lock.hold.as_ref()?;
        let request = lock.request(Body::Renew(Renew { token: hold.token, mode: hold.mode, ttl }));
        Some((self.cx.command(form, &request), hold.token))
    }

    /// The server has renewed a lease by a command that another thread sent.
    pub(crate) fn renewed(&mut self, lease: LeaseId, token: u64, sent: Instant, left: Duration) {
        let lock = self.cx.leases.get(&lease).and_then(|lease| self.locks.get_mut(lease.lock()?));
        if let Some(lock) = lock {
            lock.renewed_elsewhere(&mut self.cx, Token(token), sent, left);
        }
    }
}
