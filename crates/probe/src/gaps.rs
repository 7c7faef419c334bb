//! Second detector of loss: gaps in each CPU's record numbers, compared with the kernel's loss records.
//!
//! An interrupt can swap two numbers, so a gap that the next record fills is no loss. Gaps that no loss record
//! explains are reported here.

/// Keeps the account of one CPU.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    next: Option<u32>,
    missing: i64,
    explained: i64,
    reported: i64,
    suspected: i64,
}

impl Gaps {
    /// Registers a numbered record.
    #[inline]
    pub fn seen(&mut self, number: u32) {
        let Some(next) = self.next else {
            self.next = Some(number.wrapping_add(1));
            return;
        };
        let step = number.wrapping_sub(next) as i32;
        if step >= 0 {
            self.missing = self.missing.saturating_add(i64::from(step));
            self.next = Some(number.wrapping_add(1));
        } else {
            self.missing = self.missing.saturating_sub(1);
        }
    }

    /// Registers a loss record of `count` records.
    pub fn explained(&mut self, count: u64) {
        self.explained = self.explained.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Missing records without a loss record that were not returned before. Called once a drain: numbers
    /// missing in two calls are not reordered records.
    pub fn unexplained(&mut self) -> u64 {
        // saturating: the input is untrusted, and a forged loss record may claim any count
        let now = self.missing.saturating_sub(self.explained).saturating_sub(self.reported);
        let lasting = now.min(self.suspected).max(0);
        self.suspected = now.saturating_sub(lasting);
        self.reported = self.reported.saturating_add(lasting);
        lasting as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordering_is_no_loss() {
        let mut gaps = Gaps::default();
        for n in [u32::MAX - 1, 0, u32::MAX, 1, 3, 2] {
            gaps.seen(n);
        }
        assert_eq!((gaps.unexplained(), gaps.unexplained()), (0, 0));
    }

    #[test]
    fn a_loss_that_claims_too_much_is_only_believed() {
        let mut gaps = Gaps::default();
        for number in [0, 9, 3, 2, 1] {
            gaps.seen(number);
        }
        gaps.explained(u64::MAX);
        gaps.explained(u64::MAX);
        gaps.seen(8);
        gaps.seen(7);
        for number in 0..20 {
            gaps.seen(number);
        }
        assert_eq!((gaps.unexplained(), gaps.unexplained()), (0, 0));
    }

    #[test]
    fn only_an_unexplained_gap_is_reported_and_only_once() {
        let mut gaps = Gaps::default();
        gaps.seen(0);
        gaps.explained(3);
        gaps.seen(4);
        gaps.seen(7);
        assert_eq!(gaps.unexplained(), 0, "may still be filled");
        assert_eq!(gaps.unexplained(), 2);
        assert_eq!(gaps.unexplained(), 0);
    }
}
