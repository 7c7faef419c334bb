//! Screens and outputs in documents are what the program prints. The comment before a block names the command:
//! `<!-- made by: magnet-scope report drops.session -->`. After it, `| from WORDS` leaves out the lines before the first
//! with these words, and `| paragraphs 2` what follows the second empty line. `UPDATE_DOCS=1` writes the blocks.
//!
//! Each golden recording `tests/golden/NAME` is `NAME.session`; those of the two ends of a web server's connection are
//! `client.session` and `server.session`.

use crate::common::{magnet_scope, stderr, stdout};
use magscope_export::Table;
use std::env;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const MARK: &str = "<!-- made by: ";
const FENCE: &str = "```";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The words of a command line. Quotes are around whole words only.
fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(n, part)| if n % 2 == 0 { part.split_ascii_whitespace().collect() } else { vec![part] })
        .collect()
}

/// A folder with all golden recordings under the names that documents have for them.
fn recordings() -> TempDir {
    let dir = TempDir::new().expect("a directory");
    for entry in fs::read_dir(root().join("tests/golden")).expect("golden recordings").flatten() {
        let name = entry.file_name().to_string_lossy().replace("web-", "");
        if entry.path().join("session").is_dir() {
            symlink(entry.path().join("session"), dir.path().join(format!("{name}.session"))).expect("a link");
        }
    }
    dir
}

/// What a command prints, independent of this machine's settings.
fn output(dir: &Path, line: &str) -> String {
    let mut parts = line.split(" | ");
    let command = parts.next().and_then(|command| command.strip_prefix("magnet-scope")).expect("a command");
    let mut program = magnet_scope(&words(command));
    program.current_dir(dir).env("LANG", "C.UTF-8").env("HOME", "/nonexistent");
    for name in ["LC_ALL", "LC_CTYPE", "XDG_CONFIG_HOME", "COLORFGBG", "COLUMNS"] {
        program.env_remove(name);
    }
    let output = program.output().expect("the binary starts");
    assert!(output.status.success(), "`{line}`: {}", stderr(&output));
    let text = stdout(&output);
    // Editors remove blanks at the ends of lines.
    let mut lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    for part in parts {
        if let Some(words) = part.strip_prefix("from ") {
            let first = lines.iter().position(|line| line.contains(words));
            lines.drain(..first.unwrap_or(lines.len()));
        } else {
            let number = part.strip_prefix("paragraphs ").and_then(|number| number.parse::<usize>().ok());
            let number = number.unwrap_or_else(|| panic!("`{line}`: {part}"));
            let blanks = lines.iter().enumerate().filter(|(_, line)| line.is_empty());
            let end = blanks.map(|(at, _)| at).nth(number - 1);
            lines.truncate(end.unwrap_or(lines.len()));
        }
    }
    assert!(!lines.is_empty(), "`{line}` prints something");
    lines.join("\n") + "\n"
}

/// The document with its blocks made again, and their number.
fn made_again(dir: &Path, document: &str) -> (String, usize) {
    let (mut text, mut number, mut lines) = (String::new(), 0, document.lines());
    while let Some(line) = lines.next() {
        text.extend([line, "\n"]);
        let Some(command) = line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let fence = lines.next().unwrap_or_default();
        assert!(fence.starts_with(FENCE), "a block follows `{line}`");
        lines.by_ref().find(|line| line.starts_with(FENCE)).expect("the block ends");
        let made = output(dir, command);
        assert!(!made.contains(FENCE), "`{command}` prints the end of a block");
        text.extend([fence, "\n", &made, FENCE, "\n"]);
        number += 1;
    }
    (text, number)
}

fn documents() -> Vec<PathBuf> {
    let folder = |name: &str| fs::read_dir(root().join(name)).expect("a folder").flatten();
    let files = ["", "docs", "docs/how-to", "docs/adr"].into_iter().flat_map(folder).map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    files.sort();
    files
}

#[test]
fn screens_and_outputs_in_documents_are_what_the_program_prints() {
    let (dir, mut number, mut stale) = (recordings(), 0, Vec::new());
    for path in documents() {
        let before = fs::read_to_string(&path).expect("a document");
        let (after, blocks) = made_again(dir.path(), &before);
        number += blocks;
        if before == after {
            continue;
        }
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, after).expect("it can be written");
        } else {
            let differs = before.lines().zip(after.lines()).find(|(old, new)| old != new);
            stale.push(format!("{}: {differs:#?}", path.display()));
        }
    }
    assert!(number > 30, "{number} blocks");
    assert!(stale.is_empty(), "UPDATE_DOCS=1 makes these again:\n{}", stale.join("\n"));
}

/// Each subcommand that the help lists has its section on the page of the command line.
#[test]
fn every_subcommand_is_on_the_page_of_the_command_line() {
    let page = fs::read_to_string(root().join("docs/cli.md")).expect("the page");
    let help = output(&root(), "magnet-scope --help");
    let lines = help.lines().skip_while(|line| *line != "Commands:").take_while(|line| *line != "Examples:");
    // Groups have one blank before, subcommands two, and the rest of a description more.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names: Vec<&str> = names.filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("\n## {name}\n")), "docs/cli.md lacks `{name}`: add its section");
    }
}

/// The page of names: columns from the schemas, metrics from the snapshot of all of them.
fn names() -> String {
    let mut page = String::from(
        "# Tables, columns and metrics\n\n\
         The program writes this page. [Formats](formats.md) has the meaning of the columns,\n\
         [sensor](sensor.md) that of the metrics, and [stability](stability.md) which names stay. A type with\n\
         `?` may be null.\n\n\
         ## Tables of exports and SQL\n",
    );
    for table in Table::ALL {
        let _ = write!(page, "\n### {}\n\n| column | type |\n|---|---|\n", table.name());
        for field in table.schema().fields() {
            let null = if field.is_nullable() { "?" } else { "" };
            let _ = writeln!(page, "| `{}` | `{}{null}` |", field.name(), field.data_type());
        }
    }
    page += "\n## Metrics\n\nCounters have the ending `_total`.\n\n| metric | kind | help |\n|---|---|---|\n";
    let snapshot = root().join("crates/sensor/tests/snapshots/all__openmetrics__metrics.snap");
    let text = fs::read_to_string(snapshot).expect("the snapshot of all metrics");
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let kind =
            lines.peek().and_then(|line| line.strip_prefix("# TYPE ")?.split(' ').nth(1)).expect("a type");
        let _ = writeln!(page, "| `{name}` | {kind} | {} |", help.replace('|', "\\|"));
    }
    page
}

#[test]
fn the_page_of_names_has_all_columns_and_metrics() {
    let path = root().join("docs/names.md");
    let page = names();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, page).expect("it can be written");
    } else {
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == page, "docs/names.md differs from the program: UPDATE_DOCS=1 writes it");
    }
}
