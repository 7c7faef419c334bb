//! Golden sessions, their exports, and the tools that read exports.
#![allow(dead_code)] // each test file uses a part

use super::{run, skipped, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Sessions that cover every feature.
pub const GOLDEN: [&str; 6] = ["demo", "drops", "half", "lost", "retransmissions", "damaged"];
/// Every format.
pub const FORMATS: [&str; 10] =
    ["parquet", "csv", "jsonl", "ulm", "bp", "pcapng", "perfetto", "chrome", "ctf", "magnet"];

/// Path of a golden session.
pub fn golden(name: &str) -> String {
    format!("{}/../../tests/golden/{name}/session", env!("CARGO_MANIFEST_DIR"))
}

/// Exports a golden session and returns the path.
pub fn export(dir: &TempDir, session: &str, format: &str, more: &[&str]) -> PathBuf {
    let out = dir.path().join(format!("{session}-{format}"));
    let (session, place) = (golden(session), out.to_string_lossy().into_owned());
    let mut arguments = vec!["export", &session, "--format", format, "-o", &place];
    arguments.extend(more);
    let output = run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    out
}

/// The JSON report of a golden session.
pub fn report(session: &str) -> Value {
    let output = run(&["report", &golden(session), "--json"]);
    serde_json::from_slice(&output.stdout).expect("a report")
}

/// The Python with the clients, which scripts/setup.sh installs; or the reason for its absence.
fn python() -> Option<PathBuf> {
    let cache = std::env::var("XDG_CACHE_HOME").map(PathBuf::from).ok();
    let cache = cache.or_else(|| std::env::var("HOME").ok().map(|home| PathBuf::from(home).join(".cache")))?;
    Some(cache.join("magnet-scope/clients/bin/python")).filter(|python| python.exists())
}

/// That Python if it has this module; otherwise prints the skipped test.
pub fn python_with(test: &str, module: &str) -> Option<PathBuf> {
    let Some(python) = python() else {
        skipped(test, "scripts/setup.sh could not install the Python clients");
        return None;
    };
    let there = Command::new(&python).args(["-c", &format!("import {module}")]).output().expect("Python runs");
    if !there.status.success() {
        skipped(test, &format!("the Python module {module} is not installed"));
        return None;
    }
    Some(python)
}

/// Runs a script of tests/clients; `None` if its client is missing.
pub fn client(test: &str, module: &str, script: &str, arguments: &[&Path]) -> Option<Output> {
    let python = python_with(test, module)?;
    let script = format!("{}/../../tests/clients/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python).arg(script).args(arguments).output().expect("Python runs");
    assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
    Some(output)
}

/// True if a program is installed; otherwise prints the skipped test.
pub fn tool(test: &str, name: &str) -> bool {
    let there = Command::new(name).arg("--version").output().is_ok();
    if !there {
        skipped(test, &format!("{name} is not installed"));
    }
    there
}

/// Number of earlier transmissions in a row of `hops`: 0 for the first copy and for socket hops.
pub fn resent(row: &BTreeMap<String, Value>) -> u64 {
    row.get("copy").and_then(Value::as_u64).unwrap_or_default().saturating_sub(1)
}

/// Rows of a table by column name.
pub fn table(dir: &TempDir, session: &str, table: &str) -> Vec<BTreeMap<String, Value>> {
    let out = dir.path().join(format!("{session}-{table}.jsonl"));
    if !out.exists() {
        let (session, place) = (golden(session), out.to_string_lossy().into_owned());
        let output = run(&["export", &session, "--format", "jsonl", "--tables", table, "-o", &place]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let text = fs::read_to_string(out).expect("JSON lines");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is an object")).collect()
}
