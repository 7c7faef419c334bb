//! The instrument's overhead and its recording state, set by the caller.

/// The instrument's own cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overhead {
    /// CPU time of this process over wall time; 1.0 is a whole core.
    pub reader_cpu_ratio: f64,
    /// Measured cost of a hit in the kernel, nanoseconds, if available.
    pub kernel_ns_per_hit: Option<f64>,
    /// Estimated CPU time of all kernel probes over wall time; 1.0 is a whole core.
    pub kernel_cpu_ratio_estimate: Option<f64>,
    /// Hits of all probes so far.
    pub hits: u64,
    /// Last reading of the fullest ring buffer's fill level, 0.0 to 1.0.
    pub ring_fill_ratio: f64,
    /// The overhead budget, if any.
    pub budget: Option<Budget>,
}

/// The overhead budget of the instrument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Part of all CPUs, and of the busiest one: 0.02 for 2 %.
    pub ratio: f64,
    /// Recent overhead.
    pub used_ratio: f64,
    /// The resulting capture level, in words.
    pub captured: &'static str,
}

/// A recording during the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Its destination, for display.
    pub name: String,
    /// Written so far.
    pub bytes: u64,
    /// Events written so far.
    pub events: u64,
}
