//! The bounds and the defaults that comments and the manual give are those of the engine's table. After a change of a bound,
//! `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes the new one into all of them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use leasehold_core::Setting;

use crate::generated::{check, read, settings};

/// The options' own comments, which give their bounds, and perhaps their default: the file, and the line below such a comment.
pub(crate) const OWN_COMMENTS: &[(&str, &str)] = &[
    ("core/src/options.rs", "pub NAME:"),
    ("native/src/api/options.rs", "NAME("),
    ("cli/src/args.rs", "pub(crate) NAME:"),
    ("wit/locks.wit", "NAME:"),
    ("wit/locks.wit", "NAME-ms:"),
];

/// Other comments with the bounds of an option: the file, and the line below the comment or with it.
const COMMENTS: &[(&str, &str, &str)] = &[
    ("ttl", "native/src/api/lease.rs", "pub async fn extend("),
    ("ttl", "native/src/api/lease.rs", "pub async fn shorten("),
    ("ttl", "native/src/api/lease.rs", "pub async fn detach_for("),
    ("ttl", "bindings-js/ts/api/lease.ts", "async extend("),
    ("ttl", "bindings-js/ts/api/lease.ts", "async shorten("),
    ("ttl", "bindings-js/ts/dropins/redis-semaphore.ts", "lockTimeout?:"),
    ("ttl", "bindings-js/ts/api/lease.ts", "async detach("),
    ("ttl", "bindings-js/ts/api/options.ts", "readonly for?:"),
    ("ttl", "bindings-js/ts/api/election.ts", "readonly ttl?:"),
    ("ttl", "native/src/api/election.rs", "pub fn ttl("),
    ("ttl", "wit/locks.wit", "detach: async func("),
    ("ttl", "docs/kinds.md", "- `detach_for(time)`"),
    ("ttl", "docs/drop-ins.md", "| durations |"),
    ("ttl", "docs/drop-ins.md", "| `lockTimeout` |"),
    ("wait", "core/src/options.rs", "For(Duration)"),
    ("wait_for_replicas", "core/src/options.rs", "pub timeout:"),
    ("wait_for_replicas", "bindings-js/ts/api/validate.ts", "readonly timeout:"),
    ("limit", "core/src/options.rs", "limit: u32"),
    ("limit", "native/src/api/manager.rs", "pub fn semaphore("),
    ("limit", "wit/locks.wit", "limit: u32"),
    ("limit", "docs/kinds.md", "- The limit is"),
    ("keep", "core/src/options.rs", "keep: Duration"),
    ("per", "native/src/api/lock.rs", "pub fn per("),
    ("per", "docs/kinds.md", "- The window is"),
    ("drain", "core/src/event.rs", "grace: Duration,"),
    ("drain", "native/src/api/manager.rs", "pub fn close_draining("),
    ("drain", "bindings-js/ts/api/lock-manager.ts", "async close("),
    ("drain", "bindings-js/ts/nestjs/module.ts", "readonly drain?:"),
    ("drain", "docs/shutting-down.md", "The time can be"),
    ("response_timeout", "cli/src/args.rs", "pub(crate) timeout:"),
    ("response_timeout", "wit/connection.wit", "open: static async func("),
];

/// Own comments without the bounds: the type of the option has them.
const WITHOUT_BOUNDS: &[(&str, &str)] =
    &[("core/src/options.rs", "wait"), ("wit/locks.wit", "wait"), ("wit/locks.wit", "limit")];

/// Comments with another default.
const OWN_DEFAULTS: &[&str] = &["lockTimeout?:", "readonly for?:"];

/// Bounds in comments that are of no option.
const OTHERS: &[&str] = &["0 to 16,383", "1 to 65,535", "1 ms to 10 minutes"];

/// Where bounds may stand: folders, and all that is in them.
const FOLDERS: &[&str] = &[
    "core/src",
    "native/src",
    "cli/src",
    "memory/src",
    "lua",
    "bindings-wasi/lock/src",
    "bindings-js/ts",
    "wit",
    "docs",
];

#[test]
fn comments_give_the_bounds_and_the_defaults_of_the_table() {
    // The lines of each file whose bounds are of a known option.
    let mut known = BTreeSet::new();
    for (name, file, item) in COMMENTS {
        let setting = settings().find(|setting| setting.name == *name).unwrap();
        let lines = comments_give_the_bounds(file, item, setting);
        assert!(!lines.is_empty(), "{file} has no `{item}`");
        known.extend(lines.into_iter().map(|line| (*file, line)));
    }
    for setting in settings().filter(|setting| !setting.bounds.text.is_empty()) {
        for (file, form) in OWN_COMMENTS.iter().filter(|(file, _)| !WITHOUT_BOUNDS.contains(&(file, setting.name))) {
            let name = if file.ends_with(".wit") { setting.name.replace('_', "-") } else { setting.name.to_owned() };
            let lines = comments_give_the_bounds(file, &form.replace("NAME", &name), setting);
            known.extend(lines.into_iter().map(|line| (*file, line)));
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut unknown = String::new();
    for path in FOLDERS.iter().flat_map(|folder| files(&root.join(folder))) {
        let file = path.strip_prefix(&root).unwrap().to_str().unwrap();
        for (line, bounds) in bounds_of(&fs::read_to_string(&path).unwrap(), file.ends_with(".md")) {
            if !known.contains(&(file, line)) && !OTHERS.contains(&bounds.as_str()) {
                let _ = writeln!(unknown, "{file}:{}: {bounds}", line + 1);
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "the bounds of which options are these? Add the lines to COMMENTS in bounds.rs:\n{unknown}"
    );
}

/// The files that people write, and no tests.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if path.is_dir() {
            let is_ours = !name.starts_with('.') && !["node_modules", "deps"].contains(&name);
            found.extend(if is_ours { files(&path) } else { Vec::new() });
        } else {
            // The tables of `options.md` are generated.
            let skipped = [".generated.", ".test.", "options.md"].iter().any(|part| name.contains(part));
            let is_text = [".rs", ".ts", ".wit", ".md"].iter().any(|ending| name.ends_with(ending));
            found.extend((is_text && !skipped).then_some(path));
        }
    }
    found
}

/// The bounds in the comments of a file, or in all of its text: those of times, and of numbers from 1,000 on. With the line of each.
fn bounds_of(text: &str, is_prose: bool) -> Vec<(usize, String)> {
    let is_comment = |line: &str| is_prose || ["//", "*", "/*"].iter().any(|mark| line.trim_start().starts_with(mark));
    let words: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| is_comment(line))
        .flat_map(|(at, line)| line.split_whitespace().map(move |word| (at, word)))
        .filter(|(_, word)| !["///", "//!", "//", "*", "/**", "|"].contains(word))
        .collect();
    let number = |word: &str| {
        let digits: String =
            word.trim_start_matches('(').chars().take_while(|it| it.is_ascii_digit() || *it == ',').collect();
        digits.replace(',', "").parse::<u64>().ok()
    };
    let mut found = Vec::new();
    for (at, (line, _)) in words.iter().enumerate() {
        let next: Vec<&str> =
            words[at..].iter().take(5).map(|(_, word)| word.trim_matches(['(', ')', ',', '.', ':', ';'])).collect();
        match *next {
            [least, "ms" | "s" | "days", "to", most, _] if number(least).and(number(most)).is_some() => {
                found.push((*line, next.join(" ")));
            }
            [least, "to", most, ..] if number(least).is_some() && number(most).is_some_and(|most| most >= 1_000) => {
                found.push((*line, next[..3].join(" ")));
            }
            _ => {}
        }
    }
    found
}

/// The comments of all such lines must give the bounds. Returns their lines.
fn comments_give_the_bounds(file: &str, item: &str, setting: &Setting) -> Vec<usize> {
    let path = format!("../{file}");
    let mut lines: Vec<String> = read(&path).lines().map(str::to_owned).collect();
    let found = (0..lines.len()).filter(|at| lines[*at].trim_start().starts_with(item)).collect::<Vec<_>>();
    let mut known = Vec::new();
    for end in &found {
        let is_comment =
            |line: &String| ["///", "*", "/**", "#[", "@"].iter().any(|mark| line.trim_start().starts_with(mark));
        let start = lines[..*end].iter().rposition(|line| !is_comment(line)).map_or(0, |before| before + 1);
        known.extend(start..=*end);
        for line in &mut lines[start..=*end] {
            *line = with_bounds(line, setting);
        }
        let comment = lines[start..=*end].join("\n");
        let words: Vec<_> = comment.split_whitespace().filter(|word| !["///", "*", "/**"].contains(word)).collect();
        let comment = words.join(" ");
        let (least, most, bounds) = (setting.bounds.least, setting.bounds.most, setting.bounds.text);
        let told = comment.contains(bounds) || comment.contains(&format!("{least} to {most}"));
        assert!(told, "{file}: the comment of `{item}` does not give the bounds in one line: {bounds}");
        if let Some((_, default)) = comment.split_once("Default").filter(|_| setting.default_number > 0) {
            let default = default.trim_start_matches([':', ' ', '`', '\'']);
            let number = setting.default_number.to_string();
            let forms = [setting.default, &setting.default.replace(' ', ""), &number];
            let told = forms.iter().any(|form| default.contains(form)) || OWN_DEFAULTS.contains(&item);
            assert!(told, "{file}: the default of `{item}` is not {}", setting.default);
        }
    }
    check(&path, &(lines.join("\n") + "\n"));
    known
}

/// The line with these bounds in place of others: `10 ms to 30 days`, or just the numbers where the line has no units.
fn with_bounds(line: &str, Setting { bounds, .. }: &Setting) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    for (at, length) in (0..words.len()).flat_map(|at| [(at, 5), (at, 3)]) {
        let Some(found) = words.get(at..at + length) else { continue };
        let last = found[length - 1].trim_end_matches(['.', ',', ';', ':', ')']);
        let is_number = |word: &str| word.trim_start_matches('(').starts_with(|first: char| first.is_ascii_digit());
        let is_unit = |word: &str| ["ms", "s", "days"].contains(&word);
        let text = match found {
            [least, low, "to", most, _] if is_number(least) && is_unit(low) && is_number(most) && is_unit(last) => {
                bounds.text.to_owned()
            }
            [least, "to", _] if is_number(least) && is_number(last) && bounds.text.split(' ').count() == 3 => {
                bounds.text.to_owned()
            }
            [least, "to", _] if is_number(least) && is_number(last) => format!("{} to {}", bounds.least, bounds.most),
            _ => continue,
        };
        let open = if found[0].starts_with('(') { "(" } else { "" };
        let close = &found[length - 1][last.len()..];
        let text = format!("{open}{text}{close}");
        return [&words[..at], &[text.as_str()], &words[at + length..]].concat().join(" ");
    }
    line.to_owned()
}
