//! `magnet-scope sched`: the duration of context switches, idle and under load.
//!
//! Figures 2 and 3 of the paper of 2003: switch duration over time, a line per CPU, on an idle machine and next
//! to a busy process.

mod busy;
mod plot;
mod text;

use crate::drawing::{self, Format};
use crate::failure::{Hint, Usage};
use crate::live_source::Live;
use crate::signals::Stop;
use crate::{capture, files, output};
use anyhow::Result;
use busy::Busy;
use magscope_core::hop::HopSet;
use magscope_core::node::Service;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Hop};
use magscope_probe::clock::monotonic_ns;
use magscope_probe::{Capture, CaptureOptions};
use magscope_report::switches::{Row, Switches};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `sched`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "For example, first idle and then beside one busy task, drawn and as a table of windows:\n  \
    magnet-scope sched --duration 10s --busy 1 --plot switches.svg --csv -"
)]
pub struct Args {
    /// Duration of the measurement; twice that with `--busy`
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::parse, default_value = "10s")]
    duration: Duration,
    /// Measure again beside this number of tasks that use the CPU without pause
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1024))]
    busy: u16,
    /// Window of the averages
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::positive, default_value = "100ms")]
    window: Duration,
    /// Plot the averages over time to this file (`.svg` or `.png`)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write the windows as CSV to this file; `-` is stdout, in place of the table
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    csv: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// More windows indicate a typing error.
const MOST_WINDOWS: u128 = 100_000;

/// One measurement.
#[derive(Debug, Serialize)]
pub struct Phase {
    /// Name.
    name: String,
    /// Duration, seconds.
    seconds: f64,
    /// Tasks that were made.
    forks: u64,
    /// Tasks that ended.
    exits: u64,
    /// Unmeasured switches, because the kernel does not trace the previous task.
    unmeasured: u64,
    /// One row per CPU.
    cpus: Vec<Row>,
    /// One row per window and CPU.
    windows: Vec<Row>,
}

/// Captures, and prints.
pub fn run(args: &Args) -> Result<()> {
    let windows = args.duration.as_nanos().checked_div(args.window.as_nanos());
    if !windows.is_some_and(|windows| (1..=MOST_WINDOWS).contains(&windows)) {
        let what = format!("--duration must hold at least one --window, and {MOST_WINDOWS} at most");
        return Err(Usage(what).into());
    }
    args.plot.as_deref().map(Format::of).transpose()?;
    capture::check_privileges("sched", false)?;
    let stop = Stop::on_signals()?;
    let hops: HopSet = [Hop::SchedSwitched, Hop::SchedFork, Hop::SchedExit].into_iter().collect();
    let capture =
        Capture::start(CaptureOptions { hops, ..CaptureOptions::default() }).map_err(capture::explain)?;
    if let Some(Service::Missing { because }) = capture.info().coverage.of(Hop::SchedSwitched) {
        return Err(Hint::error(
            format!("no switch can be measured here: {because}"),
            "it takes the tracepoint sched_exit_tp (Linux 6.16) or kprobes",
            "`--hops +sched.switch` with `record` still records who ran when",
        ));
    }
    capture::drop_privileges()?;
    let mut live = Live::new(capture, None, stop.clone());
    let mut phases = vec![look(&mut live, &stop, args, "as it was".to_owned())?];
    if args.busy > 0 && !stop.is_raised() {
        let busy = Busy::start(args.busy)?;
        phases.push(look(&mut live, &stop, args, format!("beside {}", busy.name()))?);
    }
    drop(live);
    if let Some(path) = &args.plot {
        drawing::write(path, || plot::switches(&phases))?;
    }
    match &args.csv {
        Some(path) if path == Path::new("-") => return output::text(&text::csv(&phases)),
        Some(path) => write(path, "the windows", &text::csv(&phases))?,
        None => {}
    }
    if args.json { output::json(&phases) } else { output::text(&text::table(&phases)) }
}

fn write(path: &Path, what: &str, contents: &str) -> Result<()> {
    files::write(path, contents).map_err(|e| output::could_not_write(what, path, &format!("{e:#}")))
}

/// Sums the events within the duration.
fn look(live: &mut Live, stop: &Stop, args: &Args, name: String) -> Result<Phase> {
    let from_ns = monotonic_ns();
    let to_ns = from_ns.saturating_add(u64::try_from(args.duration.as_nanos()).unwrap_or(u64::MAX));
    let window_ns = u64::try_from(args.window.as_nanos()).unwrap_or(u64::MAX);
    let mut switches = Switches::new(from_ns, window_ns);
    let mut batch = Batch::default();
    let (mut seen_ns, mut lost) = (from_ns, 0);
    let before = live.undecided(Hop::SchedSwitched)?;
    while seen_ns < to_ns && !stop.is_raised() {
        let progress = live.next(&mut batch, Duration::from_millis(100)).map_err(anyhow::Error::from_boxed)?;
        // events before or after the measurement are excluded
        let within = |time_ns: u64| (from_ns..to_ns).contains(&time_ns);
        batch.events.iter().filter(|e| within(e.time_ns)).for_each(|event| switches.push(event));
        lost = batch.lost().saturating_add(lost);
        seen_ns = batch.watermark_ns;
        if progress == Progress::End {
            break;
        }
    }
    if lost > 0 {
        output::note(&format!("{lost} events MISSED {name}: the figures are of those that were seen"));
    }
    let unmeasured = live.undecided(Hop::SchedSwitched)?.saturating_sub(before);
    if unmeasured > 0 {
        output::note(&format!(
            "{unmeasured} switches {name} could not be measured: this kernel traces nothing of the tasks that were left"
        ));
    }
    Ok(Phase {
        name,
        seconds: (seen_ns.min(to_ns).saturating_sub(from_ns)) as f64 / 1e9,
        forks: switches.forks,
        exits: switches.exits,
        unmeasured,
        cpus: switches.by_cpu(),
        windows: switches.windows().to_vec(),
    })
}
