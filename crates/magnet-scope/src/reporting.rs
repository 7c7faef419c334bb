//! From a source to a report.

use crate::output;
use anyhow::Result;
use magscope_core::Batch;
use magscope_core::source::{Progress, Source};
use std::time::Duration;

pub struct Report(std::collections::BTreeMap<magscope_core::Hop, u64>);

/// Reads a source to its end.
pub fn of(source: &mut impl Source) -> Result<Report> {
    let mut r = Report(Default::default());
    let mut batch = Batch::default();
    loop {
        let progress =
            source.next(&mut batch, Duration::from_millis(100)).map_err(anyhow::Error::from_boxed)?;
        for e in &batch.events {
            *r.0.entry(e.hop).or_default() += 1;
        }
        if progress == Progress::End {
            return Ok(r);
        }
    }
}

/// Prints a report.
pub fn print(report: &Report, json: bool) -> Result<()> {
    if json {
        output::json(&report.0.iter().map(|(a, b)| (a.name(), *b)).collect::<Vec<_>>())
    } else {
        output::text(&format!("{:#?}", report.0))
    }
}
