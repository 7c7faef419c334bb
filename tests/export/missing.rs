//! Missing data in rows is reported.

use crate::common::exports::golden;
use crate::common::{run, stderr};
use magscope_core::change::HopCount;
use magscope_core::node::NodeInfo;
use magscope_core::{Batch, Event, Hop};
use magscope_session::{RecordOptions, Recorder};
use tempfile::TempDir;

#[test]
fn what_was_lost_or_left_out_is_said() {
    let dir = TempDir::new().expect("a directory");
    let sampled = dir.path().join("sampled");
    let mut recorder =
        Recorder::create(&sampled, &NodeInfo::default(), RecordOptions::default()).expect("an empty directory");
    let count = HopCount {
        time_ns: 9,
        hop: Hop::IpIn,
        kept: 10,
        filtered: 5,
        undecided: 1,
        sampled: 90,
        synthesised: 0,
    };
    let events = (1..10).map(|ns| Event::at(Hop::IpIn, ns)).collect();
    recorder.append(&Batch { events, counts: vec![count], ..Batch::default() }).expect("room");
    recorder.close().expect("room");
    let sampled = sampled.to_string_lossy().into_owned();
    let (lost, demo) = (golden("lost"), golden("demo"));
    let messages_of = |arguments: &[&str]| {
        let output = run(arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let exported =
        |session: &str| messages_of(&["export", session, "--format", "csv", "--tables", "events", "-o", "-"]);
    assert!(exported(&lost).contains("3 437 records are missing"), "{}", exported(&lost));
    assert!(!exported(&demo).contains("missing") && !exported(&demo).contains("left out"));
    let mut texts = vec![exported(&sampled)];
    if cfg!(feature = "query") {
        texts.push(messages_of(&["query", &sampled, "SELECT count(*) FROM events"]));
    }
    for text in texts {
        assert!(text.contains("90 events were left out by a sampler"), "{text}");
        assert!(text.contains("5 events were left out by a filter"), "{text}");
        assert!(text.contains("1 event was left out undecided"), "{text}");
    }
}
