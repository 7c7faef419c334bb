//! Recording for months: a sequence of recordings with total limits, uploads, and a periodic line about losses.
//!
//! It joins a capture with the crates `session`, which writes one recording, and `ship`, which uploads closed
//! segments. It stays in the binary: neither crate may depend on the other's part, and only `record` uses it. What
//! each recording needs at its start is `session::Prefix`.

mod health;
mod names;
mod retention;
mod series;

pub use series::{OutputDirectory, Series};

use crate::failure::Usage;
use anyhow::Result;
use clap::Args;
use magscope_ship::Destination;
use std::time::Duration;

/// Options of an unattended recorder.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Unattended (docs/unattended.md)")]
pub struct UnattendedArgs {
    /// Start a new recording below DIR at this interval, named by its start time: `1d`
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::interval)]
    pub rotate: Option<Duration>,
    /// Maximum size of all recordings below DIR; the oldest are deleted: `20G`
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size::parse, requires = "rotate")]
    pub total_limit: Option<u64>,
    /// Copy closed segments to a directory, or to `s3://BUCKET/PREFIX` with AWS_* of the environment
    #[arg(long, value_name = "URL", value_parser = destination)]
    pub ship: Option<Destination>,
    /// Interval of the health lines: `1m`
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::interval)]
    pub health: Option<Duration>,
}

/// Parses an upload destination.
pub fn destination(text: &str) -> Result<Destination, String> {
    text.parse().map_err(|error: magscope_ship::ShipError| error.to_string())
}

impl UnattendedArgs {
    /// True if any option is set.
    pub fn is_asked_for(&self) -> bool {
        self.rotate.is_some() || self.ship.is_some() || self.health.is_some()
    }

    /// An error if any option is set: recordings of agents do not support them yet.
    pub fn not_of_agents(&self) -> Result<()> {
        if self.is_asked_for() {
            let what = "--rotate, --ship and --health are for recordings of this host; of agents' recordings `magnet-scope ship \
                        DIR URL` makes copies when they have ended";
            return Err(Usage(what.to_owned()).into());
        }
        Ok(())
    }
}
