//! Math: channels computed from channels.

use crate::channel::Channel;
use std::fmt;

/// A channel computed from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Math {
    /// `A - B`.
    Difference(Channel, Channel),
    /// `ratio(A, B)`: A over B.
    Ratio(Channel, Channel),
    /// `rate(A)`: how fast A grows, a second.
    Rate(Channel),
    /// `average(A, n)`: over the last n samples.
    Average(Channel, u16),
}

impl fmt::Display for Math {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Difference(a, b) => write!(f, "{a} - {b}"),
            Self::Ratio(a, b) => write!(f, "ratio({a}, {b})"),
            Self::Rate(a) => write!(f, "rate({a})"),
            Self::Average(a, n) => write!(f, "average({a}, {n})"),
        }
    }
}
