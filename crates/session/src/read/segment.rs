//! A segment for reading: its files and their pieces.

use super::damage::Damage;
use super::scan::{Entry, Gap, Piece, Scan};
use crate::frame::{FrameError, Kind, Reader};
use crate::layout::Table;
use crate::seal::{Ending, Seal};
use crate::table::{IndexRow, Row};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// One table of a segment.
#[derive(Debug, Default)]
pub(crate) struct TableFile {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) pieces: Vec<Piece>,
}

/// A segment: its tables in the order of [`Table::ALL`], without the index.
#[derive(Debug)]
pub(crate) struct SegmentMap {
    pub(crate) tables: Vec<TableFile>,
    pub(crate) index_bytes: u64,
    /// Checksums of the files of a complete segment.
    pub(crate) seal: Option<Seal>,
    /// True if the recorder may have died while writing this segment.
    pub(crate) unfinished: bool,
}

impl SegmentMap {
    /// Scans all files of a segment. `session` is the expected id; `unfinished` is true if the recorder may
    /// have died while writing this segment.
    pub(crate) fn open(
        dir: &Path,
        number: u32,
        session: &str,
        unfinished: bool,
        damage: &mut Vec<Damage>,
    ) -> Self {
        let ending = Seal::read(&Table::Index.path(dir, number)).unwrap_or(Ending::Unsealed);
        let (seal, stream_bytes) = match ending {
            Ending::Sealed { seal, stream_bytes } => (Some(seal), stream_bytes),
            Ending::Unsealed => (None, u64::MAX),
        };
        let (rows, index_bytes) = index(dir, number, session, stream_bytes, unfinished, damage);
        let index_file = std::fs::metadata(Table::Index.path(dir, number));
        let index_bytes = index_file.map_or(index_bytes, |file| file.len());
        let mut tables = Vec::with_capacity(Table::ALL.len() - 1);
        let mut unsummed = 0;
        for table in Table::ALL.into_iter().filter(|t| *t != Table::Index) {
            let mut own: Vec<IndexRow> = rows.iter().filter(|r| r.table == table).copied().collect();
            own.sort_unstable_by_key(|r| r.offset);
            let name = table.file_name(number);
            let path = dir.join(&name);
            let (mut bytes, mut pieces) = (0, Vec::new());
            match open(&path, table) {
                Ok(reader) => {
                    bytes = reader.length();
                    let start = after_schema(&reader, &name, session, damage);
                    pieces = Scan::new(&reader, table, &name, &own, unfinished, damage).run(start);
                }
                // The table never had rows.
                Err(e) if e.kind() == io::ErrorKind::NotFound && own.is_empty() => {}
                Err(e) => {
                    let rows = own.iter().map(|r| u64::from(r.rows)).sum();
                    let what = format!("{name} cannot be opened ({e}): its {rows} rows are missing");
                    damage.push(Damage::skipped(&name, 0, rows, what));
                    let lost =
                        |r: &IndexRow| Gap { rows: u64::from(r.rows), range_ns: Some((r.min_ns, r.max_ns)) };
                    pieces = own.iter().map(|r| Piece::Gap(lost(r))).collect();
                }
            }
            unsummed += pieces.iter().filter(|p| matches!(p, Piece::Batch(Entry { crc: None, .. }))).count();
            tables.push(TableFile { name, path, bytes, pieces });
        }
        if unsummed > 0 {
            let name = Table::Index.file_name(number);
            let what = format!(
                "{name} lacks {unsummed} batches: they were found without it, and have no checksum to hold them against"
            );
            damage.push(Damage::of(name, what).unfinished(unfinished));
        }
        SegmentMap { tables, index_bytes, seal, unfinished }
    }

    pub(crate) fn table(&self, table: Table) -> &TableFile {
        &self.tables[table.place()]
    }

    /// Earliest and latest time of events, including missing ones.
    pub(crate) fn range_ns(&self) -> Option<(u64, u64)> {
        let ranges = self.table(Table::Events).pieces.iter().filter_map(|piece| match piece {
            Piece::Batch(entry) => Some((entry.min_ns, entry.max_ns)),
            Piece::Gap(gap) => gap.range_ns,
        });
        ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// First and last time of a table's rows; for the kernel's sums the ends of intervals.
    pub(crate) fn span_ns(&self, table: Table) -> Option<(u64, u64)> {
        let ends = self.table(table).entries().map(|entry| (entry.min_ns, entry.max_ns));
        ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

impl TableFile {
    pub(crate) fn reader(&self, table: Table) -> io::Result<Reader> {
        open(&self.path, table)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Batch(entry) => Some(entry),
            Piece::Gap(_) => None,
        })
    }
}

/// Appends the rows of a batch and returns the number of invalid ones.
pub(crate) fn rows<R: Row>(reader: &Reader, entry: &Entry, out: &mut Vec<R>) -> Result<u64, FrameError> {
    let batch = reader.batch(entry.offset, entry.length, entry.crc, None)?;
    R::decode(&batch, out).ok_or(FrameError::Refused("it has other columns than its table"))
}

/// True if every file of a segment has the byte order of other machines. One alone is damage.
pub(crate) fn has_other_byte_order(dir: &Path, number: u32) -> bool {
    let own = |table: &Table| open(&dir.join(table.file_name(number)), *table).ok()?.has_own_byte_order();
    let mut orders = Table::ALL.iter().filter_map(own).peekable();
    orders.peek().is_some() && orders.all(|own| !own)
}

fn open(path: &Path, table: Table) -> io::Result<Reader> {
    Reader::new(File::open(path)?, table)
}

/// The valid rows of a segment's index, and the size of the file.
fn index(
    dir: &Path,
    number: u32,
    session: &str,
    stream_bytes: u64,
    unfinished: bool,
    damage: &mut Vec<Damage>,
) -> (Vec<IndexRow>, u64) {
    let name = Table::Index.file_name(number);
    let reader = match open(&dir.join(&name), Table::Index) {
        Ok(reader) => reader.limited(stream_bytes),
        Err(e) => {
            let is_new = unfinished && e.kind() == io::ErrorKind::NotFound;
            let what = format!("{name} cannot be opened ({e}): the segment was searched instead");
            damage.push(Damage::of(&name, what).unfinished(is_new));
            return (Vec::new(), 0);
        }
    };
    // Damage of the index costs time and checksums, not rows, and is reported as such.
    let mut own_damage = Vec::new();
    let start = after_schema(&reader, &name, session, &mut own_damage);
    if !own_damage.is_empty() {
        damage.push(Damage::of(
            &name,
            format!("{name} belongs to another session or is damaged: the segment was searched instead"),
        ));
        return (Vec::new(), reader.length());
    }
    let mut found = Vec::new();
    let mut wrong = 0;
    for piece in Scan::new(&reader, Table::Index, &name, &[], unfinished, &mut own_damage).run(start) {
        wrong += match piece {
            Piece::Batch(entry) => rows(&reader, &entry, &mut found).unwrap_or(u64::from(entry.rows)),
            Piece::Gap(gap) => gap.rows.max(1),
        };
    }
    if wrong > 0 {
        let what = format!("{name} is damaged: its batches were searched for where it says nothing");
        damage.push(Damage::of(&name, what).unfinished(own_damage.iter().all(|damage| damage.unfinished)));
    }
    (found, reader.length())
}

/// Offset of the first batch, if the schema is intact.
fn after_schema(reader: &Reader, name: &str, session: &str, damage: &mut Vec<Damage>) -> Option<u64> {
    match reader.head(0) {
        Ok(head) => {
            if let Kind::Schema(metadata) = &head.kind {
                let ours = |id: &str| metadata.windows(id.len().max(1)).any(|w| w == id.as_bytes());
                if session.is_empty() || ours(session) {
                    return Some(head.length);
                }
                let what = format!(
                    "the schema of {name} is damaged or another session's: it was read by the columns it should have"
                );
                damage.push(Damage::of(name, what));
                return Some(head.length);
            }
            Some(0)
        }
        // The recorder died right after the creation of the file.
        Err(_) if reader.length() == 0 => Some(0),
        Err(_) => {
            let what = format!("the schema of {name} is damaged: it was read by the columns it should have");
            damage.push(Damage::of(name, what));
            None
        }
    }
}
