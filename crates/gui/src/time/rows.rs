//! Vertical layout of the lanes: the receiver's hops above, the wire, the sender's below.

use egui::{Rangef, Rect, pos2};
use magscope_core::Hop;
use magscope_core::hop::PATH_HOPS;
use magscope_scope::{Lane, Place, ProbeId};

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
    /// Custom probes with a lane.
    probes: Vec<(ProbeId, f32)>,
    wire: Option<Rangef>,
}

impl Rows {
    /// Lanes over all of `area`, top first.
    pub fn new(area: Rect, lanes: &[Lane]) -> Self {
        let weight = |lane: &Lane| match lane.place {
            Place::Wire => WIRE,
            Place::Probe(_) => 1.0,
            Place::Hop(_) if lane.is_served() => 1.0,
            Place::Hop(_) => UNSERVED,
        };
        let all: f32 = lanes.iter().map(weight).sum();
        let unit = area.height() / all.max(1.0);
        let (mut rows, mut top) = (Rows::default(), area.top());
        for lane in lanes {
            let bottom = top + unit * weight(lane);
            let rect = Rect::from_min_max(pos2(area.left(), top), pos2(area.right(), bottom));
            rows.rects.push(rect);
            match lane.place {
                Place::Wire => rows.wire = Some(rect.y_range()),
                Place::Probe(probe) => rows.probes.push((probe, rect.center().y)),
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

    /// Vertical position of a place; `None` for the wire and without a lane.
    pub fn line(&self, place: Place) -> Option<f32> {
        match place {
            Place::Hop(hop) => self.middle(hop),
            Place::Probe(probe) => self.probes.iter().find(|(id, _)| *id == probe).map(|(_, middle)| *middle),
            Place::Wire => None,
        }
    }

    /// Vertical range of the wire.
    pub fn wire(&self) -> Option<Rangef> {
        self.wire
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
        let lanes = [lane(Place::Hop(Hop::AppRecv)), lane(Place::Wire), lane(Place::Hop(Hop::AppSend))];
        let area = Rect::from_min_size(pos2(10.0, 20.0), vec2(500.0, 280.0));
        let rows = Rows::new(area, &lanes);
        assert!((rows.rects()[2].bottom() - area.bottom()).abs() < 0.01);
        assert!(rows.middle(Hop::AppRecv) < rows.middle(Hop::AppSend));
        assert_eq!(rows.middle(Hop::IpIn), None);
        assert_eq!(rows.at(rows.wire().unwrap().center()), Some(1));
        assert_eq!(rows.at(1e9), None);
        assert!(Rows::new(area, &[]).rects().is_empty());
    }
}
