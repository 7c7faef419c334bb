//! Queue from the capture to the correlating thread, which never blocks the capture.
//!
//! Without watches, only prerequisites of later events pass: names of flows and threads, changes, clocks.

use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, Loss, LossCause};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Maximum number of queued batches.
const MOST_BATCHES: usize = 256;
/// Maximum number of queued events: 19 MB.
const MOST_EVENTS: usize = 1 << 18;

/// The capture's end.
pub struct Tap {
    give: SyncSender<Batch>,
    waiting: Arc<AtomicUsize>,
    watched: Arc<AtomicBool>,
    /// Data lost since the last queued batch.
    missed: Option<Loss>,
}

/// The reading end.
pub struct Tapped {
    info: NodeInfo,
    batches: Receiver<Batch>,
    waiting: Arc<AtomicUsize>,
}

/// Both ends; events pass while `watched` is true.
pub fn tap(info: NodeInfo, watched: Arc<AtomicBool>) -> (Tap, Tapped) {
    let (give, batches) = sync_channel(MOST_BATCHES);
    let waiting = Arc::new(AtomicUsize::new(0));
    let tapped = Tapped { info, batches, waiting: waiting.clone() };
    (Tap { give, waiting, watched, missed: None }, tapped)
}

/// The prerequisites of later events in a batch.
fn names(batch: &Batch) -> Batch {
    Batch {
        flows: batch.flows.clone(),
        tasks: batch.tasks.clone(),
        clock: batch.clock.clone(),
        changes: batch.changes.clone(),
        names: batch.names.clone(),
        counts: batch.counts.clone(),
        watermark_ns: batch.watermark_ns,
        ..Batch::default()
    }
}

impl Tap {
    /// Passes on a batch.
    pub fn offer(&mut self, batch: &Batch) {
        let mut names = names(batch);
        if !self.watched.load(Ordering::SeqCst) {
            self.missed = None;
            if !names.is_empty() {
                // If the queue is full, the announcements repeat in some seconds.
                let _ = self.give.try_send(names);
            }
            return;
        }
        let room = self.waiting.load(Ordering::Relaxed) + batch.events.len() <= MOST_EVENTS;
        if room {
            names.events.clone_from(&batch.events);
            names.losses.clone_from(&batch.losses);
            names.late = batch.late;
        } else {
            self.miss(batch);
        }
        let events = names.events.len();
        names.losses.extend(self.missed.filter(|_| room));
        self.waiting.fetch_add(events, Ordering::Relaxed);
        match self.give.try_send(names) {
            Ok(()) if room => self.missed = None,
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.waiting.fetch_sub(events, Ordering::Relaxed);
                if room {
                    self.miss(batch);
                }
            }
        }
    }

    /// Counts a lost batch.
    fn miss(&mut self, batch: &Batch) {
        let count = batch.events.len() as u64 + batch.lost();
        let times = batch.events.first().zip(batch.events.last());
        let (from_ns, to_ns) = times
            .map_or((batch.watermark_ns, batch.watermark_ns), |(first, last)| (first.time_ns, last.time_ns));
        let loss = Loss { cpu: u16::MAX, from_ns, to_ns, count: 0, cause: LossCause::Missed };
        let missed = self.missed.get_or_insert(loss);
        missed.count = missed.count.saturating_add(count);
        missed.to_ns = missed.to_ns.max(to_ns);
    }
}

impl Source for Tapped {
    fn info(&self) -> &NodeInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        match self.batches.recv_timeout(timeout) {
            Ok(came) => {
                self.waiting.fetch_sub(came.events.len(), Ordering::Relaxed);
                *batch = came;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Progress::End),
        }
        Ok(Progress::More)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{Event, Hop};

    fn batch(events: usize) -> Batch {
        Batch { events: vec![Event::at(Hop::AppRecv, 5); events], watermark_ns: 6, ..Batch::default() }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_reported() {
        let watched = Arc::new(AtomicBool::new(false));
        let (mut tap, mut tapped) = tap(NodeInfo::default(), watched.clone());
        let mut next = || {
            let mut came = Batch::default();
            tapped.next(&mut came, Duration::ZERO).expect("it never fails");
            (came.events.len(), came.lost())
        };
        tap.offer(&batch(3));
        assert_eq!(next(), (0, 0), "nobody watches");
        watched.store(true, Ordering::SeqCst);
        tap.offer(&batch(MOST_EVENTS));
        tap.offer(&batch(7));
        assert_eq!(next(), (MOST_EVENTS, 0));
        assert_eq!(next(), (0, 0), "time goes on also where events are missed");
        tap.offer(&batch(2));
        assert_eq!(next(), (2, 7));
        (0..=MOST_BATCHES).for_each(|_| tap.offer(&batch(1)));
        (0..MOST_BATCHES).for_each(|_| assert_eq!(next(), (1, 0)));
        tap.offer(&batch(1));
        assert_eq!(next(), (1, 1));
    }
}
