//! Checks that a step runs the tests of every crate.

use std::fs;
use std::path::Path;

use crate::tools::workspace::{Package, TIMED, Tests, packages};

#[test]
fn a_crate_whose_tests_no_step_runs_has_none() {
    let all = packages().unwrap();
    for package in all.iter().filter(|package| package.tests == Tests::None) {
        let found = tests_in(&package.directory, &all);
        assert!(found.is_empty(), "no step runs these tests of {}: {}", package.name, found.join(", "));
    }
}

/// The component's step runs one test target, because linking a program with wasmtime takes long.
#[test]
fn the_workspace_of_the_component_has_tests_only_in_the_targets_that_a_step_runs() {
    let all = packages().unwrap();
    for package in all.iter().filter(|package| !package.is_at_root) {
        let found = tests_in(&package.directory.join("src"), &all);
        assert!(found.is_empty(), "no step runs these tests of {}: {}", package.name, found.join(", "));
        let unknown: Vec<_> =
            package.test_targets.iter().filter(|name| !["suite", TIMED].contains(&name.as_str())).collect();
        assert!(unknown.is_empty(), "no step runs these test targets of {}: {unknown:?}", package.name);
    }
}

/// The files below a directory that have tests. Other crates below it don't count.
fn tests_in(directory: &Path, all: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() && !all.iter().any(|package| package.directory == path) {
            found.extend(tests_in(&path, all));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let is_test = |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            if text.lines().any(|line| is_test(line.trim_start())) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}
