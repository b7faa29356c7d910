//! Each surface has the options and the calls of the engine's tables, or is listed here with those that it lacks. So a place that was
//! forgotten fails a test.

use std::path::{Path, PathBuf};

use leasehold_core::{AcquireOptions, CallKind, Config, LOCK_SETTINGS, MANAGER_SETTINGS, Setting};

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
    let mut missing = Vec::new();
    for (place, form, elsewhere) in CALLS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(place);
        let paths = if path.is_dir() { files(&path) } else { vec![path] };
        let text: String = paths.into_iter().map(|path: PathBuf| std::fs::read_to_string(path).unwrap()).collect();
        for call in CallKind::ALL {
            let name = format!("{call:?}");
            let form = form.replace("NAME", &name).replace("name", &camel_case(&name));
            let is_whole = |rest: &str| form.ends_with('(') || !rest.starts_with(char::is_alphanumeric);
            if text.split(&form).skip(1).any(is_whole) == elsewhere.contains(call) {
                missing.push(format!("{place}: {form}"));
            }
        }
    }
    assert!(missing.is_empty(), "these must be there or in CALLS in surfaces.rs, not in both: {missing:#?}");
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
