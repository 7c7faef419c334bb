//! Journeys by flow, service, process, cgroup, container, pod, unit or node: data sent and read, times, and blame.

mod label;
mod text;

pub use label::{FlowEnds, GroupBy, GroupEnd, GroupKey, Label, Role};
pub(super) use text::write;

use super::{LeftOut, as_text_of};
use crate::service::ServiceKey;
use crate::stats::heaviest::{Heaviest, Ranking, Weighed};
use crate::stats::{Bucket, HopPairStats, Quantiles, per_second};
use magscope_core::blame::{Blame, Part};
use magscope_core::context::Context;
use magscope_core::flow::{FlowId, Proto};
use magscope_core::journey::{Journey, Verdict};
use serde::Serialize;
use std::cmp::Ordering;

/// Maximum number of distinct groups, the heaviest by bytes; each has a distribution of up to 31 kB.
const MOST: usize = 2048;

/// The journeys of a capture in groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupTable {
    /// Grouping key.
    pub by: GroupBy,
    /// The groups with the most bytes, each of one protocol. Except for flows and services, each journey is in two of them: the
    /// sender's and the reader's.
    pub rows: Vec<GroupRow>,
    /// Number of groups outside the rows; an evicted group that returned counts each time.
    pub others: u64,
    /// Sum of all of those. Without times if they are of several protocols.
    pub rest: Figures,
    /// Maximum number of remembered groups, if there were more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<u64>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupRow {
    /// The label.
    #[serde(flatten)]
    pub label: Label,
    /// The protocol of its journeys; `None` if the label has it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text_of")]
    pub proto: Option<Proto>,
    /// The end of its journeys; `None` for flows and services, which have both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Figures of its journeys.
    #[serde(flatten)]
    pub figures: Figures,
    /// True if it was first seen after evictions and may be an evicted group: part of it may be in the rest.
    pub may_be_more: bool,
}

/// Figures of a group's journeys.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Payload bytes.
    pub bytes: u64,
    /// Bytes per second over the complete capture; with sampled flows, estimated for all flows. `None` with
    /// sampled events: the visible share of a journey is then unknown.
    pub bytes_per_s: Option<f64>,
    /// True if that is an estimate. All other figures cover recorded journeys only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Journeys in all.
    pub journeys: u64,
    /// Journeys with a seen end: the basis of the times.
    pub whole: u64,
    /// The reasons why the others are not, each with a number.
    pub left_out: Vec<LeftOut>,
    /// Retransmitted journeys, each counted once.
    pub resent: u64,
    /// Sum of their retransmissions.
    pub retransmits: u64,
    /// First hop to last of those with a seen end.
    pub total: Option<Quantiles>,
    /// The shape of its distribution, nanoseconds.
    pub histogram: Vec<Bucket>,
    /// The parts of their time, the largest share first.
    pub blame: Vec<Share>,
}

/// The share of one part in the time of a group's journeys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The part.
    pub part: Part,
    /// Its share, 0 to 1.
    pub share: f64,
}

/// The group of one protocol.
pub(super) type ProtoKey = (GroupKey, Proto);

/// Sums of the journeys of one group, or of several.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub label: Label,
    proto: Option<Proto>,
    /// The groups are of several protocols, so times would be of none.
    is_mixed: bool,
    bytes: u64,
    kinds: [u64; Verdict::KINDS],
    resent: u64,
    retransmits: u64,
    total: Option<Box<HopPairStats>>,
    parts_ns: [u64; Part::COUNT],
}

impl Weighed for Sum {
    fn weight(&self) -> u64 {
        self.bytes
    }

    fn merge(&mut self, other: &Self) {
        self.is_mixed |= other.is_mixed || self.proto.is_some_and(|proto| other.proto != Some(proto));
        self.proto = other.proto;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.resent += other.resent;
        self.retransmits += other.retransmits;
        self.kinds.iter_mut().zip(other.kinds).for_each(|(mine, theirs)| *mine += theirs);
        self.parts_ns
            .iter_mut()
            .zip(other.parts_ns)
            .for_each(|(mine, theirs)| *mine = mine.saturating_add(theirs));
        if let Some(theirs) = &other.total {
            self.total.get_or_insert_default().merge(theirs);
        }
        if self.label == Label::Unknown {
            self.label = other.label.clone();
        }
    }

    fn by_name(&self, other: &Self) -> Ordering {
        match (&self.label, &other.label) {
            (Label::Flow(mine), Label::Flow(theirs)) => mine.names().cmp(&theirs.names()),
            (Label::Node { node: mine }, Label::Node { node: theirs })
            | (Label::Container { name: mine }, Label::Container { name: theirs })
            | (Label::Pod { name: mine }, Label::Pod { name: theirs })
            | (Label::Unit { name: mine }, Label::Unit { name: theirs }) => mine.cmp(theirs),
            (
                Label::Service { port: mine, to_port: mine_to },
                Label::Service { port: theirs, to_port: theirs_to },
            ) => (mine, theirs_to).cmp(&(theirs, mine_to)),
            _ => Ordering::Equal,
        }
    }
}

impl Sum {
    fn count(&mut self, journey: &Journey, blame: Option<&Blame>) {
        self.proto = Some(journey.proto);
        self.bytes = self.bytes.saturating_add(journey.bytes());
        self.kinds[journey.verdict.kind()] += 1;
        self.resent += u64::from(journey.retransmits() > 0);
        self.retransmits += u64::from(journey.retransmits());
        if journey.verdict.is_whole()
            && let Some(ns) = journey.total_ns()
        {
            self.total.get_or_insert_default().record(ns);
        }
        for (part, ns) in blame.iter().flat_map(|blame| blame.parts()) {
            let sum = &mut self.parts_ns[part as usize];
            *sum = sum.saturating_add(ns);
        }
    }

    pub fn figures(&self, duration_ns: u64, weight: Option<f64>) -> Figures {
        let all_ns: u64 = self.parts_ns.iter().fold(0, |sum, ns| sum.saturating_add(*ns));
        let share =
            |part: Part| Share { part, share: self.parts_ns[part as usize] as f64 / all_ns.max(1) as f64 };
        let mut blame: Vec<Share> =
            Part::ALL.into_iter().map(share).filter(|share| share.share > 0.0).collect();
        blame.sort_by(|a, b| b.share.total_cmp(&a.share));
        // A sampler of flows keeps all of a protocol without ports.
        let is_unsampled = self.proto.is_some_and(|proto| !proto.has_ports()) && !self.is_mixed;
        let weight = weight.map(|weight| if is_unsampled { 1.0 } else { weight });
        let total = self.total.as_ref().filter(|_| !self.is_mixed);
        blame.retain(|_| !self.is_mixed);
        Figures {
            bytes: self.bytes,
            bytes_per_s: weight.map(|weight| per_second(self.bytes, duration_ns) * weight),
            estimated: weight.is_some_and(|weight| weight > 1.0),
            journeys: self.kinds.iter().sum(),
            whole: Verdict::whole_of(&self.kinds),
            left_out: LeftOut::of(&self.kinds),
            resent: self.resent,
            retransmits: self.retransmits,
            total: total.and_then(|total| total.quantiles()),
            histogram: total.map(|total| total.buckets()).unwrap_or_default(),
            blame,
        }
    }
}

/// Adds journeys up in groups. Memory is bounded.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    by: GroupBy,
    sums: Heaviest<ProtoKey, Sum>,
}

impl Groups {
    pub fn new(by: GroupBy) -> Self {
        Groups { by, sums: Heaviest::new(MOST) }
    }

    /// Counts a journey; the context resolves its flows and processes.
    pub fn count(&mut self, journey: &Journey, blame: Option<&Blame>, context: &dyn Context) {
        let ends = GroupEnd::of(journey, context);
        match self.by {
            GroupBy::Flow => self.count_flow(journey, blame, &ends, context),
            GroupBy::Service => self.count_service(journey, blame, context),
            _ => ends.iter().for_each(|end| self.count_end(journey, blame, end, context)),
        }
    }

    fn count_flow(
        &mut self,
        journey: &Journey,
        blame: Option<&Blame>,
        ends: &[GroupEnd; 2],
        context: &dyn Context,
    ) {
        let (tx, rx) = (context.tx_flow(journey), context.rx_flow(journey));
        let named = if tx.is_some() { &ends[0] } else { &ends[1] };
        let id = tx.or(rx).map_or(FlowId::NONE, |flow| flow.id);
        let sum = self.sums.entry((GroupKey::Flow(named.node, id, named.role), journey.proto));
        sum.count(journey, blame);
        if sum.label == Label::Unknown {
            sum.label = Label::Flow(Box::new(FlowEnds::new(journey.proto, tx, rx)));
        }
        if let Label::Flow(label) = &mut sum.label {
            label.complete(ends, journey, context);
        }
    }

    fn count_service(&mut self, journey: &Journey, blame: Option<&Blame>, context: &dyn Context) {
        let of = ServiceKey::of(journey, context);
        let sum = self.sums.entry((GroupKey::Service(of), journey.proto));
        sum.count(journey, blame);
        sum.label = Label::Service { port: of.port, to_port: of.to_port };
    }

    fn count_end(&mut self, journey: &Journey, blame: Option<&Blame>, end: &GroupEnd, context: &dyn Context) {
        let sum = self.sums.entry((end.key(self.by, context), journey.proto));
        sum.count(journey, blame);
        if sum.label == Label::Unknown {
            sum.label = end.label(self.by, context);
        } else if let (Label::Process { comm, other_names, .. }, Some(task)) =
            (&mut sum.label, end.task(context))
        {
            if comm.is_empty() {
                comm.clone_from(&task.comm);
            }
            *other_names |= *comm != task.comm;
        }
    }

    pub fn ranking(self, top: usize) -> Ranking<ProtoKey, Sum> {
        self.sums.ranking(top)
    }
}

/// The table of the counts.
pub(super) fn table(
    by: GroupBy,
    ranking: &Ranking<ProtoKey, Sum>,
    duration_ns: u64,
    weight: Option<f64>,
) -> GroupTable {
    let row = |row: &crate::stats::heaviest::Row<ProtoKey, Sum>| GroupRow {
        label: row.value.label.clone(),
        proto: if matches!(row.value.label, Label::Flow(_)) { None } else { Some(row.key.1) },
        role: row.key.0.role(),
        figures: row.value.figures(duration_ns, weight),
        may_be_more: row.may_be_more,
    };
    let rows = ranking.rows.iter().map(row).collect();
    let rest = ranking.rest.figures(duration_ns, weight);
    GroupTable { by, rows, others: ranking.others, rest, bound: ranking.bound }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_more_groups_than_are_remembered_say_so() {
        let text = |by, groups: usize| {
            let mut all = Groups::new(by);
            for number in 0..groups as u64 {
                let key = GroupKey::Flow(0, FlowId(number + 1), Role::Sends);
                all.sums.entry((key, Proto::TCP)).bytes = number;
            }
            let table = table(by, &all.ranking(20), 1_000, None);
            let mut text = String::new();
            write(&mut text, &table, 80).expect("a String takes all");
            (table.bound, text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        for by in GroupBy::ALL {
            let (bound, words) = text(by, MOST);
            assert!(bound.is_none() && !words.contains("remembered"), "{by}: {words}");
            let (bound, words) = text(by, MOST + 1);
            assert_eq!(bound, Some(MOST as u64), "{by}");
            assert!(
                words.contains("20 are shown of at most 2 048 groups that are remembered"),
                "{by}: {words}"
            );
        }
    }
}
