//! The number columns next to the lanes, and their selection by width.

use magscope_core::Proto;
use magscope_scope::format::{self, BIT_RATE_WIDTH, DURATION_WIDTH, RATE_WIDTH};
use magscope_scope::{Frame, HopStats};

/// A column of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Events per second; journeys per second of a filter.
    Rate,
    /// Payload bits per second.
    Bits,
    /// Median time from the hop below.
    P50,
    /// 99th percentile.
    P99,
    /// Maximum.
    Max,
    /// Number of journeys in the percentiles.
    Count,
}

impl Column {
    /// Display order.
    const ALL: [Column; 6] = [Self::Rate, Self::Bits, Self::P50, Self::P99, Self::Max, Self::Count];
    /// Order of priority.
    const BY_NEED: [Column; 6] = [Self::P50, Self::P99, Self::Rate, Self::Max, Self::Bits, Self::Count];

    /// Title.
    pub fn title(self, frame: &Frame) -> &'static str {
        match self {
            Self::Rate => frame.rate_title(),
            Self::Bits => "bit rate",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Max => "max",
            Self::Count => "n",
        }
    }

    /// Width without the gap before it.
    pub const fn width(self) -> u16 {
        match self {
            Self::Rate => RATE_WIDTH as u16,
            Self::Bits => BIT_RATE_WIDTH as u16,
            Self::P50 | Self::P99 | Self::Max => DURATION_WIDTH as u16,
            Self::Count => 6,
        }
    }

    /// A letter for the protocol whose times begin in this column, where those of others are left out. Never a
    /// digit, nor like one: a full-width number follows without a blank.
    pub fn protocol(self, stats: &HopStats) -> Option<&'static str> {
        Some(match stats.latency.filter(|_| self == Self::P50)?.proto? {
            Proto::TCP => "t",
            Proto::UDP => "u",
            Proto::ICMP => "i",
            Proto::ICMPV6 => "v",
            _ => "p",
        })
    }

    /// What stands in it; `None` where nothing was measured.
    pub fn text(self, stats: &HopStats) -> Option<String> {
        let latency = stats.latency;
        match self {
            Self::Rate => Some(stats.shown(&format::rate(stats.events_per_s))),
            Self::Bits => stats.bytes_per_s.map(|bytes| stats.shown(&format::bit_rate(bytes))),
            Self::P50 => latency.map(|l| format::duration(l.p50_ns)),
            Self::P99 => latency.map(|l| format::duration(l.p99_ns)),
            Self::Max => latency.map(|l| format::duration(l.max_ns)),
            Self::Count => latency.map(|l| format::amount(l.n)),
        }
    }
}

/// Blank columns before each column, and after the last.
pub const GAP: u16 = 2;

/// Width of some columns with their gaps.
pub fn total_width(columns: &[Column]) -> u16 {
    columns.iter().map(|column| column.width() + GAP).sum()
}

/// The columns that fit into `width`, in display order.
pub fn fitting(width: u16) -> Vec<Column> {
    let mut chosen = Vec::new();
    let mut left = width;
    for column in Column::BY_NEED {
        let Some(rest) = left.checked_sub(column.width() + GAP) else { break };
        left = rest;
        chosen.push(column);
    }
    Column::ALL.into_iter().filter(|column| chosen.contains(column)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_scope::Latency;

    #[test]
    fn columns_go_in_order_of_need() {
        assert!(fitting(5).is_empty());
        assert_eq!(fitting(9), [Column::P50]);
        assert_eq!(fitting(28), [Column::Rate, Column::P50, Column::P99]);
        assert_eq!(fitting(200).len(), Column::ALL.len());
        for width in 0..100 {
            assert!(total_width(&fitting(width)) <= width);
        }
    }

    #[test]
    fn no_mark_of_a_protocol_reads_as_a_part_of_the_number() {
        for number in 0..=u8::MAX {
            let proto = Some(Proto(number));
            let latency = Latency { from: None, proto, n: 1, p50_ns: 1, p90_ns: 1, p99_ns: 1, max_ns: 1 };
            let stats = HopStats { latency: Some(latency), ..HopStats::default() };
            let mark = Column::P50.protocol(&stats).expect("a mark");
            let is_letter = mark.len() == 1 && mark.chars().all(char::is_lowercase);
            assert!(is_letter && !matches!(mark, "l" | "o"), "protocol {number}: {mark}");
            assert_eq!(Column::P99.protocol(&stats), None);
        }
    }
}
