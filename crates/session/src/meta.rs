//! `meta.toml`: what a session is, what was deleted from it, and whether it was closed.

use crate::error::SessionError;
use crate::layout::META;
use crate::record::SegmentTotals;
use crate::seal::{checksum_line, ends_with_checksum};
use crate::utc;
use magscope_core::batch::LossCause;
use magscope_core::foreign;
use magscope_core::node::NodeInfo;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The session format this library writes, and the newest it reads.
///
/// 2 has more columns in the clock table, and the tables of changes, counts, hits and heads; 3 has the clock of the events in
/// the clock table; 4 has the table of what the kernel added up, and the hits that it did so with in the table of counts; 5 has
/// checksums of `meta.toml` and of whole files.
pub const FORMAT: u32 = 5;

/// A `meta.toml` longer than this is not read: it holds a table of hops and some names.
const LONGEST_META: u64 = 4 << 20;

/// What a session is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the layout of the directory; see `docs/formats.md`.
    pub format: u32,
    /// What made it, `magnet-scope 0.1.0`.
    #[serde(default, deserialize_with = "magscope_core::foreign::text")]
    pub tool: String,
    /// Tells this session's files from another's; also in the schema of each of its streams.
    #[serde(default, deserialize_with = "magscope_core::foreign::text")]
    pub session: String,
    /// When recording began, `2026-01-02T03:04:05Z`.
    #[serde(default, deserialize_with = "magscope_core::foreign::text")]
    pub created_utc: String,
    /// The limits it was recorded with.
    #[serde(default)]
    pub retention: Retention,
    /// What the limits made the recorder delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Dropped>,
    /// What was deleted here after it had been copied elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shipped: Option<Elsewhere>,
    /// Written at the clean end of a recording: without it the session is unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
    /// The node that was recorded.
    #[serde(default)]
    pub node: NodeInfo,
}

/// Limits on what a recording keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Most bytes the directory may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_limit_bytes: Option<u64>,
    /// Most segments kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_segments: Option<u32>,
    /// How long a segment is kept after its end, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_for_s: Option<u64>,
}

/// What was deleted on purpose while recording: the oldest segments. Not a loss, but not there either.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// How many segments: those with numbers below this one.
    pub segments: u32,
    /// How many events were in them.
    pub events: u64,
    /// How many losses (records) they told of.
    pub lost: u64,
    /// How many bytes they took.
    pub bytes: u64,
    /// First event deleted, `CLOCK_MONOTONIC` nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
    /// Last event deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ns: Option<u64>,
    /// Which limit it was the last time: `size-limit`, `keep` or `keep-for`.
    pub by: String,
    /// How many segments these are, where they were to be shipped: they were deleted before. The others below the number are kept
    /// elsewhere.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unshipped: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Dropped {
    /// One line for people: `first 3 segments (12000 events) dropped by the size limit`.
    pub fn describe(&self) -> String {
        let (segments, events) = (self.segments, self.events);
        let plural = if segments == 1 { "segment" } else { "segments" };
        let by = match self.by.as_str() {
            "keep" => "limit on segments kept",
            "keep-for" => "limit on their age",
            "full-disk" => "recorder, because the disk was full,",
            _ => "size limit",
        };
        if self.unshipped > 0 {
            let segments = self.unshipped;
            let plural = if segments == 1 { "segment" } else { "segments" };
            return format!(
                "{segments} {plural} ({events} events) dropped by the {by} before they were shipped"
            );
        }
        format!("first {segments} {plural} ({events} events) dropped by the {by}")
    }
}

/// Segments that were deleted here after they had been copied elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Those of these numbers: below this one, but for what `dropped` has.
    pub below: u32,
    /// How many.
    pub segments: u32,
    /// Events in them.
    pub events: u64,
    /// Batches of events.
    pub batches: u64,
    /// Bytes.
    pub bytes: u64,
    /// First event, `CLOCK_MONOTONIC` nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
    /// Last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ns: Option<u64>,
    /// Lost records by cause.
    #[serde(default)]
    pub losses: LossTotals,
}

impl Elsewhere {
    pub(crate) fn add(&mut self, segment: &SegmentTotals) {
        self.below = segment.number + 1;
        self.segments += 1;
        self.events += segment.events;
        self.batches += segment.batches;
        self.bytes += segment.bytes;
        if let Some((from, to)) = segment.range_ns {
            self.from_ns = Some(self.from_ns.unwrap_or(from).min(from).min(LARGEST));
            self.to_ns = Some(self.to_ns.unwrap_or(to).max(to).min(LARGEST));
        }
        self.losses.add_all(&segment.losses);
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let plural = if self.segments == 1 { "segment" } else { "segments" };
        format!("{} {plural} ({} events) were shipped and then deleted here", self.segments, self.events)
    }
}

/// Totals at the clean end of a recording, of what the directory then holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// When, `2026-01-02T03:04:05Z`.
    pub utc: String,
    /// Events in the directory.
    pub events: u64,
    /// Batches of events.
    pub batches: u64,
    /// Segments.
    pub segments: u32,
    /// Bytes of all files but this one.
    pub bytes: u64,
    /// First event, `CLOCK_MONOTONIC` nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
    /// Last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ns: Option<u64>,
    /// Lost records by cause.
    #[serde(default)]
    pub losses: LossTotals,
}

/// Lost records, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct LossTotals {
    /// See [`LossCause::RingFull`].
    pub ring_full: u64,
    /// See [`LossCause::Gap`].
    pub gap: u64,
    /// See [`LossCause::RecorderQueue`].
    pub recorder_queue: u64,
    /// See [`LossCause::Damaged`].
    pub damaged: u64,
    /// See [`LossCause::Undecodable`].
    pub undecodable: u64,
    /// See [`LossCause::Refused`].
    pub refused: u64,
    /// See [`LossCause::Missed`].
    pub missed: u64,
}

impl LossTotals {
    /// Lost for this cause.
    pub const fn of(&self, cause: LossCause) -> u64 {
        match cause {
            LossCause::RingFull => self.ring_full,
            LossCause::Gap => self.gap,
            LossCause::RecorderQueue => self.recorder_queue,
            LossCause::Damaged => self.damaged,
            LossCause::Undecodable => self.undecodable,
            LossCause::Refused => self.refused,
            LossCause::Missed => self.missed,
        }
    }

    /// Lost for any cause.
    pub fn total(&self) -> u64 {
        LossCause::ALL.into_iter().fold(0, |sum, cause| sum.saturating_add(self.of(cause)))
    }

    /// Counts all that another has.
    pub fn add_all(&mut self, other: &LossTotals) {
        for cause in LossCause::ALL {
            self.add(cause, other.of(cause));
        }
    }

    /// Counts some more.
    pub fn add(&mut self, cause: LossCause, count: u64) {
        let slot = match cause {
            LossCause::RingFull => &mut self.ring_full,
            LossCause::Gap => &mut self.gap,
            LossCause::RecorderQueue => &mut self.recorder_queue,
            LossCause::Damaged => &mut self.damaged,
            LossCause::Undecodable => &mut self.undecodable,
            LossCause::Refused => &mut self.refused,
            LossCause::Missed => &mut self.missed,
        };
        *slot = slot.saturating_add(count).min(LARGEST);
    }
}

/// TOML integers are signed: a count beyond this would make the file unwritable.
pub(crate) const LARGEST: u64 = i64::MAX as u64;

/// What reading `meta.toml` came to.
pub(crate) enum MetaRead {
    Good(Box<Meta>),
    /// Its checksum differs: what it says may be wrong.
    Changed(Box<Meta>),
    /// There is one, but it makes no sense; why.
    Unreadable(String),
    Missing,
}

impl Meta {
    pub(crate) fn new(node: &NodeInfo, retention: Retention) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Meta {
            format: FORMAT,
            tool: format!("magnet-scope {}", env!("CARGO_PKG_VERSION")),
            session: format!("{:x}-{:x}", since_epoch.as_nanos(), std::process::id()),
            created_utc: utc::now(),
            retention,
            dropped: None,
            shipped: None,
            closed: None,
            node: node.clone(),
        }
    }

    /// Writes it so that a reader sees the old one or the new one, never half of it, whatever happens. Returns its
    /// size in bytes.
    pub(crate) fn write(&self, dir: &Path) -> Result<u64, SessionError> {
        let path = dir.join(META);
        let text = self.text(&path)?;
        let fresh = dir.join("meta.toml.tmp");
        let mut file = File::create(&fresh).map_err(SessionError::io("create", &fresh))?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        if let Err(source) = written {
            // Leave the old one alone, and no debris that looks like a session file.
            let _ = fs::remove_file(&fresh);
            return Err(SessionError::Io { operation: "write", path: fresh, source });
        }
        fs::rename(&fresh, &path).map_err(SessionError::io("replace", &path))?;
        // The rename itself has to reach the disk as well.
        File::open(dir).and_then(|d| d.sync_all()).map_err(SessionError::io("sync", dir))?;
        Ok(text.len() as u64)
    }

    fn text(&self, path: &Path) -> Result<String, SessionError> {
        let text = toml::to_string(self)
            .map_err(|e| SessionError::Encode { path: path.to_path_buf(), because: e.to_string() })?;
        Ok(text.clone() + &checksum_line(&text))
    }

    /// That of the recording in a directory. `None` where there is none, or none that makes sense.
    ///
    /// # Errors
    /// What the operating system said, and a format that is newer than what is read here.
    pub fn load(dir: &Path) -> Result<Option<Meta>, SessionError> {
        Ok(match Self::read(dir)? {
            MetaRead::Good(meta) | MetaRead::Changed(meta) => Some(*meta),
            MetaRead::Unreadable(_) | MetaRead::Missing => None,
        })
    }

    /// What `meta.toml` says beside a copy of all segments that the recording ever closed: what was deleted here after it was
    /// shipped is there.
    ///
    /// # Errors
    /// None but bugs.
    pub fn of_copy(mut self) -> Result<String, SessionError> {
        if let Some(elsewhere) = self.shipped.take()
            && let Some(closed) = &mut self.closed
        {
            closed.segments += elsewhere.segments;
            closed.events += elsewhere.events;
            closed.batches += elsewhere.batches;
            closed.bytes += elsewhere.bytes;
            closed.from_ns = elsewhere.from_ns.into_iter().chain(closed.from_ns).min();
            closed.to_ns = closed.to_ns.max(elsewhere.to_ns);
            closed.losses.add_all(&elsewhere.losses);
        }
        self.text(Path::new(META))
    }

    /// The id of the recording that a text of `meta.toml` belongs to.
    pub fn session_of(text: &str) -> Option<String> {
        let table: toml::Table = text.parse().ok()?;
        Some(table.get("session")?.as_str()?.to_owned())
    }

    pub(crate) fn read(dir: &Path) -> Result<MetaRead, SessionError> {
        let path = dir.join(META);
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(file) => {
                file.take(LONGEST_META).read_to_end(&mut bytes).map_err(SessionError::io("read", &path))?;
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(MetaRead::Missing),
            Err(e) => return Err(SessionError::Io { operation: "open", path, source: e }),
        }
        let Ok(text) = String::from_utf8(bytes) else {
            return Ok(MetaRead::Unreadable("it is not UTF-8 text".into()));
        };
        // The format comes first: a newer one may have anything else in a shape unknown here.
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(e) => return Ok(MetaRead::Unreadable(one_line(&e))),
        };
        let found = table.get("format").and_then(toml::Value::as_integer);
        match found.map(u64::try_from) {
            Some(Ok(found)) if found > u64::from(FORMAT) => {
                let tool = table.get("tool").and_then(toml::Value::as_str).unwrap_or("unknown");
                Err(SessionError::NewerFormat {
                    path: dir.to_path_buf(),
                    found,
                    known: FORMAT,
                    tool: foreign::clean(tool).chars().take(64).collect(),
                })
            }
            Some(Ok(1..)) => Ok(match table.try_into() {
                Ok(meta) if ends_with_checksum(&text) => MetaRead::Good(Box::new(meta)),
                Ok(meta) => MetaRead::Changed(Box::new(meta)),
                Err(e) => MetaRead::Unreadable(one_line(&e)),
            }),
            _ => Ok(MetaRead::Unreadable("it has no `format`".into())),
        }
    }
}

fn one_line(error: &toml::de::Error) -> String {
    foreign::clean(error.message()).chars().take(200).collect()
}
