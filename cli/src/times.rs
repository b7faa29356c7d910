//! Times on the command line. Their bounds and defaults are those of the engine's table of options.

use std::time::Duration;

use leasehold::Wait;
use leasehold_core::{LOCK_SETTINGS, MANAGER_SETTINGS, Setting};

/// A wait without a limit.
pub(crate) const FOREVER: &str = "forever";

const FORMS: &str = "write a time like 30s, 500ms, 2m or 1h, or a number of seconds";

/// The row of an option in the engine's table.
fn setting(name: &str) -> &'static Setting {
    let row = LOCK_SETTINGS.iter().chain(MANAGER_SETTINGS).find(|setting| setting.name == name);
    row.unwrap_or_else(|| unreachable!("the engine has no option `{name}`"))
}

/// An option's default as a user writes it: `30s`. The help shows a text with a space in quotes.
pub(crate) fn default_of(name: &str) -> &'static str {
    // Only a few, and once for each run.
    setting(name).default.replace(' ', "").leak()
}

/// A time such as `30s`, `500ms`, `2m` or `1h 30m`. A number alone is seconds, as with `flock --timeout`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Some(rest) = text.strip_prefix('-') {
        let is_time = rest.starts_with(|digit: char| digit.is_ascii_digit());
        return Err(if is_time {
            "a time can't be negative".to_owned()
        } else {
            format!("the time is missing: {FORMS}")
        });
    }
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string());
    }
    humantime::parse_duration(text).map_err(|_| FORMS.to_owned())
}

/// A time within the bounds of this option.
pub(crate) fn in_bounds(option: &'static str) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let (time, bounds) = (duration(text)?, &setting(option).bounds);
        let is_within = time >= Duration::from_millis(bounds.least) && time <= Duration::from_millis(bounds.most);
        if is_within { Ok(time) } else { Err(format!("choose {}", bounds.text)) }
    }
}

/// How long to wait for a lock: 0 is a try.
pub(crate) fn wait(text: &str) -> Result<Wait, String> {
    if text == FOREVER {
        return Ok(Wait::Forever);
    }
    let also = |error: String| format!("{error}; 0 tries once, `{FOREVER}` sets no limit");
    match duration(text).map_err(also)? {
        Duration::ZERO => Ok(Wait::No),
        _ => in_bounds("wait")(text).map(Wait::For).map_err(also),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_alone_is_seconds() {
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["-1", "", "soon", "NaN", "1e300"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_that_cannot_be_used_is_refused_with_what_to_write() {
        for (text, told) in [("-5", "negative"), ("-5s", "negative"), ("--wait", "missing"), ("--", "missing")] {
            assert!(duration(text).is_err_and(|error| error.contains(told)), "{text}");
        }
        for bad in ["1ms", "1000days"] {
            assert_eq!(in_bounds("ttl")(bad), Err(format!("choose {}", setting("ttl").bounds.text)), "{bad}");
        }
        assert_eq!(in_bounds("ttl")(default_of("ttl")), Ok(Duration::from_secs(30)));
    }

    #[test]
    fn a_wait_has_no_limit_or_one_or_is_a_try() {
        assert_eq!(wait("forever"), Ok(Wait::Forever));
        assert_eq!(wait("5m"), Ok(Wait::For(Duration::from_secs(300))));
        assert_eq!(wait("0s"), Ok(Wait::No));
        for bad in ["-1", "ever", "31days", ""] {
            assert!(wait(bad).is_err_and(|error| error.contains("`forever`")), "{bad}");
        }
    }
}
