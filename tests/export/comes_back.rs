//! Every format that can be imported, over every golden recording: what comes back says what the original says, or the program names the
//! difference.

use crate::common::exports::{GOLDEN, golden};
use crate::common::{run, stderr, stdout};
use crate::export::marks;
use magscope_core::{Direction, Hop, Verdict};
use magscope_export::format::importable::{Importable, Omission};
use magscope_scope::format::count;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Recordings that are read as those of two hosts.
const PAIRS: [[&str; 2]; 3] = [["demo", "half"], ["drops", "lost"], ["retransmissions", "damaged"]];
/// Hops of which a log never has a line.
const NO_LINES: [&str; 12] = [
    "tcp.challenge_ack",
    "sock.full",
    "sock.destroy",
    "sched.switch",
    "sched.wakeup",
    "sched.fork",
    "sched.exit",
    "sched.switched",
    "tcp.send_reset",
    "tcp.recv_reset",
    "tcp.open",
    "tcp.synack",
];

/// Verdicts that none of the recordings has: they need more journeys in flight than 262,144, or a newer hop.
const NOT_MADE: [&str; 3] = ["evicted", "discarded", "delivered"];

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
        let ends = ["proto", "from", "to", "from_node", "to_node"].map(|key| text(&flow, key).to_owned());
        (ends.join(" "), flow)
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

    fn copies(&self) -> impl Iterator<Item = &Value> {
        array(&self.journeys).flat_map(|journey| array(&journey["copies"]))
    }

    /// Number of threads that have several names.
    fn renamed(&self) -> u64 {
        let mut names: BTreeMap<(&str, u64), BTreeSet<&str>> = BTreeMap::new();
        for journey in array(&self.journeys) {
            for rung in array(&journey["rungs"]).filter(|rung| rung["tid"] != 0) {
                let hop: Hop = text(rung, "hop").parse().expect("a hop");
                let (node, name) = if hop.direction() == Direction::Rx {
                    ("to_node", "reader")
                } else {
                    ("from_node", "sender")
                };
                let tid = rung["tid"].as_u64().expect("a number");
                names.entry((text(journey, node), tid)).or_default().insert(text(journey, name));
            }
        }
        names.values().filter(|names| names.iter().filter(|name| !name.is_empty()).count() > 1).count() as u64
    }

    /// How many it has of what a format may be unable to say.
    fn count(&self, omission: Omission, hosts: usize) -> u64 {
        let hops = |key: &'static str| {
            // Samples of TCP's state are no events of the table.
            let rows = array(&self.report["hops"]).filter(|row| text(row, "hop") != "tcp.state");
            rows.filter_map(move |row| row[key].as_u64()).sum()
        };
        let has_socket_hop = |journey: &&Value| {
            array(&journey["rungs"])
                .any(|rung| ["app.send", "tcp.send", "udp.send"].contains(&text(rung, "hop")))
        };
        match omission {
            Omission::EventsOfNoJourney => hops("events"),
            Omission::BytesOfNoJourney => hops("bytes"),
            Omission::HostsOfLosses if hosts > 1 => self.report["losses"]["stretches"].as_u64().unwrap_or(0),
            Omission::HostsOfLosses => 0,
            Omission::SendersOfPackets => {
                let named = array(&self.journeys).filter(|journey| !text(journey, "sender").is_empty());
                named.filter(|journey| !has_socket_hop(journey)).count() as u64
            }
            Omission::DroppedCopies => self.copies().filter(|copy| copy["dropped_ns"].is_u64()).count() as u64,
            Omission::CopiesLeftOut => {
                array(&self.journeys).filter_map(|journey| journey["copies_left_out"].as_u64()).sum()
            }
            Omission::InterfacesOfDrops => {
                let drops = array(&self.journeys).chain(self.copies());
                drops.filter(|drop| drop["drop_interface"].is_string()).count() as u64
            }
            Omission::ReceiveWindows => {
                let waits = |journey: &&Value| journey["receive_window_ns"].as_u64() > Some(0);
                array(&self.journeys).filter(waits).count() as u64
            }
            Omission::Ambiguous => {
                let all = array(&self.journeys).chain(self.copies());
                all.filter(|one| one["ambiguous"] == true).count() as u64
            }
            Omission::NamesOfThreads => self.renamed(),
            Omission::LeftOutVerdicts => {
                let verdicts = array(&self.journeys).map(|journey| text(journey, "verdict"));
                verdicts.filter(|verdict| ["filtered", "evicted"].contains(verdict)).count() as u64
            }
        }
    }
}

/// That each detail of a recording came back, or that the program named it with its number. Returns the
/// details that the recording has.
fn carried_or_named(
    format: Importable,
    (was, is): (&Recording, &Recording),
    hosts: usize,
    messages: &str,
    of: &str,
) -> BTreeMap<&'static str, u64> {
    let each = Omission::ALL.into_iter().map(|omission| {
        let words = omission.words();
        let before = was.count(omission, hosts);
        // A recording has its losses without a host.
        let after = if omission == Omission::HostsOfLosses { 0 } else { is.count(omission, 1) };
        let added = if omission == Omission::EventsOfNoJourney { added_wakes(messages) } else { 0 };
        let lacks = before + added - after;
        let named = messages.contains(&format!(": {} {words}", count(lacks)));
        let of_all = !format.without().is_empty() && messages.contains(format.without());
        if format.lacks().contains(&omission) {
            assert!(lacks == 0 || named || of_all, "{of}: {lacks} {words} is not said: {messages}");
        } else {
            assert_eq!(lacks, 0, "{of}: {words}: {before} became {after}");
        }
        (words, before)
    });
    each.collect()
}

/// A journey without numbers of its recording: those of flows and journeys, and the instant at which it began.
fn story_of_journey(journey: &Value, messages: &str) -> String {
    let mut journey = journey.clone();
    let start_ns = journey["start_ns"].as_i64().unwrap_or(0);
    let since_start = |of: &mut Value, key: &str| {
        if let Some(ns) = of[key].as_i64() {
            of[key] = (ns - start_ns).into();
        }
    };
    for list in ["rungs", "copies", "probes", "heads"] {
        for row in journey[list].as_array_mut().into_iter().flatten() {
            for key in ["time_ns", "retransmit_ns", "dropped_ns"] {
                since_start(row, key);
            }
            if messages.contains("threads have other numbers") {
                row["tid"] = Value::Null;
            }
        }
    }
    if let Some(gap) = journey["gap"].as_object_mut() {
        let at = |key: &str| gap[key].as_i64().expect("an instant");
        let span_ns = at("to_ns") - at("from_ns");
        gap.retain(|key, _| !key.ends_with("_ns"));
        gap.insert("span_ns".to_owned(), span_ns.into());
    }
    let mut left_out = vec!["id", "tx_flow", "rx_flow", "start_ns", "start_utc"];
    // What the program names as different.
    let named: [(&str, &[&str]); 5] = [
        (Omission::HostsOfLosses.words(), &["verdict", "verdict_text", "gap"]),
        (Omission::LeftOutVerdicts.words(), &["verdict", "verdict_text"]),
        (Omission::NamesOfThreads.words(), &["sender", "reader"]),
        (Omission::ReceiveWindows.words(), &["receive_window_ns"]),
        (Omission::CopiesLeftOut.words(), &["copies", "copies_left_out", "retransmits", "rungs", "latencies"]),
    ];
    left_out.extend(named.iter().filter(|(words, _)| messages.contains(words)).flat_map(|(_, keys)| *keys));
    let row = journey.as_object_mut().expect("a journey");
    row.retain(|key, _| !left_out.contains(&key.as_str()));
    journey.to_string()
}

/// That each journey came back with every mark of it: all keys of its row, but for those of its recording.
fn same_journeys(was: &Value, is: &Value, messages: &str, of: &str) {
    let stories = |journeys: &Value| {
        let mut all: Vec<String> = array(journeys).map(|journey| story_of_journey(journey, messages)).collect();
        all.sort_unstable();
        all
    };
    let (was, is) = (stories(was), stories(is));
    let other = was.iter().zip(&is).find(|(was, is)| was != is);
    assert!(was == is, "{of}: {} journeys were {}; first other {other:#?}", is.len(), was.len());
}

/// Each loss with its own begin and end.
fn losses(dirs: &[String]) -> Vec<String> {
    let mut arguments = vec!["export", "--format", "jsonl", "--tables", "losses", "-o", "-"];
    arguments.extend(dirs.iter().map(String::as_str));
    let rows = ran(&arguments).0;
    let loss = |row: &str| {
        let row: Value = serde_json::from_str(row).expect("an object");
        let at = |key: &str| row[key].as_u64().expect("an instant");
        format!(
            "{} for {} ns, {} {} {}",
            at("ts_ns"),
            at("to_ns") - at("ts_ns"),
            row["cpu"],
            row["lost"],
            row["cause"]
        )
    };
    let mut all: Vec<String> = rows.lines().map(loss).collect();
    all.sort_unstable();
    all
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
fn same(was: &Value, is: &Value, messages: &str, of: &str) {
    let mut all = Vec::new();
    differences(was, is, "", &mut all);
    let near_losses = [".verdicts", ".denominator.left_out"];
    let may_differ: [(Omission, &[&str]); 4] = [
        (Omission::HostsOfLosses, &near_losses),
        (Omission::LeftOutVerdicts, &near_losses),
        (Omission::CopiesLeftOut, &[".verdicts", ".flows", ".blame"]),
        (Omission::ReceiveWindows, &[".blame"]),
    ];
    for (_, starts) in may_differ.iter().filter(|(omission, _)| messages.contains(omission.words())) {
        all.retain(|difference| !starts.iter().any(|start| difference.starts_with(start)));
    }
    if messages.contains(Omission::NamesOfThreads.words()) {
        all.retain(|difference| ![".sender: ", ".reader: "].iter().any(|key| difference.contains(key)));
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
fn named(omission: Omission, messages: &str) -> BTreeMap<String, u64> {
    let line = messages.lines().find_map(|line| line.split_once(&format!("{}: ", omission.words())));
    let hops = line.into_iter().flat_map(|(_, hops)| hops.split(", "));
    hops.map(|hop| hop.split_once(' ').expect("a hop and a number"))
        .map(|(hop, n)| (hop.to_owned(), n.parse().expect("a number")))
        .collect()
}

/// Wake-ups that the import made, as it says.
fn added_wakes(messages: &str) -> u64 {
    let number = messages.lines().find_map(|line| line.split_once(" wake-ups were added")).map(|(n, _)| n);
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
    let (_, messages) = ran(&arguments);
    let (_, imported) = ran(&["import", &log, "-o", &back]);
    let back_dir = back.clone();
    let (original, back) = (Recording::of(dirs), Recording::of(&[back]));
    let (was, is) = (&original.report, &back.report);
    same(&story(was), &story(is), &(messages.clone() + &imported), &of);
    same_places(was, is, &of);
    let bytes = named(Omission::BytesOfNoJourney, &messages);
    let is_bytes = by_hop(is, "bytes");
    for (hop, n) in by_hop(was, "bytes") {
        let of_hop = |of: &BTreeMap<String, u64>| of.get(&hop).copied().unwrap_or(0);
        assert_eq!(n, of_hop(&is_bytes) + of_hop(&bytes), "{of}: bytes of {hop}: {messages}{imported}");
    }
    let (named, is_events) = (named(Omission::EventsOfNoJourney, &messages), events(is));
    for (hop, n) in events(was) {
        let left = named.get(&hop).copied().unwrap_or(0);
        let added = if hop == "task.wake" { added_wakes(&imported) } else { 0 };
        let here = is_events.get(&hop).copied().unwrap_or(0);
        assert_eq!(n + added, here + left, "{of}: events of {hop}: {messages}{imported}");
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
    let messages = messages + &imported;
    same_journeys(&original.journeys, &back.journeys, &messages, &of);
    assert_eq!(losses(dirs), losses(&[back_dir]), "{of}: losses");
    carried_or_named(format, (&original, &back), dirs.len(), &messages, &of)
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
        put(0xffff_8880_0000_0001, number("ts_ns"), u32::from(hop.id()) + 1, number("len") as u32);
    }
    let (trace, back) = (dir.join("trace"), dir.join("back"));
    fs::write(&trace, &bytes).expect("room");
    let [trace, back] = [&trace, &back].map(|path| path.to_string_lossy().into_owned());
    let maps: Vec<String> = Hop::ALL.iter().map(|hop| format!("{}={hop}", u32::from(hop.id()) + 1)).collect();
    let mut arguments = vec!["import", &trace, "-o", &back];
    arguments.extend(maps.iter().flat_map(|map| ["--map", map]));
    let (_, messages) = ran(&arguments);
    let (original, back) = (Recording::of(dirs), Recording::of(&[back]));
    let (was, is) = (&original.report, &back.report);
    let mut expected = events(was);
    // Samples of TCP's state are in a table of their own and have no row of `events`.
    expected.remove("tcp.state");
    assert_eq!(expected, events(is), "{of}");
    assert_eq!(by_hop(was, "bytes"), by_hop(is, "bytes"), "{of}");
    assert_eq!(is["denominator"]["journeys"], 0, "{of}");
    assert!(messages.contains(Importable::Trace.without()), "{of}: {messages}");
    carried_or_named(Importable::Trace, (&original, &back), dirs.len(), &messages, &of)
}

#[test]
fn what_is_imported_says_what_was_exported_or_the_difference_is_named() {
    let made = TempDir::new().expect("a directory");
    let made = marks::recordings(made.path());
    let singles = GOLDEN.iter().map(|name| vec![golden(name)]).chain(made.iter().map(|dir| vec![dir.clone()]));
    let recordings: Vec<Vec<String>> =
        singles.chain(PAIRS.iter().map(|pair| pair.map(golden).to_vec())).collect();
    let verdicts: BTreeSet<&str> = Verdict::NAMES.into_iter().filter(|name| !NOT_MADE.contains(name)).collect();
    let journeys: Vec<Value> = recordings.iter().map(|dirs| Recording::of(dirs).journeys).collect();
    let seen = journeys.iter().flat_map(array).map(|journey| text(journey, "verdict")).collect();
    assert!(verdicts.is_subset(&seen), "no recording has {:?}", verdicts.difference(&seen));
    for format in Importable::ALL {
        let mut has = BTreeMap::new();
        for dirs in &recordings {
            let dir = TempDir::new().expect("a directory");
            let omissions = match format {
                Importable::Ulm => log_comes_back(format, "ulm", dirs, dir.path()),
                Importable::Bp => log_comes_back(format, "bp", dirs, dir.path()),
                Importable::Trace => trace_comes_back(dirs, dir.path()),
            };
            for (omission, n) in omissions {
                *has.entry(omission).or_default() += n;
            }
        }
        // The recordings have each detail, so that it was looked for.
        assert!(has.values().all(|n: &u64| *n > 0), "{has:?}");
    }
}
