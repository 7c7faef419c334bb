//! Recording, end to end: reading returns the recorded data; a full disk and a foreign directory end it
//! cleanly.

use crate::common;

use common::{NOBODY, is_root, magnet_scope, run, stderr, stdout};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use tempfile::TempDir;

#[test]
fn a_recorded_demo_is_read_back_whole_and_in_part() {
    if !is_root("recording the demo") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session").display().to_string();
    let output = run(&["demo", "--duration", "3s", "-o", &session]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("nothing lost"), "{}", stderr(&output));

    let info = run(&["info", "--verify", "--json", &session]);
    assert!(info.status.success(), "{}", stderr(&info));
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).expect("JSON");
    assert!(info["events"].as_u64().is_some_and(|events| events > 1000), "{info}");
    assert_eq!(info["closed"], true);
    assert_eq!(info["damage"], serde_json::json!([]));
    let names: Vec<_> =
        info["node"]["netns"].as_array().expect("namespaces").iter().map(|n| &n["name"]).collect();
    assert_eq!(names, ["client", "server"]);

    // The report from the files equals that of the recording run.
    let report = run(&["report", &session]);
    assert_eq!(stdout(&report), stdout(&output), "{}", stderr(&report));

    let first = info["first_utc"].as_str().expect("a time of day");
    let whole = run(&["replay", &session, "--json"]);
    let from_start = run(&["replay", &session, "--json", "--from", first]);
    assert!(whole.status.success() && from_start.status.success(), "{}", stderr(&from_start));
    let part = run(&["replay", &session, "--json", "--from", "1s", "--until", "2s"]);
    assert!(part.status.success() && part.stdout != whole.stdout, "{}", stderr(&part));

    let backwards = run(&["replay", &session, "--from", "2s", "--until", "1s"]);
    assert_eq!(backwards.status.code(), Some(2));
    let occupied = run(&["record", "--duration", "1s", "-o", &session]);
    assert_eq!(occupied.status.code(), Some(1));
    assert!(stderr(&occupied).contains("already holds a session"), "{}", stderr(&occupied));
}

#[test]
fn a_full_disk_ends_the_recording_with_an_error_and_keeps_what_is_there() {
    if !is_root("recording onto a full disk") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    // A separate mount namespace: the small disk disappears with the shell.
    let script = "mount -t tmpfs -o size=256k tmpfs \"$1\" || exit 77
                  \"$0\" demo --duration 60s -o \"$1/session\"; echo \"ended with $?\"
                  \"$0\" info \"$1/session\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_magnet-scope")])
        .arg(dir.path())
        .output()
        .expect("unshare runs");
    if output.status.code() == Some(77) {
        common::skipped("recording onto a full disk", "no tmpfs can be mounted here");
        return;
    }
    let (messages, shown) = (stderr(&output), stdout(&output));
    assert!(shown.contains("ended with 1"), "{shown}\n{messages}");
    assert!(messages.contains("No space left") && messages.contains("kept"), "{messages}");
    assert!(shown.contains("\nfrom  "), "what was recorded is readable: {shown}\n{messages}");
}

#[test]
fn a_foreign_directory_is_refused_before_anything_is_lost() {
    if !is_root("recording into a foreign directory") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let foreign = dir.path().join("foreign");
    fs::create_dir(&foreign).expect("a directory");
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o700)).expect("own directory");
    chown(&foreign, Some(NOBODY), Some(NOBODY)).expect("root may");
    let output = run(&["record", "--duration", "5s", "-o", &foreign.display().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("CAP_DAC_OVERRIDE"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(&foreign).expect("readable").count(), 0);
}

#[test]
fn a_signal_ends_a_recording_cleanly() {
    if !is_root("ending a recording by a signal") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session");
    let child = magnet_scope(&["record", "-o", &session.display().to_string()]).spawn().expect("it starts");
    assert!(common::eventually(|| session.join("meta.toml").exists()));
    let sent = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    let info = run(&["info", &session.display().to_string()]);
    assert!(stdout(&info).contains("closed      yes"), "{}", stdout(&info));
}
