//! What a session comes to.

use crate::meta::{Dropped, LossTotals, Meta};

/// Totals of a session: of what its directory holds.
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
    /// Lost records, by cause: those the recorder wrote down, and damage found when the session was opened.
    pub losses: LossTotals,
    /// What retention deleted.
    pub dropped: Option<Dropped>,
    /// Whether the recorder closed it.
    pub closed: bool,
}

impl Summary {
    /// From the totals a recorder wrote when it closed.
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
