//! One lane of the pyramid: the same values in tiles of increasing width.

use super::tile::Part;
use std::collections::VecDeque;

/// Width of the finest tile is two to the power of this, nanoseconds: 65.5 µs.
const BASE_BITS: u32 = 16;
/// Four tiles make one of the next level.
const FAN_OUT_BITS: u32 = 2;
/// Levels: the widest tile is 2⁴⁶ ns, almost a day.
pub const LEVELS: usize = 16;

/// Width of a tile of a level, as a power of two nanoseconds.
pub const fn bits(level: usize) -> u32 {
    BASE_BITS + FAN_OUT_BITS * level as u32
}

/// The numbers of the tiles of a level that overlap `[from_ns, to_ns)`: the first, and the first beyond.
const fn numbers(level: usize, from_ns: u64, to_ns: u64) -> (u64, u64) {
    if from_ns >= to_ns {
        return (0, 0);
    }
    (from_ns >> bits(level), ((to_ns - 1) >> bits(level)) + 1)
}

/// Tiles of one level, by number. Those without anything are not there.
#[derive(Clone, Debug)]
struct Level<T> {
    tiles: VecDeque<(u64, T)>,
    /// The tile of the last write: not in `tiles` and not in the level above yet.
    open: (u64, T),
    /// Tiles below this number may have been discarded.
    forgotten: u64,
}

impl<T: Part> Default for Level<T> {
    fn default() -> Self {
        Level { tiles: VecDeque::new(), open: (0, T::default()), forgotten: 0 }
    }
}

/// All levels of one lane.
#[derive(Clone, Debug)]
pub struct Levels<T> {
    levels: Vec<Level<T>>,
}

impl<T: Part> Default for Levels<T> {
    fn default() -> Self {
        Levels { levels: (0..LEVELS).map(|_| Level::default()).collect() }
    }
}

impl<T: Part> Levels<T> {
    /// Changes the tile of an instant. Instants may be in any order; ascending order is fastest. `lowest` is
    /// the finest level kept, `most` the tiles kept at each.
    pub fn add(&mut self, time_ns: u64, lowest: usize, most: usize, change: impl FnOnce(&mut T)) {
        let number = time_ns >> bits(lowest);
        if self.levels.get(lowest).is_some_and(|level| level.open.0 != number) {
            self.flush(lowest, most);
        }
        if let Some(level) = self.levels.get_mut(lowest) {
            level.open.0 = number;
            change(&mut level.open.1);
        }
    }

    /// Makes everything that was added readable.
    pub fn settle(&mut self, lowest: usize, most: usize) {
        for level in lowest..self.levels.len() {
            self.flush(level, most);
        }
    }

    /// Moves the open tile of a level to its tiles and to the level above.
    fn flush(&mut self, at: usize, most: usize) {
        let Some(level) = self.levels.get_mut(at) else { return };
        if level.open.1.is_empty() {
            return;
        }
        let (number, part) = (level.open.0, std::mem::take(&mut level.open.1));
        let above = number >> FAN_OUT_BITS;
        if self.levels.get(at + 1).is_some_and(|next| next.open.0 != above) {
            self.flush(at + 1, most);
        }
        if let Some(next) = self.levels.get_mut(at + 1) {
            next.open.0 = above;
            next.open.1.merge(&part);
        }
        if let Some(level) = self.levels.get_mut(at) {
            level.write(number, part, most);
        }
    }

    /// Tiles at a level.
    pub fn len(&self, level: usize) -> usize {
        self.levels.get(level).map_or(0, |level| level.tiles.len())
    }

    /// Discards a level; those above it contain all of its data.
    pub fn drop_level(&mut self, level: usize) {
        if let Some(level) = self.levels.get_mut(level) {
            level.tiles = VecDeque::new();
        }
    }

    /// True if a level is complete since `from_ns`.
    pub fn reaches(&self, level: usize, from_ns: u64) -> bool {
        self.levels.get(level).is_some_and(|stored| stored.forgotten <= from_ns >> bits(level))
    }

    /// The tiles of a level that overlap `[from_ns, to_ns)`, with the instant each begins.
    pub fn tiles(&self, level: usize, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (u64, &T)> {
        let (first, end) = numbers(level, from_ns, to_ns);
        self.range(level, first, end).map(move |(number, tile)| (number << bits(level), tile))
    }

    /// Visits all of `[from_ns, to_ns)` once: tiles of the level `finest` at its ends, the widest possible ones
    /// between them.
    pub fn cover(&self, finest: usize, from_ns: u64, to_ns: u64, mut visit: impl FnMut(&T)) {
        let (mut first, mut end) = numbers(finest, from_ns, to_ns);
        for level in finest..LEVELS {
            let (above, beyond) = (first.div_ceil(1 << FAN_OUT_BITS), end >> FAN_OUT_BITS);
            if above >= beyond || level + 1 == LEVELS {
                return self.range(level, first, end).for_each(|(_, tile)| visit(tile));
            }
            self.range(level, first, above << FAN_OUT_BITS).for_each(|(_, tile)| visit(tile));
            self.range(level, beyond << FAN_OUT_BITS, end).for_each(|(_, tile)| visit(tile));
            (first, end) = (above, beyond);
        }
    }

    /// The tiles of a level with these numbers.
    fn range(&self, level: usize, first: u64, end: u64) -> impl Iterator<Item = (u64, &T)> {
        let tiles = self.levels.get(level).map(|level| &level.tiles).filter(|_| first < end);
        let begin = tiles.map_or(0, |tiles| tiles.partition_point(|(number, _)| *number < first));
        tiles
            .into_iter()
            .flat_map(move |tiles| tiles.range(begin..))
            .take_while(move |(number, _)| *number < end)
            .map(|(number, tile)| (*number, tile))
    }
}

impl<T> Levels<T> {
    /// The last tile of a level before the one of an instant.
    pub fn before(&self, level: usize, time_ns: u64) -> Option<&T> {
        let tiles = &self.levels.get(level)?.tiles;
        let at = tiles.partition_point(|(number, _)| *number < time_ns >> bits(level));
        tiles.get(at.checked_sub(1)?).map(|(_, tile)| tile)
    }
}

impl<T: Part> Level<T> {
    fn write(&mut self, number: u64, part: T, most: usize) {
        if number < self.forgotten {
            return; // too late for this level; the levels above accept it
        }
        match self.tiles.back_mut() {
            Some((last, tile)) if *last == number => tile.merge(&part),
            Some((last, _)) if *last > number => {
                let at = self.tiles.partition_point(|(other, _)| *other < number);
                match self.tiles.get_mut(at) {
                    Some((other, tile)) if *other == number => tile.merge(&part),
                    _ => self.tiles.insert(at, (number, part)),
                }
            }
            _ => self.tiles.push_back((number, part)),
        }
        while self.tiles.len() > most {
            if let Some((number, _)) = self.tiles.pop_front() {
                self.forgotten = number + 1;
            }
        }
    }
}
