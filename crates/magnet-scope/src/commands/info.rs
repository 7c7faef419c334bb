//! `magnet-scope info DIR`: the content of a recording.

use crate::failure::Hint;
use crate::{output, sessions};
use anyhow::Result;
use magscope_core::node::{NodeInfo, Service};
use magscope_core::{Change, HopCount, LossCause};
use magscope_scope::format::counted;
use magscope_session::{LossTotals, Meta, Session};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Arguments of `info`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directories of `magnet-scope record`
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Read everything and verify the checksums
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Info<'a> {
    /// Set for several recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<String>,
    tool: &'a str,
    format: u32,
    created_utc: &'a str,
    closed: bool,
    #[serde(skip)]
    first_ns: Option<u64>,
    first_utc: Option<String>,
    last_utc: Option<String>,
    duration_ns: Option<u64>,
    watched_ns: Option<u64>,
    events: u64,
    bytes: u64,
    segments: u32,
    dropped_by_retention: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_unshipped_segments: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shipped_and_deleted: Option<u64>,
    #[serde(skip)]
    deleted: Vec<String>,
    losses: LossTotals,
    damage: Vec<String>,
    #[serde(skip)]
    is_verified: bool,
    changes: Vec<Change>,
    counts: Vec<HopCount>,
    node: &'a NodeInfo,
}

/// Prints the recordings in turn. One that is unreadable or damaged does not hide the others.
pub fn run(args: &Args) -> Result<()> {
    let (mut opened, mut failed) = (Vec::new(), Vec::new());
    for dir in &args.dirs {
        match Session::open(dir) {
            Ok(mut session) => {
                session.check_small_tables();
                opened.push((dir, session));
            }
            Err(error) => failed.push(error.into()),
        }
    }
    let (infos, damage): (Vec<_>, Vec<_>) =
        opened.iter().map(|(dir, session)| look(args, dir, session)).unzip();
    failed.extend(damage.into_iter().flatten());
    match &infos[..] {
        [] => {}
        [one] if args.json && args.dirs.len() == 1 => output::json(one)?,
        all if args.json => output::json(&all)?,
        all => output::text(&all.iter().map(text).collect::<Vec<_>>().join("\n"))?,
    }
    let mut failed = failed.into_iter();
    let Some(first) = failed.next() else { return Ok(()) };
    failed.for_each(|error| output::note(&format!("{error:#}")));
    Err(first)
}

/// Inspects one recording. Returns an error for damage.
fn look<'a>(args: &Args, dir: &Path, session: &'a Session) -> (Info<'a>, Option<anyhow::Error>) {
    let (summary, meta, utc) = (session.summary(), session.meta(), sessions::utc_map(session));
    let damage = if args.verify { session.verify() } else { session.damage().to_vec() };
    let (changes, counts) = session.changes();
    let (first_ns, last_ns) = session.extent_ns().unzip();
    let at = |instant: Option<u64>| instant.and_then(|instant| sessions::utc_text(&utc, instant));
    let is_one_of_several = args.dirs.len() > 1;
    let info = Info {
        recording: is_one_of_several.then(|| dir.display().to_string()),
        tool: &meta.tool,
        format: meta.format,
        created_utc: &meta.created_utc,
        closed: summary.closed,
        first_ns,
        first_utc: at(first_ns),
        last_utc: at(last_ns),
        duration_ns: first_ns.zip(last_ns).map(|(from, to)| to.saturating_sub(from)),
        watched_ns: session.watched_ns().map(|(from, to)| to.saturating_sub(from)),
        events: summary.events,
        bytes: summary.bytes,
        segments: summary.segments,
        dropped_by_retention: summary.dropped.as_ref().map(|dropped| dropped.events),
        dropped_unshipped_segments: summary
            .dropped
            .as_ref()
            .map(|d| d.unshipped)
            .filter(|segments| *segments > 0),
        shipped_and_deleted: meta.shipped.as_ref().map(|shipped| shipped.events),
        deleted: deleted(meta),
        losses: summary.losses,
        damage: damage.iter().map(ToString::to_string).collect(),
        is_verified: args.verify,
        changes,
        counts,
        node: session.info(),
    };
    // Printed above, and returned for scripts. An incomplete end of a running or killed recording is no damage.
    let places = damage.iter().filter(|damage| !damage.unfinished).count();
    (info, (args.verify && places > 0).then(|| damaged(dir, places)))
}

fn damaged(dir: &Path, places: usize) -> anyhow::Error {
    let next =
        format!("what is whole can be read: `magnet-scope report {}` says how much was lost", dir.display());
    let cause = "files were changed or cut off after they were recorded, or the disk fails";
    let places = counted(places as u64, "damaged place", "damaged places");
    Hint::error(format!("{}: {places}", dir.display()), cause, next)
}

fn text(info: &Info<'_>) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:<12}{value}");
    };
    if let Some(recording) = &info.recording {
        line("recording", recording.clone());
    }
    let node = info.node;
    let or_unknown = |word: &str| if word.is_empty() { "unknown".to_owned() } else { word.to_owned() };
    let (host, kernel) = (or_unknown(&node.host), or_unknown(&node.kernel));
    line("host", format!("{host}, kernel {kernel}, {} CPUs", node.cpus));
    let names: Vec<_> = node.netns.iter().map(|netns| format!("{} ({})", netns.name, netns.netns)).collect();
    line("namespaces", names.join(", "));
    let (created, tool) = (or_unknown(info.created_utc), or_unknown(info.tool));
    line("recorded", format!("{created} by {tool}, format {}", info.format));
    if let (Some(first), Some(last)) = (&info.first_utc, &info.last_utc) {
        line("from", first.clone());
        line("to", last.clone());
    }
    if let Some(duration) = info.duration_ns {
        let seconds = |ns: u64| format!("{:.3} s", ns as f64 / 1e9);
        // above the second between two clock samples
        let quiet = info.watched_ns.filter(|watched| watched.saturating_sub(duration) > 1_100_000_000);
        let watched = quiet.map_or_else(String::new, |ns| format!(", recorded for {}", seconds(ns)));
        line("duration", seconds(duration) + &watched);
    }
    let each = info.bytes as f64 / info.events.max(1) as f64;
    line(
        "events",
        match info.events {
            0 => format!("none; {} bytes, {} segments", info.bytes, info.segments),
            events => format!("{events} in {} bytes, {each:.1} each, {} segments", info.bytes, info.segments),
        },
    );
    for deleted in &info.deleted {
        line("deleted", deleted.clone());
    }
    let open_end = if info.closed { "" } else { ", as far as it was written" };
    line("lost", losses(&info.losses) + open_end);
    line(
        "closed",
        if info.closed { "yes" } else { "no: still being recorded, or the recorder was killed" }.to_owned(),
    );
    for damage in &info.damage {
        line("damage", damage.clone());
    }
    if info.is_verified && info.damage.is_empty() {
        line("verified", "every batch and every file: no damage".to_owned());
    }
    for probe in &node.probes {
        line("probe", probe.to_string());
    }
    for setting in &node.settings {
        line("only", setting.clone());
    }
    for change in &info.changes {
        let first = info.first_ns.unwrap_or(change.to_ns);
        line("changed", format!("{:+.3} s  {}", (change.to_ns as f64 - first as f64) / 1e9, change.what));
    }
    for count in info.counts.iter().filter(|count| count.seen() > count.kept) {
        let HopCount { hop, kept: recorded, filtered, undecided, sampled, synthesised, .. } = count;
        let seen = count.seen();
        line(
            "left out",
            format!(
                "{hop}: {recorded} of {seen} kept, {filtered} filtered, {undecided} undecided, {sampled} sampled out, {synthesised} added up in the kernel"
            ),
        );
    }
    let hops = |wanted: fn(&Service) -> bool| -> String {
        let rows = node.coverage.hops.iter().filter(|row| wanted(&row.service));
        rows.map(|row| row.hop.name()).collect::<Vec<_>>().join(" ")
    };
    line("hops", hops(|service| matches!(service, Service::Served { .. })));
    line("missing", hops(|service| matches!(service, Service::Missing { .. })));
    text
}

fn deleted(meta: &Meta) -> Vec<String> {
    let dropped = meta.dropped.as_ref().map(magscope_session::Dropped::describe);
    dropped.into_iter().chain(meta.shipped.as_ref().map(magscope_session::ShippedSegments::describe)).collect()
}

fn losses(losses: &LossTotals) -> String {
    let causes = LossCause::ALL.into_iter().filter(|cause| losses.of(*cause) > 0);
    let causes: Vec<_> = causes.map(|cause| format!("{} ({cause})", losses.of(cause))).collect();
    if causes.is_empty() { "nothing".to_owned() } else { causes.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_damaged_place_is_singular() {
        let of = |places| damaged(Path::new("a"), places).to_string();
        assert_eq!([of(1), of(2)], ["a: 1 damaged place", "a: 2 damaged places"]);
    }
}
