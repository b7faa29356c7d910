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
    /// The same sections are measured in several languages: `Rust, one hot key: ...`.
    fn title_of(&self, command: &str) -> String {
        let language = match command {
            command if command.contains("--node") => "Node",
            command if command.contains("--peers") || command.contains("--component") => return self.title.to_owned(),
            _ => "Rust",
        };
        let (first, rest) = self.title.split_at(1);
        format!("{language}, {}{rest}", first.to_lowercase())
    }

    /// A number of the scale, without decimals that say nothing: `10 ms`, `200,000`.
    fn on_axis(&self, value: f64) -> String {
        self.shown(value).replace(".0 ", " ").replace(".00 ", " ")
    }

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
/// Where the scale begins, and where it ends. The numbers beside the longest bar need room.
const LEFT: f64 = 210.0;
const RIGHT: f64 = WIDTH - 220.0;
const TOP: f64 = 124.0;
const BAR: f64 = 16.0;
const STEP: f64 = 22.0;
const GAP: f64 = 30.0;

const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 17px; font-weight: 600 } .soft { fill: #57606a } .end { text-anchor: end } .middle { text-anchor: middle }
  .name { font-weight: 600 } .back { fill: #ffffff } .ours { fill: #c2571a } .other { fill: #8c959f }
  .spread { stroke: #24292f } .grid { stroke: #d8dee4 } .faint { stroke: #eff2f5 } .row { stroke: #afb8c1; stroke-dasharray: 1 4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .soft { fill: #9198a1 } .back { fill: #0d1117 } .ours { fill: #f0883e } .other { fill: #656c76 }
    .spread { stroke: #e6edf3 } .grid { stroke: #30363d } .faint { stroke: #1c2128 } .row { stroke: #484f58 }
  }";

const SPREAD: &str =
    "<text class=\"soft\" x=\"20\" y=\"72\">A thin line shows the least and the most of the rounds.</text>\n";

/// What readers call a contender. The others have their libraries' names.
const NAMES: [(&str, &str); 10] = [
    ("lingering", "leasehold, with linger"),
    ("leasehold-reentrant", "leasehold, reentrant"),
    ("leasehold-semaphore", "leasehold, semaphore"),
    ("leasehold-quorum", "leasehold, quorum of 5"),
    ("raw", "its scripts, bare calls"),
    ("raw ioredis", "bare calls of ioredis"),
    ("tokio-mutex", "tokio's Mutex, no server"),
    ("rueidislock-noloop", "rueidislock, a bare SET"),
    ("redis-semaphore-permits", "redis-semaphore"),
    ("redlock", "node-redlock"),
];

/// The charts of a report, each with the end of its file's name. `command` is how to measure the same.
pub(crate) fn all(report: &Value, command: &str) -> Vec<(&'static str, String)> {
    let charts = SPECS.iter().filter_map(|spec| {
        let bars: Vec<Bar> = rows(report, spec.section).filter_map(|row| bar(row, spec)).collect();
        (!bars.is_empty()).then(|| (spec.file, draw(&spec.title_of(command), spec, &bars, &machine(report), command)))
    });
    charts.collect()
}

fn rows<'a>(report: &'a Value, section: &str) -> impl Iterator<Item = &'a Value> {
    report.get(section).and_then(Value::as_array).into_iter().flatten()
}

fn machine(report: &Value) -> String {
    let of = |key| report.get(key).and_then(Value::as_str);
    let on = match (of("server"), of("node")) {
        (Some(server), _) => server.to_owned(),
        (None, Some(node)) => format!("Node {}", node.trim_start_matches('v')),
        (None, None) => String::new(),
    };
    match report.get("cores").and_then(Value::as_u64) {
        Some(cores) => format!("{on}, {cores} cores shared by clients and server"),
        None => on,
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
fn draw(title: &str, spec: &Spec, bars: &[Bar], machine: &str, command: &str) -> String {
    let scale = Scale::of(bars);
    let (mut body, mut y, mut group, mut ours) = (String::new(), TOP, None, None);
    for bar in bars {
        if group != Some(&bar.group) {
            y += if group.is_some() { GAP } else { 0.0 };
            if !bar.group.is_empty() {
                let _ = writeln!(body, "<text class=\"soft\" x=\"20\" y=\"{y}\">{}</text>", escaped(&bar.group));
                y += 8.0;
            }
            (group, ours) = (Some(&bar.group), None);
        }
        let compared = ours.map(|ours| compared(bar.median, ours)).unwrap_or_default();
        if bar.is_ours() {
            ours = ours.or(Some(bar.median));
        }
        draw_bar(&mut body, spec, bar, &scale, y, &compared);
        y += STEP;
    }
    let height = y + 64.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}\n</style>\n\
         <rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"20\" y=\"32\">{title}</text>\n\
         <text class=\"soft\" x=\"20\" y=\"52\">{unit}{axis}.</text>\n\
         {spread}{grid}{body}<text class=\"soft\" x=\"20\" y=\"{last_but_one}\">{machine}</text>\n\
         <text class=\"soft\" x=\"20\" y=\"{last}\">{command}</text>\n</svg>\n",
        title = escaped(title),
        spread = if bars.iter().any(|bar| bar.spread.0 < bar.spread.1) { SPREAD } else { "" },
        unit = if spec.unit.ends_with("/s") { spec.unit } else { "time" },
        axis = scale.explained(spec.better),
        grid = grid(spec, &scale, y),
        machine = escaped(machine),
        command = escaped(command),
        last_but_one = y + 28.0,
        last = y + 48.0,
    )
}

/// A bar from 0. On a logarithmic scale there is no 0, and lengths mean nothing: there the value is a point.
fn draw_bar(body: &mut String, spec: &Spec, bar: &Bar, scale: &Scale, y: f64, compared: &str) {
    let class = if bar.is_ours() { "ours" } else { "other" };
    let (end, middle, text) = (scale.x(bar.median), y + BAR / 2.0, y + BAR - 3.0);
    let shape = if scale.logarithmic {
        format!(
            "<path class=\"row\" d=\"M{LEFT} {middle}H{end:.1}\"/><circle class=\"{class}\" cx=\"{end:.1}\" cy=\"{middle}\" r=\"6\"/>"
        )
    } else {
        format!(
            "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR}\"/>",
            (end - LEFT).max(1.0)
        )
    };
    let _ = writeln!(
        body,
        "<text class=\"end{}\" x=\"{}\" y=\"{text}\">{}</text>\n{shape}\n\
         <path class=\"spread\" d=\"M{:.1} {middle}H{:.1}\"/>\n\
         <text x=\"{:.1}\" y=\"{text}\">{}<tspan class=\"soft\" dx=\"8\">{compared}</tspan></text>",
        if bar.is_ours() { " name" } else { "" },
        LEFT - 10.0,
        escaped(bar.shown_name()),
        scale.x(bar.spread.0),
        scale.x(bar.spread.1),
        scale.x(bar.spread.1.max(bar.median)) + 10.0,
        spec.shown(bar.median),
    );
}

/// How often ours is in this value. A length on a logarithmic scale doesn't tell it.
fn compared(value: f64, ours: f64) -> String {
    match value / ours {
        ratio if !ratio.is_finite() || ratio <= 0.0 => String::new(),
        ratio if ratio < 0.1 => format!("1/{} of leasehold", grouped(ratio.recip().round())),
        ratio if ratio < 0.95 => format!("{ratio:.2} × leasehold"),
        ratio if ratio < 9.95 => format!("{ratio:.1} × leasehold"),
        ratio => format!("{} × leasehold", grouped(ratio.round())),
    }
}

/// The lines of the scale, with numbers.
fn grid(spec: &Spec, scale: &Scale, bottom: f64) -> String {
    let mut grid = String::new();
    let (from, until) = (TOP - 16.0, bottom);
    for value in scale.faint() {
        let x = scale.x(value);
        let _ = writeln!(grid, "<path class=\"faint\" d=\"M{x:.1} {from}V{until}\"/>");
    }
    for value in scale.lines() {
        let x = scale.x(value);
        let label = if value == 0.0 { "0".to_owned() } else { spec.on_axis(value) };
        let _ = writeln!(
            grid,
            "<path class=\"grid\" d=\"M{x:.1} {from}V{until}\"/><text class=\"soft middle\" x=\"{x:.1}\" y=\"{}\">{label}</text>",
            from - 6.0
        );
    }
    grid
}

impl Bar {
    fn is_ours(&self) -> bool {
        self.name.starts_with("leasehold") || self.name == "lingering"
    }

    fn shown_name(&self) -> &str {
        NAMES.iter().find(|(name, _)| *name == self.name).map_or(&self.name, |(_, shown)| shown)
    }
}

/// Where a value is.
struct Scale {
    from: f64,
    until: f64,
    logarithmic: bool,
}

impl Scale {
    /// Linear from 0. Logarithmic, if the shortest bar would not be seen otherwise.
    fn of(bars: &[Bar]) -> Self {
        let most = bars.iter().map(|bar| bar.spread.1).fold(f64::MIN_POSITIVE, f64::max);
        let least = bars.iter().map(|bar| bar.spread.0).filter(|value| *value > 0.0).fold(most, f64::min);
        let logarithmic = most / least > 100.0;
        let from = if logarithmic { 10_f64.powf(least.log10().floor()) } else { 0.0 };
        Self { from, until: most, logarithmic }
    }

    fn explained(&self, better: &str) -> String {
        match (self.logarithmic, better) {
            (false, better) => format!("; {better}"),
            (true, MORE) => {
                "; further right is better. The scale is logarithmic: a full line is 10 times the one before".to_owned()
            }
            (true, _) => {
                "; further left is better. The scale is logarithmic: a full line is 10 times the one before".to_owned()
            }
        }
    }

    fn x(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.from) / self.from).log10() / (self.until / self.from).log10()
        } else {
            value / self.until
        };
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    }

    /// The values with a line and a number.
    fn lines(&self) -> Vec<f64> {
        if self.logarithmic {
            return std::iter::successors(Some(self.from), |value| Some(value * 10.0))
                .take_while(|value| *value <= self.until)
                .collect();
        }
        let step = self.step();
        (0..20).map(|line| f64::from(line) * step).take_while(|value| *value <= self.until).collect()
    }

    /// The values between them, on a logarithmic scale.
    fn faint(&self) -> Vec<f64> {
        let lines = if self.logarithmic { self.lines() } else { Vec::new() };
        let between = lines.iter().flat_map(|line| (2..10).map(move |times| line * f64::from(times)));
        between.filter(|value| *value <= self.until).collect()
    }

    /// A round distance between lines, so that there are 3 to 7 of them.
    fn step(&self) -> f64 {
        let power = 10_f64.powf((self.until / 3.0).log10().floor());
        [5.0, 2.0, 1.0].into_iter().map(|factor| factor * power).find(|step| *step * 3.0 <= self.until).unwrap_or(power)
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

    use super::{BAR, LEFT, RIGHT, all, compared, grouped};

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
        for text in ["64 tasks", "23,200", "a&lt;b", "1/580 of leasehold", "Redis 7.0.15, 2 cores", "cargo xtask bench"]
        {
            assert!(svg.contains(text), "{text} is missing:\n{svg}");
        }
    }

    #[test]
    fn a_chart_names_its_language_and_explains_only_what_it_shows() {
        let report = json!({
            "node": "v20.20.2", "cores": 2,
            "hot_key": [{ "tasks": 10, "contender": "leasehold", "wait_longest_ms": 24 }],
        });
        let (_, svg) = all(&report, "cargo xtask bench --node").remove(0);
        assert!(svg.contains("<title>Node, one hot key: the longest wait of any task</title>"), "{svg}");
        assert!(svg.contains(">Node 20.20.2, 2 cores") && !svg.contains("A thin line"), "{svg}");
        let (_, svg) = all(&report, "cargo xtask bench").remove(0);
        assert!(svg.contains("<title>Rust, one hot key: "), "{svg}");
    }

    #[test]
    fn a_bar_of_a_linear_chart_begins_at_0_and_is_as_long_as_its_value() {
        let svg = uncontended(&[("leasehold", 10_000.0), ("rslock", 40_000.0)]);
        let widths: Vec<f64> = svg
            .split(&format!("\" height=\"{BAR}\""))
            .filter_map(|part| part.rsplit("width=\"").next()?.parse().ok())
            .collect();
        let whole = RIGHT - LEFT;
        assert_eq!(widths, [whole / 4.0, whole]);
        for number in [">0<", ">10,000<", ">40,000<", "4.0 × leasehold"] {
            assert!(svg.contains(number), "{number} is missing:\n{svg}");
        }
        assert!(!svg.contains("logarithmic"), "{svg}");
    }

    #[test]
    fn a_logarithmic_chart_draws_its_scale_and_has_no_bars() {
        let svg = uncontended(&[("leasehold", 20_000.0), ("rslock", 150.0)]);
        assert!(!svg.contains(&format!("height=\"{BAR}\"")), "a length would lie:\n{svg}");
        for text in [">100<", ">1,000<", ">10,000<", "logarithmic", "1/133 of leasehold"] {
            assert!(svg.contains(text), "{text} is missing:\n{svg}");
        }
    }

    #[test]
    fn a_ratio_has_two_digits() {
        let shown = [1.0, 4.04, 96.0, 0.5, 0.013].map(|ratio| compared(ratio, 1.0));
        assert_eq!(
            shown,
            ["1.0 × leasehold", "4.0 × leasehold", "96 × leasehold", "0.50 × leasehold", "1/77 of leasehold"]
        );
    }

    fn uncontended(rows: &[(&str, f64)]) -> String {
        let row =
            |(contender, value): &(&str, f64)| json!({ "tasks": 64, "contender": contender, "cycles_per_s": value });
        let report = json!({ "uncontended": rows.iter().map(row).collect::<Vec<_>>() });
        all(&report, "cargo xtask bench").remove(0).1
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([4.25, 99.0, 1_000.0, 1_234_567.8].map(grouped), ["4.2", "99", "1,000", "1,234,568"]);
    }
}
