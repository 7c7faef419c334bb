//! The pieces of one direction, put back into the order of the stream.

use super::piece::Piece;
use std::collections::VecDeque;

/// Pieces that have arrived and are not processed yet.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// In the order of their keys. Most arrive in that order.
    waiting: VecDeque<Piece>,
    /// TCP: position behind the last processed piece.
    next: Option<u64>,
    is_stream: bool,
}

impl Arrivals {
    pub fn new(is_stream: bool) -> Self {
        Arrivals { is_stream, ..Arrivals::default() }
    }

    /// TCP: by position; UDP: by time.
    fn key(&self, piece: &Piece) -> (u64, u64) {
        (if self.is_stream { piece.start } else { piece.ns(true) }, piece.journey.id)
    }

    pub fn push(&mut self, piece: Piece) {
        let key = self.key(&piece);
        if self.waiting.back().is_none_or(|last| self.key(last) <= key) {
            return self.waiting.push_back(piece);
        }
        let at = self.waiting.partition_point(|other| self.key(other) <= key);
        self.waiting.insert(at, piece);
    }

    /// TCP: position behind the last processed piece.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The instant of the next piece at the observed end.
    pub fn head_ns(&self, sent: bool) -> Option<u64> {
        self.waiting.front().map(|piece| piece.ns(sent))
    }

    /// The next piece, and whether bytes before it are missing. Bytes that were processed already are skipped.
    pub fn pop(&mut self) -> Option<(Piece, bool)> {
        while let Some(mut piece) = self.waiting.pop_front() {
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
