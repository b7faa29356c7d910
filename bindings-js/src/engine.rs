//! The exported engine.

use alloc::string::String;
#[cfg(not(feature = "quorum"))]
use leasehold_core::Duration;

use leasehold_core::{ClientId, Clock, DeleteIfEqual, Engine as Core, Input, Instant, LeaseId, LeaseToken, NodeId};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::codes::{Code, InputField, InputKind, call_at};
use crate::config;
use crate::input::{CallRecord, InputRecord};
#[cfg(not(feature = "quorum"))]
use crate::number::told;
use crate::number::{number, reading, whole};
use crate::output::OutputWriter;
#[cfg(feature = "quorum")]
use crate::quorum::engine as engine_of;

/// The address of a record of outputs (see `output`), or null if a number of the input is out of range.
type Address = *const f64;

const OUT_OF_RANGE: Address = core::ptr::null();

/// A quorum has no channels, so every message comes from the only server.
const ONLY_SERVER: NodeId = NodeId(0);

/// One manager's engine.
#[wasm_bindgen]
pub struct Engine {
    /// None until it is started.
    core: Option<Core>,
    clock: Clock,
    /// Whether the server is in memory. Then there is nothing to read after a pause.
    in_memory: bool,
    record: InputRecord,
    output: OutputWriter,
}

#[wasm_bindgen]
impl Engine {
    /// Makes an engine, to be started with [`start`](Self::start).
    #[wasm_bindgen(constructor)]
    pub fn new() -> Engine {
        let (record, output) = (InputRecord::new(), OutputWriter::default());
        Self { core: None, clock: Clock::default(), in_memory: false, record, output }
    }

    /// The address of the record in which inputs arrive, with room for a list of this length. The record moves when it grows.
    pub fn record(&mut self, list: usize) -> *mut f64 {
        self.record.reserve(list)
    }

    /// Starts the engine with the options in the record. `id` is the client's id, 16 random bytes. For a quorum, `servers` has the
    /// name of one server on each line; otherwise it is empty. The output is a failed operation if the options can't be used.
    pub fn start(&mut self, id: &[u8], prefix: String, servers: &str) -> Address {
        let id = id.try_into().ok().map(ClientId::from_random);
        let config = config::read(&self.record, prefix);
        self.record.clear();
        let Some((id, config)) = id.zip(config) else { return OUT_OF_RANGE };
        match engine_of(id, config, servers) {
            Ok(core) => {
                self.core = Some(core);
                self.output.started(None)
            }
            Err(error) => self.output.started(Some(&error)),
        }
    }

    /// Handles the input in the record. It happens now, by the host's two clocks in milliseconds: see [`Clock`].
    pub fn input(&mut self, kind: u8, monotonic: f64, wall: f64) -> Address {
        self.handle(kind, monotonic, wall, "")
    }

    /// Handles the input in the record, which has a text.
    #[wasm_bindgen(js_name = inputWithText)]
    pub fn input_with_text(&mut self, kind: u8, monotonic: f64, wall: f64, text: &str) -> Address {
        self.handle(kind, monotonic, wall, text)
    }

    /// Tells the engine that the server is in memory, so that nobody has to read its answers after a pause.
    #[wasm_bindgen(js_name = setInMemory)]
    pub fn set_in_memory(&mut self) {
        self.in_memory = true;
    }

    /// Tells the engine that the connection with this index is to a cluster, so names are on different servers.
    #[wasm_bindgen(js_name = setCluster)]
    pub fn set_cluster(&mut self, node: u16) {
        if let Some(core) = &mut self.core {
            core.set_cluster(NodeId(node));
        }
    }

    /// Tells the engine that the server has `DELIFEQ`, or `DELEX` otherwise: see [`DeleteIfEqual`].
    #[wasm_bindgen(js_name = setDelete)]
    pub fn set_delete_if_equal(&mut self, delifeq: bool) {
        if let Some(core) = &mut self.core {
            core.set_delete_if_equal(Some(if delifeq { DeleteIfEqual::DelIfEq } else { DeleteIfEqual::DelEx }));
        }
    }

    /// How long a lease stays valid unless it is renewed, in microseconds. Negative infinity once it was released or lost.
    pub fn remaining(&mut self, lease: f64, monotonic: f64, wall: f64) -> f64 {
        let until = whole(lease).and_then(|lease| self.core.as_ref()?.valid_until(LeaseId(lease)));
        let now = self.now(monotonic, wall);
        until.zip(now).map_or(f64::NEG_INFINITY, |(until, now)| number(until.as_micros()) - number(now.as_micros()))
    }

    /// The address of a record with the locks that linger: see `OutputWriter::lingering`.
    pub fn lingering(&mut self) -> Address {
        self.output.lingering(self.core.as_ref().map(Core::lingering).unwrap_or_default())
    }

    #[inline(never)]
    fn handle(&mut self, kind: u8, monotonic: f64, wall: f64, text: &str) -> Address {
        let outputs = self.now(monotonic, wall).and_then(|now| self.try_handle(kind, now, text));
        self.record.clear();
        outputs.unwrap_or(OUT_OF_RANGE)
    }

    fn try_handle(&mut self, kind: u8, now: Instant, text: &str) -> Option<Address> {
        let Self { core, record, output, in_memory, .. } = self;
        let core = core.as_mut()?;
        if !*in_memory {
            core.catch_up(now);
        }
        let node = ONLY_SERVER;
        let (parts, options);
        let input = if let Some(call) = call_at(kind) {
            call.read(&CallRecord { record, text })?
        } else {
            let kind = InputKind::at(kind)?;
            match kind {
                InputKind::Acquire | InputKind::AcquireAll | InputKind::Adopt | InputKind::Campaign => {
                    let op = record.op()?;
                    options = record.options()?;
                    let options = &options;
                    match kind {
                        InputKind::Acquire => Input::Acquire { op, name: text, options },
                        InputKind::AcquireAll => {
                            parts = record.parts(text)?;
                            let one_script = record.flag(InputField::OneScript);
                            Input::AcquireAll { op, parts: &parts, options, one_script }
                        }
                        _ => {
                            let (first, name) = record.channel(text)?;
                            if kind == InputKind::Campaign {
                                Input::Campaign { op, name, value: first, options }
                            } else {
                                Input::Adopt { op, name, token: LeaseToken::read(first).ok()?, options }
                            }
                        }
                    }
                }
                InputKind::Cancel => Input::Cancel { op: record.op()? },
                InputKind::StopRenewing => Input::StopRenewing { lease: record.lease()? },
                InputKind::Reply => Input::Reply { id: record.command_id()?, result: Ok(record.reply(text)?) },
                InputKind::Failed => Input::Reply { id: record.command_id()?, result: Err(record.failure(text)?) },
                InputKind::DedicatedReply => {
                    Input::DedicatedReply { op: record.op()?, result: Ok(record.reply(text)?) }
                }
                InputKind::DedicatedFailed => {
                    Input::DedicatedReply { op: record.op()?, result: Err(record.failure(text)?) }
                }
                InputKind::Message => {
                    let (channel, payload) = record.channel(text)?;
                    Input::Message { node, channel, payload: payload.as_bytes() }
                }
                InputKind::Subscribed => Input::Subscribed { node, channel: text },
                InputKind::Unsubscribed => {
                    let (channel, text) = record.channel(text)?;
                    Input::Unsubscribed { node, channel, cause: record.failure(text)? }
                }
                InputKind::Wake => Input::Wake,
            }
        };
        core.handle(now, input);
        if record.flag(InputField::Last) {
            core.handle(now, Input::Wake);
        }
        Some(output.outputs(now, core))
    }

    fn now(&mut self, monotonic: f64, wall: f64) -> Option<Instant> {
        Some(self.clock.now(reading(monotonic)?, reading(wall)?))
    }
}

/// What a worker needs that renews leases while this thread is blocked. A quorum has none.
#[cfg(not(feature = "quorum"))]
#[wasm_bindgen]
impl Engine {
    /// The address of a record with what renews a lease: see `OutputWriter::renewals`.
    pub fn renewals(&mut self, lease: f64) -> Address {
        self.output.renewals(self.core.as_ref(), LeaseId(told(lease)))
    }

    /// A worker has renewed a lease. It sent the command at `sent`, in microseconds, and `left` milliseconds remained then.
    pub fn renewed(&mut self, lease: f64, token: f64, sent: f64, left: f64) {
        if let Some(core) = &mut self.core {
            let (sent, left) = (Instant::from_micros(told(sent)), Duration::from_millis(told(left)));
            core.renewed(LeaseId(told(lease)), told(token), sent, left);
        }
    }
}

/// The two records, which TypeScript writes and reads in this module's memory.
#[cfg(test)]
impl Engine {
    pub(crate) fn write(&mut self, fields: impl Iterator<Item = (usize, f64)>, list: &[f64]) {
        self.record.write(fields, list);
    }

    pub(crate) fn outputs(&self) -> (&[f64], &[u8]) {
        self.output.record()
    }
}

/// The engine of one server. This module has no other.
#[cfg(not(feature = "quorum"))]
fn engine_of(id: ClientId, config: leasehold_core::Config, _servers: &str) -> Result<Core, leasehold_core::Error> {
    Core::new(id, config)
}
