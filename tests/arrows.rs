//! Dependencies between the crates form a one-way graph, and the model is free of kernel, files and screens.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Each crate of the workspace and its permitted dependencies.
const ARROWS: &[(&str, &[&str])] = &[
    ("magscope-client", &[]),
    ("magscope-core", &[]),
    ("magscope-timeline", &["magscope-core"]),
    ("magscope-report", &["magscope-core"]),
    ("magscope-probe", &["magscope-core"]),
    ("magscope-session", &["magscope-core"]),
    ("magscope-scope", &["magscope-core", "magscope-report", "magscope-timeline"]),
    ("magscope-export", &["magscope-core", "magscope-report", "magscope-timeline"]),
    ("magscope-sensor", &["magscope-client", "magscope-core", "magscope-report", "magscope-timeline"]),
    ("magscope-fleet", &["magscope-core", "magscope-export", "magscope-session", "magscope-timeline"]),
    ("magscope-ship", &["magscope-session"]),
    ("magscope-query", &["magscope-core", "magscope-export", "magscope-report"]),
    ("magscope-tui", &["magscope-core", "magscope-scope"]),
    ("magscope-gui", &["magscope-core", "magscope-report", "magscope-scope", "magscope-timeline"]),
    (
        "magnet-scope",
        &[
            "magscope-client",
            "magscope-core",
            "magscope-export",
            "magscope-fleet",
            "magscope-gui",
            "magscope-probe",
            "magscope-query",
            "magscope-report",
            "magscope-sensor",
            "magscope-session",
            "magscope-ship",
            "magscope-scope",
            "magscope-timeline",
            "magscope-tui",
        ],
    ),
];

/// The crates of the model, which are pure.
const MODEL: &[&str] = &["magscope-core", "magscope-timeline", "magscope-report"];

/// Their permitted dependencies: arithmetic and data, without kernel, file or screen access.
const MODEL_MAY_USE: &[&str] = &["hdrhistogram", "magscope-core", "serde", "thiserror"];

/// Ordinary (not dev, not build) dependencies of every crate of the workspace.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let crates = metadata["packages"].as_array().expect("packages");
    crates
        .iter()
        .map(|package| {
            let all = package["dependencies"].as_array().expect("dependencies");
            let ordinary = all.iter().filter(|dependency| dependency["kind"].is_null());
            (text(&package["name"]), ordinary.map(|dependency| text(&dependency["name"])).collect())
        })
        .collect()
}

#[test]
fn arrows_run_one_way() {
    for (name, uses) in dependencies() {
        let arrows = ARROWS.iter().find(|(other, _)| *other == name);
        let (_, allowed) = arrows.unwrap_or_else(|| panic!("{name} has no place in the order of crates yet"));
        let ours = |used: &&String| used.starts_with("magscope-") || *used == "magnet-scope";
        for used in uses.iter().filter(ours) {
            assert!(allowed.contains(&used.as_str()), "{name} must not depend on {used}");
        }
    }
}

#[test]
fn the_model_is_free_of_kernel_files_and_screens() {
    let dependencies = dependencies();
    for model in MODEL {
        for used in &dependencies[*model] {
            assert!(MODEL_MAY_USE.contains(&used.as_str()), "{model} must not depend on {used}");
        }
    }
}

/// A file that no test program includes would never run.
#[test]
fn every_test_file_belongs_to_its_program() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let crates = fs::read_dir(root.join("crates")).expect("crates");
    let mut folders: Vec<_> = crates.map(|entry| entry.expect("an entry").path().join("tests")).collect();
    folders.push(root.join("tests"));
    let mut files = 0;
    for folder in folders {
        let Ok(program) = fs::read_to_string(folder.join("main.rs")) else { continue };
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let is_module = path.extension().is_some_and(|it| it == "rs") || path.join("mod.rs").exists();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            if is_module && name != "main" {
                files += 1;
                let line = format!("mod {name};");
                assert!(program.lines().any(|it| it == line), "{} lacks `{line}`", folder.display());
            }
        }
    }
    assert!(files > 100, "{files}");
}
