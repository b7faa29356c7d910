//! Reads the output of test runners: how many tests passed, which ones failed, and how long each took.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use super::log::{Line, plain};

/// How many tests ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// What a run of tests reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) tally: Tally,
    /// The tests that failed.
    pub(crate) failed: Vec<String>,
    /// Whether a test program ended before its tests.
    pub(crate) is_cut_off: bool,
    /// How long each test took.
    pub(crate) tests: Vec<(String, Duration)>,
    /// How long each file of tests took: the sum of its tests.
    pub(crate) files: BTreeMap<String, Duration>,
}

/// How a Rust test says that it can't run here, after which it passes: `skipped: this server has no TLS`.
const SKIPPED: &str = "skipped: ";
/// How our scripts around Node's test runner report a file: `slowest: 12.3 s ts/api/loss.test.ts`.
const SLOWEST: &str = "slowest: ";
/// What comes before the tests that failed are repeated: `running once more: moments::a moments::b`.
pub(crate) const AGAIN: &str = "running once more: ";

impl Report {
    /// Reads the output of cargo's and Node's test runners. The Rust tests ran in this many threads.
    pub(crate) fn of(lines: &[Line], threads: usize) -> Self {
        let mut report = Self::default();
        let mut program = None;
        let (mut counts, mut failures, mut suites) = (false, false, Vec::new());
        for Line { at, text } in lines {
            let text = &*plain(text);
            if text.starts_with(AGAIN) {
                report.close(program.take(), threads);
                report.failed.clear();
                report.tally.failed = 0;
            } else if let Some(name) = program_of(text) {
                report.close(program.replace(Program::of(name, *at)), threads);
            } else if text.starts_with("running ") && program.as_ref().is_none_or(|program| program.tally.is_some()) {
                // The tests in docs have one header for several programs.
                let name = program.as_ref().map(|program| program.name.clone()).unwrap_or_default();
                report.close(program.replace(Program::of(name, *at)), threads);
            } else if let Some(program) = &mut program {
                program.read(text, *at);
            }
            if text.starts_with("ℹ tests ") {
                (counts, failures) = (true, false);
            } else if text.starts_with("ℹ duration_ms ") {
                counts = false;
            } else if let Some(tally) = node_tally_of(text).filter(|_| counts) {
                report.tally += tally;
            } else if text.ends_with("failing tests:") {
                failures = true;
            } else if failures && text.starts_with('✖') {
                // What failed comes again at the end. Lines of an error are indented.
                if let Some((name, took)) = node_test_of(text, '✖') {
                    report.failed.push(name.to_owned());
                    report.tests.push((name.to_owned(), took));
                }
            } else if let Some(suite) = text.trim_start().strip_prefix("▶ ") {
                suites.push(suite.to_owned());
            } else if let Some((name, took)) = node_test_of(text, '✔').or_else(|| node_test_of(text, '✖')) {
                // The line at the end of a suite looks like that of a test.
                if suites.last().is_some_and(|suite| suite == name) {
                    suites.pop();
                } else if text.trim_start().starts_with('✔') {
                    report.tests.push((name.to_owned(), took));
                }
            } else if let Some((took, file)) = text.strip_prefix(SLOWEST).and_then(|rest| rest.split_once(" s ")) {
                *report.files.entry(file.to_owned()).or_default() += seconds(took).unwrap_or_default();
            }
        }
        report.close(program, threads);
        report
    }

    /// Adds what a program of cargo reported.
    fn close(&mut self, program: Option<Program>, threads: usize) {
        let Some(program) = program else { return };
        self.add(program.durations(threads));
        let named = if program.listed.is_empty() { &program.failed } else { &program.listed };
        self.failed.extend(named.iter().map(|name| program.test(name)));
        let mut tally = program.tally.unwrap_or_else(|| {
            self.is_cut_off = true;
            self.failed.push(format!("{} ended before its tests", program.name));
            let failed = program.failed.len() as u64;
            Tally { passed: program.ended.len() as u64 - failed, failed: failed + 1, skipped: 0 }
        });
        let skipped = program.skipped.min(tally.passed);
        tally.passed -= skipped;
        tally.skipped += skipped;
        self.tally += tally;
    }

    fn add(&mut self, durations: Vec<(String, String, Duration)>) {
        for (file, test, took) in durations {
            *self.files.entry(file).or_default() += took;
            self.tests.push((test, took));
        }
    }
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.tally += other.tally;
        self.failed.extend(other.failed);
        self.is_cut_off |= other.is_cut_off;
        self.tests.extend(other.tests);
        for (file, took) in other.files {
            *self.files.entry(file).or_default() += took;
        }
    }
}

/// A test program of cargo.
struct Program {
    name: String,
    began: Instant,
    /// Its tests, in the order in which they ended.
    ended: Vec<(String, Instant, Option<Duration>)>,
    failed: Vec<String>,
    skipped: u64,
    /// Whether the output of its failed tests has begun. What they print may look like anything.
    is_quoting: bool,
    /// The failed tests again, at the end. Other processes may have written between the words of the lines above.
    listed: Vec<String>,
    is_listing: bool,
    tally: Option<Tally>,
}

impl Program {
    fn of(name: String, began: Instant) -> Self {
        Self {
            name,
            began,
            ended: Vec::new(),
            failed: Vec::new(),
            skipped: 0,
            is_quoting: false,
            listed: Vec::new(),
            is_listing: false,
            tally: None,
        }
    }

    fn read(&mut self, text: &str, at: Instant) {
        if let Some(tally) = tally_of(text) {
            self.tally = Some(tally);
            self.is_listing = false;
        } else if text == "failures:" {
            (self.is_quoting, self.is_listing) = (true, true);
            self.listed.clear();
        } else if self.is_quoting {
            self.listed.extend(text.strip_prefix("    ").filter(|_| self.is_listing).map(str::to_owned));
        } else if self.tally.is_none() {
            if text.starts_with("running ") {
                self.began = at;
            } else if let Some((name, result, took)) = test_of(text) {
                self.ended.push((name.to_owned(), at, took));
                self.failed.extend((result == "FAILED").then(|| name.to_owned()));
            }
            self.skipped += u64::from(text.contains(SKIPPED));
        }
    }

    fn test(&self, name: &str) -> String {
        format!("{} {name}", self.name)
    }

    /// File, test and duration of each test.
    ///
    /// The test runner prints only when a test ends. But it starts the tests in the order of their names: first as many
    /// as there are threads, and then one each time a test ends.
    fn durations(&self, threads: usize) -> Vec<(String, String, Duration)> {
        let mut by_name: Vec<_> = self.ended.iter().collect();
        by_name.sort_by(|one, other| one.0.cmp(&other.0));
        let timed = by_name.into_iter().enumerate().map(|(number, (name, end, took))| {
            let before = number.checked_sub(threads).and_then(|before| self.ended.get(before));
            let began = before.map_or(self.began, |(_, at, _)| *at);
            self.timed(name, took.unwrap_or_else(|| end.saturating_duration_since(began)))
        });
        timed.collect()
    }

    fn timed(&self, name: &str, took: Duration) -> (String, String, Duration) {
        // In a program with several files, each file is a module at its root. A test in docs begins with its file.
        let file = match name.split_once(" - ").or_else(|| name.split_once("::")) {
            Some((module, _)) => format!("{} {module}", self.name),
            None => self.name.clone(),
        };
        (file, self.test(name), took)
    }
}

/// Reads `     Running tests/suite/main.rs (target/debug/deps/suite-0123)` and `   Doc-tests leasehold`. The program before may
/// have left its last line without an end.
fn program_of(line: &str) -> Option<String> {
    if let Some((_, package)) = line.split_once("   Doc-tests ") {
        return Some(format!("{package} (docs)"));
    }
    let (_, path) = line.split_once("     Running ")?.1.strip_suffix(')')?.rsplit_once(" (")?;
    let name = path.rsplit(['/', '\\']).next()?;
    Some(name.rsplit_once('-').map_or(name, |(name, _)| name).to_owned())
}

/// Reads `test faults::a_late_reply_is_ignored ... ok`, and from our own runners `test examples/a.rs ... ok <1.234s>`.
fn test_of(line: &str) -> Option<(&str, &str, Option<Duration>)> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (result, took) = outcome.split_once(' ').unwrap_or((outcome, ""));
    let took = took.strip_prefix('<').and_then(|took| seconds(took.strip_suffix("s>")?));
    matches!(result, "ok" | "FAILED").then(|| (name.trim_end_matches(" - should panic"), result, took))
}

/// Reads `test result: ok. 8 passed; 0 failed; 1 ignored; ...`.
fn tally_of(line: &str) -> Option<Tally> {
    let counts = line.trim_start().strip_prefix("test result: ")?.split_once(". ")?.1;
    let count_of = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
    Some(Tally { passed: count_of(" passed")?, failed: count_of(" failed")?, skipped: count_of(" ignored")? })
}

/// Reads `ℹ pass 8`, `ℹ fail 0`, `ℹ cancelled 0` and `ℹ skipped 0`, the last lines of Node's own test runner.
fn node_tally_of(line: &str) -> Option<Tally> {
    let (what, count) = line.strip_prefix("ℹ ")?.split_once(' ')?;
    let count = count.trim().parse().ok()?;
    match what {
        "pass" => Some(Tally { passed: count, ..Tally::default() }),
        // A test that took too long is cancelled.
        "fail" | "cancelled" => Some(Tally { failed: count, ..Tally::default() }),
        "skipped" => Some(Tally { skipped: count, ..Tally::default() }),
        _ => None,
    }
}

/// Reads `  ✔ a late reply is ignored (12.5ms)`, but not `✖ an idea (5ms) # TODO`.
fn node_test_of(line: &str, mark: char) -> Option<(&str, Duration)> {
    let (name, took) = line.trim_start().strip_prefix(mark)?.trim_start().rsplit_once(" (")?;
    Some((name, seconds(took.strip_suffix("ms)")?)? / 1_000))
}

fn seconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report of lines that came at these seconds, from tests in two threads.
    fn read(lines: &[(u64, &str)]) -> Report {
        let start = Instant::now();
        let line = |(at, text): &(u64, &str)| Line { at: start + Duration::from_secs(*at), text: (*text).to_owned() };
        Report::of(&lines.iter().map(line).collect::<Vec<_>>(), 2)
    }

    #[test]
    fn the_output_of_cargo_test_tells_what_failed_and_how_long_each_test_took() {
        let report = read(&[
            (1, "     Running tests/suite/main.rs (target/debug/deps/suite-0123abcd)"),
            (1, "running 4 tests"),
            (2, "test locks::b ... ok"),
            (5, "test locks::a ... FAILED"),
            (6, "test waits::d ... ok"),
            (9, "test waits::c ... ok"),
            (9, "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 8.00s"),
        ]);
        assert_eq!(report.tally, Tally { passed: 3, failed: 1, skipped: 2 });
        assert_eq!(report.failed, ["suite locks::a"]);
        // `c` began when `b` ended, and `d` when `a` ended.
        let took = |seconds| Duration::from_secs(seconds);
        let tests = ["suite locks::a", "suite locks::b", "suite waits::c", "suite waits::d"].map(str::to_owned);
        assert_eq!(report.tests, tests.into_iter().zip([4, 1, 7, 1].map(took)).collect::<Vec<_>>());
        assert_eq!(report.files, BTreeMap::from([("suite locks".into(), took(5)), ("suite waits".into(), took(8))]));
    }

    #[test]
    fn a_runner_of_our_own_says_how_long_each_test_took() {
        let report = read(&[
            (1, "     Running all programs (examples)"),
            (2, "test examples/a.rs ... ok <0.500s>"),
            (2, "test examples/b.rs ... FAILED <0.000s>"),
            (2, "test result: FAILED. 1 passed; 1 failed; 0 ignored"),
        ]);
        assert_eq!(report.tally, Tally { passed: 1, failed: 1, skipped: 0 });
        assert_eq!(report.failed, ["examples examples/b.rs"]);
        assert_eq!(report.tests[0], ("examples examples/a.rs".to_owned(), Duration::from_millis(500)));
    }

    #[test]
    fn the_output_of_node_tells_what_failed_and_how_long_each_test_took() {
        let report = read(&[
            (1, "▶ locks"),
            (1, "  ✔ are taken (1500.5ms)"),
            (2, "  ✖ are freed (500ms)"),
            (3, "ℹ tests 2"),
            (3, "ℹ pass 1"),
            (3, "ℹ fail 1"),
            (3, "ℹ skipped 3"),
            (3, "✖ failing tests:"),
            (3, "✖ are freed (500ms)"),
            (4, "slowest: 12.5 s ts/api/loss.test.ts"),
        ]);
        assert_eq!(report.tally, Tally { passed: 1, failed: 1, skipped: 3 });
        assert_eq!(report.failed, ["are freed"]);
        assert_eq!(report.tests[0], ("are taken".to_owned(), Duration::from_micros(1_500_500)));
        assert_eq!(report.files, BTreeMap::from([("ts/api/loss.test.ts".to_owned(), Duration::from_millis(12_500))]));
    }

    #[test]
    fn a_test_that_says_that_it_was_skipped_does_not_count_as_passed() {
        let report = read(&[
            (1, "running 2 tests"),
            (1, "test a ... skipped: this server has no TLS"),
            (1, "ok"),
            (1, "test b ... ok"),
            (1, "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s"),
        ]);
        assert_eq!(report.tally, Tally { passed: 1, failed: 0, skipped: 1 });
    }

    #[test]
    fn what_a_failed_test_printed_is_not_taken_for_the_runners_words() {
        let report = read(&[
            (1, "     Running tests/suite/main.rs (target/debug/deps/suite-0123abcd)"),
            (1, "running 2 tests"),
            (2, "noise of another processtest a ... FAILED"),
            (2, "test b ... ok"),
            (2, "failures:"),
            (2, "---- a stdout ----"),
            (2, "test inner ... FAILED"),
            (2, "skipped: this server has no TLS"),
            (2, "test result: ok. 8 passed; 5 failed; 1 ignored"),
            (2, "failures:"),
            (2, "    inner"),
            (2, "   0: backtrace"),
            (2, "failures:"),
            (2, "    a"),
            (2, "test result: FAILED. 1 passed; 1 failed; 0 ignored"),
            (2, "error: 1 target failed:"),
            (2, "    `--test suite`"),
        ]);
        assert_eq!(report.tally, Tally { passed: 1, failed: 1, skipped: 0 });
        assert_eq!(report.failed, ["suite a"]);
    }

    #[test]
    fn a_program_that_ends_before_its_tests_has_failed() {
        let report = read(&[
            (1, "     Running tests/crash.rs (target/debug/deps/crash-0123abcd)"),
            (1, "running 4 tests"),
            (1, "test a ... ok"),
            (1, "test b ... FAILED"),
            (2, "error: test failed, to rerun pass `--test crash`"),
            (2, "test c ...      Running tests/suite/main.rs (target/debug/deps/suite-0123abcd)"),
            (2, "running 1 test"),
            (2, "test c ... ok"),
            (2, "test result: ok. 1 passed; 0 failed; 0 ignored"),
        ]);
        assert_eq!(report.tally, Tally { passed: 2, failed: 2, skipped: 0 });
        assert_eq!(report.failed, ["crash b", "crash ended before its tests"]);
        assert!(report.is_cut_off);
    }

    #[test]
    fn tests_in_docs_are_in_files_and_in_several_programs() {
        let report = read(&[
            (1, "   Doc-tests leasehold"),
            (1, "running 2 tests"),
            (2, "test native/src/api/lock.rs - api::lock::Lock::run (line 12) ... ok"),
            (2, "test native/src/api/lock.rs - api::lock::Lock::take (line 5) - should panic ... FAILED"),
            (2, "failures:"),
            (2, "failures:"),
            (2, "    native/src/api/lock.rs - api::lock::Lock::take (line 5)"),
            (2, "test result: FAILED. 1 passed; 1 failed; 0 ignored"),
            (2, "running 1 test"),
            (3, "test native/src/lib.rs - (line 7) ... ok"),
            (3, "test result: ok. 1 passed; 0 failed; 0 ignored"),
        ]);
        assert_eq!(report.tally, Tally { passed: 2, failed: 1, skipped: 0 });
        assert_eq!(report.failed, ["leasehold (docs) native/src/api/lock.rs - api::lock::Lock::take (line 5)"]);
        let files = ["leasehold (docs) native/src/api/lock.rs", "leasehold (docs) native/src/lib.rs"];
        assert_eq!(report.files.keys().collect::<Vec<_>>(), files.iter().collect::<Vec<_>>());
    }

    #[test]
    fn colours_do_not_matter() {
        let report = read(&[
            (1, "\x1b[1m\x1b[92m     Running\x1b[0m tests/suite/main.rs (target/debug/deps/suite-0123abcd)"),
            (1, "running 1 test"),
            (2, "test a ... \x1b[31mFAILED\x1b[m"),
            (2, "test result: \x1b[31mFAILED\x1b[m. 0 passed; 1 failed; 0 ignored"),
            (2, "\x1b[34mℹ tests 3\x1b[39m"),
            (2, "\x1b[34mℹ pass 3\x1b[39m"),
        ]);
        assert_eq!(report.tally, Tally { passed: 3, failed: 1, skipped: 0 });
        assert_eq!(report.failed, ["suite a"]);
    }

    #[test]
    fn nodes_suites_are_no_tests_and_cancelled_tests_failed() {
        let report = read(&[
            (1, "▶ locks"),
            (1, "  ✔ are taken (5ms)"),
            (1, "✔ locks (7ms)"),
            (1, "▶ waits"),
            (1, "  ✖ end (5ms)"),
            (1, "✖ waits (5ms)"),
            (1, "✔ waits (9ms)"),
            (1, "✖ later (1ms) # TODO"),
            (1, "ℹ fail 7"),
            (3, "ℹ tests 4"),
            (3, "ℹ pass 2"),
            (3, "ℹ fail 1"),
            (3, "ℹ cancelled 1"),
            (3, "✖ failing tests:"),
            (3, "✖ end (5ms)"),
            (3, "  Error: one line"),
            (3, "  ✖ another line (5ms)"),
            (3, "✖ hangs (300ms)"),
            (3, "✖ later (1ms) # TODO"),
        ]);
        assert_eq!(report.tally, Tally { passed: 2, failed: 2, skipped: 0 });
        assert_eq!(report.failed, ["end", "hangs"]);
        let tests: Vec<_> = report.tests.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(tests, ["are taken", "waits", "end", "hangs"]);
    }
}
