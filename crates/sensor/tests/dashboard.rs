//! Every name and label in the dashboard exists in the metrics text.

use serde_json::Value;
use std::collections::BTreeSet;

const DASHBOARD: &str = include_str!("../../../packaging/grafana-dashboard.json");
const METRICS: &str = include_str!("snapshots/all__openmetrics__metrics.snap");
/// Labels that Prometheus adds to each series, and that metrics of several hosts have.
const ADDED: [&str; 2] = ["instance", "host"];

/// All expressions of a dashboard.
fn expressions(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match (name.as_str(), value) {
            ("expr" | "query", Value::String(text)) => all.push(text.clone()),
            _ => expressions(value, all),
        }),
        Value::Array(items) => items.iter().for_each(|item| expressions(item, all)),
        _ => {}
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

#[test]
fn every_expression_has_its_metric() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let mut all = Vec::new();
    expressions(&dashboard, &mut all);
    let samples = || METRICS.lines().filter(|line| line.starts_with("magnet_scope_"));
    let there: BTreeSet<&str> = samples().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let labels: BTreeSet<&str> = samples()
        .filter_map(|line| line.split_once('{'))
        .flat_map(|(_, labels)| labels.split('"').step_by(2))
        .flat_map(words)
        .collect();
    let mut asked = BTreeSet::new();
    for text in &all {
        for name in words(text).filter(|word| word.starts_with("magnet_scope_")) {
            assert!(there.contains(name), "there is no {name}, which is asked for in {text}");
            asked.insert(name);
        }
        for by in text.split(" by (").skip(1).filter_map(|rest| rest.split(')').next()) {
            for label in words(by).filter(|label| !ADDED.contains(label)) {
                assert!(labels.contains(label), "nothing has the label {label}: {text}");
            }
        }
    }
    assert!(asked.len() > 10, "{asked:?}");
}
