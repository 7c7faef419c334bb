//! `magnet-scope align A B…`: clock offsets between recordings, their bounds, and the basis of the bounds.

mod follow;
mod plot;
mod row;
mod text;

use crate::cli::{LimitArgs, PartArgs};
use crate::drawing::{self, Format};
use crate::output;
use crate::recordings::Recordings;
use anyhow::Result;
use row::Table;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `align`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Recordings of two or more hosts that exchanged packets
    #[arg(required = true, num_args = 2..)]
    recordings: Vec<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Plot the bounds over time to this file (`.svg` or `.png`)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Follow running recordings: print one line per pair of clocks at this interval, until they end
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::interval, num_args = 0..=1, require_equals = true,
        default_missing_value = "1s", conflicts_with = "plot")]
    follow: Option<Duration>,
}

/// Prints the table of pairs.
pub fn run(args: &Args) -> Result<()> {
    if let Some(every) = args.follow {
        return follow::run(args, every);
    }
    args.plot.as_deref().map(Format::of).transpose()?;
    let recordings = Recordings::open(&args.recordings, PartArgs::default(), args.limits.limits())?;
    recordings.note_damage();
    let alignment = recordings.alignment();
    let names: Vec<String> = recordings.infos().iter().map(|info| info.host.clone()).collect();
    let table = Table::of(alignment, &names);
    if let Some(contradiction) = &table.contradiction {
        output::note(contradiction);
    }
    if let Some(path) = &args.plot {
        drawing::write(path, || plot::bounds(alignment, &names))?;
    }
    if args.json { output::json(&table) } else { output::text(&text::render(&table)) }
}
