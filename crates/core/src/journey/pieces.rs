//! The open pieces of one stream, in order of their first byte.

use super::piece::{Piece, State};
use std::collections::VecDeque;

/// Closed pieces kept in a list beyond the number of open ones before it is tidied.
const MAX_GONE: usize = 16;

/// Pieces in order of their start, disjoint.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    list: VecDeque<Piece>,
    gone: usize,
}

impl Pieces {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Pieces that are not closed.
    pub fn open(&self) -> usize {
        self.list.len() - self.gone
    }

    pub fn get(&self, index: usize) -> Option<&Piece> {
        self.list.get(index)
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut Piece> {
        self.list.get_mut(index)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Piece> {
        self.list.iter()
    }

    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Piece> {
        self.list.iter_mut()
    }

    /// Index of the first piece that ends after `at`.
    pub fn first_ending_after(&self, at: u64) -> usize {
        // Most events are about the newest bytes or the oldest.
        match (self.list.front(), self.list.back()) {
            (Some(front), _) if front.end > at => 0,
            (_, Some(back)) if back.end <= at => self.list.len(),
            (_, Some(back)) if back.start <= at => self.list.len() - 1,
            _ => self.list.partition_point(|p| p.end <= at),
        }
    }

    /// Index of the piece that starts at `start`.
    pub fn starting_at(&self, start: u64) -> Option<usize> {
        self.list.binary_search_by_key(&start, |p| p.start).ok()
    }

    pub fn insert(&mut self, index: usize, piece: Piece) {
        if index >= self.list.len() {
            self.list.push_back(piece);
        } else {
            self.list.insert(index, piece);
        }
    }

    /// Splits the piece at `index` at `at`, which lies inside of it; both halves have passed the same hops.
    pub fn split(&mut self, index: usize, at: u64) {
        let Some(piece) = self.list.get_mut(index) else { return };
        if at <= piece.start || at >= piece.end {
            return;
        }
        let mut right = piece.clone();
        right.start = at;
        piece.end = at;
        if right.is_gone() {
            self.gone += 1;
        }
        self.insert(index + 1, right);
    }

    /// Counts a piece whose state became [`State::Gone`].
    pub fn count_gone(&mut self) {
        self.gone += 1;
    }

    /// Removes what is closed from the front, and returns the end of what was removed. With `merge` (TCP) closed pieces
    /// in the middle keep their bytes; without it (UDP, where nothing can come back) they are forgotten.
    pub fn tidy(&mut self, merge: bool) -> Option<u64> {
        let mut end = None;
        while let Some(front) = self.list.front()
            && front.is_gone()
        {
            end = Some(front.end);
            self.list.pop_front();
            self.gone = self.gone.saturating_sub(1);
        }
        if self.gone > self.open() + MAX_GONE {
            if merge {
                self.merge_gone();
            } else {
                self.list.retain(|p| !p.is_gone());
                self.gone = 0;
            }
        }
        end
    }

    fn merge_gone(&mut self) {
        let mut kept: VecDeque<Piece> = VecDeque::with_capacity(self.open() * 2 + MAX_GONE);
        self.gone = 0;
        for piece in self.list.drain(..) {
            if let Some(last) = kept.back_mut()
                && last.is_gone()
                && piece.is_gone()
            {
                // A gap between two closed pieces was never seen; nothing that comes for it now can be told apart.
                last.end = piece.end;
                continue;
            }
            self.gone += usize::from(piece.is_gone());
            kept.push_back(piece);
        }
        self.list = kept;
    }

    /// Removes the pieces from `index` on for which `remove` holds; returns their number and bytes.
    pub fn remove_from(&mut self, index: usize, remove: impl Fn(&Piece) -> bool) -> (usize, u64) {
        let (mut at, mut count, mut bytes) = (index, 0, 0);
        while let Some(piece) = self.list.get(at) {
            if piece.state != State::Gone && remove(piece) {
                count += 1;
                bytes += piece.end - piece.start;
                self.list.remove(at);
            } else {
                at += 1;
            }
        }
        (count, bytes)
    }

    pub fn clear(&mut self) {
        self.list.clear();
        self.gone = 0;
    }
}
