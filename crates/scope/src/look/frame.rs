//! The on-demand parts of a frame.

use super::{
    Clock, Density, EventTable, FlowRow, FlowTable, Forwarding, HeatMap, HitHeat, Hits, JourneyTable, Leg,
    Loadline, LossPanel, MathTrace, Measurements, Minimap, PersistenceMap, Point, RequestPanel, Stop, SumMap,
    TopologyPanel, XyTrace,
};
use crate::channel::Channel;
use crate::format::utc_time;
use crate::frame::Frame;
use crate::lane::{Lane, Place};
use crate::lifeline::Lifeline;
use crate::probes::{Probe, ProbeId};
use crate::views::View;
use magscope_core::Event;
use std::ops::Range;

impl<'a> Frame<'a> {
    /// True for a packet that the kernel dropped; clean-up is no drop.
    pub fn is_drop(&self, node: u16, event: &Event) -> bool {
        self.scope.names.is_drop(node, event)
    }

    /// The reason why the kernel of a recording dropped a packet, in its own words.
    pub fn drop_reason(&self, node: u16, reason: u32) -> String {
        self.scope.names.drop_reason(node, reason)
    }

    /// The reason for a reset of a recording's kernel, by its name.
    pub fn reset_reason(&self, node: u16, reason: u32) -> String {
        let info = self.scope.names.infos().get(usize::from(node));
        info.map_or_else(|| format!("reason {reason}"), |info| info.reset_reason(reason))
    }

    /// The verdict of a journey, in words.
    pub fn verdict(&self, line: &Lifeline) -> String {
        self.scope.names.verdict(&line.journey)
    }

    /// The lanes at a coarse scale, in this number of columns.
    pub fn density(&self, columns: usize) -> Density {
        self.scope.density(columns)
    }

    /// Drops, retransmissions, losses and changes in the picture, in order of time; of too many of one kind at
    /// one place, within a part of [`super::MOST_POINTS`] of the picture, the first.
    pub fn points(&self) -> Vec<Point> {
        self.scope.points()
    }

    /// The custom probes, in order of their first appearance.
    pub fn probes(&self) -> &'a [Probe] {
        self.scope.probes()
    }

    /// The custom probe of a lane, a hit or a row.
    pub fn probe(&self, id: ProbeId) -> Option<&'a Probe> {
        self.probes().get(id.index())
    }

    /// Name of a lane.
    pub fn name_of(&self, place: Place) -> &'a str {
        match place {
            Place::Hop(hop) | Place::Inside(_, hop) => hop.name(),
            Place::Wire(_) => "wire",
            Place::Forwarder(number) => self.scope.bands().get(number).map_or("", |band| &band.name),
            Place::Probe(id) => self.probe(id).map_or("", |probe| &probe.name),
        }
    }

    /// Title of the rates at the hops: an event by itself matches no filter, so that those of a filter are of journeys.
    pub fn rate_title(&self) -> &'static str {
        if self.controls.chooses_journeys() { "journeys" } else { "events" }
    }

    /// The filter in words, if there is one; with a note where it chooses nothing of what most views show.
    pub fn filter_words(&self) -> Option<String> {
        let filter = self.controls.filter.as_ref()?;
        let of_requests = filter.journeys.is_none() && self.controls.view != View::Requests;
        Some(if of_requests { format!("{filter} (requests only)") } else { filter.to_string() })
    }

    /// What the highlighted journey did in the forwarder of a band, by its number from 1; `None` without one there.
    pub fn forwarding(&self, number: u8) -> Option<Forwarding> {
        self.scope.forwarding(number)
    }

    /// The leg over a wire, by its number: 0 for that of the sender, else that of the forwarder below it.
    pub fn leg(&self, number: u8) -> Leg {
        self.scope.leg(number)
    }

    /// Every signal for drawing, math and triggers: those of [`Channel::ALL`], and the values of custom probes.
    pub fn channels(&self) -> Vec<Channel> {
        let values = self.probes().iter().flat_map(|probe| probe.channels().map(|(_, channel)| channel));
        Channel::ALL.into_iter().chain(values).collect()
    }

    /// The hits of custom probes over the time of the picture, in this number of columns, for their lanes.
    pub fn hits(&self, columns: usize) -> Hits {
        self.scope.hits(columns)
    }

    /// Hits of each custom probe over the picture, in this number of columns: additional rows of
    /// [`Frame::heat_map`].
    pub fn hit_heats(&self, columns: usize) -> Vec<HitHeat<'a>> {
        self.scope.hit_heats(columns)
    }

    /// The events of a lifeline of the picture that have a place, in path order.
    pub fn path_stops(&self, line: &'a Lifeline) -> impl Iterator<Item = Stop> + 'a {
        self.scope.path_stops(line)
    }

    /// The same, with the custom probes that saw its bytes.
    pub fn stops(&self, line: &Lifeline) -> Vec<Stop> {
        self.scope.stops(line)
    }

    /// The complete time line, in this number of columns.
    pub fn minimap(&self, columns: usize) -> Minimap {
        self.scope.minimap(columns)
    }

    /// Latency by hop pair and time over the picture, in this number of columns and latency classes.
    pub fn heat_map(&self, columns: usize, classes: usize) -> HeatMap {
        self.scope.heat_map(columns, classes, &(0..usize::MAX))
    }

    /// The same, with columns in the shown rows only.
    pub fn heat_map_of(&self, columns: usize, classes: usize, shown: &Range<usize>) -> HeatMap {
        self.scope.heat_map(columns, classes, shown)
    }

    /// Times between hops from the kernel's sums over the picture: additional rows of [`Frame::heat_map`].
    pub fn sum_map(&self, columns: usize, classes: usize) -> SumMap {
        self.scope.sum_map(columns, classes, &(0..usize::MAX))
    }

    /// The same, with columns in the shown rows only.
    pub fn sum_map_of(&self, columns: usize, classes: usize, shown: &Range<usize>) -> SumMap {
        self.scope.sum_map(columns, classes, shown)
    }

    /// The chosen signals over the time of the picture, in this number of columns.
    pub fn loadlines(&self, columns: usize) -> Vec<Loadline> {
        self.scope.loadlines(columns)
    }

    /// The computed channel, if there is one.
    pub fn math(&self, columns: usize) -> Option<MathTrace> {
        self.scope.math(columns)
    }

    /// One signal against another, if enabled.
    pub fn xy(&self) -> Option<XyTrace> {
        self.scope.xy()
    }

    /// Overlaid lifelines in this number of columns, if enabled.
    pub fn persistence(&self, columns: usize) -> Option<PersistenceMap> {
        self.scope.persistence(columns)
    }

    /// Measurements over the picture or between the cursors.
    pub fn measurements(&self) -> Measurements {
        self.scope.measurements()
    }

    /// UTC time of day of an instant, if available.
    pub fn time_of_day(&self, time_ns: u64) -> Option<String> {
        self.scope.utc_of_day_ns(time_ns).map(utc_time)
    }

    /// True for a lane that has nothing to show and is folded away: its hop is off or not available.
    pub fn is_folded(&self, lane: &Lane) -> bool {
        self.scope.is_folded(lane)
    }

    /// The flows, or groups of them, up to this number of rows.
    pub fn flows(&self, most: usize) -> FlowTable {
        self.scope.flows(most)
    }

    /// The paths of journeys, leg by leg: this number of rows, with the selected one among them.
    pub fn topology(&self, most: usize) -> TopologyPanel {
        self.scope.topology(most)
    }

    /// The journeys of a row of flows as a condition of a filter; `None` where no filter can name them.
    pub fn condition_of(&self, row: &FlowRow) -> Option<String> {
        self.scope.condition_of(row)
    }

    /// The view of journeys: this number of rows, with the selected one among them.
    pub fn journeys(&self, most: usize) -> JourneyTable<'a> {
        self.scope.journeys(most)
    }

    /// The events around the selected one or the head, up to this number of rows.
    pub fn events(&self, most: usize) -> EventTable<'a> {
        self.scope.events(most)
    }

    /// The clocks.
    pub fn clock(&self) -> Clock {
        self.scope.clock()
    }

    /// Requests and responses: at most this many services, and slowest requests.
    pub fn requests(&self, services: usize, slowest: usize) -> RequestPanel<'a> {
        self.scope.requests(services, slowest)
    }

    /// Losses and overhead.
    pub fn losses(&self) -> LossPanel<'a> {
        self.scope.losses()
    }
}
