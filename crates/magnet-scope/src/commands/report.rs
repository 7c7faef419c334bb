//! `magnet-scope report DIR`: where the time went in a recording.

use crate::cli::SessionArgs;
use crate::{reporting, sessions};
use anyhow::Result;

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    session: SessionArgs,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Prints the report.
pub fn run(args: &Args) -> Result<()> {
    let session = sessions::open(&args.session.dir)?;
    reporting::print(&reporting::of(&mut session.replay(None, None))?, args.json)
}
