//! `magnet-scope report DIR`: latency and blame in a recording.

use crate::cli::{LimitArgs, PartArgs, SessionsArgs};
use crate::recordings::Recordings;
use crate::reporting;
use crate::values::{listed, window};
use anyhow::Result;
use clap::builder::{PossibleValue, TypedValueParser};
use magscope_report::GroupBy;
use magscope_report::ReportBuilder;
use magscope_report::stats::running::Window;

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
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
    /// Group journeys by this in place of flows, with times, verdicts and blame
    #[arg(long, value_name = "WHAT", value_parser = groupings())]
    by: Option<GroupBy>,
    /// Maximum number of rows in such a table, those with the most bytes
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u16).range(1..=1000))]
    top: u16,
    /// Throughput of each layer: units, bytes, sizes, spacing, rates, and a plot over time
    #[arg(long)]
    throughput: bool,
    /// Running average of received bytes over a number of receives (`1000`) or a time (`2s`)
    #[arg(long, value_name = "N|TIME", value_parser = window::parse)]
    window: Option<Window>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn groupings() -> impl TypedValueParser<Value = GroupBy> {
    listed::parser(GroupBy::ALL, |by| PossibleValue::new(by.name()).help(by.words()))
}

/// Prints the report.
pub fn run(args: &Args) -> Result<()> {
    let limits = args.limits.limits();
    let recordings = Recordings::open(&args.sessions.dirs, args.part, limits)?;
    if args.strict {
        recordings.require_whole()?;
    }
    let report = args.prepare(ReportBuilder::of_many(recordings.infos()));
    reporting::print(&reporting::of_all(&recordings, limits, report)?, args.json)
}

impl Args {
    /// Configures a report.
    fn prepare(&self, report: ReportBuilder) -> ReportBuilder {
        let mut report = report.top_flows(usize::from(self.top));
        if let Some(by) = self.by {
            report = report.by(by);
        }
        if self.throughput {
            report = report.throughput();
        }
        match self.window {
            Some(window) => report.window(window),
            None => report,
        }
    }
}
