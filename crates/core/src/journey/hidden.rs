//! The times in which events of a journey may have been left out on purpose.

/// Maximum number of intervals. Beyond it the two oldest become one: what lies between them then counts as hidden too.
const MOST: usize = 64;

/// Intervals of the recording's clock (nanoseconds), in the order of the changes that ended them.
#[derive(Clone, Debug, Default)]
pub(super) struct Hidden {
    ended: Vec<(u64, u64)>,
    /// Since when a part of each packet's events is left out, if that is so now.
    torn_since_ns: Option<u64>,
    has_torn: bool,
}

impl Hidden {
    /// Begins or ends, within an interval, the time in which a part of each packet's events is left out.
    pub fn tear(&mut self, from_ns: u64, to_ns: u64, tears: bool) {
        self.has_torn |= tears;
        if tears {
            self.torn_since_ns = Some(self.torn_since_ns.map_or(from_ns, |since_ns| since_ns.min(from_ns)));
        } else if let Some(since_ns) = self.torn_since_ns.take() {
            self.add(since_ns, to_ns);
        }
    }

    /// Adds an interval, inclusive.
    pub fn add(&mut self, from_ns: u64, to_ns: u64) {
        if self.ended.len() >= MOST {
            let (oldest, next) = (self.ended.remove(0), self.ended[0]);
            self.ended[0] = (oldest.0.min(next.0), oldest.1.max(next.1));
        }
        self.ended.push((from_ns, to_ns));
    }

    /// True if an instant of an interval (inclusive) is hidden.
    pub fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        self.torn_since_ns.is_some_and(|since_ns| since_ns <= to_ns) || self.has_ended_in(from_ns, to_ns)
    }

    /// The same, of ended times alone.
    pub fn has_ended_in(&self, from_ns: u64, to_ns: u64) -> bool {
        self.ended.iter().any(|(from, to)| *from <= to_ns && *to >= from_ns)
    }

    /// True if a part of a packet's events was ever left out.
    pub const fn has_torn(&self) -> bool {
        self.has_torn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_no_hidden_time_is_forgotten() {
        let mut hidden = Hidden::default();
        for n in 0..1_000 {
            hidden.add(10 * n, 10 * n + 2);
        }
        assert_eq!(hidden.ended.len(), MOST);
        assert!((0..1_000).all(|n| hidden.overlaps(10 * n + 1, 10 * n + 1)));
        assert!(!hidden.overlaps(9_995, 9_996), "the newest remain exact");
    }

    #[test]
    fn a_time_that_ends_later_began_with_its_first_setting() {
        let mut hidden = Hidden::default();
        hidden.tear(10, 12, true);
        hidden.tear(20, 22, true);
        assert!(!hidden.overlaps(0, 9) && hidden.overlaps(0, 10) && hidden.overlaps(1_000, 1_001));
        assert!(!hidden.has_ended_in(0, 1_000), "it goes on");
        hidden.tear(30, 32, false);
        assert!(hidden.has_ended_in(31, 40) && !hidden.overlaps(33, 40));
    }
}
