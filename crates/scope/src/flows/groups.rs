//! Flows by service, process, container or node.
//!
//! A flow that is evicted from the table goes into its groups first: of ten thousand short connections a group has
//! all.

use super::OneDirection;
use super::page::Page;
use super::summed::Summed;
use crate::look::GroupId;
use crate::names::Names;
use magscope_core::Proto;
use magscope_core::hash::Map;
use magscope_report::stats::heaviest::{Heaviest, Weighed};
use magscope_report::{GroupBy, GroupKey, Label, Role, ServiceKey};
use std::collections::HashSet;

/// What flows can be grouped by.
pub const GROUPINGS: [GroupBy; 4] = [GroupBy::Service, GroupBy::Process, GroupBy::Container, GroupBy::Node];
/// Maximum number of groups of evicted flows, each grouping by itself.
const MOST: usize = 1024;

/// A group of flows.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub label: Label,
    /// Number of flows; an evicted flow that returned counts again.
    pub flows: u64,
    pub page: Page,
    pub summed: Option<Summed>,
}

impl Weighed for Group {
    fn weight(&self) -> u64 {
        self.page.weight()
    }

    fn merge(&mut self, other: &Self) {
        self.flows += other.flows;
        self.page.merge(&other.page);
    }
}

/// The groups of evicted flows.
#[derive(Clone, Debug)]
pub struct Folded([Heaviest<GroupId, Group>; GROUPINGS.len()]);

impl Default for Folded {
    fn default() -> Self {
        Folded(GROUPINGS.map(|_| Heaviest::new(MOST)))
    }
}

impl Folded {
    /// Adds a flow that is evicted.
    pub fn add(&mut self, page: &Page, names: &Names) {
        for (by, groups) in GROUPINGS.into_iter().zip(&mut self.0) {
            for (key, label) in groups_of(page, by, names) {
                let group = groups.entry(key);
                group.label = label;
                group.flows += 1;
                group.page.merge(page);
            }
        }
    }

    fn of(&self, by: GroupBy) -> Option<&Heaviest<GroupId, Group>> {
        GROUPINGS.iter().position(|other| *other == by).and_then(|at| self.0.get(at))
    }

    /// Journeys of groups that have no row, since there were too many groups.
    pub fn left_out(&self, by: GroupBy) -> u64 {
        self.of(by).map_or(0, |groups| groups.rest().page.journeys)
    }

    /// All groups: of evicted flows and of those in the table.
    pub fn groups<'f>(
        &self,
        by: GroupBy,
        pages: impl Iterator<Item = (OneDirection, &'f Page)>,
        names: &Names,
    ) -> Map<GroupId, Group> {
        let mut all: Map<GroupId, Group> = Map::default();
        for (key, group) in self.of(by).into_iter().flat_map(Heaviest::iter) {
            all.insert(*key, group.clone());
        }
        let mut counted: HashSet<(GroupId, OneDirection)> = HashSet::new();
        for (flow, page) in pages {
            for (key, label) in groups_of(page, by, names) {
                let group = all.entry(key).or_default();
                if group.label == Label::Unknown {
                    group.label = label;
                }
                group.flows += u64::from(counted.insert((key, flow)));
                group.page.merge(page);
            }
        }
        all
    }
}

/// The groups of a flow: one by service, else the sender's and the reader's.
pub fn groups_of<'n>(
    page: &'n Page,
    by: GroupBy,
    names: &'n Names,
) -> impl Iterator<Item = (GroupId, Label)> + 'n {
    let (ends, service) = match &page.owners {
        Some((ends, service)) => (Some(ends), Some(*service)),
        None => (None, None),
    };
    let service = service.filter(|_| by == GroupBy::Service).map(|of| service_group(of, page.proto));
    let ends = ends.filter(|_| by != GroupBy::Service).into_iter().flatten();
    service.into_iter().chain(ends.map(move |end| ((end.key(by, names), page.proto), end.label(by, names))))
}

fn service_group(of: ServiceKey, proto: Proto) -> (GroupId, Label) {
    ((GroupKey::Service(of), proto), Label::Service { port: of.port, to_port: of.to_port })
}

/// The group of a flow with the kernel's sums alone: of its processes nothing is known.
pub fn group_of_sums(summed: &Summed, by: GroupBy) -> (GroupId, Label) {
    let of_ports = |(from, to): (magscope_core::Endpoint, magscope_core::Endpoint)| {
        ServiceKey::of_ports(summed.proto, Some((from.port(), to.port())))
    };
    match summed.ends.filter(|_| by == GroupBy::Service).map(of_ports) {
        Some(service) => service_group(service, summed.proto),
        None => ((GroupKey::Unknown(Role::Sends), summed.proto), Label::Unknown),
    }
}
