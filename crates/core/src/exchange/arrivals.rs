//! The pieces of one direction, put back into the order of the stream.

use super::piece::Piece;
use std::collections::BTreeMap;

/// Pieces that have arrived and are not processed yet.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// TCP: by position; UDP: by time.
    waiting: BTreeMap<(u64, u64), Piece>,
    /// TCP: position behind the last processed piece.
    next: Option<u64>,
    is_stream: bool,
}

impl Arrivals {
    pub fn new(is_stream: bool) -> Self {
        Arrivals { is_stream, ..Arrivals::default() }
    }

    pub fn push(&mut self, piece: &Piece) {
        let at = if self.is_stream { piece.start } else { piece.ns(true) };
        self.waiting.insert((at, piece.journey), *piece);
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The instant of the next piece at the observed end.
    pub fn head_ns(&self, sent: bool) -> Option<u64> {
        self.waiting.first_key_value().map(|(_, piece)| piece.ns(sent))
    }

    /// The next piece, and whether bytes before it are missing. Bytes that were processed already are skipped.
    pub fn pop(&mut self) -> Option<(Piece, bool)> {
        while let Some((_, mut piece)) = self.waiting.pop_first() {
            let Some(next) = self.next.filter(|_| self.is_stream) else {
                self.next = Some(piece.end);
                return Some((piece, false));
            };
            if piece.end <= next && piece.end != piece.start {
                continue;
            }
            let is_gap = piece.start > next;
            piece.start = piece.start.max(next);
            self.next = Some(piece.end);
            return Some((piece, is_gap));
        }
        None
    }
}
