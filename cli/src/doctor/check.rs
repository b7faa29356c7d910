//! What a check found, and what to do.

/// The result of one check.
pub(super) struct Check {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) finding: String,
    /// Empty if there is nothing to do.
    pub(super) remedy: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    /// It works, and something could be better.
    Warning,
    /// Locks don't work, or are not safe.
    Problem,
    /// The server didn't tell.
    Unknown,
}

impl Check {
    pub(super) fn ok(name: &str, finding: impl Into<String>) -> Self {
        Self::new(name, Verdict::Ok, finding, "")
    }

    pub(super) fn new(name: &str, verdict: Verdict, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name: name.to_owned(), verdict, finding: finding.into(), remedy: remedy.into() }
    }

    pub(super) fn line(&self) -> String {
        let verdict = if self.verdict == Verdict::Problem { "PROBLEM" } else { self.verdict.word() };
        let remedy = if self.remedy.is_empty() { String::new() } else { format!("\n{:25}-> {}", "", self.remedy) };
        format!("  {verdict:<8} {:<13} {}{remedy}", self.name, self.finding)
    }
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
            Self::Unknown => "unknown",
        }
    }
}
