//! A killed capture: its recording opens, lacks at most a second and reports so, and the kernel holds nothing.

use crate::common;

use common::{eventually, is_root, magnet_scope, run, stderr, waited_for_cpu};
use libbpf_rs::query::{LinkInfoIter, ProgInfoIter};
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Ids of BPF objects of one kind (`link_id`, `prog_id`) that a process holds.
fn held(pid: u32, kind: &str) -> BTreeSet<u32> {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let id =
        |text: String| text.lines().find_map(|l| l.strip_prefix(kind)?.strip_prefix(':')?.trim().parse().ok());
    texts.filter_map(id).collect()
}

#[test]
fn kill_9_of_a_recording_under_load_costs_at_most_a_second_and_leaves_no_probe() {
    if is_root("killing a recorder") {
        ["mapped", "kernel"].into_iter().for_each(is_killed);
    }
}

fn is_killed(ring: &str) {
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session");
    let path = session.display().to_string();
    let mut child = magnet_scope(&["demo", "--duration", "60s", "--hops", "all", "--ring", ring, "-o", &path])
        .spawn()
        .expect("it starts");
    let events = session.join("events-0000.arrows");
    let recording = eventually(|| fs::metadata(&events).is_ok_and(|file| file.len() > 200_000));
    assert!(recording, "nothing is recorded");
    let (links, programs) = (held(child.id(), "link_id"), held(child.id(), "prog_id"));
    assert!(links.len() > 10 && programs.len() > 10, "{links:?} {programs:?}");

    let waited = waited_for_cpu(child.id());
    let killed = SystemTime::now();
    child.kill().expect("it runs"); // SIGKILL
    child.wait().expect("it ends");

    let info = run(&["info", "--verify", "--json", &path]);
    assert!(info.status.success(), "{}", stderr(&info));
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).expect("JSON");
    assert_eq!(info["closed"], false);
    assert!(info["damage"].to_string().contains("unfinished"), "{info}");
    assert!(info["events"].as_u64().is_some_and(|events| events > 5_000), "{info}");
    let last: jiff::Timestamp = info["last_utc"].as_str().and_then(|t| t.parse().ok()).expect("a time");
    let missing = killed.duration_since(SystemTime::from(last)).unwrap_or_default();
    assert!(missing < Duration::from_secs(1) + waited, "{missing:?} are missing, {waited:?} without a CPU");
    let report = run(&["report", &path]);
    assert!(report.status.success(), "{}", stderr(&report));

    // the kernel frees unreferenced objects a little later
    let gone = eventually(|| {
        LinkInfoIter::default().all(|link| !links.contains(&link.id))
            && ProgInfoIter::default().all(|program| !programs.contains(&program.id))
    });
    assert!(gone, "probes outlived their process");
}
