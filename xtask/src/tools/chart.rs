//! Charts of what the benchmarks measured.

use std::fmt::Write as _;

use serde_json::Value;

/// One chart: a section of the report, and the measure that it shows.
struct Spec {
    section: &'static str,
    measure: &'static str,
    file: &'static str,
    title: &'static str,
    unit: &'static str,
    /// What rows of one group have in common.
    group: &'static str,
    better: &'static str,
}

const MORE: &str = "longer is better";
const LESS: &str = "shorter is better";

const SPECS: [Spec; 9] = [
    Spec {
        section: "uncontended",
        measure: "cycles_per_s",
        file: "uncontended",
        title: "Uncontended: every task acquires and releases a lock of its own",
        unit: "cycles/s",
        group: "tasks",
        better: MORE,
    },
    Spec {
        section: "hot_key",
        measure: "handovers_per_s",
        file: "hot-key",
        title: "One hot key: all tasks of a process want one lock",
        unit: "hand-overs/s",
        group: "tasks",
        better: MORE,
    },
    Spec {
        section: "hot_key",
        measure: "wait_longest_us",
        file: "hot-key-longest-wait",
        title: "One hot key: the longest wait of any task",
        unit: "µs",
        group: "tasks",
        better: LESS,
    },
    Spec {
        section: "hot_key",
        measure: "wait_longest_ms",
        file: "hot-key-longest-wait",
        title: "One hot key: the longest wait of any task",
        unit: "ms",
        group: "tasks",
        better: LESS,
    },
    Spec {
        section: "fleet",
        measure: "wait_longest_us",
        file: "fleet-longest-wait",
        title: "Several processes want one lock: the longest wait",
        unit: "µs",
        group: "processes",
        better: LESS,
    },
    Spec {
        section: "fleet",
        measure: "wait_longest_ms",
        file: "fleet-longest-wait",
        title: "Several processes want one lock: the longest wait",
        unit: "ms",
        group: "processes",
        better: LESS,
    },
    Spec {
        section: "peers",
        measure: "turns_per_s",
        file: "peers",
        title: "Beside libraries of other languages: turns per second",
        unit: "turns/s",
        group: "load",
        better: MORE,
    },
    Spec {
        section: "peers",
        measure: "wait_p99_us",
        file: "peers-wait",
        title: "Beside libraries of other languages: 99 of 100 waits are shorter",
        unit: "µs",
        group: "load",
        better: LESS,
    },
    Spec {
        section: "component",
        measure: "median_us",
        file: "uncontended",
        title: "An uncontended cycle through the component",
        unit: "µs",
        group: "",
        better: LESS,
    },
];

impl Spec {
    fn shown(&self, value: f64) -> String {
        match self.unit {
            "µs" | "ms" => {
                let us = if self.unit == "ms" { value * 1_000.0 } else { value };
                match us {
                    ..1_000.0 => format!("{us:.1} µs"),
                    ..1_000_000.0 => format!("{:.1} ms", us / 1_000.0),
                    _ => format!("{:.2} s", us / 1_000_000.0),
                }
            }
            _ => grouped(value),
        }
    }
}

/// One measured value.
struct Bar {
    group: String,
    name: String,
    median: f64,
    /// From the least to the most of the rounds. The same as the median if there was only one measurement.
    spread: (f64, f64),
}

const WIDTH: f64 = 900.0;
/// Where the bars begin, and where the longest one ends.
const LEFT: f64 = 250.0;
const RIGHT: f64 = WIDTH - 110.0;
const TOP: f64 = 76.0;
const BAR: f64 = 16.0;
const STEP: f64 = 22.0;
const GAP: f64 = 30.0;

const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 17px; font-weight: 600 } .soft { fill: #57606a } .end { text-anchor: end }
  .back { fill: #ffffff } .ours { fill: #c2571a } .other { fill: #afb8c1 } .spread { stroke: #24292f }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .soft { fill: #9198a1 }
    .back { fill: #0d1117 } .ours { fill: #f0883e } .other { fill: #484f58 } .spread { stroke: #e6edf3 }
  }";

/// The charts of a report, each with the end of its file's name. `command` is how to measure the same.
pub(crate) fn all(report: &Value, command: &str) -> Vec<(&'static str, String)> {
    let charts = SPECS.iter().filter_map(|spec| {
        let bars: Vec<Bar> = rows(report, spec.section).filter_map(|row| bar(row, spec)).collect();
        (!bars.is_empty()).then(|| (spec.file, draw(spec, &bars, &machine(report), command)))
    });
    charts.collect()
}

fn rows<'a>(report: &'a Value, section: &str) -> impl Iterator<Item = &'a Value> {
    report.get(section).and_then(Value::as_array).into_iter().flatten()
}

fn machine(report: &Value) -> String {
    let on = ["server", "node"].iter().find_map(|key| report.get(key)?.as_str()).unwrap_or_default();
    match report.get("cores").and_then(Value::as_u64) {
        Some(cores) => format!("{on}, {cores} cores shared by clients and server"),
        None => on.to_owned(),
    }
}

fn bar(row: &Value, spec: &Spec) -> Option<Bar> {
    let measured = row.get(spec.measure)?;
    let of = |field: &str| measured.get(field).and_then(Value::as_f64);
    let median = of("median").or(measured.as_f64())?;
    let name = ["contender", "name"].iter().find_map(|key| row.get(key)?.as_str())?;
    let group = match row.get(spec.group) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => {
            let number = number.as_f64()?;
            let group = if number == 1.0 { spec.group.trim_end_matches('s') } else { spec.group };
            format!("{} {group}", grouped(number))
        }
        _ => String::new(),
    };
    let spread = (of("least").unwrap_or(median), of("most").unwrap_or(median));
    Some(Bar { group, name: name.to_owned(), median, spread })
}

/// Draws a chart as an SVG that works in light and dark mode.
fn draw(spec: &Spec, bars: &[Bar], machine: &str, command: &str) -> String {
    let scale = Scale::of(bars);
    let (mut body, mut y, mut group) = (String::new(), TOP, None);
    for bar in bars {
        if group != Some(&bar.group) {
            y += if group.is_some() { GAP } else { 0.0 };
            if !bar.group.is_empty() {
                let _ = writeln!(body, "<text class=\"soft\" x=\"20\" y=\"{y}\">{}</text>", escaped(&bar.group));
                y += 8.0;
            }
            group = Some(&bar.group);
        }
        let ours = bar.name.starts_with("leasehold") || bar.name == "lingering";
        let class = if ours { "ours" } else { "other" };
        let (end, middle, text) = (scale.x(bar.median), y + BAR / 2.0, y + BAR - 3.0);
        let _ = writeln!(
            body,
            "<text class=\"end\" x=\"{}\" y=\"{text}\">{}</text>\n\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR}\"/>\n\
             <path class=\"spread\" d=\"M{:.1} {middle}H{:.1}\"/>\n\
             <text x=\"{:.1}\" y=\"{text}\">{}</text>",
            LEFT - 10.0,
            escaped(&bar.name),
            end - LEFT,
            scale.x(bar.spread.0),
            scale.x(bar.spread.1),
            scale.x(bar.spread.1.max(bar.median)) + 8.0,
            spec.shown(bar.median)
        );
        y += STEP;
    }
    let height = y + 56.0;
    let axis = if scale.logarithmic { ", logarithmic" } else { "" };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}\n</style>\n\
         <rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"20\" y=\"32\">{title}</text>\n\
         <text class=\"soft\" x=\"20\" y=\"52\">{unit}{axis}; {better}. A line shows the least and the most of the rounds.</text>\n\
         {body}<text class=\"soft\" x=\"20\" y=\"{last_but_one}\">{machine}</text>\n\
         <text class=\"soft\" x=\"20\" y=\"{last}\">{command}</text>\n</svg>\n",
        title = escaped(spec.title),
        unit = if spec.unit.ends_with("/s") { spec.unit } else { "time" },
        better = spec.better,
        machine = escaped(machine),
        command = escaped(command),
        last_but_one = y + 20.0,
        last = y + 40.0,
    )
}

/// How long a bar is.
struct Scale {
    from: f64,
    until: f64,
    logarithmic: bool,
}

impl Scale {
    /// Logarithmic, if the shortest bar would not be seen otherwise.
    fn of(bars: &[Bar]) -> Self {
        let most = bars.iter().map(|bar| bar.spread.1).fold(f64::MIN_POSITIVE, f64::max);
        let least = bars.iter().map(|bar| bar.spread.0).filter(|value| *value > 0.0).fold(most, f64::min);
        let logarithmic = most / least > 30.0;
        let from = if logarithmic { 10_f64.powf(least.log10().floor()) } else { 0.0 };
        Self { from, until: most, logarithmic }
    }

    fn x(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.from) / self.from).log10() / (self.until / self.from).log10()
        } else {
            value / self.until
        };
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    }
}

/// A number for people: `23,200`, `4.2`.
fn grouped(number: f64) -> String {
    if number < 100.0 && number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{all, grouped};

    #[test]
    fn a_chart_shows_each_contender_with_its_spread_the_machine_and_the_command() {
        let spread = |median: f64| json!({ "median": median, "least": median / 2.0, "most": median * 2.0 });
        let report = json!({
            "server": "Redis 7.0.15", "cores": 2,
            "uncontended": [
                { "tasks": 64, "contender": "leasehold", "cycles_per_s": spread(23_200.0) },
                { "tasks": 64, "contender": "a<b", "cycles_per_s": spread(40.0) },
            ],
            "fleet": [],
        });
        let charts = all(&report, "cargo xtask bench");
        assert_eq!(charts.len(), 1, "a section without rows has no chart");
        let (file, svg) = &charts[0];
        assert_eq!(*file, "uncontended");
        for text in ["64 tasks", "23,200", "a&lt;b", "Redis 7.0.15, 2 cores", "cargo xtask bench", "logarithmic"] {
            assert!(svg.contains(text), "{text} is missing:\n{svg}");
        }
        // A bar is never longer than the drawing, and never shorter than nothing.
        for width in svg.split("height=\"16\"").filter_map(|part| part.rsplit("width=\"").next()?.split('"').next()) {
            let width: f64 = width.parse().unwrap_or(0.0);
            assert!((0.0..=900.0).contains(&width), "{width}");
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([4.25, 99.0, 1_000.0, 1_234_567.8].map(grouped), ["4.2", "99", "1,000", "1,234,568"]);
    }
}
