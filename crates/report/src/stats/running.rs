//! Running averages: the current rate of received bytes, compared with the overall rate.
//!
//! Figures 6 and 7 of Gardner, Feng, Broxton, Engelhart and Hurwitz, *MAGNET: A Tool for Debugging, Analysis
//! and Adaptation in Computing Systems* (2003), show the bandwidth of a connection as the average over its last
//! 1,000 receives. A window of receives adapts to the rate of a flow; a window of time is the same for all
//! flows.

use std::collections::VecDeque;

/// Maximum number of points of a series; at least half of it, once reached.
pub const MOST_POINTS: usize = 256;
/// Parts of a window of time.
const SLOTS: u64 = 256;

/// The window of an average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// This number of last receives, at least 1.
    Receives(u32),
    /// This number of last nanoseconds, to within one part in 256.
    Time(u64),
}

impl Window {
    /// Maximum number of entries of one average.
    pub const fn entries(self) -> usize {
        match self {
            Self::Receives(n) => n as usize + 1,
            Self::Time(_) => SLOTS as usize + 1,
        }
    }
}

/// A running average at one instant.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Point {
    /// Instant, `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Bytes per second over the window that ends here.
    pub bytes_per_s: f64,
}

/// The running average of one flow's receives. Memory is bounded by the window.
#[derive(Clone, Debug)]
pub struct Running {
    window: Window,
    /// Receives, or slots of time, in the window: instants and bytes.
    recent: VecDeque<(u64, u64)>,
    recent_bytes: u64,
    /// Receives in all.
    pub receives: u64,
    /// Their bytes.
    pub bytes: u64,
    first_bytes: u64,
    /// The first, nanoseconds.
    pub first_ns: u64,
    /// The last, nanoseconds.
    pub last_ns: u64,
    /// Minimum of the average; `None` before the first full window.
    pub lowest: Option<Point>,
    /// Maximum of the average.
    pub highest: Option<Point>,
    /// Current value.
    pub latest: Option<Point>,
    points: Vec<Point>,
    stride: u64,
    seen: u64,
}

impl Running {
    /// An average without data.
    pub const fn new(window: Window) -> Self {
        Running {
            window,
            recent: VecDeque::new(),
            recent_bytes: 0,
            receives: 0,
            bytes: 0,
            first_bytes: 0,
            first_ns: 0,
            last_ns: 0,
            lowest: None,
            highest: None,
            latest: None,
            points: Vec::new(),
            stride: 1,
            seen: 0,
        }
    }

    /// Counts one receive. A late one counts as of now.
    pub fn receive(&mut self, time_ns: u64, bytes: u64) {
        let time_ns = time_ns.max(self.last_ns);
        if self.receives == 0 {
            (self.first_ns, self.first_bytes) = (time_ns, bytes);
        }
        match self.window {
            Window::Receives(n) => self.by_receives(time_ns, bytes, n.max(1) as usize),
            Window::Time(ns) => self.by_time(time_ns, bytes, ns.max(SLOTS)),
        }
        self.last_ns = time_ns;
        self.receives += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The bytes of the last n receives, over the time since the one before them.
    fn by_receives(&mut self, time_ns: u64, bytes: u64, n: usize) {
        self.push(time_ns, bytes);
        if self.recent.len() > n + 1 {
            self.pop();
        }
        if self.recent.len() == n + 1
            && let Some((from_ns, before)) = self.recent.front()
            && time_ns > *from_ns
        {
            let bytes = self.recent_bytes.saturating_sub(*before);
            self.point(time_ns, bytes as f64 * 1e9 / (time_ns - from_ns) as f64);
        }
    }

    /// Evaluates directly before each receive, which shows gaps, and directly after it.
    fn by_time(&mut self, time_ns: u64, bytes: u64, window_ns: u64) {
        let slot_ns = window_ns / SLOTS;
        let slot = time_ns / slot_ns;
        while self.recent.front().is_some_and(|(oldest, _)| slot.saturating_sub(*oldest) >= SLOTS) {
            self.pop();
        }
        let full = self.receives > 0 && time_ns - self.first_ns >= window_ns;
        let rate = |bytes: u64| bytes as f64 * 1e9 / (slot_ns * SLOTS) as f64;
        if full {
            self.point(time_ns, rate(self.recent_bytes));
        }
        match self.recent.back_mut() {
            Some((last, sum)) if *last == slot => {
                *sum = sum.saturating_add(bytes);
                self.recent_bytes = self.recent_bytes.saturating_add(bytes);
            }
            _ => self.push(slot, bytes),
        }
        if full {
            self.point(time_ns, rate(self.recent_bytes));
        }
    }

    fn push(&mut self, at: u64, bytes: u64) {
        self.recent.push_back((at, bytes));
        self.recent_bytes = self.recent_bytes.saturating_add(bytes);
    }

    fn pop(&mut self) {
        if let Some((_, bytes)) = self.recent.pop_front() {
            self.recent_bytes = self.recent_bytes.saturating_sub(bytes);
        }
    }

    fn point(&mut self, time_ns: u64, bytes_per_s: f64) {
        let point = Point { time_ns, bytes_per_s };
        if self.lowest.is_none_or(|lowest| bytes_per_s < lowest.bytes_per_s) {
            self.lowest = Some(point);
        }
        if self.highest.is_none_or(|highest| bytes_per_s > highest.bytes_per_s) {
            self.highest = Some(point);
        }
        self.latest = Some(point);
        if self.seen.is_multiple_of(self.stride) {
            if self.points.len() >= MOST_POINTS {
                let mut keep = false;
                self.points.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            if self.seen.is_multiple_of(self.stride) {
                self.points.push(point);
            }
        }
        self.seen += 1;
    }

    /// The overall average: the bytes after the first receive, over the time since it; `None` without such
    /// time.
    pub fn overall_bytes_per_s(&self) -> Option<f64> {
        let ns = self.last_ns - self.first_ns;
        (ns > 0).then(|| (self.bytes - self.first_bytes) as f64 * 1e9 / ns as f64)
    }

    /// The running average over time: one point per a number of receives, in order of time.
    pub fn points(&self) -> &[Point] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives of 1,000 bytes at this interval, nanoseconds.
    fn steady(running: &mut Running, from_ns: u64, gap_ns: u64, n: u64) -> u64 {
        (1..=n).for_each(|i| running.receive(from_ns + i * gap_ns, 1_000));
        from_ns + n * gap_ns
    }

    #[test]
    fn a_window_of_receives_is_the_sum_of_the_last_over_their_time() {
        let mut running = Running::new(Window::Receives(3));
        let receives: [(u64, u64); 6] = [(10, 5), (20, 7), (40, 1), (50, 2), (90, 9), (91, 4)];
        for (i, (time_ns, bytes)) in receives.into_iter().enumerate() {
            running.receive(time_ns, bytes);
            let expected = (i >= 3).then(|| {
                let last = &receives[i - 2..=i];
                last.iter().map(|(_, b)| *b).sum::<u64>() as f64 * 1e9 / (time_ns - receives[i - 3].0) as f64
            });
            assert_eq!(running.latest.map(|p| p.bytes_per_s), expected);
        }
        assert_eq!(running.overall_bytes_per_s(), Some(23.0 * 1e9 / 81.0));
        assert_eq!((running.receives, running.bytes, running.points().len()), (6, 28, 3));
    }

    #[test]
    fn a_dip_shows_in_the_window_and_hardly_in_the_whole() {
        for window in [Window::Receives(100), Window::Time(1_000_000)] {
            let mut running = Running::new(window);
            let at = steady(&mut running, 0, 1_000, 10_000);
            let at = steady(&mut running, at, 10_000, 200);
            steady(&mut running, at, 1_000, 10_000);
            let lowest = running.lowest.unwrap().bytes_per_s / 1e9;
            assert!((0.095..0.12).contains(&lowest), "{window:?} {lowest}");
            let overall = running.overall_bytes_per_s().unwrap() / 1e9;
            assert!((0.9..1.0).contains(&overall), "{overall}");
            assert!(running.highest.unwrap().bytes_per_s / 1e9 <= 1.01);
            assert!((MOST_POINTS / 2..=MOST_POINTS).contains(&running.points().len()));
            assert!(running.points().is_sorted_by_key(|p| p.time_ns));
            assert!(running.recent.len() <= window.entries());
        }
    }

    #[test]
    fn an_idle_time_is_seen_by_a_window_of_time() {
        let mut running = Running::new(Window::Time(1_000_000));
        let at = steady(&mut running, 0, 1_000, 5_000);
        running.receive(at + 10_000_000, 1_000);
        assert_eq!(running.lowest.map(|p| p.bytes_per_s), Some(0.0));
    }

    #[test]
    fn nothing_is_averaged_before_a_window_is_full_and_nothing_overflows() {
        let mut running = Running::new(Window::Receives(1000));
        steady(&mut running, 0, 10, 1000);
        assert_eq!((running.latest, running.lowest), (None, None));
        for (time_ns, bytes) in [(u64::MAX, u64::MAX), (0, u64::MAX), (u64::MAX, 1)] {
            running.receive(time_ns, bytes);
            let mut by_time = Running::new(Window::Time(1));
            by_time.receive(time_ns, bytes);
            by_time.receive(0, bytes);
        }
    }
}
