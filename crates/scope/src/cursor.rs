//! Cursors: two instants to compare.

/// Which of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CursorId {
    /// The first.
    #[default]
    A,
    /// The second.
    B,
}

/// Two instants on the time line of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursors {
    /// The first, nanoseconds.
    pub a_ns: u64,
    /// The second, nanoseconds.
    pub b_ns: u64,
    /// The active cursor.
    pub chosen: CursorId,
}

impl Cursors {
    /// Time from the first to the second cursor, nanoseconds; negative if the second is earlier.
    pub fn delta_ns(&self) -> i64 {
        let delta = i128::from(self.b_ns) - i128::from(self.a_ns);
        i64::try_from(delta).unwrap_or(if delta < 0 { i64::MIN } else { i64::MAX })
    }

    /// Frequency of one event in that time, per second; `None` if both cursors are at one instant.
    pub fn per_s(&self) -> Option<f64> {
        let ns = self.delta_ns().unsigned_abs();
        (ns > 0).then(|| 1e9 / ns as f64)
    }

    /// The earlier one and the later one.
    pub fn span(&self) -> (u64, u64) {
        (self.a_ns.min(self.b_ns), self.a_ns.max(self.b_ns))
    }

    /// Position of the chosen cursor.
    pub const fn chosen_ns(&self) -> u64 {
        match self.chosen {
            CursorId::A => self.a_ns,
            CursorId::B => self.b_ns,
        }
    }

    /// Puts a cursor at an instant.
    pub const fn place(&mut self, which: CursorId, at_ns: u64) {
        match which {
            CursorId::A => self.a_ns = at_ns,
            CursorId::B => self.b_ns = at_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_has_a_sign_and_its_inverse_has_none() {
        let cursors = Cursors { a_ns: 2_000, b_ns: 1_000, chosen: CursorId::B };
        assert_eq!((cursors.delta_ns(), cursors.per_s()), (-1_000, Some(1e6)));
        assert_eq!((cursors.span(), cursors.chosen_ns()), ((1_000, 2_000), 1_000));
        let far = Cursors { a_ns: u64::MAX, b_ns: 0, chosen: CursorId::A };
        assert_eq!(far.delta_ns(), i64::MIN);
        assert_eq!(Cursors { a_ns: 7, b_ns: 7, ..far }.per_s(), None);
    }
}
