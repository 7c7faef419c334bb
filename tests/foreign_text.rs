//! Recordings with escape sequences, line ends and bidirectional marks in names: none reaches a terminal or a
//! file.

use crate::common::exports::{FORMATS, golden};
use crate::common::run;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// TOML text that sets the title, ends the line, and uses C1 and bidirectional marks.
const DIRTY: &str = r"\u001b]0;x\u0007\n\r\u009b31m\u202e\u2066";

/// A copy of a golden recording with such text in every free-text field of `meta.toml`.
fn dirty(dir: &TempDir) -> String {
    let to = dir.path().join("dirty");
    fs::create_dir(&to).expect("a directory");
    for entry in fs::read_dir(golden("demo")).expect("it is there") {
        let from = entry.expect("an entry").path();
        fs::copy(&from, to.join(from.file_name().expect("a name"))).expect("it can be copied");
    }
    let path = to.join("meta.toml");
    let text = fs::read_to_string(&path).expect("it is there");
    let free = ["tool", "host", "kernel", "name", "path", "point", "note", "because", "created_utc"];
    let mut soiled = 0;
    let lines = text.lines().map(|line| match line.split_once(" = \"") {
        Some((key, value)) if free.contains(&key) => {
            soiled += 1;
            format!("{key} = \"{DIRTY}{value}\n")
        }
        _ => format!("{line}\n"),
    });
    let text: String = lines.collect();
    fs::write(&path, text).expect("it can be written");
    assert!(soiled > 10, "{soiled}");
    to.display().to_string()
}

/// Control characters of a terminal. Line ends are checked by number.
fn unsafe_characters(bytes: &[u8]) -> Vec<char> {
    let text = String::from_utf8_lossy(bytes);
    let is_unsafe = |c: &char| {
        *c != '\n' && *c != '\t' && c.is_control()
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(is_unsafe).collect()
}

fn lines(bytes: &[u8]) -> usize {
    String::from_utf8_lossy(bytes).lines().count()
}

#[test]
fn no_subcommand_prints_what_a_terminal_obeys() {
    let dir = TempDir::new().expect("a directory");
    let (dirty, clean) = (dirty(&dir), golden("demo"));
    for command in [
        &["info", "--verify"][..],
        &["info", "--json"],
        &["report"],
        &["report", "--json"],
        &["report", "--by", "node"],
        &["journeys"],
        &["journeys", "--json"],
        &["align"],
    ] {
        let of = |session: &str| {
            let more = if command[0] == "align" { golden("half") } else { String::new() };
            let arguments = command.iter().copied().chain([session, &more]).filter(|word| !word.is_empty());
            run(&arguments.collect::<Vec<_>>())
        };
        let (soiled, whole) = (of(&dirty), of(&clean));
        for bytes in [&soiled.stdout, &soiled.stderr] {
            assert_eq!(
                unsafe_characters(bytes),
                Vec::<char>::new(),
                "{command:?}: {}",
                String::from_utf8_lossy(bytes)
            );
        }
        assert!(!soiled.stdout.is_empty(), "{command:?}");
        if command[0] != "info" && !command.contains(&"--json") {
            assert_eq!(lines(&soiled.stdout), lines(&whole.stdout), "{command:?}");
        }
    }
}

#[test]
fn no_export_of_text_holds_what_a_terminal_obeys() {
    let dir = TempDir::new().expect("a directory");
    let dirty = dirty(&dir);
    for format in FORMATS.into_iter().filter(|format| ["csv", "jsonl", "ulm", "bp", "chrome"].contains(format))
    {
        let out = dir.path().join(format);
        let place = out.display().to_string();
        let output = run(&["export", &dirty, "--to", format, "-o", &place]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut files = vec![out];
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(
                    fs::read_dir(&path).expect("it is there").map(|entry| entry.expect("an entry").path()),
                );
            } else {
                assert_file(&path);
            }
        }
    }
}

fn assert_file(path: &Path) {
    let bytes = fs::read(path).expect("it is there");
    assert_eq!(unsafe_characters(&bytes), Vec::<char>::new(), "{}", path.display());
}
