//! Changes of settings during a recording: its parts are then of different traffic.

use magscope_core::change::Change;
use magscope_core::governed::Level;

/// Maximum number of distinct changes; further ones are counted.
const MOST: usize = 64;
/// Number of distinct changes in a text.
const SHOWN: usize = 6;

/// The changes of one recording, or of all of one side.
#[derive(Clone, Debug, Default)]
pub(super) struct SettingChanges {
    /// Each distinct change with its number, in the order of their first ones.
    distinct: Vec<(String, u64)>,
    /// Number of changes beyond the maximum.
    others: u64,
}

impl SettingChanges {
    /// Counts a change, if it affects what is recorded.
    pub fn push(&mut self, change: &Change) {
        // Rules of the host are no settings, and a watermark delays events and leaves none out.
        if change.is_of_rules() || change.what.starts_with("watermark ") {
            return;
        }
        // Each step of a budget names another load. The way back to full detail leaves nothing out.
        match Level::of(change) {
            Some(Level::Full) => {}
            Some(level) => self.add(&format!("budget: {level}"), 1),
            None => self.add(&change.what, 1),
        }
    }

    /// Adds those of another recording.
    pub fn append(&mut self, other: &Self) {
        for (what, n) in &other.distinct {
            self.add(what, *n);
        }
        self.others = self.others.saturating_add(other.others);
    }

    fn add(&mut self, what: &str, n: u64) {
        if let Some((_, so_far)) = self.distinct.iter_mut().find(|(same, _)| same == what) {
            *so_far = so_far.saturating_add(n);
        } else if self.distinct.len() < MOST {
            self.distinct.push((what.to_owned(), n));
        } else {
            self.others = self.others.saturating_add(n);
        }
    }

    /// The changes in words; `None` without any.
    pub fn words(&self) -> Option<String> {
        let words = |(what, n): &(String, u64)| match n {
            0 | 1 => what.clone(),
            n => format!("{what} ({n} times)"),
        };
        let mut listed: Vec<String> = self.distinct.iter().take(SHOWN).map(words).collect();
        let unlisted = self.distinct.iter().skip(SHOWN).fold(self.others, |sum, (_, n)| sum.saturating_add(*n));
        if unlisted > 0 {
            listed.push(format!("and {unlisted} more"));
        }
        (!listed.is_empty()).then(|| listed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Run, Side, compare};
    use magscope_core::batch::Batch;
    use magscope_core::hop::HopSet;
    use magscope_core::node::NodeInfo;

    fn change(what: &str) -> Change {
        Change { from_ns: 1, to_ns: 2, what: what.to_owned() }
    }

    fn side(changes: Vec<Change>) -> Side {
        let mut run = Run::new(&NodeInfo::default(), HopSet::all());
        run.batch(&Batch { changes, ..Batch::default() });
        let mut side = Side::default();
        side.add(run);
        side
    }

    fn warnings(a: &Side, b: &Side) -> Vec<String> {
        let warnings = compare(a, b).warnings;
        warnings.iter().map(ToString::to_string).filter(|text| text.contains("changed")).collect()
    }

    #[test]
    fn changes_of_settings_are_named_with_their_side() {
        let sampled =
            side(vec![change("sample flows 1/4"), change("disable dev.queue"), change("detail compact")]);
        let whole =
            side(vec![Change::of_rules(1, 2, 7), change("watermark 1"), Level::Full.change(1, 2, 0.0, 0.1)]);
        let found = warnings(&sampled, &whole);
        let [one] = found.as_slice() else { panic!("one side was changed") };
        assert!(one.contains("settings of A changed") && !one.contains("settings of B"), "{one}");
        assert!(one.contains("sample flows 1/4, disable dev.queue, detail compact"), "{one}");
        assert!(warnings(&whole, &whole).is_empty());
        let mut both = side(vec![Level::Rest.change(1, 2, 0.3, 0.1), Level::Rest.change(3, 4, 0.4, 0.1)]);
        both.append(&sampled);
        let found = warnings(&both, &both);
        let [a, b] = found.as_slice() else { panic!("both sides were changed") };
        assert!(a.contains("budget: nothing, but for a look now and then (2 times)"), "{a}");
        assert!(a.contains("sample flows") && b.contains("settings of B changed"), "{a} {b}");
    }

    #[test]
    fn memory_is_bounded_and_all_are_counted() {
        let mut all = SettingChanges::default();
        (0..1_000).for_each(|n| all.push(&change(&format!("filter port = {n}"))));
        assert_eq!((all.distinct.len(), all.others), (MOST, 1_000 - MOST as u64));
        let words = all.words().expect("changes");
        assert!(words.ends_with(&format!("and {} more", 1_000 - SHOWN)), "{words}");
        assert_eq!(SettingChanges::default().words(), None);
    }
}
