//! Opening a session.

use super::cursor::{Cursor, hidden, read_changes};
use super::damage::Damage;
use super::replay::Replay;
use super::scan::Piece;
use super::segment::{SegmentMap, has_other_byte_order, rows};
use crate::error::SessionError;
use crate::layout::{self, META, Table};
use crate::meta::{LossTotals, Meta, MetaRead};
use crate::seal::checksum;
use crate::summary::Summary;
use magscope_core::changes::NewChanges;
use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;
use magscope_core::{Change, HopCount, Loss, LossCause, Synthesis};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A recorded session, opened read-only.
pub struct Session {
    inner: Arc<Inner>,
    summary: Summary,
    damage: Vec<Damage>,
    /// The damage has that of the small tables.
    small_checked: bool,
}

/// State shared by replays.
pub(super) struct Inner {
    pub(super) dir: PathBuf,
    pub(super) meta: Meta,
    pub(super) numbers: Vec<u32>,
    pub(super) segments: Vec<SegmentMap>,
}

impl Session {
    /// Opens the session in a directory: reads `meta.toml` and the indexes, and scans the rest.
    ///
    /// Damage is no error: see [`Session::damage`]. Errors are a missing directory, no session, a newer format,
    /// and the byte order of other machines.
    pub fn open(dir: &Path) -> Result<Session, SessionError> {
        let not =
            |because: &str| SessionError::NotASession { path: dir.to_path_buf(), because: because.to_owned() };
        if !fs::metadata(dir).map_err(SessionError::io("open", dir))?.is_dir() {
            return Err(not("it is a file"));
        }
        let read = Meta::read(dir)?;
        let numbers = layout::segments(dir)?;
        if numbers.first().is_some_and(|number| has_other_byte_order(dir, *number)) {
            return Err(SessionError::OtherByteOrder { path: dir.to_path_buf() });
        }
        let mut damage = Vec::new();
        let meta = match read {
            MetaRead::Good(meta) => Some(*meta),
            MetaRead::Changed(meta) => {
                let what = format!("{META} was changed: its checksum differs, and what it says may be wrong");
                damage.push(Damage::of(META, what));
                Some(*meta)
            }
            MetaRead::Missing if numbers.is_empty() => {
                return Err(not(&format!("it has no {META}{}", recordings_in(dir))));
            }
            MetaRead::Unreadable(because) if numbers.is_empty() => {
                return Err(not(&format!("its meta.toml cannot be read ({because}) and it has no events")));
            }
            MetaRead::Missing => {
                damage.push(Damage::of(META, format!("{META} is missing: {UNKNOWN_NODE}")));
                None
            }
            MetaRead::Unreadable(because) => {
                damage.push(Damage::of(META, format!("{META} cannot be read ({because}): {UNKNOWN_NODE}")));
                None
            }
        };
        let unfinished = meta.as_ref().is_some_and(|m| m.closed.is_none());
        if unfinished {
            let what = "unfinished: the recorder did not close it, so what came after its last write is missing (the \
                        last second after a kill, and all the rest after a full disk)";
            damage.push(Damage::of("", what.to_owned()).unfinished(true));
        }
        let meta = meta.unwrap_or_default();
        missing_segments(&meta, &numbers, &mut damage);
        let last = numbers.last().copied();
        let open =
            |n: &u32| SegmentMap::open(dir, *n, &meta.session, unfinished && Some(*n) == last, &mut damage);
        let segments = numbers.iter().map(open).collect();
        let inner = Inner { dir: dir.to_path_buf(), meta, numbers, segments };
        let summary = inner.summary(&mut damage);
        if let Some(closed) = inner.meta.closed.as_ref().filter(|c| c.events != summary.events) {
            let (then, now) = (closed.events, summary.events);
            damage.push(Damage::of(
                "",
                format!("it had {then} events when it was closed, and {now} are there now"),
            ));
        }
        Ok(Session { inner: Arc::new(inner), summary, damage, small_checked: false })
    }

    /// The node that was recorded.
    pub fn info(&self) -> &NodeInfo {
        &self.inner.meta.node
    }

    /// The content of `meta.toml`.
    pub fn meta(&self) -> &Meta {
        &self.inner.meta
    }

    /// Totals.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Missing or unreadable data found at the opening, and by [`Session::check_small_tables`]. Checksums of other
    /// batches are compared when they are read: see [`Session::verify`] and [`Replay::damage`].
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Reads the tables that explain all others: flows, tasks, losses, clocks, changes, counts, names. Their damage is
    /// then in [`Session::damage`]. Without a row of them events are still there, but not what they mean, and no loss at
    /// a place in time would say so.
    pub fn check_small_tables(&mut self) {
        if std::mem::replace(&mut self.small_checked, true) {
            return;
        }
        for segment in &self.inner.segments {
            for table in Table::ALL.into_iter().filter(|table| table.explains_others()) {
                unreadable(segment, table, &mut self.damage);
            }
        }
    }

    /// First and last instant with data: events, and the kernel's sums. Without data, the observed time.
    pub fn extent_ns(&self) -> Option<(u64, u64)> {
        let events = self.summary.from_ns.zip(self.summary.to_ns);
        let sums = self.span_ns(Table::Synthesis);
        let sums = sums.map(|(first_ns, to_ns)| (self.first_sum_ns(first_ns), to_ns));
        let both = events.into_iter().chain(sums);
        both.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).or_else(|| self.span_ns(Table::Clock))
    }

    /// The recorded time, with or without data: the extent of the data and of the clock samples, which are
    /// taken once a second.
    pub fn watched_ns(&self) -> Option<(u64, u64)> {
        let ends = self.extent_ns().into_iter().chain(self.span_ns(Table::Clock));
        ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The observed time, for rates: of a closed session from the first watermark to the last, with or without events.
    /// Of another one its data.
    pub fn observed_ns(&self) -> Option<(u64, u64)> {
        let observed = self.inner.meta.observed_ns();
        // An import, or a host that was continued, may have events outside.
        observed.into_iter().chain(self.extent_ns()).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    fn span_ns(&self, table: Table) -> Option<(u64, u64)> {
        let ends = self.inner.segments.iter().filter_map(|segment| segment.span_ns(table));
        ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Start of the interval with the earliest end, if readable.
    fn first_sum_ns(&self, end_ns: u64) -> u64 {
        /// Maximum plausible interval.
        const LONGEST_NS: u64 = 60_000_000_000;
        let mut read: Vec<Synthesis> = Vec::new();
        let mut files = self.inner.segments.iter().map(|segment| segment.table(Table::Synthesis));
        let first = files.find_map(|file| Some((file, file.entries().next()?)));
        if let Some((file, entry)) = first
            && let Ok(reader) = file.reader(Table::Synthesis)
        {
            // Unreadable data was reported at the opening.
            let _unread = rows(&reader, entry, &mut read);
        }
        let begins = read.iter().map(|sum| sum.from_ns).filter(|ns| *ns <= end_ns);
        begins.min().unwrap_or(end_ns).max(end_ns.saturating_sub(LONGEST_NS))
    }

    /// The events between two times (inclusive, `CLOCK_MONOTONIC` nanoseconds), with related rows.
    pub fn replay(&self, from_ns: Option<u64>, to_ns: Option<u64>) -> Replay {
        Replay::new(self.inner.clone(), from_ns, to_ns)
    }

    /// Changes during the recording, and the last counts of every hop with rejected events. Only these two
    /// small tables are read.
    pub fn changes(&self) -> (Vec<Change>, Vec<HopCount>) {
        let (mut changes, mut counts, mut damage) = (Vec::new(), Vec::<HopCount>::new(), Vec::new());
        let mut new_changes = NewChanges::default();
        for segment in &self.inner.segments {
            read_changes(segment, &mut new_changes, &mut damage, &mut changes);
            let mut cursor = Cursor::<HopCount>::new(segment.table(Table::Counts), &mut damage);
            let keep = |count: HopCount| match counts.iter_mut().find(|stored| stored.hop == count.hop) {
                Some(stored) => *stored = count,
                None => counts.push(count),
            };
            cursor.until(u64::MAX, &mut damage, keep, |_| {});
        }
        (changes, counts)
    }

    /// The node's clock samples in time order. Only this small table is read.
    pub fn clock_samples(&self) -> Vec<ClockSample> {
        let (mut samples, mut damage) = (Vec::new(), Vec::new());
        for segment in &self.inner.segments {
            let mut cursor = Cursor::<ClockSample>::new(segment.table(Table::Clock), &mut damage);
            cursor.until(u64::MAX, &mut damage, |sample| samples.push(sample), |_| {});
        }
        samples
    }

    /// Reads every byte and returns all damage, including that found at the opening.
    pub fn verify(&self) -> Vec<Damage> {
        let mut damage = self.damage.clone();
        for segment in &self.inner.segments {
            let is_left =
                |table: &Table| *table != Table::Index && !(self.small_checked && table.explains_others());
            for table in Table::ALL.into_iter().filter(is_left) {
                unreadable(segment, table, &mut damage);
            }
        }
        for (number, segment) in self.inner.numbers.iter().zip(&self.inner.segments) {
            whole_files(&self.inner.dir, *number, segment, &mut damage);
        }
        if let Some(closed) = self.inner.meta.closed.as_ref().filter(|c| c.segments != self.summary.segments) {
            let (then, now) = (closed.segments, self.summary.segments);
            damage.push(Damage::of(
                "",
                format!("it had {then} segments when it was closed, and {now} are there now"),
            ));
        }
        damage
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }
}

/// Reads every batch of a table, and reports those that cannot be read.
fn unreadable(segment: &SegmentMap, table: Table, damage: &mut Vec<Damage>) {
    let file = segment.table(table);
    let Ok(reader) = file.reader(table) else {
        return; // Reported at the opening, or never present.
    };
    for entry in file.entries() {
        if let Err(bad) = reader.batch(entry.offset, entry.length, entry.crc, None) {
            let what = super::cursor::skipped(&file.name, entry, &bad.to_string());
            damage.push(Damage::skipped(&file.name, entry.length, u64::from(entry.rows), what));
        }
    }
}

/// Compares the files of a segment with its seal. Damage reported for a file before is not repeated.
fn whole_files(dir: &Path, number: u32, segment: &SegmentMap, damage: &mut Vec<Damage>) {
    let index = Table::Index.file_name(number);
    let Some(seal) = &segment.seal else {
        if !segment.unfinished {
            let what = format!("{index} has no seal, or a damaged one: nothing says how long the files were");
            damage.push(Damage::of(index, what));
        }
        return;
    };
    for table in Table::ALL {
        let name = table.file_name(number);
        let sealed = seal.files.iter().find(|sealed| sealed.table == table);
        let most =
            if table == Table::Index { sealed.map_or(u64::MAX, |sealed| sealed.bytes) } else { u64::MAX };
        let because = match (checksum(&dir.join(&name), most), sealed) {
            (Ok(found), Some(sealed)) if found == (sealed.bytes, sealed.crc) => continue,
            (Err(e), None) if e.kind() == std::io::ErrorKind::NotFound => continue, // The table never had rows.
            (Ok(_), Some(_)) => "is not as it was written: its checksum differs".to_owned(),
            (Ok(_), None) => "is no part of what was recorded".to_owned(),
            (Err(e), _) => format!("cannot be read ({e})"),
        };
        if !damage.iter().any(|damage| damage.file == name) {
            damage.push(Damage::of(&name, format!("{name} {because}")));
        }
    }
}

const UNKNOWN_NODE: &str = "the node and its coverage are unknown, and so is whether the recording was closed";

/// Names the recordings in a directory, for a hint if the directory was given instead.
fn recordings_in(dir: &Path) -> String {
    /// Maximum numbers of entries searched and named.
    const LOOK: usize = 1_000;
    const NAME: usize = 3;
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(LOOK);
    let mut names: Vec<_> = entries.filter(|entry| entry.path().join(META).exists()).collect();
    names.sort_by_key(fs::DirEntry::file_name);
    let named: Vec<_> = names.iter().take(NAME).map(|entry| entry.path().display().to_string()).collect();
    match names.len() {
        0 => String::new(),
        n if n > NAME => format!(", but {} and {} more there do", named.join(", "), n - NAME),
        1 => format!(", but {} does", named.join(", ")),
        _ => format!(", but {} do", named.join(" and ")),
    }
}

/// Segment numbers are consecutive: a gap without a deletion is damage.
fn missing_segments(meta: &Meta, numbers: &[u32], damage: &mut Vec<Damage>) {
    let dropped = meta.dropped.as_ref().map_or(0, |d| d.segments);
    let mut next = dropped.max(meta.shipped.as_ref().map_or(0, |s| s.below));
    for number in numbers {
        if *number > next {
            let last = number - 1;
            let which = if last == next {
                format!("segment {next} is")
            } else {
                format!("segments {next} to {last} are")
            };
            damage.push(Damage::of(
                "",
                format!("{which} missing, and nothing says that the recorder deleted them"),
            ));
        }
        next = next.max(number.saturating_add(1));
    }
}

impl Inner {
    fn summary(&self, damage: &mut Vec<Damage>) -> Summary {
        let mut summary = Summary {
            segments: self.segments.len() as u32,
            dropped: self.meta.dropped.clone(),
            closed: self.meta.closed.is_some(),
            ..Summary::default()
        };
        for segment in &self.segments {
            summary.bytes += segment.index_bytes + segment.tables.iter().map(|t| t.bytes).sum::<u64>();
            for piece in &segment.table(Table::Events).pieces {
                match piece {
                    Piece::Batch(entry) => {
                        summary.events += u64::from(entry.rows);
                        summary.batches += 1;
                        summary.from_ns = Some(summary.from_ns.unwrap_or(entry.min_ns).min(entry.min_ns));
                        summary.to_ns = Some(summary.to_ns.unwrap_or(entry.max_ns).max(entry.max_ns));
                    }
                    Piece::Gap(gap) => summary.losses.add(LossCause::Damaged, gap.rows),
                }
            }
            summary.losses.add(LossCause::Damaged, hidden(segment));
            losses(segment, &mut summary.losses, damage);
        }
        summary
    }
}

/// Sums the losses of a segment. They are few: one row per CPU overflow.
fn losses(segment: &SegmentMap, totals: &mut LossTotals, damage: &mut Vec<Damage>) {
    let file = segment.table(Table::Losses);
    if file.entries().next().is_none() {
        return;
    }
    let Ok(reader) = file.reader(Table::Losses) else {
        return; // Reported at the opening.
    };
    let mut reported: Vec<Loss> = Vec::new();
    for entry in file.entries() {
        reported.clear();
        if let Err(bad) = rows(&reader, entry, &mut reported) {
            let what = super::cursor::skipped(&file.name, entry, &bad.to_string());
            damage.push(Damage::skipped(&file.name, entry.length, u64::from(entry.rows), what));
            continue;
        }
        for loss in &reported {
            totals.add(loss.cause, loss.count);
        }
    }
}
