//! Messages about peers, with counts for repetitions: any client can cause a message, so the log is bounded.
//!
//! A failure of this host's own files is counted by its reason. A peer cannot choose the reason, so the reasons
//! are few.

use crate::link::Reporter;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Messages of one kind that are written in each period.
const LINES: u64 = 10;
/// Length of a period; further messages become a count.
const PERIOD: Duration = Duration::from_secs(10);

/// Kinds of messages. Each has its own bound, so that a flood of one kind hides no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A connection of an unauthenticated peer was refused.
    Stranger,
    /// An unfinished handshake ended for a newer one of the same address.
    Replaced,
    /// A connection was refused because of this host's own files, for the same reason as before.
    OwnFiles,
    /// An authenticated peer was refused.
    Refused,
    /// A stream began.
    Began,
    /// A stream ended.
    Ended,
}

/// Writes messages, and counts those beyond the bound.
pub struct PeerLog {
    report: Reporter,
    kinds: Mutex<BTreeMap<Kind, Count>>,
    /// The last failure of this host's own files.
    own_files: Mutex<Option<String>>,
}

struct Count {
    since: Instant,
    came: u64,
}

impl Kind {
    const fn more(self) -> &'static str {
        match self {
            Self::Stranger | Self::OwnFiles => "more connections are not let in",
            Self::Replaced => "more unfinished handshakes end",
            Self::Refused => "more requests of known viewers are refused",
            Self::Began => "more streams began",
            Self::Ended => "more streams ended",
        }
    }
}

impl PeerLog {
    /// A log that writes with this function.
    pub fn new(report: Reporter) -> Self {
        PeerLog { report, kinds: Mutex::default(), own_files: Mutex::default() }
    }

    /// Writes a message, or counts it.
    pub fn write(&self, kind: Kind, text: impl FnOnce() -> String) {
        self.write_at(Instant::now(), kind, text);
    }

    /// Reports a failure of this host's own files. A new reason is written at once.
    pub fn own_files_failed(&self, from: &dyn Display, reason: &str) {
        let text = || format!("{from} is not let in: {reason}");
        let mut last = self.own_files.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_deref() == Some(reason) {
            drop(last);
            return self.write(Kind::OwnFiles, text);
        }
        *last = Some(reason.to_owned());
        drop(last);
        (self.report)(&text());
    }

    fn write_at(&self, now: Instant, kind: Kind, text: impl FnOnce() -> String) {
        self.flush(now);
        let came = {
            let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            let count = kinds.entry(kind).or_insert(Count { since: now, came: 0 });
            count.came += 1;
            count.came
        };
        if came <= LINES {
            (self.report)(&text());
        }
    }

    /// Writes counts whose period has ended by `now`.
    pub fn flush(&self, now: Instant) {
        let mut lines = Vec::new();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.retain(|kind, count| {
            let runs = now.saturating_duration_since(count.since) < PERIOD;
            if !runs && count.came > LINES {
                lines.push(format!("{} {} within {PERIOD:?}", count.came - LINES, kind.more()));
            }
            runs
        });
        drop(kinds);
        for line in lines {
            (self.report)(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_new_reason_of_own_files_is_written_after_a_flood_of_others() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let to = lines.clone();
        let log = PeerLog::new(Arc::new(move |text: &str| to.lock().expect("no panic").push(text.to_owned())));
        for n in 0..100 {
            log.write(Kind::Stranger, || format!("stranger {n}"));
            log.own_files_failed(&n, "the list is empty");
        }
        log.own_files_failed(&"peer", "the list is cut");
        let lines = lines.lock().expect("no panic");
        assert_eq!(lines.last().expect("a line"), "peer is not let in: the list is cut");
        assert_eq!(lines.len(), 2 * LINES as usize + 2);
    }

    #[test]
    fn repeated_messages_become_a_count_and_hide_no_other_kind() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let to = lines.clone();
        let log = PeerLog::new(Arc::new(move |text: &str| to.lock().expect("no panic").push(text.to_owned())));
        let now = Instant::now();
        for n in 0..8_500 {
            log.write_at(now, Kind::Stranger, || format!("stranger {n}"));
        }
        log.write_at(now, Kind::Began, || "me reads".to_owned());
        assert_eq!(lines.lock().expect("no panic").len(), LINES as usize + 1);
        log.flush(now + PERIOD);
        let lines = lines.lock().expect("no panic");
        assert_eq!(lines.len(), LINES as usize + 2);
        assert_eq!(lines.last().expect("a line"), "8490 more connections are not let in within 10s");
    }
}
