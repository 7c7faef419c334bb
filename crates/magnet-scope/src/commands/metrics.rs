//! `magnet-scope metrics`: counters and latencies of a capture, for Prometheus and other readers of
//! `OpenMetrics`.

use crate::capture;
use crate::cli::{CaptureArgs, LimitArgs, NetnsArgs};
use crate::connect::ConnectArgs;
use crate::live_source::Live;
use crate::metrics::{self, AllowedHosts, Collector, Pushing};
use crate::screen::Followed;
use crate::signals::Stop;
use anyhow::Result;
use magscope_core::Hop;
use magscope_core::hop::HopSet;
use magscope_probe::default_hops;
use magscope_sensor::LatestSnapshot;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `metrics`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "sudo magnet-scope metrics                       this host, at http://127.0.0.1:9464/metrics\n\
    magnet-scope metrics --connect web-1,web-2      agents' hosts, each figure with its host\n\
    docs/sensor.md says what each figure says, and what not"
)]
pub struct Args {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
    /// Allow an address that other hosts reach; there is no authentication
    #[arg(long)]
    unprotected: bool,
    /// Also answer requests for this host name, as sent by a proxy or scraper; can be given several times
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Also push to this OpenTelemetry collector on this host: `http://127.0.0.1:4317` (OTLP over gRPC)
    #[arg(long, value_name = "URL")]
    otlp: Option<Collector>,
    /// Interval of the pushes
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::interval, default_value = "10s", requires = "otlp")]
    otlp_every: Duration,
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    netns: NetnsArgs,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

impl Args {
    /// The push to a collector, if configured.
    fn pushing(&self, board: &Arc<LatestSnapshot>) -> Result<Option<Pushing>> {
        let every = self.otlp_every.max(Duration::from_secs(1));
        self.otlp.as_ref().map(|to| Pushing::start(to, every, board.clone())).transpose()
    }
}

/// The default hops, and the start of the device queue's delay.
pub fn hops() -> HopSet {
    default_hops().iter().chain([Hop::DevQueue]).collect()
}

/// Answers until a signal, or the end of `--duration`.
pub fn run(args: &Args) -> Result<()> {
    let listener = metrics::bind(args.listen, args.unprotected)?;
    let board = Arc::new(LatestSnapshot::default());
    let hosts = AllowedHosts::new(&args.allow_host);
    let limits = args.limits.limits();
    if args.connect.is_asked() {
        let stop = Stop::on_signals()?;
        let followed = Followed::connected(args.connect.open(&args.capture, &args.netns)?);
        let server = metrics::answer_http(listener, board.clone(), hosts)?;
        let _pushing = args.pushing(&board)?;
        let serves = || server.serves();
        return metrics::agents(followed, limits, args.capture.duration, &stop, &board, &serves);
    }
    let namespaces = capture::namespaces(&args.capture, &args.netns.netns)?;
    capture::check_privileges("metrics", namespaces.are_elsewhere())?;
    let stop = Stop::on_signals()?;
    let capture = capture::start_with(&args.capture, namespaces, capture::CaptureDefaults::of(hops()))?;
    let control = capture::bind();
    capture::drop_privileges()?;
    let live = Live::new(capture, args.capture.duration, stop).with_control(control);
    let server = metrics::answer_http(listener, board.clone(), hosts)?;
    let _pushing = args.pushing(&board)?;
    metrics::local(live, limits, &board, &|| server.serves())
}
