//! `meta.toml`: description of a session, its deletions, and its totals.

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

/// The session format that this library writes and reads. A change of files, tables or columns increases it.
pub const FORMAT: u32 = 1;

/// Maximum size of a `meta.toml`, bytes: the file holds a table of hops and some names.
const LONGEST_META: u64 = 4 << 20;

/// Description of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the directory layout; see `docs/formats.md`.
    pub format: u32,
    /// Program and version, `magnet-scope 0.1.0`.
    #[serde(default, deserialize_with = "magscope_core::foreign::text")]
    pub tool: String,
    /// Unique id of the session, also in the schema of each stream.
    #[serde(default, deserialize_with = "magscope_core::foreign::text")]
    pub session: String,
    /// When recording began, `2026-01-02T03:04:05Z`.
    #[serde(default, deserialize_with = "magscope_core::foreign::text")]
    pub created_utc: String,
    /// The limits it was recorded with.
    #[serde(default)]
    pub retention: Retention,
    /// Segments that the limits deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Dropped>,
    /// Segments that were deleted after an upload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shipped: Option<ShippedSegments>,
    /// Written at the clean end of a recording: without it the session is unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
    /// The node that was recorded.
    #[serde(default)]
    pub node: NodeInfo,
}

/// Limits of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Maximum size of the directory, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_limit_bytes: Option<u64>,
    /// Maximum number of segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_segments: Option<u32>,
    /// Maximum age of a segment after its end, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_for_s: Option<u64>,
}

/// Segments deleted by limits during the recording: the oldest ones. A deletion is no loss.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// All segments below this number.
    pub segments: u32,
    /// Number of deleted events.
    pub events: u64,
    /// Number of lost records reported in them.
    pub lost: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// First event deleted, `CLOCK_MONOTONIC` nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
    /// Last event deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ns: Option<u64>,
    /// The last limit that applied: `size-limit`, `keep` or `keep-for`.
    pub by: String,
    /// Number of segments deleted before their upload. The others below the number were uploaded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unshipped: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Dropped {
    /// A one-line message: `first 3 segments (12000 events) dropped by the size limit`.
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

/// Segments deleted after an upload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShippedSegments {
    /// Segments below this number, except those in `dropped`.
    pub below: u32,
    /// Number of segments.
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

impl ShippedSegments {
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

    /// A one-line message.
    pub fn describe(&self) -> String {
        let plural = if self.segments == 1 { "segment" } else { "segments" };
        format!("{} {plural} ({} events) were shipped and then deleted here", self.segments, self.events)
    }
}

/// Totals of the directory at the clean end of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Time, `2026-01-02T03:04:05Z`.
    pub utc: String,
    /// Events in the directory.
    pub events: u64,
    /// Batches of events.
    pub batches: u64,
    /// Segments.
    pub segments: u32,
    /// Size of all other files, bytes.
    pub bytes: u64,
    /// First event, `CLOCK_MONOTONIC` nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
    /// Last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_ns: Option<u64>,
    /// Start of the recorded time, with or without events, `CLOCK_MONOTONIC` nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_from_ns: Option<u64>,
    /// Its end: all events before this instant were recorded, or are counted as lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_to_ns: Option<u64>,
    /// Lost records by cause.
    #[serde(default)]
    pub losses: LossTotals,
}

impl Meta {
    /// The recorded time of a closed session, without that of deleted segments; `None` if it was not stored.
    pub(crate) fn observed_ns(&self) -> Option<(u64, u64)> {
        let closed = self.closed.as_ref()?;
        let deleted =
            [self.dropped.as_ref().and_then(|d| d.to_ns), self.shipped.as_ref().and_then(|s| s.to_ns)];
        let deleted_ns = deleted.into_iter().flatten().max().unwrap_or(0);
        let from_ns = closed.observed_from_ns?.max(deleted_ns);
        closed.observed_to_ns.map(|to_ns| (from_ns, to_ns)).filter(|(from_ns, to_ns)| from_ns <= to_ns)
    }
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

/// Result of reading `meta.toml`.
pub(crate) enum MetaRead {
    Good(Box<Meta>),
    /// The checksum differs: the content may be wrong.
    Changed(Box<Meta>),
    /// The file is invalid; with the reason.
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

    /// Writes the file atomically: a reader sees the old or the new version. Returns its size in bytes.
    pub(crate) fn write(&self, dir: &Path) -> Result<u64, SessionError> {
        let path = dir.join(META);
        let text = self.text(&path)?;
        let fresh = dir.join("meta.toml.tmp");
        let mut file = File::create(&fresh).map_err(SessionError::io("create", &fresh))?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        if let Err(source) = written {
            // Leave the old file, and no debris that looks like a session file.
            let _ = fs::remove_file(&fresh);
            return Err(SessionError::Io { operation: "write", path: fresh, source });
        }
        fs::rename(&fresh, &path).map_err(SessionError::io("replace", &path))?;
        // The rename itself must be durable as well.
        File::open(dir).and_then(|d| d.sync_all()).map_err(SessionError::io("sync", dir))?;
        Ok(text.len() as u64)
    }

    fn text(&self, path: &Path) -> Result<String, SessionError> {
        let text = toml::to_string(self)
            .map_err(|e| SessionError::Encode { path: path.to_path_buf(), because: e.to_string() })?;
        Ok(text.clone() + &checksum_line(&text))
    }

    /// Reads the metadata of a recording's directory; `None` if missing or invalid.
    ///
    /// # Errors
    /// The operating system's error, or a format that is newer than supported.
    pub fn load(dir: &Path) -> Result<Option<Meta>, SessionError> {
        Ok(match Self::read(dir)? {
            MetaRead::Good(meta) | MetaRead::Changed(meta) => Some(*meta),
            MetaRead::Unreadable(_) | MetaRead::Missing => None,
        })
    }

    /// The `meta.toml` of a complete copy: segments deleted after their upload are present there.
    ///
    /// # Errors
    /// None in practice.
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

    /// The session id in the text of a `meta.toml`.
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
        // Check the format first: a newer file may have a different structure.
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
                    supported: FORMAT,
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
