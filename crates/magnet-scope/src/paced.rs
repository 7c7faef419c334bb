//! Replay at a speed: holds events back until their time has come.

use crate::screen::Feed;
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use std::thread;
use std::time::{Duration, Instant};

/// A source whose events come out as far apart as they were, divided by a speed.
pub struct Paced<S> {
    inner: S,
    speed: f64,
    /// When the first event came out, and its own time.
    origin: Option<(Instant, u64)>,
    held: Batch,
    /// How much of `held` is out: events, TCP samples, losses, clock samples.
    out: Out,
    ended: bool,
}

#[derive(Default)]
struct Out {
    events: usize,
    tcp: usize,
    losses: usize,
    clock: usize,
}

impl<S: Source> Paced<S> {
    /// Plays `inner` at `speed` times its own.
    pub fn new(inner: S, speed: f64) -> Self {
        Paced { inner, speed, origin: None, held: Batch::default(), out: Out::default(), ended: false }
    }

    /// The event time that has been reached, and what `held` begins with to count from.
    fn reached_ns(&mut self) -> u64 {
        let first = self.held.events.first().map_or(self.held.watermark_ns, |event| event.time_ns);
        let (since, from_ns) = *self.origin.get_or_insert((Instant::now(), first));
        from_ns.saturating_add((since.elapsed().as_nanos() as f64 * self.speed) as u64)
    }

    fn is_out(&self) -> bool {
        self.out.events == self.held.events.len()
            && self.out.tcp == self.held.tcp.len()
            && self.out.losses == self.held.losses.len()
            && self.out.clock == self.held.clock.len()
    }

    /// Moves what is due into `batch`.
    fn release(&mut self, batch: &mut Batch, reached_ns: u64) {
        let (held, out) = (&mut self.held, &mut self.out);
        // Names are due before anything that uses them.
        batch.flows.append(&mut held.flows);
        batch.tasks.append(&mut held.tasks);
        take(&held.events, &mut out.events, &mut batch.events, |event| event.time_ns <= reached_ns);
        take(&held.tcp, &mut out.tcp, &mut batch.tcp, |sample| sample.time_ns <= reached_ns);
        take(&held.losses, &mut out.losses, &mut batch.losses, |loss| loss.to_ns <= reached_ns);
        take(&held.clock, &mut out.clock, &mut batch.clock, |sample| sample.monotonic_ns <= reached_ns);
        batch.watermark_ns = held.watermark_ns.min(reached_ns);
        batch.late = std::mem::take(&mut held.late);
    }
}

/// Copies from `from[*at..]` while `due`.
fn take<T: Clone>(from: &[T], at: &mut usize, to: &mut Vec<T>, due: impl Fn(&T) -> bool) {
    let rest = from.get(*at..).unwrap_or_default();
    let count = rest.iter().take_while(|item| due(item)).count();
    to.extend_from_slice(&rest[..count]);
    *at += count;
}

impl<S: Source> Source for Paced<S> {
    fn info(&self) -> &NodeInfo {
        self.inner.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        if self.is_out() {
            if self.ended {
                return Ok(Progress::End);
            }
            self.ended = self.inner.next(&mut self.held, timeout)? == Progress::End;
            self.out = Out::default();
        }
        let reached_ns = self.reached_ns();
        self.release(batch, reached_ns);
        if batch.is_empty() && !self.is_out() {
            // Nothing is due yet. Waking earlier than asked would only draw the same picture again.
            thread::sleep(timeout);
        }
        Ok(Progress::More)
    }
}

impl<S: Source> Feed for Paced<S> {}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{Event, Hop};

    struct Given(NodeInfo, Vec<Batch>);

    impl Source for Given {
        fn info(&self) -> &NodeInfo {
            &self.0
        }

        fn next(&mut self, batch: &mut Batch, _: Duration) -> Result<Progress, SourceError> {
            batch.clear();
            if self.1.is_empty() {
                return Ok(Progress::End);
            }
            *batch = self.1.remove(0);
            Ok(Progress::More)
        }
    }

    fn batch(times_ms: &[u64]) -> Batch {
        let events: Vec<_> = times_ms.iter().map(|ms| Event::at(Hop::DevXmit, ms * 1_000_000)).collect();
        Batch { watermark_ns: events.last().map_or(0, |event| event.time_ns), events, ..Batch::default() }
    }

    #[test]
    fn events_come_out_as_far_apart_as_they_were_divided_by_the_speed() {
        let given = Given(NodeInfo::default(), vec![batch(&[1000, 1040]), batch(&[1100])]);
        let mut paced = Paced::new(given, 2.0);
        let (began, mut seen, mut out) = (Instant::now(), Vec::new(), Batch::default());
        while paced.next(&mut out, Duration::from_millis(1)).unwrap() == Progress::More {
            seen.extend(out.events.iter().map(|event| (event.time_ns / 1_000_000, began.elapsed())));
        }
        let times: Vec<_> = seen.iter().map(|(ms, _)| *ms).collect();
        assert_eq!(times, [1000, 1040, 1100]);
        assert!(seen[1].1 >= Duration::from_millis(19), "{seen:?}");
        assert!(seen[2].1 >= Duration::from_millis(49) && seen[2].1 < Duration::from_secs(5), "{seen:?}");
    }
}
