//! One recording or several, opened together and put on one time line.

use crate::cli::PartArgs;
use crate::joint::Joint;
use crate::sessions;
use anyhow::Result;
use magscope_core::align::{Aligner, Alignment};
use magscope_core::clock::UtcMap;
use magscope_core::join::Unaligned;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::Source;
use magscope_core::together::{self, Piece, Walked};
use magscope_session::{Replay, Session};
use std::path::PathBuf;
use std::time::Duration;

/// Recordings opened together.
pub struct Recordings {
    dirs: Vec<PathBuf>,
    sessions: Vec<Session>,
    infos: Vec<NodeInfo>,
    /// What part of each is read, on its own clock.
    parts: Vec<(Option<u64>, Option<u64>)>,
    alignment: Alignment,
    utc: UtcMap,
}

impl Recordings {
    /// Opens them, and aligns their clocks if they have several.
    pub fn open(dirs: &[PathBuf], part: PartArgs, limits: Limits) -> Result<Self> {
        let sessions = dirs.iter().map(|dir| sessions::open(dir)).collect::<Result<Vec<_>>>()?;
        let infos: Vec<NodeInfo> = sessions.iter().map(|session| session.info().clone()).collect();
        let maps: Vec<UtcMap> = sessions.iter().map(sessions::utc_map).collect();
        let parts = sessions::windows(&sessions, &maps, part)?;
        let mut all = Recordings {
            dirs: dirs.to_vec(),
            alignment: Aligner::new(&infos).finish(),
            utc: maps.first().cloned().unwrap_or_default(),
            sessions,
            infos,
            parts,
        };
        if !Aligner::new(&all.infos).is_one_clock() {
            let to_utc_ns = maps.iter().map(|map| {
                let sample = map.samples().first();
                sample.map_or(0, |s| s.realtime_ns.wrapping_sub(s.event_ns() as i64))
            });
            let rough = Unaligned { to_utc_ns: to_utc_ns.collect() };
            // All of them, whatever part is shown: the more packets, the tighter the bound.
            let mut replays: Vec<Replay> =
                all.sessions.iter().map(|session| session.replay(None, None)).collect();
            let aligned = together::align(&mut borrowed(&mut replays), &rough, limits, Duration::ZERO);
            all.alignment = aligned.map_err(anyhow::Error::from_boxed)?;
        }
        Ok(all)
    }

    /// The nodes, in the order of the recordings.
    pub fn infos(&self) -> &[NodeInfo] {
        &self.infos
    }

    /// How their clocks stand to each other.
    pub fn alignment(&self) -> &Alignment {
        &self.alignment
    }

    /// The map to UTC of the common time line, which is that of the first recording.
    pub fn utc(&self) -> &UtcMap {
        &self.utc
    }

    /// Reads all of them, side by side.
    pub fn walk(&self, limits: Limits, visit: impl FnMut(Piece<'_>)) -> Result<Walked> {
        let parts = self.sessions.iter().zip(&self.parts);
        let mut replays: Vec<Replay> = parts.map(|(session, (from, to))| session.replay(*from, *to)).collect();
        together::walk(&mut borrowed(&mut replays), &self.alignment, limits, Duration::ZERO, visit)
            .map_err(anyhow::Error::from_boxed)
    }

    /// What is to be said of them together.
    pub fn joint(&self, walked: &Walked) -> Joint {
        Joint::new(&self.dirs, &self.infos, &self.alignment, walked)
    }
}

fn borrowed(replays: &mut [Replay]) -> Vec<&mut dyn Source> {
    replays.iter_mut().map(|replay| replay as &mut dyn Source).collect()
}
