//! Each surface has the options, the calls and the kinds of the engine's tables, or is listed here with those that it lacks. So a place that was
//! forgotten fails a test.

use std::path::{Path, PathBuf};

use leasehold_core::{AcquireOptions, CallKind, Config, Family, LOCK_SETTINGS, MANAGER_SETTINGS, Setting};

use crate::bounds::{OWN_COMMENTS, files};
use crate::generated::{camel_case, read};

/// Where an option is missing on purpose: the file, and the options. A new option must be in the file or here.
const ELSEWHERE: &[(&str, &[&str])] = &[
    // Arguments of the calls that make the lock, and what only JavaScript needs.
    ("native/src/api/options.rs", &["limit", "permits", "renew_in"]),
    // Nothing renews a lease in the background, and no call runs a caller's work. A component has no labels for leases.
    ("wit/locks.wit", &["renew", "wait_for_replicas", "linger", "at_least", "renew_in"]),
    // A command holds one lock: see `docs/cli.md`.
    (
        "cli/src/args.rs",
        &[
            "renew",
            "wait_for_replicas",
            "linger",
            "limit",
            "one_script",
            "local_handoffs",
            "response_timeout",
            "node_timeout",
            "renew_in",
            "claim_window",
            "mixed_fleet",
        ],
    ),
];

#[test]
fn every_surface_has_the_options() {
    let mut missing = Vec::new();
    for (file, elsewhere) in ELSEWHERE {
        let text = read(&format!("../{file}"));
        let forms = OWN_COMMENTS.iter().filter(|(of, _)| of == file).map(|(_, form)| form);
        for Setting { name, .. } in LOCK_SETTINGS.iter().chain(MANAGER_SETTINGS) {
            let written = if file.ends_with(".wit") { name.replace('_', "-") } else { (*name).to_owned() };
            let there = forms.clone().any(|form| text.contains(&format!("    {}", form.replace("NAME", &written))));
            if there == elsewhere.contains(name) {
                missing.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "these must be there or in ELSEWHERE in surfaces.rs, not in both: {missing:#?}");
}

/// What the record of inputs and the transcripts have besides the plain options: their own fields and kinds, or nothing, because the
/// engine doesn't know them.
const NOT_PLAIN: &[&str] = &[
    "ttl",
    "renew",
    "wait",
    "wait_for_replicas",
    "label",
    "limit",
    "keep",
    "permits",
    "one_script",
    "prefix",
    "renew_in",
    "cluster_slots",
];

#[test]
fn every_option_reaches_javascript_and_the_transcripts() {
    let plain: Vec<_> = AcquireOptions::PLAIN.iter().chain(Config::PLAIN).map(|row| row.name).collect();
    let rows = LOCK_SETTINGS.iter().chain(MANAGER_SETTINGS).map(|row| row.name);
    let missing: Vec<_> = rows.filter(|name| plain.contains(name) == NOT_PLAIN.contains(name)).collect();
    assert!(
        missing.is_empty(),
        "these must be in `plain!` in core/src/options.rs or in NOT_PLAIN, not in both: {missing:?}"
    );
}

/// Where users' calls must be: a file or a folder, how it names a call, and the calls that are missing on purpose.
const CALLS: &[(&str, &str, &[CallKind])] = &[
    ("native/src", "Operation::NAME", &[]),
    ("bindings-js/ts/client/client.ts", "engine.name(", &[]),
    // `token` asks for it.
    ("bindings-js/ts/api", "client.name(", &[CallKind::Export]),
    // See `docs/edge.md`.
    ("bindings-wasi/lock/src", "Operation::NAME", &[CallKind::Shorten, CallKind::Observe, CallKind::Drain]),
    // The explorer plays these.
    ("tests/engine/fuzz/src/world", "Input::NAME", &[CallKind::Store, CallKind::Forget, CallKind::Observe]),
    // The explorer plays the first, and the fuzz target the second.
    ("tests/engine/simulation/src", "Input::NAME", &[CallKind::Forget, CallKind::ForceRelease]),
];

#[test]
fn every_surface_has_the_calls() {
    let forms = |call: &CallKind, form: &str| {
        let name = format!("{call:?}");
        form.replace("NAME", &name).replace("name", &camel_case(&name))
    };
    let missing = missing(CALLS, CallKind::ALL, forms);
    assert!(missing.is_empty(), "these must be there or in CALLS in surfaces.rs, not in both: {missing:#?}");
}

/// Where kinds of locks must be, as [`CALLS`]: NAME is `Once`, CODE `once`, and `name` what makes such a lock.
const KINDS: &[(&str, &str, &[Family])] = &[
    ("native/src/api", "pub fn name(", &[]),
    ("native/src/api/blocking", "pub fn name(", &[Family::Election]),
    ("bindings-js/ts/api/lock-manager.ts", "  name(", &[]),
    // `begin-once`. It has no elections: see `docs/edge.md`.
    ("wit/locks.wit", "    name(", &[Family::Once, Family::Election]),
    ("bindings-wasi/lock/src/api/convert.rs", "Kind::NAME", &[Family::Election]),
    // What holds the lock while a program runs. An owner would have no second call.
    ("cli/src/exec", ".name(", &[Family::Reentrant]),
    ("cli/src/kinds.rs", "Self::NAME", &[]),
    ("cli/src/doctor/trial.rs", ".name(", &[]),
    ("cli/tests/suite/kinds.rs", ".name(", &[]),
    ("bindings-js/ts/client/slots.test.ts", "locks.name(", &[]),
    // Elections have a world of their own there.
    ("tests/engine/simulation/src/kinds.rs", "Kind::NAME", &[Family::Election]),
    // The simulation plays these, and they are not for two clients.
    ("tests/engine/explorer/src", "Kind::NAME", &[Family::Reentrant, Family::Semaphore]),
    // The explorer plays these.
    ("tests/engine/fuzz/src/world", "Kind::NAME", &[Family::Once, Family::Election]),
    ("tests/e2e/torture/src", ".name(", &[]),
    ("README.md", "| `locks.name(", &[]),
    ("bindings-js/README.md", "| `locks.name(", &[]),
    ("docs/kinds.md", "| `locks.name(", &[]),
    ("docs/cli.md", "`CODE`", &[]),
    // Of a mutex or a read-write lock, they have the mode.
    ("docs/metrics.md", "`CODE`", &[Family::Lock]),
    ("docs/events.md", "`CODE`", &[Family::Lock]),
    ("docs/operations.md", "`CODE`", &[Family::Lock]),
    ("docs/design.md", "`CODE`", &[]),
    ("ARCHITECTURE.md", "- **NAME**", &[Family::Lock]),
    ("examples/native/src/bin", ".name(", &[]),
    ("lua/README.md", "| CODE |", &[]),
];

#[test]
fn every_surface_has_the_kinds() {
    let forms = |kind: &Family, form: &str| {
        let name = if *kind == Family::Lock { "mutex" } else { kind.code() };
        form.replace("NAME", &format!("{kind:?}")).replace("CODE", kind.code()).replace("name", name)
    };
    let missing = missing(KINDS, Family::ALL, forms);
    assert!(missing.is_empty(), "these must be there or in KINDS in surfaces.rs, not in both: {missing:#?}");
}

/// What is missing in these places though it must be there, or is there though it is listed as missing.
fn missing<T: PartialEq>(places: &[(&str, &str, &[T])], all: &[T], forms: impl Fn(&T, &str) -> String) -> Vec<String> {
    let mut missing = Vec::new();
    for (place, form, elsewhere) in places {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(place);
        let paths = if path.is_dir() { files(&path) } else { vec![path] };
        let text: String = paths.into_iter().map(|path: PathBuf| std::fs::read_to_string(path).unwrap()).collect();
        for one in all {
            let form = forms(one, form);
            let is_whole = |rest: &str| form.ends_with(['(', '`', '|']) || !rest.starts_with(char::is_alphanumeric);
            if text.split(&form).skip(1).any(is_whole) == elsewhere.contains(one) {
                missing.push(format!("{place}: {form}"));
            }
        }
    }
    missing
}

#[test]
fn the_blocking_lease_has_the_methods_of_the_lease() {
    let methods = |file: &str| -> Vec<String> {
        let text = read(&format!("../native/src/api/{file}"));
        let lines =
            text.lines().filter_map(|line| line.strip_prefix("    pub ").map(|line| line.trim_start_matches("async ")));
        lines.filter_map(|line| Some(line.strip_prefix("fn ")?.split(['(', '<']).next()?.to_owned())).collect()
    };
    let blocking = methods("blocking/lease.rs");
    let missing: Vec<_> = methods("lease.rs").into_iter().filter(|name| !blocking.contains(name)).collect();
    // A thread waits with `wait_lost`.
    assert_eq!(missing, ["lost"], "native/src/api/blocking/lease.rs lacks a method of native/src/api/lease.rs");
}
