//! One recording, and its counts wherever they stand: terminal, window's model and what both draw, report, journeys, exports, metrics,
//! health. Packets that the kernel freed in the queues of closed sockets are in none of them.

use crate::common::exports::golden;
use crate::common::{run, stderr};
use magscope_core::journey::Limits;
use magscope_core::node::{DropReason, NodeInfo};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, DetailKind, Event, EventFlags, Hop, Proto};
use magscope_scope::look::{Point, PointKind};
use magscope_scope::{Action, Options, Scope};
use magscope_sensor::health::{Softirq, Thresholds};
use magscope_sensor::openmetrics::{Dialect, write};
use magscope_sensor::{SelfUsage, Sensor};
use magscope_session::{RecordOptions, Recorder, Session};
use magscope_timeline::join::OneClock;
use magscope_timeline::merged_reader::walk;
use magscope_tui::{Depth, Front, Theme};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Drops, and packets freed in a clean-up.
const DROPPED: u64 = 3;
const CLEANED_UP: u64 = 9;
const NO_SOCKET: u32 = 3;
const QUEUE_PURGE: u32 = 77;

/// The events and the announcements of the golden `demo` in one batch.
fn demo() -> (Session, Batch) {
    let session = Session::open(Path::new(&golden("demo"))).expect("a golden session");
    let (mut replay, mut batch, mut all) = (session.replay(None, None), Batch::default(), Batch::default());
    while replay.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
        all.events.append(&mut batch.events);
        all.flows.append(&mut batch.flows);
        all.tasks.append(&mut batch.tasks);
        all.tcp.append(&mut batch.tcp);
        all.clock.append(&mut batch.clock);
        all.watermark_ns = batch.watermark_ns;
    }
    drop(replay);
    (session, all)
}

/// A recording of these events below a directory.
fn write_recording(dir: &TempDir, name: &str, info: &NodeInfo, all: &Batch) -> String {
    let path = dir.path().join(name);
    let mut recorder = Recorder::create(&path, info, RecordOptions::default()).expect("a place");
    recorder.append(all).expect("room");
    recorder.close().expect("it is written");
    path.to_string_lossy().into_owned()
}

/// The golden `demo` where a socket's datagrams do not arrive any more from some instant on: they stay in flight.
fn silent_socket(dir: &TempDir) -> String {
    let (session, mut all) = demo();
    // Amid the recording, so that the wait for a late event ends within it.
    let arrives =
        |(_, e): &(usize, &Event)| e.hop == Hop::DevRecv && e.proto == Proto::UDP && !e.flow.is_none();
    let arrivals: Vec<usize> = all.events.iter().enumerate().filter(arrives).map(|(at, _)| at).collect();
    let at = arrivals[arrivals.len() / 4];
    let first = all.events[at];
    let socket =
        all.events.iter().find(|e| e.hop == Hop::UdpRecv && e.flow == first.flow).map_or(0, |e| e.socket);
    let mut row = 0;
    all.events.retain(|event| {
        row += 1;
        row <= at || (event.flow != first.flow && (socket == 0 || event.socket != socket))
    });
    write_recording(dir, "lost", session.info(), &all)
}

/// The golden `demo` with drops: one undelivered datagram, two packets without a socket, and the clean-up of
/// nine sockets.
fn recording(dir: &TempDir) -> (String, NodeInfo) {
    let (session, mut all) = demo();
    // A demo may have drops of its own.
    all.events.retain(|event| event.hop != Hop::SkbDrop);
    let received =
        |e: &Event| e.hop == Hop::UdpRecv && e.proto == Proto::UDP && !e.flags.contains(EventFlags::PEEK);
    let at = all.events.iter().rposition(received).expect("a datagram");
    let lost = all.events[at];
    let freed =
        |reason| Event { detail: DetailKind::DropReason.of(reason), ..Event::at(Hop::SkbDrop, lost.time_ns) };
    all.events[at] = Event { hop: Hop::SkbDrop, detail: DetailKind::DropReason.of(NO_SOCKET), ..lost };
    let mut row = 0;
    all.events.retain(|event| {
        row += 1;
        row <= at + 1 || (event.flow != lost.flow && (lost.socket == 0 || event.socket != lost.socket))
    });
    let more = (0..CLEANED_UP).map(|_| freed(QUEUE_PURGE)).chain((1..DROPPED).map(|_| freed(NO_SOCKET)));
    let more: Vec<Event> = more.collect();
    let behind = at + 1;
    all.events.splice(behind..behind, more);
    let reason = |number, name: &str| DropReason { number, name: name.to_owned() };
    let drop_reasons = vec![reason(NO_SOCKET, "no_socket"), reason(QUEUE_PURGE, "queue_purge")];
    let info = NodeInfo { drop_reasons, ..session.info().clone() };
    (write_recording(dir, "drops", &info, &all), info)
}

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn every_surface_has_the_same_number_of_drops() {
    let dir = TempDir::new().expect("a directory");
    let (path, info) = recording(&dir);

    let report = json(&["report", &path, "--json"]);
    assert_eq!(
        (&report["drops"]["dropped"], &report["drops"]["cleaned_up"]),
        (&DROPPED.into(), &CLEANED_UP.into())
    );
    let text = String::from_utf8(run(&["report", &path]).stdout).expect("text");
    assert!(text.contains(&format!("The kernel dropped {DROPPED} packets: {DROPPED} no_socket.")), "{text}");
    let ended: u64 =
        report["verdicts"].as_array().expect("rows").iter().filter_map(|row| row["dropped"].as_u64()).sum();
    assert_eq!(ended, 1, "of the drops one was part of a journey");
    let journeys = json(&["journeys", &path, "--where", "dropped", "--slowest", "100", "--json"]);
    assert_eq!(journeys.as_array().map(Vec::len), Some(1), "{journeys}");

    let out = dir.path().join("journeys.jsonl").to_string_lossy().into_owned();
    let output = run(&["export", &path, "--format", "jsonl", "--tables", "journeys", "-o", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = std::fs::read_to_string(&out).expect("the journeys");
    let names: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let dropped: Vec<_> = names.iter().filter(|row| row["verdict"] == "dropped").collect();
    assert_eq!((dropped.len(), &dropped[0]["drop_name"]), (1, &"no_socket".into()));

    let session = Session::open(Path::new(&path)).expect("it was written");
    let mut scope = Scope::new(info.clone(), Options::default());
    let mut sensor = Sensor::new(std::slice::from_ref(&info), false);
    let (mut source, mut batch) = (session.replay(None, None), Batch::default());
    while source.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
        scope.ingest(&batch);
    }
    scope.end();
    scope.apply(Action::Fit);
    let frame = scope.frame();
    assert_eq!((frame.footer.counts.dropped, frame.measurements().drops), (DROPPED, DROPPED));
    let panel = frame.losses();
    assert_eq!(panel.drops, [("no_socket".to_owned(), DROPPED)]);
    assert_eq!(panel.cleaned_up, [("queue_purge".to_owned(), CLEANED_UP)]);
    // What terminal and window paint as drops: marks on the axis, and columns of the overview.
    let painted = |point: &Point| matches!(point.kind, PointKind::Drop { .. });
    assert_eq!(frame.points().iter().filter(|point| painted(point)).count() as u64, DROPPED);
    for columns in [1, 7, 80, 400] {
        let minimap = frame.minimap(columns);
        assert_eq!(minimap.columns.iter().map(|column| column.drops).sum::<u64>(), DROPPED, "{columns}");
    }
    assert_eq!(frame.measurements().loss_ratio, Some(1.0 / frame.measurements().journeys as f64));

    let mut source = session.replay(None, None);
    walk(&mut [&mut source], &OneClock, Limits::default(), Duration::ZERO, |piece| sensor.add(&piece))
        .expect("a walk");
    let snapshot = sensor.snapshot(SelfUsage::default());
    let metrics = write(&snapshot, Dialect::OpenMetrics);
    let sum = |family: &str| -> u64 {
        let lines = metrics.lines().filter(|line| line.starts_with(family));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    assert_eq!(sum("magnet_scope_drops_total"), DROPPED);
    assert_eq!(sum("magnet_scope_cleaned_up_packets_total"), CLEANED_UP);
    let softirq = Softirq { share: 0.0, cpu: 0, over_s: 1.0 };
    let health = magscope_sensor::health::of(&snapshot.hosts[0], &Thresholds::default(), &Ok(softirq));
    let check = health.checks.iter().find(|check| check.name == "drops_per_second").expect("a check");
    assert_eq!((check.of, check.because.as_str()), (Some(DROPPED), "3 no_socket"));
}

/// What `report` counts, added up over the protocols of its table of verdicts.
fn by_verdict(report: &Value, key: &str) -> u64 {
    report["verdicts"].as_array().expect("rows").iter().filter_map(|row| row[key].as_u64()).sum()
}

/// The five counts and the missed events of every golden recording are the same numbers in JSON, in the list of journeys, in metrics, in
/// the model of both front ends, in the terminal's cells and in the report's text.
#[test]
fn every_surface_has_the_same_counts() {
    let mut seen = [0_u64; 6];
    let dir = TempDir::new().expect("a directory");
    let names = ["demo", "drops", "retransmissions", "lost", "half", "damaged"];
    let goldens = names.into_iter().map(|name| (name, golden(name)));
    for (name, path) in goldens.chain([("a silent socket", silent_socket(&dir))]) {
        let report = json(&["report", &path, "--json"]);
        let words = ["dropped", "lost", "resent", "broken", "in_flight", "missed_events"];
        let counts = words.map(|word| report["counts"][word].as_u64().expect("a count"));
        seen.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        let [dropped, lost, resent, broken, in_flight, missed] = counts;

        let rows = ["lost", "resent", "broken_by_event_loss", "in_flight"].map(|key| by_verdict(&report, key));
        assert_eq!(rows, [lost, resent, broken, in_flight], "{name}: table of verdicts");
        let sums = (report["drops"]["dropped"].as_u64(), report["losses"]["records"].as_u64());
        assert_eq!(sums, (Some(dropped), Some(missed)), "{name}: drops and missed events of the report");
        let of = |filter: &str| {
            let found = json(&["journeys", &path, "--where", filter, "--slowest", "100000", "--json"]);
            found.as_array().expect("a list").len() as u64
        };
        let listed = ["lost", "retransmitted", "verdict = broken", "verdict = in-flight"].map(of);
        assert_eq!(listed, [lost, resent, broken, in_flight], "{name}: list of journeys");

        let session = Session::open(Path::new(&path)).expect("a golden session");
        let info = session.info().clone();
        let mut scope = Scope::new(info.clone(), Options::default());
        let (mut source, mut batch) = (session.replay(None, None), Batch::default());
        while source.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
            scope.ingest(&batch);
        }
        let before_end = scope.frame().footer.counts.in_flight;
        scope.end();
        let shown = scope.frame().footer.counts;
        let shown =
            [shown.dropped, shown.lost, shown.resent, shown.broken, shown.in_flight, shown.missed_events];
        assert_eq!(shown, counts, "{name}: screens");
        assert!(before_end >= in_flight, "{name}: what has not ended is in flight");

        let theme = Theme::built_in("dark", Depth::None);
        let front = Front::new(magscope_tui::Options { theme, ..magscope_tui::Options::default() });
        let area = ratatui::layout::Rect::new(0, 0, 240, 40);
        let mut buffer = ratatui::buffer::Buffer::empty(area);
        front.draw(&scope, &mut buffer, area);
        let screen = magscope_tui::shot::text(&buffer);
        for (word, n) in [
            ("events missed", missed),
            ("dropped", dropped),
            ("lost", lost),
            ("resent", resent),
            ("in flight", in_flight),
        ] {
            let words = format!(" {word} {}", magscope_scope::format::count(n));
            assert!(screen.contains(&words), "{name}: no `{words}` on\n{screen}");
        }

        let mut sensor = Sensor::new(std::slice::from_ref(&info), false);
        let mut source = session.replay(None, None);
        walk(&mut [&mut source], &OneClock, Limits::default(), Duration::ZERO, |piece| sensor.add(&piece))
            .expect("a walk");
        let metrics = write(&sensor.snapshot(SelfUsage::default()), Dialect::OpenMetrics);
        let sum = |family: &str, label: &str| -> u64 {
            let lines = metrics.lines().filter(|line| line.starts_with(family) && line.contains(label));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        let verdict = |name: &str| sum("magnet_scope_journeys_total", &format!("verdict=\"{name}\""));
        let measured = [
            sum("magnet_scope_drops_total", ""),
            verdict("lost"),
            sum("magnet_scope_resent_journeys_total", ""),
            verdict("broken"),
            verdict("in-flight"),
            sum("magnet_scope_lost_records_total", ""),
        ];
        assert_eq!(measured, counts, "{name}: metrics");
    }
    let [dropped, _, resent, broken, in_flight, missed] = seen;
    assert!([dropped, resent, broken, in_flight, missed].iter().all(|n| *n > 0), "counts above zero: {seen:?}");
}
