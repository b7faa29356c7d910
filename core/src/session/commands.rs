//! Builds the command of each script. `lua/README.md` describes the keys and arguments.

use alloc::sync::Arc;

use super::Context;
use super::request::{AcquireMode, Body, Convert, Form, Old, Queued, Release, Renew, Request};
use crate::ids::Token;
use crate::options::{Family, Kind, Mode};
use crate::server::DeleteIfEqual;
use crate::text::Digits;
use crate::time::Duration;
use crate::wire::{Command, Name};

/// The parts of a script that are sent. The whole text is left out, because it would be stored a second time beside the parts.
struct Script {
    #[cfg(feature = "sources")]
    sha1: &'static str,
    #[cfg(feature = "sources")]
    parts: &'static [&'static str],
    /// Without the feature `sources`, the beginning of its digest is sent in place of both.
    #[cfg(not(feature = "sources"))]
    prefix: [u8; leasehold_lua::PREFIX],
}

const ACQUIRE: Script = Script::of(leasehold_lua::ACQUIRE);
const ACQUIRE_FAST: Script = Script::of(leasehold_lua::ACQUIRE_FAST);
const RELEASE: Script = Script::of(leasehold_lua::RELEASE);
const RELEASE_FAST: Script = Script::of(leasehold_lua::RELEASE_FAST);
const RENEW: Script = Script::of(leasehold_lua::RENEW);
const CONVERT: Script = Script::of(leasehold_lua::CONVERT);
const SEMAPHORE_CONVERT: Script = Script::of(leasehold_lua::semaphore::CONVERT);
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
const ONCE_ACQUIRE: Script = Script::of(leasehold_lua::once::ACQUIRE);
const ONCE_RELEASE: Script = Script::of(leasehold_lua::once::RELEASE);
const ONCE_FORCE: Script = Script::of(leasehold_lua::once::FORCE);
const ELECTION_ACQUIRE: Script = Script::of(leasehold_lua::election::ACQUIRE);
const ELECTION_RELEASE: Script = Script::of(leasehold_lua::election::RELEASE);
const ELECTION_FORCE: Script = Script::of(leasehold_lua::election::FORCE);
const LEADER: Script = Script::of(leasehold_lua::election::LEADER);
const MULTI: Script = Script::of(leasehold_lua::MULTI);
const BATCH: Script = Script::of(leasehold_lua::BATCH);

/// How many keys each name has in the scripts.
const KEYS: usize = 6;

/// How long the server remembers a token that was given up.
const TOMBSTONE: Duration = Duration::from_secs(60);

/// How a request travels: to its own script, or as an entry of a batch (`lua/src/batch.lua`).
struct Way {
    script: &'static Script,
    /// Empty if it always runs the whole script.
    entry: &'static str,
    /// Its side keys in a batch. A renewal alone has the same.
    queue: bool,
    members: bool,
    /// The script of its fast path if it is the only entry. An exclusive lock is taken and given back by these.
    fast: Option<&'static Script>,
}

/// How the requests of a kind and mode travel.
struct Ways {
    acquire: Way,
    release: Way,
    renew: Way,
    /// What takes it from its holders.
    force: &'static Script,
}

static EXCLUSIVE_WAYS: Ways = Ways {
    acquire: Way { script: &ACQUIRE, entry: "acquire", queue: true, members: false, fast: Some(&ACQUIRE_FAST) },
    release: Way { script: &RELEASE, entry: "release", queue: false, members: false, fast: Some(&RELEASE_FAST) },
    renew: Way { script: &RENEW, entry: "renew", queue: false, members: false, fast: None },
    force: &FORCE,
};
static SHARED_WAYS: Ways = Ways {
    acquire: Way { script: &ACQUIRE, entry: "share", queue: true, members: true, fast: None },
    release: Way { script: &RELEASE, entry: "unshare", queue: false, members: true, fast: None },
    renew: Way { script: &RENEW, entry: "renew-share", queue: false, members: true, fast: None },
    force: &FORCE,
};
static REENTRANT_WAYS: Ways = Ways {
    acquire: Way { script: &REENTRANT_ACQUIRE, entry: "acquire-reentrant", queue: true, members: false, fast: None },
    release: Way { script: &REENTRANT_RELEASE, entry: "release-reentrant", queue: false, members: false, fast: None },
    renew: ONE_HOLDER_RENEWAL,
    force: &REENTRANT_FORCE,
};
static SEMAPHORE_WAYS: Ways = Ways {
    acquire: Way { script: &SEMAPHORE_ACQUIRE, entry: "permit", queue: true, members: true, fast: None },
    release: Way { script: &SEMAPHORE_RELEASE, entry: "unpermit", queue: true, members: true, fast: None },
    renew: Way { script: &SEMAPHORE_RENEW, entry: "renew-permit", queue: false, members: true, fast: None },
    force: &SEMAPHORE_FORCE,
};
static ONCE_WAYS: Ways = Ways {
    acquire: whole(&ONCE_ACQUIRE),
    release: whole(&ONCE_RELEASE),
    renew: ONE_HOLDER_RENEWAL,
    force: &ONCE_FORCE,
};
static ELECTION_WAYS: Ways = Ways {
    acquire: whole(&ELECTION_ACQUIRE),
    release: whole(&ELECTION_RELEASE),
    renew: ONE_HOLDER_RENEWAL,
    force: &ELECTION_FORCE,
};

/// The renewal of the kinds whose state is a hash with one holder.
const ONE_HOLDER_RENEWAL: Way =
    Way { script: &REENTRANT_RENEW, entry: "renew-reentrant", queue: false, members: false, fast: None };

/// For a kind that is rarely taken, or needs the whole script.
const fn whole(script: &'static Script) -> Way {
    Way { script, entry: "", queue: true, members: true, fast: None }
}

#[inline(never)]
const fn ways_of(family: Family, mode: Mode) -> &'static Ways {
    match (family, mode) {
        (Family::Lock, Mode::Exclusive) => &EXCLUSIVE_WAYS,
        (Family::Lock, Mode::Shared) => &SHARED_WAYS,
        (Family::Reentrant, _) => &REENTRANT_WAYS,
        (Family::Semaphore, _) => &SEMAPHORE_WAYS,
        (Family::Once, _) => &ONCE_WAYS,
        (Family::Election, _) => &ELECTION_WAYS,
    }
}

/// Whether acquires and releases of this kind have a fast path.
pub(crate) const fn has_fast_path(family: Family) -> bool {
    !ways_of(family, Mode::Exclusive).acquire.entry.is_empty()
}

/// Whether a request that is the only entry has a fast script, with a reply of its own.
pub(crate) fn has_fast_script(request: &Request) -> bool {
    way(request).is_some_and(|way| way.fast.is_some())
}

/// How a request travels. None if all kinds share its command.
fn way(Request { name, body }: &Request) -> Option<&'static Way> {
    let of = |mode| ways_of(name.family, mode);
    match body {
        Body::Acquire(what) => Some(&of(what.mode).acquire),
        Body::Release(what) => Some(&of(what.mode).release),
        Body::Renew(what) => Some(&of(what.mode).renew),
        _ => None,
    }
}

/// How each request of a batch travels.
fn ways(entries: &[Queued]) -> impl Iterator<Item = (&Request, &'static Way)> {
    entries.iter().filter_map(|Queued { request, .. }| Some((request, way(request)?)))
}

impl Way {
    fn keys(&self) -> usize {
        usize::from(self.queue).saturating_add(usize::from(self.members)).saturating_add(1)
    }

    fn push_keys(&self, command: &mut Command, name: &Name) {
        command.push(name.key.as_bytes());
        if self.queue {
            command.push_parts(&[name.side(), "queue"]);
        }
        if self.members {
            command.push_parts(&[name.side(), name.members()]);
        }
    }
}

impl Script {
    #[cfg(feature = "sources")]
    const fn of(script: leasehold_lua::Script) -> Self {
        Self { sha1: script.sha1, parts: script.parts }
    }

    /// The name of the command that calls it, and the script in this form.
    #[cfg(feature = "sources")]
    const fn call(&self, form: Form) -> (&'static str, &[&'static str]) {
        match form {
            Form::Digest => ("EVALSHA", core::slice::from_ref(&self.sha1)),
            Form::Source => ("EVAL", self.parts),
        }
    }

    #[cfg(not(feature = "sources"))]
    const fn of(script: leasehold_lua::Script) -> Self {
        Self { prefix: script.prefix() }
    }
}

impl Context {
    /// The command of a request.
    pub(crate) fn command(&self, form: Form, request: &Request) -> Command {
        let Request { name, body } = request;
        let ahead = body.is_ahead();
        let form = if ahead { Form::Source } else { form };
        let Some(way) = way(request) else { return self.other_command(form, request) };
        if let Body::Renew(what) = body {
            // For an exclusive lease, it declares only the lock's own key. So renewals go on while its slot moves.
            let mut command = begin(way.script, form, way.keys(), 128);
            way.push_keys(&mut command, name);
            self.push_renewal(&mut command, what);
            return command;
        }
        let mut command = self.all_keys(way.script, form, name);
        match body {
            Body::Acquire(what) => {
                self.push_token(&mut command, what.token);
                if what.kind == Kind::Election {
                    command.push_parts(&["leader ", &name.value]);
                } else {
                    push_mode(&mut command, what.kind, what.mode, what.per);
                }
                command.push_number(what.ttl.as_millis());
                match what.how {
                    AcquireMode::Try | AcquireMode::TryAhead => command.push(b"try"),
                    AcquireMode::Wait { callers, most } => push_wait(&mut command, callers, most),
                    AcquireMode::Refill => command.push(b"refill"),
                }
                command.push_number(self.claim_window.as_millis());
                command.push_number(what.block);
                self.push_fleet(&mut command, name, 0, ahead);
            }
            Body::Release(what) => {
                self.push_token(&mut command, what.token);
                push_tombstone(&mut command, what.tombstone);
                if let Some(result) = self.result_of(what.token) {
                    command.push_number(result.keep.as_millis());
                    command.push(&result.value);
                }
                self.push_fleet(&mut command, name, what.used_fence, false);
            }
            _ => {}
        }
        command
    }

    #[inline(never)]
    fn other_command(&self, form: Form, Request { name, body }: &Request) -> Command {
        match body {
            Body::Convert(what) => self.convert_command(form, name, what),
            #[cfg(feature = "quorum")]
            Body::Raise { token, mode, fence } => self.raise_command(form, name, *token, *mode, *fence),
            Body::Batch(entries) => self.batch_command(form, entries),
            Body::Force { foreign, ahead } => self.force_command(form, name, *foreign, *ahead),
            Body::Forget => {
                let mut command = Command::with_capacity(name.key.len().saturating_add(32), 2);
                command.push(b"DEL");
                command.push_parts(&[name.side(), name.members()]);
                command
            }
            Body::Multi { parts, ttl } => self.multi_command(form, parts, *ttl),
            Body::Leader => {
                let mut command = begin(&LEADER, form, 1, 64_usize.saturating_add(name.key.len()));
                command.push(name.key.as_bytes());
                command
            }
            // It writes nothing, so it needs no key that never exists. The name may be a semaphore's.
            _ => self.keys(&INSPECT, form, name, "permits"),
        }
    }

    /// The fast path of the requests of a batch, or of one.
    fn batch_command(&self, form: Form, entries: &[Queued]) -> Command {
        let fast = if let [entry] = entries { way(&entry.request).and_then(|way| way.fast) } else { None };
        if let ([entry], Some(_), Some(how)) = (entries, fast, self.delete_if_equal)
            && let Body::Release(what) = &entry.request.body
        {
            return self.delete_command(how, &entry.request.name, what);
        }
        let (mut keys, mut takes, mut taken) = (0_usize, 0_u64, None);
        for (request, way) in ways(entries) {
            keys = keys.saturating_add(way.keys());
            if matches!(request.body, Body::Acquire(_)) {
                takes = takes.saturating_add(1);
                taken = Some(&request.name);
            }
        }
        let keys = keys.saturating_add(usize::from(taken.is_some()));
        let mut command = begin(fast.unwrap_or(&BATCH), form, keys, keys.saturating_mul(128));
        for (request, way) in ways(entries) {
            way.push_keys(&mut command, &request.name);
        }
        if let Some(name) = taken {
            self.counter.push(&mut command, name);
        }
        if fast.is_none() {
            command.push_number(takes);
        }
        for (request, way) in ways(entries) {
            if fast.is_none() {
                command.push(way.entry.as_bytes());
            }
            self.push_entry(&mut command, request, way);
        }
        command
    }

    /// The arguments of a request on its fast path.
    fn push_entry(&self, command: &mut Command, request: &Request, way: &Way) {
        match &request.body {
            Body::Acquire(what) => {
                self.extend_token(command, what.token);
                // As the lock's key begins with the token, or has it with the fence.
                command.push(if way.fast.is_some() { b" " } else { b"" });
                command.push_number(what.ttl.as_millis());
                if let Kind::Semaphore { .. } = what.kind {
                    push_mode(command, what.kind, what.mode, None);
                }
            }
            Body::Release(what) if way.fast.is_some() => self.push_value(command, what),
            Body::Release(what) => self.push_token(command, what.token),
            Body::Renew(what) => self.push_renewal(command, what),
            _ => {}
        }
    }

    /// The server's own command in place of `release-fast`. Both compare the whole value, which has a mark if others wait.
    fn delete_command(&self, how: DeleteIfEqual, name: &Name, what: &Release) -> Command {
        let mut command = Command::with_capacity(name.key.len().saturating_add(80), 4);
        command.push(if how == DeleteIfEqual::DelIfEq { b"DELIFEQ" } else { b"DELEX" });
        command.push(name.key.as_bytes());
        if how == DeleteIfEqual::DelEx {
            command.push(b"IFEQ");
        }
        self.push_value(&mut command, what);
        command
    }

    /// The value of an exclusive lock's key, as the acquire wrote it.
    fn push_value(&self, command: &mut Command, what: &Release) {
        self.extend_token(command, what.token);
        command.extend(&[" "]);
        command.push_number(what.stamp);
    }

    fn push_renewal(&self, command: &mut Command, what: &Renew) {
        self.push_token(command, what.token);
        match what.ttl {
            Some(ttl) => command.push_number(ttl.as_millis()),
            None => command.push(b"-1"),
        }
    }

    fn convert_command(&self, form: Form, name: &Name, what: &Convert) -> Command {
        let script = if name.family == Family::Semaphore { &SEMAPHORE_CONVERT } else { &CONVERT };
        let mut command = self.all_keys(script, form, name);
        match what.old {
            Old::Own(token) => self.push_token(&mut command, token),
            Old::Adopted(token) => command.push(token.text().as_bytes()),
        }
        self.push_token(&mut command, what.new);
        push_mode(&mut command, what.kind, what.mode, None);
        command.push_number(what.ttl.as_millis());
        command.push_number(what.block);
        push_tombstone(&mut command, what.tombstone);
        self.push_fleet(&mut command, name, what.used_fence, false);
        command
    }

    #[cfg(feature = "quorum")]
    fn raise_command(&self, form: Form, name: &Name, token: Token, mode: Mode, fence: u64) -> Command {
        let mut command = begin(&RAISE, form, if mode == Mode::Shared { 3 } else { 2 }, 192);
        command.push(name.key.as_bytes());
        self.counter.push(&mut command, name);
        if mode == Mode::Shared {
            command.push_parts(&[name.side(), "readers"]);
        }
        self.push_token(&mut command, token);
        command.push_number(fence);
        command
    }

    fn multi_command(&self, form: Form, parts: &[(Arc<Name>, Token, Kind, Mode)], ttl: Duration) -> Command {
        let has_members = |kind: Kind, mode: Mode| kind != Kind::Lock || mode == Mode::Shared;
        let members = parts.iter().filter(|(_, _, kind, mode)| has_members(*kind, *mode)).count();
        let keys = parts.len().saturating_mul(3).saturating_add(members).saturating_add(1);
        let mut command = begin(&MULTI, form, keys, keys.saturating_mul(48));
        for (name, _, kind, mode) in parts {
            command.push(name.key.as_bytes());
            command.push_parts(&[name.side(), "queue"]);
            command.push_parts(&[name.side(), "waiters"]);
            if has_members(*kind, *mode) {
                command.push_parts(&[name.side(), name.members()]);
            }
        }
        // They are in one slot, so they have one counter.
        if let Some((name, ..)) = parts.first() {
            self.counter.push(&mut command, name);
        }
        command.push_number(ttl.as_millis());
        for (_, token, kind, mode) in parts {
            self.push_token(&mut command, *token);
            push_mode(&mut command, *kind, *mode, None);
        }
        command
    }

    fn force_command(&self, form: Form, name: &Name, foreign: bool, ahead: bool) -> Command {
        let mut command = self.all_keys(ways_of(name.family, Mode::Exclusive).force, form, name);
        command.push(if foreign { b"any" } else { b"leases" });
        self.push_fleet(&mut command, name, 0, ahead);
        command
    }

    fn all_keys(&self, script: &Script, form: Form, name: &Name) -> Command {
        self.keys(script, form, name, "none")
    }

    /// The same, with another last key.
    fn keys(&self, script: &Script, form: Form, name: &Name, last: &str) -> Command {
        let bytes = name.key.len().saturating_add(name.side().len().saturating_mul(4)).saturating_add(208);
        let mut command = begin(script, form, KEYS, bytes);
        command.push(name.key.as_bytes());
        self.counter.push(&mut command, name);
        for side in ["queue", "waiters", name.members(), last] {
            command.push_parts(&[name.side(), side]);
        }
        command
    }

    fn push_token(&self, command: &mut Command, token: Token) {
        self.extend_token(command, token);
        command.push(b"");
    }

    /// Begins a word with the token.
    fn extend_token(&self, command: &mut Command, token: Token) {
        command.extend(&[&self.client, ":", Digits::of(token.0).as_str()]);
    }

    /// The last two arguments: the greatest fence that was used, and the fleet. In a mixed one, nobody is granted the lock
    /// and a try doesn't look at the queue, so it is what goes ahead of the waiters.
    fn push_fleet(&self, command: &mut Command, name: &Name, used_fence: u64, ahead: bool) {
        command.push_number(used_fence);
        command.push(if ahead || self.is_mixed(name.family) { b"mixed" } else { b"native" });
    }
}

fn push_mode(command: &mut Command, kind: Kind, mode: Mode, per: Option<Duration>) {
    match kind {
        Kind::Semaphore { permits, limit } => {
            command.extend(&[Digits::of(permits).as_str(), "/", Digits::of(limit).as_str()]);
            if let Some(per) = per {
                command.extend(&["/", Digits::of(per.as_millis()).as_str()]);
            }
            command.push(b"");
        }
        // No script of another kind grants it.
        Kind::Once { .. } => command.push(b"once"),
        Kind::Lock | Kind::Reentrant(_) | Kind::Election => command.push(mode.word().as_bytes()),
    }
}

/// `wait` for one caller, `wait 3` for three, and `wait 3/10` if their number of others is limited.
fn push_wait(command: &mut Command, callers: u32, most: Option<u32>) {
    command.extend(&["wait"]);
    if callers > 1 || most.is_some() {
        command.extend(&[" ", Digits::of(callers).as_str()]);
    }
    if let Some(most) = most {
        command.extend(&["/", Digits::of(most).as_str()]);
    }
    command.push(b"");
}

fn push_tombstone(command: &mut Command, tombstone: bool) {
    command.push_number(if tombstone { TOMBSTONE.as_millis() } else { 0 });
}

#[cfg(feature = "sources")]
fn begin(script: &Script, form: Form, keys: usize, bytes: usize) -> Command {
    let (name, body) = script.call(form);
    let body_bytes: usize = body.iter().map(|part| part.len()).sum();
    let mut command =
        Command::with_capacity(bytes.saturating_add(body_bytes).saturating_add(24), keys.saturating_add(12));
    command.push(name.as_bytes());
    command.push_parts(body);
    command.push_number(keys as u64);
    command
}

#[cfg(not(feature = "sources"))]
fn begin(script: &Script, form: Form, keys: usize, bytes: usize) -> Command {
    let mut command = Command::with_capacity(bytes.saturating_add(32), keys.saturating_add(12));
    command.push(if form == Form::Digest { b"EVALSHA" } else { b"EVAL" });
    command.push(&script.prefix);
    command.push_number(keys as u64);
    command
}
