//! A mutant is the bug, and the rule of the design that it breaks. Each stands in one place, with its name and its theme.
//!
//! Some rules have no mutant. An acquire of a token that is held in the other mode conflicts: no engine can send it any
//! more, because a conversion uses a new token (`convert-keeps-token`). A used fence that is wrong can't move the counter
//! far, and a counter that is no number is left as it is: no engine writes one. A heartbeat marks the holder: every
//! script that lets somebody enter while others wait has marked it already. A
//! renewal that waits for others is no longer needed too rarely; a test of the flow has that case.

use super::Mutant;
use super::copy::Change;
use crate::injected_bugs::{InjectedBugs, ScriptChange};
use crate::theme::Theme;

const NONE: InjectedBugs =
    InjectedBugs { scripts: &[], clock_stops_asleep: false, renewals_need_all_keys: false, none_key_left_out: false };

const PLAIN: Mutant = Mutant { name: "", rule: "", engine: &[], bugs: NONE, theme: Theme::Calm, seed: None };

pub(super) const fn engine(
    (name, theme, rule): (&'static str, Theme, &'static str),
    seeds: &[u64],
    changes: &'static [Change],
) -> Mutant {
    Mutant { name, rule, theme, engine: changes, seed: first(seeds), ..PLAIN }
}

pub(super) const fn script(
    (name, theme, rule): (&'static str, Theme, &'static str),
    seeds: &[u64],
    changes: &'static [ScriptChange],
) -> Mutant {
    Mutant { name, rule, theme, bugs: InjectedBugs { scripts: changes, ..NONE }, seed: first(seeds), ..PLAIN }
}

const fn first(seeds: &[u64]) -> Option<u64> {
    if let [seed, ..] = seeds { Some(*seed) } else { None }
}

/// A mutant of the engine: its name, the theme that is likely to notice it, the rule that it breaks, a known seed if few
/// show it, and for each change the file, the text to find, and what to put there.
macro_rules! engine {
    ($name:literal $theme:ident $rule:literal $(seed $seed:literal)? $($file:literal: $find:literal => $put:literal);+) => {
        $crate::mutants::table::engine(
            ($name, $crate::theme::Theme::$theme, $rule),
            &[$($seed)?],
            &[$($crate::mutants::copy::Change { file: $file, find: $find, put: $put }),+],
        )
    };
}

/// The same for scripts. A change can be in several of them.
macro_rules! script {
    ($name:literal $theme:ident $rule:literal $(seed $seed:literal)? $($($script:literal)+: $find:literal => $put:literal);+) => {
        $crate::mutants::table::script(
            ($name, $crate::theme::Theme::$theme, $rule),
            &[$($seed)?],
            &[$($(($script, $find, $put)),+),+],
        )
    };
}

/// The mutants that change neither.
pub(super) const TABLE: &[Mutant] = &[
    Mutant {
        name: "suspended-clock",
        rule: "the clock counts suspended time",
        bugs: InjectedBugs { clock_stops_asleep: true, ..NONE },
        theme: Theme::Clients,
        ..PLAIN
    },
    Mutant {
        name: "renewal-needs-all-keys",
        rule: "an exclusive renewal declares only N, and goes on while a slot moves",
        bugs: InjectedBugs { renewals_need_all_keys: true, ..NONE },
        theme: Theme::Moving,
        ..PLAIN
    },
    Mutant {
        name: "none-key-left-out",
        rule: "one declared key never exists, so no script is stopped halfway while a slot moves",
        bugs: InjectedBugs { none_key_left_out: true, ..NONE },
        theme: Theme::Converts,
        ..PLAIN
    },
];
