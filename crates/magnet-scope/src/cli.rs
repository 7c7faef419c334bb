//! The command line.

#[cfg(feature = "query")]
use crate::commands::query;
use crate::commands::{
    agent, align, compare, completions, config, ctl, demo, demo_host, doctor, export, health, hops, import,
    info, journeys, live, man, metrics, mon, record, relay, replay, report, requests, run, sched, ship,
    supermon,
};
use crate::values::budget::Budget;
use crate::values::hops::HopSelection;
use crate::values::instant::Instant;
use clap::{Args, Parser, Subcommand};
use magscope_core::journey::Limits;
use magscope_core::node::Backend;
use magscope_core::{CaptureFilter, CustomProbe};
use magscope_probe::{Detail, RingKind, Setting};
use std::path::PathBuf;
use std::time::Duration;

/// A software oscilloscope for the Linux network stack: follows packets hop by hop and shows where the time went.
///
/// Without a subcommand it captures this host's own traffic until q or Ctrl-C (the same as `live`).
#[derive(Debug, Parser)]
#[command(name = "magnet-scope", version, args_conflicts_with_subcommands = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Mode of written files, in octal: `640` lets the group read
    #[arg(long, global = true, value_name = "MODE", default_value = "600", value_parser = crate::files::parse_mode)]
    pub mode: u32,
    /// Without a subcommand: `live`.
    #[command(flatten)]
    pub live: live::Args,
}

/// The subcommands, one file each.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show a demo: two network namespaces on this machine with real traffic between them
    Demo(demo::Args),
    /// Capture this host's own traffic (the default without a subcommand)
    Live(live::Args),
    /// Run a command, and report what it and its children did on the network
    Run(Box<run::Args>),
    /// Capture into a directory, without a screen
    Record(record::Args),
    /// Copy recordings to a directory or a bucket; files that are there already are skipped
    Ship(ship::Args),
    /// Play a recording on the screen, or report on a part of it
    Replay(replay::Args),
    /// Capture permanently, hold the last minutes, and serve them to viewers on other hosts
    Agent(agent::Args),
    /// Read agents, and serve their data to viewers
    Relay(relay::Args),
    /// Check the network of this host; print JSON and set the exit code, for batch systems
    Health(Box<health::Args>),
    /// Serve metrics to Prometheus: counters and histograms of this host or of agents
    Metrics(Box<metrics::Args>),
    /// Serve this node's figures by Supermon's mon protocol: s-expressions, many times a second
    Mon(Box<mon::Args>),
    /// Collect the figures of many mons, and serve them as one
    Supermon(supermon::Args),
    /// Show recordings or this host in a window, with one time line across client and server
    #[cfg(feature = "gui")]
    Gui(Box<crate::commands::gui::Args>),
    /// Describe a recording: host, time, coverage, losses, damage
    Info(info::Args),
    /// Report on a recording: where the time went, hop by hop
    Report(report::Args),
    /// List requests and responses of a recording by service, and where the time of the slowest went
    Requests(requests::Args),
    /// List the slowest journeys of a recording, or those that match
    Journeys(journeys::Args),
    /// Write a recording in a format of other tools: Parquet, CSV, JSON lines, ULM
    Export(export::Args),
    /// Convert another tool's log to a recording: `NetLogger`'s ULM and BP lines, `MAGNeT`'s binary traces
    Import(import::Args),
    /// Query recordings in SQL: `SELECT hop, percentile(latency_ns, 99) FROM hops GROUP BY hop`
    #[cfg(feature = "query")]
    Query(query::Args),
    /// Compare recordings: steps that became slower or faster, with confidence intervals
    Compare(compare::Args),
    /// Inspect and change a running capture: hops, filter, sampling
    Ctl(ctl::Args),
    /// Measure the time of task switches on this machine, per CPU and over time
    Sched(sched::Args),
    /// Compute the clock differences of several recordings, with bounds and their basis
    Align(align::Args),
    /// Check what this host can capture, what it cannot, and why
    Doctor(doctor::Args),
    /// List the hops, the places where events are taken
    Hops(hops::Args),
    /// Show the files with defaults of options, and what they set
    Config(config::Args),
    /// Run one of the demo's two hosts
    #[command(hide = true)]
    DemoHost(demo_host::Args),
    /// Become the command of `run`
    #[command(hide = true)]
    RunChild(run::ChildArgs),
    /// Print the manual page (roff), or write all pages to a folder
    #[command(hide = true)]
    Man(man::Args),
    /// Print completions for a shell
    #[command(hide = true)]
    Completions(completions::Args),
}

impl Command {
    /// Runs the subcommand.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Demo(args) => demo::run(&args),
            Self::Live(args) => live::run(&args),
            Self::Run(args) => run::run(&args),
            Self::RunChild(args) => run::become_command(&args),
            Self::Record(args) => record::run(&args),
            Self::Ship(args) => ship::run(&args),
            Self::Replay(args) => replay::run(&args),
            Self::Agent(args) => agent::run(&args),
            Self::Relay(args) => relay::run(&args),
            Self::Health(args) => health::run(&args),
            Self::Metrics(args) => metrics::run(&args),
            Self::Mon(args) => mon::run(&args),
            Self::Supermon(args) => supermon::run(&args),
            #[cfg(feature = "gui")]
            Self::Gui(args) => crate::commands::gui::run(&args),
            Self::Info(args) => info::run(&args),
            Self::Report(args) => report::run(&args),
            Self::Requests(args) => requests::run(&args),
            Self::Journeys(args) => journeys::run(&args),
            Self::Export(args) => export::run(&args),
            Self::Import(args) => import::run(&args),
            #[cfg(feature = "query")]
            Self::Query(args) => query::run(&args),
            Self::Compare(args) => compare::run(&args),
            Self::Ctl(args) => ctl::run(&args),
            Self::Sched(args) => sched::run(&args),
            Self::Align(args) => align::run(&args),
            Self::Config(args) => config::run(&args),
            Self::Doctor(args) => doctor::run(&args),
            Self::Hops(args) => hops::run(&args),
            Self::DemoHost(args) => demo_host::run(&args),
            Self::Man(args) => man::run(&args),
            Self::Completions(args) => completions::run(&args),
        }
    }
}

/// Options of every capture.
#[derive(Clone, Debug, Args)]
pub struct CaptureArgs {
    /// Hops: `default`, `all`, names (`dev.xmit,dev.recv`) or changes (`+tcp.state,-ip.post`)
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, default_value = "default")]
    pub hops: HopSelection,
    /// Use only this kind of probe; hops that it cannot serve are left out and listed
    /// [default: for each hop the cheapest that works]
    #[arg(long, value_name = "KIND", value_parser = crate::values::backend::parser())]
    pub backend: Option<Backend>,
    /// Clock of the events: `monotonic`, or `tsc`, the processor's time stamp counter, if the kernel allows it
    #[arg(long, value_name = "CLOCK", value_enum, default_value_t)]
    pub clock: StampClock,
    /// End after this time: `10s`, `1m30s`
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::parse)]
    pub duration: Option<Duration>,
    /// Ring size per CPU, for unread events (rounded up to a power of two)
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size::ring, default_value = "8MiB")]
    pub ring_size: u64,
    /// Rings for unread events: `mapped`, in memory shared with the probes, or `kernel`, ring buffers of the kernel,
    /// which cost the traffic more [default: mapped from Linux 5.17 on, else kernel]
    #[arg(long, value_name = "KIND", value_enum)]
    pub ring: Option<Ring>,
    /// Record only events that match: `port 443 and not comm = sshd` (docs/filters.md)
    #[arg(long, value_name = "EXPR", value_parser = filter)]
    pub filter: Option<CaptureFilter>,
    /// Record only packets that match a pcap expression: `tcp port 443 and net 10.0.0.0/8`. With `--filter` both must
    /// match (docs/filters.md)
    #[arg(long, value_name = "EXPR", value_parser = pcap)]
    pub pcap: Option<String>,
    /// Record the first bytes of payload: `64` at every hop with a packet, or `dev.recv=128`; none by default; can
    /// be given several times
    #[arg(long, value_name = "[HOP=]BYTES", value_parser = snapping)]
    pub snap: Vec<Setting>,
    /// Record only processes of this container: its name, its id or six of its first characters, or a cgroup's path.
    /// Without `--netns`, its network namespaces are captured too
    #[arg(long, value_name = "NAME|ID|PATH")]
    pub container: Option<String>,
    /// Record only processes of this pod, likewise: `shop/web-7f9c`
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub pod: Option<String>,
    /// Record only processes of this unit of systemd, likewise: `nginx.service`
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// Sample: `1/100` or one event each `10ms`, also with hops (`1/100 dev.xmit`), or whole flows: `flows 1/16`
    #[arg(long, value_name = "HOW", value_parser = sampling)]
    pub sample: Vec<Setting>,
    /// Detail of an event: `full`; `histograms` for times and packets that the kernel adds up, without records; `both`
    /// (docs/filters.md). `ctl detail` changes it
    #[arg(long, value_name = "HOW", value_parser = detail)]
    pub detail: Option<Detail>,
    /// Add a custom probe that reads values: `fentry:tcp_rcv_established after=tcp.recv skb->len`
    /// (docs/probes.md); can be given several times
    #[arg(long, value_name = "PLACE", value_parser = probe)]
    pub probe: Vec<CustomProbe>,
    /// Maximum share of all CPUs and of the busiest one. Above it the capture records less, step by step down to
    /// histograms, and more again later; each step is reported. `off` for none (docs/overhead.md) [default: off; agents 2%]
    #[arg(long, value_name = "PART", value_parser = crate::values::budget::parse)]
    pub max_overhead: Option<Budget>,
    /// Wake the reader at every event, at a cost to the traffic
    #[arg(long, conflicts_with = "bulk")]
    pub latency: bool,
    /// Wake the reader as seldom as memory allows, for recording at the least cost
    #[arg(long)]
    pub bulk: bool,
}

/// The kind of rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Ring {
    /// In memory shared with the probes
    Mapped,
    /// Ring buffers of the kernel
    Kernel,
}

impl From<Ring> for RingKind {
    fn from(ring: Ring) -> Self {
        match ring {
            Ring::Mapped => RingKind::Mapped,
            Ring::Kernel => RingKind::Kernel,
        }
    }
}

/// The clock that events carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum StampClock {
    /// `CLOCK_MONOTONIC`
    #[default]
    Monotonic,
    /// The time stamp counter
    Tsc,
}

fn filter(text: &str) -> Result<CaptureFilter, String> {
    CaptureFilter::parse(text).map_err(|error| error.to_string())
}

/// Parses a custom probe.
pub fn probe(text: &str) -> Result<CustomProbe, String> {
    text.parse().map_err(|error: magscope_core::custom::BadProbe| error.to_string())
}

fn pcap(text: &str) -> Result<String, String> {
    magscope_probe::pcap::compile(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn snapping(text: &str) -> Result<Setting, String> {
    format!("snap {text}").parse().map_err(|error: magscope_probe::setting::BadSetting| error.to_string())
}

fn sampling(text: &str) -> Result<Setting, String> {
    format!("sample {text}").parse().map_err(|error: magscope_probe::setting::BadSetting| error.to_string())
}

fn detail(text: &str) -> Result<Detail, String> {
    match format!("detail {text}").parse() {
        Ok(Setting::Detail(detail)) => Ok(detail),
        Ok(_) => Err("that is another setting".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whose traffic.
#[derive(Clone, Debug, Default, Args)]
pub struct NetnsArgs {
    /// Network namespace: a name, a process id, a path, `all` or `host`; can be given several times
    /// [default: the current namespace]
    #[arg(long, value_name = "NAME|PID|PATH|all|host")]
    pub netns: Vec<String>,
}

/// Recordings to read together.
#[derive(Clone, Debug, Args)]
pub struct SessionsArgs {
    /// Directories of `magnet-scope record`; several, one per host, share one time line
    #[arg(value_name = "DIR", required = true, num_args = 1..=64)]
    pub dirs: Vec<PathBuf>,
}

/// Which part of a recording.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct PartArgs {
    /// Start time: an offset from the first event (`1.5s`) or a time in UTC (`2026-01-31T12:00:00Z`)
    #[arg(long, value_name = "T")]
    pub from: Option<Instant>,
    /// End time
    #[arg(long, value_name = "T")]
    pub until: Option<Instant>,
}

/// How much is kept of what has not ended.
#[derive(Clone, Copy, Debug, Args)]
pub struct LimitArgs {
    /// Maximum number of journeys in flight, about 500 bytes of memory each; beyond it the oldest are counted as
    /// evicted
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_pieces as u32, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_in_flight: u32,
}

impl LimitArgs {
    /// The correlator's limits.
    pub fn limits(self) -> Limits {
        Limits { max_pieces: self.max_in_flight as usize, ..Limits::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_subcommand_is_live_with_its_options() {
        let cli =
            Cli::parse_from(["magnet-scope", "--hops", "-ip.post", "--netns", "host", "--duration", "2s"]);
        assert!(cli.command.is_none());
        assert_eq!(cli.live.netns.netns, ["host"]);
        assert_eq!(cli.live.capture.duration, Some(Duration::from_secs(2)));
    }
}
