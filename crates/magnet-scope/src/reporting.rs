//! Makes a report of a source.

use crate::connect::Until;
use crate::joint::Joint;
use crate::output;
use crate::recordings::Recordings;
use crate::screen::{Followed, Received};
use crate::signals::Stop;
use anyhow::Result;
use magscope_core::journey::{self, Limits};
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source};
use magscope_core::{Hop, HopSet};
use magscope_report::render_text;
use magscope_report::{Report, ReportBuilder};
use magscope_scope::format::counted;
use magscope_scope::look::ClockPair;
use magscope_timeline::join::OneClock;
use magscope_timeline::merged_reader::{self, Piece, ReadSummary};
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use std::time::Duration;

/// Maximum wait of a source, the maximum delay of a signal.
const PATIENCE: Duration = Duration::from_millis(100);
/// Minimum width of a table, columns.
const NARROWEST: usize = 50;
/// Width without a terminal, columns.
const WIDTH: usize = 80;

/// A report with the correlators' counters.
#[derive(Debug, Serialize)]
pub struct Findings {
    #[serde(flatten)]
    report: Report,
    /// Of the first or only recording.
    correlator: journey::Counters,
    /// Of the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_correlators: Vec<journey::Counters>,
    /// Summary of several recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    joint: Option<Joint>,
}

/// Reads a source to its end.
pub fn walk(source: &mut impl Source, limits: Limits, visit: impl FnMut(Piece<'_>)) -> Result<ReadSummary> {
    merged_reader::walk(&mut [source], &OneClock, limits, PATIENCE, visit).map_err(anyhow::Error::from_boxed)
}

/// Prints the number of evicted journeys and the remedy, if any.
pub fn note_evicted(walked: &ReadSummary) {
    let evicted: u64 = walked.counters.iter().map(|counters| counters.evicted).sum();
    if evicted > 0 {
        let what = "given up on, because too many were in flight; --max-in-flight sets how many may be";
        output::note(&format!("{} {what}", counted(evicted, "journey was", "journeys were")));
    }
}

/// Prints what the counts of a report leave out, if anything.
fn note_left_out(walked: &ReadSummary) {
    note_evicted(walked);
    let bytes: u64 = walked.counters.iter().map(|counters| counters.resent_after_end_bytes).sum();
    if bytes > 0 {
        let what = "sent again after the first copy had been read, mostly because an acknowledgement was late or \
                    lost; no count of resent journeys has them";
        output::note(&format!("{} {what}", counted(bytes, "byte was", "bytes were")));
    }
}

/// Prints the hops of an argument that no recording has: conditions on them never match.
pub fn note_unserved(argument: &str, asked: HopSet, infos: &[NodeInfo]) {
    let served = infos.iter().fold(0, |all, info| all | info.coverage.served().0);
    let unserved: Vec<_> = HopSet(asked.0 & !served).iter().map(Hop::name).collect();
    if !unserved.is_empty() {
        let has = if infos.len() > 1 { "none of the recordings has" } else { "the recording does not have" };
        output::note(&format!("`{argument}` asks for {}, which {has}", unserved.join(" and ")));
    }
}

/// Reads a source to its end and reports on it.
pub fn of(source: &mut impl Source, limits: Limits) -> Result<Findings> {
    let mut report = ReportBuilder::new(source.info()).requests();
    let walked = walk(source, limits, |piece| add(&mut report, &piece))?;
    note_left_out(&walked);
    Ok(Findings::new(report, walked, None))
}

/// Reads recordings to their end for a configured report.
pub fn of_all(recordings: &Recordings, limits: Limits, report: ReportBuilder) -> Result<Findings> {
    let mut report = report.requests();
    if let Some((from_ns, to_ns)) = recordings.observed() {
        report = report.observed(from_ns, to_ns);
    }
    let walked = recordings.walk(limits, |piece| add(&mut report, &piece))?;
    note_left_out(&walked);
    let joint = Some(recordings.joint(&walked)).filter(Joint::is_worth_saying);
    let mut findings = Findings::new(report, walked, joint);
    findings.report.damage = recordings.damage();
    Ok(findings)
}

/// Reads agents for a duration or until a signal, and reports.
pub fn of_agents(
    mut followed: Followed,
    limits: Limits,
    duration: Option<Duration>,
    stop: &Stop,
) -> Result<Findings> {
    let mut report = ReportBuilder::of_many(followed.infos()).requests();
    let mut follower = followed.follower(limits);
    let until = Until::new(duration, stop);
    let mut add = |came: Received<'_>| match came {
        Received::Host(info) => {
            output::note(&format!("{} is here", info.host));
            report.join(info);
        }
        Received::Piece(piece) => add(&mut report, &piece),
    };
    while follower.step(&mut add).map_err(anyhow::Error::from_boxed)? == Progress::More {
        follower.ticker().inspect(|ticker| until.look(ticker));
    }
    for ClockPair { hosts: (a, b), state, .. } in follower.clocks() {
        let state = state.map_or_else(|| "one clock".to_owned(), |state| state.to_string());
        output::note(&format!("clocks of {a} and {b}: {state}"));
    }
    let walked = follower.walked();
    note_left_out(&walked);
    Ok(Findings::new(report, walked, None))
}

fn add(report: &mut ReportBuilder, piece: &Piece<'_>) {
    match piece {
        Piece::Batch(node, batch) => report.batch_of(*node, batch),
        Piece::Journey(journey, _, context) => report.journey(journey, *context),
    };
}

impl Findings {
    fn new(report: ReportBuilder, walked: ReadSummary, joint: Option<Joint>) -> Self {
        let mut counters = walked.counters.into_iter();
        let correlator = counters.next().unwrap_or_default();
        Findings { report: report.finish(), correlator, other_correlators: counters.collect(), joint }
    }
}

/// Prints the report on stdout.
pub fn print(findings: &Findings, json: bool) -> Result<()> {
    if json {
        return output::json(findings);
    }
    let joint_text = findings.joint.as_ref().map(Joint::text);
    let gap = if joint_text.is_some() { "\n" } else { "" };
    output::text(&format!("{}{gap}{}", joint_text.unwrap_or_default(), render_text(&findings.report, width())))
}

/// Width of the terminal, or the default.
pub fn width() -> usize {
    tcgetwinsize(std::io::stdout()).map_or(WIDTH, |size| usize::from(size.ws_col).max(NARROWEST))
}
