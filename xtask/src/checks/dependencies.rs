//! Checks the dependencies of what we publish, with the lists of `deny.toml`: licences, banned crates, two versions of one
//! crate, and where they come from. `cargo deny` does the same for all platforms before a release.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::tools::cargo::{cargo, root};
use crate::tools::workspace::{WORKSPACES, packages};

#[test]
fn what_we_publish_depends_only_on_what_deny_toml_allows() {
    let config = fs::read_to_string(root().join("deny.toml")).unwrap();
    let [licences, banned, skipped] =
        [("licenses", "allow"), ("bans", "deny"), ("bans", "skip")].map(|(section, key)| list(&config, section, key));
    let published = published();
    assert!(published.len() > 50, "the check sees nothing: {published:?}");
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = BTreeSet::new();
    for (name, _, licence) in &published {
        *versions.entry(name).or_default() += 1;
        if !is_allowed(licence, &licences) {
            wrong.insert(format!("{name}: the licence `{licence}`"));
        }
        if banned.contains(name) {
            wrong.insert(format!("{name}: banned"));
        }
    }
    let twice = versions.into_iter().filter(|(name, count)| *count > 1 && !skipped.iter().any(|it| it == name));
    wrong.extend(twice.map(|(name, count)| format!("{name}: {count} versions")));
    assert!(wrong.is_empty(), "take these out, or change deny.toml: {wrong:#?}");
}

/// Also of what only tests and examples use.
#[test]
fn all_crates_come_from_crates_io() {
    const CRATES_IO: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    for workspace in WORKSPACES {
        let lock = fs::read_to_string(root().join(workspace).with_extension("lock")).unwrap();
        let sources = lock.lines().filter(|line| line.starts_with("source = "));
        assert_eq!(sources.filter(|line| *line != CRATES_IO).collect::<Vec<_>>(), [""; 0], "{workspace}");
    }
}

#[test]
fn a_licence_is_read_as_spdx_and_as_older_manifests_write_it() {
    let allowed = |licence: &str| is_allowed(licence, &["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned));
    assert!(allowed("MIT") && allowed("GPL-3.0 OR MIT") && allowed("GPL-3.0/MIT"));
    assert!(allowed("(MIT OR GPL-3.0) AND Unicode-3.0") && allowed("MIT AND (GPL-3.0 OR (Apache-2.0))"));
    assert!(!allowed("GPL-3.0") && !allowed("") && !allowed("MIT AND GPL-3.0"));
    assert!(!allowed("(MIT OR GPL-3.0) AND BSL-1.0") && !allowed("Apache-2.0 WITH LLVM-exception"));
}

#[test]
fn a_list_is_read_with_its_comments() {
    let config = "[licenses]\nallow = [\n  # \"GPL\"\n  \"MIT\", # \"ISC\"\n  \"Zlib\",\n]\n[bans]\nallow = [\"x\"]\nskip = []\n";
    assert_eq!(list(config, "licenses", "allow"), ["MIT", "Zlib"]);
    assert_eq!((list(config, "bans", "allow"), list(config, "bans", "skip")), (vec!["x".to_owned()], vec![]));
}

/// Names, versions and licences of what goes into the crates on crates.io with all their features, without what only their
/// tests use.
fn published() -> BTreeSet<(String, String, String)> {
    let arguments = ["tree", "--locked", "--all-features", "--edges", "normal,build", "--prefix", "none"];
    let mut command = cargo(&arguments);
    command.args(["--format", "{p}|{l}"]);
    let ours = packages().unwrap().into_iter().filter(|package| package.is_published);
    let output = command.args(ours.flat_map(|package| ["--package".to_owned(), package.name])).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |line: &str| {
        let (package, licence) = line.trim_end_matches(" (*)").split_once('|')?;
        let mut words = package.split(' ').map(str::to_owned);
        Some((words.next()?, words.next()?, licence.to_owned()))
    };
    String::from_utf8(output.stdout).unwrap().lines().filter_map(read).collect()
}

/// Whether a licence's expression can be met with the allowed ones.
fn is_allowed(licence: &str, allowed: &[String]) -> bool {
    let licence = licence.replace('/', " OR ");
    let licence = licence.trim();
    // `OR` binds less than `AND`.
    for (word, enough) in [(" OR ", 1), (" AND ", usize::MAX)] {
        let parts = split(licence, word);
        if parts.len() > 1 {
            return parts.iter().filter(|part| is_allowed(part, allowed)).count() >= enough.min(parts.len());
        }
    }
    match licence.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => is_allowed(inner, allowed),
        None => allowed.iter().any(|allowed| allowed == licence),
    }
}

/// The parts around a word that is in no parentheses.
fn split<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let is_outside = |at: usize| text[..at].matches('(').count() == text[..at].matches(')').count();
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(word).filter(|(at, _)| is_outside(*at)) {
        parts.push(&text[start..at]);
        start = at + word.len();
    }
    parts.push(&text[start..]);
    parts
}

/// A list of texts in `deny.toml`.
fn list(config: &str, section: &str, key: &str) -> Vec<String> {
    let code: Vec<&str> = config.lines().map(|line| line.split('#').next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let section = code.split_once(&format!("[{section}]\n")).map_or("", |(_, after)| after);
    let section = section.split("\n[").next().unwrap_or_default();
    let list = section.split_once(&format!("{key} = [")).map_or("", |(_, after)| after);
    list.split(']').next().unwrap_or_default().split('"').skip(1).step_by(2).map(str::to_owned).collect()
}
