use serde_json::Value;

/// What a worker process reports, as one line of JSON on its standard output.
///
/// Times are microseconds of the system's clock, which all processes on a machine share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// It is connected and starts.
    Ready { server: String },
    /// It holds the lock, has read what it wants to change, and stays there because it was told to.
    Lingering { fence: u64 },
    /// It got the lock, did its work and released the lock.
    Done(Turn),
    /// Its lease had expired, and the resource refused its late write.
    Refused { fence: u64 },
    /// It wrote after its lease had expired, and the resource accepted the write: fencing must prevent this.
    Slipped { fence: u64 },
    /// The shared state at the end.
    Final { counter: i64, mirror: i64 },
    /// The process ended.
    Ended,
}

/// One hold of the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) fence: u64,
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    pub(crate) released: u64,
    /// Whether a reader saw a whole update. Always true for a writer.
    pub(crate) consistent: bool,
}

impl Event {
    /// Reads a line. Returns `None` for a line that is not an event.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        let signed = |key: &str| value.get(key).and_then(Value::as_i64);
        match value.get("event")?.as_str()? {
            "ready" => Some(Self::Ready { server: value.get("server")?.as_str()?.to_owned() }),
            "lingering" => Some(Self::Lingering { fence: number("fence")? }),
            "refused" => Some(Self::Refused { fence: number("fence")? }),
            "slipped" => Some(Self::Slipped { fence: number("fence")? }),
            "final" => Some(Self::Final { counter: signed("counter")?, mirror: signed("mirror")? }),
            "done" => Some(Self::Done(Turn {
                fence: number("fence")?,
                asked: number("asked")?,
                granted: number("granted")?,
                released: number("released")?,
                consistent: value.get("consistent")?.as_bool()?,
            })),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_read() {
        let line = r#"{"event":"done","fence":7,"asked":1,"granted":2,"released":3,"consistent":true}"#;
        let turn = Turn { fence: 7, asked: 1, granted: 2, released: 3, consistent: true };
        assert_eq!(Event::parse(line), Some(Event::Done(turn)));
    }

    #[test]
    fn other_lines_are_passed_over() {
        assert_eq!(Event::parse("warning: something"), None);
        assert_eq!(Event::parse(r#"{"event":"done","fence":7}"#), None);
    }
}
