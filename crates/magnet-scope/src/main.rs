//! magnet-scope: a software oscilloscope for the Linux network stack.
//!
//! `commands/` has one file per subcommand; shared parts (privileges, capture, the demo's hosts, argument
//! values) are next to it.

// A build without the window has code that only the window uses.
#![cfg_attr(not(feature = "gui"), allow(dead_code, unused_imports))]

mod agent;
mod capture;
mod cli;
mod commands;
mod config;
mod connect;
mod control;
mod day;
mod drawing;
mod failure;
mod files;
mod growing;
mod health;
mod heap;
mod help;
mod hosts;
mod joint;
mod live_source;
mod meters;
mod metrics;
mod missing;
mod namespaces;
mod output;
mod peer;
mod privileges;
mod recording;
mod recordings;
mod reporting;
mod screen;
mod sessions;
mod signals;
mod trigger;
mod unattended;
mod values;
mod via;
#[cfg(feature = "gui")]
mod window;
mod wrap;

use clap::FromArgMatches;
use std::process::ExitCode;

fn main() -> ExitCode {
    heap::give_peaks_back();
    match parsed().and_then(commands::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}

/// The command line with the values of the user's files. Help, version and usage errors end the program here.
fn parsed() -> anyhow::Result<cli::Cli> {
    let command = help::command();
    let words = config::Config::load()?.arguments(&command, std::env::args_os().collect())?;
    Ok(cli::Cli::from_arg_matches(&command.get_matches_from(words)).unwrap_or_else(|error| error.exit()))
}
