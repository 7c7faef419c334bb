//! Slices of one width, in order of time.

use super::Slice;
use magscope_core::synthesis::Synthesis;
use std::collections::VecDeque;

/// Overhead of a slice, in buckets.
const SLICE: usize = 16;

/// Slices of one width.
#[derive(Debug, Default)]
pub struct Level {
    /// Keyed by the number of the stretch of their beginning.
    slices: VecDeque<(u64, Slice)>,
    buckets: usize,
    /// Length of the longest slice, nanoseconds.
    longest_ns: u64,
    /// Slices that begin below this may have been discarded.
    forgotten_ns: u64,
}

impl Level {
    /// Adds a row to the slice of its interval's beginning.
    pub fn add(&mut self, bits: u32, ends: (u64, u64), row: &Synthesis, alone: bool) {
        if ends.0 < self.forgotten_ns {
            return; // too late for this width; the wider ones accept it
        }
        let number = ends.0 >> bits;
        let at = match self.slices.back() {
            Some((last, _)) if *last == number => self.slices.len() - 1,
            Some((last, _)) if *last > number => self.slices.partition_point(|(other, _)| *other < number),
            _ => self.slices.len(),
        };
        if self.slices.get(at).is_none_or(|(other, _)| *other != number) {
            self.slices.insert(at, (number, Slice::new(ends)));
            self.buckets += SLICE;
        }
        if let Some((_, slice)) = self.slices.get_mut(at) {
            self.buckets += slice.add(ends, row, alone);
            self.longest_ns = self.longest_ns.max(slice.to_ns.saturating_sub(slice.from_ns));
        }
    }

    /// Buckets that it keeps.
    pub const fn buckets(&self) -> usize {
        self.buckets
    }

    /// Discards its oldest slices down to this number of buckets.
    pub fn forget_beyond(&mut self, most: usize) {
        while self.buckets > most
            && self.slices.len() > 1
            && let Some((_, slice)) = self.slices.pop_front()
        {
            let buckets: usize = slice.pairs.values().map(|buckets| buckets.iter().count()).sum();
            self.buckets = self.buckets.saturating_sub(buckets + SLICE);
            self.forgotten_ns = self.forgotten_ns.max(slice.from_ns.saturating_add(1));
        }
    }

    /// True if all slices since then are present.
    pub const fn reaches(&self, from_ns: u64) -> bool {
        self.forgotten_ns <= from_ns
    }

    /// The slices that overlap `[from_ns, to_ns)`.
    pub fn slices(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &Slice> {
        let earliest_ns = from_ns.saturating_sub(self.longest_ns);
        let first = self.slices.partition_point(|(_, slice)| slice.from_ns < earliest_ns);
        let slices = self.slices.range(first..).map(|(_, slice)| slice);
        slices.take_while(move |slice| slice.from_ns < to_ns).filter(move |slice| slice.to_ns > from_ns)
    }
}
