//! Which files a session has and what they are called.

use crate::error::SessionError;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the file that says what the session is.
pub const META: &str = "meta.toml";

/// The tables of a session: one Arrow IPC stream a table and segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Table {
    /// Hits of hops.
    Events = 0,
    /// What flow ids stand for.
    Flows = 1,
    /// What threads are called.
    Tasks = 2,
    /// Samples of TCP state.
    Tcp = 3,
    /// Records known to be missing.
    Losses = 4,
    /// How the clocks of the node stood to each other.
    Clock = 5,
    /// Where the batches of the other tables are, with their checksums.
    Index = 6,
    /// What was changed while it was recorded.
    Changes = 7,
    /// What the kernel counted at hops where events were left out.
    Counts = 8,
    /// Hits of custom probes.
    Hits = 9,
    /// First bytes of payload, where they were asked for.
    Heads = 10,
    /// What the kernel added up in place of events.
    Synthesis = 11,
}

impl Table {
    /// Every table, the index last: it is written after what it points at.
    pub const ALL: [Table; 12] = [
        Self::Events,
        Self::Flows,
        Self::Tasks,
        Self::Tcp,
        Self::Losses,
        Self::Clock,
        Self::Changes,
        Self::Counts,
        Self::Hits,
        Self::Heads,
        Self::Synthesis,
        Self::Index,
    ];

    /// Its place in [`Table::ALL`].
    pub(crate) const fn place(self) -> usize {
        match self {
            Self::Changes => 6,
            Self::Counts => 7,
            Self::Hits => 8,
            Self::Heads => 9,
            Self::Synthesis => 10,
            Self::Index => 11,
            _ => self as usize,
        }
    }

    /// Whether a row of it is a record that a loss counts: see [`magscope_core::Batch::numbered`].
    pub(crate) const fn is_numbered(self) -> bool {
        matches!(self, Self::Events | Self::Tcp | Self::Hits | Self::Heads)
    }

    /// The first part of its files' names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Flows => "flows",
            Self::Tasks => "tasks",
            Self::Tcp => "tcp",
            Self::Losses => "losses",
            Self::Clock => "clock",
            Self::Index => "index",
            Self::Changes => "changes",
            Self::Counts => "counts",
            Self::Hits => "hits",
            Self::Heads => "heads",
            Self::Synthesis => "synthesis",
        }
    }

    /// The file of this table for a segment: `events-0003.arrows`.
    pub fn file_name(self, segment: u32) -> String {
        format!("{}-{segment:04}.arrows", self.name())
    }

    pub(crate) fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|t| *t as u8 == id)
    }

    pub(crate) fn path(self, dir: &Path, segment: u32) -> PathBuf {
        dir.join(self.file_name(segment))
    }

    /// Which table and segment a file is of, by its name.
    pub fn parse(name: &str) -> Option<(Self, u32)> {
        let (table, number) = name.strip_suffix(".arrows")?.split_once('-')?;
        let table = Self::ALL.into_iter().find(|t| t.name() == table)?;
        let segment = number.parse().ok()?;
        // Only the name the recorder would have given: `events-3.arrows` beside `events-0003.arrows` is not ours.
        (table.file_name(segment) == name).then_some((table, segment))
    }
}

/// The numbers of the segments in a directory, ascending. A segment is there when any of its files is.
pub fn segments(dir: &Path) -> Result<Vec<u32>, SessionError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(SessionError::io("list", dir))? {
        let entry = entry.map_err(SessionError::io("list", dir))?;
        if let Some((_, segment)) = entry.file_name().to_str().and_then(Table::parse) {
            found.push(segment);
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for table in Table::ALL {
            for segment in [0, 7, 9_999, 10_000, u32::MAX] {
                assert_eq!(Table::parse(&table.file_name(segment)), Some((table, segment)));
            }
            assert_eq!(Table::from_id(table as u8), Some(table));
            assert_eq!(Table::ALL[table.place()], table);
        }
        for other in
            ["events-3.arrows", "events-0003.arrow", "lod-0001.arrows", "events-+003.arrows", "meta.toml"]
        {
            assert_eq!(Table::parse(other), None, "{other}");
        }
    }
}
