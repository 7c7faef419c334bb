//! `magnet-scope man`: the manual pages, made from the command line's own definition.

use crate::cli::Cli;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write a file for each page to this folder instead
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints the page and one for every subcommand in one roff stream, or writes them to files.
pub fn run(args: &Args) -> Result<()> {
    let mut command = Cli::command();
    if let Some(folder) = &args.output {
        let cannot = || format!("cannot write the manual pages to {}", folder.display());
        fs::create_dir_all(folder).with_context(cannot)?;
        return clap_mangen::generate_to(command, folder).with_context(cannot);
    }
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        clap_mangen::Man::new(sub.clone())
            .title(format!("magnet-scope-{}", sub.get_name()))
            .render(&mut page)?;
    }
    Ok(io::stdout().lock().write_all(&page)?)
}
