//! The pieces of one direction, put back into the order of the stream.

use super::piece::{Part, Piece};
use crate::journey::Journey;
use std::collections::VecDeque;

/// Pieces that have arrived and are not processed yet.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// In the order of their keys. Most arrive in that order.
    waiting: VecDeque<Box<Piece>>,
    /// TCP: position behind the last processed piece.
    next: Option<u64>,
    /// TCP: the low 32 bits of the position behind the SYN, if that was seen.
    first: Option<u32>,
    is_stream: bool,
}

impl Arrivals {
    pub fn new(is_stream: bool) -> Self {
        Arrivals { is_stream, ..Arrivals::default() }
    }

    /// TCP: sets the position behind the SYN, of which each end has its own record; the sender's `is_own`.
    pub fn begin(&mut self, first: Option<u32>, is_own: bool) {
        self.first = if is_own { first.or(self.first) } else { self.first.or(first) };
    }

    /// TCP: by position; UDP: by time.
    fn key(&self, part: &Part, first_journey: u64) -> (u64, u64) {
        (if self.is_stream { part.start } else { part.ns(true) }, first_journey)
    }

    fn key_of(&self, piece: &Piece) -> (u64, u64) {
        self.key(&piece.part, piece.first_journey)
    }

    /// Adds a journey. Returns false if it became part of the last piece.
    pub fn push(&mut self, part: Part, journey: &Journey) -> bool {
        if self.is_stream && self.waiting.back_mut().is_some_and(|last| last.extend(&part, journey)) {
            return false;
        }
        let (key, piece) = (self.key(&part, journey.id), Piece::new(part, journey));
        if self.waiting.back().is_none_or(|last| self.key_of(last) <= key) {
            self.waiting.push_back(piece);
        } else {
            let at = self.waiting.partition_point(|other| self.key_of(other) <= key);
            self.waiting.insert(at, piece);
        }
        true
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
    pub fn head_ns(&mut self, sent: bool) -> Option<u64> {
        self.drop_processed();
        self.waiting.front().map(|piece| piece.part.ns(sent))
    }

    /// Drops the first pieces whose bytes were processed already. Such a piece came late, so its instant is older than
    /// what was processed, and would put the two directions in the wrong order.
    fn drop_processed(&mut self) {
        while let (true, Some(next), Some(piece)) = (self.is_stream, self.next, self.waiting.front())
            && piece.part.end <= next
            && piece.part.end != piece.part.start
        {
            self.waiting.pop_front();
        }
    }

    /// The next piece, and whether bytes before it are missing. Its bytes that were processed already are left out.
    pub fn pop(&mut self) -> Option<(Box<Piece>, bool)> {
        self.drop_processed();
        let mut piece = self.waiting.pop_front()?;
        let (part, next) = (&mut piece.part, self.next.filter(|_| self.is_stream));
        let is_gap = match next {
            Some(next) => part.start > next,
            None => self.first.is_some_and(|first| part.start as u32 != first),
        };
        part.start = part.start.max(next.unwrap_or(part.start));
        self.next = Some(part.end);
        Some((piece, is_gap))
    }
}
