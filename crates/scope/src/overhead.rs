//! What the instrument itself costs, and whether it records: told to the scope from outside.

/// The instrument's own cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overhead {
    /// CPU time of this process over wall time; 1.0 is a whole core.
    pub reader_cpu_ratio: f64,
    /// Measured nanoseconds a hit costs in the kernel, where that is known.
    pub kernel_ns_per_hit: Option<f64>,
    /// Estimated CPU time of all kernel probes over wall time; 1.0 is a whole core.
    pub kernel_cpu_ratio_estimate: Option<f64>,
    /// Hits of all probes so far.
    pub hits: u64,
    /// How full the fullest ring buffer was when last read, 0.0 to 1.0.
    pub ring_fill_ratio: f64,
    /// What it is kept to, where it is.
    pub budget: Option<Budget>,
}

/// What the instrument may take of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Part of all CPUs, and of the busiest one: 0.02 for 2 %.
    pub ratio: f64,
    /// What it took lately.
    pub used_ratio: f64,
    /// What is therefore captured, in words.
    pub captured: &'static str,
}

/// A recording that runs beside the scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Where to, as the user knows it.
    pub name: String,
    /// Written so far.
    pub bytes: u64,
    /// Events written so far.
    pub events: u64,
}
