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

pub(super) const fn engine(name: &'static str, changes: &'static [Change], theme: Theme, rule: &'static str) -> Mutant {
    Mutant { name, rule, engine: changes, bugs: NONE, theme }
}

pub(super) const fn script(
    name: &'static str,
    changes: &'static [ScriptChange],
    theme: Theme,
    rule: &'static str,
) -> Mutant {
    Mutant { name, rule, engine: &[], bugs: InjectedBugs { scripts: changes, ..NONE }, theme }
}

/// A mutant of the engine: its name, the theme that is likely to notice it, the rule that it breaks, and for each change the
/// file, the text to find, and what to put there.
macro_rules! engine {
    ($name:literal $theme:ident $rule:literal $($file:literal: $find:literal => $put:literal);+) => {
        $crate::mutants::table::engine(
            $name,
            &[$($crate::mutants::copy::Change { file: $file, find: $find, put: $put }),+],
            $crate::theme::Theme::$theme,
            $rule,
        )
    };
}

/// The same for scripts. A change can be in several of them.
macro_rules! script {
    ($name:literal $theme:ident $rule:literal $($($script:literal)+: $find:literal => $put:literal);+) => {
        $crate::mutants::table::script(
            $name,
            &[$($(($script, $find, $put)),+),+],
            $crate::theme::Theme::$theme,
            $rule,
        )
    };
}

/// The mutants that change neither.
pub(super) const TABLE: &[Mutant] = &[
    Mutant {
        name: "suspended-clock",
        rule: "the clock counts suspended time",
        engine: &[],
        bugs: InjectedBugs { clock_stops_asleep: true, ..NONE },
        theme: Theme::Clients,
    },
    Mutant {
        name: "renewal-needs-all-keys",
        rule: "an exclusive renewal declares only N, and goes on while a slot moves",
        engine: &[],
        bugs: InjectedBugs { renewals_need_all_keys: true, ..NONE },
        theme: Theme::Moving,
    },
    Mutant {
        name: "none-key-left-out",
        rule: "one declared key never exists, so no script is stopped halfway while a slot moves",
        engine: &[],
        bugs: InjectedBugs { none_key_left_out: true, ..NONE },
        theme: Theme::Converts,
    },
];
