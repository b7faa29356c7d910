//! What happened when: lanes with bars, messages between them, and marks. All times are in µs of virtual time.

mod svg;

pub use svg::View;
pub(crate) use svg::escaped;

/// What happened in one run.
#[derive(Debug, Default)]
pub struct Timeline {
    lanes: Vec<String>,
    spans: Vec<Span>,
    arrows: Vec<Arrow>,
    captions: Vec<Caption>,
}

/// A line of the timeline: a client, a server or the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane(pub usize);

/// A lane has a broad row for the lock, and a narrow one below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Who holds the lock or waits for it.
    Lock,
    /// What else is true: a pause, a cut network, the queue.
    Condition,
}

/// Something that lasts. The class says how to draw it: see `timeline.css`.
#[derive(Clone, Debug)]
struct Span {
    lane: Lane,
    row: Row,
    class: String,
    label: String,
    from: u64,
    /// None while it lasts.
    until: Option<u64>,
    /// When it ends by itself, while it lasts.
    ends: Option<u64>,
}

/// Something on its way from one lane to another.
#[derive(Clone, Debug)]
struct Arrow {
    from: Lane,
    to: Lane,
    sent: u64,
    arrives: u64,
    class: &'static str,
    label: String,
    lost: bool,
}

/// A few words below a lane's bars, with a symbol on the bar if it is important.
#[derive(Clone, Debug)]
struct Caption {
    lane: Lane,
    at: u64,
    text: String,
    symbol: Option<Symbol>,
}

/// What a mark says at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// A fault.
    Fault,
    /// The resource accepted a write.
    Accepted,
    /// The resource refused a write.
    Refused,
    /// A lease ended before its holder gave it back.
    Lost,
}

/// The number of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(usize);
/// The number of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrowId(usize);
/// The number of a caption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptionId(usize);

impl Timeline {
    /// Adds a lane below the others.
    pub fn lane(&mut self, name: impl Into<String>) -> Lane {
        self.lanes.push(name.into());
        Lane(self.lanes.len() - 1)
    }

    /// Begins a bar. `class` has the words of the style sheet, such as `holds c0` for a lease of the first client.
    pub fn begin(&mut self, (lane, row): (Lane, Row), at: u64, class: &str, label: impl Into<String>) -> SpanId {
        let (class, label) = (class.to_owned(), label.into());
        self.spans.push(Span { lane, row, class, label, from: at, until: None, ends: None });
        SpanId(self.spans.len() - 1)
    }

    /// Ends a bar. A bar that has ended stays as it is.
    pub fn end(&mut self, span: SpanId, at: u64) {
        if let Some(span) = self.spans.get_mut(span.0) {
            span.until.get_or_insert(at.max(span.from));
        }
    }

    /// When a bar will end by itself. The timeline shows it as an outline.
    pub fn ends_by_itself(&mut self, span: SpanId, at: Option<u64>) {
        if let Some(span) = self.spans.get_mut(span.0) {
            span.ends = at;
        }
    }

    /// Draws a message. `class` is `command`, `reply`, `message` or `write`.
    pub fn send(
        &mut self,
        (from, to): (Lane, Lane),
        (sent, arrives): (u64, u64),
        class: &'static str,
        label: impl Into<String>,
    ) -> ArrowId {
        self.arrows.push(Arrow { from, to, sent, arrives, class, label: label.into(), lost: false });
        ArrowId(self.arrows.len() - 1)
    }

    /// The message doesn't arrive.
    pub fn lose(&mut self, arrow: ArrowId) {
        if let Some(arrow) = self.arrows.get_mut(arrow.0) {
            arrow.lost = true;
        }
    }

    /// Adds a few words below a lane. They are left out where there is no room.
    pub fn caption(&mut self, lane: Lane, at: u64, text: impl Into<String>) -> CaptionId {
        self.captions.push(Caption { lane, at, text: text.into(), symbol: None });
        CaptionId(self.captions.len() - 1)
    }

    /// Adds words to a caption.
    pub fn extend(&mut self, caption: CaptionId, more: &str) {
        if let Some(caption) = self.captions.get_mut(caption.0) {
            caption.text.push_str(more);
        }
    }

    /// Marks something important.
    pub fn mark(&mut self, lane: Lane, at: u64, symbol: Symbol, text: impl Into<String>) {
        self.captions.push(Caption { lane, at, text: text.into(), symbol: Some(symbol) });
    }
}

/// A number with separators, as fences are shown: `2,628,497`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn a_fence_has_separators() {
        assert_eq!([0, 12, 123, 1234, 1_234_567].map(grouped), ["0", "12", "123", "1,234", "1,234,567"]);
    }
}
