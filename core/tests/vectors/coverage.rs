//! Which inputs, outputs, outcomes and errors the vectors have.

use std::collections::BTreeSet;

use serde_json::Value;

const EVERYTHING: [(&str, &[&str]); 9] = [
    (
        "input",
        &[
            "acquire",
            "acquire-all",
            "cancel",
            "release",
            "extend",
            "convert",
            "hold",
            "verify",
            "inspect",
            "close",
            "reply",
            "message",
            "subscribed",
            "unsubscribed",
            "wake",
        ],
    ),
    ("reply", &["one", "list", "refused", "unavailable", "interrupted", "timed-out", "unsupported"]),
    ("output", &["send", "subscribe", "unsubscribe", "completed", "lost"]),
    (
        "result",
        &[
            "acquired",
            "acquired-all",
            "released",
            "extended",
            "converted",
            "held",
            "verified",
            "inspected",
            "closed",
            "error",
        ],
    ),
    ("released", &["released", "still-held", "already-expired", "not-owner"]),
    (
        "error",
        &[
            "invalid-option",
            "not-held",
            "conflict",
            "unsupported",
            "cross-slot",
            "closed",
            "busy",
            "cancelled",
            "lost",
            "unreachable",
            "auth",
            "server",
            "protocol",
            "wrong-kind",
        ],
    ),
    ("reason", &["expired", "gone", "taken", "max-hold"]),
    (
        "field",
        &[
            "name",
            "names",
            "ttl",
            "wait",
            "max_hold",
            "local_handoffs",
            "claim_window",
            "response_timeout",
            "node_timeout",
            "fence_retention",
            "servers",
        ],
    ),
    ("vote", &["none", "agreed", "timed-out", "busy", "unreachable"]),
];

#[derive(Default)]
pub(crate) struct Coverage(BTreeSet<(&'static str, String)>);

impl Coverage {
    pub(crate) fn add(&mut self, file: &Value) {
        self.seen("field", &file["refused"]["field"]);
        for step in file["steps"].as_array().into_iter().flatten() {
            self.seen("input", &step["input"]);
            self.seen("reply", &step["input"]["reply"]["result"]);
            for output in step["outputs"].as_array().into_iter().flatten() {
                self.seen("output", output);
                self.seen("reason", &output["lost"]["reason"]);
                let result = &output["completed"]["result"];
                self.seen("result", result);
                self.seen("released", &result["released"]);
                self.seen("error", &result["error"]["code"]);
                self.seen("field", &result["error"]["field"]);
                for vote in result["error"]["votes"].as_array().into_iter().flatten() {
                    let answer = vote["answer"].as_str().unwrap_or("none");
                    self.0.insert(("vote", answer.to_string()));
                }
            }
        }
    }

    pub(crate) fn missing(&self) -> Vec<String> {
        let all = EVERYTHING.iter().flat_map(|(kind, words)| words.iter().map(move |word| (*kind, word.to_string())));
        all.filter(|seen| !self.0.contains(seen)).map(|(kind, word)| format!("{kind} {word}")).collect()
    }

    /// A bare word, or the one key of an object.
    fn seen(&mut self, kind: &'static str, value: &Value) {
        let word = value.as_str().or_else(|| value.as_object()?.keys().next().map(String::as_str));
        self.0.extend(word.map(|word| (kind, word.to_string())));
    }
}
