//! Draws a transcript of the simulation as a page: a lane for each client and server, with leases, messages and faults.
//!
//! A transcript is a text for people, with one line for each event. What this module doesn't know, it leaves out of the
//! picture. The page has the whole text below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::timeline::{Lane, Row, SpanId, Symbol, Timeline, View, escaped};

/// The room for an event, in pixels, and the bounds of a picture's width.
const ROOM: usize = 7;
const WIDTH: (u32, u32) = (1_200, 30_000);
/// The colours of the style sheet.
const COLOURS: usize = 6;

/// Draws a page. `title` says which seed it is, and `outcome` how it ended.
pub fn page(title: &str, outcome: &str, transcript: &str) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>{0}</title><style>{1}</style></head><body><h1>{0}</h1><p>{2}</p>\
         <p>A full bar: the client has a lease. A pale bar: it waits. Arrows are commands and replies. A flash marks a fault. \
         A fence is shown by its last six digits.</p>",
        escaped(title),
        include_str!("transcript.css"),
        escaped(outcome).replace('\n', "<br>"),
    );
    for run in runs(transcript) {
        let mut picture = Picture::of(&run);
        for event in &run {
            picture.draw(*event);
        }
        let _ = write!(
            page,
            "<div class=\"run\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline\">{}</div>",
            picture.svg(title)
        );
    }
    let _ = writeln!(
        page,
        "<details><summary>The transcript</summary><pre>{}</pre></details></body></html>",
        escaped(transcript)
    );
    page
}

/// A line of the transcript: when in µs, who, and what.
type Line<'a> = (u64, &'a str, &'a str);

/// The runs of a transcript. Each begins at time 0.
fn runs(transcript: &str) -> Vec<Vec<Line<'_>>> {
    let mut runs: Vec<Vec<Line<'_>>> = Vec::new();
    for line in transcript.lines().filter_map(read) {
        match runs.last_mut() {
            Some(run) if run.last().is_none_or(|before| before.0 <= line.0) => run.push(line),
            _ => runs.push(vec![line]),
        }
    }
    runs
}

fn read(line: &str) -> Option<Line<'_>> {
    let (time, rest) = line.trim_start().split_once(' ')?;
    let (seconds, micros) = time.split_once('.')?;
    let at = seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?;
    let at = at.checked_add(micros.parse().ok().filter(|_| micros.len() == 6)?)?;
    let (who, what) = rest.trim_start().split_once(' ')?;
    Some((at, who, what.trim()))
}

/// The picture of one run.
#[derive(Default)]
struct Picture {
    timeline: Timeline,
    lanes: BTreeMap<String, Lane>,
    clients: BTreeMap<String, Client>,
    /// The commands on their way to a server: when they left.
    sent: BTreeMap<(String, u64), u64>,
    /// The commands that a server ran: when, which server, and what it answered.
    executed: BTreeMap<(String, u64), (u64, Lane, String)>,
    events: usize,
    last: u64,
}

/// What a client has and wants.
#[derive(Default)]
struct Client {
    /// The leases with their fences.
    leases: BTreeMap<u64, u64>,
    waits: BTreeSet<u64>,
    bar: Option<(SpanId, String)>,
    paused: Option<SpanId>,
}

impl Picture {
    /// An empty picture with a lane for each client, and then for each server.
    fn of(run: &[Line<'_>]) -> Self {
        let mut picture = Self::default();
        let names: BTreeSet<&str> = run.iter().flat_map(|(_, who, what)| [*who, sent_to(what)]).collect();
        for kind in ['c', 's'] {
            let digits =
                |name: &str| name.strip_prefix(kind).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
            for name in names.iter().filter(|name| digits(name)) {
                picture.lane(name);
            }
        }
        picture
    }

    fn draw(&mut self, (at, who, what): Line<'_>) {
        // The run is over, but its last commands are not.
        if what.starts_with("rest until") || who == "mix" {
            return;
        }
        self.events += 1;
        self.last = self.last.max(at);
        match who.as_bytes() {
            [b'c', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => self.client(at, who, what),
            [b's', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => self.server(at, who, what),
            _ => {}
        }
        if let Some(fault) = what.strip_prefix("!! ") {
            self.fault(at, who, fault);
        }
    }

    fn client(&mut self, at: u64, who: &str, what: &str) {
        let lane = self.lane(who);
        if let Some(id) = what.strip_prefix("sends #").and_then(number) {
            self.sent.insert((who.to_owned(), id), at);
        } else if let Some(id) = what.strip_prefix("-> Send ").and_then(|rest| after(rest, "CommandId(")) {
            self.sent.insert((who.to_owned(), id), at);
        } else if what.starts_with('#') {
            // A quorum's transcript doesn't say when commands arrive.
            let to = self.lane(sent_to(what));
            self.timeline.send((lane, to), (at, at), "command", "command");
        } else if let Some(id) = answered(what) {
            self.answered(at, who, lane, id);
        } else if let Some(message) = what.strip_prefix("<- message ") {
            let kind = message.split(' ').next().unwrap_or_default();
            self.timeline.caption(lane, at, kind);
        } else {
            self.lease(at, who, what);
        }
    }

    /// A line about a call, a lease or the process.
    fn lease(&mut self, at: u64, who: &str, what: &str) {
        let lane = self.lane(who);
        let client = self.clients.entry(who.to_owned()).or_default();
        let op = after(what, "OpId(").or_else(|| after(what, "op "));
        if what.starts_with("starts as") || what == "crashes" {
            client.leases.clear();
            client.waits.clear();
            if what == "crashes" {
                self.timeline.mark(lane, at, Symbol::Fault, "crashes");
            }
        } else if what.starts_with("goes on") {
            if let Some(span) = client.paused.take() {
                self.timeline.end(span, at);
            }
        } else if what.contains("Acquired") && what.contains("Ok(") {
            op.map(|op| client.waits.remove(&op));
            if let (Some(lease), Some(fence)) =
                (after(what, "LeaseId("), after(what, "fence: ").or_else(|| after(what, "fences: [")))
            {
                client.leases.insert(lease, fence);
            }
        } else if what.starts_with("-> Completed") || what.contains(" ends: ") {
            op.map(|op| client.waits.remove(&op));
        } else if what.contains("Acquire") {
            op.map(|op| client.waits.insert(op));
        } else if what.contains("Release") {
            after(what, "LeaseId(").map(|lease| client.leases.remove(&lease));
        } else if what.starts_with("-> Lost")
            && let Some(lease) = after(what, "LeaseId(")
        {
            client.leases.remove(&lease);
            let reason = what.split("reason: ").nth(1).map(|reason| reason.trim_end_matches([' ', '}']));
            self.timeline.mark(lane, at, Symbol::Lost, format!("lost: {}", reason.unwrap_or("unknown")));
        }
        self.bar(at, who, lane);
    }

    /// Brings a client's bar up to date.
    fn bar(&mut self, at: u64, who: &str, lane: Lane) {
        let client = self.clients.entry(who.to_owned()).or_default();
        let greatest = client.leases.values().max();
        let (class, label) = match (client.leases.len(), client.waits.len()) {
            (0, 0) => ("", String::new()),
            (0, 1) => ("waits", "waits".to_owned()),
            (0, waits) => ("waits", format!("{waits} wait")),
            (1, _) => ("holds", format!("fence …{:06}", greatest.copied().unwrap_or_default() % 1_000_000)),
            (leases, _) => ("holds", format!("{leases} leases")),
        };
        if client.bar.as_ref().map_or("", |(_, shown)| shown) == label {
            return;
        }
        if let Some((span, _)) = client.bar.take() {
            self.timeline.end(span, at);
        }
        if !class.is_empty() {
            let class =
                format!("{class} c{}", number(who.trim_start_matches('c')).unwrap_or_default() as usize % COLOURS);
            let span = self.timeline.begin((lane, Row::Lock), at, &class, label.clone());
            self.clients.entry(who.to_owned()).or_default().bar = Some((span, label));
        }
    }

    /// A server runs a command: `c1 #2 [Acquire { .. }] -> Ok("entered ..")`, or `c1 CommandId(2): Ok(..)`.
    fn server(&mut self, at: u64, server: &str, what: &str) {
        let lane = self.lane(server);
        let Some((client, rest)) = what.split_once(' ') else { return };
        let Some(id) = rest.strip_prefix('#').and_then(number).or_else(|| after(rest, "CommandId(")) else { return };
        let words = |text: &str| text.chars().take_while(|letter| letter.is_alphanumeric()).collect::<String>();
        let script = rest.split('[').nth(1).map(words).unwrap_or_default().to_lowercase();
        let status =
            rest.rsplit("-> ").next().and_then(|answer| answer.split('"').nth(1)).map(words).unwrap_or_default();
        let label = if status.is_empty() { script } else { format!("{script}: {status}") };
        let key = (client.to_owned(), id);
        let from = self.lane(client);
        if let Some(sent) = self.sent.get(&key) {
            self.timeline.send((from, lane), (*sent, at), "command", label.clone());
        }
        self.timeline.caption(lane, at, label.clone());
        self.executed.insert(key, (at, lane, label));
    }

    fn answered(&mut self, at: u64, who: &str, lane: Lane, id: u64) {
        let key = (who.to_owned(), id);
        self.sent.remove(&key);
        if let Some((executed, server, label)) = self.executed.remove(&key) {
            self.timeline.send((server, lane), (executed, at), "reply", label);
        }
    }

    fn fault(&mut self, at: u64, who: &str, fault: &str) {
        let struck: Vec<Lane> = match who {
            "all" => self.lanes.iter().filter(|(name, _)| name.starts_with('s')).map(|(_, lane)| *lane).collect(),
            who => self.lanes.get(who).copied().into_iter().collect(),
        };
        for lane in struck {
            self.timeline.mark(lane, at, Symbol::Fault, fault);
        }
        if matches!(fault, "Pause" | "Suspend") {
            let lane = self.lane(who);
            let span = self.timeline.begin((lane, Row::Condition), at, "fault", fault.to_lowercase());
            let client = self.clients.entry(who.to_owned()).or_default();
            if let Some(before) = client.paused.replace(span) {
                self.timeline.end(before, at);
            }
        }
    }

    fn lane(&mut self, name: &str) -> Lane {
        let timeline = &mut self.timeline;
        *self.lanes.entry(name.to_owned()).or_insert_with(|| timeline.lane(name))
    }

    fn svg(&self, title: &str) -> String {
        let width = u32::try_from(self.events * ROOM).unwrap_or(u32::MAX).clamp(WIDTH.0, WIDTH.1);
        self.timeline.svg(&View { from: 0, until: self.last.max(1), now: self.last, width }, title)
    }
}

/// The server of a line such as `#3 -> s0 EVALSHA ..`, or nothing.
fn sent_to(what: &str) -> &str {
    let to = what.strip_prefix('#').and_then(|rest| rest.split_once(" -> "));
    to.and_then(|(_, to)| to.split(' ').next()).unwrap_or_default()
}

/// The command whose answer a client received.
fn answered(what: &str) -> Option<u64> {
    let id = what.strip_prefix("<- answer to #").and_then(number);
    id.or_else(|| what.strip_prefix("<- Reply ").and_then(|rest| after(rest, "CommandId(")))
}

/// The number after these words.
fn after(text: &str, words: &str) -> Option<u64> {
    number(text.split_once(words)?.1)
}

/// The number that a text begins with.
fn number(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSCRIPT: &str = "    0.000000 mix  Mix { clients: 2 }
    0.000000 c0   starts as 0000ce0a (0)
    0.009510 c0   <- Acquire { op: OpId(0), name: \"a\" }
    0.009568 c0     sends #1 Acquire { token: 1 } about 0
    0.010528 s0   c0 #1 [Acquire { token: 1 }] -> Ok(\"entered 18 1\")
    0.015918 c0   <- answer to #1
    0.015918 c0     -> Completed { op: OpId(0), result: Ok(Acquired(Grant { lease: LeaseId(7), fence: 1800000000001234, local: false })) }
    0.041648 c0   !! Pause
    0.141648 c0   goes on
    0.151648 c0     -> Lost { lease: LeaseId(7), reason: Expired }
    0.161648 all  !! Flush
";

    #[test]
    fn a_transcript_becomes_lanes_with_leases_messages_and_faults() {
        let page = page("Seed 7", "All promises held.", TRANSCRIPT);
        let picture = page.split("<details>").next().unwrap_or_default();
        for part in [
            "Seed 7",
            ">c0<",
            ">s0<",
            "bar holds c0",
            "fence …001234",
            "acquire: entered",
            "arrow command",
            "arrow reply",
            "bar fault",
            "lost: Expired",
            "Flush",
            "All promises held.",
            "prefers-color-scheme: dark",
        ] {
            assert!(picture.contains(part), "{part} is not in {picture}");
        }
    }

    #[test]
    fn each_run_of_a_seed_has_its_own_picture() {
        let twice = format!("{TRANSCRIPT}{TRANSCRIPT}");
        assert_eq!(page("t", "", &twice).matches("<svg").count(), 2);
        assert_eq!(page("t", "", "Counts { calls: 309 }\nno line\n").matches("<svg").count(), 0);
    }

    #[test]
    fn a_quorum_and_several_names_are_drawn_too() {
        let quorum = "    0.000138 c0 #3 -> s0 EVALSHA e8a4 6 lock-0\n    0.002143 c0 op 1 ends: Ok(Acquired(Grant { lease: LeaseId(1), fence: 9 }))\n";
        assert!(page("t", "", quorum).contains("fence …000009"));
        let multi = "    0.003201 c1   -> Send { id: CommandId(1), node: NodeId(0) }\n    0.004367 s    c1 CommandId(1): Err(\"NOSCRIPT\")
    0.004621 c1   <- Reply { id: CommandId(1), result: Err(..) }\n    0.0165 c1 x\n";
        let page = page("t", "", multi);
        assert!(page.contains("arrow command") && page.contains("arrow reply"), "{page}");
    }
}
