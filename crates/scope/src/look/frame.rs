//! What a frame computes when it is asked.

use super::{
    Clock, Density, EventTable, FlowTable, HeatMap, JourneyTable, Loadline, LossPanel, MathTrace, Measurements,
    Minimap, PersistenceMap, Point, XyTrace,
};
use crate::frame::Frame;

impl<'a> Frame<'a> {
    /// The lanes from afar, in so many columns.
    pub fn density(&self, columns: usize) -> Density {
        self.scope.density(columns)
    }

    /// Drops, retransmissions, losses and changes in the picture, in order of time; the first [`super::MOST_POINTS`].
    pub fn points(&self) -> Vec<Point> {
        self.scope.points()
    }

    /// All there is, in so many columns.
    pub fn minimap(&self, columns: usize) -> Minimap {
        self.scope.minimap(columns)
    }

    /// Latency by hop pair and time over the time of the picture, in so many columns and classes of latency.
    pub fn heat_map(&self, columns: usize, classes: usize) -> HeatMap {
        self.scope.heat_map(columns, classes)
    }

    /// The chosen signals over the time of the picture, in so many columns.
    pub fn loadlines(&self, columns: usize) -> Vec<Loadline> {
        self.scope.loadlines(columns)
    }

    /// The computed channel, if there is one.
    pub fn math(&self, columns: usize) -> Option<MathTrace> {
        self.scope.math(columns)
    }

    /// One signal against another, if that is asked for.
    pub fn xy(&self) -> Option<XyTrace> {
        self.scope.xy()
    }

    /// Lifelines over each other, if that is asked for, in so many columns.
    pub fn persistence(&self, columns: usize) -> Option<PersistenceMap> {
        self.scope.persistence(columns)
    }

    /// What is measured over the picture or between the cursors.
    pub fn measurements(&self) -> Measurements {
        self.scope.measurements()
    }

    /// The flows, so many rows.
    pub fn flows(&self, most: usize) -> FlowTable {
        self.scope.flows(most)
    }

    /// The journeys' room: so many rows, moved so that the selected one is among them.
    pub fn journeys(&self, most: usize) -> JourneyTable<'a> {
        self.scope.journeys(most)
    }

    /// The events around the selected one or the head, so many rows.
    pub fn events(&self, most: usize) -> EventTable<'a> {
        self.scope.events(most)
    }

    /// The clocks.
    pub fn clock(&self) -> Clock {
        self.scope.clock()
    }

    /// Losses and overhead.
    pub fn losses(&self) -> LossPanel<'a> {
        self.scope.losses()
    }
}
