//! Every command in the documents is run literally, or listed with the reason for its omission.

use crate::common::{is_root, skipped, stderr, stdout};
use std::path::Path;
use std::process::{Command, Output};

fn script(argument: &str) -> Option<Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/run-documents.py");
    Command::new("python3").arg(script).arg(argument).output().ok()
}

#[test]
fn every_command_of_the_documents_is_run_or_listed() {
    let Some(checked) = script("--check") else {
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
    let ran = script(env!("CARGO_BIN_EXE_magnet-scope")).expect("python3 is there");
    assert!(ran.status.success(), "{}\n{}", stdout(&ran), stderr(&ran));
    for line in stdout(&ran).lines().filter_map(|line| line.strip_prefix("skipped: ")) {
        skipped(TEST, line);
    }
}

fn has(tool: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {tool}")])
        .output()
        .is_ok_and(|found| found.status.success())
}
