//! The build without TLS refuses addresses that ask for it.

use super::address::Address;
use crate::bindings::exports::leasehold::lock::connection::Failure;
use crate::refusal;

/// There are no values of it.
#[derive(Clone)]
pub(super) enum Tls {}

impl Tls {
    pub(super) fn for_address(address: &Address) -> Result<Option<Self>, Failure> {
        address.tls.map_or(Ok(None), |scheme| Err(refusal::tls(scheme)))
    }

    pub(super) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(super) fn outgoing(&self) -> Vec<u8> {
        match *self {}
    }

    pub(super) fn encrypt(&self, _: &[u8]) -> Result<Vec<u8>, String> {
        match *self {}
    }

    pub(super) fn decrypt(&self, _: &[u8]) -> Result<Vec<u8>, String> {
        match *self {}
    }
}
