//! Pacing and sizes.

use std::thread;
use std::time::{Duration, Instant};

/// Ticks at a fixed rate. Late ticks are skipped, so that no burst follows a stall.
#[derive(Debug)]
pub struct Pace {
    every: Duration,
    next: Instant,
}

impl Pace {
    /// The first tick is immediate.
    pub fn new(every: Duration) -> Self {
        Pace { every, next: Instant::now() }
    }

    /// Sleeps until the next tick.
    pub fn wait(&mut self) {
        let now = Instant::now();
        if let Some(left) = self.next.checked_duration_since(now) {
            thread::sleep(left);
        } else {
            self.next = now;
        }
        self.next += self.every;
    }
}

/// Reproducible varying sizes (xorshift; Marsaglia 2003).
#[derive(Debug)]
pub struct Sizes(u32);

impl Sizes {
    /// A distinct sequence for every seed except 0.
    pub const fn new(seed: u32) -> Self {
        Sizes(seed)
    }

    /// The next size in `from..to`.
    pub fn next(&mut self, from: usize, to: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        from + self.0 as usize % (to - from).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_in_range_and_vary() {
        let mut sizes = Sizes::new(7);
        let seen: Vec<_> = (0..1000).map(|_| sizes.next(100, 1000)).collect();
        assert!(seen.iter().all(|size| (100..1000).contains(size)));
        assert!(seen.iter().any(|size| *size < 200) && seen.iter().any(|size| *size > 900));
    }

    #[test]
    fn a_stall_is_not_followed_by_a_burst() {
        let mut pace = Pace::new(Duration::from_millis(1));
        pace.wait();
        thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        for _ in 0..5 {
            pace.wait();
        }
        assert!(start.elapsed() >= Duration::from_millis(3));
    }
}
