//! A viewer's data from an agent: completeness, filters, and reported losses.

use crate::common;

use common::{Came, RECORDS, Serving, authority, batch, connect, eventually, flow, info, viewer};
use magscope_core::node::CgroupName;
use magscope_core::source::Source;
use magscope_core::workload::Names;
use magscope_core::{Batch, Change, Hop, PayloadHead};
use magscope_fleet::{Memory, Next, Start, StartAt, Terms};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ALL: u64 = 64 << 20;

#[test]
fn what_was_captured_arrives_over_tls() {
    let (_dir, folder) = authority();
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    let serving = Serving::start(&memory, 0, Some((folder.clone(), "host-web-1")));
    (0..50).for_each(|n| writer.push(&batch(n)).expect("kept"));
    let back = StartAt::Back(Duration::from_secs(9));
    let remote = connect(serving.tls(), viewer(&folder, "viewer-me"), back, Terms::default());
    let mut remote = remote.expect("it is let in");
    assert_eq!(remote.info().host, "web-1");
    let mut came = Came::default();
    came.read(&mut remote, 5_000, || {});
    (50..100).for_each(|n| writer.push(&batch(n)).expect("kept"));
    came.read(&mut remote, 10_000, || {});
    assert!(came.records.iter().copied().eq(0..10_000), "in order, each once");
    assert_eq!((came.missed, came.unknown), (0, 0));
    assert!(serving.has_message("me reads"));
    drop(remote);
    assert!(eventually(|| memory.readers() == 0), "who has left is read for no longer");
}

#[test]
fn whoever_begins_now_knows_the_flows_that_were_announced_before() {
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    let serving = Serving::start(&memory, 0, None);
    (0..50).for_each(|n| writer.push(&batch(n)).expect("kept"));
    let mut remote = connect(serving.plain(), None, StartAt::Now, Terms::default()).expect("it is let in");
    // The stream starts when the agent has read the request.
    assert!(eventually(|| memory.readers() == 1));
    writer.push(&batch(50)).expect("kept");
    let mut came = Came::default();
    came.read(&mut remote, 100, || {});
    assert!(came.records.iter().copied().eq(5_000..5_100), "what comes, and nothing from before");
    assert_eq!(came.unknown, 0);
}

fn change() -> Change {
    Change { from_ns: 1_000, to_ns: 2_000, what: "disable dev.queue".to_owned() }
}

#[test]
fn whoever_begins_now_learns_the_changes_and_names_from_before() {
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    let serving = Serving::start(&memory, 0, None);
    let cgroups = vec![CgroupName { id: 5, path: "/later".to_owned() }];
    let names = Names { time_ns: 1_000, cgroups, ..Names::default() };
    let first = Batch { changes: vec![change()], names: vec![names.clone()], ..batch(0) };
    writer.push(&first).expect("kept");
    // As the agent has it, and through a filter.
    for terms in [Terms::default(), Terms { snap: Some(8), ..Terms::default() }] {
        let mut remote = connect(serving.plain(), None, StartAt::Now, terms).expect("it is let in");
        let (mut batch, mut found) = (Batch::default(), Batch::default());
        assert!(eventually(|| {
            remote.next(&mut batch, Duration::from_millis(100)).expect("a source");
            found.changes.append(&mut batch.changes);
            found.names.append(&mut batch.names);
            !found.changes.is_empty()
        }));
        assert_eq!((&found.changes[..], &found.names[..]), (&[change()][..], &[names.clone()][..]));
    }
}

#[test]
fn a_change_comes_once_however_often_a_stretch_begins() {
    // A stretch has few packets.
    let (memory, mut writer) = Memory::new(info(), 40_000).expect("Arrow");
    let serving = Serving::start(&memory, 0, None);
    let mut remote = connect(serving.plain(), None, StartAt::Now, Terms::default()).expect("it is let in");
    assert!(eventually(|| memory.readers() == 1));
    let (mut came, mut changes, mut received) = (Came::default(), Vec::new(), Batch::default());
    for n in 0..50 {
        let changed = if n == 0 { vec![change()] } else { Vec::new() };
        writer.push(&Batch { changes: changed, ..batch(n) }).expect("kept");
        while (came.records.len() as u64) + came.missed < (n + 1) * 100 {
            remote.next(&mut received, Duration::from_millis(100)).expect("a source");
            came.add(&received);
            changes.append(&mut received.changes);
        }
    }
    assert_eq!(changes, [change()]);
}

#[test]
fn a_slow_reader_loses_its_own_and_is_told_how_much() {
    let (memory, mut writer) = Memory::new(info(), 40_000).expect("Arrow");
    let serving = Serving::start(&memory, 0, None);
    let connect = || connect(serving.plain(), None, StartAt::Now, Terms::default()).expect("it is let in");
    let (mut slow, mut quick) = (connect(), connect());
    assert!(eventually(|| memory.readers() == 2));
    let (mut late, mut came) = (Came::default(), Came::default());
    // The slow reader reads only at the end; the quick one reads each batch before the next is made.
    for n in 0..1_000 {
        writer.push(&batch(n)).expect("kept");
        came.read(&mut quick, (n + 1) * 100, || {});
    }
    assert!(came.records.iter().copied().eq(0..100_000), "the quick one is not disturbed");
    assert_eq!((came.missed, came.unknown), (0, 0));
    let mut batch = Batch::default();
    while late.records.last() != Some(&99_999) {
        slow.next(&mut batch, Duration::from_millis(100)).expect("a source");
        late.add(&batch);
    }
    assert!(late.missed > 10_000, "{} missed", late.missed);
    // Each batch has a hundred events and one head.
    let batches = late.records.len() as u64 / 100;
    assert_eq!(batches * RECORDS + late.missed, 1_000 * RECORDS, "what came and what was missed is all");
    assert!(late.records.is_sorted(), "nothing comes twice");
    assert_eq!(late.unknown, 0, "what is left announces what it uses");
    assert!(late.gaps.iter().all(|(from_ns, to_ns)| from_ns <= to_ns && *to_ns > 1_000_000), "{:?}", late.gaps);
}

#[test]
fn each_reader_has_its_own_filter_sampling_snap_and_rate() {
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    let serving = Serving::start(&memory, 0, None);
    let with = |terms: Terms| connect(serving.plain(), None, StartAt::Now, terms).expect("it is let in");
    let mut all = with(Terms::default());
    let mut filtered = with(Terms {
        filter: Some("hop = dev.xmit and port 1001 and comm = iperf3".into()),
        ..Terms::default()
    });
    let mut sampled = with(Terms { flows_one_in: Some(2), ..Terms::default() });
    let mut short = with(Terms { snap: Some(8), ..Terms::default() });
    let mut limited = with(Terms { records_a_second: Some(150), ..Terms::default() });
    assert!(eventually(|| memory.readers() == 5));
    (0..10).for_each(|n| writer.push(&batch(n)).expect("kept"));
    let mut came = Came::default();
    came.read(&mut all, 1_000, || {});
    assert_eq!((came.payload, came.missed), (350, 0));
    let flows_of = |came: &Came| {
        let mut flows = came.flows.clone();
        flows.sort_unstable();
        flows
    };
    let mut came = Came::default();
    // A flow hits a hop three times in a hundred events; its owner is known from the send.
    came.read(&mut filtered, 30, || {});
    assert!(came.hops.iter().all(|hop| *hop == Hop::DevXmit));
    assert_eq!(flows_of(&came), [flow(1).id], "no flow is told of that it may not see or does not use");
    assert_eq!(filtered.info().settings, ["filter hop = dev.xmit and port 1001 and comm = iperf3"]);
    let mut came = Came::default();
    came.read(&mut sampled, 125, || {});
    let flows = flows_of(&came);
    assert!((1..8).contains(&flows.len()), "{flows:?}");
    let mut came = Came::default();
    came.read(&mut short, 1_000, || {});
    assert_eq!(came.payload, 80);
    let mut came = Came::default();
    came.read(&mut limited, 1_000, || {});
    assert!(came.missed >= 800 && came.records.len() as u64 + came.missed == 1_000, "{} missed", came.missed);
}

#[test]
fn a_certificate_limits_what_its_holder_sees() {
    let (_dir, folder) = authority();
    let validity = magscope_fleet::pki::Validity::days(1);
    let grants = "magnet-scope:viewer?no-payload&hops=dev.xmit,dev.recv".parse().expect("limits");
    folder.viewer("guest", &grants, validity).expect("it is made");
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    let serving = Serving::start(&memory, 0, Some((folder.clone(), "host-web-1")));
    (0..10).for_each(|n| writer.push(&batch(n)).expect("kept"));
    // Whatever the request.
    let terms = Terms { snap: Some(1_000), ..Terms::default() };
    let back = StartAt::Back(Duration::from_secs(9));
    let mut remote =
        connect(serving.tls(), viewer(&folder, "viewer-guest"), back, terms).expect("it is let in");
    let mut came = Came::default();
    came.read(&mut remote, 480, || {});
    assert!(came.hops.iter().all(|hop| matches!(hop, Hop::DevXmit | Hop::DevRecv)));
    assert_eq!(came.payload, 0);
}

#[test]
fn what_is_broken_off_is_gone_on_with_and_nothing_comes_twice() {
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    let serving = Serving::start(&memory, 0, None);
    let port = serving.port;
    let mut remote = connect(serving.plain(), None, StartAt::Now, Terms::default()).expect("it is let in");
    let ticker = remote.ticker();
    assert!(eventually(|| memory.readers() == 1));
    (0..10).for_each(|n| writer.push(&batch(n)).expect("kept"));
    let mut came = Came::default();
    came.read(&mut remote, 1_000, || {});
    drop(serving);
    // The capture continues without a server.
    (10..20).for_each(|n| writer.push(&batch(n)).expect("kept"));
    let serving = Serving::start(&memory, port, None);
    came.read(&mut remote, 2_000, || {});
    assert!(came.records.iter().copied().eq(0..2_000), "in order, each once");
    assert_eq!(came.missed, 0);
    let news = ticker.news();
    assert!(
        news.iter().any(|news| news.bad) && news.iter().any(|news| news.text.ends_with("is back")),
        "{news:?}"
    );

    // A new agent of the same host: records between the two are lost, and the loss is reported.
    drop(serving);
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    (30..40).for_each(|n| writer.push(&batch(n)).expect("kept"));
    let _serving = Serving::start(&memory, port, None);
    came.read(&mut remote, 3_001, || {});
    assert!(came.records[2_000..].iter().copied().eq(3_000..4_000), "all that the new one has");
    assert_eq!(came.gaps, [(1_000_000 + 1_999_000, 1_000_000 + 3_000_000)]);
    assert_eq!(came.missed, 1, "how many there were, nobody knows: that something is missing counts as one");
}

#[test]
fn the_memory_is_bounded_and_a_part_of_it_can_be_asked_for() {
    let (memory, mut writer) = Memory::new(info(), 100_000).expect("Arrow");
    for n in 0..2_000 {
        writer.push(&batch(n)).expect("kept");
        assert!(memory.holds().bytes <= 100_000);
    }
    let holds = memory.holds();
    assert_eq!(holds.came_records, 2_000 * RECORDS);
    assert!(holds.packets > 10 && holds.packets < 2_000, "{holds:?}");
    let (from_ns, to_ns) = holds.range_ns.expect("events");
    assert_eq!(to_ns, 1_000_000 + 199_999_000);
    let middle = from_ns.midpoint(to_ns);
    let (mut reader, _) = memory.read(&Start::At(middle));
    let Next::Packet(first) = reader.next(Duration::ZERO) else { panic!("it is kept") };
    assert!(first.range_ns.0 <= middle + 1_000 && middle <= first.range_ns.1, "{:?} {middle}", first.range_ns);
    drop(writer);
    while !matches!(reader.next(Duration::ZERO), Next::End) {}
}

#[test]
fn a_batch_of_any_size_goes_in_packets_of_a_bounded_one() {
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    let serving = Serving::start(&memory, 0, None);
    let mut remote = connect(serving.plain(), None, StartAt::Now, Terms::default()).expect("it is let in");
    assert!(eventually(|| memory.readers() == 1));
    // 40,000 events, and 30 MB that cannot be compressed.
    let mut large = batch(0);
    (1..400).for_each(|n| large.events.extend(batch(n).events));
    let mut noise = 1_u64;
    let mut byte = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (noise >> 56) as u8
    };
    let head = large.heads.remove(0);
    large.heads.extend(
        (0..1_000).map(|_| PayloadHead { bytes: (0..30_000).map(|_| byte()).collect(), ..head.clone() }),
    );
    large.watermark_ns = 41_000_000;
    writer.push(&large).expect("kept");
    let mut came = Came::default();
    came.read(&mut remote, 40_000, || {});
    let mut batch = Batch::default();
    while came.payload < 30_000_000 {
        remote.next(&mut batch, Duration::from_millis(100)).expect("a source");
        came.add(&batch);
    }
    assert!(came.records.iter().copied().eq(0..40_000), "in order, each once");
    assert_eq!((came.payload, came.missed, came.unknown), (30_000_000, 0, 0));
}

#[test]
fn who_keeps_up_misses_nothing_however_often_a_stretch_begins() {
    let (memory, mut writer) = Memory::new(info(), 400_000).expect("Arrow");
    let (mut reader, _) = memory.read(&Start::Now);
    let read = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut missed = 0;
            loop {
                match reader.next(Duration::from_millis(100)) {
                    Next::Packet(_) => _ = read.fetch_add(1, Ordering::Relaxed),
                    Next::Missed(loss) => missed += loss.count,
                    Next::Nothing => {}
                    Next::End => return missed,
                }
            }
        });
        for n in 0..20_000 {
            // Never further ahead than the memory's capacity.
            while n > read.load(Ordering::Relaxed) + 50 && !thread.is_finished() {
                std::thread::yield_now();
            }
            writer.push(&batch(n % 100)).expect("kept");
        }
        drop(writer);
        assert_eq!(thread.join().expect("it reads"), 0, "records missed");
    });
    assert_eq!(read.load(Ordering::Relaxed), 20_000);
}
