//! The commands and messages between clients and servers, parsed: which script ran for which token, and with what
//! result.

use leasehold_core::{Mode, Reply, Scalar};
use leasehold_harness::answers::{self, entries_of, status};

/// A client's life, numbered within the run. A restarted client has a new one.
pub(crate) type Life = u16;

/// The token of one acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token {
    /// The client.
    pub(crate) life: Life,
    /// Which of its tokens.
    pub(crate) count: u64,
}

impl Token {
    /// Parses `<uuid>:<count>`, which may have a fence behind it. Every client id of a run begins with its life's number.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let text = text.split([' ', '*']).next()?;
        let (client, count) = text.split_once(':')?;
        Some(Self { life: life_of(client)?, count: count.parse().ok()? })
    }
}

/// The client of an id or a channel.
pub(crate) fn life_of(client: &str) -> Option<Life> {
    if client.len() != 36 {
        return None;
    }
    Life::from_str_radix(client.get(..4)?, 16).ok()
}

/// The token and the name of a revocation message.
pub(crate) fn revoked(payload: &[u8]) -> Option<(Token, &str)> {
    let (token, name) = std::str::from_utf8(payload).ok()?.strip_prefix("revoked ")?.split_once(' ')?;
    Some((Token::read(token.as_bytes())?, name))
}

/// What an acquire may do other than enter a free lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireMode {
    /// Nothing.
    Try,
    /// Join the queue.
    Wait,
    /// Extend the lease that is held.
    Refill,
}

/// One script call of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptCommand {
    /// A first try, a resend, a heartbeat, or a refill.
    Acquire {
        /// The token.
        token: Token,
        /// How it wants to hold.
        mode: Mode,
        /// For a semaphore: the wanted permits and the limit.
        permits: Option<(u64, u64)>,
        /// The TTL.
        ttl_ms: u64,
        /// What it may do.
        how: AcquireMode,
        /// How long a grant is kept for it, and how long it may be silent.
        claim_ms: u64,
    },
    /// Gives a token up.
    Release {
        /// The token.
        token: Token,
        /// Whether it leaves a tombstone.
        tombstone: bool,
        /// The greatest fence that was used, or 0.
        used_fence: u64,
        /// The result that it stores.
        stores: Option<u64>,
    },
    /// Extends the TTL.
    Renew {
        /// The token.
        token: Token,
        /// The new TTL.
        ttl_ms: u64,
    },
    /// Gives a lease another mode and token.
    Convert {
        /// The token before.
        old: Token,
        /// The token afterwards.
        new: Token,
        /// The mode afterwards.
        mode: Mode,
        /// The TTL.
        ttl_ms: u64,
        /// Whether the old token leaves a tombstone.
        tombstone: bool,
        /// The greatest fence that was used, or 0.
        used_fence: u64,
    },
    /// Only reads.
    Inspect,
}

impl ScriptCommand {
    /// The token that it is about. A conversion is about the new one.
    pub(crate) const fn token(&self) -> Option<Token> {
        match *self {
            Self::Acquire { token, .. } | Self::Release { token, .. } | Self::Renew { token, .. } => Some(token),
            Self::Convert { new, .. } => Some(new),
            Self::Inspect => None,
        }
    }

    /// The tokens before and after, if it moves another client's lease to its own client.
    pub(crate) fn adopts(&self) -> Option<(Token, Token)> {
        match *self {
            Self::Convert { old, new, .. } if old.life != new.life => Some((old, new)),
            _ => None,
        }
    }

    /// The greatest fence that it tells as used, or 0.
    pub(crate) const fn used_fence(&self) -> u64 {
        match *self {
            Self::Release { used_fence, .. } | Self::Convert { used_fence, .. } => used_fence,
            _ => 0,
        }
    }

    /// Parses a command's words, and returns the key that it is about. None if it is not a script of leasehold.
    pub(crate) fn read<'a>(words: &[&'a [u8]]) -> Option<(Self, &'a [u8])> {
        let (name, sha1_or_source, keys) = (*words.first()?, *words.get(1)?, number(words.get(2)?)? as usize);
        let known = match name {
            b"EVALSHA" => leasehold_lua::ALL.into_iter().find(|known| known.sha1.as_bytes() == sha1_or_source)?,
            b"EVAL" => leasehold_lua::ALL.into_iter().find(|known| known.source.as_bytes() == sha1_or_source)?,
            _ => return None,
        };
        let key = *words.get(3)?;
        let args = words.get(3 + keys..)?;
        let token = |place: usize| Token::read(args.get(place)?);
        let kinds = ["reentrant-", "semaphore-", "once-"];
        let name = kinds.into_iter().find_map(|kind| known.name.strip_prefix(kind));
        let script = match name.unwrap_or(known.name) {
            "acquire" => Self::Acquire {
                token: token(0)?,
                mode: mode(args.get(1)?)?,
                permits: permits(args.get(1)?),
                ttl_ms: number(args.get(2)?)?,
                how: match *args.get(3)? {
                    b"try" => AcquireMode::Try,
                    how if how.starts_with(b"wait") => AcquireMode::Wait,
                    b"refill" => AcquireMode::Refill,
                    _ => return None,
                },
                claim_ms: number(args.get(4)?)?,
            },
            "release" => {
                let stores = if args.len() == 6 { Some(number(args.get(3)?)?) } else { None };
                let used_fence = number(args.get(args.len().checked_sub(2)?)?)?;
                Self::Release { token: token(0)?, tombstone: *args.get(1)? != b"0", used_fence, stores }
            }
            "renew" => Self::Renew { token: token(0)?, ttl_ms: number(args.get(1)?)? },
            "convert" => Self::Convert {
                old: token(0)?,
                new: token(1)?,
                mode: mode(args.get(2)?)?,
                ttl_ms: number(args.get(3)?)?,
                tombstone: *args.get(5)? != b"0",
                used_fence: number(args.get(6)?)?,
            },
            "inspect" => Self::Inspect,
            _ => return None,
        };
        Some((script, key))
    }
}

/// One thing that a command asks for: a batch asks for several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// What it does, as a script of its own would.
    pub(crate) script: ScriptCommand,
    /// The lock's key.
    pub(crate) key: &'a [u8],
    /// Set in a batch.
    pub(crate) entry: Option<Entry>,
}

/// An entry of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// How many stand before it.
    pub(crate) place: usize,
    /// How many there are.
    of: usize,
}

impl<'a> Asked<'a> {
    /// Parses a command's words. None if it is not a script of leasehold.
    pub(crate) fn read(words: &[&'a [u8]]) -> Option<Vec<Self>> {
        if is_fast(words) {
            return Self::entries(words);
        }
        ScriptCommand::read(words).map(|(script, key)| vec![Self { script, key, entry: None }])
    }

    fn entries(words: &[&'a [u8]]) -> Option<Vec<Self>> {
        let entries = entries_of(words)?;
        let of = entries.len();
        let asked = |(place, it): (usize, answers::Entry<'a>)| {
            let (token, ttl_ms) = (Token::read(it.token.as_bytes())?, it.ttl);
            let script = match it.what {
                "release" | "release-reentrant" | "unshare" | "unpermit" => {
                    ScriptCommand::Release { token, tombstone: false, used_fence: 0, stores: None }
                }
                what if what.starts_with("renew") => ScriptCommand::Renew { token, ttl_ms },
                what => {
                    let mode = if what == "share" { Mode::Shared } else { Mode::Exclusive };
                    let permits = it.permits.and_then(|word| permits(word.as_bytes()));
                    ScriptCommand::Acquire { token, mode, permits, ttl_ms, how: AcquireMode::Try, claim_ms: 0 }
                }
            };
            Some(Self { script, key: it.name.as_bytes(), entry: Some(Entry { place, of }) })
        };
        entries.into_iter().enumerate().map(asked).collect()
    }

    /// What a reply says to it. None if a batch left it undone, or if the reply has another shape.
    pub(crate) fn answer(&self, reply: &Reply) -> Option<Answer> {
        self.entry.map_or_else(|| Answer::read(reply), |entry| entry.answer(&self.script, reply))
    }
}

impl Entry {
    /// What a reply of the fast path says to this entry. None if it was left undone.
    pub(crate) fn answer(&self, script: &ScriptCommand, reply: &Reply) -> Option<Answer> {
        let (said, server_us, fence) = match (self.of, reply) {
            (1, Reply::One(one)) => (count(one)?.min(1), count(one)?, count(one)?),
            (1, Reply::List(list)) if list.len() == 2 => (1, count(list.first()?)?, count(list.get(1)?)?),
            (_, Reply::List(list)) => (count(list.get(2 + self.place)?)?, count(list.first()?)?, count(list.get(1)?)?),
            _ => return None,
        };
        if said == 0 {
            return None;
        }
        let (status, value, block, ms, waiting) = match *script {
            // The block is known to the client only. The number of a reentrant lock also says how many wait.
            ScriptCommand::Acquire { ttl_ms, .. } => (Status::Entered, fence, 1, ttl_ms as i64, said as i64 - 1),
            ScriptCommand::Release { .. } => (Status::Released, 0, 0, 0, 0),
            _ => (Status::Renewed, 0, 0, said as i64, -1),
        };
        Some(Answer { status, value, block, server_us, ms, waiting, result: None })
    }
}

/// Whether a reply has the form that the fast path answers so many entries.
pub(crate) fn is_fast_reply(reply: &Reply, entries: usize) -> bool {
    match reply {
        Reply::One(one) => entries == 1 && count(one).is_some(),
        Reply::List(list) => list.len() == entries + 2 || entries == 1 && list.len() == 2,
    }
}

/// Whether a command is the fast path of one command or several.
pub(crate) fn is_fast(words: &[&[u8]]) -> bool {
    let scripts = [leasehold_lua::BATCH, leasehold_lua::ACQUIRE_FAST, leasehold_lua::RELEASE_FAST];
    words.first() == Some(&&b"DELIFEQ"[..]) || scripts.into_iter().any(|it| is(words, it))
}

/// Whether a command calls this script.
pub(crate) fn is(words: &[&[u8]], script: leasehold_lua::Script) -> bool {
    words.get(1).is_some_and(|word| [script.sha1.as_bytes(), script.source.as_bytes()].contains(word))
}

/// A number, as an integer or as text.
fn count(scalar: &Scalar) -> Option<u64> {
    match scalar {
        Scalar::Int(number) => u64::try_from(*number).ok(),
        Scalar::Text(text) => number(text),
        Scalar::Nil => None,
    }
}

/// How a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Status {
    Entered,
    Again,
    Converted,
    Waiting,
    Busy,
    Done,
    Renewed,
    Released,
    Left,
    Gone,
    Taken,
    Conflict,
}

/// A script's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// How it ended.
    pub(crate) status: Status,
    /// The fence, or the position in the queue.
    pub(crate) value: u64,
    /// How many fences are reserved, from `value` on.
    pub(crate) block: u64,
    /// The server's time in µs.
    pub(crate) server_us: u64,
    /// The TTL of the lease, or what the holder has left.
    pub(crate) ms: i64,
    /// The queue's length, -1 if unknown.
    pub(crate) waiting: i64,
    /// The result of a once.
    pub(crate) result: Option<u64>,
}

impl Answer {
    /// Parses a reply. None if it has another shape (inspect's, or a foreign client's).
    pub(crate) fn read(reply: &Reply) -> Option<Self> {
        let Reply::List(list) = reply else { return None };
        let [Scalar::Text(status), numbers @ ..] = list.as_slice() else { return None };
        let status = match status.as_slice() {
            b"entered" => Status::Entered,
            b"again" => Status::Again,
            b"converted" => Status::Converted,
            b"waiting" => Status::Waiting,
            b"busy" => Status::Busy,
            b"done" => Status::Done,
            b"renewed" => Status::Renewed,
            b"released" => Status::Released,
            b"left" => Status::Left,
            b"gone" => Status::Gone,
            b"taken" => Status::Taken,
            b"conflict" => Status::Conflict,
            _ => return None,
        };
        // An acquire that found the lock busy also tells its holder.
        let [value, block, server_us, ms, waiting, _foreign, more @ ..] = numbers else { return None };
        let int = |scalar: &Scalar| if let Scalar::Int(number) = scalar { Some(*number) } else { None };
        Some(Self {
            status,
            value: int(value)?.try_into().ok()?,
            block: int(block)?.try_into().ok()?,
            server_us: int(server_us)?.try_into().ok()?,
            ms: int(ms)?,
            waiting: int(waiting)?,
            result: match (status, more) {
                (Status::Done, [Scalar::Text(result)]) => Some(number(result)?),
                (Status::Done, _) => return None,
                _ => None,
            },
        })
    }

    /// The reply that a script of its own would have given.
    pub(crate) fn as_reply(&self) -> Reply {
        let word = match self.status {
            Status::Entered => "entered",
            Status::Released => "released",
            _ => "renewed",
        };
        status(word, [self.value as i64, self.block as i64, self.server_us as i64, self.ms, self.waiting, 0])
    }

    /// Whether the call's token has a valid lease, by this answer.
    pub(crate) fn confirms(&self) -> bool {
        self.grants() || self.status == Status::Renewed
    }

    /// Whether the call's token holds the lock, by this answer.
    pub(crate) fn grants(&self) -> bool {
        matches!(self.status, Status::Entered | Status::Again | Status::Converted)
    }
}

/// A message that a script published.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message<'a> {
    /// A waiter was granted.
    Grant {
        /// How it holds.
        mode: Mode,
        /// The token.
        token: Token,
        /// Its fence.
        fence: u64,
        /// For how long.
        ms: u64,
        /// How many wait behind it.
        waiting: u64,
        /// The lock.
        key: &'a str,
    },
    /// Another client waits for the lock.
    Wanted {
        /// The lock.
        key: &'a str,
    },
    /// A once has a result.
    Done {
        /// The lock.
        key: &'a str,
    },
    /// Another client has tried to get the lock.
    Tried {
        /// The lock.
        key: &'a str,
    },
}

impl<'a> Message<'a> {
    /// Parses a payload.
    pub(crate) fn read(payload: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(payload).ok()?;
        if let Some(key) = text.strip_prefix("wanted ") {
            return Some(Self::Wanted { key });
        }
        if let Some(key) = text.strip_prefix("done ") {
            return Some(Self::Done { key });
        }
        if let Some(key) = text.strip_prefix("tried ") {
            return Some(Self::Tried { key });
        }
        let words: Vec<&str> = text.strip_prefix("grant ")?.splitn(8, ' ').collect();
        let [token, held, fence, block, server_us, ms, waiting, key] = words.as_slice() else { return None };
        // The block and the server's time are checked, but no watcher needs them.
        [block, server_us].iter().try_for_each(|number| number.parse::<u64>().map(|_| ())).ok()?;
        Some(Self::Grant {
            mode: mode(held.as_bytes())?,
            token: Token::read(token.as_bytes())?,
            fence: fence.parse().ok()?,
            ms: ms.parse().ok()?,
            waiting: waiting.parse().ok()?,
            key,
        })
    }
}

fn mode(word: &[u8]) -> Option<Mode> {
    match word {
        b"exclusive" | b"once" => Some(Mode::Exclusive),
        b"shared" => Some(Mode::Shared),
        // A semaphore's mode.
        word => permits(word).map(|_| Mode::Exclusive),
    }
}

fn permits(word: &[u8]) -> Option<(u64, u64)> {
    let (permits, limit) = std::str::from_utf8(word).ok()?.split_once('/')?;
    Some((permits.parse().ok()?, limit.parse().ok()?))
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
