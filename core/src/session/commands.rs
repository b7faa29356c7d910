//! Builds the command of each script. `lua/README.md` describes the keys and arguments.

use core::time::Duration;

use super::Context;
use super::flow::{CommonPath, Queued};
use super::unanswered::Purpose;
use crate::ids::{LeaseToken, Token};
use crate::options::{Family, Kind, Mode};
use crate::text::Digits;
use crate::time::millis;
use crate::wire::{Command, Form, Name};

/// The parts of a script that are sent. The whole text is left out, because it would be stored a second time beside the parts.
struct Script {
    sha1: &'static str,
    #[cfg(feature = "sources")]
    parts: [&'static str; 5],
}

const ACQUIRE: Script = Script::of(leasehold_lua::ACQUIRE);
const ACQUIRE_FAST: Script = Script::of(leasehold_lua::ACQUIRE_FAST);
const RELEASE: Script = Script::of(leasehold_lua::RELEASE);
const RELEASE_FAST: Script = Script::of(leasehold_lua::RELEASE_FAST);
const RENEW: Script = Script::of(leasehold_lua::RENEW);
const CONVERT: Script = Script::of(leasehold_lua::CONVERT);
#[cfg(feature = "quorum")]
const RAISE: Script = Script::of(leasehold_lua::RAISE);
const INSPECT: Script = Script::of(leasehold_lua::INSPECT);
const REENTRANT_ACQUIRE: Script = Script::of(leasehold_lua::reentrant::ACQUIRE);
const REENTRANT_RELEASE: Script = Script::of(leasehold_lua::reentrant::RELEASE);
const REENTRANT_RENEW: Script = Script::of(leasehold_lua::reentrant::RENEW);
const FORCE: Script = Script::of(leasehold_lua::FORCE);
const REENTRANT_FORCE: Script = Script::of(leasehold_lua::reentrant::FORCE);
const SEMAPHORE_FORCE: Script = Script::of(leasehold_lua::semaphore::FORCE);
const SEMAPHORE_ACQUIRE: Script = Script::of(leasehold_lua::semaphore::ACQUIRE);
const SEMAPHORE_RELEASE: Script = Script::of(leasehold_lua::semaphore::RELEASE);
const SEMAPHORE_RENEW: Script = Script::of(leasehold_lua::semaphore::RENEW);
const MULTI: Script = Script::of(leasehold_lua::MULTI);
const BATCH: Script = Script::of(leasehold_lua::BATCH);

/// What an acquire may do apart from taking a free lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireMode {
    /// Nothing else.
    Try,
    /// Join the queue.
    Wait,
    /// Only extend and refill a lock that is already held.
    Refill,
}

/// How many keys each name has in the scripts.
const KEYS: usize = 6;

/// How long the server remembers a token that was given up.
const BURIED: Duration = Duration::from_secs(60);

pub(crate) struct Acquire {
    pub(crate) token: Token,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) how: AcquireMode,
    pub(crate) block: u64,
}

/// The token whose lease a convert moves: one of this client, or one that this client adopts.
pub(crate) enum Old {
    Own(Token),
    Adopted(LeaseToken),
}

pub(crate) struct Convert {
    pub(crate) old: Old,
    pub(crate) new: Token,
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) block: u64,
    pub(crate) bury: bool,
    /// The greatest fence that was used.
    pub(crate) used: u64,
}

impl Script {
    const fn of(script: leasehold_lua::Script) -> Self {
        Self {
            sha1: script.sha1,
            #[cfg(feature = "sources")]
            parts: script.parts,
        }
    }

    /// The script's text. Without the feature `sources`, its digest, with which the driver finds the text.
    const fn source(&self) -> &[&'static str] {
        #[cfg(feature = "sources")]
        return &self.parts;
        #[cfg(not(feature = "sources"))]
        core::slice::from_ref(&self.sha1)
    }
}

impl Context {
    pub(crate) fn acquire_command(&self, form: Form, name: &Name, what: &Acquire) -> Command {
        let script = match name.family {
            Family::Lock => &ACQUIRE,
            Family::Reentrant => &REENTRANT_ACQUIRE,
            Family::Semaphore => &SEMAPHORE_ACQUIRE,
        };
        let mut command = all_keys(script, form, name);
        self.push_token(&mut command, what.token);
        match what.kind {
            Kind::Semaphore { permits, limit } => {
                command.push_parts(&[Digits::of(permits).as_str(), "/", Digits::of(limit).as_str()])
            }
            Kind::Lock | Kind::Reentrant(_) => command.push(what.mode.word().as_bytes()),
        }
        command.push_number(millis(what.ttl));
        command.push(match what.how {
            AcquireMode::Try => b"try",
            AcquireMode::Wait => b"wait",
            AcquireMode::Refill => b"refill",
        });
        command.push_number(millis(self.config.claim_window));
        command.push_number(what.block);
        self.push_fleet(&mut command, name, 0);
        command
    }

    pub(super) fn release_command(&self, form: Form, name: &Name, token: Token, bury: bool, used: u64) -> Command {
        let script = match name.family {
            Family::Lock => &RELEASE,
            Family::Reentrant => &REENTRANT_RELEASE,
            Family::Semaphore => &SEMAPHORE_RELEASE,
        };
        let mut command = all_keys(script, form, name);
        self.push_token(&mut command, token);
        push_bury(&mut command, bury);
        self.push_fleet(&mut command, name, used);
        command
    }

    /// For an exclusive lease, declares only the lock's own key. So renewals go on while its slot moves.
    pub(crate) fn renew_command(&self, form: Form, name: &Name, token: Token, mode: Mode, ttl: Duration) -> Command {
        let mut command = self.begin_renew(form, name, token, mode);
        command.push_number(millis(ttl));
        command
    }

    /// A renewal by one millisecond, whatever is left. It always writes.
    pub(crate) fn touch_command(&self, form: Form, name: &Name, token: Token, mode: Mode) -> Command {
        let mut command = self.begin_renew(form, name, token, mode);
        command.push(b"-1");
        command
    }

    fn begin_renew(&self, form: Form, name: &Name, token: Token, mode: Mode) -> Command {
        let (script, side) = match (name.family, mode) {
            (Family::Lock, Mode::Exclusive) => (&RENEW, None),
            (Family::Lock, Mode::Shared) => (&RENEW, Some("readers")),
            (Family::Reentrant, _) => (&REENTRANT_RENEW, None),
            (Family::Semaphore, _) => (&SEMAPHORE_RENEW, Some("permits")),
        };
        let mut command = begin(script, form, if side.is_some() { 2 } else { 1 }, 128);
        command.push(name.key.as_bytes());
        if let Some(side) = side {
            command.push_parts(&[name.side(), side]);
        }
        self.push_token(&mut command, token);
        command
    }

    pub(crate) fn convert_command(&self, form: Form, name: &Name, what: &Convert) -> Command {
        let mut command = all_keys(&CONVERT, form, name);
        match what.old {
            Old::Own(token) => self.push_token(&mut command, token),
            Old::Adopted(token) => command.push(token.text().as_bytes()),
        }
        self.push_token(&mut command, what.new);
        command.push(what.mode.word().as_bytes());
        command.push_number(millis(what.ttl));
        command.push_number(what.block);
        push_bury(&mut command, what.bury);
        self.push_fleet(&mut command, name, what.used);
        command
    }

    /// Makes the server remember a quorum's fence, if the token still holds the lock.
    #[cfg(feature = "quorum")]
    pub(crate) fn raise_command(&self, form: Form, name: &Name, token: Token, mode: Mode, fence: u64) -> Command {
        let mut command = begin(&RAISE, form, if mode == Mode::Shared { 3 } else { 2 }, 192);
        command.push(name.key.as_bytes());
        command.push(name.fence.as_bytes());
        if mode == Mode::Shared {
            command.push_parts(&[name.side(), "readers"]);
        }
        self.push_token(&mut command, token);
        command.push_number(fence);
        command
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn inspect_command(&self, form: Form, name: &Name) -> Command {
        all_keys(&INSPECT, form, name)
    }

    /// All names at once, each with its own token.
    pub(crate) fn multi_command(&self, form: Form, parts: &[(&Name, Token)], ttl: Duration) -> Command {
        let keys = parts.len().saturating_mul(3).saturating_add(1);
        let mut command = begin(&MULTI, form, keys, keys.saturating_mul(48));
        for (name, _) in parts {
            command.push(name.key.as_bytes());
            command.push_parts(&[name.side(), "queue"]);
            command.push_parts(&[name.side(), "waiters"]);
        }
        // They are in one slot, so they have one counter.
        command.push(parts.first().map(|(name, _)| name.fence.as_bytes()).unwrap_or_default());
        command.push_number(millis(ttl));
        parts.iter().for_each(|(_, token)| self.push_token(&mut command, *token));
        command
    }

    /// The common path of commands that leave together, or of one command.
    pub(crate) fn common_command(&self, form: Form, entries: &[Queued]) -> Command {
        let (script, is_batch) = match entries {
            [Queued { common: CommonPath::Acquire, .. }] => (&ACQUIRE_FAST, false),
            [Queued { common: CommonPath::Release, .. }] => (&RELEASE_FAST, false),
            _ => (&BATCH, true),
        };
        let (mut keys, mut takes, mut fence) = (0_usize, 0_u64, None);
        for entry in entries {
            let (_, words, arguments) = common_words(entry.common);
            keys = keys.saturating_add(words.len());
            if arguments.first() == Some(&ACQUIRE_TTL) {
                takes = takes.saturating_add(1);
                fence = Some(entry.command.word(FENCE));
            }
        }
        let keys = keys.saturating_add(usize::from(fence.is_some()));
        let mut command = begin(script, form, keys, entries.len().saturating_mul(256));
        for entry in entries {
            command.push_words(&entry.command, common_words(entry.common).1);
        }
        if let Some(fence) = fence {
            command.push(fence);
        }
        if is_batch {
            command.push_number(takes);
        }
        for entry in entries {
            let (what, keys, arguments) = common_words(entry.common);
            // A renewal has only the keys that it needs.
            let token = if matches!(entry.purpose, Purpose::Renew { .. }) { keys.len() + KEY } else { TOKEN };
            if is_batch {
                command.push(what);
            }
            command.push_words(&entry.command, &[token]);
            // As the lock's key begins with the token, or has it with the fence.
            match entry.common {
                CommonPath::Acquire => command.extend_word(" "),
                CommonPath::Release => {
                    command.extend_word(" ");
                    command.extend_word(Digits::of(entry.fence).as_str());
                }
                _ => {}
            }
            command.push_words(&entry.command, arguments);
        }
        command
    }

    pub(crate) fn force_command(&self, form: Form, name: &Name, foreign: bool) -> Command {
        let script = match name.family {
            Family::Lock => &FORCE,
            Family::Reentrant => &REENTRANT_FORCE,
            Family::Semaphore => &SEMAPHORE_FORCE,
        };
        let mut command = all_keys(script, form, name);
        command.push(if foreign { b"any" } else { b"leases" });
        self.push_fleet(&mut command, name, 0);
        command
    }

    fn push_token(&self, command: &mut Command, token: Token) {
        command.push_parts(&[&self.client, ":", Digits::of(token.0).as_str()]);
    }

    /// The last two arguments: the greatest fence that was used, and the fleet.
    fn push_fleet(&self, command: &mut Command, name: &Name, used: u64) {
        command.push_number(used);
        command.push(if self.is_mixed(name.family) { b"mixed" } else { b"native" });
    }
}

/// What an entry is called in a batch, and the words of its command that it takes along: keys, and arguments after the
/// token.
const fn common_words(common: CommonPath) -> (&'static [u8], &'static [usize], &'static [usize]) {
    match common {
        CommonPath::Acquire => (b"acquire", &[KEY, QUEUE], &[ACQUIRE_TTL]),
        CommonPath::Release => (b"release", &[KEY], &[]),
        CommonPath::Renew => (b"renew", &[KEY], &[5]),
        CommonPath::AcquireReentrant => (b"acquire-reentrant", &[KEY, QUEUE], &[ACQUIRE_TTL]),
        CommonPath::ReleaseReentrant => (b"release-reentrant", &[KEY], &[]),
        CommonPath::RenewReentrant => (b"renew-reentrant", &[KEY], &[5]),
        CommonPath::RenewShare => (b"renew-share", &[KEY, 4], &[6]),
        CommonPath::RenewPermit => (b"renew-permit", &[KEY, 4], &[6]),
        CommonPath::Share => (b"share", &[KEY, QUEUE, MEMBERS], &[ACQUIRE_TTL]),
        CommonPath::Unshare => (b"unshare", &[KEY, MEMBERS], &[]),
        CommonPath::Permit => (b"permit", &[KEY, QUEUE, MEMBERS], &[ACQUIRE_TTL, ACQUIRE_MODE]),
        CommonPath::Unpermit => (b"unpermit", &[KEY, QUEUE, MEMBERS], &[]),
    }
}

/// Where an acquire and a release have their keys and their token, and where an acquire has its mode, TTL and block.
const KEY: usize = 3;
const FENCE: usize = 4;
const QUEUE: usize = 5;
const MEMBERS: usize = 7;
const TOKEN: usize = 9;
const ACQUIRE_MODE: usize = 10;
pub(crate) const ACQUIRE_TTL: usize = 11;
pub(crate) const ACQUIRE_BLOCK: usize = 14;

fn push_bury(command: &mut Command, bury: bool) {
    command.push_number(if bury { millis(BURIED) } else { 0 });
}

fn begin(script: &Script, form: Form, keys: usize, bytes: usize) -> Command {
    let (name, body) = match form {
        Form::Entry | Form::Digest => ("EVALSHA", core::slice::from_ref(&script.sha1)),
        Form::Source => ("EVAL", script.source()),
    };
    let body_bytes: usize = body.iter().map(|part| part.len()).sum();
    let mut command =
        Command::with_capacity(bytes.saturating_add(body_bytes).saturating_add(24), keys.saturating_add(12));
    command.push(name.as_bytes());
    command.push_parts(body);
    command.push_number(keys as u64);
    command
}

fn all_keys(script: &Script, form: Form, name: &Name) -> Command {
    let bytes = name.key.len().saturating_add(name.side().len().saturating_mul(4)).saturating_add(208);
    let mut command = begin(script, form, KEYS, bytes);
    push_keys(&mut command, name);
    command
}

fn push_keys(command: &mut Command, name: &Name) {
    command.push(name.key.as_bytes());
    command.push(name.fence.as_bytes());
    for side in name.sides() {
        command.push_parts(&[name.side(), side]);
    }
}
