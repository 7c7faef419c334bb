//! From a source to a report.

use crate::output;
use anyhow::Result;
use magscope_core::journey::{self, Correlator, Limits};
use magscope_core::report::render_text;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Report, ReportBuilder};
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use std::time::Duration;

/// The longest a source may wait: what a signal waits at most before it is seen.
const PATIENCE: Duration = Duration::from_millis(100);
/// Columns where stdout is no terminal.
const WIDTH: usize = 100;

/// A report, and what the correlator could and could not make use of.
#[derive(Debug, Serialize)]
pub struct Findings {
    #[serde(flatten)]
    report: Report,
    correlator: journey::Counters,
}

/// Reads a source to its end.
pub fn of(source: &mut impl Source) -> Result<Findings> {
    let info = source.info().clone();
    let mut correlator = Correlator::new(info.coverage.served(), Limits::default());
    let mut report = ReportBuilder::new(&info);
    let (mut batch, mut done) = (Batch::default(), Vec::new());
    loop {
        let progress = source.next(&mut batch, PATIENCE).map_err(anyhow::Error::from_boxed)?;
        if progress == Progress::End {
            correlator.finish(&mut done);
        } else {
            report.batch(&batch);
            correlator.push(&batch, &mut done);
        }
        for journey in done.drain(..) {
            report.journey(&journey, &correlator);
        }
        if progress == Progress::End {
            return Ok(Findings { report: report.finish(), correlator: *correlator.counters() });
        }
    }
}

/// Prints it: data, so to stdout.
pub fn print(findings: &Findings, json: bool) -> Result<()> {
    if json { output::json(findings) } else { output::text(&render_text(&findings.report, width())) }
}

fn width() -> usize {
    tcgetwinsize(std::io::stdout()).map_or(WIDTH, |size| usize::from(size.ws_col).max(WIDTH / 2))
}
