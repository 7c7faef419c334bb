//! Unattended recording: rotation without lost events, upload of closed segments, limits, continuation after a
//! kill, and the health line.

mod bucket;
use crate::common;
pub mod scene;
mod service;

use common::{eventually, is_root, run, skipped, stderr, stdout};
use scene::{Place, UnattendedRecorder, assert_copy, copy_golden, events_below, files, info, recordings};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn no_event_is_lost_between_two_recordings_and_all_are_shipped() {
    if !is_root("recordings one after the other") {
        return;
    }
    let Some(place) = Place::new("turn") else { return };
    let (here, there) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let ship = there.path().display().to_string();
    let options = ["--rotate", "1s", "--segment-time", "200ms", "--ship", &ship, "--health", "1s"];
    let recorder = UnattendedRecorder::start(&place, here.path(), &options, &[]);
    let mut sent = 0;
    assert!(eventually(|| {
        sent += place.exchange(20);
        recordings(here.path()).len() >= 4
    }));
    let messages = recorder.end();
    let names = recordings(here.path());
    assert!(names.len() >= 4, "{names:?}");
    assert_eq!(events_below(here.path()), sent, "{messages}");
    assert!(messages.contains("health: ") && messages.contains(" of a CPU"), "{messages}");
    let last = messages.lines().find(|line| line.contains("ended: ")).expect("a last line");
    for part in [&*format!("{sent} records"), " 0 lost", " 0 waiting", " 0 deleted (0 unshipped)"] {
        assert!(last.contains(part), "{last}");
    }
    for name in &names {
        let original = here.path().join(name);
        let found = info(&original);
        assert_eq!(
            (&found["closed"], &found["damage"]),
            (&true.into(), &serde_json::json!([])),
            "{name}: {found}"
        );
        let copy = assert_copy(&original, there.path());
        let report = |dir: &Path| run(&["report", &dir.display().to_string()]);
        let (here, there) = (report(&original), report(&copy));
        assert!(there.status.success(), "{}", stderr(&there));
        assert_eq!(stdout(&here), stdout(&there));
    }
}

#[test]
fn who_was_killed_goes_on_where_it_was() {
    if !is_root("a recorder that is killed while it ships") {
        return;
    }
    let Some(place) = Place::new("kill") else { return };
    let (here, there) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let ship = there.path().display().to_string();
    let options = ["--rotate", "1h", "--segment-time", "100ms", "--ship", &ship];
    let mut arrived = files(there.path());
    for round in 1..=3 {
        let recorder = UnattendedRecorder::start(&place, here.path(), &options, &[]);
        let before = arrived.len();
        assert!(eventually(|| {
            place.exchange(5);
            files(there.path()).len() >= before + 8
        }));
        recorder.kill();
        assert_eq!(recordings(here.path()).len(), round);
        let now = files(there.path());
        for (name, file) in &arrived {
            // Only changed metadata is uploaded again.
            assert!(now.get(name) == Some(file) || name.ends_with("meta.toml"), "{name} came twice");
        }
        arrived = now;
    }
    let recorder = UnattendedRecorder::start(&place, here.path(), &options, &[]);
    recorder.end();
    let names = recordings(here.path());
    assert_eq!(names.len(), 4);
    for name in &names {
        let original = here.path().join(name);
        let copy = assert_copy(&original, there.path());
        let (original, copy) = (info(&original), info(&copy));
        assert_eq!((&original["events"], &original["damage"]), (&copy["events"], &copy["damage"]));
    }
    let now = files(there.path());
    for (name, file) in &arrived {
        assert!(now.get(name) == Some(file) || name.ends_with("meta.toml"), "{name} came twice");
    }
}

/// `(name, its golden session)`, oldest first: recordings from before the recorder's start.
const OLD: [(&str, &str); 3] =
    [("2020-01-01T00-00-00Z", "demo"), ("2020-01-02T00-00-00Z", "demo"), ("2020-01-02T00-00-00Z-2", "lost")];

#[test]
fn limits_delete_the_oldest_recordings_and_nothing_that_is_not_ours() {
    if !is_root("limits over recordings") {
        return;
    }
    let Some(place) = Place::new("keep") else { return };
    let here = TempDir::new().expect("a directory");
    for (name, golden) in OLD {
        copy_golden(golden, &here.path().join(name));
    }
    // A renamed recording, directories without a recording, a link to one, and a recording with additional
    // files.
    copy_golden("demo", &here.path().join("slow on monday"));
    fs::create_dir(here.path().join("2019-01-01T00-00-00Z")).expect("a directory");
    fs::write(here.path().join("2019-01-01T00-00-00Z/notes"), "mine").expect("a file");
    let outside = TempDir::new().expect("a directory");
    copy_golden("demo", &outside.path().join("session"));
    symlink(outside.path().join("session"), here.path().join("2019-01-02T00-00-00Z")).expect("a link");
    fs::write(here.path().join(OLD[0].0).join("notes"), "mine").expect("a file");

    let limit = scene::bytes(&here.path().join(OLD[2].0)) + (900 << 10);
    let away = here.path().join("away").display().to_string();
    let limit = limit.max(1 << 20).to_string();
    // The three are below the size limit; none is deleted for its age, because nothing was uploaded.
    let roomy =
        ["--rotate", "1h", "--total-limit", &limit, "--keep-for", "1s", "--ship", &away, "--health", "1s"];
    let recorder = UnattendedRecorder::start(&place, here.path(), &roomy, &[]);
    // By the fourth of these lines they are above the age limit and were checked.
    assert!(eventually(|| recorder.messages().matches("health: ").count() >= 4), "{}", recorder.messages());
    assert!(recorder.printed("shipping waits"), "{}", recorder.messages());
    recorder.kill();
    assert!(OLD.iter().all(|(name, _)| here.path().join(name).join("meta.toml").exists()));

    // A limit without room is refused before any deletion.
    let dir = here.path().display().to_string();
    let refused =
        run(&["record", "--netns", place.name(), "-o", &dir, "--rotate", "1h", "--total-limit", "1M"]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("the least that leaves room"), "{}", stderr(&refused));
    assert!(OLD.iter().all(|(name, _)| here.path().join(name).join("meta.toml").exists()));

    // Now they exceed the minimum limit of one mebibyte.
    for n in 1..=8 {
        copy_golden("demo", &here.path().join(format!("2020-02-0{n}T00-00-00Z")));
    }
    let before = recordings(here.path());
    let tight = ["--rotate", "1h", "--total-limit", "1MiB", "--ship", &away, "--health", "1s"];
    let recorder = UnattendedRecorder::start(&place, here.path(), &tight, &[]);
    let total =
        || recordings(here.path()).iter().map(|name| scene::bytes(&here.path().join(name))).sum::<u64>();
    let gone = || {
        let left = recordings(here.path());
        before.iter().filter(|name| !left.contains(name)).cloned().collect::<Vec<_>>()
    };
    // One unshipped segment each, as the line reports.
    let deleted = || format!("{} deleted ({} unshipped)", gone().len(), gone().len());
    assert!(
        eventually(|| total() <= 1 << 20 && recorder.messages().contains(&deleted())),
        "{}",
        recorder.messages()
    );
    assert!(!gone().is_empty() && before.starts_with(&gone()), "the oldest go: {:?} of {before:?}", gone());
    assert!(recorder.messages().contains("UNSHIPPED"), "{}", recorder.messages());
    recorder.kill();

    assert_eq!(fs::read(here.path().join(OLD[0].0).join("notes")).expect("it is theirs"), b"mine");
    assert_eq!(fs::read(here.path().join("2019-01-01T00-00-00Z/notes")).expect("it is theirs"), b"mine");
    assert!(info(&here.path().join("slow on monday"))["events"].as_u64() > Some(0));
    assert!(info(&outside.path().join("session"))["events"].as_u64() > Some(0));
}

#[test]
fn what_has_been_shipped_may_go_when_it_is_old() {
    if !is_root("limits over shipped recordings") {
        return;
    }
    let Some(place) = Place::new("aged") else { return };
    let (here, there) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    for (name, golden) in OLD {
        copy_golden(golden, &here.path().join(name));
    }
    let ship = there.path().display().to_string();
    let options = ["--rotate", "1h", "--keep-for", "1s", "--ship", &ship, "--health", "1s"];
    let recorder = UnattendedRecorder::start(&place, here.path(), &options, &[]);
    assert!(
        eventually(|| OLD.iter().all(|(name, _)| !here.path().join(name).exists())),
        "{}",
        recorder.messages()
    );
    let messages = recorder.end();
    assert!(messages.contains("by --keep-for") && messages.contains("(0 unshipped)"), "{messages}");
    for (name, golden) in OLD {
        let original = TempDir::new().expect("a directory");
        let original = original.path().join(name);
        copy_golden(golden, &original);
        assert_copy(&original, there.path());
    }
}

#[test]
fn a_full_disk_over_there_is_told_and_what_is_missing_comes_later() {
    if !is_root("shipping to a full disk") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session");
    copy_golden("demo", &session);
    // A separate mount namespace: the small disk disappears with the shell.
    let script = "mkdir \"$1/small\" && mount -t tmpfs -o size=64k tmpfs \"$1/small\" || exit 77
                  \"$0\" ship \"$1/session\" \"$1/small\"; echo \"ended with $?\"
                  find \"$1/small\" -name '*.part'
                  mount -o remount,size=16m \"$1/small\" || exit 77
                  \"$0\" ship \"$1/session\" \"$1/small\"; echo \"then with $?\"
                  cp -r \"$1/small\" \"$1/fetched\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_magnet-scope")])
        .arg(dir.path())
        .output()
        .expect("unshare runs");
    if output.status.code() == Some(77) {
        skipped("shipping to a full disk", "no tmpfs can be mounted here");
        return;
    }
    let (messages, shown) = (stderr(&output), stdout(&output));
    assert!(shown.contains("ended with 1\nthen with 0"), "nothing unfinished is left: {shown}\n{messages}");
    assert!(messages.contains("No space left") && messages.contains("next step"), "{messages}");
    assert_copy(&session, &dir.path().join("fetched"));
}

#[test]
fn recordings_that_lie_around_are_shipped_by_hand() {
    let (here, there) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let ship = |from: &Path| run(&["ship", &from.display().to_string(), &there.path().display().to_string()]);
    let nothing = ship(here.path());
    assert_eq!(nothing.status.code(), Some(1));
    assert!(stderr(&nothing).contains("there is no recording"), "{}", stderr(&nothing));
    for name in ["demo", "lost", "damaged"] {
        copy_golden(name, &here.path().join(name));
    }
    let one = ship(&here.path().join("demo"));
    assert!(one.status.success() && stderr(&one).contains("1 segment"), "{}", stderr(&one));
    let all = ship(here.path());
    assert!(all.status.success() && stderr(&all).contains("2 segments"), "{}", stderr(&all));
    let again = ship(here.path());
    assert!(again.status.success() && stderr(&again).contains("0 segments"), "{}", stderr(&again));
    for name in ["demo", "lost", "damaged"] {
        assert_copy(&here.path().join(name), there.path());
    }
    for nonsense in ["gs://bucket", "s3://", "file://x"] {
        let output = run(&["ship", &here.path().display().to_string(), nonsense]);
        assert_eq!(output.status.code(), Some(2), "{nonsense}: {}", stderr(&output));
        assert!(stderr(&output).contains("no place to ship to"), "{}", stderr(&output));
    }
}

#[test]
fn agents_recordings_are_not_shipped_in_silence() {
    let output = run(&["record", "--connect", "nobody", "-o", "nowhere", "--ship", "/tmp"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("magnet-scope ship"), "{}", stderr(&output));
    assert!(!Path::new("nowhere").exists());
}

#[test]
fn a_bucket_that_is_away_at_first_gets_all_and_gives_it_back() {
    if !is_root("shipping to a bucket") {
        return;
    }
    let Some(store) = bucket::Bucket::new("shipping to a bucket") else { return };
    let Some(place) = Place::new("s3") else { return };
    let here = TempDir::new().expect("a directory");
    let options =
        ["--rotate", "1h", "--segment-time", "200ms", "--ship", "s3://captures/magnet", "--health", "1s"];
    let recorder = UnattendedRecorder::start(&place, here.path(), &options, &store.environment());
    let mut sent = place.exchange(20);
    assert!(recorder.printed("shipping waits"), "{}", recorder.messages());
    let server = store.serve();
    store.client("make", &[]);
    assert!(common::eventually(|| {
        sent += place.exchange(20);
        recorder.messages().contains("shipping goes on")
    }));
    let messages = recorder.end();
    assert!(messages.contains(" 0 waiting"), "{messages}");
    let fetched = TempDir::new().expect("a directory");
    let list = store.client("list", &[]);
    store.client("fetch", &[fetched.path()]);
    let names = recordings(here.path());
    assert_eq!(names.len(), 1);
    let original = here.path().join(&names[0]);
    let copy = assert_copy(&original, &fetched.path().join("magnet"));
    assert_eq!(info(&copy)["events"], sent);
    assert_eq!(info(&copy)["damage"], serde_json::json!([]));

    // Repeated manually, with and without the ledger: nothing is uploaded again.
    for forgotten in [false, true] {
        if forgotten {
            fs::remove_file(original.join("shipped.log")).expect("the ledger");
        }
        let output = store.ship(&original, "s3://captures/magnet");
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(store.client("list", &[]), list);
    }
    drop(server);
    fs::remove_file(original.join("shipped.log")).expect("the ledger");
    let output = store.ship(&original, "s3://captures/magnet");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("s3://captures/magnet"), "{}", stderr(&output));
}

#[test]
fn large_files_go_to_a_bucket_in_parts() {
    let Some(store) = bucket::Bucket::new("large files in a bucket") else { return };
    let _server = store.serve();
    store.client("make", &[]);
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session");
    copy_golden("demo", &session);
    // Bytes after the events are no part of the recording, but are uploaded unchanged.
    let large = session.join("events-0000.arrows");
    let mut bytes = fs::read(&large).expect("events");
    bytes.extend((0..20_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8));
    fs::write(&large, &bytes).expect("room");
    let output = store.ship(&session, "s3://captures");
    assert!(output.status.success(), "{}", stderr(&output));
    let fetched = TempDir::new().expect("a directory");
    assert_eq!(store.client("fetch", &[fetched.path()])["unfinished"], 0);
    assert_copy(&session, fetched.path());
}

#[test]
fn triggers_without_a_window_are_counted() {
    if !is_root("a recorder with a trigger") {
        return;
    }
    let (dir, Some(place)) = (TempDir::new().expect("a directory"), Place::new("trigger")) else { return };
    let saved = dir.path().join("saved").display().to_string();
    let options = ["--trigger", "udp", "--trigger-window", "10s", "--save-on-trigger", &saved];
    let recorder = UnattendedRecorder::start(&place, &dir.path().join("all"), &options, &[]);
    let sent = place.exchange(200);
    let messages = recorder.end();
    assert!(messages.contains(&format!("the trigger fired {sent} times, and ")), "{messages}");
    assert!(messages.contains("at most 16 are open at a time"), "{messages}");
    assert_eq!(recordings_of_triggers(&saved), 16, "{messages}");
}

fn recordings_of_triggers(saved: &str) -> usize {
    fs::read_dir(saved).expect("windows were saved").count()
}
