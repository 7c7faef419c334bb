//! From a source to a report.

use crate::output;
use anyhow::Result;
use magscope_core::context::{Context, Known};
use magscope_core::journey::{self, Correlator, Limits};
use magscope_core::report::render_text;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Journey, Report, ReportBuilder};
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use std::time::Duration;

/// The longest a source may wait: what a signal waits at most before it is seen.
const PATIENCE: Duration = Duration::from_millis(100);
/// Columns below which no table fits.
const NARROWEST: usize = 50;
/// Columns where stdout is no terminal.
const WIDTH: usize = 80;

/// A report, and what the correlator could and could not make use of.
#[derive(Debug, Serialize)]
pub struct Findings {
    #[serde(flatten)]
    report: Report,
    correlator: journey::Counters,
}

/// What comes out of a source, piece by piece.
pub enum Piece<'a> {
    /// Events, before their journeys.
    Batch(&'a Batch),
    /// A journey that ended, and what knows its flows and processes.
    Journey(&'a Journey, &'a dyn Context),
}

/// Reads a source to its end; what the correlator could and could not make use of.
pub fn walk(source: &mut impl Source, mut visit: impl FnMut(Piece<'_>)) -> Result<journey::Counters> {
    let node = source.info().clone();
    let mut correlator = Correlator::new(source.info().coverage.served(), Limits::default());
    let (mut batch, mut done) = (Batch::default(), Vec::new());
    loop {
        let progress = source.next(&mut batch, PATIENCE).map_err(anyhow::Error::from_boxed)?;
        if progress == Progress::End {
            correlator.finish(&mut done);
        } else {
            visit(Piece::Batch(&batch));
            correlator.push(&batch, &mut done);
        }
        for journey in done.drain(..) {
            visit(Piece::Journey(&journey, &Known { correlator: &correlator, node: &node }));
        }
        if progress == Progress::End {
            return Ok(*correlator.counters());
        }
    }
}

/// Reads a source to its end and reports on it.
pub fn of(source: &mut impl Source) -> Result<Findings> {
    let report = ReportBuilder::new(source.info());
    with(source, report)
}

/// Reads a source to its end for a report that was told what else it is to say.
pub fn with(source: &mut impl Source, mut report: ReportBuilder) -> Result<Findings> {
    let correlator = walk(source, |piece| {
        match piece {
            Piece::Batch(batch) => report.batch(batch),
            Piece::Journey(journey, context) => report.journey(journey, context),
        };
    })?;
    Ok(Findings { report: report.finish(), correlator })
}

/// Prints it: data, so to stdout.
pub fn print(findings: &Findings, json: bool) -> Result<()> {
    if json { output::json(findings) } else { output::text(&render_text(&findings.report, width())) }
}

/// Columns of the terminal, or of what stands for one.
pub fn width() -> usize {
    tcgetwinsize(std::io::stdout()).map_or(WIDTH, |size| usize::from(size.ws_col).max(NARROWEST))
}
