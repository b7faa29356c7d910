//! Checks the imports between the folders of all our Rust crates, by their `use` lines.
//!
//! Imports between the folders below `src` point one way. A file directly in `src` counts as a folder of its own, unless
//! there are no folders. Inside a folder there are no cycles of imports, but for those in [`KNOWN`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::tools::workspace::packages;

/// The cycles that are left. Whoever opens one takes it off the list; none may be added.
const KNOWN: &[&str] =
    &["leasehold-playground: a cycle of imports: world, world/client, world/network, world/resource, world/server"];

/// What each module imports: `lock/hold` has the modules `time`, `session` and so on.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn imports_point_one_way() {
    let mut wrong = Vec::new();
    for package in packages().unwrap().iter().filter(|package| package.has_ordered_folders) {
        let imports = imports(&package.directory.join("src"));
        wrong.extend(problems(&imports).into_iter().map(|problem| format!("{}: {problem}", package.name)));
    }
    let new: Vec<_> = wrong.iter().filter(|problem| !KNOWN.contains(&problem.as_str())).collect();
    assert!(new.is_empty(), "{new:#?}");
    let open: Vec<_> = KNOWN.iter().filter(|known| !wrong.iter().any(|problem| problem == *known)).collect();
    assert!(open.is_empty(), "take these off the list, because they are gone: {open:#?}");
}

#[test]
fn a_cycle_is_found() {
    let of = |lines: &[(&str, &str)]| {
        let mut imports = Imports::new();
        for (from, to) in lines {
            imports.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            imports.entry((*to).to_owned()).or_default();
        }
        problems(&imports)
    };
    assert_eq!(of(&[("lock/hold", "session"), ("session", "time"), ("lock/hold", "lock")]), [""; 0]);
    assert_eq!(of(&[("lock/hold", "lock"), ("lock", "lock/hold")]), ["a cycle of imports: lock, lock/hold"]);
    assert_eq!(
        of(&[("lock/hold", "session/calls"), ("session/calls", "lock/claim")]),
        ["lock and session import each other"]
    );
    let ring = [("a/a", "a/b"), ("a/b", "a/c"), ("a/c", "a/d"), ("a/d", "a/a")];
    assert_eq!(of(&ring), ["a cycle of imports: a/a, a/b, a/c, a/d"]);
    assert_eq!(of(&ring[..3]), [""; 0]);
}

#[test]
fn every_form_of_import_is_read() {
    let modules = ["lib", "time", "lock", "lock/hold", "session/calls", "session"].map(str::to_owned).into();
    let of_folder = |text: &str| read("lock", text, &modules);
    let read = |text: &str| read("lock/hold", text, &modules);
    assert_eq!(read("use crate::time::Instant;"), BTreeSet::from(["time".to_owned()]));
    assert_eq!(read("use super::Lock;\nuse crate::{time, session::{self, calls::Call}};").len(), 4);
    assert_eq!(read("fn f() -> crate::session::calls::Call {}"), BTreeSet::from(["session/calls".to_owned()]));
    assert_eq!(of_folder("mod hold;\npub(crate) use hold::Hold;").len(), 0);
    let uses = "mod hold;\npub(crate) use hold::{Hold, Kept};\nstruct Lock { kept: Kept }";
    assert_eq!(of_folder(uses), BTreeSet::from(["lock/hold".to_owned()]));
    assert_eq!(
        read("// crate::time::Instant\n/// [`crate::session`]\n#[cfg(test)]\nmod tests { use crate::time; }").len(),
        0
    );
}

/// What is wrong, one line each.
fn problems(imports: &Imports) -> Vec<String> {
    let is_flat = imports.keys().all(|module| !module.contains('/'));
    let folder = |module: &str| module.split('/').next().filter(|_| !is_flat).unwrap_or_default().to_owned();
    let mut folders = Imports::new();
    for (module, used) in imports {
        let others = used.iter().map(|used| folder(used)).filter(|used| *used != folder(module));
        folders.entry(folder(module)).or_default().extend(others);
    }
    let between = cycles(&folders).into_iter().map(|cycle| format!("{} import each other", cycle.join(" and ")));
    let inside =
        cycles(imports).into_iter().filter(|cycle| cycle.iter().all(|module| folder(module) == folder(&cycle[0])));
    between.chain(inside.map(|cycle| format!("a cycle of imports: {}", cycle.join(", ")))).collect()
}

/// The groups of modules that reach each other.
fn cycles(imports: &Imports) -> Vec<Vec<String>> {
    let reaches: BTreeMap<&String, BTreeSet<String>> =
        imports.keys().map(|from| (from, reach(from, imports))).collect();
    let mut groups = BTreeSet::new();
    for (from, reached) in &reaches {
        let group: Vec<String> =
            reached.iter().filter(|to| reaches.get(to).is_some_and(|back| back.contains(*from))).cloned().collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

/// The modules that are reached from one, over any number of imports.
fn reach(from: &str, imports: &Imports) -> BTreeSet<String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = next.pop() {
        for used in imports.get(&module).into_iter().flatten() {
            if reached.insert(used.clone()) {
                next.push(used.clone());
            }
        }
    }
    reached
}

fn imports(source: &Path) -> Imports {
    let files = files(source);
    let modules: BTreeSet<String> = files.iter().map(|(module, _)| module.clone()).collect();
    files
        .iter()
        .map(|(module, path)| {
            let text = fs::read_to_string(path).unwrap_or_default();
            (module.clone(), read(module, &text, &modules))
        })
        .collect()
}

/// All modules below a directory, with their files.
pub(super) fn files(source: &Path) -> Vec<(String, PathBuf)> {
    let (mut found, mut next) = (Vec::new(), vec![source.to_owned()]);
    while let Some(directory) = next.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                next.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(source).unwrap_or(&path).with_extension("");
                let name = name.to_string_lossy().replace('\\', "/");
                found.push((name.strip_suffix("/mod").unwrap_or(&name).to_owned(), path));
            }
        }
    }
    found
}

/// The modules that a file imports. What its own tests import does not count, and neither does what a folder re-exports,
/// unless the folder's own file uses it, too.
fn read(module: &str, text: &str, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            // `pub(super)`, and `super::` inside of `super::super::`.
            if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == ':') {
                continue;
            }
            let parent = match start {
                "crate::" => Vec::new(),
                "self::" => module.split('/').collect(),
                _ => module.rsplit_once('/').map_or_else(Vec::new, |(parent, _)| parent.split('/').collect()),
            };
            for path in paths(&code[at + start.len()..]) {
                let used = longest(parent.iter().copied().chain(path.iter().map(String::as_str)), modules);
                found.insert(used.unwrap_or_else(|| "lib".to_owned()));
            }
        }
    }
    for (at, _) in code.match_indices("use ") {
        let statement = code[at + 4..].split(';').next().unwrap_or_default();
        let others = [&code[..at], &code[at + 4 + statement.len()..]].concat();
        for path in paths(statement) {
            let used = longest(module.split('/').chain(path.iter().map(String::as_str)), modules);
            found.extend(used.filter(|_| path.last().is_some_and(|name| mentions(&others, name))));
        }
    }
    found.remove(module);
    found
}

/// Whether code has this name, and not as a field or a method.
fn mentions(code: &str, name: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || char == '_';
    code.match_indices(name).any(|(at, _)| {
        !code[..at].ends_with(|char| is_part(char) || char == '.') && !code[at + name.len()..].starts_with(is_part)
    })
}

/// The paths of an import, with its braces expanded.
fn paths(text: &str) -> Vec<Vec<String>> {
    let word: String = text.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
    let rest = &text[word.len()..];
    if word.is_empty() && rest.starts_with('{') {
        return parts(rest).iter().flat_map(|part| paths(part)).collect();
    }
    match rest.strip_prefix("::") {
        Some(rest) => paths(rest).into_iter().map(|path| [vec![word.clone()], path].concat()).collect(),
        None => vec![vec![word]],
    }
}

/// The parts between a brace and its counterpart.
fn parts(text: &str) -> Vec<String> {
    let (mut depth, mut found) = (0, vec![String::new()]);
    for char in text.chars() {
        depth += i32::from(char == '{') - i32::from(char == '}');
        match char {
            '}' if depth == 0 => break,
            '{' if depth == 1 => {}
            ',' if depth == 1 => found.push(String::new()),
            char if char.is_whitespace() => {}
            char => found.iter_mut().next_back().into_iter().for_each(|part| part.push(char)),
        }
    }
    found.retain(|part| !part.is_empty());
    found
}

/// The longest beginning of a path that is a module.
fn longest<'a>(path: impl Iterator<Item = &'a str>, modules: &BTreeSet<String>) -> Option<String> {
    let mut best = None;
    let mut module = String::new();
    for part in path.filter(|part| *part != "self") {
        if part == "super" {
            module = module.rsplit_once('/').map_or_else(String::new, |(parent, _)| parent.to_owned());
            continue;
        }
        module = if module.is_empty() { part.to_owned() } else { format!("{module}/{part}") };
        if !modules.contains(&module) && !modules.iter().any(|other| other.starts_with(&format!("{module}/"))) {
            break;
        }
        if modules.contains(&module) {
            best = Some(module.clone());
        }
    }
    best
}
