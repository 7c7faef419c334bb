//! Indirect connections between clocks: a tree over the pairs that packets bound from both sides.

use std::collections::{BTreeSet, VecDeque};

/// Pairs of clocks, and the shortest paths between them. A new pair rebuilds the tree, once per pair.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockPaths {
    /// Both orders of each pair.
    pairs: BTreeSet<(u16, u16)>,
    /// By clock.
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The next clock on the path to the first clock of the connected component.
    parent: Option<u16>,
    depth: u16,
    /// Size of the component.
    size: u16,
}

impl ClockPaths {
    /// The tree of these pairs.
    pub(super) fn of(pairs: impl IntoIterator<Item = (u16, u16)>) -> Self {
        let both = pairs.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        let mut paths = ClockPaths { pairs: both, places: Vec::new() };
        paths.find();
        paths
    }

    /// Adds or removes a pair.
    pub(super) fn set(&mut self, (a, b): (u16, u16), is_bounded: bool) {
        let (one, other) = ((a, b), (b, a));
        let changed = if is_bounded {
            self.pairs.insert(one) | self.pairs.insert(other)
        } else {
            self.pairs.remove(&one) | self.pairs.remove(&other)
        };
        if changed {
            self.find();
        }
    }

    /// The clocks that have a pair with this one.
    fn neighbours(&self, clock: u16) -> impl Iterator<Item = u16> + '_ {
        self.pairs.range((clock, 0)..=(clock, u16::MAX)).map(|(_, other)| *other)
    }

    fn find(&mut self) {
        let clocks = self.pairs.last().map_or(0, |(last, _)| usize::from(*last) + 1);
        let mut places = vec![Place::default(); clocks];
        let mut seen = vec![false; clocks];
        for root in 0..clocks as u16 {
            if seen[usize::from(root)] {
                continue;
            }
            seen[usize::from(root)] = true;
            let (mut all, mut next) = (vec![root], VecDeque::from([root]));
            while let Some(here) = next.pop_front() {
                let depth = places[usize::from(here)].depth.saturating_add(1);
                for there in self.neighbours(here) {
                    if !std::mem::replace(&mut seen[usize::from(there)], true) {
                        places[usize::from(there)] = Place { parent: Some(here), depth, size: 0 };
                        all.push(there);
                        next.push_back(there);
                    }
                }
            }
            for clock in &all {
                places[usize::from(*clock)].size = u16::try_from(all.len()).unwrap_or(u16::MAX);
            }
        }
        self.places = places;
    }

    /// Size of the connected component of a clock, itself included.
    pub(super) fn size(&self, clock: u16) -> usize {
        self.places.get(usize::from(clock)).map_or(1, |place| usize::from(place.size).max(1))
    }

    /// The clocks on the path from one to another, without the first and with the last; `None` without a path.
    pub(super) fn between(&self, from: u16, to: u16) -> Option<Vec<u16>> {
        let place = |clock: u16| self.places.get(usize::from(clock)).copied().unwrap_or_default();
        let (mut up, mut down) = (vec![from], vec![to]);
        loop {
            let (a, b) = (*up.last()?, *down.last()?);
            if a == b {
                break;
            }
            // The deeper one moves up.
            let (side, at) = if place(a).depth >= place(b).depth { (&mut up, a) } else { (&mut down, b) };
            side.push(place(at).parent?);
        }
        down.pop();
        up.extend(down.into_iter().rev());
        up.remove(0);
        Some(up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_lead_along_pairs_and_nowhere_else() {
        let mut paths = ClockPaths::of([(0, 1), (1, 2), (2, 3), (1, 4), (6, 7)]);
        assert_eq!(paths.between(4, 3), Some(vec![1, 2, 3]));
        assert_eq!(paths.between(3, 0), Some(vec![2, 1, 0]));
        assert_eq!(paths.between(0, 3), Some(vec![1, 2, 3]));
        assert_eq!((paths.between(2, 2), paths.between(9, 9)), (Some(vec![]), Some(vec![])));
        assert_eq!((paths.between(0, 6), paths.between(5, 9)), (None, None));
        assert_eq!((paths.size(3), paths.size(7), paths.size(5), paths.size(99)), (5, 2, 1, 1));
        paths.set((3, 7), true);
        assert_eq!((paths.between(6, 4), paths.size(6)), (Some(vec![7, 3, 2, 1, 4]), 7));
        paths.set((1, 2), false);
        assert_eq!((paths.between(6, 4), paths.size(0)), (None, 3));
    }
}
