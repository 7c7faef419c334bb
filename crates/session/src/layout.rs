//! Files of a session and their names.

use crate::error::SessionError;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the metadata file.
pub const META: &str = "meta.toml";

/// The tables of a session: one Arrow IPC stream per table and segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Table {
    /// Hits of hops.
    Events = 0,
    /// Flow ids and their flows.
    Flows = 1,
    /// Thread ids and their names.
    Tasks = 2,
    /// Samples of TCP state.
    Tcp = 3,
    /// Lost records.
    Losses = 4,
    /// Samples of the node's clocks.
    Clock = 5,
    /// Positions and checksums of the other tables' batches.
    Index = 6,
    /// Changes of settings during the recording.
    Changes = 7,
    /// Kernel counters of hops with rejected events.
    Counts = 8,
    /// Hits of custom probes.
    Hits = 9,
    /// Payload heads, if captured.
    Heads = 10,
    /// Sums of the kernel in place of events.
    Synthesis = 11,
    /// Names that the node learned during the recording.
    Names = 12,
}

impl Table {
    /// True for a small table without which the rows of others are not understood.
    pub const fn explains_others(self) -> bool {
        match self {
            Self::Flows
            | Self::Tasks
            | Self::Losses
            | Self::Clock
            | Self::Changes
            | Self::Counts
            | Self::Names => true,
            Self::Events | Self::Tcp | Self::Index | Self::Hits | Self::Heads | Self::Synthesis => false,
        }
    }

    /// Every table, the index last: it is written after its targets.
    pub const ALL: [Table; 13] = [
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
        Self::Names,
        Self::Index,
    ];

    /// Index in [`Table::ALL`].
    pub(crate) const fn place(self) -> usize {
        match self {
            Self::Changes => 6,
            Self::Counts => 7,
            Self::Hits => 8,
            Self::Heads => 9,
            Self::Synthesis => 10,
            Self::Names => 11,
            Self::Index => 12,
            _ => self as usize,
        }
    }

    /// True if rows are records that a loss counts: see [`magscope_core::Batch::numbered`].
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
            Self::Names => "names",
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

    /// Table and segment in a file name.
    pub fn parse(name: &str) -> Option<(Self, u32)> {
        let (table, number) = name.strip_suffix(".arrows")?.split_once('-')?;
        let table = Self::ALL.into_iter().find(|t| t.name() == table)?;
        let segment = number.parse().ok()?;
        // Only canonical names: `events-3.arrows` is no file of the recorder.
        (table.file_name(segment) == name).then_some((table, segment))
    }
}

/// The segment numbers in a directory, ascending. A segment exists if any of its files does.
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
