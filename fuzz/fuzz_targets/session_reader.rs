//! Any bytes in any file of a session: the reader neither panics nor hangs nor eats all memory, and what it hands out
//! keeps to its watermarks.
//!
//! A session is recorded once. The first byte of an input says which of its files is damaged, the second how: the
//! rest replaces the file, is appended to it, or is written over it from some place on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Event, Hop};
use magscope_session::{RecordOptions, Recorder, Session, Table};
use std::fs;
use std::sync::LazyLock;
use std::time::Duration;

/// The files of a good session.
static GOOD: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let node = NodeInfo { coverage: Coverage::full(Backend::Generator), ..NodeInfo::default() };
    let options = RecordOptions { flush_interval: Duration::ZERO, ..RecordOptions::default() };
    let mut recorder = Recorder::create(dir.path(), &node, options).expect("an empty directory");
    for round in 0..3 {
        let events = (0..100).map(|i| Event::at(Hop::ALL[i % Hop::ALL.len()], round * 1_000 + i as u64)).collect();
        recorder.append(&Batch { events, ..Batch::default() }).expect("room on the disk");
    }
    recorder.close().expect("room on the disk");
    let files = fs::read_dir(dir.path()).expect("the session").map(|entry| {
        let entry = entry.expect("an entry");
        (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file"))
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
});

fuzz_target!(|data: &[u8]| {
    let [which, mode, rest @ ..] = data else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, bytes) in GOOD.iter() {
        fs::write(dir.path().join(name), bytes).expect("room on the disk");
    }
    let names = Table::ALL.map(|t| t.file_name(0));
    let name = names.get(usize::from(*which) % (names.len() + 1)).map_or("meta.toml", String::as_str);
    let mut bytes = GOOD.iter().find(|(n, _)| n == name).map(|(_, b)| b.clone()).unwrap_or_default();
    match mode % 4 {
        0 => bytes = rest.to_vec(),
        1 => bytes.extend_from_slice(rest),
        // Behind the schema, where the batches are.
        2 => {
            bytes.truncate(bytes.len() / 2 & !7);
            bytes.extend_from_slice(rest);
        }
        _ => {
            let [at, junk @ ..] = rest else {
                return;
            };
            let at = bytes.len() * usize::from(*at) / 256;
            for (to, from) in bytes[at..].iter_mut().zip(junk) {
                *to = *from;
            }
        }
    }
    fs::write(dir.path().join(name), bytes).expect("room on the disk");
    if mode & 0x80 != 0 {
        let _ = fs::remove_file(dir.path().join(Table::Index.file_name(0)));
    }
    let Ok(session) = Session::open(dir.path()) else {
        return;
    };
    let (mut replay, mut batch) = (session.replay(None, None), Batch::default());
    let mut watermark_ns = 0;
    while replay.next(&mut batch, Duration::ZERO).expect("a replay does not fail") == Progress::More {
        let early = batch.events.iter().filter(|e| e.time_ns < watermark_ns).count() as u64;
        assert!(early <= batch.late && batch.watermark_ns >= watermark_ns);
        assert!(batch.losses.is_sorted_by_key(|l| l.to_ns));
        watermark_ns = batch.watermark_ns;
    }
    let _ = session.verify();
});
