//! Finds the batches of a file.
//!
//! An index entry is trusted if another message follows its target. Other parts are searched message by
//! message, and after damage for the next plausible message. Offsets are multiples of eight. The scan decodes
//! only the times and hops of batches without an index entry.

use super::damage::Damage;
use crate::frame::{CONTINUATION, FrameError, Kind, PREFIX, Reader};
use crate::layout::Table;
use crate::table::{IndexRow, event};
use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, UInt8Type};

/// Maximum number of bytes read in a failed search of a file. A crafted file of millions of false messages must
/// not take hours.
const SEARCH_BUDGET: u64 = 256 << 20;

/// Default size of an event, bytes; see the measurements in `docs/formats.md`.
const TYPICAL_ROW_BYTES: u64 = 16;

/// A batch in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) rows: u32,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) hops: u64,
    /// From the index only.
    pub(crate) crc: Option<u32>,
}

/// A part of a file without a valid batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    pub(crate) rows: u64,
    /// Time range of the rows, if in the index.
    pub(crate) range_ns: Option<(u64, u64)>,
}

/// A piece of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece {
    Batch(Entry),
    Gap(Gap),
}

impl Entry {
    fn of(row: &IndexRow) -> Self {
        Entry {
            offset: row.offset,
            length: row.length,
            rows: row.rows,
            min_ns: row.min_ns,
            max_ns: row.max_ns,
            hops: row.hops,
            crc: Some(row.crc),
        }
    }
}

/// Scanner of one file.
pub(crate) struct Scan<'a> {
    reader: &'a Reader,
    table: Table,
    name: &'a str,
    /// Rows of the index for this file, by offset.
    index: &'a [IndexRow],
    /// True if the recorder may have died while writing this file.
    unfinished: bool,
    budget: u64,
    pieces: Vec<Piece>,
    damage: &'a mut Vec<Damage>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(
        reader: &'a Reader,
        table: Table,
        name: &'a str,
        index: &'a [IndexRow],
        unfinished: bool,
        damage: &'a mut Vec<Damage>,
    ) -> Self {
        Scan { reader, table, name, index, unfinished, budget: SEARCH_BUDGET, pieces: Vec::new(), damage }
    }

    /// All pieces from `start` (after the schema) on; with a damaged schema, from the first batch.
    pub(crate) fn run(mut self, start: Option<u64>) -> Vec<Piece> {
        let end = self.reader.length();
        let mut at = start.unwrap_or_else(|| {
            let first_offset = self.index.first().map_or(end, |row| row.offset.min(end));
            // Without any batch all content counts as skipped.
            Some(self.search(0, first_offset)).filter(|found| *found < end).unwrap_or(0)
        });
        while at < end {
            at = match self.piece_at(at) {
                Ok(next) => next,
                Err(bad) => self.skip(at, &bad),
            };
        }
        self.missing_tail();
        self.pieces
    }

    /// Processes the message at `at` and returns the next offset.
    fn piece_at(&mut self, at: u64) -> Result<u64, FrameError> {
        if let Some(row) = self.indexed(at).filter(|row| self.is_plausible(row)) {
            // Checked by its checksum when read.
            self.pieces.push(Piece::Batch(Entry::of(&row)));
            return Ok(at + row.length);
        }
        let head = self.reader.head(at)?;
        match head.kind {
            Kind::Batch { rows } => {
                let entry = self.unindexed(at, head.length, rows)?;
                self.pieces.push(Piece::Batch(entry));
            }
            // A misplaced schema, a dictionary or an end marker: foreign, but no loss.
            Kind::Schema(_) | Kind::Other | Kind::End => {}
        }
        Ok(at + head.length)
    }

    /// True if the indexed message is followed by another message or the end of the file.
    fn is_plausible(&self, row: &IndexRow) -> bool {
        let Some(end) = row.offset.checked_add(row.length).filter(|end| *end <= self.reader.length()) else {
            return false;
        };
        if row.length == 0 || !row.length.is_multiple_of(8) {
            return false;
        }
        let mut next = [0; CONTINUATION.len()];
        // After the last message there is nothing, or a complete or truncated end marker.
        self.reader.length() - end <= PREFIX
            || self.indexed(end).is_some()
            || (self.reader.read_at(&mut next, end).is_ok() && next == CONTINUATION)
    }

    fn indexed(&self, at: u64) -> Option<IndexRow> {
        self.index.binary_search_by_key(&at, |row| row.offset).ok().map(|i| self.index[i])
    }

    /// A batch without an index entry: decode its times and hops.
    fn unindexed(&mut self, offset: u64, length: u64, rows: u64) -> Result<Entry, FrameError> {
        if self.budget == 0 {
            return Err(FrameError::Refused("too much of the file is damaged to go on searching"));
        }
        let mut entry = Entry { offset, length, rows: rows as u32, min_ns: 0, max_ns: 0, hops: 0, crc: None };
        let columns: &[usize] = match self.table {
            Table::Index => return Ok(entry),
            Table::Events => &[event::TS_NS, event::HOP],
            Table::Losses => &[1], // a loss is placed by its end
            _ => &[0],
        };
        let batch = self.reader.batch(offset, length, None, Some(columns)).inspect_err(|_| {
            self.budget = self.budget.saturating_sub(length);
        })?;
        if let Some(times) = batch.columns().first().and_then(|c| c.as_primitive_opt::<Int64Type>()) {
            let times = times.values();
            entry.min_ns = times.iter().map(|t| *t as u64).min().unwrap_or(0);
            entry.max_ns = times.iter().map(|t| *t as u64).max().unwrap_or(0);
        }
        if let Some(hops) = batch.columns().get(1).and_then(|c| c.as_primitive_opt::<UInt8Type>()) {
            entry.hops = hops.values().iter().filter(|h| **h < 64).fold(0, |set, h| set | 1 << h);
        }
        Ok(entry)
    }

    /// Skips damage at `at` up to the next batch.
    fn skip(&mut self, at: u64, bad: &FrameError) -> u64 {
        let end = self.reader.length();
        let next_offset =
            self.index.iter().map(|row| row.offset).find(|offset| *offset > at).unwrap_or(end).min(end);
        let next = self.search(at + 8, next_offset);
        let rows = match bad {
            // Too short for a batch: a damaged end marker.
            FrameError::NoMessage if end - at <= PREFIX => 0,
            // This also applies to a partial head at the regular end: a truncated batch would be in the index
            // or the totals.
            FrameError::CutOff { rows: None } if end - at <= PREFIX && !self.unfinished => 0,
            FrameError::CutOff { rows: Some(rows) } if next == end => *rows,
            _ => self.estimate(next - at),
        };
        // `missing_tail` reports indexed batches up to the end of the file.
        if next < end || self.indexed(at).is_none() {
            self.gap(at, next - at, Gap { rows, range_ns: None }, bad);
        }
        next
    }

    /// The first offset in `from..until` with a complete message; otherwise `until`.
    fn search(&mut self, from: u64, until: u64) -> u64 {
        const BLOCK: u64 = 1 << 20;
        let mut block = Vec::new();
        let mut at = from;
        while at + 8 <= until {
            block.resize(BLOCK.min(until - at) as usize & !7, 0);
            if self.reader.read_at(&mut block, at).is_err() {
                return until;
            }
            for (i, prefix) in block.chunks_exact(8).enumerate() {
                // Fast rejection without a system call: the metadata of a batch is never empty.
                if prefix[..4] != CONTINUATION || prefix[4..] == [0; 4] || prefix[6..] != [0; 2] {
                    continue;
                }
                let candidate = at + i as u64 * 8;
                match self.reader.head(candidate) {
                    Ok(head) if matches!(head.kind, Kind::Batch { .. }) => return candidate,
                    _ => self.budget = self.budget.saturating_sub(4 << 10),
                }
                if self.budget == 0 {
                    return until;
                }
            }
            at += block.len() as u64;
        }
        until
    }

    /// Reports indexed batches beyond the end of the file.
    fn missing_tail(&mut self) {
        let end = self.reader.length();
        let missing = self.index.iter().filter(|row| row.offset.saturating_add(row.length) > end);
        let (mut batches, mut rows) = (0, 0);
        for row in missing {
            batches += 1;
            rows += u64::from(row.rows);
            let range_ns = Some((row.min_ns, row.max_ns));
            self.pieces.push(Piece::Gap(Gap { rows: u64::from(row.rows), range_ns }));
        }
        if batches > 0 {
            let what =
                format!("{} is cut off: {batches} batches with {rows} rows are missing at its end", self.name);
            self.damage.push(Damage::skipped(self.name, 0, rows, what));
        }
    }

    fn gap(&mut self, at: u64, bytes: u64, gap: Gap, bad: &FrameError) {
        let (name, rows) = (self.name, gap.rows);
        let at_end = at + bytes == self.reader.length();
        let is_partial = at_end && matches!(bad, FrameError::CutOff { .. });
        let what = if is_partial {
            let unfinished = if self.unfinished { "unfinished: " } else { "" };
            format!(
                "{unfinished}{bytes} bytes of a partial batch at the end of {name} were skipped (about {rows} rows)"
            )
        } else {
            format!("{bytes} bytes at {at} of {name} were skipped (about {rows} rows): {bad}")
        };
        let damage = Damage::skipped(name, bytes, rows, what);
        self.damage.push(damage.unfinished(self.unfinished && is_partial));
        if rows > 0 {
            self.pieces.push(Piece::Gap(gap));
        }
    }

    /// Estimates the number of rows in some bytes from the batches found so far.
    fn estimate(&self, bytes: u64) -> u64 {
        let mut found = (0, 0);
        for piece in &self.pieces {
            if let Piece::Batch(entry) = piece {
                found = (found.0 + entry.length, found.1 + u64::from(entry.rows));
            }
        }
        let per_row = (found.0).checked_div(found.1).unwrap_or(TYPICAL_ROW_BYTES).max(1);
        (bytes / per_row).max(1)
    }
}
