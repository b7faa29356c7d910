use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// The results: printed as they come, and kept for a file.
pub(crate) struct Report {
    sections: Map<String, Value>,
    aims: Vec<Aim>,
}

struct Aim {
    what: String,
    met: bool,
    measured: String,
}

impl Report {
    pub(crate) fn new(server: &str) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        println!("{server}, {cores} cores shared by clients and server; median (least to most) of the rounds");
        let sections = [("server".to_owned(), json!(server)), ("cores".to_owned(), json!(cores))];
        Self { sections: sections.into_iter().collect(), aims: Vec::new() }
    }

    pub(crate) fn title(&mut self, title: &str) {
        println!("\n{title}");
    }

    pub(crate) fn line(&mut self, line: fmt::Arguments<'_>) {
        println!("  {line}");
    }

    /// Keeps a row of a section.
    pub(crate) fn add(&mut self, section: &str, row: Value) {
        if let Value::Array(rows) = self.sections.entry(section).or_insert_with(|| json!([])) {
            rows.push(row);
        }
    }

    /// Keeps whether a number reached its target.
    pub(crate) fn aim(&mut self, what: &str, met: bool, measured: String) {
        self.aims.push(Aim { what: what.to_owned(), met, measured });
    }

    pub(crate) fn print_aims(&self) {
        println!("\nAims");
        for Aim { what, met, measured } in &self.aims {
            println!("  {}  {what}: {measured}", if *met { "met   " } else { "MISSED" });
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let aims = self.aims.iter().map(|aim| json!({ "aim": aim.what, "met": aim.met, "measured": aim.measured }));
        let mut all = self.sections.clone();
        all.insert("aims".to_owned(), aims.collect());
        Value::Object(all)
    }
}

/// Several measurements of the same thing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Self { median: at(values.len() / 2), least: at(0), most: at(values.len().saturating_sub(1)) }
    }

    pub(crate) fn to_json(self) -> Value {
        json!({ "median": self.median, "least": self.least, "most": self.most })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        let text = format!("{:.digits$} ({:.digits$} to {:.digits$})", self.median, self.least, self.most);
        write!(f, "{text:>width$}", width = f.width().unwrap_or(0))
    }
}

/// The value below which this share of the sorted nanoseconds lies.
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> Duration {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    Duration::from_nanos(sorted.get(index).copied().unwrap_or(0))
}
