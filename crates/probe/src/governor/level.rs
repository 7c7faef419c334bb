//! How much of what happens becomes records: a ladder from everything to nothing but a look now and then.

use std::fmt;

/// A rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As it was asked for.
    Full,
    /// Compact records, without what journeys do not need.
    Compact,
    /// The same of one in so many flows, beside any sampling that was asked for.
    Flows(u32),
    /// No records: the kernel adds up.
    Histograms,
    /// Nothing is attached, but for a look now and then whether the load has fallen.
    Rest,
}

impl Level {
    /// All of them, downwards.
    pub const LADDER: [Self; 7] = [
        Self::Full,
        Self::Compact,
        Self::Flows(4),
        Self::Flows(16),
        Self::Flows(64),
        Self::Histograms,
        Self::Rest,
    ];

    /// How far down it is.
    pub fn depth(self) -> usize {
        Self::LADDER.iter().position(|level| *level == self).unwrap_or(0)
    }

    /// What part of the flows that pass what was asked for becomes records.
    pub fn kept(self) -> f64 {
        match self {
            Self::Full | Self::Compact => 1.0,
            Self::Flows(one_in) => 1.0 / f64::from(one_in.max(1)),
            Self::Histograms | Self::Rest => 0.0,
        }
    }
}

impl Level {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "everything asked for",
            Self::Compact => "compact records",
            Self::Flows(4) => "compact records of 1/4 of the flows",
            Self::Flows(16) => "compact records of 1/16 of the flows",
            Self::Flows(_) => "compact records of 1/64 of the flows",
            Self::Histograms => "histograms in the kernel only",
            Self::Rest => "nothing, but for a look now and then",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
