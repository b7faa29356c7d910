//! Draws a timeline as an SVG that works in light and dark mode.

use std::fmt::Write as _;

use super::{Arrow, Caption, Row, Span, Symbol, Timeline};

const STYLE: &str = include_str!("timeline.css");

/// Where the first lane begins, and the room for its name.
const LEFT: f64 = 96.0;
const TOP: f64 = 8.0;
const LANE: f64 = 84.0;
/// The rows of a lane, by their distance from its top: the two bars, the words, and where arrows touch. Arrows begin below
/// the words, because they would strike them out.
const LOCK: (f64, f64) = (8.0, 24.0);
const CONDITION: (f64, f64) = (34.0, 15.0);
const WORDS: f64 = 61.0;
const ABOVE: f64 = 6.0;
const BELOW: f64 = 66.0;
/// The estimated width of a letter: of words, and of the larger ones on a bar.
const LETTER: f64 = 6.7;
const LETTER_ON_BAR: f64 = 7.3;
/// How often a lane's name is repeated, in pixels.
const NAME_EVERY: u32 = 1_300;

/// Which part of a timeline to draw.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The first moment, in µs.
    pub from: u64,
    /// The last one.
    pub until: u64,
    /// The present. Nothing is known after it.
    pub now: u64,
    /// The width of the picture, in pixels.
    pub width: u32,
}

impl View {
    fn x(&self, at: u64) -> f64 {
        let room = f64::from(self.width) - LEFT - 8.0;
        let (at, length) = (at as f64 - self.from as f64, (self.until.saturating_sub(self.from)).max(1) as f64);
        LEFT + room * (at / length).clamp(-0.02, 1.02)
    }

    fn shows(&self, from: u64, until: u64) -> bool {
        until >= self.from && from <= self.until
    }
}

impl Timeline {
    /// Draws a part of it. The text alternative is `title`.
    pub fn svg(&self, view: &View, title: &str) -> String {
        let height = TOP + LANE * self.lanes.len() as f64 + 24.0;
        let mut svg = format!(
            "<svg class=\"timeline\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {height}\" width=\"{0}\" \
             height=\"{height}\" role=\"img\"><title>{1}</title><style>{STYLE}</style>\
             <defs><clipPath id=\"lanes\"><rect x=\"{LEFT}\" y=\"0\" width=\"{2}\" height=\"{height}\"/></clipPath></defs>\
             <rect class=\"back\" width=\"{0}\" height=\"{height}\"/>",
            view.width,
            escaped(title),
            f64::from(view.width) - LEFT,
        );
        self.draw_lanes(&mut svg, view);
        svg.push_str("<g clip-path=\"url(#lanes)\">");
        for span in self.spans.iter().filter(|span| view.shows(span.from, span.shown_until(view.now))) {
            draw_span(&mut svg, view, span);
        }
        for arrow in self.arrows.iter().filter(|arrow| view.shows(arrow.sent, arrow.arrives)) {
            draw_arrow(&mut svg, view, arrow);
        }
        self.draw_captions(&mut svg, view);
        let x = view.x(view.now);
        let _ =
            write!(svg, "<line class=\"now\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>", height - 24.0);
        svg.push_str("</g></svg>");
        svg
    }

    fn draw_lanes(&self, svg: &mut String, view: &View) {
        for (place, name) in self.lanes.iter().enumerate() {
            let y = top(place);
            let _ = write!(
                svg,
                "<rect class=\"lane\" x=\"0\" y=\"{y}\" width=\"{}\" height=\"{}\"/>\
                 <text class=\"name\" x=\"10\" y=\"{}\">{}</text>",
                view.width,
                LANE - 6.0,
                y + 25.0,
                escaped(name),
            );
            // In a wide picture that is scrolled, the name stays in sight.
            for again in (NAME_EVERY..view.width.max(NAME_EVERY)).step_by(NAME_EVERY as usize) {
                let _ = write!(svg, "<text class=\"soft\" x=\"{again}\" y=\"{}\">{}</text>", y + 46.0, escaped(name));
            }
        }
        let bottom = top(self.lanes.len());
        let step = between_ticks(view);
        let mut at = view.from.div_ceil(step) * step;
        while at <= view.until {
            let x = view.x(at);
            let anchor = if x > f64::from(view.width) - 20.0 { "end" } else { "middle" };
            let tenth = if step < 1_000_000 { format!(".{}", at % 1_000_000 / 100_000) } else { String::new() };
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
                 <text class=\"soft\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}{tenth} s</text>",
                bottom + 14.0,
                at / 1_000_000,
            );
            at += step;
        }
    }

    /// Marks come first, because they are important. Where there is no room, other words are left out.
    fn draw_captions(&self, svg: &mut String, view: &View) {
        let mut taken = Taken::default();
        let shown = || self.captions.iter().filter(|caption| view.shows(caption.at, caption.at));
        for marks in [true, false] {
            for caption in shown().filter(|caption| caption.symbol.is_some() == marks) {
                draw_caption(svg, view, caption, &mut taken);
            }
        }
    }
}

/// Where words are already: the lane, the line, and from where to where.
#[derive(Default)]
struct Taken(Vec<(usize, usize, f64, f64)>);

impl Taken {
    /// Takes the first line that has room. A mark may use the second one.
    fn line(&mut self, caption: &Caption, (from, until): (f64, f64)) -> Option<usize> {
        let lane = caption.lane.0;
        let lines = if caption.symbol.is_some() { 0..2 } else { 0..1 };
        let free = |line: &usize| {
            self.0.iter().all(|taken| (taken.0, taken.1) != (lane, *line) || until < taken.2 || from > taken.3)
        };
        let line = lines.into_iter().find(free)?;
        self.0.push((lane, line, from, until));
        Some(line)
    }
}

impl Span {
    fn shown_until(&self, now: u64) -> u64 {
        self.until.unwrap_or_else(|| self.ends.unwrap_or(now).max(now))
    }
}

fn draw_span(svg: &mut String, view: &View, span: &Span) {
    let (row, height) = match span.row {
        Row::Lock => LOCK,
        Row::Condition => CONDITION,
    };
    let y = top(span.lane.0) + row;
    let (from, until) = (view.x(span.from), view.x(span.until.unwrap_or(view.now)));
    let width = (until - from).max(1.5);
    if let (None, Some(ends)) = (span.until, span.ends.filter(|ends| *ends > view.now)) {
        let _ = write!(
            svg,
            "<rect class=\"ttl {}\" x=\"{until:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{height}\">\
             <title>The TTL: the server keeps the lock until here, unless the holder renews it.</title></rect>",
            span.class,
            view.x(ends) - until,
        );
    }
    let _ = write!(
        svg,
        "<rect class=\"bar {}\" x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\" rx=\"3\"><title>{}</title></rect>",
        span.class,
        escaped(&span.label),
    );
    let visible = from.max(LEFT);
    let room = ((until - visible - 8.0) / LETTER_ON_BAR) as usize;
    let label = if span.label.chars().count() <= room { span.label.as_str() } else { shortened(&span.label, room) };
    if !label.is_empty() {
        let _ = write!(
            svg,
            "<text class=\"on {}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            span.class,
            visible + 5.0,
            y + height / 2.0 + 4.0,
            escaped(label),
        );
    }
}

/// The first words of a label that fit. A comma separates what is less important.
fn shortened(label: &str, room: usize) -> &str {
    let end = [", ", ": "].iter().filter_map(|end| label.find(end)).min().unwrap_or(label.len());
    let first = label.get(..end).unwrap_or_default();
    if first.chars().count() <= room { first } else { "" }
}

fn draw_arrow(svg: &mut String, view: &View, arrow: &Arrow) {
    let down = arrow.to > arrow.from;
    let edge = |lane: usize, lower: bool| top(lane) + if lower { BELOW } else { ABOVE };
    let (y1, y2) = (edge(arrow.from.0, down), edge(arrow.to.0, !down));
    let (x1, x2) = (view.x(arrow.sent), view.x(arrow.arrives));
    // The part that it has travelled. One that is lost ends half-way.
    let travelled = (arrow.arrives.saturating_sub(arrow.sent)).max(1) as f64;
    let part =
        ((view.now.saturating_sub(arrow.sent)) as f64 / travelled).clamp(0.0, if arrow.lost { 0.5 } else { 1.0 });
    let (x, y) = (x1 + (x2 - x1) * part, y1 + (y2 - y1) * part);
    let lost = if arrow.lost { " lost" } else { "" };
    let _ = write!(
        svg,
        "<g class=\"arrow {}{lost}\"><title>{}</title><line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x:.1}\" y2=\"{y:.1}\"/>",
        arrow.class,
        escaped(&arrow.label),
    );
    if arrow.lost && part >= 0.5 {
        let _ = write!(svg, "<path d=\"M{:.1} {:.1}l8 8m0 -8l-8 8\"/>", x - 4.0, y - 4.0);
    } else if part >= 1.0 {
        let tip = if down { -6.0 } else { 6.0 };
        let _ = write!(svg, "<path class=\"tip\" d=\"M{x:.1} {y:.1}l-3.5 {tip}h7z\"/>");
    } else {
        let _ = write!(svg, "<circle class=\"tip\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
    }
    svg.push_str("</g>");
}

fn draw_caption(svg: &mut String, view: &View, caption: &Caption, taken: &mut Taken) {
    let (y, at) = (top(caption.lane.0), view.x(caption.at));
    let class = match caption.symbol {
        None => "words",
        Some(Symbol::Fault | Symbol::Lost | Symbol::Refused) => "words bad",
        Some(Symbol::Accepted) => "words good",
    };
    if let Some(symbol) = caption.symbol {
        let shape = match symbol {
            Symbol::Accepted => "m-5 0l4 4l7 -8",
            Symbol::Refused | Symbol::Lost => "m-5 -5l10 10m0 -10l-10 10",
            Symbol::Fault => "m2 -8l-6 9h7l-5 8",
        };
        let _ = write!(
            svg,
            "<g class=\"{class}\"><title>{}</title><circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"10\"/><path d=\"M{at:.1} {:.1}{shape}\"/></g>",
            escaped(&caption.text),
            y + 20.0,
            y + 20.0,
        );
    }
    let width = LETTER * caption.text.chars().count() as f64;
    // A text at the right edge ends there.
    let x = (at - 4.0).min(f64::from(view.width) - 10.0 - width).max(LEFT + 2.0);
    if let Some(line) = taken.line(caption, (x, x + width + 6.0)) {
        let y = y + WORDS + 12.0 * line as f64;
        let _ = write!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(&caption.text));
    }
}

fn top(lane: usize) -> f64 {
    TOP + LANE * lane as f64
}

/// A round time between two ticks, in µs, which leaves room for their labels.
fn between_ticks(view: &View) -> u64 {
    const TENTH: u64 = 100_000;
    let (length, ticks) = (view.until.saturating_sub(view.from), u64::from(view.width / 80).max(1));
    let mut steps = [1, 2, 5, 10, 20, 50, 100, 300, 600, 3_000].into_iter().map(|tenths| tenths * TENTH);
    steps.find(|step| length / step <= ticks).unwrap_or(36_000 * TENTH)
}

/// A text for markup.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Lane;

    const VIEW: View = View { from: 0, until: 10_000_000, now: 8_000_000, width: 1_000 };

    #[test]
    fn a_bar_that_lasts_is_drawn_until_now_and_its_ttl_after_it() {
        let mut timeline = Timeline::default();
        let lane = timeline.lane("A");
        let span = timeline.begin((lane, Row::Lock), 2_000_000, "holds c0", "A holds");
        assert!(!timeline.svg(&VIEW, "t").contains("class=\"ttl"));
        timeline.ends_by_itself(span, Some(9_000_000));
        assert!(timeline.svg(&VIEW, "t").contains("class=\"ttl"));
        timeline.end(span, 7_000_000);
        assert!(!timeline.svg(&VIEW, "t").contains("class=\"ttl"), "a bar that has ended has no TTL");
    }

    #[test]
    fn nothing_outside_the_view_is_drawn() {
        let mut timeline = Timeline::default();
        let lane = timeline.lane("A");
        timeline.mark(lane, 20_000_000, Symbol::Fault, "later");
        let arrow = timeline.send((lane, Lane(1)), (11_000_000, 12_000_000), "command", "later");
        timeline.lose(arrow);
        assert!(!timeline.svg(&VIEW, "t").contains("later"));
    }

    #[test]
    fn names_and_labels_are_text_and_never_markup() {
        let mut timeline = Timeline::default();
        let lane = timeline.lane("<script>");
        timeline.caption(lane, 1, "a & <b>");
        let svg = timeline.svg(&VIEW, "\"t\"");
        assert!(
            svg.contains("&lt;script&gt;") && svg.contains("a &amp; &lt;b&gt;") && svg.contains("&quot;t&quot;"),
            "{svg}"
        );
    }

    #[test]
    fn a_label_without_room_loses_its_last_words_and_never_a_part_of_a_number() {
        let mut timeline = Timeline::default();
        let lane = timeline.lane("A");
        for (from, until) in [(0, 2_000_000), (2_000_000, 2_600_000), (3_000_000, 3_100_000)] {
            let span = timeline.begin((lane, Row::Lock), from, "holds", "holds, fence 1,234,567");
            timeline.end(span, until);
        }
        let svg = timeline.svg(&VIEW, "t");
        let on_bars: Vec<&str> =
            svg.split("<text class=\"on").skip(1).filter_map(|rest| rest.split(['>', '<']).nth(1)).collect();
        assert_eq!(on_bars, ["holds, fence 1,234,567", "holds"]);
    }

    #[test]
    fn an_arrow_does_not_strike_out_the_words_about_it() {
        let mut timeline = Timeline::default();
        let (client, server) = (timeline.lane("A"), timeline.lane("Server"));
        timeline.caption(client, 1_000_000, "renew: renewed");
        timeline.send((client, server), (1_000_000, 1_200_000), "command", "renew");
        timeline.send((server, client), (1_200_000, 1_400_000), "reply", "renewed");
        let svg = timeline.svg(&VIEW, "t");
        let number = |part: &str| part.split('"').next().and_then(|text| text.parse::<f64>().ok());
        let words: Vec<f64> =
            svg.split("class=\"words\"").skip(1).filter_map(|rest| number(rest.split(" y=\"").nth(1)?)).collect();
        let tops = svg.split("class=\"arrow").skip(1).filter_map(|rest| {
            let ends = ["y1=\"", "y2=\""].map(|end| rest.split(end).nth(1).and_then(number));
            Some(ends[0]?.min(ends[1]?))
        });
        let tops: Vec<f64> = tops.collect();
        assert!(words.len() == 1 && tops.len() == 2 && tops.iter().all(|top| *top > words[0]), "{words:?} {tops:?}");
    }

    #[test]
    fn words_that_would_cover_a_mark_are_left_out() {
        let mut timeline = Timeline::default();
        let lane = timeline.lane("A");
        timeline.caption(lane, 1_000_000, "a long text of little importance");
        timeline.mark(lane, 1_100_000, Symbol::Fault, "killed");
        let svg = timeline.svg(&VIEW, "t");
        assert!(svg.contains("killed") && !svg.contains("little importance"), "{svg}");
    }
}
