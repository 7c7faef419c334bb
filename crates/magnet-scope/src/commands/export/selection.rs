//! Export of a part of recordings selected in the window.

use super::format::Format;
use super::{Args, ExportFeed, target};
use crate::cli::{LimitArgs, PartArgs, SessionsArgs};
use crate::failure::Cancelled;
use crate::recordings::Recordings;
use anyhow::{Context, Result};
use magscope_core::Filter;
use magscope_export::TimeLine;
use magscope_export::format::pcapng::WIRE;
use magscope_scope::format::{bytes, count};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Exports a part of recordings for other commands. `watch` receives the progress, 0 to 1, and returns false to
/// cancel. Returns a message.
pub fn write(
    dirs: Vec<PathBuf>,
    part: PartArgs,
    filter: Option<Filter>,
    format: Format,
    output: &Path,
    watch: &dyn Fn(f64) -> bool,
) -> Result<String> {
    let args = Args {
        strict: false,
        sessions: SessionsArgs { dirs },
        format: Some(format),
        part,
        output: output.to_owned(),
        tables: Vec::new(),
        filter,
        limits: LimitArgs { max_in_flight: magscope_core::Limits::default().max_pieces as u32 },
        hops: WIRE.to_vec(),
        every: None,
        buckets: false,
        compress: None,
        replace: false,
        follow: false,
    };
    let began = Instant::now();
    let target = args.target(format, &args.chosen())?;
    let limits = args.limits.limits();
    let recordings = Recordings::open(&args.sessions.dirs, part, limits)?;
    let (about, line) = (recordings.about(), TimeLine { to_utc_ns: recordings.to_utc_ns() });
    let writer = format.writer(&target, recordings.infos(), line, args.chosen(), &about, &args);
    let mut fed = ExportFeed::new(writer.with_context(|| target::cannot(output))?, format);
    let (all, read) = (recordings.events_shown().max(1.0), RefCell::new(0.0));
    let failed = RefCell::new(&mut fed);
    let wanted = RefCell::new(true);
    recordings.walk_watched(
        limits,
        &|batch| {
            *read.borrow_mut() += batch.events.len() as f64;
            *wanted.borrow_mut() = watch(*read.borrow() / all);
            *wanted.borrow() && failed.borrow().error.is_none()
        },
        |piece| failed.borrow_mut().piece(&piece),
    )?;
    if !*wanted.borrow() {
        return Err(Cancelled("cancelled; nothing was written".to_owned()).into());
    }
    recordings.note_damage();
    let written = fed.finish().map_err(|error| target::failed(output, error))?;
    let size = target.commit()?.unwrap_or(0);
    let rows: Vec<String> = written.rows.iter().map(|(what, n)| format!("{} {what}", count(*n))).collect();
    let rows = if rows.is_empty() { "nothing".to_owned() } else { rows.join(", ") };
    Ok(format!(
        "{}: {rows}; {} in {:.1} s",
        output.display(),
        bytes(size).trim(),
        began.elapsed().as_secs_f64()
    ))
}
