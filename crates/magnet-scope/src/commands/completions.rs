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
    if args.shell == Shell::Bash {
        // The labels take the hyphen of the name for a subcommand, and the states that lead to them do not.
        let text = String::from_utf8_lossy(&script).replace("magnet__subcmd__scope", "magnet__scope");
        script = text.into_bytes();
    }
    Ok(io::stdout().lock().write_all(&script)?)
}
