//! `--follow`: a recording that still runs, as a source that waits for more.
//!
//! The recorder writes whole batches, so each look reads the session anew from where the last one ended; a look costs what came since.
//! What was handed out is known by the running numbers of each CPU's records, so an event that came late is neither lost nor told
//! twice.

use super::format::Format;
use super::{Args, Fed, say, target};
use crate::signals::Stop;
use crate::{reporting, sessions};
use anyhow::{Context, Result};
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_export::{Chosen, TimeLine};
use magscope_session::{Replay, Session};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Looks at a session with events and without a clock sample, before it is taken for one that has none.
const LOOKS_FOR_CLOCK: u32 = 30;
/// How far back a look begins: events can come that much later than others.
const BACK_NS: u64 = 1_000_000_000;

/// Follows it to its end.
pub fn run(args: &Args, format: Format, chosen: Chosen, target: target::Target, stop: &Stop) -> Result<()> {
    let began = Instant::now();
    let target = target.growing();
    let dir = args.sessions.dirs.first().cloned().unwrap_or_default();
    let mut source = Follow::new(dir, stop.clone())?;
    let line = TimeLine { to_utc_ns: source.to_utc_ns()? };
    let infos = [source.info.clone()];
    let writer = format.writer(&target, &infos, line, chosen, &[], args);
    let mut fed = Fed::new(writer.with_context(|| target::cannot(&args.output))?);
    let failed = source.failed.clone();
    let walked = reporting::walk(&mut source, args.limits.limits(), |piece| {
        fed.piece(&piece);
        if let magscope_core::together::Piece::Batch(..) = piece
            && fed.error.is_none()
        {
            fed.error = fed.export.flush().err();
        }
        failed.set(fed.error.is_some());
    })?;
    reporting::note_evicted(&walked);
    let written = fed.finish().with_context(|| target::cannot(&args.output))?;
    let size = target.commit()?;
    say(&args.output, &written, size, began);
    Ok(())
}

/// A session that grows.
pub struct Follow {
    dir: PathBuf,
    info: NodeInfo,
    stop: Stop,
    failed: std::rc::Rc<std::cell::Cell<bool>>,
    replay: Option<Replay>,
    /// The recorder closed it before the look that is being read.
    closed: bool,
    seen: Seen,
}

/// What was handed out.
#[derive(Default)]
struct Seen {
    /// The last record of each CPU.
    records: BTreeMap<u16, u32>,
    latest_ns: Option<u64>,
    tcp_ns: Option<u64>,
    loss_ns: Option<u64>,
    clock_ns: Option<u64>,
}

impl Follow {
    /// From its beginning, until it is closed or `stop` is raised.
    pub fn new(dir: PathBuf, stop: Stop) -> Result<Self> {
        let info = Session::open(&dir)?.info().clone();
        let failed = std::rc::Rc::default();
        Ok(Follow { dir, info, stop, failed, replay: None, closed: false, seen: Seen::default() })
    }

    /// UTC less the session's clock; waits for the first clock sample, which may be written a moment after the first events.
    fn to_utc_ns(&self) -> Result<Option<i64>> {
        let mut with_events = 0;
        loop {
            let session = Session::open(&self.dir)?;
            let map = sessions::utc_map(&session);
            if let Some(sample) = map.samples().first() {
                return Ok(Some(sample.realtime_ns.wrapping_sub(sample.monotonic_ns as i64)));
            }
            with_events += u32::from(session.summary().events > 0);
            if session.summary().closed || with_events > LOOKS_FOR_CLOCK || self.stop.is_raised() {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn look(&mut self) -> Result<(), SourceError> {
        let session = Session::open(&self.dir)?;
        self.closed = session.summary().closed;
        self.replay = Some(session.replay(self.seen.latest_ns.map(|ns| ns.saturating_sub(BACK_NS)), None));
        Ok(())
    }
}

impl Source for Follow {
    fn info(&self) -> &NodeInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        if self.failed.get() || self.stop.is_raised() {
            return Ok(Progress::End);
        }
        let first = self.replay.is_none();
        if first {
            self.look()?;
        }
        let Some(replay) = &mut self.replay else { return Ok(Progress::End) };
        if replay.next(batch, Duration::ZERO)? == Progress::More {
            self.seen.only_new(batch);
            return Ok(Progress::More);
        }
        batch.clear();
        if self.closed {
            return Ok(Progress::End);
        }
        self.replay = None;
        std::thread::sleep(PAUSE.min(timeout));
        Ok(Progress::More)
    }
}

impl Seen {
    /// Leaves in a batch what was not handed out yet.
    fn only_new(&mut self, batch: &mut Batch) {
        let Seen { records, latest_ns, tcp_ns, loss_ns, clock_ns } = self;
        batch.events.retain(|event| {
            // Numbers wrap, so the shorter way round tells which is newer.
            let new = records.get(&event.cpu).is_none_or(|last| event.record.wrapping_sub(*last) as i32 > 0);
            if new {
                records.insert(event.cpu, event.record);
                *latest_ns = Some(latest_ns.map_or(event.time_ns, |latest| latest.max(event.time_ns)));
            }
            new
        });
        let newer = |last: &mut Option<u64>, ns: u64| {
            let new = last.is_none_or(|last| ns > last);
            if new {
                *last = Some(ns);
            }
            new
        };
        batch.tcp.retain(|sample| newer(tcp_ns, sample.time_ns));
        batch.losses.retain(|loss| newer(loss_ns, loss.to_ns));
        batch.clock.retain(|sample| newer(clock_ns, sample.monotonic_ns));
        batch.late = 0;
    }
}
