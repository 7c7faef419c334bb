//! The flow table: load, times and blame of each direction of a connection, or of groups of them.

mod groups;
mod page;
mod summed;

pub use groups::GROUPINGS;

use crate::lifeline::Lifeline;
use crate::look::{FlowGroup, FlowOrder, FlowRow, FlowTable, GroupId};
use crate::names::{Names, NetnsKey};
use groups::{Folded, Group, group_of_sums, groups_of};
use magscope_core::blame::Blame;
use magscope_core::context::Context;
use magscope_core::hash::Map;
use magscope_core::journey::ThreadRef;
use magscope_core::synthesis::Synthesis;
use magscope_core::{Direction, Endpoint, FlowId, HopSet, Proto};
use magscope_report::stats::heaviest::{Heaviest, Weighed};
use magscope_report::{GroupBy, GroupEnd, ServiceKey};
use page::Page;
use std::borrow::Cow;
use summed::Summed;

/// Maximum number of flows with an entry of their own, about 1.5 kB each: the heaviest by time, bytes and
/// errors. The others are counted together, and in their groups.
pub const MOST: usize = 4096;

/// Recording, flow, and true where it sends. Two hosts can have the same addresses and numbers, and a socket has one
/// flow for both directions.
type OneDirection = (u16, FlowId, bool);

/// One direction of a connection between two processes: their numbers, 0 for one that was not seen. Its journeys can
/// have several readers, and each is of the group of its own.
type PageKey = (OneDirection, u32, u32);

/// Which rows a table has.
#[derive(Clone, Copy, Debug)]
pub struct FlowQuery<'a> {
    /// Rows are flows or groups of them.
    pub by: GroupBy,
    /// Flows of this group only.
    pub within: Option<(GroupBy, GroupId)>,
    pub order: FlowOrder,
    pub names: &'a Names,
}

/// The flow table.
pub struct Flows {
    pages: Heaviest<PageKey, Page>,
    folded: Folded,
    sums: Heaviest<OneDirection, Summed>,
    newest_ns: u64,
    /// The end of the newest interval.
    summed_ns: u64,
}

impl Default for Flows {
    fn default() -> Self {
        Flows {
            pages: Heaviest::new(MOST),
            folded: Folded::default(),
            sums: Heaviest::new(MOST),
            newest_ns: 0,
            summed_ns: 0,
        }
    }
}

/// The data of a row: counts of journeys, the kernel's sums, or both.
#[derive(Default)]
struct Entry<'f> {
    flow: FlowId,
    sends: bool,
    group: Option<FlowGroup>,
    page: Option<Cow<'f, Page>>,
    summed: Option<Cow<'f, Summed>>,
}

impl Entry<'_> {
    fn rank(&self, order: FlowOrder) -> (u64, u64) {
        let own = self.page.as_ref().map_or(0, |page| page.rank(order));
        let summed = self.summed.as_ref().map_or(0, |summed| summed.bytes);
        // A flow without journeys has only this.
        (if order == FlowOrder::Bytes { own.max(summed) } else { own }, summed)
    }
}

impl Flows {
    /// Enters a journey.
    pub fn journey(&mut self, line: &Lifeline, served: HopSet, names: &Names) {
        let journey = &line.journey;
        let flow = if journey.tx_flow.is_none() {
            (journey.rx_node, journey.rx_flow, false)
        } else {
            (journey.tx_node, journey.tx_flow, true)
        };
        let pid = |who: Option<ThreadRef>| who.map_or(0, |who| who.tgid);
        let (pages, folded) = (&mut self.pages, &mut self.folded);
        let page = pages.entry_evicting((flow, pid(journey.sender), pid(journey.reader)), |_, page| {
            folded.add(page, names);
        });
        if page.journeys == 0 {
            (page.proto, page.ends) = (journey.proto, line.ends);
            page.route = format!("{} → {}", names.netns_name(line.from), names.netns_name(line.to));
            page.owners = Some((GroupEnd::of(journey, names), ServiceKey::of(journey, names)));
        }
        let comm = |node, who: Option<ThreadRef>| names.comm(node, who?.tid);
        for (place, name) in [
            (&mut page.processes.0, comm(journey.tx_node, journey.sender)),
            (&mut page.processes.1, comm(journey.rx_node, journey.reader)),
        ] {
            if place.is_empty()
                && let Some(name) = name
            {
                name.clone_into(place);
            }
        }
        self.newest_ns = self.newest_ns.max(line.end_ns());
        let blame = journey.verdict.is_whole().then(|| Blame::of(journey, served)).flatten();
        page.count(journey, line.end_ns(), blame.as_ref());
    }

    /// Adds packets and bytes from the kernel's sums.
    pub fn sum(&mut self, (node, flow, direction): (u16, FlowId, Direction), row: &Synthesis, names: &Names) {
        self.summed_ns = self.summed_ns.max(row.to_ns);
        let sends = direction == Direction::Tx;
        let page = self.sums.entry((node, flow, sends));
        page.add(row);
        if page.ends.is_none()
            && let Some(recorded_flow) = names.flow(node, flow)
        {
            page.proto = recorded_flow.proto;
            page.ends = Some(if sends {
                (recorded_flow.local, recorded_flow.remote)
            } else {
                (recorded_flow.remote, recorded_flow.local)
            });
            page.netns_name = names.netns_name(Some(NetnsKey { node, netns: recorded_flow.netns }));
        }
    }

    /// Takes over from others what the kernel added up.
    pub fn take_sums(&mut self, others: &mut Self) {
        self.sums = std::mem::replace(&mut others.sums, Heaviest::new(MOST));
        self.summed_ns = std::mem::take(&mut others.summed_ns);
    }

    /// Each flow once.
    fn flows<'f>(&'f self, query: &FlowQuery<'_>) -> Vec<Entry<'f>> {
        let mut of_flow: Map<OneDirection, usize> = Map::default();
        let mut entries: Vec<Entry<'f>> = Vec::with_capacity(self.pages.len());
        for ((flow, ..), page) in self.pages.iter() {
            let is_within =
                query.within.is_none_or(|(by, id)| groups_of(page, by, query.names).any(|(key, _)| key == id));
            if !is_within {
                continue;
            }
            let entry = of_flow.get(flow).and_then(|at| entries.get_mut(*at)?.page.as_mut());
            if let Some(entry) = entry {
                entry.to_mut().merge(page);
            } else {
                of_flow.insert(*flow, entries.len());
                let page = Some(Cow::Borrowed(page));
                entries.push(Entry { flow: flow.1, sends: flow.2, page, ..Entry::default() });
            }
        }
        self.add_sums(query, &mut entries, &of_flow);
        entries
    }

    /// Packets are counted at one hop of each end; with both ends, the sender's count is used.
    fn add_sums<'f>(
        &'f self,
        query: &FlowQuery<'_>,
        entries: &mut Vec<Entry<'f>>,
        of_flow: &Map<OneDirection, usize>,
    ) {
        let mut of_ends: Map<(Proto, Endpoint, Endpoint), usize> = Map::default();
        for (at, entry) in entries.iter().enumerate().filter(|_| !self.sums.is_empty()) {
            if let Some(((from, to), page)) = entry.page.as_ref().and_then(|page| Some((page.ends?, page))) {
                of_ends.insert((page.proto, from, to), at);
            }
        }
        let mut sums: Vec<_> = self.sums.iter().collect();
        sums.sort_unstable_by_key(|((node, flow, sends), _)| (!sends, *node, *flow));
        for ((node, flow, sends), summed) in sums {
            let ends = summed.ends.map(|(from, to)| (summed.proto, from, to));
            // The sending end is the flow itself. Two hosts with the same addresses have one each.
            let own = of_flow.get(&(*node, *flow, *sends)).filter(|_| *sends || ends.is_none());
            let found = own.or_else(|| ends.and_then(|ends| of_ends.get(&ends)));
            let found = found.and_then(|at| entries.get_mut(*at));
            if let Some(entry) = found.filter(|entry| entry.summed.is_none() || !sends) {
                entry.summed.get_or_insert(Cow::Borrowed(summed));
                continue;
            }
            if query.within.is_some_and(|(by, id)| group_of_sums(summed, by).0 != id) {
                continue;
            }
            if let Some(ends) = ends {
                of_ends.insert(ends, entries.len());
            }
            let summed = Some(Cow::Borrowed(summed));
            entries.push(Entry { flow: *flow, sends: *sends, summed, ..Entry::default() });
        }
    }

    fn groups(&self, query: &FlowQuery<'_>) -> Vec<Entry<'static>> {
        let pages = self.pages.iter().map(|((flow, ..), page)| (*flow, page));
        let mut groups = self.folded.groups(query.by, pages, query.names);
        let alone =
            if self.sums.is_empty() { Vec::new() } else { self.flows(&FlowQuery { within: None, ..*query }) };
        for (entry, summed) in alone.iter().filter_map(|entry| Some((entry, entry.summed.as_ref()?))) {
            let of_journeys = entry.page.as_ref().map(|page| groups_of(page, query.by, query.names).collect());
            let is_alone = of_journeys.is_none();
            let of: Vec<_> = of_journeys.unwrap_or_else(|| vec![group_of_sums(summed, query.by)]);
            for (key, label) in of {
                let group = groups.entry(key).or_insert_with(|| Group { label, ..Group::default() });
                group.flows += u64::from(is_alone);
                group.summed.get_or_insert_default().add_flow(summed);
            }
        }
        let entry = |(id, group): (GroupId, Group)| {
            let mut page = group.page;
            page.proto = id.1;
            let (words, role) = (group.label.words(), id.0.role());
            Entry {
                flow: FlowId::NONE,
                sends: true,
                group: Some(FlowGroup { id, words, role, label: group.label, flows: group.flows }),
                page: (page.journeys > 0).then_some(Cow::Owned(page)),
                summed: group.summed.map(Cow::Owned),
            }
        };
        groups.into_iter().map(entry).collect()
    }

    fn entries(&self, query: &FlowQuery<'_>) -> Vec<Entry<'_>> {
        if query.by == GroupBy::Flow { self.flows(query) } else { self.groups(query) }
    }

    /// The rows in order, up to a maximum number; `selected` is an index into all of them.
    pub fn table(&self, query: &FlowQuery<'_>, most: usize, selected: usize) -> FlowTable {
        let mut all = self.entries(query);
        all.sort_by_cached_key(|entry| {
            let id = entry.group.as_ref().map(|group| group.id);
            (std::cmp::Reverse(entry.rank(query.order)), entry.flow, !entry.sends, id)
        });
        let selected = selected.min(all.len().saturating_sub(1));
        let first = (selected + 1).saturating_sub(most.max(1));
        let total = all.len();
        let rows = all.into_iter().enumerate().skip(first).take(most);
        let rows = rows.map(|(at, entry)| self.row(entry, at == selected)).collect();
        let of_groups = query.by != GroupBy::Flow;
        FlowTable {
            order: query.order,
            by: query.by,
            rows,
            total,
            first,
            left_out: if of_groups { self.folded.left_out(query.by) } else { self.pages.rest().journeys },
            summed: self.has_sums(),
            packets_left_out: self.sums.rest().packets,
        }
    }

    /// The row at a place.
    pub fn at(&self, query: &FlowQuery<'_>, at: usize) -> Option<FlowRow> {
        self.table(query, at + 1, at).rows.pop()
    }

    /// Number of rows.
    pub fn len(&self, query: &FlowQuery<'_>) -> usize {
        self.entries(query).len()
    }

    /// True if any flow has the kernel's sums.
    pub fn has_sums(&self) -> bool {
        !self.sums.is_empty()
    }

    /// True for more than one flow.
    pub fn has_several(&self) -> bool {
        let mut flows = self.pages.iter().map(|(((node, flow, _), ..), _)| (*node, *flow));
        let first = flows.next();
        flows.any(|flow| Some(flow) != first)
    }

    /// The flow that carried most journeys.
    pub fn busiest(&self) -> Option<FlowId> {
        let mut journeys: Map<(u16, FlowId), u64> = Map::default();
        for (((node, flow, _), ..), page) in self.pages.iter() {
            *journeys.entry((*node, *flow)).or_default() += page.journeys;
        }
        journeys.into_iter().max_by_key(|(flow, journeys)| (*journeys, *flow)).map(|((_, flow), _)| flow)
    }

    fn row(&self, entry: Entry<'_>, selected: bool) -> FlowRow {
        let summed = entry.summed.as_ref().map(|summed| summed.shown(self.summed_ns));
        let row = FlowRow { flow: entry.flow, group: entry.group, summed, selected, ..FlowRow::default() };
        let Some(page) = entry.page.map(Cow::into_owned) else {
            let sums = entry.summed.map(Cow::into_owned).unwrap_or_default();
            let proto = row.group.as_ref().map_or(sums.proto, |group| group.id.1);
            return FlowRow { proto, ends: sums.ends, route: sums.netns_name, ..row };
        };
        FlowRow {
            proto: page.proto,
            ends: page.ends.filter(|_| row.group.is_none()),
            journeys: page.journeys,
            bad: page.bad,
            broken: page.broken,
            resent: page.resent,
            bytes: page.bytes,
            times: page.times.percentiles(),
            blame: page.blame(),
            trend_max_ns: page.trend(self.newest_ns),
            route: page.route,
            processes: page.processes,
            ..row
        }
    }
}

#[cfg(test)]
mod tests;
