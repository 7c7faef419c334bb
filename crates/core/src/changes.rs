//! Repetition of a capture's changes, and their removal at readers that have them.
//!
//! **The problem.** A change holds on, and its reader may begin later: at a segment whose predecessors were deleted,
//! at a recording that a trigger began, at any packet of a memory or a bus.
//!
//! **The choice.** Each of these parts begins with the changes so far ([`StoredChanges`]). A reader that continues gets
//! them again and removes them ([`NewChanges`]). A change is identified by its interval and its text.

use crate::change::Change;
use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum number of repeated changes, the newest: few in practice, because users make them.
const MOST_REPEATED: usize = 1_000;
/// Maximum number of changes that a reader recognises: more than are repeated.
const MOST_RECOGNISED: usize = 4 * MOST_REPEATED;

/// Interval of a change, and a hash of its text: texts of any length take the same memory.
type Identity = (u64, u64, u64);

/// Selects the changes that a reader does not have yet. Bounded; the oldest are forgotten first.
#[derive(Debug, Default)]
pub struct NewChanges {
    found: HashSet<Identity>,
    /// The same, in order of arrival.
    order: VecDeque<Identity>,
}

impl NewChanges {
    /// Removes the changes that came before.
    pub fn retain(&mut self, changes: &mut Vec<Change>) {
        changes.retain(|change| self.is_new(change));
    }

    /// True at the first call for a change.
    pub fn is_new(&mut self, change: &Change) -> bool {
        let mut hasher = DefaultHasher::new();
        change.what.hash(&mut hasher);
        let identity = (change.from_ns, change.to_ns, hasher.finish());
        if !self.found.insert(identity) {
            return false;
        }
        self.order.push_back(identity);
        if self.order.len() > MOST_RECOGNISED
            && let Some(oldest) = self.order.pop_front()
        {
            self.found.remove(&oldest);
        }
        true
    }
}

/// The newest changes of a capture, each once, for repetition.
#[derive(Debug, Default)]
pub struct StoredChanges {
    changes: Vec<Change>,
    new: NewChanges,
}

impl StoredChanges {
    /// Adds changes, except repeated ones.
    pub fn remember(&mut self, changes: &[Change]) {
        for change in changes {
            if self.new.is_new(change) {
                self.changes.push(change.clone());
            }
        }
        self.changes.drain(..self.changes.len().saturating_sub(MOST_REPEATED));
    }

    /// The changes in order of arrival.
    pub fn all(&self) -> &[Change] {
        &self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(to_ns: u64, what: &str) -> Change {
        Change { from_ns: 1, to_ns, what: what.to_owned() }
    }

    fn count_new(new_changes: &mut NewChanges, mut changes: Vec<Change>) -> usize {
        new_changes.retain(&mut changes);
        changes.len()
    }

    #[test]
    fn a_change_is_new_once() {
        let mut new_changes = NewChanges::default();
        let (off, on) = (change(2, "disable dev.queue"), change(2, "enable dev.queue"));
        assert_eq!(count_new(&mut new_changes, vec![off.clone(), on.clone(), off.clone()]), 2);
        assert_eq!(count_new(&mut new_changes, vec![off, change(3, "disable dev.queue"), on]), 1);
    }

    #[test]
    fn the_oldest_are_forgotten_first() {
        let mut new_changes = NewChanges::default();
        let all = |last: u64| (0..last).map(|to_ns| change(to_ns, "detail both")).collect::<Vec<_>>();
        let most = MOST_RECOGNISED as u64;
        assert_eq!(count_new(&mut new_changes, all(most + 10)), MOST_RECOGNISED + 10);
        assert_eq!((new_changes.found.len(), new_changes.order.len()), (MOST_RECOGNISED, MOST_RECOGNISED));
        assert_eq!(count_new(&mut new_changes, all(most + 10).split_off(10)), 0, "the newest are recognised");
        assert_eq!(count_new(&mut new_changes, all(1)), 1);
    }

    #[test]
    fn the_newest_are_repeated_each_once() {
        let mut stored = StoredChanges::default();
        let all: Vec<Change> = (0..1_500).map(|to_ns| change(to_ns, "detail both")).collect();
        for some in all.chunks(7) {
            stored.remember(some);
        }
        stored.remember(&all[1_000..]);
        assert_eq!(stored.all(), &all[500..]);
    }

    #[test]
    fn a_reader_of_parts_that_repeat_their_predecessors_gets_each_change_once() {
        let (mut stored, mut reader) = (StoredChanges::default(), NewChanges::default());
        for part in 1..=20_u64 {
            assert_eq!(count_new(&mut reader, stored.all().to_vec()), 0, "part {part}");
            let own: Vec<Change> =
                (part * 500..(part + 1) * 500).map(|to_ns| change(to_ns, "detail full")).collect();
            assert_eq!(count_new(&mut reader, own.clone()), 500, "part {part}");
            stored.remember(&own);
        }
        assert_eq!(
            count_new(&mut reader, vec![change(10_499, "detail both")]),
            1,
            "at the time of another one"
        );
    }
}
