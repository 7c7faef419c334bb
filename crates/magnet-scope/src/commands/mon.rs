//! `magnet-scope mon`: figures of this node in the protocol of Supermon's mon, many times per second.

use crate::capture;
use crate::cli::{CaptureArgs, LimitArgs, NetnsArgs};
use crate::live_source::Live;
use crate::metrics::{self, Answering, LocalHost, Nodes};
use crate::signals::Stop;
use anyhow::{Result, bail};
use magscope_core::source::Source;
use magscope_sensor::LatestSnapshot;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Arguments of `mon`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "magnet-scope mon --no-capture &\nprintf 's\\n' | nc -N 127.0.0.1 2709\ndocs/formats.md says what can be asked"
)]
pub struct Args {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:2709")]
    listen: SocketAddr,
    /// Allow an address that other hosts reach; there is no authentication
    #[arg(long)]
    unprotected: bool,
    /// Serve only the kernel's public counters, without a capture; needs no privilege
    #[arg(long)]
    no_capture: bool,
    /// Name of the node [default: the host's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    netns: NetnsArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Answers until a signal, or the end of `--duration`.
pub fn run(args: &Args) -> Result<()> {
    let listener = metrics::bind(args.listen, args.unprotected)?;
    let named = |host: &str| args.name.clone().unwrap_or_else(|| host.to_owned());
    if args.no_capture {
        let stop = Stop::on_signals()?;
        capture::drop_privileges()?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let server = metrics::answer_lines(listener, Nodes::Own(LocalHost::new(named(&host), None)))?;
        return wait(&server, args.capture.duration, &stop);
    }
    let namespaces = capture::namespaces(&args.capture, &args.netns.netns)?;
    capture::check_privileges("mon", namespaces.are_elsewhere())?;
    let stop = Stop::on_signals()?;
    let capture =
        capture::start_with(&args.capture, namespaces, capture::CaptureDefaults::of(super::metrics::hops()))?;
    let control = capture::bind();
    capture::drop_privileges()?;
    let live = Live::new(capture, args.capture.duration, stop).with_control(control);
    let board = Arc::new(LatestSnapshot::default());
    let own = LocalHost::new(named(&live.info().host), Some(board.clone()));
    let server = metrics::answer_lines(listener, Nodes::Own(own))?;
    metrics::local(live, args.limits.limits(), &board, &|| server.serves())
}

/// Waits for the end while requests are served.
pub fn wait(server: &Answering, duration: Option<Duration>, stop: &Stop) -> Result<()> {
    let end = duration.and_then(|duration| Instant::now().checked_add(duration));
    while !stop.is_raised() && end.is_none_or(|end| Instant::now() < end) {
        if !server.serves() {
            bail!("what answers has ended");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
