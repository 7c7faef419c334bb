//! The service for systemd.

use crate::common::{is_root, stderr};
use crate::exports;
use crate::scene::recordings;
use std::fs;
use std::process::Command;

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/magnet-scope-record.service");

#[test]
fn the_service_is_one_that_systemd_takes() {
    if !exports::tool("the recorder's service", "systemd-analyze") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let unit = fs::read_to_string(UNIT).expect("the unit");
    // Where the binary is here; the manual is not installed.
    let unit = unit.replace("/usr/bin/magnet-scope", env!("CARGO_BIN_EXE_magnet-scope"));
    let unit: String =
        unit.lines().filter(|line| !line.starts_with("Documentation=")).flat_map(|l| [l, "\n"]).collect();
    let path = dir.path().join("magnet-scope-record.service");
    fs::write(&path, unit).expect("a file");
    let verified = Command::new("systemd-analyze").arg("verify").arg(&path).output().expect("it runs");
    assert!(verified.status.success(), "{}", stderr(&verified));
    assert!(!stderr(&verified).contains("magnet-scope-record"), "{}", stderr(&verified));
}

#[test]
fn a_recorder_needs_no_more_than_its_service_gives_it() {
    let test = "a recorder with few capabilities";
    if !is_root(test) || !exports::tool(test, "setpriv") {
        return;
    }
    let unit = fs::read_to_string(UNIT).expect("the unit");
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).expect("a line").to_owned();
    let set: Vec<String> = value("CapabilityBoundingSet=")
        .split_whitespace()
        .map(|name| name.replacen("CAP_", "+", 1).to_lowercase())
        .collect();
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("recordings");
    let command = value("ExecStart=").replace("/var/lib/magnet-scope/recordings", &place.display().to_string());
    let arguments = command.split_whitespace().skip(1).filter(|word| *word != "$RECORD_OPTIONS");
    let mut recorder = Command::new("setpriv");
    recorder.arg("--bounding-set").arg(format!("-all,{}", set.join(","))).arg("--no-new-privs");
    recorder.arg(env!("CARGO_BIN_EXE_magnet-scope")).args(arguments).args(["--duration", "2s"]);
    let output = recorder.output().expect("it starts");
    let said = stderr(&output);
    assert!(output.status.success() && said.contains(" 0 lost"), "{said}");
    assert_eq!(recordings(&place).len(), 1, "{said}");
}
