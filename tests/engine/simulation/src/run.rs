//! Runs one seed from beginning to end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use leasehold_harness::Transcript;
use leasehold_model::{Engine, ModelServer};

use crate::coverage::Coverage;
use crate::injected_bugs::InjectedBugs;
use crate::invariants::{Broken, Verdict};
use crate::quorum::{Manner, QuorumRun};
use crate::theme::Theme;
use crate::world::{ClusterRun, Counts};

/// The most servers of any mix: as many as a quorum may have.
const SERVERS: usize = QuorumRun::SERVERS;
/// As many bits of a seed's hash are 0 if its servers also run the real scripts: one of 32 seeds.
const LUA_BITS: u32 = 5;
/// Every nth seed is also run with leases of several names.
const MULTI_EVERY: u64 = 4;
/// Every nth seed is also run with locks over several servers.
const QUORUM_EVERY: u64 = 8;
/// Every nth seed is also run with one lock over several servers that many want.
const QUORUM_HOT_EVERY: u64 = 16;
/// Every nth seed is also run with leases of several names over several servers.
const QUORUM_NAMES_EVERY: u64 = 16;
/// Every nth seed is also run with readers and writers over several servers.
const QUORUM_READERS_EVERY: u64 = 16;
/// Every nth seed is also run with leases whose end moves.
const KEEPING_EVERY: u64 = 8;
/// Every nth seed is also run with leases that are adopted.
const ADOPTING_EVERY: u64 = 8;

/// Runs seeds. It keeps the model servers, because they are slow to create and quick to empty.
pub struct Bench {
    models: Vec<ModelServer>,
    bugs: InjectedBugs,
}

/// The result of a seed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What happened.
    pub counts: Counts,
    /// Which faults struck in which states.
    pub coverage: Coverage,
    /// The first broken promise, if any.
    pub broken: Option<Broken>,
    /// The transcript, if it was written.
    pub transcript: Vec<String>,
}

impl Bench {
    /// A bench for the code as it is, or with a deliberate bug.
    ///
    /// # Errors
    /// If the text that a bug replaces in a script is no longer there.
    pub fn new(bugs: InjectedBugs) -> Result<Self, String> {
        let mut bench = Self { models: Vec::new(), bugs };
        bench.make_models()?;
        Ok(bench)
    }

    fn make_models(&mut self) -> Result<(), String> {
        self.models.clear();
        for _ in 0..SERVERS {
            let mut model = ModelServer::new();
            for (script, find, put) in self.bugs.scripts {
                model.replace_script(script, find, put)?;
            }
            self.models.push(model);
        }
        Ok(())
    }

    /// Runs a seed, with its own theme or the given one.
    pub fn run(&mut self, seed: u64, theme: Option<Theme>) -> Report {
        self.run_with(seed, theme, false)
    }

    /// Runs a seed again and writes a transcript.
    pub fn replay(&mut self, seed: u64, theme: Option<Theme>) -> Report {
        self.run_with(seed, theme, true)
    }

    fn run_with(&mut self, seed: u64, theme: Option<Theme>, written: bool) -> Report {
        let engine = self.engine(seed);
        self.models.iter_mut().for_each(|model| model.run_scripts_in(engine));
        match theme {
            Some(Theme::Multi) => return self.run_quorum(seed, Manner::Multi, written),
            Some(Theme::Quorum) => return self.run_quorum(seed, Manner::Plain, written),
            Some(Theme::QuorumHot) => return self.run_quorum(seed, Manner::Hot, written),
            Some(Theme::QuorumNames) => return self.run_quorum(seed, Manner::Names, written),
            Some(Theme::QuorumReaders) => return self.run_quorum(seed, Manner::Readers, written),
            Some(Theme::Keeping) => return self.run_keeping(seed, written),
            _ => {}
        }
        let mut report = self.run_cluster(seed, theme, written);
        let also = match theme {
            None if seed.is_multiple_of(MULTI_EVERY) => self.run_quorum(seed, Manner::Multi, written),
            None if seed % QUORUM_EVERY == 1 => self.run_quorum(seed, Manner::Plain, written),
            None if seed % QUORUM_HOT_EVERY == 5 => self.run_quorum(seed, Manner::Hot, written),
            None if seed % QUORUM_NAMES_EVERY == 13 => self.run_quorum(seed, Manner::Names, written),
            None if seed % QUORUM_READERS_EVERY == 7 => self.run_quorum(seed, Manner::Readers, written),
            None if seed % KEEPING_EVERY == 3 => self.run_keeping(seed, written),
            None if seed % ADOPTING_EVERY == 2 => self.run_cluster(seed, Some(Theme::Adopting), written),
            _ => return report,
        };
        if report.broken.is_none() {
            report.counts.add(&also.counts);
            report.coverage.add(&also.coverage);
            report.transcript.extend(also.transcript);
            report.broken = also.broken;
        }
        report
    }

    /// Half of these runs have every kind of lock on single servers.
    fn run_keeping(&mut self, seed: u64, written: bool) -> Report {
        match seed / KEEPING_EVERY % 4 {
            0 => self.run_quorum(seed, Manner::MultiKeeping, written),
            1 => self.run_quorum(seed, Manner::Keeping, written),
            _ => self.run_cluster(seed, Some(Theme::Keeping), written),
        }
    }

    /// What runs the scripts in a seed. Most seeds run the functions of `leasehold-memory`, because they are fast. The others
    /// run the real scripts beside them, and fail if they don't do the same.
    fn engine(&self, seed: u64) -> Engine {
        match () {
            // The functions refuse a call with other keys than the engine sends.
            () if self.bugs.none_key_left_out || self.bugs.renewals_need_all_keys => Engine::Lua,
            () if !self.bugs.scripts.is_empty() => Engine::Lua,
            () if cfg!(feature = "lua54") => Engine::Both,
            () if seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).leading_zeros() >= LUA_BITS => Engine::Both,
            () => Engine::Rust,
        }
    }

    fn run_quorum(&mut self, seed: u64, manner: Manner, written: bool) -> Report {
        let mut run = QuorumRun::new(seed, manner, &mut self.models, Transcript::new(written));
        let (broken, panicked) = verdict_of(|| run.run());
        let (counts, transcript) = (run.counts(), run.into_transcript());
        self.report(panicked, Report { seed, counts, coverage: Coverage::default(), broken, transcript })
    }

    fn run_cluster(&mut self, seed: u64, theme: Option<Theme>, written: bool) -> Report {
        let mut run = ClusterRun::new(seed, theme, self.bugs, &mut self.models, Transcript::new(written));
        let (broken, panicked) = verdict_of(|| run.run());
        let (counts, coverage, transcript) = (run.counts(), run.coverage().clone(), run.into_transcript());
        self.report(panicked, Report { seed, counts, coverage, broken, transcript })
    }

    /// After a panic, the models can't be trusted.
    fn report(&mut self, panicked: bool, report: Report) -> Report {
        if panicked {
            let _ = self.make_models();
        }
        report
    }
}

/// What a run has broken, and whether it panicked.
fn verdict_of(run: impl FnOnce() -> Verdict) -> (Option<Broken>, bool) {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(verdict) => (verdict.err(), false),
        Err(panic) => (Some(Broken { invariant: "panic", detail: text_of(panic.as_ref()) }), true),
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".into())
}
