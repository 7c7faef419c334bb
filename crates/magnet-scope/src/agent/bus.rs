//! Options of an agent's publication on a bus.

use super::ListenArgs;
use crate::connect::explain;
use crate::output;
use crate::via::{Url, via};
use anyhow::Result;
use clap::Args;
use magscope_fleet::{Keep, Memory, Publisher, Via};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A bus to publish on.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Bus")]
pub struct BusArgs {
    /// Publish on this bus (NATS with `JetStream`), for viewers that say `--via`: `tls://bus:4222`, on this host `nats://127.0.0.1:4222`; with
    /// commas between servers of one cluster (docs/agents.md)
    #[arg(long, value_name = "URL,…", value_delimiter = ',')]
    via: Vec<Url>,
    /// A file of NATS credentials, where the bus wants some
    #[arg(long, value_name = "FILE", requires = "via")]
    via_creds: Option<PathBuf>,
    /// The name of this host there [default: its own]
    #[arg(long, value_name = "NAME", requires = "via")]
    via_name: Option<String>,
    /// How much the bus keeps of all hosts together, if this agent is the first to come
    #[arg(long, value_name = "SIZE", requires = "via", value_parser = crate::values::size::parse, default_value = "1GiB")]
    via_keep: u64,
    /// And no longer than this: `10m`
    #[arg(long, value_name = "TIME", requires = "via", value_parser = crate::values::duration::interval)]
    via_keep_for: Option<Duration>,
}

impl BusArgs {
    /// The bus, if requested. The host uses the same certificate as towards viewers.
    pub fn via(&self, listen: &ListenArgs) -> Result<Option<Via>> {
        if self.via.is_empty() {
            return Ok(None);
        }
        let credentials = || match listen.host_credentials("host")? {
            Some(credentials) => Ok(credentials),
            None => Err(crate::failure::Usage("`tls://` wants a certificate: `--tls DIR`".to_owned()).into()),
        };
        via(&self.via, self.via_creds.as_deref(), credentials).map(Some)
    }

    /// Starts to publish the memory.
    pub fn publish(&self, bus: &Via, memory: &Arc<Memory>) -> Result<Publisher> {
        let keep = Keep { bytes: self.via_keep, time: self.via_keep_for };
        let name = self.via_name.as_deref().unwrap_or(&memory.info().host);
        let publisher = Publisher::start(bus, memory, name, keep).map_err(explain)?;
        output::note(&format!("publishing as {name} at {}", bus.shown()));
        Ok(publisher)
    }
}
