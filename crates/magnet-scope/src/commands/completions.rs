//! `magnet-scope completions SHELL`.

use crate::cli::Cli;
use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{self, Write};

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which shell
    shell: Shell,
}

/// Prints the completions.
pub fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "magnet-scope", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}
