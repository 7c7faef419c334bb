//! `magnet-scope supermon`: queries many mons and answers as one.

use super::mon::wait;
use crate::capture;
use crate::metrics::{self, Nodes, Upstream};
use crate::signals::Stop;
use anyhow::Result;
use std::net::SocketAddr;
use std::time::Duration;

/// Arguments of `supermon`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "magnet-scope supermon web-1:2709 web-2:2709 relay:2710   supermons can be asked as mons can"
)]
pub struct Args {
    /// Addresses of mons and supermons
    #[arg(value_name = "HOST:PORT", required = true, num_args = 1..=1024, value_parser = upstream)]
    ask: Vec<String>,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:2710")]
    listen: SocketAddr,
    /// Allow an address that other hosts reach; there is no authentication
    #[arg(long)]
    unprotected: bool,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::parse)]
    duration: Option<Duration>,
}

fn upstream(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    let shown: String = text.chars().take(80).collect();
    match port {
        Some(Ok(_)) => Ok(text.to_owned()),
        _ => Err(format!("`{shown}` has no port; write for instance `{shown}:2709`")),
    }
}

/// Answers until a signal, or the end of `--duration`.
pub fn run(args: &Args) -> Result<()> {
    let listener = metrics::bind(args.listen, args.unprotected)?;
    let stop = Stop::on_signals()?;
    capture::drop_privileges()?;
    let others = args.ask.iter().map(|address| Upstream::new(address.clone())).collect();
    let server = metrics::answer_lines(listener, Nodes::Others(others))?;
    wait(&server, args.duration, &stop)
}
