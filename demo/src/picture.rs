//! The picture at the end: who held the lock when, the kill, the pause and the refused write.

use std::fmt::Write as _;

use crate::event::Turn;
use crate::fleet::{Language, Role, TTL};
use crate::report::{Mark, Report, State, What, name};

const WIDTH: u64 = 1200;
/// Where the lanes begin and end.
const LEFT: u64 = 150;
const RIGHT: u64 = WIDTH - 30;
const TOP: u64 = 96;
const LANE: u64 = 34;
const BAR: u64 = 18;

const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 18px; font-weight: 600 }
  .soft { fill: #57606a }
  .back { fill: #ffffff }
  .lane { fill: #f3f4f6 }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .rust { fill: #c2571a } .node { fill: #3c873a } .wasi { fill: #6540c8 } .read { opacity: .55 }
  .left { fill: #cf222e; opacity: .22 }
  .mark { fill: #cf222e } .good { fill: #1a7f37 }
  .cross circle { fill: #ffffff; stroke: #1a7f37; stroke-width: 2 } .cross path { stroke: #1a7f37; stroke-width: 2 }
  .cross.mark circle, .cross.mark path { stroke: #cf222e }
  text.mark, text.good { paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round }
  .line { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .soft { fill: #9198a1 } .back { fill: #0d1117 } .lane { fill: #161b22 } .grid { stroke: #30363d }
    .rust { fill: #f0883e } .node { fill: #6cc24a } .wasi { fill: #a98bff } .left { fill: #ff7b72 }
    .mark { fill: #ff7b72 } .good { fill: #56d364 } .line { stroke: #ff7b72 }
    text.mark, text.good { stroke: #0d1117 } .cross circle { fill: #0d1117; stroke: #56d364 } .cross path { stroke: #56d364 }
    .cross.mark circle, .cross.mark path { stroke: #ff7b72 }
  }";

/// From when until when the picture reaches, in microseconds.
struct Span {
    from: u64,
    until: u64,
}

impl Span {
    fn x(&self, at: u64) -> u64 {
        let at = at.clamp(self.from, self.until) - self.from;
        LEFT + (RIGHT - LEFT) * at / (self.until - self.from).max(1)
    }
}

/// Draws it as an SVG that works in light and dark mode.
pub(crate) fn draw(report: &Report) -> String {
    let turns: Vec<(usize, Turn)> = report.turns_of_all().copied().collect();
    let moments = || turns.iter().map(|(_, turn)| turn.granted).chain(report.marks().iter().map(|mark| mark.at));
    let span = Span {
        from: moments().min().unwrap_or(0),
        until: turns.iter().map(|(_, turn)| turn.released).chain(moments()).max().unwrap_or(1),
    };
    let bottom = TOP + LANE * report.workers.len() as u64;
    let height = bottom + 94;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>Who held the lock when</title>\n<style>{STYLE}\n</style>\n\
         <rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    text(&mut svg, 24, 36, "title", "Who held the lock when");
    let about = format!(
        "{} grants in {:.1} s on {}. The lease lasts {} s. Updates lost: {}.",
        turns.len(),
        (span.until - span.from) as f64 / 1e6,
        report.server,
        TTL.as_secs(),
        report.lost()
    );
    text(&mut svg, 24, 60, "soft", &about);
    grid(&mut svg, &span, bottom);
    for (number, worker) in report.workers.iter().enumerate() {
        let y = lane(number);
        let _ =
            writeln!(svg, "<rect class=\"lane\" x=\"{LEFT}\" y=\"{y}\" width=\"{}\" height=\"{BAR}\"/>", RIGHT - LEFT);
        let label = format!("{} · {}", name(number), worker.language.name());
        text(&mut svg, 24, y + 14, "", &label);
        let class = class(worker.language, worker.role);
        let own: Vec<Turn> = turns.iter().filter(|(by, _)| *by == number).map(|(_, turn)| *turn).collect();
        if worker.state == State::Missing {
            text(&mut svg, LEFT + 8, y + 14, "soft", "missing: its program was not ready");
        }
        for (from, until) in bars(&own, &span) {
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{from}\" y=\"{y}\" width=\"{}\" height=\"{BAR}\"/>",
                until - from
            );
        }
    }
    for mark in report.marks() {
        draw_mark(&mut svg, &span, mark, bottom);
    }
    legend(&mut svg, report, bottom + 52);
    text(
        &mut svg,
        24,
        bottom + 78,
        "soft",
        "A bar: the process holds the lock. Readers share it. Nobody gets it before the lease of a killed or paused holder ends. A late write is refused: its fence is too small.",
    );
    svg.push_str("</svg>\n");
    svg
}

fn class(language: Language, role: Role) -> &'static str {
    match (language, role) {
        (Language::Rust, Role::Reader) => "rust read",
        (Language::Rust, _) => "rust",
        (Language::Node, _) => "node",
        (Language::Wasi, _) => "wasi",
    }
}

/// What the colours and the symbols mean.
fn legend(svg: &mut String, report: &Report, y: u64) {
    let mut shown: Vec<(&str, String)> = Vec::new();
    for worker in &report.workers {
        let class = class(worker.language, worker.role);
        if !shown.iter().any(|(other, _)| *other == class) {
            let who = if worker.role == Role::Reader { "reader" } else { "writer" };
            shown.push((class, format!("{} {who}", worker.language.name())));
        }
    }
    shown.push(("left", "rest of the lease of a killed or paused holder".to_owned()));
    shown.push(("", "refused write".to_owned()));
    let mut x = 24;
    for (class, words) in shown {
        if class.is_empty() {
            cross(svg, x + 7, y - 4, "good");
        } else {
            let _ = writeln!(svg, "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"14\" height=\"14\"/>", y - 11);
        }
        text(svg, x + 20, y, "soft", &words);
        x += 20 + 7 * words.chars().count() as u64 + 18;
    }
}

/// The moment when the resource judged a late write.
fn cross(svg: &mut String, x: u64, y: u64, class: &str) {
    let _ = writeln!(
        svg,
        "<g class=\"cross {class}\"><circle cx=\"{x}\" cy=\"{y}\" r=\"8\"/><path d=\"M{} {}l6 6m0 -6l-6 6\"/></g>",
        x - 3,
        y - 3
    );
}

fn lane(number: usize) -> u64 {
    TOP + LANE * number as u64
}

/// The times of one worker as columns of the picture: what meets in one column is one bar.
fn bars(turns: &[Turn], span: &Span) -> Vec<(u64, u64)> {
    let mut turns = turns.to_vec();
    turns.sort_by_key(|turn| turn.granted);
    let mut bars: Vec<(u64, u64)> = Vec::new();
    for turn in turns {
        let (from, until) = (span.x(turn.granted), span.x(turn.released) + 1);
        match bars.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => bars.push((from, until)),
        }
    }
    bars
}

fn grid(svg: &mut String, span: &Span, bottom: u64) {
    let seconds = (span.until - span.from) / 1_000_000;
    for second in (0..=seconds).step_by(step(seconds)) {
        let x = span.x(span.from + second * 1_000_000);
        let _ = writeln!(svg, "<line class=\"grid\" x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{}\"/>", TOP - 8, bottom);
        text(svg, x.saturating_sub(8), bottom + 18, "soft", &format!("{second} s"));
    }
}

/// How many seconds there are between two lines of the grid. Their labels must not touch each other.
fn step(seconds: u64) -> usize {
    const MOST: u64 = 20;
    [1, 2, 5, 10, 30, 60].into_iter().find(|step| seconds / *step as u64 <= MOST).unwrap_or(300)
}

fn draw_mark(svg: &mut String, span: &Span, mark: &Mark, bottom: u64) {
    let (x, y) = (span.x(mark.at), lane(mark.worker));
    let line = |svg: &mut String| {
        let _ = writeln!(svg, "<line class=\"line\" x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{bottom}\"/>", TOP - 8);
    };
    match mark.what {
        What::Stopped { since } => {
            let (from, until) = (span.x(since), span.x(since + TTL.as_micros() as u64));
            let _ = writeln!(
                svg,
                "<rect class=\"left\" x=\"{from}\" y=\"{y}\" width=\"{}\" height=\"{BAR}\"/>",
                (until - from).max(1)
            );
        }
        What::Killed => {
            line(svg);
            text(svg, x + 5, y - 3, "mark", "killed while it holds the lock");
        }
        What::Paused => {
            line(svg);
            text(svg, x + 5, y - 3, "mark", "paused while it holds the lock");
        }
        What::Joined => {
            let end = x - 6;
            let _ = writeln!(svg, "<text class=\"soft\" x=\"{end}\" y=\"{}\" text-anchor=\"end\">joins</text>", y + 14);
        }
        // The resource answers at once, and the text about the answer tells both.
        What::Resumed => {}
        What::Refused { fence } => {
            judged(svg, (x, y), "good", &format!("resumed: late write with fence {fence} refused"));
        }
        What::Slipped { fence } => {
            judged(svg, (x, y), "mark", &format!("resumed: late write with fence {fence} ACCEPTED"));
        }
    }
}

/// The words are below the mark, on the side where there is room.
fn judged(svg: &mut String, (x, y): (u64, u64), class: &str, words: &str) {
    cross(svg, x, y + BAR / 2, class);
    let (at, anchor) = if x > WIDTH / 2 { (x + 8, "end") } else { (x.saturating_sub(8), "start") };
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{at}\" y=\"{}\" text-anchor=\"{anchor}\">{words}</text>",
        y + BAR + 12
    );
}

fn text(svg: &mut String, x: u64, y: u64, class: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    // A text that would not fit ends at the right edge.
    let fits = x + 7 * text.chars().count() as u64 <= WIDTH;
    let (x, anchor) = if fits { (x, "") } else { (RIGHT, " text-anchor=\"end\"") };
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{text}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_meet_in_a_column_are_one_bar() {
        let span = Span { from: 0, until: RIGHT - LEFT };
        let turn = |granted, released| Turn { fence: 1, asked: 0, granted, released, consistent: true };
        assert_eq!(
            bars(&[turn(100, 100), turn(0, 9), turn(10, 20)], &span),
            [(LEFT, LEFT + 21), (LEFT + 100, LEFT + 101)]
        );
    }

    #[test]
    fn the_labels_of_the_grid_do_not_touch_each_other() {
        for seconds in 1..1000 {
            let span = Span { from: 0, until: seconds * 1_000_000 };
            let distance = span.x(step(seconds) as u64 * 1_000_000) - span.x(0);
            assert!(distance >= 45 || step(seconds) as u64 > seconds, "{seconds} s: {distance}");
        }
    }

    #[test]
    fn a_late_worker_and_a_missing_one_are_told() {
        let mut report = Report::new([Language::Rust, Language::Node].into_iter());
        report.complete(5);
        report.add(0, 10, &crate::event::Event::Ready { server: String::new() }).unwrap();
        report.stopping(vec![(Language::Node, "no time".to_owned())]);
        let svg = draw(&report);
        assert!(svg.contains(">joins<") && svg.contains("missing: "), "{svg}");
    }

    #[test]
    fn the_kill_the_pause_and_the_refused_write_are_told() {
        let mut report = Report::new([Language::Rust, Language::Node].into_iter());
        for what in [What::Killed, What::Paused, What::Resumed, What::Refused { fence: 7 }] {
            report.mark(0, 10, what);
        }
        let svg = draw(&report);
        for text in
            ["killed while", "paused while", "resumed: late write with fence 7 refused", "prefers-color-scheme: dark"]
        {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
    }

    #[test]
    fn the_legend_names_each_colour_that_is_shown_and_the_refused_write_has_a_mark() {
        let mut report = Report::new([Language::Rust, Language::Node].into_iter());
        report.mark(0, 10, What::Paused);
        let without = draw(&report);
        for words in
            [">Rust writer<", ">Node writer<", ">rest of the lease of a killed or paused holder<", ">refused write<"]
        {
            assert!(without.contains(words), "{words} is not in {without}");
        }
        assert!(!without.contains("WASI writer"), "{without}");
        let marks = |svg: &str| svg.matches("<g class=\"cross").count();
        report.mark(0, 20, What::Refused { fence: 7 });
        assert_eq!((marks(&without), marks(&draw(&report))), (1, 2), "one is the legend's");
    }
}
