//! Checks the documentation: no link is broken, and the first pages stay short.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tools::cargo::root;
use crate::tools::workspace::packages;

/// The first pages that newcomers see: how many lines each may have, and how many columns.
const SHORT: [(&str, usize, usize); 3] =
    [("README.md", 150, 120), ("bindings-js/README.md", 150, 120), ("ARCHITECTURE.md", 150, 130)];

/// How many columns of code fit into the manual's text. More would be cut, often at the comment that explains.
const CODE: usize = 76;

/// The beginnings of absolute links into the repository. The npm page needs absolute links.
const REPOSITORY: [&str; 3] = [
    "https://github.com/leasehold/leasehold/blob/main/",
    "https://github.com/leasehold/leasehold/tree/main/",
    "https://raw.githubusercontent.com/leasehold/leasehold/main/",
];

#[test]
fn the_first_pages_are_short() {
    for (path, lines, columns) in SHORT {
        let text = fs::read_to_string(root().join(path)).unwrap();
        assert!(text.lines().count() <= lines, "{path} has {} lines, and the limit is {lines}", text.lines().count());
        for (number, line) in text.lines().enumerate() {
            let width = line.chars().count();
            assert!(width <= columns, "{path}:{}: {width} columns, and the limit is {columns}", number + 1);
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    assert!(pages.len() > 20, "{pages:?}");
    let mut broken = Vec::new();
    let mut seen = 0;
    for page in &pages {
        for link in links(&fs::read_to_string(page).unwrap()) {
            seen += 1;
            if let Some(problem) = problem(page, &link) {
                broken.push(format!("{}: {link}: {problem}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(seen > 100, "{seen} links");
}

#[test]
fn no_code_of_the_manual_is_cut() {
    let mut cut = Vec::new();
    for page in pages().into_iter().filter(|page| page.parent() == Some(&root().join("docs"))) {
        for (number, line) in code(&fs::read_to_string(&page).unwrap()) {
            if line.chars().count() > CODE {
                cut.push(format!("{}:{number}: {line}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(cut.is_empty(), "the limit is {CODE} columns: {cut:#?}");
}

/// GitHub, crates.io, npm and the manual begin with the same programs.
#[test]
fn the_first_lock_is_the_same_on_all_first_pages() {
    let first = |page: &str, opening: &str| {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let (_, rest) = text.split_once("\n## First lock\n").unwrap_or_else(|| panic!("{page}"));
        let (_, program) = rest.split_once(opening).unwrap_or_else(|| panic!("{page}: {opening}"));
        program.split("```").next().unwrap_or_default().to_owned()
    };
    for (opening, pages) in
        [("```rust,no_run\n", ["README.md", "native/README.md"]), ("```js\n", ["README.md", "bindings-js/README.md"])]
    {
        for page in pages {
            assert_eq!(first(page, opening), first("docs/README.md", opening), "{page}");
        }
    }
}

/// crates.io resolves relative links from the crate's own directory.
#[test]
fn the_page_of_a_published_crate_is_in_its_own_directory() {
    for package in packages().unwrap().into_iter().filter(|package| package.is_published) {
        let manifest = fs::read_to_string(package.directory.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("\nreadme = \"README.md\"\n"), "{}", package.name);
    }
}

#[test]
fn the_manual_lists_all_of_its_pages() {
    let contents: BTreeSet<String> =
        links(&fs::read_to_string(root().join("docs/README.md")).unwrap()).into_iter().collect();
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            !name.ends_with(".md") || name == "README.md" || contents.contains(&name),
            "docs/README.md doesn't list {name}"
        );
    }
}

/// GitHub shows the lines that rustdoc hides, and who copies them gets a program that doesn't compile.
#[test]
fn no_rust_on_a_page_has_hidden_lines() {
    for page in pages() {
        let mut rust = false;
        for (number, line) in fs::read_to_string(&page).unwrap().lines().enumerate() {
            if line.starts_with("```") {
                rust = !rust && line.starts_with("```rust");
            }
            let hidden = rust && (line == "#" || line.starts_with("# "));
            assert!(!hidden, "{}:{}: {line}", page.strip_prefix(root()).unwrap().display(), number + 1);
        }
    }
}

/// What is wrong with a link on a page.
fn problem(page: &Path, link: &str) -> Option<String> {
    let (place, anchor) = link.split_once('#').unwrap_or((link, ""));
    let inside = REPOSITORY.iter().find_map(|start| place.strip_prefix(start));
    let path = match inside {
        Some(path) => root().join(path),
        None if place.contains("://") || place.starts_with("mailto:") => return None,
        None if place.is_empty() => page.to_owned(),
        None => page.parent()?.join(place),
    };
    if !path.exists() {
        return Some("no such file".to_owned());
    }
    if anchor.is_empty() || path.extension().is_none_or(|extension| extension != "md") {
        return None;
    }
    let headings = headings(&fs::read_to_string(&path).unwrap());
    (!headings.contains(anchor)).then(|| format!("no such heading, only {headings:?}"))
}

/// All pages of the repository.
fn pages() -> Vec<PathBuf> {
    let (mut pages, mut directories) = (Vec::new(), vec![root()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && !["target", "node_modules", "dist"].contains(&&*name) {
                directories.push(path);
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The lines outside of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The lines of code and of output, with their numbers.
fn code(text: &str) -> Vec<(usize, &str)> {
    let (mut lines, mut language) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), language) {
            (Some(opened), None) => language = Some(opened),
            (Some(_), Some(_)) => language = None,
            (None, None) => {}
            (None, Some(_)) => lines.push((number + 1, line)),
        }
    }
    lines
}

/// The targets of `[text](target)` and `[name]: target`.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose(text) {
        let shown: String = line.split('`').step_by(2).collect();
        links.extend(shown.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to.to_owned()));
        if let Some((_, to)) = shown.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            links.push(to.trim().to_owned());
        }
    }
    links
}

/// The anchors of a page's headings, as GitHub makes them.
fn headings(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|line| line.strip_prefix('#').map(|rest| rest.trim_start_matches('#')));
    headings.filter_map(|rest| rest.strip_prefix(' ')).map(anchor).collect()
}

fn anchor(heading: &str) -> String {
    let kept =
        heading.trim().to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    kept.replace(' ', "-")
}
