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
mod connect;
mod control;
mod drawing;
mod failure;
mod files;
mod growing;
mod health;
mod heap;
mod hosts;
mod joint;
mod live_source;
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

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    heap::give_peaks_back();
    match commands::run(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
