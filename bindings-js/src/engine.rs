//! The exported engine: each method is one input.

use leasehold_core::{
    AcquireOptions, CallId, ClientId, Config, Engine as Core, Error, Input, Kind, LeaseId, Mode, NodeId, OpId, Owner,
    Reply, Scalar, Wait,
};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::config::{config_of, refused};
use crate::number::{duration, moment, number, small, whole};
use crate::outcome::Row;
use crate::{failure, reply};

/// The address of a row of outputs (see `outcome`), or null if a number is out of range.
type Address = *const f64;

/// One manager's engine.
#[wasm_bindgen]
pub struct Engine {
    core: Result<Core, Error>,
    row: Row,
}

#[wasm_bindgen]
impl Engine {
    /// Makes an engine. `id` is the client's id, 16 random bytes. Durations are in milliseconds. Call [`refusal`](Self::refusal)
    /// before anything else.
    #[wasm_bindgen(constructor)]
    pub fn new(
        id: &[u8],
        prefix: String,
        local_handoffs: f64,
        claim_window: f64,
        response_timeout: f64,
        mixed_fleet: bool,
        fence_retention: f64,
    ) -> Engine {
        let numbers = (local_handoffs, claim_window, response_timeout, fence_retention);
        Self::make(id, config_of(prefix, numbers, mixed_fleet), Core::new)
    }

    /// Why the options can't be used, as a failed call; an empty row if they can.
    pub fn refusal(&mut self) -> Address {
        self.row.refusal(self.core.as_ref().err())
    }

    /// Acquires a lock. `wait` is infinity to wait forever, and -1 not to wait. `max_hold` and `within`, the deadline of a try, are
    /// -1 if there is none. `owner` is set for a reentrant lock, `permits` and `limit` for a semaphore; otherwise they are -1.
    #[expect(clippy::too_many_arguments, reason = "one crossing")]
    pub fn acquire(
        &mut self,
        now: f64,
        op: f64,
        name: &str,
        shared: bool,
        ttl: f64,
        renew: bool,
        max_hold: f64,
        wait: f64,
        within: f64,
        owner: f64,
        permits: f64,
        limit: f64,
    ) -> Address {
        let options = options_of(shared, ttl, renew, max_hold, wait, within);
        let (Some(op), Some(options)) = (op_of(op), options) else { return REFUSED };
        let Some(kind) = kind_of(owner, permits, limit) else { return REFUSED };
        let options = AcquireOptions { kind, ..options };
        self.handle(now, Input::Acquire { op, name, options })
    }

    /// Acquires several names. They are encoded like the texts of a list: see [`reply::read`].
    #[wasm_bindgen(js_name = acquireAll)]
    #[expect(clippy::too_many_arguments, reason = "one crossing")]
    pub fn acquire_all(
        &mut self,
        now: f64,
        op: f64,
        parts: &[f64],
        names: &str,
        shared: bool,
        ttl: f64,
        renew: bool,
        max_hold: f64,
        wait: f64,
        within: f64,
        one_script: bool,
    ) -> Address {
        let options = options_of(shared, ttl, renew, max_hold, wait, within);
        let (Some(op), Some(options), Some(Reply::List(names))) = (op_of(op), options, reply::read(true, parts, names))
        else {
            return REFUSED;
        };
        let names: Vec<&str> = names.iter().filter_map(text_of).collect();
        self.handle(now, Input::AcquireAll { op, names: &names, options, one_script })
    }

    /// Cancels an acquire.
    pub fn cancel(&mut self, now: f64, op: f64) -> Address {
        let Some(op) = op_of(op) else { return REFUSED };
        self.handle(now, Input::Cancel { op })
    }

    /// A call on a lease. `what` is one of the constants below. `value` is the TTL of an extension in milliseconds, or the mode of
    /// a conversion: 1 for shared.
    #[wasm_bindgen(js_name = leaseCall)]
    pub fn lease_call(&mut self, what: u8, now: f64, op: f64, lease: f64, value: f64) -> Address {
        let (Some(op), Some(lease)) = (op_of(op), whole(lease).map(LeaseId)) else { return REFUSED };
        let input = match what {
            RELEASE => Input::Release { op, lease },
            EXTEND => match duration(value) {
                Some(ttl) => Input::Extend { op, lease, ttl },
                None => return REFUSED,
            },
            CONVERT => Input::Convert { op, lease, mode: mode_of(value == 1.0) },
            HOLD => Input::Hold { op, lease },
            VERIFY => Input::Verify { op, lease },
            _ => return REFUSED,
        };
        self.handle(now, input)
    }

    /// Asks for the holders and the waiters of a lock.
    pub fn inspect(&mut self, now: f64, op: f64, name: &str) -> Address {
        let Some(op) = op_of(op) else { return REFUSED };
        self.handle(now, Input::Inspect { op, name })
    }

    /// Takes a lock from its holders.
    #[wasm_bindgen(js_name = forceRelease)]
    pub fn force_release(&mut self, now: f64, op: f64, name: &str) -> Address {
        let Some(op) = op_of(op) else { return REFUSED };
        self.handle(now, Input::ForceRelease { op, name })
    }

    /// Ends the client.
    pub fn close(&mut self, now: f64, op: f64) -> Address {
        let Some(op) = op_of(op) else { return REFUSED };
        self.handle(now, Input::Close { op })
    }

    /// The server's answer to a command: see [`reply::read`].
    pub fn reply(&mut self, now: f64, call: f64, list: bool, parts: &[f64], text: &str) -> Address {
        let (Some(call), Some(reply)) = (whole(call), reply::read(list, parts, text)) else { return REFUSED };
        self.handle(now, Input::Reply { call: CallId(call), result: Ok(reply) })
    }

    /// A command got no answer: see [`failure::read`].
    pub fn failed(&mut self, now: f64, call: f64, kind: u8, text: String) -> Address {
        let (Some(call), Some(failure)) = (whole(call), failure::read(kind, text)) else { return REFUSED };
        self.handle(now, Input::Reply { call: CallId(call), result: Err(failure) })
    }

    /// A message on a channel that the engine subscribed to.
    pub fn message(&mut self, now: f64, node: u16, channel: &str, payload: &str) -> Address {
        self.handle(now, Input::Message { node: NodeId(node), channel, payload: payload.as_bytes() })
    }

    /// The server acknowledged the subscription.
    pub fn subscribed(&mut self, now: f64, node: u16, channel: &str) -> Address {
        self.handle(now, Input::Subscribed { node: NodeId(node), channel })
    }

    /// The subscription ended: see [`failure::read`].
    pub fn unsubscribed(&mut self, now: f64, node: u16, channel: &str, kind: u8, text: String) -> Address {
        let Some(cause) = failure::read(kind, text) else { return REFUSED };
        self.handle(now, Input::Unsubscribed { node: NodeId(node), channel, cause })
    }

    /// Tells the engine that the server is a cluster, so names are on different servers.
    #[wasm_bindgen(js_name = setCluster)]
    pub fn set_cluster(&mut self) {
        if let Ok(core) = &mut self.core {
            core.set_cluster();
        }
    }

    /// Time has passed.
    pub fn wake(&mut self, now: f64) -> Address {
        self.handle(now, Input::Wake)
    }

    /// When a lease ends unless it is renewed, by the driver's clock, in microseconds. -1 once it was released or lost.
    #[wasm_bindgen(js_name = validUntil)]
    pub fn valid_until(&self, lease: f64) -> f64 {
        let until = whole(lease).and_then(|lease| self.core.as_ref().ok()?.valid_until(LeaseId(lease)));
        until.map_or(-1.0, |until| number(until.as_micros()))
    }

    /// The commands that touch a lease: by digest and by source. Empty once the lease was released or lost.
    pub fn touch(&mut self, lease: f64) -> Address {
        let touch = whole(lease).and_then(|lease| self.core.as_ref().ok()?.touch(LeaseId(lease)));
        self.row.commands(touch.as_ref().map_or(&[], |commands| commands))
    }

    pub(crate) fn make(
        id: &[u8],
        config: Result<Config, Error>,
        make: impl FnOnce(ClientId, Config) -> Result<Core, Error>,
    ) -> Self {
        let id = id.try_into().map_err(|_| refused("id", "must have 16 bytes"));
        let core = id.and_then(|id| make(ClientId::from_random(id), config?));
        Self { core, row: Row::default() }
    }

    fn handle(&mut self, now: f64, input: Input<'_>) -> Address {
        let (Some(now), Ok(core)) = (moment(now), &mut self.core) else { return REFUSED };
        core.handle(now, input);
        self.row.fill(core)
    }
}

// The calls on a lease. `ts/engine/engine.ts` has the same numbers.
const RELEASE: u8 = 0;
const EXTEND: u8 = 1;
const CONVERT: u8 = 2;
const HOLD: u8 = 3;
const VERIFY: u8 = 4;

const REFUSED: Address = std::ptr::null();

/// An absent number.
const NONE: f64 = -1.0;

fn op_of(op: f64) -> Option<OpId> {
    whole(op).map(OpId)
}

fn options_of(shared: bool, ttl: f64, renew: bool, max_hold: f64, wait: f64, within: f64) -> Option<AcquireOptions> {
    let given = |time: f64| if time == NONE { Some(None) } else { duration(time).map(Some) };
    let (max_hold, within) = (given(max_hold)?, given(within)?);
    let kind = Kind::default();
    let (mode, ttl, wait) = (mode_of(shared), duration(ttl)?, wait_of(wait)?);
    Some(AcquireOptions { kind, mode, ttl, renew, max_hold, wait, within })
}

fn text_of(scalar: &Scalar) -> Option<&str> {
    match scalar {
        Scalar::Text(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

fn mode_of(shared: bool) -> Mode {
    if shared { Mode::Shared } else { Mode::Exclusive }
}

fn kind_of(owner: f64, permits: f64, limit: f64) -> Option<Kind> {
    match (owner >= 0.0, permits >= 0.0) {
        (true, _) => whole(owner).map(|owner| Kind::Reentrant(Owner(owner))),
        (false, true) => Some(Kind::Semaphore { permits: small(permits)?, limit: small(limit)? }),
        (false, false) => Some(Kind::Lock),
    }
}

fn wait_of(wait: f64) -> Option<Wait> {
    match wait {
        NONE => Some(Wait::No),
        f64::INFINITY => Some(Wait::Forever),
        wait => duration(wait).map(Wait::For),
    }
}
