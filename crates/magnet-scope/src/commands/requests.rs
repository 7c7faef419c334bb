//! `magnet-scope requests DIR`: requests and responses in a recording, and where the time of the slowest went.
//!
//! The recording is read once. Only sums and the slowest exchanges are stored.

mod row;
mod text;

pub use text::page;

use crate::cli::{LimitArgs, PartArgs, SessionsArgs};
use crate::commands::run::ProcessTree;
use crate::joint::Joint;
use crate::recordings::Recordings;
use crate::values::listed;
use crate::{output, reporting};
use anyhow::Result;
use clap::builder::{PossibleValue, TypedValueParser};
use magscope_core::exchange::{Exchange, ExchangeFilter, ExchangeReader};
use magscope_core::node::NodeInfo;
use magscope_report::requests::{RequestSums, RequestTable, RequestsBy, process_name, service_name};
use magscope_timeline::UtcMap;
use magscope_timeline::merged_reader::Piece;
use row::Row;
use serde::Serialize;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of exchanges whose names are stored for those around them.
const MOST_NAMED: usize = 1 << 16;

/// Arguments of `requests`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An exchange is a request and its response, found by the order in which two programs send and read: \
    for any protocol, without payload. Only exchanges of the grade `turn` have a latency (docs/requests.md).\n\n\
    EXPR compares with < <= > >= = != and joins with `and`, `or`, `not` and parentheses:\n  \
    answer > 20ms and hop(task.wake,task.run) > 1ms\n  \
    grade = turn and port = 443 and not comm = curl\n\
    on total (or request), request_transfer, answer, response_transfer, pause, on_cpu, runnable, blocked, hop(A,B), request_bytes, response_bytes, \
    retransmits, port, pid, comm, host, container, pod, unit, grade and proto; unanswered and broken stand alone. A comparison with what \
    is not known is false."
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
    #[command(flatten)]
    wanted: Wanted,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which exchanges, and how they are shown.
#[derive(Clone, Debug, clap::Args)]
pub struct Wanted {
    /// Number of single exchanges: the slowest that match
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    slowest: u32,
    /// Count and list only exchanges that match: `answer > 20ms and port = 443`
    #[arg(long = "where", value_name = "EXPR")]
    matching: Option<ExchangeFilter>,
    /// Group exchanges by this
    #[arg(long, value_name = "WHAT", value_parser = groupings(), default_value_t)]
    by: RequestsBy,
    /// Maximum number of groups, those with the most exchanges
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u16).range(1..=1000))]
    top: u16,
}

fn groupings() -> impl TypedValueParser<Value = RequestsBy> {
    listed::parser(RequestsBy::ALL, |by| PossibleValue::new(by.name()).help(by.words()))
}

/// Prints groups and the slowest exchanges.
pub fn run(args: &Args) -> Result<()> {
    let limits = args.limits.limits();
    let recordings = Recordings::open(&args.sessions.dirs, args.part, limits)?;
    if args.strict {
        recordings.require_whole()?;
    }
    let asked = args.wanted.matching.as_ref().map(ExchangeFilter::hops).unwrap_or_default();
    reporting::note_unserved("--where", asked, recordings.infos());
    recordings.missing().iter().for_each(|missing| output::note(missing));
    let mut collector = Collector::new(&args.wanted, recordings.infos(), Cow::Borrowed(recordings.utc()));
    let walked = recordings.walk(limits, |piece| collector.piece(&piece))?;
    reporting::note_evicted(&walked);
    let joint = Some(recordings.joint(&walked)).filter(Joint::is_worth_saying).map(|joint| joint.text());
    print(&collector.finish(), args.json, joint.as_deref())
}

/// Prints collected exchanges, below what is to be said of several recordings.
fn print(found: &Found, json: bool, joint: Option<&str>) -> Result<()> {
    if json {
        // JSON is data; notes go to stderr.
        joint.iter().flat_map(|text| text.lines()).for_each(output::note);
        return output::json(found);
    }
    let text = text::page(found, reporting::width());
    output::text(&joint.map_or_else(|| text.clone(), |joint| format!("{joint}\n{text}")))
}

/// The results.
#[derive(Debug, Serialize)]
pub struct Found {
    /// Groups.
    #[serde(flatten)]
    table: RequestTable,
    /// Number of exchanges of which `--where` is false.
    not_matching: u64,
    /// Of these, those without a number that it compares.
    incomparable: u64,
    /// The slowest ones.
    exchanges: Vec<Row>,
}

impl Found {
    /// True without any exchange.
    pub fn is_empty(&self) -> bool {
        self.table.grades.total() == 0 && self.not_matching == 0
    }
}

/// Collects exchanges of a walk over recordings or of a running capture.
pub struct Collector<'a> {
    wanted: &'a Wanted,
    utc: Cow<'a, UtcMap>,
    reader: ExchangeReader,
    sums: RequestSums,
    not_matching: u64,
    incomparable: u64,
    /// By length and then start, the shortest first.
    slowest: BTreeMap<(u64, Reverse<u64>), Row>,
    /// What exchanges within others are called, and their length.
    named: BTreeMap<u64, (String, Option<u64>)>,
    /// The processes whose exchanges are wanted, of all if `None`.
    only: Option<ProcessTree>,
}

impl<'a> Collector<'a> {
    /// An empty one, for these hosts.
    pub fn new(wanted: &'a Wanted, infos: &[NodeInfo], utc: Cow<'a, UtcMap>) -> Self {
        Collector {
            wanted,
            utc,
            reader: ExchangeReader::new(infos),
            sums: RequestSums::new(wanted.by),
            not_matching: 0,
            incomparable: 0,
            slowest: BTreeMap::new(),
            named: BTreeMap::new(),
            only: None,
        }
    }

    /// Leaves out the exchanges of other processes.
    #[must_use]
    pub fn only(mut self, tree: ProcessTree) -> Self {
        self.only = Some(tree);
        self
    }

    /// Takes a piece of the walk.
    pub fn piece(&mut self, piece: &Piece<'_>) {
        let complete = match piece {
            Piece::Batch(node, batch) => {
                self.only.iter_mut().for_each(|tree| tree.batch(batch));
                // The map of a running capture grows with it.
                if let (Cow::Owned(utc), 0) = (&mut self.utc, node) {
                    batch.clock.iter().for_each(|sample| utc.push(*sample));
                }
                self.reader.batch(*node, batch)
            }
            Piece::Journey(journey, _, context) => self.reader.journey(journey, *context),
        };
        self.add(&complete);
    }

    fn add(&mut self, exchanges: &[Exchange]) {
        for exchange in exchanges {
            if !exchange.requester.flow.is_none() {
                let what = format!(
                    "{} → {}",
                    process_name(&exchange.requester, self.reader.context()),
                    service_name(exchange, self.reader.context())
                );
                self.named.insert(exchange.id, (what, exchange.envelope_ns()));
                if self.named.len() > MOST_NAMED {
                    self.named.pop_first();
                }
            }
            if self.only.as_ref().is_some_and(|tree| !tree.has(exchange)) {
                continue;
            }
            let filter = self.wanted.matching.as_ref();
            if let Some(filter) = filter.filter(|filter| !filter.matches(exchange, self.reader.context())) {
                self.not_matching += 1;
                self.incomparable += u64::from(filter.compares_unknown(exchange));
                continue;
            }
            self.sums.add(exchange, self.reader.context());
            self.list(exchange);
        }
    }

    /// Lists an exchange if it is among the slowest. Names are resolved at once: a thread's number can be used again.
    fn list(&mut self, exchange: &Exchange) {
        let most = self.wanted.slowest as usize;
        // Exchanges without a latency come last.
        let length_ns = exchange.total_ns().or(exchange.answer_ns()).unwrap_or(0);
        let key = (length_ns, Reverse(exchange.id));
        let is_full = self.slowest.len() >= most;
        if is_full && self.slowest.first_key_value().is_none_or(|(shortest, _)| key < *shortest) {
            return;
        }
        self.slowest.insert(key, Row::of(exchange, self.reader.context(), &self.utc));
        if is_full {
            self.slowest.pop_first();
        }
    }

    /// Closes what is open.
    pub fn finish(mut self) -> Found {
        let open = self.reader.finish();
        self.add(&open);
        self.slowest.values_mut().for_each(|row| row.name_inner(&self.named));
        Found {
            table: self.sums.table(usize::from(self.wanted.top)),
            not_matching: self.not_matching,
            incomparable: self.incomparable,
            exchanges: self.slowest.into_values().rev().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::Generator;
    use magscope_core::GeneratorOptions;
    use magscope_core::journey::Limits;
    use magscope_core::source::Source;

    fn found(filter: Option<&str>) -> Found {
        let options = GeneratorOptions { events: 40_000, flows: 8, ..GeneratorOptions::default() };
        let mut source = Generator::new(options);
        let wanted = Wanted {
            slowest: 3,
            matching: filter.map(|text| ExchangeFilter::parse(text).expect("a filter")),
            by: RequestsBy::Flow,
            top: 20,
        };
        let (utc, infos) = (UtcMap::new(), [source.info().clone()]);
        let mut collector = Collector::new(&wanted, &infos, Cow::Borrowed(&utc));
        reporting::walk(&mut source, Limits::default(), |piece| collector.piece(&piece)).expect("a generator");
        collector.finish()
    }

    #[test]
    fn a_filter_divides_the_exchanges() {
        let all = found(None);
        let broken = found(Some("broken"));
        let others = found(Some("not broken"));
        let count = |found: &Found| found.table.grades.with_unidirectional();
        assert!(count(&all) > 0);
        assert_eq!(count(&all), count(&broken) + count(&others));
        assert_eq!((broken.not_matching, others.not_matching), (count(&others), count(&broken)));
        assert_eq!(broken.incomparable, 0, "each has a grade");
        let without_scheduler = found(Some("blocked > 1ms"));
        assert_eq!(without_scheduler.incomparable, count(&all));
    }

    #[test]
    fn the_page_fits_into_its_width() {
        let found = found(None);
        for width in [60, 80, 120] {
            let page = text::page(&found, width);
            assert!(page.lines().all(|line| line.chars().count() <= width), "{page}");
        }
    }
}
