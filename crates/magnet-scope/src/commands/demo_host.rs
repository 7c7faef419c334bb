//! `magnet-scope demo-host`: one of the demo's two hosts; started by `demo`, not by people.

use crate::hosts::{Role, traffic};
use anyhow::Result;

/// Arguments of `demo-host`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The host to run
    #[arg(long)]
    role: Role,
    /// Process that started this one; this one ends with it
    #[arg(long)]
    parent: u32,
}

/// Plays the host.
pub fn run(args: &Args) -> Result<()> {
    traffic::run(args.role, args.parent)
}
