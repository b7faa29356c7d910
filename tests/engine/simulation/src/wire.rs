//! The commands and messages between clients and servers, parsed: which script ran for which token, and with what
//! result.

use leasehold_core::{Mode, Reply, Scalar};

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
    /// Parses `<uuid>:<count>`. Every client id of a run begins with its life's number.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
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
        bury: bool,
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
        bury: bool,
    },
    /// Only reads.
    Inspect,
}

impl ScriptCommand {
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
        let name = known.name.strip_prefix("reentrant-").or(known.name.strip_prefix("semaphore-"));
        let script = match name.unwrap_or(known.name) {
            "acquire" => Self::Acquire {
                token: token(0)?,
                mode: mode(args.get(1)?)?,
                permits: permits(args.get(1)?),
                ttl_ms: number(args.get(2)?)?,
                how: match *args.get(3)? {
                    b"try" => AcquireMode::Try,
                    b"wait" => AcquireMode::Wait,
                    b"refill" => AcquireMode::Refill,
                    _ => return None,
                },
                claim_ms: number(args.get(4)?)?,
            },
            "release" => Self::Release { token: token(0)?, bury: *args.get(1)? != b"0" },
            "renew" => Self::Renew { token: token(0)?, ttl_ms: number(args.get(1)?)? },
            "convert" => Self::Convert {
                old: token(0)?,
                new: token(1)?,
                mode: mode(args.get(2)?)?,
                ttl_ms: number(args.get(3)?)?,
                bury: *args.get(5)? != b"0",
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
    /// How many fences an acquire wants.
    block: u64,
}

impl<'a> Asked<'a> {
    /// Parses a command's words. None if it is not a script of leasehold.
    pub(crate) fn read(words: &[&'a [u8]]) -> Option<Vec<Self>> {
        if is_batch(words) {
            return Self::entries(words);
        }
        ScriptCommand::read(words).map(|(script, key)| vec![Self { script, key, entry: None }])
    }

    fn entries(words: &[&'a [u8]]) -> Option<Vec<Self>> {
        let (mut keys, arguments) = words.get(3..)?.split_at_checked(number(words.get(2)?)? as usize)?;
        let (_retention, mut arguments) = arguments.split_first()?;
        let mut entries = Vec::new();
        while let [what, token, ..] = arguments {
            let token = Token::read(token)?;
            let ttl_ms = arguments.get(2).and_then(|ttl| number(ttl));
            let (script, block, of_keys, of_arguments) = match *what {
                b"acquire" => {
                    let (ttl_ms, mode, how) = (ttl_ms?, Mode::Exclusive, AcquireMode::Try);
                    let script = ScriptCommand::Acquire { token, mode, permits: None, ttl_ms, how, claim_ms: 0 };
                    (script, number(arguments.get(3)?)?, 5, 4)
                }
                b"release" => (ScriptCommand::Release { token, bury: false }, 0, 3, 2),
                b"renew" => (ScriptCommand::Renew { token, ttl_ms: ttl_ms? }, 0, 1, 3),
                _ => return None,
            };
            entries.push(Self { script, key: keys.first()?, entry: Some(Entry { place: entries.len(), block }) });
            (keys, arguments) = (keys.get(of_keys..)?, arguments.get(of_arguments..)?);
        }
        (keys.is_empty() && arguments.is_empty()).then_some(entries)
    }

    /// What a reply says to it. None if a batch left it undone, or if the reply has another shape.
    pub(crate) fn answer(&self, reply: &Reply) -> Option<Answer> {
        self.entry.map_or_else(|| Answer::read(reply), |entry| entry.answer(&self.script, reply))
    }
}

impl Entry {
    /// What a batch's reply says to this entry. None if it was left undone.
    pub(crate) fn answer(&self, script: &ScriptCommand, reply: &Reply) -> Option<Answer> {
        let Reply::List(list) = reply else { return None };
        let number =
            |scalar: &Scalar| if let Scalar::Int(number) = scalar { u64::try_from(*number).ok() } else { None };
        let (said, server_us) = (number(list.get(self.place)?)?, number(list.last()?)?);
        if said == 0 {
            return None;
        }
        let (status, value, block, ms, waiting) = match *script {
            ScriptCommand::Acquire { ttl_ms, .. } => {
                let block = self.block.min((server_us + 1024).saturating_sub(said)).max(1);
                (Status::Entered, said, block, ttl_ms as i64, 0)
            }
            ScriptCommand::Release { .. } => (Status::Released, 0, 0, 0, 0),
            _ => (Status::Renewed, 0, 0, said as i64, -1),
        };
        Some(Answer { status, value, block, server_us, ms, waiting })
    }
}

/// Whether a command is a batch.
pub(crate) fn is_batch(words: &[&[u8]]) -> bool {
    let batch = leasehold_lua::BATCH;
    words.get(1).is_some_and(|script| [batch.sha1.as_bytes(), batch.source.as_bytes()].contains(script))
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
            b"renewed" => Status::Renewed,
            b"released" => Status::Released,
            b"left" => Status::Left,
            b"gone" => Status::Gone,
            b"taken" => Status::Taken,
            b"conflict" => Status::Conflict,
            _ => return None,
        };
        // An acquire that found the lock busy also tells its holder.
        let [value, block, server_us, ms, waiting, _foreign, ..] = numbers else { return None };
        let int = |scalar: &Scalar| if let Scalar::Int(number) = scalar { Some(*number) } else { None };
        Some(Self {
            status,
            value: int(value)?.try_into().ok()?,
            block: int(block)?.try_into().ok()?,
            server_us: int(server_us)?.try_into().ok()?,
            ms: int(ms)?,
            waiting: int(waiting)?,
        })
    }

    /// The reply that a script of its own would have given.
    pub(crate) fn as_reply(&self) -> Reply {
        let status: &[u8] = match self.status {
            Status::Entered => b"entered",
            Status::Released => b"released",
            _ => b"renewed",
        };
        let numbers = [self.value as i64, self.block as i64, self.server_us as i64, self.ms, self.waiting, 0];
        Reply::List([Scalar::Text(status.to_vec())].into_iter().chain(numbers.map(Scalar::Int)).collect())
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
        /// The token.
        token: Token,
        /// Its fence.
        fence: u64,
        /// How many fences are reserved from it on.
        block: u64,
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
        if let Some(key) = text.strip_prefix("tried ") {
            return Some(Self::Tried { key });
        }
        let words: Vec<&str> = text.strip_prefix("grant ")?.splitn(8, ' ').collect();
        let [token, held, fence, block, server_us, ms, waiting, key] = words.as_slice() else { return None };
        // The mode and the server's time are checked, but no watcher needs them.
        mode(held.as_bytes())?;
        server_us.parse::<u64>().ok()?;
        Some(Self::Grant {
            token: Token::read(token.as_bytes())?,
            fence: fence.parse().ok()?,
            block: block.parse().ok()?,
            ms: ms.parse().ok()?,
            waiting: waiting.parse().ok()?,
            key,
        })
    }
}

fn mode(word: &[u8]) -> Option<Mode> {
    match word {
        b"exclusive" => Some(Mode::Exclusive),
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
