//! The dashboard of the manual shows what the manual documents.

use std::collections::BTreeSet;

use serde_json::Value;

const DASHBOARD: &str = include_str!("../../../../docs/grafana.json");
const MANUAL: &str = include_str!("../../../../docs/metrics.md");

/// What Prometheus adds to a histogram's name.
const SUFFIXES: [&str; 3] = ["_bucket", "_sum", "_count"];

/// The words in a text that are names of metrics.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    let names = words.filter(|word| word.starts_with("leasehold_"));
    names.map(|name| SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)).collect()
}

/// The names in the first column of the manual's table.
fn documented() -> BTreeSet<&'static str> {
    let rows = MANUAL.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).filter(|name| name.starts_with("leasehold_")).collect()
}

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    dashboard["panels"].as_array().expect("panels").clone()
}

#[test]
fn the_dashboard_shows_every_documented_metric_and_no_other() {
    assert!(!documented().is_empty());
    let queries: Vec<String> = panels()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("queries").clone())
        .map(|target| target["expr"].as_str().expect("a query").to_owned())
        .collect();
    let shown: BTreeSet<&str> = queries.iter().flat_map(|query| names(query)).collect();
    assert_eq!(shown, documented());
    assert_eq!(names(DASHBOARD), documented());
}

#[test]
fn every_panel_has_a_title_a_text_and_a_place_of_its_own() {
    let mut places = BTreeSet::new();
    for panel in panels() {
        for field in ["title", "description"] {
            assert!(panel[field].as_str().is_some_and(|text| !text.is_empty()), "{panel}");
        }
        assert!(places.insert(panel["gridPos"].to_string()), "{panel}");
    }
}

#[test]
fn panels_have_ids_of_their_own_and_lie_side_by_side_on_a_grid_of_24_columns() {
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in panels() {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        let [x, y, width, height] =
            ["x", "y", "w", "h"].map(|field| panel["gridPos"][field].as_u64().expect("a number"));
        assert!(width > 0 && height > 0 && x + width <= 24, "{panel}");
        for cell in (x..x + width).flat_map(|column| (y..y + height).map(move |row| (column, row))) {
            assert!(cells.insert(cell), "it covers another panel: {panel}");
        }
    }
}

#[test]
fn an_import_asks_only_for_a_data_source_and_every_query_uses_it() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    // A dashboard with an id of a server, or with inputs of an export, can't be imported as it is.
    assert!(dashboard.get("id").is_none() && dashboard.get("__inputs").is_none());
    assert!(dashboard["title"].is_string() && dashboard["uid"].is_string() && dashboard["schemaVersion"].is_u64());
    let source = serde_json::json!({ "type": "prometheus", "uid": "${datasource}" });
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let names: BTreeSet<&str> = variables.iter().map(|variable| variable["name"].as_str().expect("a name")).collect();
    assert_eq!(names, BTreeSet::from(["datasource", "job"]));
    assert_eq!((&variables[0]["type"], &variables[0]["query"]), (&"datasource".into(), &"prometheus".into()));
    assert_eq!(variables[1]["datasource"], source);
    for panel in panels() {
        let mut letters = BTreeSet::new();
        for target in panel["targets"].as_array().expect("queries") {
            assert_eq!((&panel["datasource"], &target["datasource"]), (&source, &source));
            assert!(letters.insert(target["refId"].as_str().expect("a letter")), "{panel}");
            let used = target["expr"].as_str().expect("a query").split('$').skip(1);
            let used = used.map(|rest| rest.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').next());
            for variable in used.flatten().filter(|variable| *variable != "__rate_interval") {
                assert!(names.contains(variable), "{variable}: {target}");
            }
        }
    }
}

#[test]
fn the_list_of_jobs_has_services_of_both_languages() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let query = dashboard["templating"]["list"][1]["query"].as_str().expect("a query");
    let metric = names(query).into_iter().next().expect("a metric");
    assert!(names(EVENTS).contains(metric), "JavaScript doesn't record {metric}");
}

#[test]
fn the_manual_names_no_metric_that_its_table_lacks() {
    let known = documented();
    let unknown: Vec<&str> = names(MANUAL).into_iter().filter(|name| !known.contains(name)).collect();
    // The prefix of all names, in the example.
    assert_eq!(unknown, ["leasehold_"]);
}

const IN_RUST: &str = include_str!("../../../../native/src/metrics.rs");
const IN_JAVASCRIPT: &str = include_str!("../../../../bindings-js/ts/opentelemetry.ts");
const EVENTS: &str = include_str!("../../../../docs/events.md");

#[test]
fn both_languages_record_the_documented_metrics_under_the_same_names() {
    let crates = BTreeSet::from(["leasehold_core", "leasehold_lua"]);
    assert_eq!(names(IN_RUST).difference(&crates).copied().collect::<BTreeSet<_>>(), documented());
    // The engine counts these where JavaScript doesn't see them.
    let rust_only = BTreeSet::from(["leasehold_commands_total", "leasehold_renewals_total"]);
    let shared: BTreeSet<&str> = documented().difference(&rust_only).copied().collect();
    let instruments = IN_JAVASCRIPT.lines().filter_map(in_prometheus).collect::<Vec<_>>();
    assert_eq!(instruments.iter().map(String::as_str).collect::<BTreeSet<_>>(), shared);
    assert_eq!(names(EVENTS), shared);
}

/// The name in Prometheus of the instrument that a line of JavaScript makes, as OpenTelemetry's exporters turn it into one.
fn in_prometheus(line: &str) -> Option<String> {
    let (kind, rest) = line.split_once("meter.create")?.1.split_once("('")?;
    let name = rest.split('\'').next()?.replace('.', "_");
    Some(match kind {
        "Counter" => name + "_total",
        "Histogram" => name + "_seconds",
        _ => name,
    })
}

/// The names of the labels in a row of the manual's tables: the column after the metric's name in Prometheus.
fn labels(manual: &'static str, metric: &str) -> BTreeSet<&'static str> {
    let cell = format!("| `{metric}` |");
    let row = manual.lines().find_map(|line| line.split_once(&cell)).map(|(_, rest)| rest).unwrap_or_default();
    row.split('|').next().unwrap_or_default().split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_labels_of_a_metric_are_the_same_in_both_languages_and_in_the_dashboard() {
    for metric in names(EVENTS) {
        assert_eq!(labels(EVENTS, metric), labels(MANUAL, metric), "{metric}");
    }
    // What Prometheus adds by itself, and a histogram's buckets.
    let added = ["job", "instance", "le"];
    for panel in panels() {
        for target in panel["targets"].as_array().expect("queries") {
            let query = target["expr"].as_str().expect("a query");
            let metric = names(query).into_iter().next().expect("a metric");
            let grouped = query.split("by (").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
            let selected = query.split('{').nth(1).and_then(|rest| rest.split('}').next()).unwrap_or_default();
            let selected = selected.split(',').filter_map(|label| label.split(['=', '!']).next());
            let used = grouped.split(',').chain(selected).map(str::trim).filter(|label| !label.is_empty());
            for label in used.filter(|label| !added.contains(label)) {
                assert!(labels(MANUAL, metric).contains(label), "{metric} has no label `{label}`: {query}");
            }
        }
    }
}

#[test]
fn both_languages_have_the_same_attributes_of_spans() {
    let in_rust = include_str!("../../../../native/src/api/spans.rs");
    let operations = include_str!("../../../../docs/operations.md");
    let attributes = |text: &'static str| -> BTreeSet<&str> {
        let lines = text.lines().filter(|line| in_prometheus(line).is_none());
        let words =
            lines.flat_map(|line| line.split(|char: char| !char.is_ascii_alphanumeric() && char != '_' && char != '.'));
        let words = words.map(|word| word.trim_end_matches('.')).filter(|word| word.starts_with("leasehold."));
        words.filter(|word| !word.ends_with(".js")).collect()
    };
    assert_eq!(attributes(in_rust), attributes(IN_JAVASCRIPT));
    for manual in [operations, EVENTS] {
        let missing: Vec<_> = attributes(in_rust).difference(&attributes(manual)).copied().collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
