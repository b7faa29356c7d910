//! What the table of options is made of: its rows, and the macros that declare them. The rows are in `options`.

use crate::error::Error;
use crate::text::Digits;
use crate::time;
use crate::time::api::Duration;

/// One option: what all surfaces have in common. Numbers of a time are in milliseconds.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// The name in Rust. Other languages write it in their own case.
    pub name: &'static str,
    /// The default, for the manual.
    pub default: &'static str,
    /// The default as a number, if it is one.
    pub default_number: u64,
    /// The least and the greatest value, and both as text. Not for all options.
    pub bounds: Bounds,
    /// Where it can be set: for a `lock`, a `manager`, a `quorum`, a `semaphore`, a `multi` of several names, a `close`.
    pub places: &'static [&'static str],
    /// What it does, for the manual.
    pub about: &'static str,
}

/// What values an option takes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Bounds {
    /// The least value.
    pub least: u64,
    /// The greatest value.
    pub most: u64,
    /// Both as text, with their units.
    pub text: &'static str,
    /// What to choose, for error messages.
    pub(crate) choose: &'static str,
    /// Whether they are numbers, and no times.
    pub(crate) is_count: bool,
}

impl Setting {
    /// Whether it is a number, and no time.
    #[doc(hidden)]
    pub fn is_count(&self) -> bool {
        self.bounds.is_count
    }

    pub(crate) const fn default_time(self) -> Duration {
        Duration::from_millis(self.default_number)
    }
}

/// Sets an option of the table. For drivers that read options from a record.
#[doc(hidden)]
#[allow(missing_docs)] // Their types explain them.
pub enum Setter<'a> {
    Time(&'a mut Duration),
    OptionalTime(&'a mut Option<Duration>),
    Count(&'a mut Option<u32>),
    Flag(&'a mut bool),
}

/// A type that an option of the table can have.
pub(crate) trait Settable {
    fn setter(&mut self) -> Setter<'_>;

    /// The number that has bounds: a count, or the microseconds of a time.
    fn number(&self) -> Option<u64>;
}

macro_rules! settable {
    ($($type:ty as $variant:ident: |$value:ident| $number:expr;)+) => {
        $(impl Settable for $type {
            fn setter(&mut self) -> Setter<'_> {
                Setter::$variant(self)
            }

            fn number(&self) -> Option<u64> {
                let $value = *self;
                $number
            }
        })+
    };
}

settable! {
    Duration as Time: |time| Some(time::Duration::from(time).as_micros());
    Option<Duration> as OptionalTime: |time| time.map(|time| time::Duration::from(time).as_micros());
    Option<u32> as Count: |count| count.map(u64::from);
    bool as Flag: |_flag| None;
}

/// What a check needs of a row. So the texts for the manual are in no binary.
pub(crate) struct Rule {
    name: &'static str,
    least: u64,
    most: u64,
    choose: &'static str,
    is_time: bool,
}

impl Setting {
    pub(crate) const fn rule(self) -> Rule {
        let is_time = !self.bounds.is_count;
        let unit = if is_time { 1_000 } else { 1 };
        Rule {
            name: self.name,
            least: self.bounds.least * unit,
            most: self.bounds.most * unit,
            choose: self.bounds.choose,
            is_time,
        }
    }
}

#[inline(never)]
pub(crate) fn check_number(number: u64, rule: &Rule) -> Result<(), Error> {
    if (rule.least..=rule.most).contains(&number) {
        return Ok(());
    }
    let (shown, unit) = if rule.is_time { (number / 1_000, " ms: choose ") } else { (number, ": choose ") };
    let problem = ["is ", Digits::of(shown).as_str(), unit, rule.choose].concat();
    Err(Error::InvalidOption { field: rule.name, problem })
}

/// The number of a value in the table: a count, a time, or none.
macro_rules! number {
    (true) => {
        0
    };
    (false) => {
        0
    };
    ($number:literal) => {
        $number
    };
    ($number:literal ms) => {
        $number
    };
    ($number:literal s) => {
        $number * 1_000
    };
    ($number:literal h) => {
        $number * 3_600_000
    };
    ($number:literal days) => {
        $number * 24 * 3_600_000
    };
    ($word:ident) => {
        0
    };
    () => {
        0
    };
}

macro_rules! text {
    ($number:literal $($unit:ident)?) => { concat!($number $(, " ", stringify!($unit))?) };
    ($word:ident) => { stringify!($word) };
    () => { "" };
}

/// Bounds. Around them stand the words of error messages, if there are any.
macro_rules! bounds {
    () => { bounds!(@ false, 0, 0, "", "", "") };
    ($least:literal to $most:literal as $text:literal, $before:literal, $after:literal) => {
        bounds!(@ true, $least, $most, $text, $before, $after)
    };
    ($least:literal $low:ident to $most:literal $high:ident) => { bounds!($least $low to $most $high, "", "") };
    ($least:literal $low:ident to $most:literal $high:ident, $before:literal, $after:literal) => {
        bounds!(
            @ false, number!($least $low), number!($most $high),
            concat!($least, " ", stringify!($low), " to ", $most, " ", stringify!($high)),
            $before, $after
        )
    };
    (@ $is_count:literal, $least:expr, $most:expr, $text:expr, $before:literal, $after:literal) => {
        Bounds { least: $least, most: $most, text: $text, choose: concat!($before, $text, $after), is_count: $is_count }
    };
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $list:ident {
        $($setting:ident $name:literal ($($default:tt)*) ($($bounds:tt)*) [$($place:ident)+] $about:literal;)+
    })+) => {
        $(
            $(
                const $setting: Setting = Setting {
                    name: $name,
                    default: text!($($default)*),
                    default_number: number!($($default)*),
                    bounds: bounds!($($bounds)*),
                    places: &[$(stringify!($place)),+],
                    about: $about,
                };
            )+
            $(#[doc = $doc])+
            pub const $list: &[Setting] = &[$($setting),+];
        )+
    };
}

/// Refuses a time that is out of the bounds of its row.
macro_rules! check_time {
    ($row:ident, $time:expr) => {{
        const RULE: Rule = $row.rule();
        check_number(time::Duration::from($time).as_micros(), &RULE)
    }};
}

/// Declares the options that need no code of their own where options are read or checked: fields and rows.
macro_rules! plain {
    ($($options:ident { $($field:ident $row:ident),+ })+) => {
        $(impl $options {
            /// The rows of [`setters`](Self::setters), in their order.
            #[doc(hidden)]
            pub const PLAIN: &'static [Setting] = &[$($row),+];

            /// Hands over the plain options to be set, in the order of their rows, until `set` answers none.
            #[doc(hidden)]
            pub fn set_plain(&mut self, set: &mut dyn FnMut(Setter<'_>) -> Option<()>) -> Option<()> {
                $(set(self.$field.setter())?;)+
                Some(())
            }

            fn check_plain(&self) -> Result<(), Error> {
                $({
                    const RULE: Rule = $row.rule();
                    if let Some(number) = self.$field.number() {
                        check_number(number, &RULE)?;
                    }
                })+
                Ok(())
            }
        })+
    };
}
