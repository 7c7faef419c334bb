//! Exports of the golden sessions, read by their target tools. Without a tool its test is skipped with a
//! message.

use crate::common::{self, exports};

mod comes_back;
mod everything;
mod follow;
mod hostile;
mod lines;
mod marks;
mod missing;
mod packets;
mod periods;
mod places;
mod tables;
mod tcpdump;
mod traces;
mod wire;

use common::{run, skipped, stderr, stdout};
use exports::{FORMATS, GOLDEN, export, golden, table};
use std::fs;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn every_format_takes_every_session_and_leaves_nothing_half() {
    let dir = TempDir::new().expect("a directory");
    for session in GOLDEN {
        for format in FORMATS {
            let out = export(&dir, session, format, &[]);
            assert!(out.exists(), "{out:?}");
        }
    }
    let left: Vec<_> = fs::read_dir(&dir).expect("the directory").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left.len(), GOLDEN.len() * FORMATS.len(), "{left:?}");
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn the_tests_and_the_documents_have_every_format_of_the_command_line() {
    let output = run(&["export", &golden("demo"), "--format", "nonsense", "-o", "-"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    let (_, names) = text.split_once("possible values: ").expect("the formats");
    let names: Vec<&str> = names.split(']').next().unwrap_or_default().split(", ").collect();
    assert_eq!(names, FORMATS);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md");
    let page = fs::read_to_string(page).expect("docs/formats.md");
    for name in names {
        let is_named = page.contains(&format!("`{name}`")) || page.contains(&format!("--format {name}"));
        assert!(is_named, "docs/formats.md does not name {name}");
    }
}

#[test]
fn what_is_asked_for_is_all_that_is_written() {
    let dir = TempDir::new().expect("a directory");
    let all = table(&dir, "demo", "journeys");
    let tcp = all.iter().filter(|row| row["proto"] == "tcp").count();
    assert!(tcp > 0 && tcp < all.len());
    let args = ["export", &golden("demo"), "--format", "jsonl", "--tables", "journeys", "-o", "-"];
    let output = run(&[&args[..], &["--where", "proto = tcp"]].concat());
    assert_eq!(stdout(&output).lines().count(), tcp);
    let output = run(&[&args[..], &["--where", "proto = tcp", "--format", "csv"]].concat());
    assert_eq!(output.status.code(), Some(2), "an option given twice: {}", stderr(&output));
    for tool in ["zstd", "gzip"] {
        let out = dir.path().join(tool);
        let place = out.to_string_lossy().into_owned();
        let compress = format!("--compress={tool}");
        let output = run(&[
            "export",
            &golden("demo"),
            "--format",
            "jsonl",
            "--tables",
            "journeys",
            "-o",
            &place,
            &compress,
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = Command::new(tool).args(["-dc"]).arg(&out).output();
        if let Ok(text) = text {
            assert_eq!(stdout(&text).lines().count(), all.len());
        } else {
            skipped("compress", &format!("{tool} is not installed"));
        }
    }
}
