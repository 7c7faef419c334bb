//! The clock relation between the two halves of a journey, and its form in files.

use serde::{Deserialize, Serialize};

/// The clock relation between the halves of a journey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenAcross", into = "WrittenAcross")]
pub enum Across {
    /// One clock: differences are exact.
    #[default]
    OneClock,
    /// Two clocks on one time line, with the bounds of any time from the sender's half to the receiver's. The
    /// estimate is not always the middle of its interval.
    Bounded {
        /// The true time is at most this much shorter than the estimate, nanoseconds.
        below_ns: u64,
        /// The true time is at most this much longer than the estimate, nanoseconds.
        above_ns: u64,
    },
    /// Two unrelated clocks: there is no difference between the halves.
    Apart,
}

impl Across {
    /// Two clocks with the same error to both sides.
    pub const fn within(half_width_ns: u64) -> Self {
        Across::Bounded { below_ns: half_width_ns, above_ns: half_width_ns }
    }

    /// The larger error of the two sides, nanoseconds; `None` for unrelated clocks.
    pub fn half_width_ns(self) -> Option<u64> {
        match self {
            Across::OneClock => Some(0),
            Across::Bounded { below_ns, above_ns } => Some(below_ns.max(above_ns)),
            Across::Apart => None,
        }
    }
}

/// [`Across`] in JSON and `meta.toml`. Equal errors to both sides are written once.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "across", rename_all = "kebab-case")]
enum WrittenAcross {
    OneClock,
    Bounded {
        half_width_ns: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        below_ns: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        above_ns: Option<u64>,
    },
    Apart,
}

impl From<Across> for WrittenAcross {
    fn from(across: Across) -> Self {
        match across {
            Across::OneClock => Self::OneClock,
            Across::Bounded { below_ns, above_ns } => {
                let of = |ns: u64| (below_ns != above_ns).then_some(ns);
                Self::Bounded {
                    half_width_ns: below_ns.max(above_ns),
                    below_ns: of(below_ns),
                    above_ns: of(above_ns),
                }
            }
            Across::Apart => Self::Apart,
        }
    }
}

impl From<WrittenAcross> for Across {
    fn from(written: WrittenAcross) -> Self {
        match written {
            WrittenAcross::OneClock => Self::OneClock,
            WrittenAcross::Bounded { half_width_ns, below_ns, above_ns } => Self::Bounded {
                below_ns: below_ns.unwrap_or(half_width_ns),
                above_ns: above_ns.unwrap_or(half_width_ns),
            },
            WrittenAcross::Apart => Self::Apart,
        }
    }
}
