//! How serde writes and reads the types that users see.

use alloc::string::String;
use core::fmt;
use core::marker::PhantomData;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::Digits;
use crate::time::api::Duration;
use crate::time::micros;

/// The units of a time, in microseconds.
const UNITS: &[(&str, u64)] =
    &[("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// What is expected in place of a text that is none.
const TIME: &str = "a time such as \"30s\", \"500ms\" or \"1h 30m\"";

/// A time as a text such as `30s`, `500ms`, `2m` or `1h 30m`. For `#[serde(with = "..")]`.
pub mod duration {
    use super::{Deserializer, Duration, Serializer, TIME, read, read_text, text};

    /// Writes a time: the number of the largest unit that has no rest.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text(*time))
    }

    /// Reads a time. A number without a unit is refused.
    ///
    /// # Errors
    /// Those of the deserializer, and for a text that is no time.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        read_text(deserializer, TIME, read)
    }
}

/// The same for a time that may be missing.
pub mod optional_duration {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, duration};

    #[derive(Serialize, Deserialize)]
    struct Time(#[serde(with = "duration")] Duration);

    /// Writes a time, or none.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(Time).serialize(serializer)
    }

    /// Reads a time, or none.
    ///
    /// # Errors
    /// As [`duration::deserialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Time>::deserialize(deserializer)?.map(|Time(time)| time))
    }
}

/// Reads a text that stands for a value.
pub(crate) fn read_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &'static str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, D::Error> {
    struct Text<T, F>(&'static str, F, PhantomData<T>);

    impl<T, F: FnOnce(&str) -> Option<T>> Visitor<'_> for Text<T, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            let Self(expected, read, _) = self;
            read(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &expected))
        }
    }

    deserializer.deserialize_str(Text(expected, read, PhantomData))
}

/// A time as its text.
fn text(time: Duration) -> String {
    let all = micros(time);
    let (unit, size) = match UNITS.iter().find(|(_, size)| all.is_multiple_of(*size)) {
        Some(unit) if all > 0 => *unit,
        _ => ("s", 1),
    };
    [Digits::of(all / size).as_str(), unit].concat()
}

/// Reads a time: one or several whole numbers with their units.
pub(crate) fn read(text: &str) -> Option<Duration> {
    let (mut rest, mut all) = (text.trim(), None);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|char: char| !char.is_ascii_digit())?);
        let (unit, after) = after.split_at(after.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(after.len()));
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let part = number.parse::<u64>().ok()?.checked_mul(*size)?;
        all = Some(all.unwrap_or(0_u64).checked_add(part)?);
        rest = after.trim_start();
    }
    all.map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ErrorCode, LossReason};
    use crate::event::{Inspection, ReleaseOutcome};
    use crate::ids::Fence;
    use crate::options::{Mode, Replicas, Wait};
    use std::format;
    use std::string::ToString;

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        for (written, micros) in [
            ("30s", 30_000_000),
            ("500ms", 500_000),
            ("90s", 90_000_000),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
            ("30d", 30 * 86_400_000_000),
            ("1500us", 1_500),
            ("0s", 0),
        ] {
            let time = Duration::from_micros(micros);
            assert_eq!((read(written), text(time)), (Some(time), written.to_string()));
        }
        for (written, seconds) in [("1h 30m", 5_400), ("1h30m", 5_400), (" 2m 5s ", 125)] {
            assert_eq!(read(written), Some(Duration::from_secs(seconds)), "{written}");
        }
        for bad in ["", "30", "s", "30 s", "1.5s", "-1s", "30sec", "forever", "99999999999999d"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_users_see_has_the_texts_of_the_manual() {
        fn both<T: Serialize + for<'de> Deserialize<'de> + PartialEq + fmt::Debug>(value: T, json: &str) {
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
            assert_eq!(serde_json::from_str::<T>(json).unwrap(), value);
        }
        both(Wait::No, "\"no\"");
        both(Wait::Forever, "\"forever\"");
        both(Wait::For(Duration::from_secs(30)), "\"30s\"");
        both(Mode::Shared, "\"shared\"");
        both(LossReason::MaxHold, "\"max-hold\"");
        both(ErrorCode::NotReplicated, "\"not-replicated\"");
        both(ReleaseOutcome::StillHeld, "\"still-held\"");
        both(Fence::new(1_800_000_000_000_000), "1800000000000000");
        both(Replicas { min: 2, timeout: Duration::from_millis(50) }, r#"{"min":2,"timeout":"50ms"}"#);
        both(
            Inspection { last_fence: Some(Fence::new(7)), ..Inspection::default() },
            r#"{"holders":[],"waiters":[],"waiting":0,"last_fence":7,"limit":null,"per":null}"#,
        );
    }

    #[test]
    fn a_text_that_is_none_is_refused_with_what_to_write() {
        let error = |json: &str| format!("{}", serde_json::from_str::<Wait>(json).unwrap_err());
        assert!(error("\"30\"").contains("a time such as \"30s\""), "{}", error("\"30\""));
        assert!(error("30").contains("\"forever\""), "{}", error("30"));
        assert!(serde_json::from_str::<LossReason>("\"stolen\"").is_err());
        assert!(serde_json::from_str::<Fence>("-1").is_err());
        assert!(serde_json::from_str::<Replicas>(r#"{"min":1,"timeout":"1s","max":2}"#).is_err());
    }
}
