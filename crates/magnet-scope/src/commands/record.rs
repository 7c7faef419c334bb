//! `magnet-scope record`: captures into a directory.

use crate::cli::{CaptureArgs, NetnsArgs};
use crate::live_source::Live;
use crate::recording::{Directory, Recorded};
use crate::signals::Stop;
use crate::trigger::{TriggerArgs, Watched};
use crate::{capture, namespaces, output};
use anyhow::Result;
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::source::{Progress, Source};
use magscope_session::RecordOptions;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `record`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory to record into; must not exist yet, or be empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    netns: NetnsArgs,
    #[command(flatten)]
    trigger: TriggerArgs,
    /// Delete the oldest part when the recording gets larger than this: `2G`
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size::parse)]
    size_limit: Option<u64>,
    /// Keep this many segments (of at most 256 MiB each), delete older ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Delete segments this long after their end: `7days`
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::parse)]
    keep_for: Option<Duration>,
    /// Begin a new segment this often at the least: `10m`
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::parse)]
    segment_time: Option<Duration>,
}

/// Records until Ctrl-C or the end of `--duration`.
pub fn run(args: &Args) -> Result<()> {
    let namespaces = namespaces::find(&args.netns.netns)?;
    capture::check_privileges("record", namespaces.are_elsewhere())?;
    let stop = Stop::on_signals()?;
    let directory = Directory::prepare(&args.output)?;
    let kept = args.trigger.prepare()?;
    let capture = capture::start(&args.capture, namespaces)?;
    let control = capture::bind();
    capture::drop_privileges()?;
    let live = Live::new(capture, args.capture.duration, stop).with_control(control);
    let options = RecordOptions {
        size_limit_bytes: args.size_limit,
        keep_segments: args.keep,
        keep_for: args.keep_for,
        segment_time: args.segment_time,
        ..RecordOptions::default()
    };
    let recorded = Recorded::new(live, directory, options)?;
    let mut watched = Watched::new(recorded, kept, &args.trigger, Limits::default())?;
    let until = if args.capture.duration.is_some() { "" } else { "; Ctrl-C ends it" };
    output::note(&format!("recording into {}{until}", args.output.display()));
    let mut batch = Batch::default();
    let drained = loop {
        match watched.next(&mut batch, Duration::from_secs(1)) {
            Ok(Progress::More) => {}
            Ok(Progress::End) => break Ok(()),
            Err(error) => break Err(anyhow::Error::from_boxed(error)),
        }
    };
    // What went wrong first is what is worth telling.
    let closed = watched.into_inner().close();
    drained.and(closed)
}
