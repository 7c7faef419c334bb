//! `magnet-scope import FILE -o DIR`: converts a log of another tool to a recording.
//!
//! Supported are `NetLogger`'s ULM and BP lines (including this program's) and binary traces of `MAGNeT`. A
//! recording starts with its host's description, so a log is read twice: for its names, then for its events.

mod recording;

use crate::failure::{Cancelled, Hint};
use crate::output;
use crate::signals::Stop;
use anyhow::{Context, Result};
use magscope_core::journey::Across;
use magscope_core::node::{Backend, Coverage, HopService, MergedHosts, NodeInfo, Service};
use magscope_core::{Batch, Event, Hop};
use magscope_export::format::importable::{Importable, Omission};
use magscope_export::format::magnet::Trace;
use magscope_export::format::netlogger::{Events, parse};
use magscope_scope::format::{count, duration};
use recording::Recording;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What an import does with lines of forwarders, as the user reads it after a number.
const FORWARDED: &str =
    "lines are of forwarders between the ends and were left out: reports have their time as that of the wire";

/// What an import makes of datagrams whose receivers nothing joins, as the user reads it after a number of lines.
const UNIDENTIFIED: &str =
    "lines are of datagrams to groups without an identification: each receiver has a datagram of its own";

/// Maximum number of bad lines shown.
const SHOWN: u64 = 5;
/// Maximum number of event names listed.
const LISTED: usize = 10;
/// Events per batch of a binary trace.
const BATCH: usize = 64 << 10;
/// Maximum size of a binary trace, which is read into memory, bytes.
const MOST_BYTES: u64 = 2 << 30;
/// Maximum length of a line, bytes.
const LONGEST_LINE: u64 = 64 << 10;

/// Arguments of `import`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Events of another tool are no hops; --map gives the hop of each. Events with one ID are one datagram, so \
    the hops of packets, ip.out to ip.in, make journeys of it:\n  \
    magnet-scope import gridftp.log -o log.session --map FTP_START=ip.out --map FTP_END=ip.in"
)]
pub struct Args {
    /// The log: ULM or BP lines, or a binary `MAGNeT` trace
    file: PathBuf,
    /// Directory of the recording; must not exist, or be empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Hop of an event; for a binary trace the number of the event
    #[arg(long, value_name = "EVENT=HOP", value_parser = mapping)]
    map: Vec<(String, Hop)>,
    /// Maximum clock difference of a log's hosts, if its lines do not have it: `10ms`
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::parse)]
    clock_bound: Option<Duration>,
    /// Clock rate of a binary trace that does not contain it
    #[arg(long, value_name = "KHZ", value_parser = clap::value_parser!(u32).range(1..))]
    khz: Option<u32>,
}

fn mapping(text: &str) -> Result<(String, Hop), String> {
    let (event, hop) = text.rsplit_once('=').ok_or("write it as EVENT=HOP")?;
    hop.parse()
        .map(|hop| (event.to_owned(), hop))
        .map_err(|error: magscope_core::hop::UnknownHop| error.to_string())
}

/// Makes the recording.
pub fn run(args: &Args) -> Result<()> {
    let mut file = File::open(&args.file).with_context(|| unreadable(&args.file))?;
    let mut begin = Vec::new();
    file.by_ref().take(4_096).read_to_end(&mut begin).with_context(|| unreadable(&args.file))?;
    let stop = Stop::on_signals()?;
    let format = Importable::of(&begin);
    match format {
        Importable::Ulm | Importable::Bp => lines(args, &stop)?,
        Importable::Trace => binary(args, &stop)?,
    }
    if !format.without().is_empty() {
        output::note(format.without());
    }
    Ok(())
}

fn unreadable(path: &Path) -> Hint {
    Hint::new(
        format!("cannot read {}", path.display()),
        "it does not exist, or may not be read",
        "look at its name and permissions",
    )
}

/// Lines that were not understood.
#[derive(Default)]
struct BadLines {
    lines: u64,
}

impl BadLines {
    fn report(&mut self, path: &Path, number: u64, why: &dyn std::fmt::Display) {
        self.lines += 1;
        if self.lines <= SHOWN {
            output::note(&format!("{}, line {number}: {why}", path.display()));
        }
    }
}

fn lines(args: &Args, stop: &Stop) -> Result<()> {
    let path = &args.file;
    let mut first = Events::new(args.map.clone());
    let mut bad = BadLines::default();
    each_line(path, stop, |number, line| {
        match line.map_err(|()| "it is too long".to_owned()).and_then(|l| parse(l).map_err(|e| e.to_string())) {
            Ok(line) => first.line(&line),
            Err(why) => bad.report(path, number, &why),
        }
        // The first pass needs only names.
        if first.is_full() {
            first.take(true);
        }
        Ok(())
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if first.taken == 0 {
        let next = if first.unknown.is_empty() {
            "ULM lines begin with DATE=, BP lines with ts=".to_owned()
        } else {
            format!(
                "give the hop of its events: --map {}=ip.out",
                first.unknown.keys().next().map_or("EVENT", |e| e)
            )
        };
        return Err(Hint::error(
            format!("nothing in {} can be imported", path.display()),
            "none of its events is a hop",
            next,
        ));
    }
    let mut info = first.info(&name);
    if let Some(several) = &mut info.several {
        clocks(several, args.clock_bound);
    }
    let mut recorder = Recording::create(&args.output, &info)?;
    let mut events = Events::new(args.map.clone());
    each_line(path, stop, |_, line| {
        if let Ok(Ok(line)) = line.map(parse) {
            events.line(&line);
        }
        if events.is_full() {
            recorder.append(&events.take(false))?;
        }
        Ok(())
    })?;
    recorder.append(&events.take(true))?;
    finish(args, recorder)?;
    if bad.lines > 0 {
        output::note(&format!("{} lines were not understood", count(bad.lines)));
    }
    if events.unnamed > 0 {
        let what =
            "events have no ID: nothing shows which are of one datagram, so each is a datagram of its own";
        output::note(&format!("{} {what}", count(events.unnamed)));
    }
    if events.unplaced > 0 {
        let what = "events of TCP have neither an ID nor the place of their bytes, so a journey may be of several messages";
        output::note(&format!("{} {what}", count(events.unplaced)));
    }
    if events.added_wakes() > 0 {
        let what = "wake-ups were added: a reader ran, and the log has no line of what had woken it";
        output::note(&format!("{} {what}", count(events.added_wakes())));
    }
    if events.shared_losses() > 0 {
        output::note(&format!("{} {}", count(events.shared_losses()), Omission::HostsOfLosses.words()));
    }
    if events.forwarded > 0 {
        output::note(&format!("{} {FORWARDED}", count(events.forwarded)));
    }
    if events.unidentified() > 0 {
        output::note(&format!("{} {UNIDENTIFIED}", count(events.unidentified())));
    }
    if events.renamed() > 0 {
        output::note(&format!("{} {}", count(events.renamed()), Omission::NamesOfThreads.words()));
    }
    if events.renumbered() > 0 {
        let what =
            "threads have other numbers than in the log: two of its hosts have threads of the same number";
        output::note(&format!("{} {what}", count(events.renumbered())));
    }
    unknown(&events.unknown);
    Ok(())
}

/// Reports the clock bound of a log's hosts. If the log has none, the user may supply one.
fn clocks(several: &mut MergedHosts, bound: Option<Duration>) {
    if let (Across::Apart | Across::OneClock, Some(bound)) = (several.across, bound) {
        let half_width_ns = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        several.across = Across::within(half_width_ns);
    }
    let hosts: BTreeSet<&str> = several.hosts.iter().map(|of| of.host.as_str()).collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    let relation = match several.across {
        Across::OneClock => "one clock, as their lines say".to_owned(),
        Across::Bounded { below_ns, above_ns } => {
            format!("clocks within {} of each other", duration(below_ns.max(above_ns)).trim())
        }
        Across::Apart => {
            "clocks of which nothing is known, so no time from one to another; --clock-bound 10ms says how far apart they were"
                .to_owned()
        }
    };
    output::note(&format!("hosts {}: {relation}", hosts.join(", ")));
}

fn finish(args: &Args, recorder: Recording) -> Result<()> {
    let events = recorder.finish()?;
    output::note(&format!("{}: {} events", args.output.display(), count(events)));
    Ok(())
}

fn unknown(names: &BTreeMap<String, u64>) {
    let all: u64 = names.values().sum();
    if all == 0 {
        return;
    }
    let mut most: Vec<(&String, &u64)> = names.iter().collect();
    most.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let listed: Vec<String> =
        most.iter().take(LISTED).map(|(name, n)| format!("{name} ({})", count(**n))).collect();
    let what = "events belong to no hop and were left out; --map EVENT=HOP includes them";
    output::note(&format!("{} {what}: {}", count(all), listed.join(", ")));
}

/// Calls `take` for every line with its number. Invalid UTF-8 becomes U+FFFD, and a line above the limit is an
/// error.
fn each_line(
    path: &Path,
    stop: &Stop,
    mut take: impl FnMut(u64, Result<&str, ()>) -> Result<()>,
) -> Result<()> {
    let file = File::open(path).with_context(|| unreadable(path))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let (mut bytes, mut number) = (Vec::new(), 0);
    loop {
        bytes.clear();
        if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes).with_context(|| unreadable(path))?
            == 0
        {
            return Ok(());
        }
        if stop.is_raised() {
            return Err(Cancelled("cancelled; nothing is left of the recording".to_owned()).into());
        }
        number += 1;
        if bytes.len() as u64 == LONGEST_LINE && bytes.last() != Some(&b'\n') {
            take(number, Err(()))?;
            reader.skip_until(b'\n').with_context(|| unreadable(path))?;
            continue;
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim();
        // Old tools wrote comment lines.
        if !line.is_empty() && !line.starts_with('#') {
            take(number, Ok(line))?;
        }
    }
}

fn binary(args: &Args, stop: &Stop) -> Result<()> {
    let path = &args.file;
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| unreadable(path))?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).with_context(|| unreadable(path))?;
    let no_trace = || {
        Hint::new(
            format!("cannot import {}", path.display()),
            "it is a binary file of another kind",
            "ULM and BP lines, and binary MAGNeT traces, can be imported",
        )
    };
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Hint::error(format!("{} is larger than 2 GiB", path.display()), "", "split it"));
    }
    let trace = Trace::open(&bytes).with_context(no_trace)?;
    let Some(khz) = args.khz.or(trace.layout.khz).filter(|khz| *khz > 0) else {
        let what = format!("{} does not say how fast its clock was", path.display());
        return Err(Hint::error(what, "records of 2006 have no SYSINFO", "say it: --khz 2400000"));
    };
    let hops: BTreeMap<u32, Hop> =
        args.map.iter().filter_map(|(event, hop)| event.parse().ok().map(|event| (event, *hop))).collect();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let info = NodeInfo {
        host: name.clone(),
        clock: "cycles".to_owned(),
        coverage: Coverage {
            hops: Hop::ALL
                .iter()
                .map(|hop| HopService { hop: *hop, service: service(*hop, &hops, &name) })
                .collect(),
            ..Coverage::default()
        },
        ..NodeInfo::default()
    };
    let mut recorder = Recording::create(&args.output, &info)?;
    let (mut unmapped, mut batch) = (BTreeMap::new(), Batch::default());
    for record in trace.records() {
        let Some(hop) = hops.get(&record.event) else {
            *unmapped.entry(record.event.to_string()).or_default() += 1;
            continue;
        };
        let ns = u128::from(record.cycles) * 1_000_000 / u128::from(khz);
        let mut event = Event::at(*hop, u64::try_from(ns).unwrap_or(u64::MAX));
        event.socket = record.id;
        // A negative size is an error of the call without data.
        event.len =
            if trace.layout.year == 2001 { record.size.clamp(0, i64::from(u32::MAX)) as u32 } else { 0 };
        (event.cpu, event.tgid) = (record.cpu, record.pid);
        batch.events.push(event);
        if batch.events.len() == BATCH {
            if stop.is_raised() {
                return Err(Cancelled("cancelled; nothing is left of the recording".to_owned()).into());
            }
            write(&mut recorder, &mut batch)?;
        }
    }
    write(&mut recorder, &mut batch)?;
    finish(args, recorder)?;
    unknown(&unmapped);
    Ok(())
}

fn write(recorder: &mut Recording, batch: &mut Batch) -> Result<()> {
    batch.events.sort_by_key(|event| event.time_ns);
    batch.watermark_ns = batch.events.last().map_or(0, |event| event.time_ns);
    recorder.append(batch)?;
    batch.clear();
    Ok(())
}

fn service(hop: Hop, mapped: &BTreeMap<u32, Hop>, from: &str) -> Service {
    if mapped.values().any(|other| *other == hop) {
        Service::Served {
            backend: Backend::Generator,
            point: String::new(),
            note: format!("imported from {from}"),
        }
    } else {
        Service::Missing { because: format!("no event of {from} was mapped to it") }
    }
}
