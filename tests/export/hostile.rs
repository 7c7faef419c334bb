//! Hostile process names.

use crate::common::exports::{client, tool};
use crate::common::{run, stderr, stdout};
use magscope_core::foreign::is_unsafe;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions};
use magscope_session::{RecordOptions, Recorder};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Hostile command names, and their form in exports.
const NAMES: [(&str, &str); 8] = [
    ("a\"b'c,d;e", "a\"b'c,d;e"),
    ("tab\tline\nend\r", "tab\u{fffd}line\u{fffd}end\u{fffd}"),
    ("back\\slash\\", "back\\slash\\"),
    ("\u{1}\u{7f}\u{9b}31m", "\u{fffd}\u{fffd}\u{fffd}31m"),
    ("=1+1;ä€𝄞\u{202e}", "=1+1;ä€𝄞\u{fffd}"),
    ("\u{fffd}\u{fffd}", "\u{fffd}\u{fffd}"),
    (" a=\"b\" c ", " a=\"b\" c "),
    ("{\"x\":[</script>", "{\"x\":[</script>"),
];

/// A generator's session with these process names.
fn hostile(dir: &TempDir) -> String {
    let mut source = Generator::new(GeneratorOptions {
        events: 20_000,
        flows: 8,
        batch_events: 200,
        ..GeneratorOptions::default()
    });
    let session = dir.path().join("hostile");
    let mut recorder =
        Recorder::create(&session, source.info(), RecordOptions::default()).expect("an empty directory");
    let (mut batch, mut at) = (Batch::default(), 0);
    while source.next(&mut batch, Duration::ZERO).expect("a generator never fails") == Progress::More {
        batch.tasks.clear();
        if at == 0 {
            let task = |(n, (name, _)): (usize, &(&str, &str))| magscope_core::Task {
                tgid: 5_000,
                tid: 5_000 + n as u32,
                uid: 0,
                cgroup: 0,
                comm: (*name).to_owned(),
            };
            batch.tasks.extend(NAMES.iter().enumerate().map(task));
        }
        for event in batch.events.iter_mut().filter(|event| event.tid != 0) {
            (event.tgid, event.tid) = (5_000, 5_000 + (at % NAMES.len()) as u32);
            at += 1;
        }
        recorder.append(&batch).expect("room");
    }
    recorder.close().expect("room");
    assert!(at >= NAMES.len());
    session.to_string_lossy().into_owned()
}

/// A name in a format: CSV adds an apostrophe to text that a spreadsheet would evaluate.
fn cell(format: &str, name: &str) -> String {
    if format == "csv" && name.starts_with('=') { format!("'{name}") } else { name.to_owned() }
}

/// Fails on an unsafe character other than the format's separators.
fn assert_safe(format: &str, text: &str, separators: &[char]) {
    let line = text.lines().find(|line| line.contains(|c| is_unsafe(c) && !separators.contains(&c)));
    assert_eq!(line, None, "{format}");
}

#[test]
fn hostile_names_survive_every_format() {
    let dir = TempDir::new().expect("a directory");
    let session = hostile(&dir);
    for (format, table) in [
        ("parquet", Some("events")),
        ("csv", Some("events")),
        ("jsonl", Some("events")),
        ("chrome", None),
        ("ulm", None),
        ("bp", None),
        ("ctf", None),
        ("magnet", None),
    ] {
        let out = dir.path().join(format);
        let place = out.to_string_lossy().into_owned();
        let mut arguments = vec!["export", &session, "--format", format, "-o", &place];
        arguments.extend(table.iter().flat_map(|table| ["--tables", table]));
        let output = run(&arguments);
        assert!(output.status.success(), "{format}: {}", stderr(&output));
        let test = "hostile_names_survive_every_format";
        match format {
            "ulm" | "bp" => {
                assert_safe(format, &fs::read_to_string(&out).expect("text"), &[]);
                client(test, "Pegasus.netlogger", "netlogger.py", &[Path::new(format), &out]);
            }
            "ctf" if tool(test, "babeltrace2") => {
                let read = Command::new("babeltrace2").arg(&out).output().expect("babeltrace2 runs");
                assert!(read.status.success(), "{}", stderr(&read));
                assert_safe(format, &stdout(&read), &[]);
            }
            "magnet" => {
                let text = fs::read_to_string(&out).expect("text");
                assert_safe(format, &text, &['\t']);
                assert!(text.lines().all(|line| line.split('\t').count() == 14));
            }
            "ctf" => {}
            _ => {
                if format != "parquet" {
                    assert_safe(format, &fs::read_to_string(&out).expect("text"), &[]);
                }
                let Some(read) = client(test, "pyarrow", "names.py", &[Path::new(format), &out]) else {
                    continue;
                };
                let read: BTreeSet<String> = serde_json::from_slice(&read.stdout).expect("JSON");
                let expected: BTreeSet<String> = NAMES.iter().map(|(_, name)| cell(format, name)).collect();
                assert!(!read.iter().any(|name| name.contains(is_unsafe)), "{format}: {read:?}");
                assert!(read.is_subset(&expected) && read.len() >= 2, "{format}: {read:?}");
                if table.is_some() {
                    assert_eq!(read, expected, "{format}");
                }
            }
        }
    }
}
