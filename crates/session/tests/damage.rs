//! Damaged sessions: no panics, damage is limited to its batch, and the reader reports the damage.

use crate::common;

use arrow::datatypes::Schema;
use arrow::ipc::convert::IpcSchemaEncoder;
use arrow::ipc::{Endianness, MessageBuilder, MessageHeader, MetadataVersion, SchemaBuilder};
use common::{
    Traffic, change, clock_sample, drain, head, hit, hop_count, loss, names, node, synthesis, tcp_sample,
};
use magscope_core::{Batch, LossCause};
use magscope_session::{RecordOptions, Recorder, Session, Table};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Events per batch of the small session.
const ROWS: usize = 256;
const BATCHES: usize = 3;

/// A session of three batches of events in one segment, and its input.
struct Small {
    dir: TempDir,
    recorded: Batch,
}

/// Waits until a reader of the directory finds the last rows of every table.
fn until_readable(dir: &Path, recorded: &Batch) {
    let rows = |b: &Batch| {
        let tables = [b.events.len(), b.tcp.len(), b.losses.len(), b.clock.len(), b.hits.len()];
        (tables, [b.heads.len(), b.changes.len(), b.counts.len(), b.synthesis.len()])
    };
    let end = Instant::now() + Duration::from_mins(1);
    while Session::open(dir).is_ok_and(|s| rows(&drain(&mut s.replay(None, None)).0) != rows(recorded)) {
        assert!(Instant::now() < end, "the last rows are not flushed");
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Small {
    fn closed() -> Self {
        Self::record(true)
    }

    /// The state after a killed recorder.
    fn unfinished() -> Self {
        Self::record(false)
    }

    fn record(close: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // The minimum segment size gives the minimum batch size: each batch below is one on disk.
        let options =
            RecordOptions { segment_bytes: 1, flush_interval: Duration::ZERO, ..RecordOptions::default() };
        let mut recorder = Recorder::create(dir.path(), &node(), options).unwrap();
        let (mut traffic, mut batch, mut recorded) = (Traffic::new(2, 8), Batch::default(), Batch::default());
        for _ in 0..BATCHES {
            traffic.fill(&mut batch, ROWS);
            batch.tcp.push(tcp_sample(batch.watermark_ns));
            batch.losses.push(loss(batch.watermark_ns, 3));
            batch.clock.push(clock_sample(batch.watermark_ns));
            batch.hits.push(hit(batch.watermark_ns));
            batch.heads.push(head(batch.watermark_ns));
            batch.changes.push(change(batch.watermark_ns));
            batch.counts.push(hop_count(batch.watermark_ns));
            batch.synthesis.push(synthesis(batch.watermark_ns));
            batch.names.push(names(batch.watermark_ns));
            recorder.append(&batch).unwrap();
            recorded.events.extend_from_slice(&batch.events);
            recorded.flows.extend_from_slice(&batch.flows);
            recorded.tcp.extend_from_slice(&batch.tcp);
            recorded.losses.extend_from_slice(&batch.losses);
            recorded.clock.extend_from_slice(&batch.clock);
            recorded.hits.extend_from_slice(&batch.hits);
            recorded.heads.extend_from_slice(&batch.heads);
            recorded.changes.extend_from_slice(&batch.changes);
            recorded.counts.extend_from_slice(&batch.counts);
            recorded.synthesis.extend_from_slice(&batch.synthesis);
        }
        while recorder.status().events < (BATCHES * ROWS) as u64 || recorder.status().queue_bytes > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if close {
            recorder.close().unwrap();
        } else {
            until_readable(dir.path(), &recorded);
            let copy = tempfile::tempdir().unwrap();
            copy_dir(dir.path(), copy.path());
            drop(recorder);
            return Small { dir: copy, recorded };
        }
        Small { dir, recorded }
    }

    fn file(&self, table: Table) -> PathBuf {
        self.dir.path().join(table.file_name(0))
    }

    fn open(&self) -> Session {
        Session::open(self.dir.path()).unwrap()
    }
}

fn copy_dir(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Replays the session: data and reported damage.
fn replay(session: &Session) -> (Batch, Vec<String>) {
    let mut replay = session.replay(None, None);
    let (batch, _) = drain(&mut replay);
    let damage = session.damage().iter().chain(replay.damage()).map(ToString::to_string).collect();
    (batch, damage)
}

fn damaged(batch: &Batch) -> u64 {
    batch.losses.iter().filter(|l| l.cause == LossCause::Damaged).map(|l| l.count).sum()
}

/// Number of missing batches if `some` is `all` without complete batches; otherwise `None`.
fn missing_batches(some: &Batch, all: &Batch) -> Option<usize> {
    let mut left = &some.events[..];
    let mut missing = 0;
    for batch in all.events.chunks(ROWS) {
        match left.strip_prefix(batch) {
            Some(rest) => left = rest,
            None => missing += 1,
        }
    }
    left.is_empty().then_some(missing)
}

#[test]
fn a_recording_that_was_not_closed_is_read_and_named() {
    let small = Small::unfinished();
    let session = small.open();
    assert!(!session.summary().closed);
    let (replayed, damage) = replay(&session);
    assert_eq!(replayed.events, small.recorded.events);
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!(damage[0].starts_with("unfinished: the recorder did not close it"), "{damage:?}");
}

#[test]
fn a_tail_cut_at_any_byte_costs_one_batch() {
    let small = Small::unfinished();
    let whole = fs::read(small.file(Table::Events)).unwrap();
    // Messages begin at a multiple of 8 bytes with four 0xff bytes and the length of their metadata, which random data
    // may have in parts.
    let is_start =
        |w: &[u8]| w[..4] == [0xff; 4] && (1..4_096).contains(&u32::from_le_bytes([w[4], w[5], w[6], w[7]]));
    let last = whole.chunks_exact(8).rposition(is_start).unwrap() * 8;
    for with_index in [true, false] {
        if !with_index {
            fs::remove_file(small.file(Table::Index)).unwrap();
        }
        for length in last..whole.len() {
            fs::write(small.file(Table::Events), &whole[..length]).unwrap();
            let session = small.open();
            let (replayed, damage) = replay(&session);
            assert_eq!(missing_batches(&replayed, &small.recorded), Some(1), "cut at {length}");
            assert!(damage.iter().any(|s| s.starts_with("unfinished")), "cut at {length}: {damage:?}");
            if with_index {
                assert_eq!(damaged(&replayed), ROWS as u64, "cut at {length}: {damage:?}");
                assert!(damage.iter().any(|s| s.contains("events-0000.arrows is cut off")), "{damage:?}");
            } else if length > last {
                let bytes =
                    format!("{} bytes of a partial batch at the end of events-0000.arrows", length - last);
                assert!(damage.iter().any(|s| s.contains(&bytes)), "cut at {length}: {damage:?}");
                assert!(damaged(&replayed) >= 1);
            }
        }
    }
}

#[test]
fn a_flipped_bit_costs_one_batch_and_is_told() {
    let small = Small::closed();
    let (_, quiet) = replay(&small.open());
    assert!(quiet.is_empty());
    for table in Table::ALL {
        let whole = fs::read(small.file(table)).unwrap();
        // A sample of bytes for speed; the step is coprime to eight, so that every bit position occurs.
        let step = if table == Table::Events { 13 } else { 5 };
        for at in (0..whole.len()).step_by(step) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(small.file(table), &bytes).unwrap();
            let (replayed, damage) = replay(&small.open());
            let missing = missing_batches(&replayed, &small.recorded);
            let place = format!("byte {at} of {}: {damage:?}", table.name());
            if table == Table::Events {
                let missing = missing.unwrap_or_else(|| panic!("events changed; {place}"));
                assert!(missing <= 1, "{missing} batches missing; {place}");
                assert_eq!(damaged(&replayed), (missing * ROWS) as u64, "{place}");
                assert!(missing == 0 || !damage.is_empty(), "{place}");
            } else {
                assert_eq!(missing, Some(0), "{place}");
            }
            // Every difference from the input is reported.
            let all = &small.recorded;
            let reported =
                replayed.losses.iter().filter(|l| l.cause != LossCause::Damaged).copied().collect::<Vec<_>>();
            let same = replayed.flows == all.flows
                && replayed.tcp == all.tcp
                && replayed.clock == all.clock
                && replayed.hits == all.hits
                && replayed.heads == all.heads
                && replayed.changes == all.changes
                && replayed.counts == all.counts
                && replayed.synthesis == all.synthesis
                && reported == all.losses;
            assert!(same || !damage.is_empty(), "{place}");
            // And before anything is read, where no loss at a place in time would say so.
            if table.explains_others() && !same {
                let mut session = small.open();
                session.check_small_tables();
                assert!(!session.damage().is_empty(), "{place}");
            }
        }
        fs::write(small.file(table), &whole).unwrap();
    }
}

#[test]
fn a_flipped_bit_in_meta_is_an_error_or_said_or_harmless() {
    let small = Small::closed();
    let path = small.dir.path().join("meta.toml");
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        if let Ok(session) = Session::open(small.dir.path()) {
            let (replayed, _) = replay(&session);
            assert_eq!(missing_batches(&replayed, &small.recorded), Some(0), "byte {at}");
        }
    }
}

/// A schema message that states the byte order of other machines.
fn foreign_schema() -> Vec<u8> {
    let mut builder = IpcSchemaEncoder::new().schema_to_fb(&Schema::empty());
    builder.reset();
    let mut schema = SchemaBuilder::new(&mut builder);
    schema.add_endianness(Endianness::Big);
    let schema = schema.finish();
    let mut message = MessageBuilder::new(&mut builder);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::Schema);
    message.add_header(schema.as_union_value());
    let message = message.finish();
    builder.finish(message, None);
    let mut metadata = builder.finished_data().to_vec();
    metadata.resize(metadata.len().next_multiple_of(8), 0);
    [&[0xff; 4][..], &(metadata.len() as u32).to_le_bytes(), &metadata].concat()
}

#[test]
fn the_byte_order_of_other_machines_is_refused_and_one_such_file_is_damage() {
    let small = Small::closed();
    let files: Vec<PathBuf> = fs::read_dir(small.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "arrows"))
        .collect();
    assert!(files.len() > 2, "{files:?}");
    fs::write(&files[0], foreign_schema()).unwrap();
    Session::open(small.dir.path()).expect("one damaged file");
    for file in &files {
        fs::write(file, foreign_schema()).unwrap();
    }
    let error = Session::open(small.dir.path()).err().expect("refused").to_string();
    assert!(error.contains("the other byte order") && error.contains("magnet-scope export"), "{error}");
}

#[test]
fn a_session_without_meta_is_still_replayed() {
    let small = Small::closed();
    fs::remove_file(small.dir.path().join("meta.toml")).unwrap();
    let (replayed, damage) = replay(&small.open());
    assert_eq!(replayed.events, small.recorded.events);
    assert!(damage[0].contains("meta.toml is missing"), "{damage:?}");
}

#[test]
fn a_missing_or_wrong_index_is_done_without() {
    let (small, other) = (Small::closed(), Small::closed());
    let path = small.file(Table::Index);
    let own = fs::read(&path).unwrap();
    let foreign = fs::read(other.file(Table::Index)).unwrap();
    let wrong: [(&str, Option<Vec<u8>>); 5] = [
        ("missing", None),
        ("empty", Some(Vec::new())),
        ("another session's", Some(foreign)),
        ("cut off", Some(own[..own.len() * 2 / 3].to_vec())),
        ("zeroed", Some(vec![0; own.len()])),
    ];
    for (what, bytes) in wrong {
        match bytes {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let session = small.open();
        let (replayed, damage) = replay(&session);
        assert_eq!(replayed.events, small.recorded.events, "{what}");
        assert_eq!(replayed.losses, small.recorded.losses, "{what}");
        assert!(damage.iter().any(|s| s.contains("index-0000.arrows")), "{what}: {damage:?}");
        // The index can be rebuilt.
        assert_eq!(session.rebuild_index().unwrap() as usize, BATCHES * 10 + 2, "{what}");
        let (replayed, damage) = replay(&small.open());
        assert_eq!((replayed.events, damage), (small.recorded.events.clone(), Vec::new()), "{what}");
    }
}

#[test]
fn missing_flows_are_in_the_totals_as_in_the_replay() {
    let small = Small::closed();
    assert_eq!(small.open().summary().losses.damaged, 0);
    fs::remove_file(small.file(Table::Flows)).unwrap();
    let session = small.open();
    let (replayed, damage) = replay(&session);
    assert!(damaged(&replayed) > 0, "{damage:?}");
    assert_eq!(session.summary().losses.damaged, damaged(&replayed));
}

#[test]
fn a_missing_file_is_counted_from_the_index() {
    let small = Small::closed();
    fs::remove_file(small.file(Table::Events)).unwrap();
    let session = small.open();
    let (replayed, damage) = replay(&session);
    assert_eq!(damaged(&replayed), (BATCHES * ROWS) as u64);
    assert!(damage.iter().any(|s| s.contains("its 768 rows are missing")), "{damage:?}");
    assert!(
        damage.iter().any(|s| s.contains("it had 768 events when it was closed, and 0 are there")),
        "{damage:?}"
    );
}

mod any_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        #[test]
        fn overwritten_anywhere(
            table in 0..Table::ALL.len(),
            at in 0.0..1.0,
            junk in proptest::collection::vec(any::<u8>(), 1..200),
            with_index: bool,
        ) {
            thread_local!(static SMALL: Small = Small::closed());
            SMALL.with(|small| {
                let dir = tempfile::tempdir().unwrap();
                copy_dir(small.dir.path(), dir.path());
                let path = dir.path().join(Table::ALL[table].file_name(0));
                let mut bytes = fs::read(&path).unwrap();
                let at = (bytes.len() as f64 * at) as usize;
                for (to, from) in bytes[at..].iter_mut().zip(&junk) {
                    *to = *from;
                }
                fs::write(&path, &bytes).unwrap();
                if !with_index {
                    let _ = fs::remove_file(dir.path().join(Table::Index.file_name(0)));
                }
                let session = Session::open(dir.path()).unwrap();
                let _ = replay(&session);
                let _ = session.verify();
            });
        }
    }
}
