//! Replay returns the recorded data.

use crate::common;

use common::{Traffic, clock_sample, drain, head, hit, loss, names, node, synthesis, tcp_sample};
use magscope_core::clock::ClockSample;
use magscope_core::source::{Progress, Source};
use magscope_core::synthesis::Sum;
use magscope_core::{
    Batch, Change, DetailKind, Event, EventFlags, ExtentKind, Hop, HopCount, LossCause, Synthesis,
};
use magscope_session::{RecordOptions, Recorder, Session};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

fn record(dir: &Path, options: RecordOptions, batches: usize, events: usize) -> Batch {
    let mut traffic = Traffic::new(4, 32);
    let mut recorder = Recorder::create(dir, &node(), options).unwrap();
    let (mut batch, mut all) = (Batch::default(), Batch::default());
    for _ in 0..batches {
        traffic.fill(&mut batch, events);
        let now = batch.watermark_ns;
        batch.tcp.push(tcp_sample(now));
        batch.losses.push(loss(now, 3));
        batch.clock.push(clock_sample(now));
        batch.hits.push(hit(now));
        batch.heads.push(head(now));
        batch.changes.push(Change { from_ns: now - 1, to_ns: now, what: "filter port = 443".to_owned() });
        let hop = Hop::DevXmit;
        batch.counts.push(HopCount {
            time_ns: now,
            hop,
            kept: now,
            filtered: 2,
            undecided: 3,
            sampled: 4,
            synthesised: 5,
        });
        batch.names.push(names(now));
        batch.synthesis.push(synthesis(now));
        batch.synthesis.push(Synthesis { of: Sum::Flow(batch.events[0].flow), ..synthesis(now) });
        recorder.append(&batch).unwrap();
        all.synthesis.extend_from_slice(&batch.synthesis);
        all.names.extend_from_slice(&batch.names);
        all.hits.extend_from_slice(&batch.hits);
        all.heads.extend_from_slice(&batch.heads);
        all.changes.extend_from_slice(&batch.changes);
        all.counts.extend_from_slice(&batch.counts);
        all.events.extend_from_slice(&batch.events);
        all.flows.extend_from_slice(&batch.flows);
        all.tasks.extend_from_slice(&batch.tasks);
        all.tcp.extend_from_slice(&batch.tcp);
        all.losses.extend_from_slice(&batch.losses);
        all.clock.extend_from_slice(&batch.clock);
    }
    let summary = recorder.close().unwrap();
    assert_eq!(summary.events, (batches * events) as u64);
    assert_eq!(summary.losses.ring_full, 3 * batches as u64);
    all
}

#[test]
fn everything_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = record(dir.path(), RecordOptions::default(), 20, 10_000);
    let session = Session::open(dir.path()).unwrap();
    assert_eq!(session.damage(), []);
    assert_eq!(session.verify(), []);
    let mut completed = node();
    recorded.names.iter().for_each(|names| completed.complete(names));
    assert_eq!(session.info(), &completed);
    assert!(session.summary().closed);
    let closed = session.meta().closed.clone().unwrap();
    assert_eq!(session.summary().events, closed.events);
    assert_eq!(session.summary().bytes, closed.bytes);
    assert_eq!(session.summary().losses, closed.losses);
    let (replayed, batches) = drain(&mut session.replay(None, None));
    assert!(batches >= 4);
    assert_eq!(replayed.events, recorded.events);
    assert_eq!(replayed.flows, recorded.flows);
    assert_eq!(replayed.tasks, recorded.tasks);
    assert_eq!(replayed.tcp, recorded.tcp);
    assert_eq!(replayed.losses, recorded.losses);
    assert_eq!(replayed.clock, recorded.clock);
    assert_eq!(replayed.hits, recorded.hits);
    assert_eq!(replayed.heads, recorded.heads);
    assert_eq!(replayed.changes, recorded.changes);
    assert_eq!(replayed.synthesis, recorded.synthesis);
    assert_eq!(replayed.counts, recorded.counts);
    let (changes, counts) = session.changes();
    assert_eq!(changes, recorded.changes);
    assert_eq!(counts, recorded.counts[recorded.counts.len() - 1..], "the last of each hop");
    assert_eq!(replayed.late, 0);
}

/// Events may be recorded between the beginning of a change and its end.
#[test]
fn a_change_is_replayed_before_the_events_that_it_may_concern() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), &node(), RecordOptions::default()).unwrap();
    let (mut traffic, mut batch, mut recorded) = (Traffic::new(4, 32), Batch::default(), Vec::new());
    for netns in 0..20 {
        traffic.fill(&mut batch, 10_000);
        let from_ns = batch.events[5_000].time_ns;
        batch.changes.push(Change::of_rules(from_ns, batch.watermark_ns + 1_000_000_000, netns));
        recorded.extend_from_slice(&batch.changes);
        recorder.append(&batch).unwrap();
    }
    recorder.close().unwrap();
    let session = Session::open(dir.path()).unwrap();
    let mut replay = session.replay(None, None);
    let mut changes_seen = 0;
    while replay.next(&mut batch, Duration::ZERO).unwrap() == Progress::More {
        changes_seen += batch.changes.len();
        let newest_ns = batch.events.iter().map(|event| event.time_ns).max().unwrap_or(0);
        assert!(recorded[changes_seen..].iter().all(|change| change.from_ns > newest_ns));
    }
    assert_eq!(changes_seen, recorded.len());
}

#[test]
fn every_field_and_hop_survives() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), &node(), RecordOptions::default()).unwrap();
    let mut batch = Batch::default();
    for hop in Hop::ALL {
        // All kinds of numbers at all hops: a column must keep even those that the kernel never sends there.
        for extent in ExtentKind::ALL {
            for detail in DetailKind::ALL {
                let at = batch.events.len() as u32;
                let mut event = Event::at(*hop, u64::from(at));
                event.socket = u64::MAX;
                event.flow.0 = u64::MAX - 1;
                (event.extent, event.detail) = (extent.of(u32::MAX - at), detail.of(1 + at));
                (event.len, event.skb, event.ifindex) = (1, 2, 3);
                (event.tgid, event.tid, event.record) = (4, 5, 7);
                (event.cpu, event.ip_id, event.segs) = (u16::MAX, 8, 9);
                (event.tcp_flags, event.proto.0, event.ttl, event.tos) = (10, 255, 11, 12);
                (event.flags, _) = EventFlags::ALL[at as usize % EventFlags::ALL.len()];
                assert_eq!((event.extent.kind(), event.detail.kind()), (*extent, *detail));
                batch.events.push(event);
            }
        }
    }
    recorder.append(&batch).unwrap();
    recorder.close().unwrap();
    let session = Session::open(dir.path()).unwrap();
    assert_eq!(drain(&mut session.replay(None, None)).0.events, batch.events);
}

#[test]
fn replay_keeps_to_its_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let options = RecordOptions { segment_bytes: 200_000, ..RecordOptions::default() };
    let recorded = record(dir.path(), options, 20, 5_000);
    let session = Session::open(dir.path()).unwrap();
    assert!(session.summary().segments > 2, "{:?}", session.summary());
    let times: Vec<u64> = recorded.events.iter().map(|e| e.time_ns).collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    let middle = [times[30_000], times[30_001], times[75_000]];
    for (from, to) in [
        (None, Some(middle[0])),
        (Some(middle[0]), Some(middle[1])),
        (Some(middle[1]), Some(middle[2])),
        (Some(middle[2]), None),
        (Some(first), Some(last)),
        (Some(last + 1), None),
        (None, Some(first - 1)),
        (Some(middle[2]), Some(middle[0])),
    ] {
        let wanted = |t: u64| from.is_none_or(|f| t >= f) && to.is_none_or(|e| t <= e);
        let (replayed, _) = drain(&mut session.replay(from, to));
        let expected: Vec<Event> = recorded.events.iter().filter(|e| wanted(e.time_ns)).copied().collect();
        assert!(replayed.events == expected, "{from:?} to {to:?}");
        assert!(replayed.tcp.iter().all(|t| wanted(t.time_ns)));
        let tcp = recorded.tcp.iter().filter(|t| wanted(t.time_ns)).count();
        assert_eq!(replayed.tcp.len(), tcp, "{from:?} to {to:?}");
        // In any start segment: the flows and tasks of its events are announced.
        let flows: HashSet<_> = replayed.flows.iter().map(|f| f.id).collect();
        assert!(replayed.events.iter().all(|e| flows.contains(&e.flow)));
        let tids: HashSet<_> = replayed.tasks.iter().map(|t| t.tid).collect();
        assert!(replayed.events.iter().all(|e| e.tid == 0 || tids.contains(&e.tid)));
    }
}

#[test]
fn late_events_stay_late() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), &node(), RecordOptions::default()).unwrap();
    let events: Vec<Event> = [10, 20, 30, 15, 40, 39].map(|t| Event::at(Hop::AppSend, t)).into();
    recorder.append(&Batch { events: events.clone(), late: 2, ..Batch::default() }).unwrap();
    recorder.close().unwrap();
    let (replayed, _) = drain(&mut Session::open(dir.path()).unwrap().replay(None, None));
    assert_eq!(replayed.events, events);
    assert_eq!(replayed.late, 2);
}

#[test]
fn an_empty_recording_is_a_session() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(dir.path(), &node(), RecordOptions::default()).unwrap();
    let summary = recorder.close().unwrap();
    assert_eq!((summary.events, summary.from_ns), (0, None));
    let session = Session::open(dir.path()).unwrap();
    assert_eq!(session.damage(), []);
    assert!(drain(&mut session.replay(None, None)).0.is_empty());
}

#[test]
fn losses_without_events_are_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), &node(), RecordOptions::default()).unwrap();
    recorder.append(&Batch { losses: vec![loss(1_000, 7)], ..Batch::default() }).unwrap();
    recorder.close().unwrap();
    let session = Session::open(dir.path()).unwrap();
    assert_eq!(session.summary().losses.of(LossCause::RingFull), 7);
    assert_eq!(drain(&mut session.replay(None, None)).0.losses, [loss(1_000, 7)]);
}

#[test]
fn sums_alone_are_somewhere_in_time_and_are_found_there() {
    const S: u64 = 1_000_000_000;
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), &node(), RecordOptions::default()).unwrap();
    let second = |at: u64| Synthesis { from_ns: (at - 1) * S, ..synthesis(at * S) };
    for at in 11..=20 {
        recorder.append(&Batch { synthesis: vec![second(at)], ..Batch::default() }).unwrap();
    }
    recorder.close().unwrap();
    let session = Session::open(dir.path()).unwrap();
    assert_eq!((session.summary().from_ns, session.extent_ns()), (None, Some((10 * S, 20 * S))));
    let (part, _) = drain(&mut session.replay(Some(13 * S), Some(15 * S)));
    assert_eq!(part.synthesis, (13..=15).map(second).collect::<Vec<_>>());
}

#[test]
fn a_quiet_recording_is_as_long_as_its_clocks_were_read() {
    const S: u64 = 1_000_000_000;
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), &node(), RecordOptions::default()).unwrap();
    let read = |at: u64| ClockSample { monotonic_ns: at * S, ..ClockSample::default() };
    for at in 5..=9 {
        recorder.append(&Batch { clock: vec![read(at)], ..Batch::default() }).unwrap();
    }
    recorder.close().unwrap();
    let session = Session::open(dir.path()).unwrap();
    assert_eq!((session.extent_ns(), session.watched_ns()), (Some((5 * S, 9 * S)), Some((5 * S, 9 * S))));
}

#[test]
fn the_recorded_time_is_that_of_all_watermarks_and_replay_reaches_its_end() {
    const S: u64 = 1_000_000_000;
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), &node(), RecordOptions::default()).unwrap();
    // Five idle seconds before the only event, and fourteen behind it.
    recorder.append(&Batch { watermark_ns: 5 * S, ..Batch::default() }).unwrap();
    let events = vec![Event::at(Hop::DevXmit, 10 * S)];
    recorder.append(&Batch { events, watermark_ns: 10 * S, ..Batch::default() }).unwrap();
    recorder.append(&Batch { watermark_ns: 24 * S, ..Batch::default() }).unwrap();
    recorder.close().unwrap();
    let session = Session::open(dir.path()).unwrap();
    assert_eq!((session.extent_ns(), session.observed_ns()), (Some((10 * S, 10 * S)), Some((5 * S, 24 * S))));
    let watermarks = |to_ns| {
        let (mut replay, mut batch, mut all) = (session.replay(None, to_ns), Batch::default(), Vec::new());
        while replay.next(&mut batch, Duration::ZERO).unwrap() == Progress::More {
            all.push((batch.events.len(), batch.watermark_ns));
        }
        all
    };
    assert_eq!(watermarks(None), [(1, 10 * S), (0, 24 * S)]);
    assert_eq!(watermarks(Some(20 * S)), [(1, 10 * S), (0, 20 * S)]);
}
