//! Every command in the documents is run literally, or listed with the reason for its omission.

use crate::common::{is_root, skipped, stderr, stdout};
use std::path::Path;
use std::process::{Command, Output};

fn script(arguments: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/run-documents.py");
    let mut command = Command::new("python3");
    command.arg(script).args(arguments);
    command
}

#[test]
fn every_command_of_the_documents_is_run_or_listed() {
    let Ok(checked) = script(&["--check"]).output() else {
        skipped("commands of the documents", "python3 is not there");
        return;
    };
    assert!(checked.status.success(), "{}", stderr(&checked));
}

#[test]
fn commands_of_the_documents_do_what_they_say() {
    const TEST: &str = "running the documents";
    if !is_root(TEST) {
        return;
    }
    if !["python3", "nsenter", "unshare", "setcap"].iter().all(|tool| has(tool)) {
        skipped(TEST, "it needs python3, nsenter, unshare and setcap");
        return;
    }
    let parts = stdout(&script(&["--check"]).output().expect("python3 is there"));
    // They record for minutes and hardly use the CPU, so they run at the same time.
    let ran: Vec<Output> = std::thread::scope(|scope| {
        let run = |part| scope.spawn(move || script(&[env!("CARGO_BIN_EXE_magnet-scope"), part]).output());
        let running: Vec<_> = parts.split_whitespace().map(run).collect();
        running.into_iter().map(|part| part.join().expect("no panic").expect("python3 is there")).collect()
    });
    assert!(!ran.is_empty());
    for part in &ran {
        assert!(part.status.success(), "{}\n{}", stdout(part), stderr(part));
        for line in stdout(part).lines().filter_map(|line| line.strip_prefix("skipped: ")) {
            skipped(TEST, line);
        }
    }
}

fn has(tool: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {tool}")])
        .output()
        .is_ok_and(|found| found.status.success())
}
