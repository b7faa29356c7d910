//! One result for all callers: each name of a `once` has at most one stored result, all callers that get a result get that
//! one, and nobody works after the first caller has got it.

use std::collections::{HashMap, HashSet};

use super::story::{Call, Story};
use super::{Rule, Verdict};
use crate::history::Entry;

/// What is known of the result of a name.
#[derive(Default)]
struct Result<'a> {
    /// The token and the value, as the server has stored them.
    stored: Option<(&'a str, &'a str)>,
    /// The first answer: when, to whom, and which value.
    answered: Option<(u64, &'a str, &'a str)>,
    answers: u64,
}

pub(super) fn judge(story: &Story<'_>, verdict: &mut Verdict) {
    let call = |place: &usize| story.calls.get(*place);
    let writers: HashMap<&str, &Call<'_>> =
        story.wrote.iter().filter_map(|(place, value)| Some((*value, call(place)?))).collect();
    let mut results: HashMap<&str, Result<'_>> = HashMap::new();
    for (at, _, entry) in &story.server {
        let Entry::Stored { name, token, value } = entry else { continue };
        let stored = *results.entry(name).or_default().stored.get_or_insert((token, value));
        if stored != (token, value) {
            let text = format!("the result `{}` of `{name}` was replaced by `{value}` of {token}", stored.1);
            verdict.violated(Rule::OneResult, *at, name, text);
        }
        match writers.get(value.as_str()) {
            Some(writer) if writer.outcome == Some("lost") => {
                let text = format!("{} stored `{value}` for `{name}`, and was told that its lease was lost", writer.by);
                verdict.violated(Rule::OneResult, *at, name, text);
            }
            Some(_) => {}
            None => verdict.violated(Rule::OneResult, *at, name, format!("no work has the result `{value}`")),
        }
    }
    for (call, value) in story.answers.iter().filter_map(|(place, value)| Some((call(place)?, *value))) {
        let at = call.ended.unwrap_or(call.began);
        let result = results.entry(call.name).or_default();
        result.answers += 1;
        let (_, other, first) = *result.answered.get_or_insert((at, call.by, value));
        let stored = result.stored.map_or(first, |(_, stored)| stored);
        if value != first || value != stored {
            let name = call.name;
            let text =
                format!("{} got `{value}` from `{name}`, {other} got `{first}`, and `{stored}` is stored", call.by);
            verdict.violated(Rule::OneResult, at, name, text);
        }
    }
    for lease in story.leases.iter().filter(|lease| lease.was_held()) {
        let answered = results.get(lease.name).and_then(|result| result.answered);
        if let Some((at, by, value)) = answered.filter(|(at, ..)| lease.from > *at) {
            let after = lease.from - at;
            let text = format!("{} worked for `{}` {after} us after {by} got `{value}`", lease.shown(), lease.name);
            verdict.violated(Rule::OneResult, lease.from, lease.name, text);
        }
    }
    let figures = &mut verdict.figures;
    let answered = results.values().filter(|result| result.answers > 0);
    figures.onces = answered.clone().count() as u64;
    figures.answers = answered.map(|result| result.answers).sum();
    let stored: HashSet<&str> = results.values().filter_map(|result| Some(result.stored?.1)).collect();
    figures.repeated = writers.keys().filter(|value| !stored.contains(*value)).count() as u64;
    let missing: Vec<&str> = results
        .iter()
        .filter(|(_, result)| result.answers > 0 && result.stored.is_none())
        .map(|(name, _)| *name)
        .collect();
    for name in missing {
        verdict.violated(
            Rule::OneResult,
            story.end,
            name,
            format!("callers got a result of `{name}`, and none is stored"),
        );
    }
}
