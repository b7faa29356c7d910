//! Checks that the crate's public API has the types of the `redis` crate in one place: the module `redis_1`, which is named
//! after their version. So a new version of that crate breaks nothing else.

use std::collections::BTreeSet;
use std::fs;

use super::structure::files;
use crate::tools::cargo::root;

/// The only public module with such types.
const VERSIONED: &str = "api/redis_1";

#[test]
fn the_types_of_the_redis_crate_are_public_in_its_module_only() {
    let source = root().join("native/src");
    let read = |path| fs::read_to_string(path).unwrap();
    let leaks: Vec<_> = files(&source)
        .into_iter()
        .filter(|(module, _)| module != VERSIONED)
        .flat_map(|(module, path)| leaks(&module, &read(path)).into_iter().map(move |leak| format!("{module}: {leak}")))
        .collect();
    assert!(leaks.is_empty(), "move these to `{VERSIONED}`: {leaks:#?}");
    let versioned = leaks_of(&read(source.join(VERSIONED).with_extension("rs")), is_public);
    assert!(versioned.iter().any(|leak| leak.contains("ConnectionLike")), "the check sees nothing: {versioned:?}");
}

#[test]
fn a_leak_is_found() {
    let imports = "use std::fmt;\nuse redis::aio::{self, ConnectionLike as Like};\nuse redis::{Client, cmd};\n";
    let found = |module: &str, code: &str| leaks(module, &format!("{imports}{code}")).len();
    // The folder whose items are all public has no use for the crate.
    assert_eq!(found("api/manager", ""), 2);
    assert_eq!(leaks("api/manager", "fn f(client: redis::Client) {}").len(), 1);
    assert_eq!(leaks("api/manager", "/// A `redis::Client`.\nfn f() {} // redis::cmd").len(), 0);
    // Elsewhere, only what is public counts.
    assert_eq!(found("net/link", "pub(crate) fn f(client: Client) {}\nfn g() -> redis::Value {}"), 0);
    assert_eq!(found("net/link", "pub fn f() { let client: Client = redis::cmd(); }"), 0);
    assert_eq!(found("net/link", "pub async fn f(\n    client: &Client,\n) -> u32 {}"), 1);
    assert_eq!(found("net/link", "pub fn f<C>(with: C)\nwhere\n    C: Like,\n{}"), 1);
    assert_eq!(found("net/link", "pub use redis;\npub type Error = redis::RedisError;"), 2);
    assert_eq!(found("net/link", "pub struct A {\n    client: Client,\n    pub mine: Mine,\n}"), 0);
    assert_eq!(found("net/link", "pub struct A {\n    pub client: Client,\n}\npub struct B(pub aio::X);"), 2);
    assert_eq!(found("errors/error", "pub enum Error {\n    Broken(Mine),\n    Other { client: Client },\n}"), 1);
    assert_eq!(found("errors/error", "impl From<Client> for Error {}\nimpl Error {\n    fn f(_: Client) {}\n}"), 1);
    assert_eq!(found("net/link", "impl<C: Like> Connection for C {}\nmod tests { pub fn f(_: Clients) {} }"), 0);
}

fn leaks(module: &str, text: &str) -> Vec<String> {
    let code = code(text);
    if module == "lib" || module.starts_with("api") {
        return code.lines().filter(|line| has(line, "redis")).map(|line| line.trim().to_owned()).collect();
    }
    leaks_of(&code, |start| is_public(start) || module.starts_with("errors") && start.starts_with("impl"))
}

/// The items that begin so and have types of the `redis` crate where callers see them.
fn leaks_of(text: &str, counts: impl Fn(&str) -> bool) -> Vec<String> {
    let code = code(text);
    let names = names(&code);
    let starts = code.match_indices(|char: char| char.is_alphabetic()).map(|(at, _)| at);
    let starts = starts.filter(|at| !code[..*at].ends_with(|before: char| before.is_alphanumeric() || before == '_'));
    let items = starts.map(|at| &code[at..]).filter(|item| counts(item)).map(visible);
    items.filter(|item| names.iter().any(|name| has(item, name))).map(str::to_owned).collect()
}

fn is_public(item: &str) -> bool {
    item.starts_with("pub ")
}

/// What callers see of an item: no body, and no private field.
fn visible(item: &str) -> &str {
    let ends: &[char] = match item.split_whitespace().nth(1) {
        Some("use") => &[';'],
        // With its variants or its functions.
        Some("enum" | "trait") => return item.split_inclusive("\n}").next().unwrap_or(item),
        Some("struct") => &[';', '{', '('],
        Some("fn" | "async" | "const" | "static" | "type" | "mod") => &[';', '{'],
        _ if item.starts_with("impl") => &['{'],
        // A field.
        _ => &[',', ')', '}', '\n'],
    };
    item.split(ends).next().unwrap_or(item)
}

/// The types and modules that a file imports from the `redis` crate, and that crate's own name.
fn names(code: &str) -> BTreeSet<String> {
    let imports = code.split(';').filter_map(|item| item.split_once("use redis::")).map(|(_, import)| import);
    let paths = imports.flat_map(|import| import.split(['{', '}', ',']));
    let last = |path: &str| path.rsplit("::").map(str::trim).find(|part| !part.is_empty()).map(str::to_owned);
    let names =
        paths.filter_map(last).map(|name| name.rsplit_once(" as ").map_or(name.clone(), |(_, to)| to.to_owned()));
    // Others are functions, which no signature has.
    let is_module = |name: &str| matches!(name, "aio" | "cluster" | "sentinel");
    let names = names.filter(|name| name.starts_with(char::is_uppercase) || is_module(name));
    names.chain(["redis".to_owned()]).collect()
}

/// A file without its comments and its tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Whether a text has a word.
fn has(text: &str, word: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || char == '_' || char == '-';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}
