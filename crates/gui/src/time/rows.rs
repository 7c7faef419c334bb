//! Vertical layout of the lanes: the receiver's hops above, the forwarders between wires, the sender's hops below.

use egui::{Rangef, Rect, pos2};
use magscope_core::Hop;
use magscope_core::hop::PATH_HOPS;
use magscope_scope::{Lane, Place};

/// Relative height of an unserved lane.
const UNSERVED: f32 = 0.55;
/// Minimum height of text.
const LETTERS: f32 = 12.5;
/// Relative height of the wire.
const WIRE: f32 = 1.7;

/// The lanes of a picture.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    rects: Vec<Rect>,
    middles: [Option<f32>; PATH_HOPS],
    /// Custom probes and forwarders.
    others: Vec<(Place, f32)>,
    /// The wires, the last leg first.
    wires: Vec<Rangef>,
}

impl Rows {
    /// Lanes over all of `area`, top first.
    pub fn new(area: Rect, lanes: &[Lane]) -> Self {
        let weight = |lane: &Lane| match lane.place {
            Place::Wire(_) => WIRE,
            Place::Hop(_) if lane.is_served() => 1.0,
            Place::Hop(_) => UNSERVED,
            Place::Probe(_) | Place::Forwarder(_) | Place::Inside(..) => 1.0,
        };
        let all: f32 = lanes.iter().map(weight).sum();
        let unit = area.height() / all.max(1.0);
        let (mut rows, mut top) = (Rows::default(), area.top());
        for lane in lanes {
            let bottom = top + unit * weight(lane);
            let rect = Rect::from_min_max(pos2(area.left(), top), pos2(area.right(), bottom));
            rows.rects.push(rect);
            match lane.place {
                Place::Wire(_) => rows.wires.push(rect.y_range()),
                place @ (Place::Probe(_) | Place::Forwarder(_) | Place::Inside(..)) => {
                    rows.others.push((place, rect.center().y));
                }
                Place::Hop(hop) => {
                    if let Some(middle) = hop.rank().and_then(|at| rows.middles.get_mut(at)) {
                        *middle = Some(rect.center().y);
                    }
                }
            }
            top = bottom;
        }
        rows
    }

    /// Areas of the lanes, in lane order.
    pub fn rects(&self) -> &[Rect] {
        &self.rects
    }

    /// Vertical position of a hop.
    pub fn middle(&self, hop: Hop) -> Option<f32> {
        self.middles.get(hop.rank()?).copied().flatten()
    }

    /// Vertical position of a place; `None` for a wire and without a lane.
    pub fn line(&self, place: Place) -> Option<f32> {
        match place {
            Place::Hop(hop) => self.middle(hop),
            _ => self.others.iter().find(|(other, _)| *other == place).map(|(_, middle)| *middle),
        }
    }

    /// Vertical ranges of the wires, the last leg first.
    pub fn wires(&self) -> &[Rangef] {
        &self.wires
    }

    /// The first wire on the way up from one position to another.
    pub fn wire_between(&self, below: f32, above: f32) -> Option<Rangef> {
        self.wires.iter().copied().rev().find(|wire| wire.max <= below && wire.min >= above)
    }

    /// Lanes with room for text. In a low picture only some have it, served ones first.
    pub fn legible(&self, lanes: &[Lane]) -> Vec<bool> {
        let mut taken: Vec<f32> = Vec::new();
        let mut legible = vec![false; self.rects.len()];
        for served in [true, false] {
            for ((rect, lane), has) in self.rects.iter().zip(lanes).zip(&mut legible) {
                let middle = rect.center().y;
                if lane.is_served() == served && taken.iter().all(|other| (other - middle).abs() >= LETTERS) {
                    taken.push(middle);
                    *has = true;
                }
            }
        }
        legible
    }

    /// The lane at a height.
    pub fn at(&self, y: f32) -> Option<usize> {
        self.rects.iter().position(|rect| rect.y_range().contains(y))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::vec2;
    use magscope_scope::HopState;

    #[test]
    fn lanes_fill_the_height_and_stand_in_stack_order() {
        let lane = |place| Lane { place, state: HopState::OFF, seen: true, stats: None };
        let lanes = [lane(Place::Hop(Hop::AppRecv)), lane(Place::Wire(0)), lane(Place::Hop(Hop::AppSend))];
        let area = Rect::from_min_size(pos2(10.0, 20.0), vec2(500.0, 280.0));
        let rows = Rows::new(area, &lanes);
        assert!((rows.rects()[2].bottom() - area.bottom()).abs() < 0.01);
        assert!(rows.middle(Hop::AppRecv) < rows.middle(Hop::AppSend));
        assert_eq!(rows.middle(Hop::IpIn), None);
        let wire = rows.wires()[0];
        assert_eq!(rows.at(wire.center()), Some(1));
        assert_eq!(rows.wire_between(area.bottom(), area.top()), Some(wire));
        assert_eq!(rows.wire_between(area.top(), area.bottom()), None, "downwards there is none");
        assert_eq!(rows.at(1e9), None);
        assert!(Rows::new(area, &[]).rects().is_empty());
    }
}
