//! `magnet-scope man`: the manual page, made from the command line's own definition.

use crate::cli::Cli;
use anyhow::Result;
use clap::CommandFactory;
use std::io::{self, Write};

/// Prints the page and one for every subcommand, in one roff stream.
pub fn run() -> Result<()> {
    let mut command = Cli::command();
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
