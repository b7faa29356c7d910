//! Writes TypeScript's interfaces of the options from the table of the engine. Each option has the manual's words, its
//! bounds and its default, and for some options what only JavaScript's readers need to know.

use std::fmt::Write;

use leasehold_core::{CLOSE_SETTINGS, LOCK_SETTINGS, MANAGER_SETTINGS, Setting};

use crate::generated::{HEADER, WIDTH, camel_case_name, camel_case_options, check};

/// The interfaces: name, what it extends, its place in the table, and its comment.
const INTERFACES: [(&str, &str, &str, &str); 7] = [
    (
        "LockOptions",
        "",
        "lock",
        "The options of a lock. They override the manager's options; the options of a call override both.",
    ),
    (
        "LockManagerOptions",
        "LockOptions",
        "manager",
        "The options of a {@link LockManager}. Those that a lock has are defaults for its locks. All clients of one fleet \
         should use the same values for the others.",
    ),
    ("QuorumOptions", "LockManagerOptions", "quorum", "The options of {@link LockManager.quorum}."),
    ("SemaphoreOptions", "LockOptions", "semaphore", "The options of {@link LockManager.semaphore}."),
    ("OnceOptions", "LockOptions", "once", "The options of a {@link LockManager.once} with work."),
    ("MultiOptions", "LockOptions", "multi", "The options of {@link LockManager.multi}."),
    ("CloseOptions", "", "close", "The options of {@link LockManager.close}."),
];

/// What only JavaScript has: the option of a lock or a manager, its type, its default, and paragraphs behind the manual's text.
const JAVASCRIPT: &[(&str, &str, &str, &str)] = &[
    (
        "wait",
        "Duration | 'forever'",
        "",
        "`'forever'` waits without end. `tryAcquire` does not wait for the lock: there, `wait` limits how long the server \
         may take to answer.",
    ),
    (
        "wait_for_replicas",
        "ReplicaOptions",
        "don't wait for replicas",
        "So a failover to one of them does not lose the lease. If fewer replicas have it within `timeout`, the lease is given \
         back and the call rejects with `not-replicated`. This comes after the `wait`, and takes at most `timeout` and one \
         `responseTimeout`. Releases and renewals don't wait for replicas.\n\nEach acquire opens a connection of its own \
         for this, even if the lock is handed over inside this client. So it needs an ioredis, node-redis or GLIDE client. \
         A custom connection, a quorum and several names reject with `unsupported`.",
    ),
    (
        "linger",
        "Duration",
        "it gives the lease back at once",
        "The next acquire in this process then gets the lock without a round trip, with the next fencing token. A client that \
         waits for the lock, or tries to get it, ends this at once. If your process crashes in that time, others wait for \
         the lock until its `ttl` is over, as if you held it.\n\nOnly on a connection that carries messages. The call \
         rejects with `invalid-option` under `mixedFleet`, and with `unsupported` without messages and in a quorum.",
    ),
    (
        "at_least",
        "Duration",
        "a release frees it at once",
        "At most `maxHold`. `run`, a release and a closed manager leave the rest of that time to the server. If your process \
         dies, the lock is free when its `ttl` is over. A release before that time answers `detached`.\n\nThe call rejects \
         with `unsupported` for reentrant locks and in a quorum.",
    ),
    (
        "max_waiters",
        "number",
        "any number may wait",
        "The error's `waiters` is that number. With 0, the call never waits. The number of this manager's callers is \
         exact. For other managers, it is as old as their last heartbeats. The manager that holds the lock sends none, so \
         others don't count its callers.\n\nThe call rejects with \
         `unsupported` for reentrant locks, under `mixedFleet`, in a quorum and for several names.",
    ),
    (
        "lock label",
        "string",
        "nothing",
        "At most 128 bytes without control characters. `inspect` shows it, for holders and for waiters. It costs nothing: it \
         stays in this process, and an inspect asks for it. The manager's `label` is for all its leases together. A quorum \
         has no labels.",
    ),
    (
        "label",
        "string",
        "`<host>/<process id>`, or the runtime's name where it does not tell these",
        "At most 128 bytes. The manager writes it to the server when it first waits, and when it has held a lease for a \
         second. A quorum has no labels.",
    ),
    (
        "limit",
        "number",
        "",
        "How many permits there are. All callers should use the same limit. The limit of the latest acquire counts. A lower \
         limit takes nothing from current holders. A request for more than the new limit is granted when everything else \
         is free.",
    ),
    (
        "per",
        "Duration",
        "a release gives the permits back",
        "A call that would be one too many waits, first come, first served. The server's clock decides, and the time of the grant \
         counts. A permit counts for this time from its grant on, also if its holder releases the lease, ends or never learns \
         of the grant.\n\nSo the lease is detached from its grant on: `isHeld` is false, `release` answers `detached`, and `signal` \
         never aborts. You don't need to release it. Work may take longer than `per`, and `close` doesn't wait for it. \
         `ttl`, `renew` and `maxHold` don't count.\n\nWhile permits count, an acquire of the same name with another `per`, or \
         without one, rejects with `wrong-kind`. With `atLeast`, `waitForReplicas` and `adopt` it rejects with `unsupported`.",
    ),
    ("keep", "Duration", "", "Work that runs again in that time gets the stored result."),
    ("permits", "number", "", "How many permits one acquire takes: 1 to `limit`."),
    (
        "one_script",
        "boolean",
        "",
        "The call then rejects with `cross-slot`. Names in one slot are always tried with one script.",
    ),
    ("prefix", "string", "", ""),
    (
        "drain",
        "Duration",
        "the leases are taken from their holders at once",
        "A second `close()` without `drain` ends the drain at once.",
    ),
    ("local_handoffs", "number", "", "Smaller is fairer between clients, larger is faster."),
    ("mixed_fleet", "boolean", "", "This is slower."),
    (
        "cluster_slots",
        "boolean",
        "the manager asks the server, together with its first command",
        "With `true`, calls reject with `invalid-option` if the server takes a call with keys of different slots. With `false`, the \
         manager doesn't ask. Each way has its own counters of fences, so all clients of a server must get the same result. Not for a \
         quorum.",
    ),
    (
        "node_timeout",
        "Duration",
        "",
        "The default suits a LAN. `responseTimeout` applies only to the first question to each server.",
    ),
    (
        "renew_in",
        "RenewInOptions",
        "a blocked event loop can lose leases",
        "`{ worker: new URL('./redis.js', import.meta.url) }` names the module that makes the worker's client. `maxHold` \
         bounds it.\n\nWithout `maxHold`, a process that hangs keeps its locks for as long as it lives, so set both. \
         While the event loop is blocked, `signal` can't abort. A process that is stopped as a whole, such as by a \
         suspended machine, loses its leases as without this option.\n\nA bundle needs the line `import \
         'leasehold/renew-in'`.\n\nNode, Bun and Deno. Other hosts, quorums and a \
         server in memory fail with `unsupported`. If the worker fails, the manager emits `worker`, and works as without \
         the option.",
    ),
];

#[test]
fn generated_interfaces_are_those_of_the_table() {
    check("ts/api/options.generated.ts", &interfaces());
}

/// The module of the interfaces.
fn interfaces() -> String {
    let mut module = HEADER.to_owned();
    module += "\nimport type { RenewInOptions } from '../renewer/index.js';\nimport type { Duration, ReplicaOptions } from './validate.js';\n";
    for (name, base, place, about) in INTERFACES {
        comment(&mut module, "", about);
        let own: Vec<_> = settings().filter(|(_, setting)| setting.places.contains(&place)).collect();
        let inherits = |setting: &Setting| !base.is_empty() && setting.places.contains(&"lock");
        let absent = LOCK_SETTINGS.iter().filter(|setting| inherits(setting) && !setting.places.contains(&place));
        let absent: Vec<_> = absent.map(|setting| format!("'{}'", camel_case_name(setting.name))).collect();
        let base = match (base, place) {
            ("", _) => String::new(),
            (_, "quorum") => format!(" extends {base}"),
            _ => format!(" extends Omit<{base}, {}>", absent.join(" | ")),
        };
        let _ = writeln!(module, "export interface {name}{base} {{");
        for (of, setting) in own.into_iter().filter(|(_, setting)| !inherits(setting)) {
            property(&mut module, of, setting);
        }
        module += "}\n";
    }
    module
}

fn settings() -> impl Iterator<Item = (&'static str, &'static Setting)> {
    let others = MANAGER_SETTINGS.iter().chain(CLOSE_SETTINGS).map(|setting| ("", setting));
    LOCK_SETTINGS.iter().map(|setting| ("lock", setting)).chain(others)
}

fn property(module: &mut String, of: &str, setting: &Setting) {
    let Setting { name, default, about, bounds, .. } = setting;
    let known = |key: &str| JAVASCRIPT.iter().find(|(option, ..)| *option == key);
    let (_, kind, said, more) = *known(&format!("{of} {name}")).or_else(|| known(name)).unwrap_or(&("", "", "", ""));
    let mut text = without_links(about);
    let default = match (said, *default) {
        ("", "") => String::new(),
        ("", "none") if *name == "local_handoffs" => String::new(),
        ("", "none") => "Default: no limit.".to_owned(),
        ("", "empty") => "Default: empty.".to_owned(),
        ("", default) if kind_of(setting, kind).starts_with("Duration") => {
            format!("Default `'{}'`.", default.replace(' ', ""))
        }
        ("", default) => format!("Default `{default}`."),
        (said, _) => format!("Default: {said}."),
    };
    let (own, further) = more.split_once("\n\n").unwrap_or((more, ""));
    let bounds = if bounds.text.is_empty() { String::new() } else { format!("{}.", bounds.text) };
    text = [text.as_str(), own, &bounds, &default]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    if !further.is_empty() {
        text = format!("{text}\n\n{further}");
    }
    comment(module, "  ", &camel_case_options(&text));
    let optional = if *name == "limit" { "" } else { "?" };
    let or_none = if optional.is_empty() { "" } else { " | undefined" };
    let _ = writeln!(module, "  readonly {}{optional}: {}{or_none};", camel_case_name(name), kind_of(setting, kind));
}

/// The type: what the row says, or what JavaScript has.
fn kind_of(setting: &Setting, kind: &'static str) -> &'static str {
    match setting.default {
        _ if !kind.is_empty() => kind,
        "true" | "false" => "boolean",
        _ if setting.is_count() => "number",
        _ if !setting.bounds.text.is_empty() => "Duration",
        _ => panic!("{}: JAVASCRIPT in interfaces.rs has no type for it", setting.name),
    }
}

/// The manual's text without its references to sections of the manual. Other links are just their words.
fn without_links(about: &str) -> String {
    let mut text = String::new();
    let mut rest = about;
    while let Some((before, link)) = rest.split_once('[') {
        let (words, after) = link.split_once("](").unwrap();
        let (_, after) = after.split_once(')').unwrap();
        rest = after.strip_prefix('.').filter(|_| before.ends_with("See ")).unwrap_or(after);
        text += before.strip_suffix("See ").unwrap_or(before);
        if !before.ends_with("See ") {
            text += words;
        }
    }
    (text + rest)
        .replace("Quorum only, and only in", "Needed in")
        .replace("Quorum only: the same", "The same as `response_timeout`")
        .replace("Several names only: r", "R")
        .replace("Semaphore only.", "")
        .trim()
        .to_owned()
}

fn comment(module: &mut String, indent: &str, text: &str) {
    if indent.is_empty() {
        module.push('\n');
    }
    if !text.contains('\n') && indent.len() + text.len() + 8 <= WIDTH {
        let _ = writeln!(module, "{indent}/** {text} */");
        return;
    }
    let _ = writeln!(module, "{indent}/**");
    for (at, paragraph) in text.split("\n\n").enumerate() {
        if at > 0 {
            let _ = writeln!(module, "{indent} *");
        }
        let mut line = format!("{indent} *");
        for word in paragraph.split_whitespace() {
            if line.len() + 1 + word.len() > WIDTH {
                let _ = writeln!(module, "{line}");
                line = format!("{indent} *");
            }
            line = line + " " + word;
        }
        let _ = writeln!(module, "{line}");
    }
    let _ = writeln!(module, "{indent} */");
}
