//! What front ends may ask for already and what is not computed yet.

use super::Scope;
use crate::frame::{Detail, State};
use crate::look::{
    Clock, CursorReading, Density, EventTable, FlowTable, HeatMap, JourneyTable, Loadline, LossPanel,
    MathTrace, Measurements, Minimap, PersistenceMap, Point, TriggerStatus, Wire, XyTrace,
};
use crate::transport::Transport;
use crate::trigger::Standing;

#[allow(clippy::unused_self)] // until they are computed
impl Scope {
    pub(crate) fn detail(&self) -> Detail {
        Detail::Lifelines
    }

    pub(crate) fn transport(&self) -> Transport {
        Transport {
            from_ns: 0,
            to_ns: self.now_ns,
            read_ns: self.now_ns,
            head_ns: self.now_ns,
            speed: 1.0,
            playing: !self.view.paused && self.state != State::Ended,
            following: !self.view.paused,
            seekable: false,
        }
    }

    pub(crate) fn wire(&self) -> Wire {
        Wire { state: None, half_width_ns: Some(0) }
    }

    pub(crate) fn trigger_status(&self) -> TriggerStatus<'_> {
        TriggerStatus {
            settings: &self.trigger,
            text: String::new(),
            standing: Standing::Off,
            matches: 0,
            fired: 0,
            captures: Vec::new(),
            shown: None,
            at: None,
        }
    }

    pub(crate) fn cursor_reading(&self) -> Option<CursorReading> {
        None
    }

    pub(crate) fn density(&self, _columns: usize) -> Density {
        Density::default()
    }

    pub(crate) fn points(&self) -> Vec<Point> {
        Vec::new()
    }

    pub(crate) fn minimap(&self, _columns: usize) -> Minimap {
        Minimap::default()
    }

    pub(crate) fn heat_map(&self, _columns: usize, _classes: usize) -> HeatMap {
        HeatMap::default()
    }

    pub(crate) fn loadlines(&self, _columns: usize) -> Vec<Loadline> {
        Vec::new()
    }

    pub(crate) fn math(&self, _columns: usize) -> Option<MathTrace> {
        None
    }

    pub(crate) fn xy(&self) -> Option<XyTrace> {
        None
    }

    pub(crate) fn persistence(&self, _columns: usize) -> Option<PersistenceMap> {
        None
    }

    pub(crate) fn measurements(&self) -> Measurements {
        Measurements {
            over: self.view.over,
            from_ns: self.sweep.origin_ns,
            to_ns: self.sweep.origin_ns,
            pairs: Vec::new(),
            layers: Vec::new(),
            journeys: 0,
            drops: 0,
            retransmits: 0,
            lost_events: 0,
            loss_ratio: None,
        }
    }

    pub(crate) fn flows(&self, _most: usize) -> FlowTable {
        FlowTable::default()
    }

    pub(crate) fn journeys(&self, _most: usize) -> JourneyTable<'_> {
        JourneyTable::default()
    }

    pub(crate) fn events(&self, _most: usize) -> EventTable<'_> {
        EventTable::default()
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock::default()
    }

    pub(crate) fn losses(&self) -> LossPanel<'_> {
        LossPanel {
            totals: self.totals,
            losses: Vec::new(),
            drops: Vec::new(),
            overhead: self.overhead,
            own_cpu: Vec::new(),
            ring_fill: Vec::new(),
            hops: Vec::new(),
        }
    }
}
