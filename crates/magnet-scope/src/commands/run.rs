//! `magnet-scope run -- COMMAND`: what a command and its children do on the network, until it ends.
//!
//! The command is started before the probes are attached and waits until they are. So it keeps the rights that this
//! process gives up, and not one of its packets is missed. Its children are known by the scheduler's forks.

mod child;
mod tree;

use crate::cli::{CaptureArgs, LimitArgs, NetnsArgs};
use crate::commands::requests::{Collector, Found, Wanted, page};
use crate::failure::{Exit, Hint};
use crate::live_source::Live;
use crate::signals::Stop;
use crate::{capture, files, output, reporting};
use anyhow::Result;
use capture::CaptureDefaults;
use child::Child;
use magscope_core::foreign::clean;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, Hop};
use magscope_probe::default_hops;
use magscope_report::{Connections, Losses, Report, ReportBuilder, render_connections, render_losses};
use magscope_scope::format::short_duration;
use magscope_timeline::UtcMap;
use magscope_timeline::merged_reader::Piece;
use serde::Serialize;
use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
pub use tree::ProcessTree;

/// Maximum wait for data, the maximum delay of the command's end.
const PATIENCE: Duration = Duration::from_millis(20);

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: magnet-scope run -- curl -sS https://example.org/\n\n\
    The report goes to stderr, so that the command's own output can be used. The exit code is the command's.")]
pub struct Args {
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    netns: NetnsArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    wanted: Wanted,
    /// Under `sudo`, run the command as root and not as the user who called
    #[arg(long)]
    as_root: bool,
    /// Write the report to this file, not to stderr
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Arguments of the hidden subcommand that becomes the command.
#[derive(Debug, clap::Args)]
pub struct ChildArgs {
    /// File descriptor that is readable when the probes are attached
    #[arg(long)]
    gate: i32,
    /// File descriptor to write to if the command cannot be started
    #[arg(long)]
    failed: i32,
    /// See `run --as-root`
    #[arg(long)]
    as_root: bool,
    /// The command
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Waits for the probes and becomes the command.
pub fn become_command(args: &ChildArgs) -> Result<()> {
    child::become_command(args)
}

/// The report.
#[derive(Debug, Serialize)]
struct Outcome {
    /// The command line.
    command: String,
    /// Its exit code; 128 and the signal's number if a signal ended it.
    exit_code: u8,
    /// The number of the signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// Its duration, nanoseconds.
    duration_ns: u64,
    /// The captured beginning of its duration, nanoseconds, where `--duration` left out the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    captured_ns: Option<u64>,
    /// Its exchanges, as requester or as responder.
    #[serde(flatten)]
    found: Found,
    /// Attempts to connect and resets of all processes in the captured namespaces.
    connections: Connections,
    /// Events that the capture lost.
    losses: Losses,
}

/// Runs the command and reports.
pub fn run(args: &Args) -> Result<()> {
    let namespaces = capture::namespaces(&args.capture, &args.netns.netns)?;
    capture::check_privileges("run", namespaces.are_elsewhere())?;
    let interrupted = Stop::on_signals()?;
    let mut child = Child::start(&args.command, args.as_root)?;
    let mut hops = default_hops();
    hops.insert(Hop::SchedFork);
    let started = capture::start_with(&args.capture, namespaces, CaptureDefaults::of(hops))?;
    capture::drop_privileges()?;
    let stop = Stop::default();
    let live = Live::new(started, args.capture.duration, stop.clone());
    let info = live.info().clone();
    let (begin, pid) = (Instant::now(), child.pid());
    child.open()?;
    let mut source = UntilExit { live, child, stop, interrupted, duration: None, begin };
    let mut collector = Collector::new(&args.wanted, std::slice::from_ref(&info), Cow::Owned(UtcMap::new()))
        .only(ProcessTree::of(pid));
    let mut report = ReportBuilder::new(&info);
    let walked = reporting::walk(&mut source, args.limits.limits(), |piece| {
        collector.piece(&piece);
        match &piece {
            Piece::Batch(node, batch) => report.batch_of(*node, batch),
            Piece::Journey(journey, _, context) => report.journey(journey, *context),
        };
    })?;
    reporting::note_evicted(&walked);
    let captured = begin.elapsed();
    let (exit_code, signal) = source.child.wait()?;
    if source.child.never_began() {
        return Err(Exit(exit_code).into());
    }
    let captured_ns = source.duration.is_none().then_some(nanoseconds(captured));
    let duration = source.duration.unwrap_or_else(|| begin.elapsed());
    let Report { connections, losses, .. } = report.finish();
    let outcome = Outcome {
        command: shown(&args.command),
        exit_code,
        signal,
        duration_ns: nanoseconds(duration),
        captured_ns,
        found: collector.finish(),
        connections,
        losses,
    };
    args.print(&outcome)?;
    if exit_code == 0 { Ok(()) } else { Err(Exit(exit_code).into()) }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The command line for people.
fn shown(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    clean(&words.join(" ")).into_owned()
}

impl Args {
    fn print(&self, outcome: &Outcome) -> Result<()> {
        let text = if self.json {
            serde_json::to_string_pretty(outcome)? + "\n"
        } else {
            text(outcome, reporting::width())
        };
        let Some(path) = &self.output else {
            // Nothing can be done if stderr is closed.
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
            return Ok(());
        };
        let failed = |error: std::io::Error| output::could_not_write("the report", path, &error.to_string());
        let mut file = files::create(path).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)
    }
}

fn text(outcome: &Outcome, width: usize) -> String {
    let took = short_duration(outcome.duration_ns);
    let signal = outcome.signal.map_or_else(String::new, |number| format!(" (signal {number})"));
    let mut text = format!("\n{}: exit code {}{signal} after {took}\n", outcome.command, outcome.exit_code);
    if let Some(ns) = outcome.captured_ns {
        let captured = short_duration(ns);
        // Writing into a String cannot fail.
        let _ = writeln!(text, "captured: the first {captured}; what the command did later was not seen");
    }
    text.push('\n');
    if outcome.found.is_empty() {
        text.push_str("no request and no response of this command was seen\n");
    } else {
        text.push_str(&page(&outcome.found, width));
    }
    let connections = render_connections(&outcome.connections, width);
    if !connections.is_empty() {
        text.push_str("\nof all processes in these namespaces, meanwhile:\n");
        text.push_str(connections.trim_start_matches('\n'));
    }
    text + &render_losses(&outcome.losses)
}

/// A capture that ends with the command.
struct UntilExit {
    live: Live,
    child: Child,
    stop: Stop,
    interrupted: Stop,
    duration: Option<Duration>,
    begin: Instant,
}

impl Source for UntilExit {
    fn info(&self) -> &NodeInfo {
        self.live.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        if self.duration.is_none() && self.child.has_ended()? {
            self.duration = Some(self.begin.elapsed());
            self.stop.raise();
        }
        if self.interrupted.is_raised() {
            // The terminal's Ctrl-C reaches the command too; a signal to this process alone is passed on.
            self.child.interrupt();
        }
        self.live.next(batch, timeout.min(PATIENCE))
    }
}

/// The error of a command that cannot be started.
fn cannot_start(command: &OsString, error: std::io::Error) -> anyhow::Error {
    let name = clean(&command.to_string_lossy()).into_owned();
    let (because, next) = match error.kind() {
        std::io::ErrorKind::NotFound => ("there is no such program", "give its path"),
        _ => (
            "the file is no program, or the user of the command may not run it",
            "see its mode; under sudo, give `--as-root`",
        ),
    };
    let hint = Hint::new(format!("cannot start `{name}`"), because, next);
    anyhow::Error::new(error).context(hint)
}
