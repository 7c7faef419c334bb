//! Every format that can be imported, over every golden recording: what comes back says what the original says, or the program names the
//! difference.

use crate::common::exports::{GOLDEN, golden};
use crate::common::{run, stderr, stdout};
use magscope_core::Hop;
use magscope_export::format::importable::{Detail, Importable};
use magscope_scope::format::count;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Recordings that are read as those of two hosts.
const PAIRS: [[&str; 2]; 3] = [["demo", "half"], ["drops", "lost"], ["retransmissions", "damaged"]];
/// Hops of which a log never has a line.
const NO_LINES: [&str; 6] =
    ["sock.full", "sched.switch", "sched.wakeup", "sched.fork", "sched.exit", "sched.switched"];

/// Runs the program; what it wrote to stdout and to stderr.
fn ran(arguments: &[&str]) -> (String, String) {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    (stdout(&output), stderr(&output))
}

fn report(dirs: &[String]) -> Value {
    let mut arguments = vec!["report", "--json"];
    arguments.extend(dirs.iter().map(String::as_str));
    serde_json::from_str(&ran(&arguments).0).expect("a report")
}

fn array(of: &Value) -> impl Iterator<Item = &Value> {
    of.as_array().into_iter().flatten()
}

fn text<'v>(of: &'v Value, key: &str) -> &'v str {
    of[key].as_str().unwrap_or_default()
}

/// Times of a row: what it has of latencies, if anything.
fn times(of: &Value) -> Option<Value> {
    let has = !of["latency"].is_null() || array(&of["protocols"]).next().is_some();
    has.then(|| json!([of["latency"], of["protocols"]]))
}

/// All of a report but counts of events, names of flows in this recording, and the time line.
fn story(report: &Value) -> Value {
    let mut hops = Map::new();
    for hop in array(&report["hops"]) {
        let name = text(hop, "hop");
        hops.extend(times(hop).map(|times| (name.to_owned(), times)));
    }
    let flows = array(&report["flows"]).map(|flow| {
        let mut flow = flow.clone();
        let row = flow.as_object_mut().expect("a flow");
        row.retain(|key, _| !key.ends_with("_per_s") && key != "id");
        (format!("{} {} {}", text(&flow, "proto"), text(&flow, "from"), text(&flow, "to")), flow)
    });
    let flows: Map<String, Value> = flows.collect();
    json!({
        "hops": hops,
        "flows": flows,
        "verdicts": report["verdicts"],
        "blame": report["blame"],
        "denominator": report["denominator"],
        "losses": report["losses"],
    })
}

/// A recording: its report and its journeys.
struct Recording {
    report: Value,
    journeys: Value,
}

impl Recording {
    fn of(dirs: &[String]) -> Self {
        let mut arguments = vec!["journeys", "--json", "--slowest", "100000"];
        arguments.extend(dirs.iter().map(String::as_str));
        let journeys = serde_json::from_str(&ran(&arguments).0).expect("journeys");
        Recording { report: report(dirs), journeys }
    }

    /// How many it has of a detail that a format may be unable to say.
    fn count(&self, detail: Detail, hosts: usize) -> u64 {
        let hops = |key: &'static str| {
            // Samples of TCP's state are no events of the table.
            let rows = array(&self.report["hops"]).filter(|row| text(row, "hop") != "tcp.state");
            rows.filter_map(move |row| row[key].as_u64()).sum()
        };
        let has_socket_hop = |journey: &&Value| {
            array(&journey["rungs"])
                .any(|rung| ["app.send", "tcp.send", "udp.send"].contains(&text(rung, "hop")))
        };
        match detail {
            Detail::EventsOfNoJourney => hops("events"),
            Detail::BytesOfNoJourney => hops("bytes"),
            Detail::HostsOfLosses if hosts > 1 => self.report["losses"]["stretches"].as_u64().unwrap_or(0),
            Detail::HostsOfLosses => 0,
            Detail::SendersOfPackets => {
                let named = array(&self.journeys).filter(|journey| !text(journey, "sender").is_empty());
                named.filter(|journey| !has_socket_hop(journey)).count() as u64
            }
            Detail::DroppedCopies => {
                let copies = array(&self.journeys).flat_map(|journey| array(&journey["copies"]));
                copies.filter(|copy| copy["dropped_ns"].is_u64()).count() as u64
            }
        }
    }
}

/// That each detail of a recording came back, or that the program named it with its number. Returns the details that the recording
/// has.
fn carried_or_named(
    format: Importable,
    (was, is): (&Recording, &Recording),
    hosts: usize,
    said: &str,
    of: &str,
) -> BTreeMap<&'static str, u64> {
    let each = Detail::ALL.into_iter().map(|detail| {
        let words = detail.words();
        let before = was.count(detail, hosts);
        // A recording has its losses without a host.
        let after = if detail == Detail::HostsOfLosses { 0 } else { is.count(detail, 1) };
        let added = if detail == Detail::EventsOfNoJourney { added_wakes(said) } else { 0 };
        let lacks = before + added - after;
        let named = said.contains(&format!(": {} {words}", count(lacks)));
        let of_all = !format.without().is_empty() && said.contains(format.without());
        if format.lacks().contains(&detail) {
            assert!(lacks == 0 || named || of_all, "{of}: {lacks} {words} is not said: {said}");
        } else {
            assert_eq!(lacks, 0, "{of}: {words}: {before} became {after}");
        }
        (words, before)
    });
    each.collect()
}

/// Where two values differ.
fn differences(was: &Value, is: &Value, path: &str, out: &mut Vec<String>) {
    match (was, is) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                differences(&was[key.as_str()], &is[key.as_str()], &format!("{path}.{key}"), out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(n, (a, b))| differences(a, b, &format!("{path}[{n}]"), out));
        }
        _ if was != is => out.push(format!("{path}: {was} became {is}")),
        _ => {}
    }
}

/// The times of places. A report has none where all events of a hop were at one, so both need to have them.
fn same_places(was: &Value, is: &Value, of: &str) {
    let places = |report: &Value| {
        let hops = array(&report["hops"]).flat_map(|hop| array(&hop["nodes"]).map(move |node| (hop, node)));
        let of =
            |(hop, node)| Some(((text(hop, "hop").to_owned(), text(node, "node").to_owned()), times(node)?));
        hops.filter_map(of).collect::<BTreeMap<_, _>>()
    };
    let is = places(is);
    for (place, times) in places(was) {
        assert_eq!(is.get(&place).unwrap_or(&times), &times, "{of}: {place:?}");
    }
}

/// That two stories are one. Where losses of one host count for all of several, what ended near them may have ended otherwise.
fn same(was: &Value, is: &Value, imported: &str, of: &str) {
    let mut all = Vec::new();
    differences(was, is, "", &mut all);
    let near_losses = [".verdicts", ".denominator.left_out"];
    if imported.contains("on every host") {
        all.retain(|difference| !near_losses.iter().any(|start| difference.starts_with(start)));
    }
    assert!(all.is_empty(), "{of}: {} differences, {:#?}", all.len(), &all[..all.len().min(12)]);
}

/// Events or bytes by hop.
fn by_hop(report: &Value, key: &str) -> BTreeMap<String, u64> {
    let of = |hop: &Value| Some((text(hop, "hop").to_owned(), hop[key].as_u64().filter(|n| *n > 0)?));
    array(&report["hops"]).filter_map(of).collect()
}

fn events(report: &Value) -> BTreeMap<String, u64> {
    by_hop(report, "events")
}

/// Events or bytes without a line, by hop, as the export says.
fn named(detail: Detail, said: &str) -> BTreeMap<String, u64> {
    let line = said.lines().find_map(|line| line.split_once(&format!("{}: ", detail.words())));
    let hops = line.into_iter().flat_map(|(_, hops)| hops.split(", "));
    hops.map(|hop| hop.split_once(' ').expect("a hop and a number"))
        .map(|(hop, n)| (hop.to_owned(), n.parse().expect("a number")))
        .collect()
}

/// Wake-ups that the import made, as it says.
fn added_wakes(said: &str) -> u64 {
    let number = said.lines().find_map(|line| line.split_once(" wake-ups were added")).map(|(n, _)| n);
    let digits = |n: &str| n.rsplit(": ").next().unwrap_or_default().replace(' ', "").parse();
    number.map_or(0, |n| digits(n).expect("a number"))
}

/// A log in one of the two dialects.
fn log_comes_back(
    format: Importable,
    dialect: &str,
    dirs: &[String],
    dir: &Path,
) -> BTreeMap<&'static str, u64> {
    let of = format!("{dialect} of {dirs:?}");
    let (log, back) = (dir.join("log"), dir.join("back"));
    let [log, back] = [&log, &back].map(|path| path.to_string_lossy().into_owned());
    let mut arguments = vec!["export", "--format", dialect, "-o", &log];
    arguments.extend(dirs.iter().map(String::as_str));
    let (_, said) = ran(&arguments);
    let (_, imported) = ran(&["import", &log, "-o", &back]);
    let (original, back) = (Recording::of(dirs), Recording::of(&[back]));
    let (was, is) = (&original.report, &back.report);
    same(&story(was), &story(is), &imported, &of);
    same_places(was, is, &of);
    let bytes = named(Detail::BytesOfNoJourney, &said);
    let is_bytes = by_hop(is, "bytes");
    for (hop, n) in by_hop(was, "bytes") {
        let of_hop = |of: &BTreeMap<String, u64>| of.get(&hop).copied().unwrap_or(0);
        assert_eq!(n, of_hop(&is_bytes) + of_hop(&bytes), "{of}: bytes of {hop}: {said}{imported}");
    }
    let (named, is_events) = (named(Detail::EventsOfNoJourney, &said), events(is));
    for (hop, n) in events(was) {
        let left = named.get(&hop).copied().unwrap_or(0);
        let added = if hop == "task.wake" { added_wakes(&imported) } else { 0 };
        let here = is_events.get(&hop).copied().unwrap_or(0);
        assert_eq!(n + added, here + left, "{of}: events of {hop}: {said}{imported}");
    }
    assert!(is_events.keys().all(|hop| events(was).contains_key(hop)), "{of}");
    // What the kernel discarded: drops, and packets of a socket that closed.
    let discarded = |report: &Value| -> u64 {
        ["dropped", "cleaned_up"].iter().map(|key| report["drops"][*key].as_u64().expect("a number")).sum()
    };
    let left = named.get("skb.drop").copied().unwrap_or(0);
    assert_eq!(discarded(was), discarded(is) + left, "{of}: drops");
    // A hop that was served is not said to be missing.
    let missing = |report: &Value| {
        let hops = array(&report["missing"]).map(|row| text(row, "hop").to_owned());
        hops.filter(|hop| !NO_LINES.contains(&hop.as_str())).collect::<BTreeSet<_>>()
    };
    assert_eq!(missing(was), missing(is), "{of}");
    if let [_] = dirs {
        assert_eq!(was["kernel"], is["kernel"], "{of}");
    }
    carried_or_named(format, (&original, &back), dirs.len(), &(said + &imported), &of)
}

/// A trace as `MAGNeT` of 2001 wrote it on a 64-bit machine whose clock counts nanoseconds.
fn trace_comes_back(dirs: &[String], dir: &Path) -> BTreeMap<&'static str, u64> {
    let of = format!("trace of {dirs:?}");
    let mut arguments = vec!["export", "--format", "jsonl", "--tables", "events", "-o", "-"];
    arguments.extend(dirs.iter().map(String::as_str));
    let rows = ran(&arguments).0;
    let mut bytes = Vec::new();
    let mut put = |id: u64, cycles: u64, event: u32, size: u32| {
        bytes.extend(id.to_le_bytes());
        bytes.extend(cycles.to_le_bytes());
        bytes.extend(event.to_le_bytes());
        bytes.extend(size.to_le_bytes());
    };
    put(0, 1, 0x0123_4567, 1_000_000);
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).expect("an object");
        let hop: Hop = text(&row, "hop").parse().expect("a hop");
        let number = |key: &str| row[key].as_u64().unwrap_or(0);
        put(0xffff_8880_0000_0001, number("ts_ns"), hop as u32 + 1, number("len") as u32);
    }
    let (trace, back) = (dir.join("trace"), dir.join("back"));
    fs::write(&trace, &bytes).expect("room");
    let [trace, back] = [&trace, &back].map(|path| path.to_string_lossy().into_owned());
    let maps: Vec<String> = Hop::ALL.iter().map(|hop| format!("{}={hop}", *hop as u32 + 1)).collect();
    let mut arguments = vec!["import", &trace, "-o", &back];
    arguments.extend(maps.iter().flat_map(|map| ["--map", map]));
    let (_, said) = ran(&arguments);
    let (original, back) = (Recording::of(dirs), Recording::of(&[back]));
    let (was, is) = (&original.report, &back.report);
    let mut expected = events(was);
    // Samples of TCP's state are in a table of their own and have no row of `events`.
    expected.remove("tcp.state");
    assert_eq!(expected, events(is), "{of}");
    assert_eq!(by_hop(was, "bytes"), by_hop(is, "bytes"), "{of}");
    assert_eq!(is["denominator"]["journeys"], 0, "{of}");
    assert!(said.contains(Importable::Trace.without()), "{of}: {said}");
    carried_or_named(Importable::Trace, (&original, &back), dirs.len(), &said, &of)
}

#[test]
fn what_is_imported_says_what_was_exported_or_the_difference_is_named() {
    let singles = GOLDEN.iter().map(|name| vec![golden(name)]);
    let recordings: Vec<Vec<String>> =
        singles.chain(PAIRS.iter().map(|pair| pair.map(golden).to_vec())).collect();
    for format in Importable::ALL {
        let mut has = BTreeMap::new();
        for dirs in &recordings {
            let dir = TempDir::new().expect("a directory");
            let details = match format {
                Importable::Ulm => log_comes_back(format, "ulm", dirs, dir.path()),
                Importable::Bp => log_comes_back(format, "bp", dirs, dir.path()),
                Importable::Trace => trace_comes_back(dirs, dir.path()),
            };
            for (detail, n) in details {
                *has.entry(detail).or_default() += n;
            }
        }
        // The recordings have each detail, so that it was looked for.
        assert!(has.values().all(|n: &u64| *n > 0), "{has:?}");
    }
}
