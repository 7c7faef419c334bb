//! Damage that a reader finds only when it reads a batch: checksums of large tables are not compared before.

use crate::output;
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_session::{Replay, Session};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of remembered places.
const MOST: usize = 1_000;
/// Maximum number of places in one note.
const SHOWN: usize = 8;

/// Damage found by all readers of some recordings, each place once: a recording may be read several times.
#[derive(Debug, Default)]
pub struct FoundDamage(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    /// By directory and description; true if the user was notified of it.
    notified: BTreeMap<(PathBuf, String), bool>,
    /// The newest of them.
    newest: Option<String>,
    /// True if there were more than the maximum.
    is_full: bool,
}

impl FoundDamage {
    /// A reader of a part of a recording, which adds the damage it finds. Damage that the opening found is not added.
    pub fn replay<'r>(
        &'r self,
        dir: &'r Path,
        session: &'r Session,
        (from_ns, to_ns): (Option<u64>, Option<u64>),
    ) -> DamageReader<'r> {
        DamageReader { replay: session.replay(from_ns, to_ns), dir, session, passed: 0, found: self }
    }

    /// All descriptions.
    pub fn all(&self) -> Vec<String> {
        self.places().notified.keys().map(|(_, what)| what.clone()).collect()
    }

    /// Number of places.
    pub fn count(&self) -> usize {
        self.places().notified.len()
    }

    /// A message for a screen if there are more than `shown` places, which becomes their number. It names the newest.
    pub fn news(&self, shown: &mut usize) -> Option<String> {
        let places = self.places();
        let count = places.notified.len();
        if count <= *shown {
            return None;
        }
        *shown = count;
        let newest = places.newest.clone()?;
        Some(if count == 1 { newest } else { format!("{newest}; {count} damaged places so far") })
    }

    /// Prints what was found since the last call.
    pub fn note(&self) {
        self.words().iter().for_each(|words| output::note(words));
    }

    /// One line for each place found since the last call, and one for those beyond [`SHOWN`].
    fn words(&self) -> Vec<String> {
        let mut places = self.places();
        let Places { notified, is_full, newest: _ } = &mut *places;
        let mut words = Vec::new();
        let mut unlisted = 0_u64;
        for ((dir, what), is_notified) in notified.iter_mut().filter(|(_, is_notified)| !**is_notified) {
            *is_notified = true;
            if words.len() < SHOWN {
                words.push(format!("{}: {what}", dir.display()));
            } else {
                unlisted += 1;
            }
        }
        if unlisted > 0 {
            let least = if *is_full { "at least " } else { "" };
            words.push(format!(
                "and {least}{unlisted} more damaged places; `magnet-scope info --verify` lists them"
            ));
        }
        words
    }

    /// Adds a place in the recording of a directory.
    pub fn add(&self, dir: &Path, what: String) {
        let mut places = self.places();
        let newest = format!("{}: {what}", dir.display());
        let key = (dir.to_path_buf(), what);
        if places.notified.contains_key(&key) {
            return;
        }
        if places.notified.len() < MOST {
            places.notified.insert(key, false);
            places.newest = Some(newest);
        } else {
            places.is_full = true;
        }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader of a recording that reports damage.
pub struct DamageReader<'r> {
    replay: Replay,
    dir: &'r Path,
    session: &'r Session,
    /// Number of damaged places of the replay that were passed on.
    passed: usize,
    found: &'r FoundDamage,
}

impl Source for DamageReader<'_> {
    fn info(&self) -> &NodeInfo {
        self.replay.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        let progress = self.replay.next(batch, timeout)?;
        let all = self.replay.damage();
        let at_opening = self.session.damage();
        for damage in all.iter().skip(self.passed).filter(|damage| !at_opening.contains(damage)) {
            self.found.add(self.dir, damage.to_string());
        }
        self.passed = all.len();
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::PartArgs;
    use crate::recordings::Recordings;
    use magscope_core::journey::Limits;

    /// A recording with a changed byte in its events, and a missing end that the opening finds.
    fn damaged() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/damaged/session"))
    }

    #[test]
    fn damage_that_only_reading_finds_is_noted_once() {
        let recordings =
            Recordings::open(&[damaged()], PartArgs::default(), Limits::default()).expect("a golden recording");
        let before = recordings.damage();
        assert!(!before.is_empty() && !before.iter().any(|what| what.contains("checksum")), "{before:?}");
        let mut walker = recordings.walker(Limits::default(), None);
        while walker.step(&mut |_| {}).expect("a replay never fails") == Progress::More {}
        let after = recordings.damage();
        assert_eq!(&after[..before.len()], before);
        let [new] = &after[before.len()..] else { panic!("one place: {after:?}") };
        assert!(new.contains("was skipped: the checksum differs"), "{new}");
        let words = recordings.found.words();
        assert!(words.len() == 1 && words[0].starts_with(&damaged().display().to_string()), "{words:?}");
        recordings.walk_watched(Limits::default(), &|_| true, |_| {}).expect("a replay never fails");
        assert!(recordings.found.words().is_empty() && recordings.damage() == after, "each place once");
    }

    #[test]
    fn memory_and_notes_are_bounded() {
        let found = FoundDamage::default();
        (0..2 * MOST).for_each(|n| found.add(Path::new("a.session"), format!("place {n}")));
        assert_eq!(found.all().len(), MOST);
        let words = found.words();
        assert_eq!(words.len(), SHOWN + 1);
        assert!(words[SHOWN].contains(&format!("at least {} more", MOST - SHOWN)), "{words:?}");
        assert!(found.words().is_empty());
    }

    #[test]
    fn a_screen_gets_a_message_when_more_is_found() {
        let (found, mut shown) = (FoundDamage::default(), 0);
        assert_eq!(found.news(&mut shown), None);
        found.add(Path::new("b.session"), "place 1".to_owned());
        assert_eq!(found.news(&mut shown).as_deref(), Some("b.session: place 1"));
        found.add(Path::new("b.session"), "place 1".to_owned());
        assert_eq!((found.news(&mut shown), found.count()), (None, 1), "each place once");
        found.add(Path::new("a.session"), "place 2".to_owned());
        assert_eq!(found.news(&mut shown).as_deref(), Some("a.session: place 2; 2 damaged places so far"));
        assert_eq!(found.words().len(), 2, "they are notes too");
    }
}
