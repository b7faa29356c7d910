//! What the server knows about a lock, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use leasehold::{Fence, Holder, Inspection, Mode, Waiter};
use leasehold_core::Ends;
use serde_json::{Value, json};

use crate::keyspace::client_of;
use crate::kinds::{Kind, Stored};

/// The lock for programs. Only some commands ask for its kind.
pub(crate) fn object(name: &str, seen: &Inspection, kind: Option<&Kind>) -> Value {
    let holders: Vec<Value> = seen
        .holders
        .iter()
        .map(|holder| {
            json!({
                "client": client_of(&holder.token), "label": holder.label, "lease_label": holder.lease_label,
                "token": holder.token,
                "mode": mode(holder.mode), "permits": kind.and_then(|kind| kind.permits_of(holder)),
                "held_ms": holder.held.map(milliseconds),
                "remaining_ms": holder.remaining.map(milliseconds), "foreign": holder.foreign,
            })
        })
        .collect();
    let waiters: Vec<Value> = seen
        .waiters
        .iter()
        .map(|waiter| {
            json!({
                "client": client_of(&waiter.token), "label": waiter.label, "lease_label": waiter.lease_label,
                "token": waiter.token,
                "mode": mode_of_waiter(waiter, kind), "waited_ms": waiter.waited.map(milliseconds), "callers": waiter.callers,
            })
        })
        .collect();
    let (leader, stored) = (kind.and_then(Kind::leader), kind.and_then(Kind::stored));
    json!({
        "name": name, "state": state_of(seen, kind), "kind": kind.map(Kind::word), "limit": seen.limit, "per_ms": seen.per.map(milliseconds),
        "permits": kind.and_then(|kind| kind.taken(seen)), "holders": holders, "waiters": waiters,
        "waiting": seen.waiting, "last_fence": seen.last_fence.map(Fence::get),
        "leader": leader.map(|leader| json!({ "fence": leader.fence, "value": leader.value })),
        "result": stored.map(|stored| json!({
            "fence": stored.fence, "client": stored.client, "began_ms": milliseconds(stored.began),
            "remaining_ms": milliseconds(stored.kept), "bytes": stored.bytes,
        })),
    })
}

/// The lock for people.
pub(crate) fn text(name: &str, seen: &Inspection, kind: Option<&Kind>) -> String {
    let mut text = format!("{}: {}", shown(name), state_of(seen, kind));
    if let Some(kind) = kind {
        let of = seen.limit.zip(kind.taken(seen));
        let permits = of.map(|(limit, taken)| match seen.per {
            Some(per) => format!(", a rate: {taken} of {limit} permits were started in the last {}", time(per)),
            None => format!(", {taken} of {limit} permits are taken"),
        });
        let permits = permits.unwrap_or_default();
        let _ = write!(text, "\n  kind    {}{permits}", kind.word());
        if let Some(leader) = kind.leader() {
            let value = if leader.value.is_empty() { "-".to_owned() } else { shown(&leader.value) };
            let _ = write!(text, ", term {}\n  value   {value}", leader.fence);
        }
    }
    if let Some(Stored { fence, client, began, kept, bytes }) = kind.and_then(Kind::stored) {
        let (client, began, kept) = (shown(client), time(*began), time(*kept));
        let _ = write!(text, "\n  result  stored, {bytes} bytes; the server keeps it for {kept}");
        let _ = write!(text, "{NEXT}its work began {began} ago, with the fence {fence}{NEXT}client {client}");
    }
    // Nobody holds the permits of a rate.
    let is_rate = seen.per.is_some();
    if let Some(next) = seen.holders.iter().filter_map(|holder| holder.remaining).min().filter(|_| is_rate) {
        let _ = write!(text, "\n  next    permits come back in {}", time(next));
    }
    for holder in seen.holders.iter().filter(|_| !is_rate) {
        let what = match kind {
            Some(Kind::Election(_)) => Some("leads".to_owned()),
            Some(kind) => kind.permits_of(holder).map(|permits| match permits {
                1 => "1 permit".to_owned(),
                permits => format!("{permits} permits"),
            }),
            None => None,
        };
        let (client, held) = (client_line(&holder.token, holder.label.as_deref()), held_of(holder, what.as_deref()));
        let _ = write!(text, "\n  holder  {}, {held}{NEXT}{}{client}", who(holder), left_of(holder));
    }
    for (place, waiter) in seen.waiters.iter().enumerate() {
        let what = mode_of_waiter(waiter, kind).map(|mode| format!(", {mode}")).unwrap_or_default();
        let waited = waiter.waited.map(|waited| format!(", waits for {}", time(waited))).unwrap_or_default();
        let callers = if waiter.callers > 1 { format!(", {} callers", waiter.callers) } else { String::new() };
        let who = shown(waiter.label.as_deref().unwrap_or_else(|| client_of(&waiter.token)));
        let (lease, client) =
            (in_parentheses(waiter.lease_label.as_deref()), client_line(&waiter.token, waiter.label.as_deref()));
        let _ = write!(text, "\n  waiter  {}. {who}{lease}{what}{waited}{callers}{client}", place + 1);
    }
    let unlisted = seen.waiting.saturating_sub(seen.waiters.len() as u64);
    if unlisted > 0 {
        let _ = write!(text, "\n  and {unlisted} more waiters");
    }
    if let Some(fence) = seen.last_fence {
        let _ = write!(text, "\n  fence   {fence}, of the server's last grant");
    }
    text
}

/// What is known of one holder or waiter is on several short lines, so that it fits on a narrow terminal.
const NEXT: &str = "\n          ";

/// The client's id on a line of its own, if a label is in its place.
fn client_line(token: &str, label: Option<&str>) -> String {
    label.map(|_| format!("{NEXT}client {}", shown(client_of(token)))).unwrap_or_default()
}

/// Only waiters of a mutex or a read-write lock have a mode that is known.
fn mode_of_waiter(waiter: &Waiter, kind: Option<&Kind>) -> Option<&'static str> {
    if kind.is_some_and(|kind| kind.is_semaphore() || kind.leader().is_some()) { None } else { Some(mode(waiter.mode)) }
}

/// What a key without a TTL is.
pub(crate) const ENDLESS_KEY: &str = "another library's key or other data, without a TTL";

/// Whether a key without a TTL is in the lock's place. It never ends by itself.
pub(crate) fn is_endless(seen: &Inspection) -> bool {
    seen.holders.iter().any(|holder| holder.foreign && holder.remaining.is_none())
}

/// Whether a lock is there, and so has a kind. Data without a TTL is none.
pub(crate) fn has_kind(seen: &Inspection) -> bool {
    !seen.holders.is_empty() && !is_endless(seen)
}

/// All that is known of a holder, on one line.
pub(crate) fn holder_line(holder: &Holder) -> String {
    let client = holder.label.as_ref().map(|_| format!(" ({})", shown(client_of(&holder.token)))).unwrap_or_default();
    format!("{}{client}, {}; {}", who(holder), held_of(holder, None), left_of(holder))
}

fn who(holder: &Holder) -> String {
    format!("{}{}", if holder.foreign { "of another library: " } else { "" }, lease_of(holder))
}

/// What it holds, in place of the mode, and for how long.
fn held_of(holder: &Holder, what: Option<&str>) -> String {
    let held = holder.held.map(|held| format!(" for {}", time(held))).unwrap_or_default();
    format!("{}{held}", what.unwrap_or(mode(holder.mode)))
}

fn left_of(holder: &Holder) -> String {
    match holder.remaining {
        Some(left) => format!("its lease expires in {} unless it is renewed", time(left)),
        None => "it has no TTL and never ends by itself".to_owned(),
    }
}

/// Who holds the lock, and for how long: a part of a message about a busy lock. Empty if it is free.
pub(crate) fn held_by(seen: &Inspection) -> String {
    const MOST: usize = 3;
    let held = |longest: Option<Duration>| longest.map(|held| format!(" for {}", time(held))).unwrap_or_default();
    match seen.holders.as_slice() {
        [] if seen.waiting > 0 => format!("{} wait for it", seen.waiting),
        [] => String::new(),
        // The value may be somebody's data, which belongs into no log.
        [_] if is_endless(seen) => format!("held by {ENDLESS_KEY}"),
        // Nobody holds the permits of a rate.
        holders if seen.per.is_some() => {
            let next = holders.iter().filter_map(|permits| permits.remaining).min();
            let text = Ends::Window.text().trim_start_matches("; ");
            next.map(|left| format!("{text}{}", time(left))).unwrap_or_default()
        }
        [one] => {
            let left = one.remaining.map(|left| format!("; its lease expires in {}", time(left))).unwrap_or_default();
            let who = if one.foreign { "another library".to_owned() } else { lease_of(one) };
            format!("held by {who}{}{left}", held(one.held))
        }
        holders => {
            let mut names: Vec<String> = holders.iter().take(MOST).map(lease_of).collect();
            if holders.len() > MOST {
                names.push("others".to_owned());
            }
            let longest = holders.iter().filter_map(|holder| holder.held).max();
            format!("held by {} holders{}: {}", holders.len(), held(longest), names.join(", "))
        }
    }
}

/// The label of a lease behind that of its client.
fn in_parentheses(lease: Option<&str>) -> String {
    lease.map(|lease| format!(" ({})", shown(lease))).unwrap_or_default()
}

/// The label of a client, or its id.
pub(crate) fn label_of(holder: &Holder) -> String {
    shown(holder.label.as_deref().unwrap_or_else(|| client_of(&holder.token)))
}

/// The same with the label of the lease.
pub(crate) fn lease_of(holder: &Holder) -> String {
    format!("{}{}", label_of(holder), in_parentheses(holder.lease_label.as_deref()))
}

/// The state of a lock. A once with a result is `done`, because no client gets its lock.
fn state_of(seen: &Inspection, kind: Option<&Kind>) -> &'static str {
    if kind.and_then(Kind::stored).is_some() { "done" } else { state(seen) }
}

pub(crate) fn state(seen: &Inspection) -> &'static str {
    if seen.holders.is_empty() { "free" } else { "held" }
}

pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        _ => "shared",
    }
}

/// A text of the server on one line of a terminal: without control characters, and not too long.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 200;
    let mut line: String = text.escape_debug().take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        line.push_str("...");
    }
    line
}

pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A time as people read it: `21.4 s`.
pub(crate) fn time(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else if time < Duration::from_secs(120) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
    }
}
