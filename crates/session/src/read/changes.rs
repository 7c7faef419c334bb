//! Changes of settings, once each: every segment repeats those of the segments before it.

use super::cursor::Cursor;
use super::damage::Damage;
use super::segment::SegmentMap;
use crate::layout::Table;
use magscope_core::Change;
use std::collections::BTreeSet;

/// Maximum number of remembered changes. A segment repeats at most 1,000, the newest in order of recording. The
/// remembered ones are the newest in order of time, which differs a little.
const MOST: usize = 4_000;

/// The newest changes that a reader passed on: their times and texts.
#[derive(Default)]
pub(super) struct PassedChanges(BTreeSet<(u64, u64, String)>);

impl PassedChanges {
    /// Remembers a change. True if it was not passed on before.
    pub(super) fn insert(&mut self, change: &Change) -> bool {
        let is_new = self.0.insert((change.from_ns, change.to_ns, change.what.clone()));
        if self.0.len() > MOST {
            self.0.pop_first();
        }
        is_new
    }

    /// Appends all changes of a segment that were not passed on before.
    pub(super) fn read(&mut self, segment: &SegmentMap, damage: &mut Vec<Damage>, changes: &mut Vec<Change>) {
        let mut cursor = Cursor::<Change>::new(segment.table(Table::Changes), damage);
        let new_change = |change: Change| {
            if self.insert(&change) {
                changes.push(change);
            }
        };
        cursor.until(u64::MAX, damage, new_change, |_| {});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_changes_are_passed_on_once_and_memory_is_bounded() {
        let change = |at: u64| Change { from_ns: at, to_ns: at + 1, what: "detail full".to_owned() };
        let mut passed = PassedChanges::default();
        for segment in 1..=20 {
            let until: u64 = segment * 500;
            let repeated = until.saturating_sub(1_500)..until - 500;
            assert!(!repeated.map(change).any(|change| passed.insert(&change)), "segment {segment}");
            assert!((until - 500..until).map(change).all(|change| passed.insert(&change)), "segment {segment}");
        }
        assert_eq!(passed.0.len(), MOST);
        let other = Change { what: "detail both".to_owned(), ..change(9_999) };
        assert!(passed.insert(&other), "at the same time as another one");
    }
}
