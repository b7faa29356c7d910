//! Deliberate bugs outside the engine. A normal run has none. The bugs in the engine are in
//! [`mutants`](crate::mutants).

/// A change to a script: its name, the text to find, and its replacement.
pub type ScriptChange = (&'static str, &'static str, &'static str);

/// The deliberate bugs of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct InjectedBugs {
    /// In the scripts.
    pub scripts: &'static [ScriptChange],
    /// In the driver: its clock stands still while the machine sleeps.
    pub clock_stops_asleep: bool,
    /// In the engine's commands: an exclusive renewal also declares the side keys, so a moving slot refuses it.
    pub renewals_need_all_keys: bool,
    /// In the engine's commands: the key that never exists is left out. So a server whose slot moves runs a script if
    /// all its other keys are there.
    pub none_key_left_out: bool,
}
