//! The tile pyramid: the source of pictures with too much data for lifelines.
//!
//! A lane is a signal counted over time: the latency of a hop, the payload at a hop, journeys, drops. The
//! finest tiles are 65 µs wide; each level above is four times as wide, up to a day. A tile has count, sum,
//! minimum, maximum and log-spaced classes of value; the lane of journeys also has the slowest of every tile. A
//! picture uses the level whose tiles are just finer than its columns, so its cost depends on its columns
//! alone.
//!
//! **Bounded** in both modes. Live, each level keeps its newest tiles, so that resolution decreases with age. A
//! recording is kept completely; if the finest level has too many tiles, it is discarded.

mod levels;
mod share;
mod tile;

pub use levels::{LEVELS, bits};
pub use share::Share;
pub use tile::{CLASSES, Extent, Part, Slowest, Tile, edges_of};

use crate::look::Exemplar;
use crate::measure::MOST_ORIGINS;
use crate::probes::ProbeId;
use crate::protocols::ByProtocol;
use levels::Levels;
use magscope_core::custom::MOST_VALUES;
use magscope_core::hop::PATH_HOPS;
use magscope_core::journey::MAX_FORWARDERS;
use magscope_core::{Hop, Proto};
use share::column_of;

/// The counted quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Times to a hop from the hop below it, of one protocol, nanoseconds. The number is that of the hop below, see
    /// [`Origins`](crate::measure::Origins).
    Latency(Proto, Hop, u8),
    /// Times between two copies of the same bytes, of one protocol, nanoseconds.
    Waits(Proto),
    /// Payload bytes of events at a hop.
    Payload(Hop),
    /// Complete journeys: their time, by their beginning.
    Journeys,
    /// The same of one protocol.
    Whole(Proto),
    /// Ended journeys of any verdict, by their end.
    Ended,
    /// Of those, journeys that the kernel dropped or that were not seen again.
    LostJourneys,
    /// Ended journeys of protocols without times of their own.
    Untimed,
    /// Packets the kernel dropped.
    Drops,
    /// Byte ranges sent again.
    Retransmits,
    /// Number of lost events, by the last possible instant of the loss.
    Lost,
    /// All events.
    Events,
    /// Times inside the forwarder of this number on the path, from 1, of one protocol, by their end, nanoseconds.
    Forwarded(Proto, u8),
    /// Hits of a custom probe.
    Hits(ProbeId),
}

/// Where the tiles of a lane are.
enum Place {
    /// At this index of the lanes of all protocols.
    Common(usize),
    /// At this index of the protocol's own lanes.
    Of(Proto, usize),
}

/// Lanes of all protocols, without those of custom probes.
const COMMON: usize = PATH_HOPS + 8;
/// Lanes of one protocol: the hops, the waits, the whole journeys, the forwarders, the hops from further origins.
const OF_PROTOCOL: usize = FURTHER + (MOST_ORIGINS - 1) * PATH_HOPS;
/// Those of the forwarders are from this index on.
const FORWARDED: usize = PATH_HOPS + 2;
/// Those of further origins are from this index on.
const FURTHER: usize = FORWARDED + MAX_FORWARDERS;

/// The tiles of one protocol.
struct Times([Levels<Tile>; OF_PROTOCOL]);

impl Default for Times {
    fn default() -> Self {
        Times(std::array::from_fn(|_| Levels::default()))
    }
}

impl Lane {
    /// Where its tiles are; `None` for a hop that is not on the path.
    fn place(self) -> Option<Place> {
        Some(match self {
            Self::Payload(hop) => Place::Common(hop.rank()?),
            Self::Journeys => Place::Common(PATH_HOPS),
            Self::Ended => Place::Common(PATH_HOPS + 1),
            Self::Drops => Place::Common(PATH_HOPS + 2),
            Self::Retransmits => Place::Common(PATH_HOPS + 3),
            Self::Lost => Place::Common(PATH_HOPS + 4),
            Self::Events => Place::Common(PATH_HOPS + 5),
            Self::LostJourneys => Place::Common(PATH_HOPS + 6),
            Self::Untimed => Place::Common(PATH_HOPS + 7),
            Self::Forwarded(proto, number) => {
                let at = usize::from(number).checked_sub(1).filter(|at| *at < MAX_FORWARDERS)?;
                Place::Of(proto, FORWARDED + at)
            }
            Self::Hits(probe) => Place::Common(COMMON + probe.index()),
            Self::Latency(proto, hop, 0) => Place::Of(proto, hop.rank()?),
            Self::Latency(proto, hop, origin) => {
                let origin = Some(usize::from(origin)).filter(|origin| *origin < MOST_ORIGINS)?;
                Place::Of(proto, FURTHER + (origin - 1) * PATH_HOPS + hop.rank()?)
            }
            Self::Waits(proto) => Place::Of(proto, PATH_HOPS),
            Self::Whole(proto) => Place::Of(proto, PATH_HOPS + 1),
        })
    }

    /// True if the lane has classes of its values.
    const fn has_classes(self) -> bool {
        matches!(
            self,
            Self::Latency(..) | Self::Waits(_) | Self::Whole(_) | Self::Journeys | Self::Forwarded(..)
        )
    }
}

/// The policy for too many tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Each level discards its oldest.
    #[default]
    Newest,
    /// The finest level is discarded; all of the time line stays.
    All,
}

/// Maximum number of tiles per level and lane, live. Three protocols have some two hundred lanes × 16 levels × 2048 tiles
/// of about 150 bytes at most; typical traffic of a host uses some ten megabytes.
const MOST_LIVE: usize = 2048;
/// The same of a recording, at the finest level; those above add a third.
const MOST_RECORDED: usize = 32_768;

/// The tile pyramid.
pub struct Pyramid {
    /// Of all protocols, then those of custom probes.
    lanes: Vec<Levels<Tile>>,
    times: ByProtocol<Times>,
    slowest: Levels<Slowest>,
    /// The values of each custom probe, [`MOST_VALUES`] each.
    values: Vec<Levels<Extent>>,
    keep: Keep,
    lowest: usize,
    most: usize,
    /// Something was counted since the counts were made readable.
    is_unsettled: bool,
}

impl Pyramid {
    /// An empty one, without custom probes.
    #[cfg(test)]
    pub fn new(keep: Keep) -> Self {
        Self::with_probes(keep, 0)
    }

    /// An empty pyramid, with room for this number of custom probes.
    pub fn with_probes(keep: Keep, probes: usize) -> Self {
        let most = if keep == Keep::All { MOST_RECORDED } else { MOST_LIVE };
        let (lanes, values) = (Vec::new(), Vec::new());
        let times = ByProtocol::default();
        let slowest = Levels::default();
        let mut pyramid = Pyramid { lanes, times, slowest, values, keep, lowest: 0, most, is_unsettled: false };
        pyramid.grow(probes);
        pyramid
    }

    /// Makes room for this number of custom probes.
    pub fn grow(&mut self, probes: usize) {
        self.lanes.resize_with(self.lanes.len().max(COMMON + probes), Levels::default);
        self.values.resize_with(self.values.len().max(probes * MOST_VALUES), Levels::default);
    }

    /// Takes over from another what no filter narrows: drops, retransmissions, lost events, all events.
    pub fn take_not_narrowed(&mut self, other: &mut Self) {
        for lane in [Lane::Drops, Lane::Retransmits, Lane::Lost, Lane::Events] {
            if let (Some(place), Some(levels)) = (self.levels_mut(lane), other.levels_mut(lane)) {
                *place = std::mem::take(levels);
            }
        }
        self.is_unsettled |= other.is_unsettled;
    }

    /// The protocols with times of their own, in order.
    pub fn protocols(&self) -> impl Iterator<Item = Proto> + '_ {
        self.times.protocols()
    }

    fn levels(&self, lane: Lane) -> Option<&Levels<Tile>> {
        match lane.place()? {
            Place::Common(index) => self.lanes.get(index),
            Place::Of(proto, index) => self.times.get(proto)?.0.get(index),
        }
    }

    /// The same to change, with a new row for a new protocol.
    fn levels_mut(&mut self, lane: Lane) -> Option<&mut Levels<Tile>> {
        match lane.place()? {
            Place::Common(index) => self.lanes.get_mut(index),
            Place::Of(proto, index) => self.times.entry(proto)?.0.get_mut(index),
        }
    }

    fn all_levels(&mut self) -> impl Iterator<Item = &mut Levels<Tile>> {
        self.lanes.iter_mut().chain(self.times.values_mut().flat_map(|times| times.0.iter_mut()))
    }

    /// Counts a value.
    pub fn count(&mut self, lane: Lane, time_ns: u64, value: u64) {
        let (lowest, most) = (self.lowest, self.limit());
        self.is_unsettled = true;
        if let Some(levels) = self.levels_mut(lane) {
            levels.add(time_ns, lowest, most, |tile| tile.add(value, lane.has_classes()));
        }
    }

    /// Counts a whole journey.
    pub fn journey(&mut self, exemplar: Exemplar) {
        self.count(Lane::Journeys, exemplar.start_ns, exemplar.total_ns);
        let (lowest, most) = (self.lowest, self.limit());
        self.slowest.add(exemplar.start_ns, lowest, most, |slowest| slowest.add(exemplar));
    }

    /// Counts a value of a custom probe, by its index.
    pub fn value(&mut self, (probe, number): (ProbeId, usize), time_ns: u64, value: f64) {
        let (lowest, most) = (self.lowest, self.limit());
        self.is_unsettled = true;
        if let Some(levels) = self.values.get_mut(probe.index() * MOST_VALUES + number) {
            levels.add(time_ns, lowest, most, |extent| extent.merge(&Extent::of(time_ns, value)));
        }
    }

    fn limit(&self) -> usize {
        if self.keep == Keep::All { usize::MAX } else { self.most }
    }

    /// Makes all counts readable and enforces the bound. Call it before the counts are read: it costs as much as the
    /// lanes that were counted in, whatever is read.
    pub fn settle(&mut self) {
        if !std::mem::take(&mut self.is_unsettled) {
            return;
        }
        let (lowest, most) = (self.lowest, self.limit());
        self.all_levels().for_each(|levels| levels.settle(lowest, most));
        self.slowest.settle(lowest, most);
        self.values.iter_mut().for_each(|levels| levels.settle(lowest, most));
        while self.keep == Keep::All && self.lowest + 1 < LEVELS && self.finest_is_too_long() {
            let given_up = self.lowest;
            self.all_levels().for_each(|levels| levels.drop_level(given_up));
            self.slowest.drop_level(given_up);
            self.values.iter_mut().for_each(|levels| levels.drop_level(given_up));
            self.lowest += 1;
        }
    }

    fn finest_is_too_long(&self) -> bool {
        let times = self.times.values().flat_map(|times| times.0.iter());
        let longest = self.lanes.iter().chain(times).map(|levels| levels.len(self.lowest));
        longest.chain(self.values.iter().map(|levels| levels.len(self.lowest))).any(|len| len > self.most)
    }

    /// The level for `columns` columns of a stretch: the widest tiles of which four fit into a column, and that
    /// reach back far enough. With fewer tiles, one column would have twice the tiles of the next.
    fn level(&self, levels: &Levels<impl Part>, from_ns: u64, to_ns: u64, columns: usize) -> usize {
        let width = to_ns.saturating_sub(from_ns) / columns.max(1) as u64 / 4;
        let fits = (self.lowest..LEVELS).take_while(|level| 1 << bits(*level) <= width).last();
        let fits = fits.unwrap_or(self.lowest);
        (fits..LEVELS).find(|level| levels.reaches(*level, from_ns)).unwrap_or(LEVELS - 1)
    }

    /// Visits the tiles of a lane over a stretch with their first and last column. A tile wider than a column
    /// is in several. Returns the tiles' width, nanoseconds.
    pub fn columns(
        &self,
        lane: Lane,
        stretch: (u64, u64),
        columns: usize,
        visit: impl FnMut(usize, usize, &Tile),
    ) -> u64 {
        self.levels(lane).map_or(0, |levels| self.walk(levels, stretch, columns, visit))
    }

    /// The same of a value of a custom probe.
    pub fn extents(
        &self,
        (probe, number): (ProbeId, usize),
        stretch: (u64, u64),
        columns: usize,
        visit: impl FnMut(usize, usize, &Extent),
    ) -> u64 {
        let levels = self.values.get(probe.index() * MOST_VALUES + number);
        levels.map_or(0, |levels| self.walk(levels, stretch, columns, visit))
    }

    /// The last value of a custom probe before a stretch, to within a tile for this number of columns.
    pub fn value_before(
        &self,
        (probe, number): (ProbeId, usize),
        (from_ns, to_ns): (u64, u64),
        columns: usize,
    ) -> Option<f64> {
        let levels = self.values.get(probe.index() * MOST_VALUES + number)?;
        let level = self.level(levels, from_ns, to_ns, columns);
        levels.before(level, from_ns).map(|extent| extent.last.1)
    }

    /// The range of a value over a stretch, to within 1/2048 of the stretch at each end.
    pub fn extent(&self, value: (ProbeId, usize), from_ns: u64, to_ns: u64) -> Extent {
        let mut total = Extent::default();
        self.extents(value, (from_ns, to_ns), 512, |_, _, extent| total.merge(extent));
        total
    }

    fn walk<T: Part>(
        &self,
        levels: &Levels<T>,
        (from_ns, to_ns): (u64, u64),
        columns: usize,
        mut visit: impl FnMut(usize, usize, &T),
    ) -> u64 {
        let level = self.level(levels, from_ns, to_ns, columns);
        let width = 1_u64 << bits(level);
        for (begin, tile) in levels.tiles(level, from_ns, to_ns) {
            let first = column_of(begin, (from_ns, to_ns), columns);
            let last = column_of(begin + (width - 1), (from_ns, to_ns), columns);
            // A tile over the edge of two narrow columns counts in the column of its beginning.
            let wide = width > to_ns.saturating_sub(from_ns) / columns.max(1) as u64;
            visit(first, if wide { last } else { first }, tile);
        }
        width
    }

    /// Visits the tiles of a lane over a stretch like [`Pyramid::columns`], but the widest that are no wider
    /// than a column. That is a quarter of the tiles; those over a column edge are to be divided. At the ends
    /// of the stretch the resolution is that of `columns`.
    pub fn spread(
        &self,
        lane: Lane,
        (from_ns, to_ns): (u64, u64),
        columns: usize,
        mut visit: impl FnMut(Share, &Tile),
    ) {
        let Some(levels) = self.levels(lane) else { return };
        let fine = self.level(levels, from_ns, to_ns, columns);
        let column_ns = to_ns.saturating_sub(from_ns) / columns.max(1) as u64;
        let wide = (fine..LEVELS).take_while(|level| 1 << bits(*level) <= column_ns).last().unwrap_or(fine);
        let tile_ns = 1_u64 << bits(wide);
        // The wide tiles completely within the stretch.
        let begin_ns = from_ns.div_ceil(tile_ns).saturating_mul(tile_ns).min(to_ns);
        let end_ns = (to_ns >> bits(wide) << bits(wide)).max(begin_ns);
        for (level, from, to) in [(fine, from_ns, begin_ns), (wide, begin_ns, end_ns), (fine, end_ns, to_ns)] {
            for (at_ns, tile) in levels.tiles(level, from, to) {
                visit(Share::of(at_ns, 1 << bits(level), (from_ns, to_ns), columns), tile);
            }
        }
    }

    /// The total of a lane over a stretch, to within 1/2048 of the stretch at each end.
    pub fn total(&self, lane: Lane, from_ns: u64, to_ns: u64) -> Tile {
        let mut total = Tile::default();
        if let Some(levels) = self.levels(lane) {
            let finest = self.level(levels, from_ns, to_ns, 512);
            levels.cover(finest, from_ns, to_ns, |tile| total.merge(tile));
        }
        total
    }

    /// The slowest journeys that began in a stretch, the slowest of each of `columns` parts of it, by time.
    pub fn slowest(&self, from_ns: u64, to_ns: u64, columns: usize) -> Vec<Exemplar> {
        let level = self.level(&self.slowest, from_ns, to_ns, columns);
        let tiles = self.slowest.tiles(level, from_ns, to_ns);
        let mut best: Vec<Option<Exemplar>> = vec![None; columns.max(1)];
        for exemplar in tiles.flat_map(|(_, slowest)| slowest.iter()) {
            let inside = (from_ns..to_ns).contains(&exemplar.start_ns);
            let column = column_of(exemplar.start_ns, (from_ns, to_ns), columns.max(1));
            if let Some(place) = best.get_mut(column).filter(|_| inside)
                && place.is_none_or(|current| current.total_ns < exemplar.total_ns)
            {
                *place = Some(*exemplar);
            }
        }
        best.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exemplar(start_ns: u64, total_ns: u64) -> Exemplar {
        Exemplar { key: start_ns, start_ns, total_ns, x: 0.0 }
    }

    /// Values over some time, mostly in order.
    fn values() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let step = (0..2_000_000_u64, 0..50_000_000_u64, 0..100_u8);
        prop::collection::vec(step, 1..400).prop_map(|steps| {
            let mut now = 1_000_000_000;
            steps
                .into_iter()
                .map(|(step, value, late)| {
                    now += step;
                    (if late < 10 { now - step * 7 % 900_000_000 } else { now }, value)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn it_equals_counting_by_hand(values in values(), level in 0..LEVELS, first in 0..40_u64, tiles in 1..40_u64) {
            let mut pyramid = Pyramid::new(Keep::All);
            for (n, (time_ns, value)) in values.iter().enumerate() {
                pyramid.count(Lane::Latency(Proto::TCP, Hop::DevRecv, 0), *time_ns, *value);
                if n % 97 == 0 {
                    pyramid.settle();
                }
            }
            pyramid.settle();
            let levels = pyramid.levels(Lane::Latency(Proto::TCP, Hop::DevRecv, 0)).unwrap();
            let width = 1_u64 << bits(level);
            let from = (1_000_000_000 / width + first) * width;
            let to = from + tiles * width;
            let mut seen = Tile::default();
            levels.tiles(level, from, to).for_each(|(_, tile)| seen.merge(tile));
            let mut truth = Tile::default();
            values.iter().filter(|(t, _)| (from..to).contains(t)).for_each(|(_, value)| truth.add(*value, true));
            prop_assert_eq!(seen, truth);
        }

        #[test]
        fn the_slowest_of_all_is_seen_from_anywhere(values in values(), columns in 1..300_usize) {
            let mut pyramid = Pyramid::new(Keep::All);
            for (time_ns, value) in &values {
                pyramid.journey(exemplar(*time_ns, *value));
            }
            pyramid.settle();
            let end = values.iter().map(|(t, _)| *t).max().unwrap() + 1;
            let seen = pyramid.slowest(0, end, columns);
            let slowest = values.iter().map(|(_, value)| *value).max();
            prop_assert_eq!(seen.iter().map(|e| e.total_ns).max(), slowest);
            prop_assert!(seen.len() <= columns && seen.is_sorted_by_key(|e| e.start_ns));
        }

        #[test]
        fn columns_hold_all_of_it(values in values(), columns in 1..300_usize) {
            let mut pyramid = Pyramid::new(Keep::Newest);
            for (time_ns, value) in &values {
                pyramid.count(Lane::Payload(Hop::DevXmit), *time_ns, *value);
            }
            pyramid.settle();
            let end = values.iter().map(|(t, _)| *t).max().unwrap() + 1;
            let (mut count, mut sum) = (0, 0);
            pyramid.columns(Lane::Payload(Hop::DevXmit), (0, end), columns, |first, last, tile| {
                assert!(first <= last && last < columns);
                count += tile.count;
                sum += tile.sum;
            });
            prop_assert_eq!((count, sum), (values.len() as u64, values.iter().map(|(_, v)| *v).sum()));
        }
    }

    proptest! {
        #[test]
        fn a_total_is_that_of_its_columns(values in values(), a in 0..3_000_000_000_u64, b in 0..3_000_000_000_u64) {
            for keep in [Keep::All, Keep::Newest] {
                let mut pyramid = Pyramid::new(keep);
                for (time_ns, value) in &values {
                    pyramid.count(Lane::Journeys, *time_ns, *value);
                }
                pyramid.settle();
                let (from_ns, to_ns) = (a.min(b), a.max(b));
                let mut by_columns = Tile::default();
                pyramid.columns(Lane::Journeys, (from_ns, to_ns), 512, |_, _, tile| by_columns.merge(tile));
                prop_assert_eq!(pyramid.total(Lane::Journeys, from_ns, to_ns), by_columns);
            }
        }
    }

    proptest! {
        #[test]
        fn divided_columns_hold_all_of_it_each_in_its_place(
            values in values(),
            columns in 1..300_usize,
            a in 0..3_000_000_000_u64,
            b in 0..3_000_000_000_u64,
        ) {
            for keep in [Keep::All, Keep::Newest] {
                let mut pyramid = Pyramid::new(keep);
                for (time_ns, value) in &values {
                    pyramid.count(Lane::Journeys, *time_ns, *value);
                }
                pyramid.settle();
                let stretch = (a.min(b), a.max(b) + 1);
                let column_ns = (stretch.1 - stretch.0) / columns as u64;
                let mut seen = vec![0_u32; columns];
                let mut is_wide = false;
                pyramid.spread(Lane::Journeys, stretch, columns, |share, tile| {
                    let before: u64 = seen.iter().map(|n| u64::from(*n)).sum();
                    share.add(tile, &mut seen, 1, |_| 0);
                    let each = seen.iter().map(|n| u64::from(*n)).sum::<u64>() - before;
                    // A divided tile is complete.
                    is_wide |= matches!(share, Share::Each(first, last) if first < last);
                    assert!(is_wide || each == tile.count);
                });
                let mut truth = vec![0_u64; columns];
                pyramid.columns(Lane::Journeys, stretch, columns, |first, last, tile| {
                    truth[first..=last].iter_mut().for_each(|n| *n += tile.count);
                });
                let seen: Vec<u64> = seen.into_iter().map(u64::from).collect();
                if is_wide || column_ns < 1 << bits(0) {
                    prop_assert_eq!(&seen, &truth);
                    continue;
                }
                prop_assert_eq!(seen.iter().sum::<u64>(), truth.iter().sum::<u64>());
                // The error of a position is less than the width of a column.
                let mut below = 0;
                for (at, n) in seen.iter().enumerate() {
                    below += n;
                    let edge = stretch.0 + ((at + 1) as u128 * u128::from(stretch.1 - stretch.0) / columns as u128) as u64;
                    let counted = |to_ns: u64| {
                        values.iter().filter(|(t, _)| *t >= stretch.0 && *t < to_ns).count() as u64
                    };
                    let outside = values.len() as u64 - counted(stretch.1);
                    prop_assert!(counted(edge.saturating_sub(column_ns + 1)) <= below);
                    prop_assert!(below <= counted(edge + column_ns + 1) + outside);
                }
            }
        }
    }

    #[test]
    fn it_is_bounded_and_remembers_the_past_more_coarsely() {
        let mut pyramid = Pyramid::new(Keep::Newest);
        let hour = 3_600_000_000_000_u64;
        for n in 0..40_000_u64 {
            pyramid.count(Lane::Journeys, n * hour / 10_000, n);
            if n % 100 == 0 {
                pyramid.settle();
            }
        }
        pyramid.settle();
        let levels = pyramid.levels(Lane::Journeys).unwrap();
        assert!((0..LEVELS).all(|level| levels.len(level) <= MOST_LIVE));
        let all = pyramid.total(Lane::Journeys, 0, 4 * hour);
        assert_eq!((all.count, all.max), (40_000, 39_999));
    }

    #[test]
    fn of_a_recording_everything_stays() {
        let mut pyramid = Pyramid::new(Keep::All);
        for n in 0..100_000_u64 {
            pyramid.count(Lane::Journeys, n * 70_000, 1);
            if n % 1_000 == 0 {
                pyramid.settle();
            }
        }
        pyramid.settle();
        assert!(
            pyramid.lowest >= 1
                && pyramid.lanes.iter().all(|levels| levels.len(pyramid.lowest) <= MOST_RECORDED)
        );
        assert_eq!(pyramid.total(Lane::Journeys, 0, 100_000 * 70_000).count, 100_000);
        assert_eq!(pyramid.total(Lane::Journeys, 0, u64::MAX).count, 100_000);
    }
}
