//! A lane: one hop's row on the screen, or the wire between the two ends.

use crate::stats::HopStats;
use magscope_core::node::Service;
use magscope_core::{Direction, Hop};

/// What a lane stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A hop.
    Hop(Hop),
    /// The wire: below it the sender, above it the receiver.
    Wire,
}

/// A row of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Hop or wire.
    pub place: Place,
    /// How the hop is served; for the wire [`Service::Off`].
    pub service: Service,
    /// Whether any event of the hop was seen.
    pub seen: bool,
    /// Rates and latencies; `None` where nothing is measured, which is not the same as zero.
    pub stats: Option<HopStats>,
}

impl Lane {
    /// The hop, unless it is the wire.
    pub const fn hop(&self) -> Option<Hop> {
        match self.place {
            Place::Hop(hop) => Some(hop),
            Place::Wire => None,
        }
    }

    /// Whether something can be measured here.
    pub const fn is_served(&self) -> bool {
        matches!(self.service, Service::Served { .. })
    }
}

/// Every place of the picture, top first: the receiver's hops from the application down, the wire, the sender's.
pub fn places() -> impl Iterator<Item = Place> {
    let path = Hop::path();
    let wire = path.iter().position(|hop| hop.direction() == Direction::Rx).unwrap_or(path.len());
    let (tx, rx) = path.split_at(wire);
    let hops = |hops: &'static [Hop]| hops.iter().rev().map(|hop| Place::Hop(*hop));
    hops(rx).chain([Place::Wire]).chain(hops(tx))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receiver_is_above_the_sender() {
        let places: Vec<_> = places().collect();
        assert_eq!(places.len(), Hop::path().len() + 1);
        assert_eq!(places.first(), Some(&Place::Hop(Hop::AppRecv)));
        assert_eq!(places.last(), Some(&Place::Hop(Hop::AppSend)));
        let wire = places.iter().position(|p| *p == Place::Wire).unwrap();
        assert_eq!(places[wire - 1], Place::Hop(Hop::DevRecv));
        assert_eq!(places[wire + 1], Place::Hop(Hop::DevDone));
    }
}
