//! Totals of a session.

use crate::meta::{Dropped, LossTotals, Meta};

/// Totals of a session's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events.
    pub events: u64,
    /// First event, `CLOCK_MONOTONIC` nanoseconds.
    pub from_ns: Option<u64>,
    /// Last event.
    pub to_ns: Option<u64>,
    /// Segments.
    pub segments: u32,
    /// Batches of events.
    pub batches: u64,
    /// Bytes of all files but `meta.toml`.
    pub bytes: u64,
    /// Lost records by cause: recorded ones, and damage found at the opening.
    pub losses: LossTotals,
    /// Segments deleted by retention.
    pub dropped: Option<Dropped>,
    /// True if the recorder closed the session.
    pub closed: bool,
}

impl Summary {
    /// Totals that the recorder wrote at the close.
    pub(crate) fn of_closed(meta: &Meta) -> Self {
        let closed = meta.closed.clone().unwrap_or_default();
        Summary {
            events: closed.events,
            from_ns: closed.from_ns,
            to_ns: closed.to_ns,
            segments: closed.segments,
            batches: closed.batches,
            bytes: closed.bytes,
            losses: closed.losses,
            dropped: meta.dropped.clone(),
            closed: meta.closed.is_some(),
        }
    }
}
