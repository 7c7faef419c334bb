//! Reads a part of recordings again, to show its single journeys.

use super::overlaps::Overlaps;
use crate::recordings::Recordings;
use magscope_core::Batch;
use magscope_core::journey::{Limits, Proofs};
use magscope_core::source::{Progress, SourceError};
use magscope_scope::recorded::{MOST_EVENTS, MOST_HEADS, MOST_HITS, MOST_SCANNED, Stretch, Window};
use magscope_timeline::merged_reader::Piece;

/// Minimum margin around a window, nanoseconds, for journeys in flight.
const AROUND_NS: u64 = 10_000_000;
/// Maximum margin.
const MOST_AROUND_NS: u64 = 1_000_000_000;

/// What a reader of all has found so far, for readers of a part.
#[derive(Debug)]
pub struct Found {
    /// What packets have proven of each node's addresses.
    pub proofs: Vec<Proofs>,
    overlaps: Overlaps,
}

impl Found {
    /// Before the first batch.
    pub fn nothing(recordings: &Recordings) -> Self {
        Found { proofs: Vec::new(), overlaps: Overlaps::new(recordings.extent()) }
    }

    /// Adds what was read.
    pub fn add(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Batch(_, batch) => self.overlaps.batch(batch),
            Piece::Journey(journey, ..) => self.overlaps.journey(journey),
        }
    }
}

/// Reads a window of recordings, at most `most_read` events. `learn` gets each batch first.
pub fn read(
    recordings: &Recordings,
    limits: Limits,
    window: Window,
    most_read: usize,
    found: &Found,
    learn: &mut dyn FnMut(u16, &Batch),
) -> Result<Stretch, SourceError> {
    // A fraction of the width: a full width on each side would be mostly wasted.
    let around = ((window.to_ns - window.from_ns) / 4).clamp(AROUND_NS, MOST_AROUND_NS);
    let (from_ns, to_ns) = found.overlaps.around(window, most_read as u64 / 4);
    let wide = (from_ns.saturating_sub(around), to_ns.saturating_add(around));
    let mut walker = recordings.stretch_walker(limits, wide, &found.proofs);
    let mut stretch = Stretch { window, ..Stretch::default() };
    let (mut progress, mut read) = (Progress::More, 0);
    while progress == Progress::More && !stretch.truncated {
        stretch.truncated |= read > most_read;
        progress = walker.step(&mut |piece| match piece {
            Piece::Batch(node, batch) => {
                learn(node, batch);
                read += batch.events.len();
                let inside = |ns: u64| (window.from_ns..=window.to_ns).contains(&ns);
                let room = MOST_EVENTS - stretch.events.len().min(MOST_EVENTS);
                let events = batch.events.iter().filter(|event| inside(event.time_ns)).take(room);
                stretch.events.extend(events.map(|event| (node, *event)));
                let room = MOST_HITS - stretch.hits.len().min(MOST_HITS);
                let hits = batch.hits.iter().filter(|hit| inside(hit.time_ns)).take(room);
                stretch.hits.extend(hits.map(|hit| (node, *hit)));
                let room = MOST_HEADS - stretch.heads.len().min(MOST_HEADS);
                let heads = batch.heads.iter().filter(|head| inside(head.time_ns)).take(room);
                stretch.heads.extend(heads.map(|head| (node, head.clone())));
            }
            Piece::Journey(journey, ..) => {
                let (start, end) = (journey.start_ns(), journey.end_ns());
                let overlaps =
                    start.is_some_and(|ns| ns <= window.to_ns) && end.is_some_and(|ns| ns >= window.from_ns);
                if overlaps && stretch.journeys.len() < MOST_SCANNED {
                    stretch.journeys.push(journey.clone());
                } else {
                    stretch.truncated |= overlaps;
                }
            }
        })?;
    }
    Ok(stretch)
}
