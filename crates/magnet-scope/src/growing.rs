//! A running recording as a source that waits for more.
//!
//! The recorder writes whole batches, so each poll reads the session from the end of the last one; its cost is
//! that of the new data. Record numbers per CPU identify delivered records. A late event is therefore neither
//! lost nor repeated.
//!
//! Damage is collected for the end of the command. A poll may see a batch that is half written, so damage found at the
//! opening counts if the next poll finds it too.

use crate::recordings::FoundDamage;
use crate::sessions;
use crate::signals::Stop;
use anyhow::Result;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, Hop};
use magscope_session::{Damage, Replay, Session};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between two polls.
const PAUSE: Duration = Duration::from_millis(100);
/// Polls of a session with events and without a clock sample before it counts as one without clocks.
const LOOKS_FOR_CLOCK: u32 = 30;
/// Overlap of polls, nanoseconds: maximum delay of late events.
const BACK_NS: u64 = 1_000_000_000;

/// A growing session.
pub struct Growing {
    dir: PathBuf,
    info: NodeInfo,
    stop: Stop,
    given_up: GivenUp,
    replay: Option<Replay>,
    looked: Option<Instant>,
    /// True if the recorder closed it before the current poll.
    closed: bool,
    seen: Seen,
    /// Damage that the opening of the current poll found.
    at_opening: Vec<Damage>,
    /// Number of damaged places of the current replay that were passed on.
    passed: usize,
    found: Arc<FoundDamage>,
}

/// True if the reader has given up.
#[derive(Clone, Debug, Default)]
pub struct GivenUp(Rc<Cell<bool>>);

impl GivenUp {
    /// Sets the flag.
    pub fn set(&self, given_up: bool) {
        self.0.set(given_up);
    }
}

/// State of delivered records.
#[derive(Default)]
struct Seen {
    events: Records,
    hits: Records,
    heads: Records,
    latest_ns: Option<u64>,
    tcp_ns: Option<u64>,
    loss_ns: Option<u64>,
    clock_ns: Option<u64>,
    change_ns: Option<u64>,
    names_ns: Option<u64>,
    sum_ns: Option<u64>,
    /// By hop.
    counts_ns: BTreeMap<Hop, Option<u64>>,
}

/// Numbers before the newest of a CPU that are remembered one by one: more than an interrupt takes.
const RECENT: usize = 1 << 14;

/// The delivered records of each CPU.
#[derive(Default)]
struct Records(BTreeMap<u16, Delivered>);

/// The delivered records of one CPU. A record that an interrupt delays between its clock and its number has a higher
/// number than the interrupt's records, and in the order of time it precedes them.
struct Delivered {
    /// The highest number; numbers wrap.
    last: u32,
    /// Whether each of the last [`RECENT`] numbers was delivered, by its remainder.
    recent: Vec<bool>,
}

impl Records {
    /// True if a record was not delivered before; stores it.
    fn is_new(&mut self, cpu: u16, record: u32) -> bool {
        self.0.entry(cpu).or_insert_with(|| Delivered::before(record)).take(record)
    }
}

impl Delivered {
    fn before(record: u32) -> Self {
        Delivered { last: record.wrapping_sub(1), recent: vec![false; RECENT] }
    }

    fn take(&mut self, record: u32) -> bool {
        // The shorter distance decides.
        let ahead = record.wrapping_sub(self.last).cast_signed();
        if ahead > 0 {
            for skipped in 1..=(ahead.unsigned_abs() as usize).min(RECENT) {
                self.recent[(record as usize).wrapping_sub(skipped - 1) % RECENT] = false;
            }
            self.last = record;
        } else if ahead.unsigned_abs() as usize >= RECENT {
            return false;
        }
        !std::mem::replace(&mut self.recent[record as usize % RECENT], true)
    }
}

impl Growing {
    /// From the start until the session is closed or `stop` is set. Damage is added to `found`.
    pub fn new(dir: PathBuf, stop: Stop, found: Arc<FoundDamage>) -> Result<Self> {
        let info = Session::open(&dir)?.info().clone();
        let given_up = GivenUp::default();
        Ok(Growing {
            dir,
            info,
            stop,
            given_up,
            replay: None,
            looked: None,
            closed: false,
            seen: Seen::default(),
            at_opening: Vec::new(),
            passed: 0,
            found,
        })
    }

    /// The flag for giving up.
    pub fn given_up(&self) -> GivenUp {
        self.given_up.clone()
    }

    /// UTC minus the session's clock; waits for the first clock sample, which may follow the first events.
    pub fn to_utc_ns(&self) -> Result<Option<i64>> {
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
        let at_opening = session.damage().to_vec();
        for damage in at_opening.iter().filter(|damage| !damage.unfinished) {
            // A closed one is not being written any more.
            if self.closed || self.at_opening.contains(damage) {
                self.found.add(&self.dir, damage.to_string());
            }
        }
        self.at_opening = at_opening;
        self.replay = Some(session.replay(self.seen.latest_ns.map(|ns| ns.saturating_sub(BACK_NS)), None));
        self.passed = 0;
        Ok(())
    }
}

impl Source for Growing {
    fn info(&self) -> &NodeInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        if self.given_up.0.get() || self.stop.is_raised() {
            return Ok(Progress::End);
        }
        if self.replay.is_none() {
            let rest = PAUSE.saturating_sub(self.looked.map_or(PAUSE, |looked| looked.elapsed()));
            std::thread::sleep(rest.min(timeout));
            if rest > timeout {
                return Ok(Progress::More);
            }
            self.look()?;
        }
        let Some(replay) = &mut self.replay else { return Ok(Progress::End) };
        let progress = replay.next(batch, Duration::ZERO)?;
        let all = replay.damage();
        for damage in all.iter().skip(self.passed).filter(|damage| !self.at_opening.contains(damage)) {
            self.found.add(&self.dir, damage.to_string());
        }
        self.passed = all.len();
        if progress == Progress::More {
            self.seen.only_new(batch);
            return Ok(Progress::More);
        }
        batch.clear();
        if self.closed {
            return Ok(Progress::End);
        }
        self.replay = None;
        self.looked = Some(Instant::now());
        Ok(Progress::More)
    }
}

impl Seen {
    /// Removes delivered records from a batch.
    fn only_new(&mut self, batch: &mut Batch) {
        let Seen {
            events,
            hits,
            heads,
            latest_ns,
            tcp_ns,
            loss_ns,
            clock_ns,
            change_ns,
            names_ns,
            sum_ns,
            counts_ns,
        } = self;
        batch.events.retain(|event| {
            let new = events.is_new(event.cpu, event.record);
            if new {
                *latest_ns = Some(latest_ns.map_or(event.time_ns, |latest| latest.max(event.time_ns)));
            }
            new
        });
        batch.hits.retain(|hit| hits.is_new(hit.cpu, hit.record));
        batch.heads.retain(|head| heads.is_new(head.cpu, head.record));
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
        batch.changes.retain(|change| newer(change_ns, change.to_ns));
        batch.names.retain(|names| newer(names_ns, names.time_ns));
        // all rows of an interval have its end
        let sums_until = *sum_ns;
        batch.synthesis.retain(|sum| sums_until.is_none_or(|last| sum.to_ns > last));
        *sum_ns = batch.synthesis.iter().map(|sum| sum.to_ns).max().max(sums_until);
        batch.counts.retain(|count| newer(counts_ns.entry(count.hop).or_default(), count.time_ns));
        batch.late = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn damage_of_a_followed_recording_is_found() {
        let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/damaged/session"));
        let verified: Vec<String> = Session::open(dir)
            .expect("a golden recording")
            .verify()
            .iter()
            .filter(|damage| !damage.unfinished)
            .map(ToString::to_string)
            .collect();
        assert!(verified.iter().any(|what| what.contains("checksum")), "{verified:?}");
        let (stop, found) = (Stop::default(), Arc::new(FoundDamage::default()));
        let mut growing = Growing::new(dir.to_path_buf(), stop, found.clone()).expect("a golden recording");
        let mut batch = Batch::default();
        while growing.next(&mut batch, PAUSE).expect("a golden recording") == Progress::More {}
        let all = found.all();
        assert!(all.iter().any(|what| what.contains("checksum")), "{all:?}");
        assert!(all.iter().all(|what| verified.contains(what)), "{all:?} {verified:?}");
    }

    #[test]
    fn a_record_that_an_interrupt_delayed_hides_none() {
        let mut records = Records::default();
        let near_wrap = u32::MAX - 2;
        // In the order of time: 3 was stamped before the interrupt that took 0, 1 and 2.
        let numbers = [3, 0, 1, 2, 4, 6, 5].map(|n: u32| near_wrap.wrapping_add(n));
        assert!(numbers.iter().all(|n| records.is_new(0, *n)), "each comes for the first time");
        assert!(!numbers.iter().any(|n| records.is_new(0, *n)), "none twice");
        assert!(records.is_new(1, 7) && records.is_new(0, 100_000) && records.is_new(0, 99_999));
        assert!(!records.is_new(0, 7), "long ago");
    }
}
