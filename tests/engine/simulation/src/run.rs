//! Runs one seed from beginning to end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use leasehold_harness::Transcript;
use leasehold_model::{Engine, ModelServer, TimeFor};

use crate::coverage::Coverage;
use crate::election::ElectionRun;
use crate::injected_bugs::InjectedBugs;
use crate::invariants::{Broken, Verdict};
use crate::quorum::{Manner, QuorumRun};
use crate::rate::RateRun;
use crate::theme::Theme;
use crate::world::{ClusterRun, Counts};

/// The most servers of any mix: as many as a quorum may have.
const SERVERS: usize = QuorumRun::SERVERS;
/// As many bits of a seed's hash are 0 if its servers also run the real scripts: one of 32 seeds.
const LUA_BITS: u32 = 5;
/// What seeds also run: every nth one, and its remainder. The first that fits counts.
const BESIDE: [(u64, u64, Theme); 11] = [
    (16, 4, Theme::Waiters),
    (4, 0, Theme::Multi),
    (8, 1, Theme::Quorum),
    (16, 5, Theme::QuorumHot),
    (16, 13, Theme::QuorumNames),
    (16, 7, Theme::QuorumReaders),
    (8, 3, Theme::Keeping),
    (8, 2, Theme::Adopting),
    (16, 6, Theme::Election),
    (16, 14, Theme::Once),
    (16, 15, Theme::Rate),
];

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
        // Scripts that may not run `TIME` also write to know the time. The functions don't, so only these run.
        let time = if engine == Engine::Rust { time_for(seed) } else { TimeFor::All };
        self.models.iter_mut().for_each(|model| {
            model.run_scripts_in(engine);
            model.allow_time(time);
        });
        if let Some(theme) = theme {
            return self.run_theme(seed, theme, written);
        }
        let mut report = self.run_cluster(seed, None, written);
        let beside = BESIDE.into_iter().find(|(every, rest, _)| seed % every == *rest);
        let Some((.., theme)) = beside else { return report };
        let also = self.run_theme(seed, theme, written);
        if report.broken.is_none() {
            report.counts.add(&also.counts);
            report.coverage.add(&also.coverage);
            report.transcript.extend(also.transcript);
            report.broken = also.broken;
        }
        report
    }

    fn run_theme(&mut self, seed: u64, theme: Theme, written: bool) -> Report {
        if theme == Theme::Election {
            return self.run_election(seed, written);
        }
        if theme == Theme::Rate {
            return self.run_rate(seed, written);
        }
        let manner = match (theme, seed / 8 % 4) {
            (Theme::Multi, 3) if seed.is_multiple_of(3) => Manner::MultiBusy,
            (Theme::Multi, _) => Manner::Multi,
            (Theme::Quorum, _) => Manner::Plain,
            (Theme::QuorumHot, _) => Manner::Hot,
            (Theme::QuorumNames, _) => Manner::Names,
            (Theme::QuorumReaders, _) => Manner::Readers,
            // The other half of these runs have every kind of lock on single servers.
            (Theme::Keeping, 0) => Manner::MultiKeeping,
            (Theme::Keeping, 1) => Manner::Keeping,
            _ => return self.run_cluster(seed, Some(theme), written),
        };
        let mut run = QuorumRun::new(seed, manner, &mut self.models, Transcript::new(written));
        let (broken, panicked) = verdict_of(|| run.run());
        let (counts, transcript) = (run.counts(), run.into_transcript());
        self.report(panicked, Report { seed, counts, coverage: Coverage::default(), broken, transcript })
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

    fn run_election(&mut self, seed: u64, written: bool) -> Report {
        let Some(model) = self.models.first_mut() else { return Report::default() };
        let mut run = ElectionRun::new(seed, model, Transcript::new(written));
        let (broken, panicked) = verdict_of(|| run.run());
        let (counts, transcript) = (run.counts(), run.into_transcript());
        self.report(panicked, Report { seed, counts, coverage: Coverage::default(), broken, transcript })
    }

    fn run_rate(&mut self, seed: u64, written: bool) -> Report {
        let Some(model) = self.models.first_mut() else { return Report::default() };
        let mut run = RateRun::new(seed, model, Transcript::new(written));
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

/// Whose scripts may run `TIME` in a seed. 25 has no factor in common with the numbers of [`BESIDE`]. The environment variable
/// `LEASEHOLD_REFUSE_TIME` chooses for all seeds: `all` or `some`.
fn time_for(seed: u64) -> TimeFor {
    static CHOSEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("LEASEHOLD_REFUSE_TIME").ok());
    match (CHOSEN.as_deref(), seed % 25) {
        (Some("all"), _) | (None, 10) => TimeFor::Nobody,
        (Some("some"), _) | (None, 20) => TimeFor::Some,
        _ => TimeFor::All,
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
