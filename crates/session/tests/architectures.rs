//! Recordings do not depend on the processor: each architecture reads the same of the golden recordings, and of those
//! that another one has written. `scripts/recordings-arm64.sh` runs this test on two architectures in turn.

use crate::common;

use common::drain;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Event};
use magscope_session::{RecordOptions, Recorder, Session};
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The golden recordings, and which of them is damaged.
const GOLDEN: [(&str, bool); 6] = [
    ("damaged", true),
    ("demo", false),
    ("drops", false),
    ("half", false),
    ("lost", false),
    ("retransmissions", false),
];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name).join("session")
}

/// Everything of a recording, as text and as events.
fn content(dir: &Path) -> (String, Vec<Event>) {
    let session = Session::open(dir).expect("a recording");
    let (all, _) = drain(&mut session.replay(None, None));
    let text = format!("{:?}\n{:?}\n{:?}\n{all:?}\n", session.info(), session.damage(), session.verify());
    // a damage names its file
    (text.replace(&dir.display().to_string(), "DIR"), all.events)
}

/// Writes a recording again, batch by batch.
fn write_again(from: &Path, to: &Path) {
    let session = Session::open(from).expect("a recording");
    let mut recorder = Recorder::create(to, session.info(), RecordOptions::default()).expect("a recorder");
    let mut replay = session.replay(None, None);
    let mut batch = Batch::default();
    while replay.next(&mut batch, Duration::ZERO).expect("readable") != Progress::End {
        recorder.append(&batch).expect("appended");
    }
    recorder.append(&batch).expect("appended");
    recorder.close().expect("closed");
}

/// Asserts that all architectures whose results are in a folder have read and written the same.
fn all_agree(folder: &Path, name: &str) {
    let of = |arch: &str, file: &str| folder.join(arch).join(format!("{name}{file}"));
    let own = fs::read_to_string(of(ARCH, ".read")).expect("its own");
    let (copy, _) = content(&of(ARCH, ""));
    for entry in fs::read_dir(folder).expect("a folder") {
        let arch = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        if arch == ARCH {
            continue;
        }
        let other = fs::read_to_string(of(&arch, ".read")).expect("what it read");
        assert!(own == other, "{name}: {ARCH} reads something else than {arch}");
        let (other, events) = content(&of(&arch, ""));
        assert!(copy == other, "{name}: what {arch} wrote is another recording on {ARCH}");
        println!("{name}: {arch} and {ARCH} agree, {} bytes of text, {} events", own.len(), events.len());
    }
}

#[test]
fn a_recording_is_the_same_on_every_architecture() {
    let own = tempfile::tempdir().expect("a folder");
    let folder = std::env::var_os("MAGSCOPE_EXCHANGE").map_or_else(|| own.path().to_owned(), PathBuf::from);
    let mine = folder.join(ARCH);
    let _earlier = fs::remove_dir_all(&mine);
    fs::create_dir_all(&mine).expect("a folder");
    for (name, is_damaged) in GOLDEN {
        let (text, events) = content(&golden(name));
        fs::write(mine.join(format!("{name}.read")), text).expect("written");
        write_again(&golden(name), &mine.join(name));
        let (copy, copied) = content(&mine.join(name));
        assert_eq!(copied, events, "{name}");
        assert!(!events.is_empty() && (is_damaged || copy.contains("\n[]\n[]\n")), "{name}");
        all_agree(&folder, name);
    }
}
