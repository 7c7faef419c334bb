//! One file per subcommand.

pub mod agent;
pub mod align;
pub mod compare;
pub mod completions;
pub mod config;
pub mod ctl;
pub mod demo;
pub mod demo_host;
pub mod doctor;
pub mod export;
#[cfg(feature = "gui")]
pub mod gui;
pub mod health;
pub mod hops;
pub mod import;
pub mod info;
pub mod journeys;
pub mod live;
pub mod man;
pub mod metrics;
pub mod mon;
#[cfg(feature = "query")]
pub mod query;
pub mod record;
pub mod relay;
pub mod replay;
pub mod report;
pub mod requests;
pub mod run;
pub mod sched;
pub mod ship;
pub mod supermon;

use crate::cli::{Cli, Command};
use crate::files;
use anyhow::Result;

/// Runs the requested command.
pub fn run(cli: Cli) -> Result<()> {
    files::set_mode(cli.mode);
    cli.command.unwrap_or(Command::Live(cli.live)).run()
}
