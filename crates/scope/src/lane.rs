//! A lane: the screen row of a hop, of a custom probe, of a forwarder, or of the wire between two nodes.

use crate::action::Action;
use crate::bands::Bands;
use crate::probes::{Probe, ProbeId, Probes};
use crate::stats::HopStats;
use crate::switches::HopState;
use magscope_core::{Direction, Hop};

/// What a lane shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A hop of the sender or of the receiver.
    Hop(Hop),
    /// A custom probe: among the hops if it has a place, otherwise below all of them.
    Probe(ProbeId),
    /// The wire of a leg: below it the sender (0), or the forwarder of this number, counted from 1 at the sender.
    Wire(u8),
    /// The forwarder of this number: all of it while it is folded, its title while it is open.
    Forwarder(u8),
    /// A hop of an open forwarder.
    Inside(u8, Hop),
}

impl Place {
    /// True if a lifeline has events there, and nowhere else in the lane's row. The hits of a custom probe need not be of a
    /// lifeline.
    pub(crate) const fn has_events(self) -> bool {
        matches!(self, Self::Hop(_) | Self::Forwarder(_) | Self::Inside(..))
    }

    /// What a click on the name of its lane does, if anything. `selected` is the selected lane.
    pub fn click(self, selected: Option<Place>) -> Option<Action> {
        match self {
            Self::Hop(_) => Some(Action::ChooseLane(Some(self).filter(|place| Some(*place) != selected))),
            Self::Forwarder(number) => Some(Action::ToggleForwarder(number)),
            Self::Probe(_) | Self::Wire(_) | Self::Inside(..) => None,
        }
    }
}

/// A row of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// What it shows.
    pub place: Place,
    /// The hop's state; [`HopState::OFF`] for wires, forwarders and custom probes. For the attachment of a probe see
    /// [`crate::Frame::probe`].
    pub state: HopState,
    /// True after the first event of the hop or hit of the probe.
    pub seen: bool,
    /// Rates and latencies; `None` without measurements, which differs from zero.
    pub stats: Option<HopStats>,
}

impl Lane {
    /// The hop of a hop's lane; `None` for those of a forwarder.
    pub const fn hop(&self) -> Option<Hop> {
        match self.place {
            Place::Hop(hop) => Some(hop),
            Place::Probe(_) | Place::Wire(_) | Place::Forwarder(_) | Place::Inside(..) => None,
        }
    }

    /// The custom probe of a probe's lane.
    pub const fn probe(&self) -> Option<ProbeId> {
        match self.place {
            Place::Probe(probe) => Some(probe),
            Place::Hop(_) | Place::Wire(_) | Place::Forwarder(_) | Place::Inside(..) => None,
        }
    }

    /// True for a wire.
    pub const fn is_wire(&self) -> bool {
        matches!(self.place, Place::Wire(_))
    }

    /// True if the place can be measured.
    pub const fn is_served(&self) -> bool {
        self.state.is_on() || !matches!(self.place, Place::Hop(_) | Place::Wire(_))
    }
}

/// Every place of the picture from the top: the receiver's hops from the application down, the forwarders from the
/// last to the first with a wire on both sides of each, the sender's hops. A custom probe follows its hop; probes
/// without a place are below all of them.
pub fn places<'a>(probes: &'a Probes, bands: &'a Bands) -> impl Iterator<Item = Place> + 'a {
    let path = Hop::path();
    let wire = path.iter().position(|hop| hop.direction() == Direction::Rx).unwrap_or(path.len());
    let (tx, rx) = path.split_at(wire);
    let place = |probe: &Probe| Place::Probe(probe.id);
    let hops = move |hops: &'static [Hop]| {
        hops.iter().rev().flat_map(move |hop| probes.behind(*hop).rev().map(place).chain([Place::Hop(*hop)]))
    };
    hops(rx).chain(bands.places()).chain(hops(tx)).chain(probes.unplaced().map(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receiver_is_above_the_sender() {
        let places: Vec<_> = places(&Probes::default(), &Bands::default()).collect();
        assert_eq!(places.len(), Hop::path().len() + 1);
        assert_eq!(places.first(), Some(&Place::Hop(Hop::AppRecv)));
        assert_eq!(places.last(), Some(&Place::Hop(Hop::AppSend)));
        let wire = places.iter().position(|p| *p == Place::Wire(0)).unwrap();
        assert_eq!(places[wire - 1], Place::Hop(Hop::NapiPoll));
        assert_eq!(places[wire + 1], Place::Hop(Hop::DevDone));
    }

    #[test]
    fn a_probe_stands_right_behind_its_hop() {
        let asked = [
            "kprobe:a after=ip.in",
            "kprobe:b after=ip.out len",
            "kprobe:c",
            "kprobe:d after=ip.in as=point",
            "kprobe:e len",
            "kprobe:f after=app.recv as=loadline len",
            "kprobe:g after=dev.done",
        ];
        let probes = asked.map(|text| text.parse().expect(text)).to_vec();
        let info = magscope_core::node::NodeInfo { probes, ..Default::default() };
        let probes = Probes::new(&[info]);
        let bands = Bands::default();
        let names = places(&probes, &bands).map(|place| match place {
            Place::Hop(hop) => hop.name(),
            Place::Wire(_) => "wire",
            Place::Forwarder(_) | Place::Inside(..) => "forwarder",
            Place::Probe(id) => &probes.get(id).unwrap().name,
        });
        let names: Vec<_> = names.collect();
        let around = |name: &str| {
            let at = names.iter().position(|other| *other == name).unwrap();
            names[at.saturating_sub(2)..=at].to_vec()
        };
        // Upwards is further on the path, for the receiver and the sender.
        assert_eq!(around("ip.in"), ["d", "a", "ip.in"]);
        assert_eq!(around("ip.out"), ["ip.post", "b", "ip.out"]);
        assert_eq!(names[..2], ["f", "app.recv"]);
        assert_eq!(around("dev.done"), ["wire", "g", "dev.done"]);
        assert_eq!(names.last(), Some(&"c"), "without a place, at the edge");
        assert!(!names.contains(&"e"), "a loadline alone has no lane");
    }
}
