//! `magnet-scope ship DIR URL`: uploads existing recordings.

use crate::failure::Hint;
use crate::output;
use crate::unattended::destination;
use anyhow::{Context, Result};
use magscope_scope::format::counted;
use magscope_ship::{Destination, LocalStore, ship};
use std::path::PathBuf;

/// Arguments of `ship`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A recording, or a directory with recordings
    dir: PathBuf,
    /// Destination: a directory, or `s3://BUCKET/PREFIX`
    #[arg(value_name = "URL", value_parser = destination)]
    to: Destination,
}

/// Uploads the files that have not been uploaded.
pub fn run(args: &Args) -> Result<()> {
    let local_store = if args.dir.join(magscope_session::META).is_file() {
        LocalStore::One(args.dir.clone())
    } else {
        LocalStore::Below { dir: args.dir.clone(), ours: |_| true }
    };
    let local = local_store.recordings()?;
    if local.is_empty() {
        return Err(Hint::error(
            format!("there is no recording in {}", args.dir.display()),
            "",
            "give the directory that `magnet-scope record` made, or one that has such directories in it",
        ));
    }
    let status = ship(&args.to, local_store, output::note).with_context(|| {
        Hint::new(
            format!("not all could be shipped to {}", args.to),
            "",
            "what has arrived stays there; the same command goes on where it was",
        )
    })?;
    output::note(&format!(
        "{} with {} bytes shipped to {}",
        counted(status.segments, "segment", "segments"),
        status.bytes,
        args.to
    ));
    Ok(())
}
