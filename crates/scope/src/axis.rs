//! A logarithmic latency axis, divided into classes.

/// A logarithmic latency axis.
#[derive(Clone, Copy, Debug)]
pub struct LogAxis {
    least: f64,
    factor: f64,
    /// Number of classes.
    pub classes: usize,
}

impl LogAxis {
    /// An axis between a least and a largest time, nanoseconds.
    pub fn new(least_ns: u64, most_ns: u64, classes: usize) -> Self {
        let (least, most) = (least_ns.max(1) as f64, most_ns.max(1) as f64 * 1.01);
        LogAxis { least, factor: (most / least).ln() / classes as f64, classes }
    }

    /// Position of a time: 0 is the lower edge of the first class, the number of classes the upper edge of the
    /// last.
    pub fn place(&self, ns: f64) -> f64 {
        ((ns / self.least).ln() / self.factor).clamp(0.0, self.classes as f64)
    }

    /// The class of a time.
    pub fn class(&self, ns: u64) -> usize {
        (self.place(ns.max(1) as f64) as usize).min(self.classes - 1)
    }

    /// The edges of the classes, nanoseconds: one more than the number of classes.
    pub fn edges_ns(&self) -> Vec<u64> {
        (0..=self.classes).map(|n| (self.least * (self.factor * n as f64).exp()) as u64).collect()
    }
}
