//! The open pieces of one stream, in order of their first byte.

use super::piece::{Piece, State};
use std::collections::VecDeque;

/// Number of closed pieces beyond the open ones at which a list is compacted.
const MAX_GONE: usize = 16;

/// Unused capacity of a list, beyond four times its length, before it is released.
const MAX_SPARE: usize = 64;

/// Pieces in order of their start, disjoint.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    list: VecDeque<Piece>,
    gone: usize,
    /// Result of the last search inside the list: the next one mostly ends nearby.
    hint: usize,
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
    pub fn first_ending_after(&mut self, at: u64) -> usize {
        // Most events concern the newest bytes or the oldest, and arriving bytes are consecutive.
        match (self.list.front(), self.list.back()) {
            (Some(front), _) if front.end > at => 0,
            (_, Some(back)) if back.end <= at => self.list.len(),
            (_, Some(back)) if back.start <= at => self.list.len() - 1,
            _ => {
                self.hint = self.first_not(self.hint, |p| p.end <= at);
                self.hint
            }
        }
    }

    /// Index of the datagram that starts at `start`.
    pub fn starting_at(&self, start: u64) -> Option<usize> {
        // They are numbered, so that its index is that difference or, after removals, smaller.
        let place = start.checked_sub(self.list.front()?.start)? >> 32;
        let index = self.first_not(place as usize, |p| p.start < start);
        (self.list.get(index)?.start == start).then_some(index)
    }

    /// Index of the first piece that `before` rejects; it accepts all earlier ones. The search uses growing
    /// steps from `hint`: each piece examined is a cache miss, and a binary search of a long list examines
    /// many.
    fn first_not(&self, hint: usize, before: impl Fn(&Piece) -> bool) -> usize {
        let is_before = |index: usize| self.list.get(index).is_some_and(&before);
        let (mut low, mut high, mut step) = (0, self.list.len(), 1);
        let at = hint.min(high);
        if is_before(at) {
            low = at + 1;
            while low + step <= high {
                if !is_before(low + step - 1) {
                    high = low + step - 1;
                    break;
                }
                low += step;
                step *= 2;
            }
        } else {
            high = at;
            while low + step <= high {
                if is_before(high - step) {
                    low = high - step + 1;
                    break;
                }
                high -= step;
                step *= 2;
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    pub fn insert(&mut self, index: usize, piece: Piece) {
        if self.list.len() == self.list.capacity() {
            // By a quarter: doubling would make unused room most of the memory of a journey.
            self.list.reserve_exact(self.list.len() / 4 + 4);
        }
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

    /// Removes closed pieces from the front, and returns the end of the removed part. With `merge` (TCP) closed
    /// pieces in the middle keep their bytes; without it (UDP, where no byte repeats) they are removed.
    pub fn tidy(&mut self, merge: bool) -> Option<u64> {
        let mut end = None;
        while let Some(front) = self.list.front()
            && front.is_gone()
        {
            end = Some(front.end);
            self.list.pop_front();
            self.hint = self.hint.saturating_sub(1);
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
        // Peak capacity is released, so that not every flow keeps it. Most stored flows are idle and have no
        // list at all.
        if self.list.is_empty() {
            self.list = VecDeque::new();
        } else if self.list.capacity() > 4 * self.list.len() + MAX_SPARE {
            self.list.shrink_to(2 * self.list.len());
        }
        end
    }

    fn merge_gone(&mut self) {
        let mut merged: VecDeque<Piece> = VecDeque::with_capacity(self.open() * 2 + MAX_GONE);
        self.gone = 0;
        for piece in self.list.drain(..) {
            if let Some(last) = merged.back_mut()
                && last.is_gone()
                && piece.is_gone()
            {
                // A gap between two closed pieces was never seen; later events for it cannot be distinguished.
                last.end = piece.end;
                continue;
            }
            self.gone += usize::from(piece.is_gone());
            merged.push_back(piece);
        }
        self.list = merged;
    }

    /// Removes the pieces from `index` on that `remove` selects; returns their number and bytes.
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
        self.list = VecDeque::new();
        self.hint = 0;
        self.gone = 0;
    }
}
