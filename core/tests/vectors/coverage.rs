//! The vectors have every variant of what an engine takes in and puts out.
//!
//! A variant gets its word in a match without a wildcard: a new one does not compile without a word, and fails the test
//! without a vector.

#[path = "files.rs"]
mod files;

use std::collections::BTreeSet;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use serde_json::Value;

use crate::{
    AcquireOptions, Config, ErrorCode, FailureKind, Family, Input, LOCK_SETTINGS, LossReason, MANAGER_SETTINGS, Mode,
    OutcomeKind, Output, ReleaseOutcome, Reply, Scalar, Wait,
};

/// The words of all variants of a type, from a match that must be exhaustive.
macro_rules! words {
    ($kind:literal, $of:ty { $($variant:pat => $word:literal,)+ }) => {{
        let _: fn(&$of) -> &'static str = |variant| match variant {
            $($variant => $word,)+
        };
        ($kind, vec![$($word),+])
    }};
}

fn everything() -> [(&'static str, Vec<&'static str>); 15] {
    [
        ("input", Input::NAMES.iter().map(|name| kebab_case(name)).collect()),
        ("kind", Family::ALL.iter().map(|kind| kind.code()).collect()),
        words!("mode", Mode {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
        }),
        words!("wait", Wait {
            Wait::No => "no",
            Wait::For(_) => "for",
            Wait::Forever => "forever",
        }),
        words!("reply", Reply {
            Reply::One(_) => "one",
            Reply::List(_) => "list",
        }),
        words!("scalar", Scalar {
            Scalar::Nil => "nil",
            Scalar::Int(_) => "int",
            Scalar::Text(_) => "text",
        }),
        ("failure", FailureKind::ALL.iter().map(|kind| kind.code()).collect()),
        words!("output", Output {
            Output::Send { .. } => "send",
            Output::SendDedicated { .. } => "send-dedicated",
            Output::CloseDedicated { .. } => "close-dedicated",
            Output::Subscribe { .. } => "subscribe",
            Output::Unsubscribe { .. } => "unsubscribe",
            Output::Completed { .. } => "completed",
            Output::Leader { .. } => "leader",
            Output::Lost { .. } => "lost",
        }),
        ("outcome", OutcomeKind::ALL.iter().map(|kind| kind.code()).collect()),
        ("released", ReleaseOutcome::ALL.iter().map(|outcome| outcome.code()).collect()),
        ("error", ErrorCode::ALL.iter().map(|code| code.code()).collect()),
        // Drivers report a close, not the engine.
        ("reason", LossReason::ALL.iter().filter(|it| **it != LossReason::Closed).map(|it| it.code()).collect()),
        ("field", fields().collect()),
        ("option", AcquireOptions::PLAIN.iter().chain(Config::PLAIN).map(|row| row.name).collect()),
        ("vote", vec!["none", "agreed", "timed-out", "busy", "unreachable"]),
    ]
}

/// `ForceRelease` as the files spell it.
fn kebab_case(name: &str) -> &'static str {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text.leak()
}

/// What can be refused: the options with bounds, names and servers.
fn fields() -> impl Iterator<Item = &'static str> {
    // No vector refuses these.
    let without = ["wait_for_replicas", "limit"];
    let settings = LOCK_SETTINGS.iter().chain(MANAGER_SETTINGS).filter(|it| !it.bounds.text.is_empty());
    settings.map(|it| it.name).filter(move |name| !without.contains(name)).chain(["name", "names", "servers"])
}

#[test]
fn the_vectors_take_in_and_put_out_everything_an_engine_can() {
    let mut seen = Seen::default();
    files::files().iter().for_each(|path| seen.file(&files::read(path)));
    let all = everything().into_iter().flat_map(|(kind, words)| words.into_iter().map(move |word| (kind, word)));
    let missing: Vec<_> = all.filter(|(kind, word)| !seen.0.contains(&(*kind, word.to_string()))).collect();
    assert!(missing.is_empty(), "no vector has these: {missing:?}");
}

#[derive(Default)]
struct Seen(BTreeSet<(&'static str, String)>);

impl Seen {
    fn file(&mut self, file: &Value) {
        self.word("field", &file["refused"]["field"]);
        self.options(&file["config"]);
        for step in file["steps"].as_array().into_iter().flatten() {
            self.input(&step["input"]);
            step["outputs"].as_array().into_iter().flatten().for_each(|output| self.output(output));
        }
    }

    fn input(&mut self, input: &Value) {
        self.word("input", input);
        self.word("failure", &input["unsubscribed"]["cause"]);
        let result = &input["reply"]["result"];
        self.word("reply", result);
        self.word("failure", result);
        let list = result["list"].as_array().into_iter().flatten();
        list.chain(result.get("one")).for_each(|scalar| self.scalar(scalar));
        self.word("mode", &input["convert"]["mode"]);
        if input.get("campaign").is_some() {
            self.insert("kind", "election");
        }
        let Some(acquire) = input.get("acquire") else { return };
        self.options(acquire);
        self.word("mode", &acquire["mode"]);
        let told = |kind: &&Family| kind.fields().first().is_some_and(|field| acquire.get(field).is_some());
        let kind = acquire["kind"].as_str().or_else(|| Some(Family::ALL.iter().find(told)?.code()));
        self.insert("kind", kind.unwrap_or("lock"));
        if acquire["wait"].is_number() {
            self.insert("wait", "for");
        }
        self.word("wait", &acquire["wait"]);
    }

    fn options(&mut self, given: &Value) {
        given.as_object().into_iter().flat_map(|given| given.keys()).for_each(|name| self.insert("option", name));
    }

    fn scalar(&mut self, scalar: &Value) {
        let word = match scalar {
            Value::Null => "nil",
            Value::Number(_) => "int",
            _ => "text",
        };
        self.insert("scalar", word);
    }

    fn output(&mut self, output: &Value) {
        self.word("output", output);
        self.word("reason", &output["lost"]["reason"]);
        let result = &output["completed"]["result"];
        self.word("outcome", result);
        self.word("released", &result["released"]);
        self.word("error", &result["error"]["code"]);
        self.word("field", &result["error"]["field"]);
        for vote in result["error"]["votes"].as_array().into_iter().flatten() {
            self.insert("vote", vote["answer"].as_str().unwrap_or("none"));
        }
    }

    /// A bare word, or the one key of an object.
    fn word(&mut self, kind: &'static str, value: &Value) {
        if let Some(word) = value.as_str().or_else(|| value.as_object()?.keys().next().map(String::as_str)) {
            self.insert(kind, word);
        }
    }

    fn insert(&mut self, kind: &'static str, word: &str) {
        self.0.insert((kind, word.to_string()));
    }
}
