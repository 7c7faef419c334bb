//! How far the journeys of a window reach beyond it.
//!
//! **The problem.** A window is read again from a little before its beginning. Journeys that began earlier, behind a full
//! queue for example, would lack their first hops, and those that end later would look as if they never ended.
//!
//! **The choice.** The survey notes for each bucket of the recording the earliest start of the journeys that end in it, and
//! the latest end of those that start in it. A window is read from the earliest start of all that overlap it, to their
//! latest end, as long as that is not too many events.
//!
//! **Known limits.** Where the survey has not been yet, nothing is known. Of journeys that reach too far, a part is read.

use magscope_core::{Batch, Journey};
use magscope_scope::recorded::Window;

/// Number of buckets of a recording.
const BUCKETS: u64 = 1 << 12;

/// The journeys of one bucket, and its events.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Earliest start of those that end here.
    earliest_ns: u64,
    /// Latest end of those that start here.
    latest_ns: u64,
    events: u64,
}

/// The reach of all journeys of a recording.
#[derive(Debug)]
pub struct Overlaps {
    from_ns: u64,
    bucket_ns: u64,
    buckets: Vec<Bucket>,
}

impl Overlaps {
    /// Of recordings between these instants of the common time line, of which nothing is known yet.
    pub fn new((from_ns, to_ns): (u64, u64)) -> Self {
        let bucket_ns = (to_ns.saturating_sub(from_ns) / BUCKETS).max(1);
        let bucket = Bucket { earliest_ns: u64::MAX, latest_ns: 0, events: 0 };
        Overlaps { from_ns, bucket_ns, buckets: vec![bucket; BUCKETS as usize] }
    }

    fn index(&self, ns: u64) -> usize {
        (ns.saturating_sub(self.from_ns) / self.bucket_ns).min(BUCKETS - 1) as usize
    }

    /// Adds the events of a batch.
    pub fn batch(&mut self, batch: &Batch) {
        for event in &batch.events {
            let index = self.index(event.time_ns);
            self.buckets[index].events += 1;
        }
    }

    /// Adds a journey.
    pub fn journey(&mut self, journey: &Journey) {
        let Some((start_ns, end_ns)) = journey.start_ns().zip(journey.end_ns()) else { return };
        let (start, end) = (self.index(start_ns), self.index(end_ns));
        self.buckets[end].earliest_ns = self.buckets[end].earliest_ns.min(start_ns);
        self.buckets[start].latest_ns = self.buckets[start].latest_ns.max(end_ns);
    }

    /// The stretch with all journeys that overlap the window, and at most `most` more events on each side.
    pub fn around(&self, window: Window, most: u64) -> (u64, u64) {
        let (first, last) = (self.index(window.from_ns), self.index(window.to_ns));
        let earliest = self.buckets[first..].iter().map(|bucket| bucket.earliest_ns).min();
        let latest = self.buckets[..=last].iter().map(|bucket| bucket.latest_ns).max();
        // Whole buckets, as long as there is room for their events.
        let taken = |buckets: &mut dyn Iterator<Item = &Bucket>| {
            let mut room = most;
            let fits = |bucket: &&Bucket| room.checked_sub(bucket.events).map(|rest| room = rest).is_some();
            buckets.take_while(fits).count() as u64
        };
        let before = taken(&mut self.buckets[..first].iter().rev()) * self.bucket_ns;
        let after = taken(&mut self.buckets[last + 1..].iter()) * self.bucket_ns;
        let from_ns = earliest.unwrap_or(u64::MAX).max(window.from_ns.saturating_sub(before));
        let to_ns = latest.unwrap_or(0).min(window.to_ns.saturating_add(after));
        (from_ns.min(window.from_ns), to_ns.max(window.to_ns))
    }
}
