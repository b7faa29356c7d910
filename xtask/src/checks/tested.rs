//! Checks that a step runs the tests of every crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::commands::test::ON_A_SERVER;
use crate::tools::cargo::root;
use crate::tools::workspace::{Package, TIMED, Tests, packages};

#[test]
fn a_crate_whose_tests_no_step_runs_has_none() {
    let all = packages().unwrap();
    for package in all.iter().filter(|package| matches!(package.tests, Tests::None | Tests::Apart)) {
        let found = tests_in(&package.directory, &all);
        assert!(found.is_empty(), "no step runs these tests of {}: {}", package.name, found.join(", "));
    }
}

/// The targets that plain `cargo test` leaves out, and which are no tests that measure: crate, target, and what runs it.
const ELSEWHERE: [(&str, &str, &str); 2] =
    [("leasehold-interop", "suite", "cargo xtask interop"), ("leasehold-model", "cost", "cargo xtask bench cost")];

#[test]
fn a_command_runs_each_target_that_cargo_test_leaves_out() {
    let mut left_out = BTreeSet::new();
    for package in packages().unwrap() {
        let is_timed = package.left_out.iter().any(|name| name == TIMED);
        assert_eq!(is_timed, package.has_timed_tests(), "{}: `{TIMED}` needs `test = false`", package.name);
        let others = package.left_out.into_iter().filter(|name| name != TIMED);
        left_out.extend(others.map(|name| (package.name.clone(), name)));
    }
    let known = ELSEWHERE.map(|(package, target, _)| (package.to_owned(), target.to_owned()));
    assert_eq!(left_out, BTreeSet::from(known));
}

/// The step with failovers runs the ignored tests of these crates, and `--timed` those that measure.
#[test]
fn only_crates_whose_ignored_tests_a_step_runs_have_some() {
    let all = packages().unwrap();
    for package in all.iter().filter(|package| !ON_A_SERVER.contains(&&*package.name)) {
        let mut found = files_with(&["#[ignore"], &package.directory, &all);
        found.retain(|path| !path.contains("/tests/timed"));
        assert!(found.is_empty(), "no step runs the ignored tests of {}: {}", package.name, found.join(", "));
    }
}

#[test]
fn each_crate_of_the_repository_is_known() {
    let known: BTreeSet<_> = packages().unwrap().into_iter().map(|package| package.directory).collect();
    let mut directories = vec![root()];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(&directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && !["target", "node_modules", "dist", "tmp"].contains(&&*name) {
                directories.push(path);
            } else if name == "Cargo.toml" && directory != root() {
                assert!(known.contains(&directory), "no workspace has {}", directory.display());
            }
        }
    }
}

/// The component's step runs one test target, because linking a program with wasmtime takes long. That of the web service is like it.
#[test]
fn the_other_workspaces_have_tests_only_in_the_targets_that_a_step_runs() {
    let all = packages().unwrap();
    for package in all.iter().filter(|package| !package.is_at_root) {
        let found = tests_in(&package.directory.join("src"), &all);
        assert!(found.is_empty(), "no step runs these tests of {}: {}", package.name, found.join(", "));
        let unknown: Vec<_> =
            package.test_targets.iter().filter(|name| !["suite", TIMED].contains(&name.as_str())).collect();
        assert!(unknown.is_empty(), "no step runs these test targets of {}: {unknown:?}", package.name);
    }
}

/// The files below a directory that have tests.
fn tests_in(directory: &Path, all: &[Package]) -> Vec<String> {
    files_with(&["#[test]", "#[tokio::test"], directory, all)
}

/// The files below a directory that have a line with such a beginning. Other crates below it don't count.
fn files_with(beginnings: &[&str], directory: &Path, all: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() && !all.iter().any(|package| package.directory == path) {
            found.extend(files_with(beginnings, &path, all));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let begins = |line: &str| beginnings.iter().any(|beginning| line.trim_start().starts_with(beginning));
            if text.lines().any(begins) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}
