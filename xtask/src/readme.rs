//! What the README says about the locks of the articles is there: the programs, and the tests by their names.

use std::fs;

use crate::cargo::root;

#[test]
fn every_lock_of_the_articles_has_tests_and_programs_that_exist() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, section) = readme.split_once("\n## The locks of the articles\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows =
        section.lines().filter(|line| line.starts_with("| ")).map(cells).filter(|cells| cells[0] != "in the articles");
    let mut seen = 0;
    for row in rows {
        let [lock, here, programs, proof] = row[..] else { panic!("{row:?}") };
        assert!(!lock.is_empty() && !here.is_empty(), "{row:?}");
        for path in links(programs) {
            assert!(root().join(path).is_file(), "{lock}: {path}");
        }
        let tests: Vec<_> = proof.split(", [").map(named).collect();
        assert!(!tests.is_empty(), "{lock}");
        for (path, name) in tests {
            let source = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(source.contains(name), "{lock}: there is no `{name}` in {path}");
        }
        seen += 1;
    }
    assert!(seen >= 20, "{seen} rows");
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// The targets of `[text](target)`.
fn links(cell: &str) -> impl Iterator<Item = &str> {
    cell.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// The file and the name in ``[text](file) `name` ``.
fn named(test: &str) -> (&str, &str) {
    let path = links(test).next().unwrap_or_else(|| panic!("no file: {test}"));
    let name = test.split('`').nth(1).unwrap_or_else(|| panic!("no test: {test}"));
    (path, name)
}
