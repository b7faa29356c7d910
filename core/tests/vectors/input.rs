//! A step's input, as the files spell it.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, CallFields, CallKind, CommandId, Failure, Family, Input, Instant, Kind, KindFields, LeaseId,
    LeaseToken, Mode, NodeId, OpId, Owner, Part, Replicas, Reply, Scalar, Setter, Setting, Wait,
};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(from = "Value")]
pub(crate) enum Event {
    /// One that the engine's table describes: its kind and its fields.
    Call(CallKind, Call),
    Other(Other),
}

/// The fields of a call.
pub(crate) struct Call(Value);

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Other {
    Acquire(Acquire),
    Adopt {
        token: String,
        acquire: Acquire,
    },
    AcquireAll(AcquireAll),
    Campaign {
        value: String,
        acquire: Acquire,
    },
    Cancel {
        op: u64,
    },
    Keep {
        lease: u64,
        /// A time, like a step's `at`.
        until: u64,
    },
    StopRenewing {
        lease: u64,
    },
    Reply {
        call: u64,
        result: Ending,
    },
    DedicatedReply {
        op: u64,
        result: Ending,
    },
    Message {
        #[serde(default)]
        node: u16,
        channel: Option<String>,
        payload: Bytes,
    },
    Subscribed {
        #[serde(default)]
        node: u16,
        channel: Option<String>,
    },
    Unsubscribed {
        #[serde(default)]
        node: u16,
        channel: Option<String>,
        cause: FailureText,
    },
    Wake,
}

/// What is left out has the engine's default.
#[derive(Deserialize)]
pub(crate) struct Acquire {
    op: u64,
    /// Empty for several names.
    #[serde(default)]
    name: String,
    mode: Option<ModeText>,
    /// Of a kind that needs nothing else.
    kind: Option<String>,
    /// Of a reentrant lock.
    owner: Option<u64>,
    /// Of a semaphore: how many, of how many.
    permits: Option<(u32, u32)>,
    /// Of a once.
    keep: Option<u64>,
    ttl: Option<u64>,
    renew: Option<bool>,
    wait: Option<WaitText>,
    within: Option<u64>,
    /// How many, and for how long to wait for them.
    replicas: Option<(u32, u64)>,
    /// The plain options, by the names of the engine's table.
    #[serde(flatten)]
    plain: Plain,
}

/// Options that the engine's table has: each by its name.
#[derive(Deserialize, Default)]
pub(crate) struct Plain(BTreeMap<String, Value>);

/// The options of an acquire, for several names.
#[derive(Deserialize)]
pub(crate) struct AcquireAll {
    names: Vec<String>,
    /// For each name, if they are not all exclusive locks.
    #[serde(default)]
    kinds: Vec<KindText>,
    #[serde(default)]
    one_script: bool,
    #[serde(flatten)]
    acquire: Acquire,
}

/// How one of several names is taken.
#[derive(Deserialize, Clone, Copy)]
#[serde(untagged)]
enum KindText {
    Lock(ModeText),
    /// How many permits, of how many.
    Semaphore(u32, u32),
}

impl AcquireAll {
    pub(crate) fn parts(&self) -> Vec<Part<'_>> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let mut parts = Part::mutexes(&names);
        for (part, kind) in parts.iter_mut().zip(&self.kinds) {
            match *kind {
                KindText::Lock(mode) => part.mode = mode.mode(),
                KindText::Semaphore(permits, limit) => part.kind = Kind::Semaphore { permits, limit },
            }
        }
        parts
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ModeText {
    Exclusive,
    Shared,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(untagged)]
enum WaitText {
    For(u64),
    Word(WaitWord),
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum WaitWord {
    No,
    Forever,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Ending {
    Reply(ReplyText),
    Failure(FailureText),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReplyText {
    One(ScalarText),
    List(Vec<ScalarText>),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FailureText {
    Refused(String),
    Unavailable(String),
    Interrupted(String),
    TimedOut,
    Unsupported(String),
    Closed(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum ScalarText {
    Nil,
    Int(i64),
    Text(Bytes),
}

/// Text, or `{ "hex": ".." }` for what is not text.
#[derive(Deserialize)]
#[serde(from = "BytesText")]
pub(crate) struct Bytes(Vec<u8>);

#[derive(Deserialize)]
#[serde(untagged)]
enum BytesText {
    Text(String),
    Hex { hex: String },
}

impl From<Value> for Event {
    fn from(value: Value) -> Self {
        let call = CallKind::ALL.iter().find(|kind| value.get(kind.code()).is_some());
        match call {
            Some(kind) => Self::Call(*kind, Call(value[kind.code()].clone())),
            None => Self::Other(serde_json::from_value(value).unwrap_or_else(|error| panic!("{error}"))),
        }
    }
}

impl Event {
    /// Hands the input over. It borrows the options and names that it is made of.
    pub(crate) fn handle(&self, take: impl FnOnce(Input<'_>)) {
        match self {
            Self::Call(kind, fields) => {
                let known = |name: &String| name == "op" || kind.fields().contains(&name.as_str());
                assert!(fields.0.as_object().is_some_and(|fields| fields.keys().all(known)), "{}", fields.0);
                take(kind.read(&fields).unwrap_or_else(|| panic!("a field is missing: {}", fields.0)));
            }
            Self::Other(Other::Acquire(acquire)) => {
                let (op, options) = (OpId(acquire.op), acquire.options());
                take(Input::Acquire { op, name: &acquire.name, options: &options });
            }
            Self::Other(Other::Adopt { token, acquire }) => {
                let (op, options) = (OpId(acquire.op), acquire.options());
                let token = LeaseToken::read(token).expect("a token");
                take(Input::Adopt { op, name: &acquire.name, token, options: &options });
            }
            Self::Other(Other::Campaign { value, acquire }) => {
                let (op, options) = (OpId(acquire.op), acquire.options());
                take(Input::Campaign { op, name: &acquire.name, value, options: &options });
            }
            Self::Other(Other::AcquireAll(all)) => {
                let (op, options, parts) = (OpId(all.acquire.op), all.acquire.options(), all.parts());
                take(Input::AcquireAll { op, parts: &parts, options: &options, one_script: all.one_script });
            }
            Self::Other(other) => take(other.input()),
        }
    }
}

impl Call {
    fn number(&self, name: &str) -> Option<u64> {
        self.0[name].as_u64()
    }
}

impl<'a> CallFields<'a> for &'a Call {
    fn op(&self) -> Option<OpId> {
        self.number("op").map(OpId)
    }

    fn lease(&self) -> Option<LeaseId> {
        self.number("lease").map(LeaseId)
    }

    fn ttl(&self) -> Option<Duration> {
        self.number("ttl").map(Duration::from_millis)
    }

    fn time(&self) -> Option<Option<Duration>> {
        Some(self.number("time").map(Duration::from_millis))
    }

    fn mode(&self) -> Option<Mode> {
        ModeText::deserialize(&self.0["mode"]).ok().map(ModeText::mode)
    }

    fn name(&self) -> Option<&'a str> {
        self.0["name"].as_str()
    }

    fn foreign(&self) -> Option<bool> {
        Some(self.0["foreign"].as_bool().unwrap_or_default())
    }

    fn grace(&self) -> Option<Duration> {
        self.number("grace").map(Duration::from_millis)
    }

    fn value(&self) -> Option<&'a [u8]> {
        self.0["value"].as_str().map(str::as_bytes)
    }
}

impl Other {
    fn input(&self) -> Input<'_> {
        match self {
            Self::Acquire(_) | Self::Adopt { .. } | Self::AcquireAll(_) | Self::Campaign { .. } => {
                unreachable!("handled above")
            }
            Self::Cancel { op } => Input::Cancel { op: OpId(*op) },
            Self::Keep { lease, until } => Input::Keep { lease: LeaseId(*lease), until: Instant::from_micros(*until) },
            Self::StopRenewing { lease } => Input::StopRenewing { lease: LeaseId(*lease) },
            Self::Reply { call, result } => Input::Reply { id: CommandId(*call), result: result.result() },
            Self::DedicatedReply { op, result } => Input::DedicatedReply { op: OpId(*op), result: result.result() },
            Self::Message { node, channel, payload } => {
                Input::Message { node: NodeId(*node), channel: or_own(channel), payload: &payload.0 }
            }
            Self::Subscribed { node, channel } => Input::Subscribed { node: NodeId(*node), channel: or_own(channel) },
            Self::Unsubscribed { node, channel, cause } => {
                Input::Unsubscribed { node: NodeId(*node), channel: or_own(channel), cause: cause.failure() }
            }
            Self::Wake => Input::Wake,
        }
    }
}

/// The channel; the client's own where none is said.
fn or_own(channel: &Option<String>) -> &str {
    channel.as_deref().unwrap_or("leasehold:")
}

impl KindFields for Acquire {
    fn owner(&self) -> Option<Owner> {
        self.owner.map(Owner)
    }

    fn permits(&self) -> Option<u32> {
        self.permits.map(|(permits, _)| permits)
    }

    fn limit(&self) -> Option<u32> {
        self.permits.map(|(_, limit)| limit)
    }

    fn keep(&self) -> Option<Duration> {
        self.keep.map(Duration::from_millis)
    }
}

impl Acquire {
    fn kind(&self) -> Kind {
        let named = Family::ALL.iter().filter(|kind| Some(kind.code()) == self.kind.as_deref());
        let told = Family::ALL.iter().filter(|kind| !kind.fields().is_empty());
        named.chain(told).find_map(|kind| kind.read(self)).unwrap_or_default()
    }

    fn options(&self) -> AcquireOptions {
        let default = AcquireOptions::default();
        let mut options = AcquireOptions {
            kind: self.kind(),
            mode: self.mode.map_or(default.mode, ModeText::mode),
            ttl: self.ttl.map_or(default.ttl, Duration::from_millis),
            renew: self.renew.unwrap_or(default.renew),
            wait: match self.wait {
                None => default.wait,
                Some(WaitText::For(wait)) => Wait::For(Duration::from_millis(wait)),
                Some(WaitText::Word(WaitWord::No)) => Wait::No,
                Some(WaitText::Word(WaitWord::Forever)) => Wait::Forever,
            },
            within: self.within.map(Duration::from_millis),
            replicas: self.replicas.map(|(min, timeout)| Replicas { min, timeout: Duration::from_millis(timeout) }),
            ..default
        };
        options.set_plain(&mut self.plain.setter(AcquireOptions::PLAIN));
        options
    }
}

impl Plain {
    /// Sets the options of these rows.
    pub(crate) fn setter(&self, rows: &'static [Setting]) -> impl FnMut(Setter<'_>) -> Option<()> {
        let known = |name: &String| rows.iter().any(|row| row.name == name);
        assert!(self.0.keys().all(known), "there are no such options: {:?}", self.0);
        let mut values = rows.iter().map(|row| self.0.get(row.name));
        move |setter| {
            let Some(value) = values.next()? else { return Some(()) };
            let number = || value.as_u64().expect("a number");
            match setter {
                Setter::Time(time) => *time = Duration::from_millis(number()),
                Setter::OptionalTime(time) => *time = Some(Duration::from_millis(number())),
                Setter::Count(count) => *count = Some(number().try_into().expect("a count")),
                Setter::Flag(flag) => *flag = value.as_bool().expect("a flag"),
            }
            Some(())
        }
    }
}

impl ModeText {
    fn mode(self) -> Mode {
        match self {
            Self::Exclusive => Mode::Exclusive,
            Self::Shared => Mode::Shared,
        }
    }
}

impl Ending {
    fn result(&self) -> Result<Reply, Failure> {
        match self {
            Self::Reply(ReplyText::One(scalar)) => Ok(Reply::One(scalar.scalar())),
            Self::Reply(ReplyText::List(list)) => Ok(Reply::List(list.iter().map(ScalarText::scalar).collect())),
            Self::Failure(failure) => Err(failure.failure()),
        }
    }
}

impl FailureText {
    fn failure(&self) -> Failure {
        match self {
            Self::Refused(text) => Failure::Refused(text.clone()),
            Self::Unavailable(text) => Failure::Unavailable(text.clone()),
            Self::Interrupted(text) => Failure::Interrupted(text.clone()),
            Self::TimedOut => Failure::TimedOut,
            Self::Unsupported(text) => Failure::Unsupported(text.clone()),
            Self::Closed(text) => Failure::Closed(text.clone()),
        }
    }
}

impl ScalarText {
    fn scalar(&self) -> Scalar {
        match self {
            Self::Nil => Scalar::Nil,
            Self::Int(number) => Scalar::Int(*number),
            Self::Text(bytes) => Scalar::Text(bytes.0.clone()),
        }
    }
}

impl From<BytesText> for Bytes {
    fn from(text: BytesText) -> Self {
        match text {
            BytesText::Text(text) => Self(text.into_bytes()),
            BytesText::Hex { hex } => Self(bytes_of_hex(&hex)),
        }
    }
}

pub(crate) fn bytes_of_hex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("hex is ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("two hexadecimal digits")).collect()
}
