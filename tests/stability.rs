//! Public names: hops, subcommands and options, columns of tables, and keys of JSON. `docs/stability.md` says
//! which of them stay. A difference to a snapshot in `tests/stability` is a change for every user's script.

use crate::common::everything::everything;
use crate::common::exports::golden;
use crate::common::{run, stderr, stdout};
use magscope_core::Hop;
use magscope_export::Table;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use tempfile::TempDir;

/// Compares lines with a snapshot.
fn compare(name: &str, lines: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/stability"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, lines));
}

#[test]
fn hops_keep_their_names() {
    let names: Vec<&str> = Hop::ALL.iter().map(|hop| hop.name()).collect();
    compare("hops", &names.join("\n"));
}

#[test]
fn tables_keep_their_columns() {
    let mut lines = String::new();
    for table in Table::ALL {
        for field in table.schema().fields() {
            let null = if field.is_nullable() { ", may be null" } else { "" };
            let _ = writeln!(lines, "{}.{}: {}{null}", table.name(), field.name(), field.data_type());
        }
    }
    compare("columns", &lines);
}

/// Long names of the options in a help text.
fn options(help: &str) -> BTreeSet<&str> {
    let words = help.lines().filter_map(|line| {
        let line = line.trim_start();
        // `-o, --output <OUT>` or `--replace`
        let (short, long) = line.split_once("--")?;
        let is_option =
            short.is_empty() || (short.len() == 4 && short.starts_with('-') && short.ends_with(", "));
        is_option.then(|| long.split([' ', '=', '[']).next().unwrap_or_default())
    });
    words.filter(|word| !word.is_empty()).collect()
}

/// Names of the subcommands in a help text.
fn subcommands(help: &str) -> Vec<&str> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let lines = list.lines().take_while(|line| !line.is_empty());
    // Continued descriptions are indented further.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    names.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help").collect()
}

/// Lists a command and all below it, one option a line.
fn walk(command: &[&str], lines: &mut String) {
    let output = run(&[command, &["--help"]].concat());
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    let help = stdout(&output);
    let name = [&["magnet-scope"], command].concat().join(" ");
    let _ = writeln!(lines, "{name}");
    for option in options(&help) {
        let _ = writeln!(lines, "{name} --{option}");
    }
    for subcommand in subcommands(&help) {
        walk(&[command, &[subcommand]].concat(), lines);
    }
}

#[test]
fn commands_keep_their_names_and_options() {
    let mut lines = String::new();
    walk(&[], &mut lines);
    compare("options", &lines);
}

/// Collects the path of each key, `hops[].latency_ns`. A key that is data (the name of a hop or host) is `*`.
fn keys(path: &str, value: &Value, out: &mut BTreeSet<String>) {
    let is_name = |key: &str| {
        key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
    };
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let key = if is_name(key) { key } else { "*" };
                let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                out.insert(path.clone());
                keys(&path, value, out);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(&format!("{path}[]"), item, out)),
        _ => {}
    }
}

#[test]
fn json_keeps_its_keys() {
    let dir = TempDir::new().expect("a directory");
    let [a, b] = everything(&dir);
    let recordings = ["demo", "retransmissions", "drops", "half", "lost", "damaged"].map(golden);
    let mut inputs: Vec<Vec<&str>> = recordings.iter().map(|path| vec![&**path]).collect();
    inputs.push(vec![&*a, &*b]);
    inputs.push(vec![&*recordings[0], &*recordings[1]]);
    let commands: [(&str, &[&str]); 8] = [
        ("info", &["--verify"]),
        ("report", &[]),
        ("report", &["--by", "process"]),
        ("journeys", &["--slowest", "200"]),
        ("requests", &["--slowest", "200"]),
        ("replay", &[]),
        ("align", &[]),
        ("compare", &[]),
    ];
    let mut lines = String::new();
    for (command, more) in commands {
        let mut all = BTreeSet::new();
        for input in &inputs {
            let output = run(&[&[command, "--json"], more, input].concat());
            // A command may refuse a recording: `align` needs two.
            for value in serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>() {
                keys("", &value.unwrap_or_else(|error| panic!("{command} {input:?}: {error}")), &mut all);
            }
        }
        assert!(!all.is_empty(), "{command} has JSON");
        for key in all {
            let _ = writeln!(lines, "{}: {key}", [&[command], more].concat().join(" "));
        }
    }
    compare("json", &lines);
}
