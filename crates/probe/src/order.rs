//! Merges the events of many CPUs into time order.
//!
//! A ring is in order except for interrupts; the order across rings follows from time alone. The sorter holds
//! an event until every ring has been read at a later time, plus a margin. The margin covers a probe that was
//! preempted between clock read and submit (a virtual CPU without processor). Later arrivals are delivered and
//! counted as late, but not sorted into the past.

use magscope_core::Event;

/// Hold time of events, nanoseconds.
pub const HOLD_NS: u64 = 5_000_000;

/// Moves all rows before `watermark_ns` from `held` to `out`, in time order, so that they come with the events of their
/// time. A capture that handed them out at once would differ from its own recording.
pub fn take_until<T>(held: &mut Vec<T>, watermark_ns: u64, time_ns: impl Fn(&T) -> u64, out: &mut Vec<T>) {
    held.sort_by_key(&time_ns);
    let ready = held.partition_point(|row| time_ns(row) < watermark_ns);
    out.extend(held.drain(..ready));
}

/// Holds events until their order is final.
#[derive(Debug, Default)]
pub struct Sorter {
    held: Vec<Event>,
    given_to_ns: u64,
    late: u64,
}

impl Sorter {
    /// Accepts an event in any order.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.late += u64::from(event.time_ns < self.given_to_ns);
        self.held.push(event);
    }

    /// Moves all events before `watermark_ns` to `out`, in time order. Returns the number of late ones.
    pub fn take(&mut self, watermark_ns: u64, out: &mut Vec<Event>) -> u64 {
        // stable, and linear on the few sorted runs that this is
        self.held.sort_by_key(|e| e.time_ns);
        let ready = self.held.partition_point(|e| e.time_ns < watermark_ns);
        if out.is_empty() {
            // nearly all is ready nearly always: move the few that are not
            std::mem::swap(&mut self.held, out);
            self.held.extend(out.drain(ready..));
        } else {
            out.extend(self.held.drain(..ready));
        }
        self.given_to_ns = self.given_to_ns.max(watermark_ns);
        std::mem::take(&mut self.late)
    }

    /// Number of held events.
    pub fn held(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::Hop;

    fn at(time_ns: u64) -> Event {
        Event::at(Hop::DevXmit, time_ns)
    }

    #[test]
    fn two_cpus_become_one_order_and_the_late_are_counted() {
        let mut sorter = Sorter::default();
        let mut out = Vec::new();
        for t in [10, 30, 50, 20, 40, 60] {
            sorter.push(at(t));
        }
        assert_eq!(sorter.take(45, &mut out), 0);
        assert_eq!(out.iter().map(|e| e.time_ns).collect::<Vec<_>>(), [10, 20, 30, 40]);
        sorter.push(at(35));
        out.clear();
        assert_eq!(sorter.take(u64::MAX, &mut out), 1);
        assert_eq!(out.iter().map(|e| e.time_ns).collect::<Vec<_>>(), [35, 50, 60]);
        assert_eq!(sorter.held(), 0);
    }

    #[test]
    fn rows_beside_the_events_wait_for_their_time_too() {
        let (mut held, mut out) = (vec![30, 10, 45, 20], Vec::new());
        take_until(&mut held, 45, |time| *time, &mut out);
        assert_eq!((&out[..], &held[..]), (&[10, 20, 30][..], &[45][..]));
        held.push(35);
        take_until(&mut held, u64::MAX, |time| *time, &mut out);
        assert_eq!((&out[3..], held.len()), (&[35, 45][..], 0));
    }
}
