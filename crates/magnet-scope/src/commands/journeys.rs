//! `magnet-scope journeys DIR`: the slowest matching journeys of a recording.
//!
//! The recording is read once and only the slowest journeys are stored, so memory does not grow with the
//! recording.

mod row;
mod slowest;
mod text;

use crate::cli::{LimitArgs, PartArgs, SessionsArgs};
use crate::joint::Joint;
use crate::recordings::Recordings;
use crate::{output, reporting};
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use magscope_core::annotations::Annotations;
use magscope_core::context::Context;
use magscope_core::filter::Filter;
use magscope_core::{Journey, Verdict};
use magscope_timeline::UtcMap;
use magscope_timeline::merged_reader::{Piece, ReadSummary};
use row::{Route, Row};
use slowest::Slowest;

/// Arguments of `journeys`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXPR compares with < <= > >= = != and joins with `and`, `or`, `not` and parentheses:\n  \
    total > 5ms and hop(dev.queue,dev.xmit) > 1ms\n  \
    proto = udp and (dport = 53 or host = 10.0.0.0/8) and not comm = resolver\n\
    on total, hop(A,B), bytes, retransmits, port, sport, dport, pid, proto, verdict, host, src, dst, flow, comm, cgroup, \
    container, pod, unit, netns and node; lost, dropped, broken, resent, tcp, udp and icmp stand alone. Words of tcpdump \
    are read: tcp port 443, src host 10.0.0.1, net 10.0.0.0/8. Sizes are decimal (kB, MB) or binary (KiB, MiB). \
    A comparison with what was not seen is false."
)]
pub struct Args {
    #[command(flatten)]
    sessions: SessionsArgs,
    /// Verify the recordings first, and fail if one is damaged
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    part: PartArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Number of journeys: the slowest that match
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    slowest: u32,
    #[command(flatten)]
    wanted: Wanted,
    /// Print JSON: one array, with every hop of every journey
    #[arg(long)]
    json: bool,
}

/// Which journeys.
#[derive(Debug, Default, clap::Args)]
struct Wanted {
    /// List only journeys that match: `total > 5ms and hop(dev.queue,dev.xmit) > 1ms`
    #[arg(long = "where", value_name = "EXPR")]
    filter: Option<Filter>,
    /// List only journeys whose line contains this text: part of an address, a process, a namespace
    #[arg(long, value_name = "TEXT")]
    flow: Option<String>,
    /// List only journeys with this verdict
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Verdict::NAMES).map(kind))]
    verdict: Option<usize>,
}

/// Counts of journeys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// All journeys.
    journeys: u64,
    /// Matching journeys.
    matching: u64,
    /// Matching journeys with a single hop, which have no latency.
    without_total: u64,
}

/// Number of the kind of verdict with a name that clap has checked.
#[allow(clippy::needless_pass_by_value)] // signature of clap
fn kind(name: String) -> usize {
    Verdict::NAMES.iter().position(|other| *other == name).unwrap_or_default()
}

/// Prints them, slowest first.
pub fn run(args: &Args) -> Result<()> {
    let limits = args.limits.limits();
    let recordings = Recordings::open(&args.sessions.dirs, args.part, limits)?;
    if args.strict {
        recordings.require_whole()?;
    }
    let asked = args.wanted.filter.as_ref().map(Filter::hops).unwrap_or_default();
    reporting::note_unserved("--where", asked, recordings.infos());
    recordings.missing().iter().for_each(|missing| output::note(missing));
    let collector = Collector::new(&args.wanted, args.slowest as usize, recordings.utc());
    let (rows, counts, walked, let_go) = collector.read(|visit| recordings.walk(limits, visit))?;
    reporting::note_evicted(&walked);
    if let_go > 0 {
        output::note(&format!(
            "{let_go} hits and heads were let go before their journeys ended: too many were in flight"
        ));
    }
    let joint = Some(recordings.joint(&walked)).filter(Joint::is_worth_saying).map(|joint| joint.text());
    if args.json {
        // The array is data; notes go to stderr.
        joint.iter().flat_map(|text| text.lines()).for_each(output::note);
        output::note(&text::summary(&rows, counts));
        return output::json(&rows);
    }
    let table = text::table(&rows, counts, reporting::width());
    output::text(&joint.map_or_else(|| table.clone(), |joint| format!("{joint}\n{table}")))
}

/// Collects matching journeys.
struct Collector<'a> {
    wanted: &'a Wanted,
    utc: &'a UtcMap,
    counts: Counts,
    slowest: Slowest,
    annotations: Annotations,
}

impl<'a> Collector<'a> {
    fn new(wanted: &'a Wanted, most: usize, utc: &'a UtcMap) -> Self {
        let (slowest, annotations) = (Slowest::new(most), Annotations::default());
        Collector { wanted, utc, counts: Counts::default(), slowest, annotations }
    }

    fn read(
        mut self,
        walk: impl FnOnce(&mut dyn FnMut(Piece<'_>)) -> Result<ReadSummary>,
    ) -> Result<(Vec<Row>, Counts, ReadSummary, u64)> {
        let walked = walk(&mut |piece| match piece {
            Piece::Batch(node, batch) => self.annotations.take(node, batch),
            Piece::Journey(journey, _, context) => self.journey(journey, context),
        })?;
        Ok((self.slowest.into_rows(), self.counts, walked, self.annotations.let_go()))
    }

    fn journey(&mut self, journey: &Journey, context: &dyn Context) {
        self.counts.journeys += 1;
        if !self.wanted.matches(journey, context) {
            return;
        }
        self.counts.matching += 1;
        self.counts.without_total += u64::from(journey.total_ns().is_none());
        if self.slowest.wants(journey) {
            self.slowest.push(journey, Row::of(journey, context, self.utc, &self.annotations));
        }
    }
}

impl Wanted {
    fn matches(&self, journey: &Journey, context: &dyn Context) -> bool {
        self.verdict.is_none_or(|kind| journey.verdict.kind() == kind)
            && self.filter.as_ref().is_none_or(|filter| filter.matches(journey, context))
            && self.flow.as_ref().is_none_or(|text| {
                let line = Route::of(journey, context).line(journey.proto);
                line.contains(text.as_str()) || line.contains(&text.replace("->", "→"))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::journey::Limits;
    use magscope_core::{Generator, GeneratorOptions};

    fn listed(wanted: &Wanted, most: usize) -> (Vec<Row>, Counts) {
        let mut source =
            Generator::new(GeneratorOptions { events: 40_000, flows: 8, ..GeneratorOptions::default() });
        let utc = UtcMap::new();
        let collector = Collector::new(wanted, most, &utc);
        let read = collector.read(|visit| reporting::walk(&mut source, Limits::default(), visit));
        let (rows, counts, ..) = read.expect("a generator never fails");
        (rows, counts)
    }

    #[test]
    fn the_slowest_come_first_and_the_rest_is_counted() {
        let (all, counts) = listed(&Wanted::default(), 100_000);
        assert_eq!((all.len() as u64, counts.without_total), (counts.journeys, 0));
        assert!(all.is_sorted_by(|a, b| a.total_ns >= b.total_ns));
        let (few, same) = listed(&Wanted::default(), 5);
        assert_eq!((few.as_slice(), same), (&all[..5], counts));
    }

    #[test]
    fn what_is_asked_for_is_all_that_comes() {
        let wanted = Wanted {
            filter: Some(Filter::parse("proto = udp and bytes >= 256").expect("a filter")),
            flow: Some("sender@client → reader@server".to_owned()),
            verdict: Some(kind("complete".to_owned())),
        };
        let (rows, counts) = listed(&wanted, 100_000);
        assert!(counts.matching > 10 && counts.matching < counts.journeys);
        assert!(rows.iter().all(|row| row.bytes >= 256 && row.route.from.contains("10.0.0.1")));
        let none = Wanted { flow: Some("10.9.9.9".to_owned()), ..Wanted::default() };
        assert_eq!(listed(&none, 5).1.matching, 0);
        let part = Wanted { flow: Some("10.0.0.1:1025->".to_owned()), ..Wanted::default() };
        assert!(listed(&part, 5).1.matching > 0);
    }

    #[test]
    fn the_table_is_readable_at_80_columns() {
        let (rows, counts) = listed(&Wanted::default(), 20);
        for width in [80, 100] {
            let table = text::table(&rows, counts, width);
            assert!(table.lines().all(|line| line.chars().count() <= width), "{table}");
            assert!(table.contains("between") && table.contains("sender@client → reader@server"), "{table}");
            assert!(table.contains("20 slowest of"), "{table}");
        }
    }

    #[test]
    fn wide_numbers_are_text_in_json() {
        let (rows, _) = listed(&Wanted::default(), 1);
        let json = serde_json::to_value(&rows).expect("JSON");
        let row = &json[0];
        for id in ["id", "tx_flow", "rx_flow"] {
            assert!(row[id].is_string(), "{row}");
        }
        assert!(row["range"]["start"].is_string());
        let rungs = row["rungs"].as_array().expect("rungs");
        assert!(rungs.len() > 8 && rungs.iter().all(|r| r["time_ns"].is_u64() && r["hop"].is_string()));
        let sum: u64 = row["latencies"]
            .as_array()
            .expect("latencies")
            .iter()
            .filter(|l| l["to"] != "dev.done")
            .filter_map(|l| l["ns"].as_u64())
            .sum();
        assert_eq!(row["total_ns"], sum);
    }
}
