//! The small tables of a segment, read in time order next to the events.

use super::damage::Damage;
use super::scan::{Entry, Piece};
use super::segment::{SegmentMap, TableFile, rows};
use crate::frame::Reader;
use crate::layout::Table;
use crate::table::Row;
use magscope_core::Change;
use magscope_core::changes::NewChanges;

/// Reads one small table in parallel to the events.
pub(super) struct Cursor<R> {
    name: String,
    reader: Option<Reader>,
    /// Unread batches, the next one last.
    entries: Vec<Entry>,
    /// Rows with a later time than the events.
    waiting: Vec<R>,
}

/// Unreadable rows with their time range.
pub(super) struct Unread {
    pub(super) rows: u64,
    pub(super) range_ns: (u64, u64),
}

impl<R: Row> Cursor<R> {
    pub(super) fn new(file: &TableFile, damage: &mut Vec<Damage>) -> Self {
        let mut entries: Vec<Entry> = file.entries().copied().collect();
        entries.reverse();
        let reader = if entries.is_empty() {
            None
        } else {
            let failed = |e| Damage::of(&file.name, format!("{} cannot be opened any more: {e}", file.name));
            file.reader(R::TABLE).map_err(|e| damage.push(failed(e))).ok()
        };
        Cursor { name: file.name.clone(), reader, entries, waiting: Vec::new() }
    }

    /// Returns every row up to this time, and the unreadable rows of that time.
    pub(super) fn until(
        &mut self,
        until_ns: u64,
        damage: &mut Vec<Damage>,
        mut row: impl FnMut(R),
        mut unread: impl FnMut(Unread),
    ) {
        let Some(reader) = &self.reader else {
            return;
        };
        while let Some(entry) = self.entries.pop_if(|e| e.min_ns <= until_ns) {
            let before = self.waiting.len();
            let lost = match rows(reader, &entry, &mut self.waiting) {
                Ok(0) => continue,
                Ok(unknown) => {
                    let what =
                        format!("{unknown} rows at {} of {} are of an unknown kind", entry.offset, self.name);
                    damage.push(Damage::skipped(&self.name, 0, unknown, what));
                    unknown
                }
                Err(bad) => {
                    self.waiting.truncate(before);
                    let what = skipped(&self.name, &entry, &bad.to_string());
                    damage.push(Damage::skipped(&self.name, entry.length, u64::from(entry.rows), what));
                    u64::from(entry.rows)
                }
            };
            unread(Unread { rows: lost, range_ns: (entry.min_ns, entry.max_ns) });
        }
        let (now, later) = std::mem::take(&mut self.waiting).into_iter().partition(|r| r.time_ns() <= until_ns);
        self.waiting = later;
        let now: Vec<R> = now;
        now.into_iter().for_each(&mut row);
    }
}

/// Appends all changes of a segment that were not in segments before it.
pub(super) fn read_changes(
    segment: &SegmentMap,
    new_changes: &mut NewChanges,
    damage: &mut Vec<Damage>,
    changes: &mut Vec<Change>,
) {
    let mut cursor = Cursor::<Change>::new(segment.table(Table::Changes), damage);
    let mut all = Vec::new();
    cursor.until(u64::MAX, damage, |change| all.push(change), |_| {});
    new_changes.retain(&mut all);
    changes.append(&mut all);
}

pub(super) fn skipped(name: &str, entry: &Entry, because: &str) -> String {
    format!("the batch of {} rows at {} of {name} was skipped: {because}", entry.rows, entry.offset)
}

/// The small tables whose missing rows are counted as lost records.
const COUNTED: [Table; 6] =
    [Table::Flows, Table::Tcp, Table::Hits, Table::Heads, Table::Losses, Table::Synthesis];

/// Number of rows in the gaps of these small tables of a segment.
pub(super) fn hidden(segment: &SegmentMap) -> u64 {
    let gap = |p: &Piece| if let Piece::Gap(gap) = p { gap.rows } else { 0 };
    COUNTED.into_iter().flat_map(|table| &segment.table(table).pieces).map(gap).sum()
}
