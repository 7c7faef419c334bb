//! Unattended recording: a sequence of recordings with uploads and a health line.

use super::Args;
use crate::failure::Usage;
use crate::live_source::Live;
use crate::signals::Stop;
use crate::trigger::Watch;
use crate::unattended::{OutputDirectory, Series};
use crate::{capture, output};
use anyhow::Result;
use magscope_core::journey::Limits;
use magscope_core::source::Source;
use std::time::Duration;

/// Only closed segments are uploaded, so segments must close even at low load.
const SEGMENT_TIME: Duration = Duration::from_mins(10);

/// Records until Ctrl-C or the end of `--duration`.
pub fn run(args: &Args) -> Result<()> {
    if args.unattended.rotate.is_some_and(|every| every < Duration::from_secs(1)) {
        return Err(Usage("--rotate: a recording takes a second at the least".to_owned()).into());
    }
    let namespaces = capture::namespaces(&args.capture, &args.netns.netns)?;
    capture::check_privileges("record", namespaces.are_elsewhere())?;
    let stop = Stop::on_signals()?;
    let ground = OutputDirectory::prepare(&args.output)?;
    let prepared = args.trigger.prepare()?;
    let capture = capture::start(&args.capture, namespaces)?;
    let control = capture::bind();
    capture::drop_privileges()?;
    let live = Live::new(capture, args.capture.duration, stop).with_control(control);
    let watch = Watch::new(prepared, &args.trigger, Limits::default(), live.info())?;
    let mut options = args.options();
    if args.unattended.ship.is_some() {
        options.segment_time.get_or_insert(SEGMENT_TIME);
    }
    let mut watched = watch.over(Series::begin(live, ground, options, &args.unattended)?);
    let until = if args.capture.duration.is_some() { "" } else { "; Ctrl-C ends it" };
    output::note(&format!("recording into {}{until}", args.output.display()));
    let drained = super::drain(&mut watched);
    // The first error is the relevant one.
    let closed = watched.end().close();
    drained.and(closed)
}
