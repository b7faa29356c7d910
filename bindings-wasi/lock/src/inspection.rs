//! Holders and waiters in the contract's types.

use leasehold_core as core;

use crate::bindings::exports::leasehold::lock::locks::{Holder, Inspection, Mode, Waiter};
use crate::error::ms;

pub(crate) fn inspection(seen: core::Inspection) -> Inspection {
    let holder = |core::Holder { token, mode: held, remaining, foreign, .. }| Holder {
        token,
        mode: mode(held),
        remaining_ms: remaining.map(ms),
        foreign,
    };
    let waiter = |core::Waiter { token, mode: wanted, .. }| Waiter { token, mode: mode(wanted) };
    Inspection {
        holders: seen.holders.into_iter().map(holder).collect(),
        waiters: seen.waiters.into_iter().map(waiter).collect(),
        last_fence: seen.last_fence,
    }
}

pub(crate) fn mode(mode: core::Mode) -> Mode {
    match mode {
        core::Mode::Shared => Mode::Shared,
        // `Exclusive`. The enum may grow, so a match from outside its crate needs a last arm.
        _ => Mode::Exclusive,
    }
}
