//! The views that are tables, and the panels of clocks and losses.

use super::Scope;
use crate::condition;
use crate::flows::FlowQuery;
use crate::journal::{Entry, NodeHit};
use crate::lane::Lane;
use crate::lifeline::Lifeline;
use crate::look::{
    Clock, EventRow, EventRowKind, EventTable, FlowRow, FlowTable, HopRow, JourneyTable, LossPanel,
    RequestPanel, TopologyPanel, Wire,
};
use crate::probe_matches::is_tied;
use crate::recorded::Recorded;
use crate::switches::HopState;
use crate::topology::TopologyQuery;
use crate::views::View;
use magscope_core::context::Context;
use magscope_core::journey::Across;
use magscope_core::{Direction, Event, Hop};
use std::collections::BTreeMap;

impl Scope {
    /// The state of a hop over all recordings: on if it is on in one of them. Live it is the newest state, of a
    /// recording that at the right edge of the picture.
    pub(super) fn hop_state(&self, hop: Hop) -> HopState {
        let at_ns = if self.is_recorded() { self.horizon.end_ns() } else { u64::MAX };
        let states = || self.names.hop_states(hop, at_ns);
        states().find(HopState::is_on).or_else(|| states().next()).unwrap_or(HopState::OFF)
    }

    /// True if the lane has nothing to show. Before any hop is served none is folded.
    pub(crate) fn is_folded(&self, lane: &Lane) -> bool {
        let is_served = |lane: &Lane| lane.hop().is_some() && lane.is_served();
        !self.controls.all_hops
            && lane.hop().is_some_and(|hop| self.controls.hop() != Some(hop))
            && !lane.is_served()
            && !lane.seen
            && self.lanes.iter().any(is_served)
    }

    pub(crate) fn flows(&self, most: usize) -> FlowTable {
        let selected = if self.controls.view == View::Flows { self.controls.row } else { 0 };
        self.counts.flows.table(&self.flow_query(), most, selected)
    }

    /// The journeys of a row of flows as a condition of a filter; `None` where no filter can name them.
    pub(crate) fn condition_of(&self, row: &FlowRow) -> Option<String> {
        match &row.group {
            Some(group) => condition::of_group(group, self.names.infos()),
            None => row.ends.map(condition::of_ends),
        }
    }

    /// What the view of flows shows.
    pub(super) fn flow_query(&self) -> FlowQuery<'_> {
        let controls = &self.controls;
        let within = controls.within.as_ref().map(|within| (within.by, within.id));
        FlowQuery { by: controls.flows_by, within, order: controls.order, names: &self.names }
    }

    pub(crate) fn journeys(&self, most: usize) -> JourneyTable<'_> {
        let at = self.listed.iter().position(|line| self.controls.journey == Some(line.key()));
        let first = (at.unwrap_or(0) + 1).saturating_sub(most.max(1));
        let rows = self.listed.iter().skip(first).take(most).map(|line| self.listed(line)).collect();
        JourneyTable { rows, matching: self.listed.len(), first }
    }

    /// The place of the selected event: counted from the middle of the picture.
    fn event_place(&self) -> usize {
        let middle = match &self.controls.cursors {
            Some(cursors) => cursors.chosen_ns(),
            None if self.controls.paused || self.is_recorded() => self.horizon.time_at(0.5),
            None => u64::MAX,
        };
        self.journal.place_of(middle).min(self.journal.len().saturating_sub(1))
    }

    /// Instant of the selected event or hit.
    pub(super) fn selected_entry_ns(&self) -> Option<u64> {
        let at = self.event_place().saturating_add_signed(self.controls.event as isize);
        self.journal.get(at.min(self.journal.len().saturating_sub(1))).map(|(_, entry)| entry.time_ns())
    }

    pub(crate) fn events(&self, most: usize) -> EventTable<'_> {
        let total = self.journal.len();
        let at =
            self.event_place().saturating_add_signed(self.controls.event as isize).min(total.saturating_sub(1));
        let first = at.saturating_sub(most / 2).min(total.saturating_sub(most));
        let rows = self.journal.entries(first, most).enumerate();
        let rows = rows.filter_map(|(n, (node, entry))| self.event_row(*node, entry, first + n == at));
        let filled = self.recorded.as_ref().and_then(|recorded| recorded.filled.as_ref());
        let is_part = filled.is_some_and(|filled| !filled.has_events);
        EventTable { rows: rows.collect(), total, first, is_part }
    }

    fn event_row<'a>(&'a self, node: u16, entry: &'a Entry, selected: bool) -> Option<EventRow<'a>> {
        let (what, flow, direction, of_journey) = match entry {
            Entry::Event(event) => {
                (EventRowKind::Event(event), event.flow, event.hop.direction(), self.is_of_selected(event))
            }
            Entry::Hit(probe, hit) => {
                let of = self.probes.get(*probe)?;
                let whole = NodeHit { node, probe: *probe, hit: *hit };
                let tied = |line: &Lifeline| is_tied(&whole, of.direction(), &line.journey);
                let of_journey = self.selected.as_ref().is_some_and(tied);
                (EventRowKind::Hit(hit, of), hit.flow, of.direction().unwrap_or(Direction::Off), of_journey)
            }
        };
        let flow = self.names.flow(node, flow);
        let ends =
            flow.map(|f| if direction == Direction::Rx { (f.remote, f.local) } else { (f.local, f.remote) });
        let mut row = EventRow { what, node, comm: "", ends, selected, of_journey };
        row.comm = self.names.comm(node, row.tid()).filter(|_| row.tid() != 0).unwrap_or("");
        Some(row)
    }

    /// True for an event of the selected journey.
    fn is_of_selected(&self, event: &Event) -> bool {
        self.selected.as_ref().is_some_and(|line| {
            let mut rungs = line.journey.all_rungs();
            rungs.any(|rung| (rung.hop, rung.time_ns, rung.cpu) == (event.hop, event.time_ns, event.cpu))
        })
    }

    pub(crate) fn clock(&self) -> Clock {
        let pairs = self.clocks.pairs.clone();
        Clock { nodes: self.clocks.rows(self.names.infos()), pairs, wire: self.wire() }
    }

    /// The wire: the state of the clock pair, and the maximum error over the journeys of the picture.
    pub(crate) fn wire(&self) -> Wire {
        if self.names.infos().len() < 2 && self.clocks.pairs.is_empty() {
            return Wire { state: None, half_width_ns: Some(0) };
        }
        let (mut widest, mut apart) = (None, false);
        for line in &self.sweep.lifelines {
            match line.journey.across {
                Across::Bounded { below_ns, above_ns } => widest = widest.max(Some(below_ns.max(above_ns))),
                Across::Apart => apart = true,
                Across::OneClock => {}
            }
        }
        let Some(pair) = self.clocks.pairs.first() else {
            return Wire { state: None, half_width_ns: if apart { None } else { Some(widest.unwrap_or(0)) } };
        };
        Wire { state: pair.state, half_width_ns: widest.or(pair.half_width_ns) }
    }

    /// Packets that kernels dropped, or freed in a clean-up, by their reasons; the most frequent first.
    pub(super) fn freed(&self, is_clean_up: bool) -> Vec<(String, u64)> {
        let mut by_words: BTreeMap<String, u64> = BTreeMap::new();
        for ((node, freed), n) in &self.drops {
            let of = self.names.clean_up(*node);
            if freed.is_some_and(|freed| of.is_some_and(|of| of.has(freed))) != is_clean_up {
                continue;
            }
            let words = freed.map(|freed| {
                let reason = self.names.drop_reason(*node, freed.reason);
                match of {
                    Some(of) => of.name(freed, reason),
                    None => reason,
                }
            });
            let words = words.unwrap_or_else(|| "more than there was room for".to_owned());
            let sum = by_words.entry(words).or_default();
            *sum = sum.saturating_add(*n);
        }
        let mut freed: Vec<(String, u64)> = by_words.into_iter().collect();
        freed.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        freed
    }

    pub(crate) fn topology(&self, most: usize) -> TopologyPanel {
        self.counts.topology.panel(&self.topology_query(), most)
    }

    /// What the view of the topology shows.
    pub(super) fn topology_query(&self) -> TopologyQuery<'_> {
        TopologyQuery {
            names: &self.names,
            selected: &self.controls.path,
            now_ns: if self.is_recorded() { 0 } else { self.now_ns },
            counted_ns: self.recorded.as_ref().map(Recorded::counted_ns),
            weight: self.weights.of_journeys(),
            has_sums: self.counts.flows.has_sums(),
        }
    }

    pub(crate) fn requests(&self, services: usize, slowest: usize) -> RequestPanel<'_> {
        self.requests.panel(services, slowest, self.controls.request, self.controls.filter.as_ref())
    }

    pub(crate) fn losses(&self) -> LossPanel<'_> {
        let hops = Hop::ALL.iter().map(|hop| HopRow {
            hop: *hop,
            state: self.hop_state(*hop),
            events: self.hop_events.get(usize::from(hop.id())).copied().unwrap_or(0),
            summed: self.hop_sums.get(usize::from(hop.id())).copied().unwrap_or(0),
        });
        LossPanel {
            totals: self.totals,
            losses: self.losses.clone(),
            drops: self.freed(false),
            drops_left_out: self.weights.omissions().drops.causes().collect(),
            cleaned_up: self.freed(true),
            overhead: self.overhead,
            own_cpu: self.own.iter().map(|(_, own)| own.reader_cpu_ratio).collect(),
            ring_fill: self.own.iter().map(|(_, own)| own.ring_fill_ratio).collect(),
            hops: hops.collect(),
            probes: self.probes.all(),
            strangers: self.probes.strangers(),
        }
    }
}
