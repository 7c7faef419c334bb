//! One capture with a sequence of recordings.
//!
//! The capture never stops: the writer changes between two batches. The new recording starts before the old one
//! ends, and a separate thread closes the old one, so that nothing waits for a disk.

use super::UnattendedArgs;
use super::health::{Health, Tally, left, rest};
use super::names;
use super::retention::{Limits, Retention};
use crate::output;
use crate::recording::{Directory, last_line};
use crate::screen::Feed;
use anyhow::{Context, Result, anyhow};
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_scope::Budget;
use magscope_session::{
    OnFullDisk, Prefix, RecordOptions, Recorder, RecorderStatus, RecorderWatch, SessionError, Shipped, Summary,
};
use magscope_ship::{LocalStore, Shipper};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval of checks for rotation and health.
const LOOK: Duration = Duration::from_millis(200);

/// Pause after a recording failed to start; the previous one continues.
const PAUSE: Duration = Duration::from_mins(1);

/// Maximum time for uploads at the end.
const FINISH: Duration = Duration::from_mins(1);

/// Target directory: prepared with all privileges, used without.
pub struct OutputDirectory {
    directory: Directory,
    /// Canonical path, so that the uploader finds the same names.
    dir: PathBuf,
}

impl OutputDirectory {
    /// Makes the directory if it is not there.
    pub fn prepare(path: &Path) -> Result<Self> {
        let directory = Directory::prepare(path)?;
        let dir = fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()))?;
        Ok(OutputDirectory { directory, dir })
    }
}

/// The current recording.
struct Current {
    recorder: Recorder,
    dir: PathBuf,
    /// Segments that it had deleted for room when this was last looked at.
    deleted_for_room: u32,
}

/// A recording that is being closed.
struct Closing {
    thread: JoinHandle<(Result<Summary, SessionError>, RecorderStatus)>,
    watch: RecorderWatch,
    name: String,
}

/// Components that track running recordings.
struct Links {
    shipper: Option<Arc<Shipper>>,
    retention: Option<Arc<Retention>>,
}

impl Links {
    /// Reports a recording as closed.
    fn ended(&self, dir: &Path) {
        if let Some(shipper) = &self.shipper {
            shipper.ended(dir);
        }
        if let Some(retention) = &self.retention {
            retention.ended(dir);
        }
    }
}

/// A source whose batches are recorded in passing.
pub struct Series<S> {
    inner: S,
    ground: OutputDirectory,
    options: RecordOptions,
    rotate: Option<Duration>,
    next_at: Option<Instant>,
    shipper: Option<Arc<Shipper>>,
    retention: Option<Arc<Retention>>,
    current: Option<Current>,
    closing: Option<Closing>,
    prefix: Prefix,
    /// Totals of the source and of closed recordings.
    tally: Tally,
    /// The error of the first recording that failed to close.
    failed: Option<anyhow::Error>,
    was_disk_full: bool,
    /// The next recording found no room for its first file.
    has_no_room: bool,
    health: Option<Health>,
}

impl<S: Source> Series<S> {
    /// Starts the first recording. Called after privileges are dropped.
    pub fn begin(
        inner: S,
        ground: OutputDirectory,
        mut options: RecordOptions,
        args: &UnattendedArgs,
    ) -> Result<Self> {
        ground.directory.check()?;
        options.on_full_disk = OnFullDisk::Wait;
        let rotates = args.rotate.is_some();
        if let Some(total) = args.total_limit {
            // The current recording itself obeys the limit when all others are deleted.
            options.size_limit_bytes = Some(options.size_limit_bytes.map_or(total, |limit| limit.min(total)));
        }
        let shipper = args.ship.as_ref().map(|destination| {
            let dir = ground.dir.clone();
            let store =
                if rotates { LocalStore::Below { dir, ours: names::is_ours } } else { LocalStore::One(dir) };
            Shipper::start(destination, store, |news: &str| output::note(news)).map(Arc::new)
        });
        let mut series = Series {
            inner,
            ground,
            options,
            rotate: args.rotate,
            next_at: None,
            shipper: shipper.transpose()?,
            retention: None,
            current: None,
            closing: None,
            prefix: Prefix::default(),
            tally: Tally::default(),
            failed: None,
            was_disk_full: false,
            has_no_room: false,
            health: args.health.map(Health::new),
        };
        let first = series.open()?;
        // Nothing is deleted if the first recording fails to start.
        if rotates && (args.total_limit.is_some() || series.options.keep_for.is_some()) {
            let limits = Limits {
                dir: series.ground.dir.clone(),
                total: args.total_limit,
                keep_for: series.options.keep_for,
                shipped_to: args.ship.as_ref().map(ToString::to_string),
            };
            series.retention = Some(Arc::new(Retention::start(limits, &first.dir)?));
        }
        series.current = Some(first);
        Ok(series)
    }

    /// Starts a recording.
    fn open(&mut self) -> Result<Current> {
        let dir = if self.rotate.is_some() { names::fresh(&self.ground.dir) } else { self.ground.dir.clone() };
        // Registered before the directory exists, so that it always counts as running.
        let shipped = self.shipper.as_ref().map(|shipper| {
            let shipped = Shipped::default();
            shipper.began(&dir, shipped.clone());
            shipped
        });
        if let Some(retention) = &self.retention {
            retention.began(&dir);
        }
        let options = RecordOptions { shipped, ..self.options.clone() };
        let recorder =
            Recorder::create(&dir, self.inner.info(), options).inspect_err(|_| self.links().ended(&dir))?;
        self.prefix.begin();
        let now = Instant::now();
        self.next_at = self.rotate.and_then(|every| now.checked_add(every));
        Ok(Current { recorder, dir, deleted_for_room: 0 })
    }

    fn links(&self) -> Links {
        Links { shipper: self.shipper.clone(), retention: self.retention.clone() }
    }

    /// Rotates if due.
    fn turn(&mut self) {
        if self.closing.as_ref().is_some_and(|closing| closing.thread.is_finished()) {
            self.reap();
        }
        // One that takes longer to close than the next to be made is not overtaken by a third. On a full disk the next one would
        // be no better off.
        let waits = self.current.as_ref().is_some_and(|current| current.recorder.watch().is_disk_full());
        let is_due = self.next_at.is_some_and(|at| Instant::now() >= at) && self.closing.is_none() && !waits;
        if !is_due {
            return;
        }
        let opened = self.open();
        self.has_no_room = opened.as_ref().is_err_and(is_full_disk);
        match opened {
            Ok(fresh) => {
                if let Some(old) = self.current.replace(fresh) {
                    self.close_in_background(old);
                }
            }
            // Told with the disk. The recording before goes on until there is room.
            Err(error) if is_full_disk(&error) => self.next_at = Instant::now().checked_add(LOOK),
            Err(error) => {
                output::note(&format!(
                    "no new recording could be begun, and the one before goes on: {error:#}"
                ));
                self.next_at = Instant::now().checked_add(PAUSE);
            }
        }
    }

    fn close_in_background(&mut self, Current { recorder, dir, .. }: Current) {
        let (links, watch, name) = (self.links(), recorder.watch(), dir.display().to_string());
        let close = move || {
            let result = recorder.finish_with_room();
            links.ended(&dir);
            result
        };
        match std::thread::Builder::new().name("magscope-close".into()).spawn(close) {
            Ok(thread) => self.closing = Some(Closing { thread, watch, name }),
            // What was to be run is gone by now, and the recorder in it has closed its recording.
            Err(error) => output::note(&format!("{name} was closed without a thread of its own: {error}")),
        }
    }

    /// Waits for the recording that is being closed.
    fn reap(&mut self) {
        let Some(Closing { thread, name, .. }) = self.closing.take() else { return };
        match thread.join() {
            Ok((result, status)) => self.ended(&name, result, status),
            Err(_) => self.fail(anyhow!("{name} could not be closed: its thread has failed")),
        }
    }

    /// Adds a recording to the totals. One that failed to close makes the run fail.
    fn ended(&mut self, name: &str, result: Result<Summary, SessionError>, status: RecorderStatus) {
        add(&mut self.tally, status);
        match result {
            Ok(summary) => output::note(&last_line(name, &summary)),
            Err(error) => {
                let what = format!("{name} could not be closed, {} records LOST", status.lost);
                self.fail(anyhow::Error::from(error).context(what));
            }
        }
    }

    fn fail(&mut self, error: anyhow::Error) {
        output::note(&format!("{error:#}"));
        self.failed.get_or_insert(error);
    }

    /// Reports a full disk and its end, and lets a limit delete the oldest recording.
    fn look_at_disk(&mut self, is_full: bool) {
        if let Some(retention) = &self.retention {
            retention.set_disk_full(is_full);
        }
        if is_full == self.was_disk_full {
            return;
        }
        self.was_disk_full = is_full;
        output::note(if !is_full {
            "the disk has room again, and the recording goes on"
        } else if self.options.size_limit_bytes.is_some() {
            "the disk is full: the oldest recordings are deleted to make room; without room, records will be LOST and counted"
        } else {
            "the disk is full: the recording waits for room, records that do not fit into the queue are LOST and counted"
        });
    }

    /// Totals of all recordings.
    fn tally(&self) -> Tally {
        let mut tally = self.tally.clone();
        if let Some(current) = &self.current {
            add(&mut tally, current.recorder.status());
        }
        if let Some(retention) = &self.retention {
            tally.deleted += retention.deleted().segments.load(Relaxed);
            tally.unshipped += retention.deleted().unshipped.load(Relaxed);
        }
        tally
    }

    fn keep(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        self.turn();
        self.tally.records += batch.numbered();
        self.tally.lost += batch.lost();
        let Some(current) = &mut self.current else { return Ok(()) };
        let recorder = &mut current.recorder;
        // A failed recorder (full disk) ends the source: recorded data stays valid, and the user must notice
        // the end.
        self.prefix.with(batch, |batch| recorder.append(batch))?;
        let status = recorder.status();
        // It may have had room again before anybody looked.
        let made_room =
            status.deleted_for_room > std::mem::replace(&mut current.deleted_for_room, status.deleted_for_room);
        let closing_waits = self.closing.as_ref().is_some_and(|closing| closing.watch.is_disk_full());
        let is_full = status.is_disk_full || made_room || closing_waits || self.has_no_room;
        if let Some(shipper) = &self.shipper {
            shipper.closed_below(&current.dir, status.segment);
        }
        self.look_at_disk(is_full);
        if self.health.as_ref().is_some_and(Health::is_due) {
            let (tally, shipping) = (self.tally(), self.shipper.as_ref().map(|shipper| shipper.status()));
            self.health.iter_mut().for_each(|health| health.report(&tally, shipping.as_ref()));
        }
        Ok(())
    }

    /// Ends the recording, uploads the rest while the store accepts it, and prints a summary.
    pub fn close(mut self) -> Result<()> {
        if let Some(closing) = &self.closing {
            closing.watch.give_up_waiting();
        }
        self.reap();
        if let Some(Current { recorder, dir, .. }) = self.current.take() {
            let (result, status) = recorder.finish();
            self.ended(&dir.display().to_string(), result, status);
            self.links().ended(&dir);
        }
        let shipping = self.shipper.as_ref().map(|shipper| shipper.finish(FINISH));
        let tally = self.tally();
        output::note(&format!("ended: {} records, {}", tally.records, rest(&tally, shipping.as_ref())));
        shipping.iter().flat_map(left).for_each(|line| output::note(&line));
        self.failed.map_or(Ok(()), Err)
    }
}

fn is_full_disk(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(SessionError::is_full_disk)
}

fn add(tally: &mut Tally, status: RecorderStatus) {
    tally.lost += status.lost;
    tally.closed += u64::from(status.segment);
    tally.deleted += u64::from(status.deleted);
    tally.unshipped += u64::from(status.deleted_unshipped);
}

impl<S: Source> Source for Series<S> {
    fn info(&self) -> &NodeInfo {
        self.inner.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        let progress = self.inner.next(batch, timeout.min(LOOK))?;
        self.keep(batch)?;
        Ok(progress)
    }
}

impl<S: Feed> Feed for Series<S> {
    fn hits(&self) -> Option<u64> {
        self.inner.hits()
    }

    fn ring_fill_ratio(&self) -> f64 {
        self.inner.ring_fill_ratio()
    }

    fn hit_ns(&mut self) -> Option<f64> {
        self.inner.hit_ns()
    }

    fn budget(&self) -> Option<Budget> {
        self.inner.budget()
    }
}
