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
    assert_eq!(documented().len(), 9);
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
fn the_manual_names_no_metric_that_its_table_lacks() {
    let known = documented();
    let unknown: Vec<&str> = names(MANUAL).into_iter().filter(|name| !known.contains(name)).collect();
    // The prefix of all names, in the example.
    assert_eq!(unknown, ["leasehold_"]);
}
