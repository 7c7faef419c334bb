//! Math: channels computed from channels.

use crate::channel::{Channel, UnknownChannel};
use std::fmt;

/// A channel computed from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Math {
    /// `A - B`.
    Difference(Channel, Channel),
    /// `ratio(A, B)`: A over B.
    Ratio(Channel, Channel),
    /// `rate(A)`: growth of A per second.
    Rate(Channel),
    /// `average(A, n)`: over the last n samples.
    Average(Channel, u16),
}

/// The reason why a text is no computed channel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MathError {
    /// A word that is no signal.
    #[error(transparent)]
    Channel(#[from] UnknownChannel),
    /// No valid expression.
    #[error("`{0}` is none of `A - B`, `ratio(A, B)`, `rate(A)`, `average(A, 16)`")]
    Form(String),
}

impl Math {
    /// Parses a computed channel; `None` for an empty text.
    pub fn parse(text: &str) -> Result<Option<Self>, MathError> {
        let text = text.trim();
        let bad = || MathError::Form(text.chars().take(40).collect());
        let inside = |name: &str| text.strip_prefix(name)?.trim().strip_prefix('(')?.strip_suffix(')');
        let pair = |inside: &str| -> Result<(Channel, String), MathError> {
            let (a, b) = inside.split_once(',').ok_or_else(bad)?;
            Ok((a.trim().parse()?, b.trim().to_owned()))
        };
        let math = if matches!(text, "" | "off" | "none") {
            return Ok(None);
        } else if let Some(inside) = inside("ratio") {
            let (a, b) = pair(inside)?;
            Self::Ratio(a, b.parse()?)
        } else if let Some(inside) = inside("rate") {
            Self::Rate(inside.trim().parse()?)
        } else if let Some(inside) = inside("average") {
            let (a, n) = pair(inside)?;
            Self::Average(a, n.parse().ok().filter(|n| *n > 0).ok_or_else(bad)?)
        } else if let Some((a, b)) = text.split_once(" - ") {
            Self::Difference(a.trim().parse()?, b.trim().parse()?)
        } else {
            return Err(bad());
        };
        Ok(Some(math))
    }
}

impl Math {
    /// The signals it is computed from.
    pub const fn channels(self) -> [Channel; 2] {
        match self {
            Self::Difference(a, b) | Self::Ratio(a, b) => [a, b],
            Self::Rate(a) | Self::Average(a, _) => [a, a],
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        let table = [
            ("srtt - rttvar", Math::Difference(Channel::Srtt, Channel::Rttvar)),
            ("ratio(cwnd, packets_out)", Math::Ratio(Channel::Cwnd, Channel::PacketsOut)),
            ("rate( retransmits )", Math::Rate(Channel::Retransmits)),
            ("average (srtt,16)", Math::Average(Channel::Srtt, 16)),
        ];
        for (text, math) in table {
            assert_eq!(Math::parse(text), Ok(Some(math)));
            assert_eq!(Math::parse(&math.to_string()), Ok(Some(math)));
        }
        assert_eq!(Math::parse(""), Ok(None));
        for bad in ["srtt", "rate()", "average(srtt, 0)", "ratio(srtt)", "a - b", "rate(srtt"] {
            assert!(Math::parse(bad).is_err(), "{bad}");
        }
    }
}
