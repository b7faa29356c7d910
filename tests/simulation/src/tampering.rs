//! Deliberate faults of the code under test. None in a plain run.

use leasehold_core::Mutant;

/// A change to a script: its name, what to find, what to put there.
pub type ScriptChange = (&'static str, &'static str, &'static str);

/// What is wrong in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tampering {
    /// In every engine.
    pub engine: Option<Mutant>,
    /// In the scripts.
    pub scripts: &'static [ScriptChange],
    /// In the driver: its clock stands still while the machine sleeps.
    pub clock_stops_asleep: bool,
    /// In the engine's commands: an exclusive renewal names the side keys, too, so a moving slot refuses it.
    pub renewals_need_all_keys: bool,
    /// In the engine's commands: the key that is never there is left out, so a server whose slot moves runs a script whose keys are
    /// all there.
    pub none_key_left_out: bool,
}
