//! Exchanges as tables: the parts of a turn add up to its total, and its journeys are in `journeys`.

use crate::common;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Int64Type};
use common::{Files, Recording};
use magscope_core::node::CgroupName;
use magscope_core::source::{Progress, Source};
use magscope_core::workload::Container;
use magscope_core::{Batch, Event, Filter, GeneratorOptions, Hop};
use magscope_export::format::chrome::Chrome;
use magscope_export::format::marked::Marked;
use magscope_export::format::netlogger::{Dialect, NetLogger, parse};
use magscope_export::format::tables::{TableWriter, Tables};
use magscope_export::mark::Marks;
use magscope_export::{Chosen, Export, ExportError, Table, TimeLine, Written as Exported};
use magscope_session::Session;
use magscope_timeline::merged_reader::Piece;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

const LINE: TimeLine = TimeLine { to_utc_ns: Some(1_767_323_045_000_000_000) };

#[derive(Default)]
struct Written(BTreeMap<Table, Vec<RecordBatch>>);

impl TableWriter for &mut Written {
    fn rows(&mut self, table: Table, _: u16, batch: &RecordBatch) -> Result<(), ExportError> {
        self.0.entry(table).or_default().push(batch.clone());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        Ok(())
    }
}

impl Written {
    fn of(recording: &Recording, tables: &[Table]) -> Self {
        let mut written = Written::default();
        let chosen = Chosen { tables: tables.to_vec(), filter: None };
        recording.export(&mut Tables::new(std::slice::from_ref(&recording.info), LINE, chosen, &mut written));
        written
    }

    fn all(&self, table: Table) -> RecordBatch {
        let batches = self.0.get(&table).map(Vec::as_slice).unwrap_or_default();
        concat_batches(&table.schema(), batches).expect("one schema")
    }
}

fn numbers(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    let column = cast(batch.column_by_name(name).expect("a column"), &DataType::Int64).expect("numbers");
    column.as_primitive::<Int64Type>().iter().collect()
}

fn names(batch: &RecordBatch, name: &str) -> Vec<String> {
    let column = cast(batch.column_by_name(name).expect("a column"), &DataType::Utf8).expect("text");
    column.as_string::<i32>().iter().map(|name| name.unwrap_or_default().to_owned()).collect()
}

fn golden(name: &str) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name).join("session");
    let session = Session::open(&path).expect("a golden session");
    let (mut replay, mut batches) = (session.replay(None, None), Vec::new());
    let mut batch = Batch::default();
    while replay.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
        batches.push(batch.clone());
    }
    Recording { info: session.info().clone(), batches }
}

/// The golden `demo`, with two events of the scheduler at its beginning: from there on, every thread's time is known.
fn scheduled() -> Recording {
    let mut recording = golden("demo");
    let events = recording.batches.iter_mut().map(|batch| &mut batch.events).find(|events| !events.is_empty());
    let events = events.expect("the demo has events");
    let at_ns = events[0].time_ns;
    events.splice(..0, [Hop::SchedSwitch, Hop::SchedWakeup].map(|hop| Event::at(hop, at_ns)));
    recording
}

fn recordings() -> Vec<Recording> {
    let options =
        GeneratorOptions { events: 8_000, flows: 8, batch_events: 512, ..GeneratorOptions::default() };
    let generated = Recording::generated(options, &["curl".to_owned(), "nginx".to_owned()]);
    ["demo", "half", "retransmissions", "drops"]
        .map(golden)
        .into_iter()
        .chain([scheduled(), generated])
        .collect()
}

#[test]
fn the_parts_of_a_turn_add_up_to_its_total() {
    let rows = Written::of(&scheduled(), &[Table::Exchanges]).all(Table::Exchanges);
    let grades = names(&rows, "grade");
    let [total, request, answer, response, start, end] =
        ["total_ns", "request_ns", "answer_ns", "response_ns", "ts_ns", "end_ns"]
            .map(|name| numbers(&rows, name));
    let [on_cpu, runnable, blocked] =
        ["on_cpu_ns", "runnable_ns", "blocked_ns"].map(|name| numbers(&rows, name));
    let add = |a: Option<i64>, b: Option<i64>| a.zip(b).map(|(a, b)| a + b);
    let (mut turns, mut worked) = (0, 0);
    for row in (0..rows.num_rows()).filter(|row| grades[*row] == "turn") {
        turns += 1;
        assert!(total[row].is_some(), "row {row}");
        assert_eq!(add(add(request[row], answer[row]), response[row]), total[row], "row {row}");
        assert_eq!(add(start[row], total[row]), end[row], "row {row}");
        if on_cpu[row].is_some() {
            worked += 1;
            assert_eq!(add(add(on_cpu[row], runnable[row]), blocked[row]), answer[row], "row {row}");
        }
    }
    assert!(turns > 100 && worked > 0, "{turns} turns, {worked} with the time of their thread");
}

#[test]
fn only_turns_have_a_latency() {
    for recording in recordings() {
        let rows = Written::of(&recording, &[Table::Exchanges]).all(Table::Exchanges);
        let (grades, broken) = (names(&rows, "grade"), names(&rows, "broken_because"));
        for name in ["total_ns", "half_width_ns", "request_ns", "answer_ns", "response_ns", "on_cpu_ns"] {
            let times = numbers(&rows, name);
            assert!(grades.iter().zip(&times).all(|(grade, ns)| grade == "turn" || ns.is_none()), "{name}");
        }
        assert!(
            grades.iter().zip(&broken).all(|(grade, why)| (grade == "broken") != why.is_empty()),
            "{broken:?}"
        );
    }
}

#[test]
fn every_exchange_joins_its_journeys_and_those_within_it() {
    for recording in recordings() {
        let written = Written::of(&recording, &[Table::Exchanges, Table::Nested, Table::Journeys]);
        let (rows, nested) = (written.all(Table::Exchanges), written.all(Table::Nested));
        let ids =
            |rows: &RecordBatch, name: &str| numbers(rows, name).into_iter().flatten().collect::<BTreeSet<_>>();
        let journeys = ids(&written.all(Table::Journeys), "journey");
        let parts = ["first_request", "last_request", "first_response", "last_response"];
        for name in parts.map(|part| format!("{part}_journey")) {
            assert!(ids(&rows, &name).is_subset(&journeys), "{name}");
        }
        let exchanges = ids(&rows, "exchange");
        assert_eq!(exchanges.len(), rows.num_rows(), "every exchange has its own number");
        assert!(
            ids(&nested, "exchange").is_subset(&exchanges)
                && ids(&nested, "inner_exchange").is_subset(&exchanges)
        );
        let during: i64 = numbers(&rows, "during").into_iter().flatten().sum();
        assert_eq!(usize::try_from(during).expect("a count"), nested.num_rows());
    }
}

/// Runs every thread of a recording in one container of a pod, below a unit.
fn in_a_container(recording: &mut Recording) {
    const PATH: &str = "/web.service/docker-4fa2.scope";
    let tasks = recording.batches.iter().flat_map(|batch| &batch.tasks);
    let ids: BTreeSet<u64> = tasks.map(|task| task.cgroup).collect();
    recording.info.cgroups = ids.into_iter().map(|id| CgroupName { id, path: PATH.to_owned() }).collect();
    recording.info.containers = vec![Container {
        name: "web".to_owned(),
        pod: "shop".to_owned(),
        cgroup: PATH.to_owned(),
        ..Container::default()
    }];
}

#[test]
fn every_column_is_filled_somewhere() {
    let mut empty: BTreeSet<String> = BTreeSet::new();
    // No recording here has exchanges within others: `tests/requests.rs` has them.
    let tables = [Table::Exchanges];
    let columns = |table: Table| {
        table.schema().fields().iter().map(|field| format!("{table}.{}", field.name())).collect::<Vec<_>>()
    };
    empty.extend(tables.into_iter().flat_map(columns));
    for mut recording in recordings() {
        in_a_container(&mut recording);
        let written = Written::of(&recording, &tables);
        for table in tables {
            let rows = written.all(table);
            for (name, column) in columns(table).iter().zip(rows.columns()) {
                if column.null_count() < column.len() {
                    empty.remove(name);
                }
            }
        }
    }
    assert!(empty.is_empty(), "{empty:?}");
}

/// Flushes after every piece, as `--follow` does.
struct Flushed<E>(E);

impl<E: Export> Export for Flushed<E> {
    fn piece(&mut self, piece: &Piece<'_>) -> Result<(), ExportError> {
        self.0.piece(piece)?;
        self.0.flush()
    }

    fn finish(&mut self) -> Result<Exported, ExportError> {
        self.0.finish()
    }
}

#[test]
fn neither_a_flush_nor_a_filter_of_journeys_changes_exchanges() {
    let recording = golden("half");
    let at_once = Written::of(&recording, &[Table::Exchanges]).all(Table::Exchanges);
    let mut flushed = Written::default();
    let filter = Some("bytes > 1000000".parse::<Filter>().expect("a filter"));
    let chosen = Chosen { tables: vec![Table::Exchanges], filter };
    let infos = std::slice::from_ref(&recording.info);
    recording.export(&mut Flushed(Tables::new(infos, LINE, chosen, &mut flushed)));
    let flushed = flushed.all(Table::Exchanges);
    for name in ["exchange", "ts_ns", "end_ns", "total_ns", "request_bytes", "response_bytes"] {
        assert_eq!(numbers(&at_once, name), numbers(&flushed, name), "{name}");
    }
    assert_eq!(names(&at_once, "grade"), names(&flushed, "grade"));
    assert!(at_once.num_rows() > 1);
}

/// A log and a trace of the recording.
fn streams(recording: &Recording) -> [String; 2] {
    let (files, infos) = (Files::default(), std::slice::from_ref(&recording.info));
    let marks = || Marks::new(infos, LINE, Chosen::default()).with_requests();
    let log = NetLogger::new(files.create("log"), Dialect::Ulm, infos);
    recording.export(&mut Marked::new(marks(), log));
    recording.export(&mut Marked::new(marks(), Chrome::new(files.create("trace"))));
    ["log", "trace"].map(|name| String::from_utf8(files.bytes(name)).expect("text"))
}

/// What the spans of a stream are called, and their durations in nanoseconds.
type SpanTimes = BTreeMap<String, i64>;

#[test]
fn every_turn_is_a_request_and_an_answer_in_logs_and_traces() {
    let recording = golden("demo");
    let rows = Written::of(&recording, &[Table::Exchanges]).all(Table::Exchanges);
    let ids = numbers(&rows, "exchange");
    let mut expected = SpanTimes::new();
    for (name, column) in [("request", "total_ns"), ("answer", "answer_ns")] {
        let times = ids.iter().zip(numbers(&rows, column));
        expected.extend(times.filter_map(|(id, ns)| Some((format!("{name} {}", (*id)?), ns?))));
    }
    assert!(expected.len() > 200, "{} spans", expected.len());
    let [log, trace] = streams(&recording);

    let (mut begins, mut in_log) = (BTreeMap::new(), SpanTimes::new());
    for line in log.lines().map(|line| parse(line).expect("a line")) {
        let Some((name, moment)) = line.event.split_once('.') else { continue };
        let Some(number) = line.get(&["ID"]).and_then(|id| id.strip_prefix("request-")) else { continue };
        let span = format!("{name} {number}");
        if moment == "begin" {
            begins.insert(span, line.ns);
        } else {
            assert_eq!(line.number::<i64>(&["MAG.LAT"]), Some(line.ns - begins[&span]), "{span}");
            in_log.insert(span.clone(), line.ns - begins[&span]);
        }
    }
    assert_eq!(in_log, expected);

    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    let spans =
        trace["traceEvents"].as_array().expect("events").iter().filter(|event| event["cat"] == "request");
    let span = |event: &Value| {
        let us = event["dur"].as_f64().expect("a duration");
        (event["name"].as_str().expect("a name").to_owned(), (us * 1_000.0).round() as i64)
    };
    assert_eq!(spans.map(span).collect::<SpanTimes>(), expected);
}
