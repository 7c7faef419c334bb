//! Journeys by flow, process, cgroup, container, pod, unit or node: data sent and read, times, and blame.

mod text;

pub(super) use text::write;

use super::{LeftOut, as_text, as_text_of};
use crate::stats::heaviest::{Heaviest, Ranking, Weighed};
use crate::stats::{Bucket, HopPairStats, Quantiles, per_second};
use magscope_core::blame::{Blame, Part};
use magscope_core::context::Context;
use magscope_core::flow::{Endpoint, Flow, FlowId, Proto, Task};
use magscope_core::journey::{Journey, ThreadRef, Verdict};
use serde::Serialize;
use std::cmp::Ordering;
use std::fmt;

/// Maximum number of distinct groups, the heaviest by bytes; each has a distribution of up to 31 kB.
const MOST: usize = 2048;

/// Grouping key of journeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupBy {
    /// One direction of a connection, or of a pair of UDP sockets.
    Flow,
    /// A process, as sender and as reader.
    Process,
    /// A cgroup, as sender and as reader.
    Cgroup,
    /// A container, as sender and as reader.
    Container,
    /// A pod, as sender and as reader.
    Pod,
    /// A unit of systemd, as sender and as reader.
    Unit,
    /// A network namespace, as sender and as reader.
    Node,
}

/// The role of one end of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The sender.
    Sends,
    /// The reader, or intended reader.
    Reads,
}

/// The journeys of a capture in groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupTable {
    /// Grouping key.
    pub by: GroupBy,
    /// The groups with the most bytes, each of one protocol. Except for flows, each journey is in two of them: the
    /// sender's and the reader's.
    pub rows: Vec<GroupRow>,
    /// Number of groups outside the rows; an evicted group that returned counts each time.
    pub others: u64,
    /// Sum of all of those. Without times if they are of several protocols.
    pub rest: Figures,
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
    /// The end of its journeys; `None` for flows, which have both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Figures of its journeys.
    #[serde(flatten)]
    pub figures: Figures,
    /// True if it was first seen after evictions and may be an evicted group: part of it may be in the rest.
    pub may_be_more: bool,
}

/// The group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "group", rename_all = "kebab-case")]
pub enum Label {
    /// That end of the journeys was not seen, or its owner is unknown.
    #[default]
    Unknown,
    /// A flow.
    Flow(Box<FlowEnds>),
    /// A process.
    Process {
        /// Its number.
        pid: u32,
        /// Command name of the first thread seen, empty if unknown.
        comm: String,
        /// True if other threads of it have other names.
        other_names: bool,
        /// The network namespace of its first journey.
        node: String,
    },
    /// A cgroup.
    Cgroup {
        /// Number of its directory.
        id: u64,
        /// Path below the root of the hierarchy, empty if unknown.
        path: String,
    },
    /// A container; its name is empty for ends in none.
    Container {
        /// Its name, behind that of its host if there are several.
        name: String,
    },
    /// A pod; its name is empty for ends in none.
    Pod {
        /// `shop/web-7f9c`, likewise.
        name: String,
    },
    /// A unit of systemd; its name is empty for ends in none.
    Unit {
        /// `nginx.service`, likewise.
        name: String,
    },
    /// A network namespace.
    Node {
        /// Its name.
        node: String,
    },
}

/// The two ends of a flow, from the sender's side; empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowEnds {
    /// The sender's flow id, or the receiver's if the sender was not seen.
    #[serde(serialize_with = "as_text")]
    pub id: FlowId,
    /// TCP or UDP.
    #[serde(serialize_with = "as_text")]
    pub proto: Proto,
    /// Sender's address and port.
    pub from: String,
    /// Receiver's address and port.
    pub to: String,
    /// Network namespace of the sender.
    pub from_node: String,
    /// Network namespace of the receiver.
    pub to_node: String,
    /// Command name of the sending process.
    pub sender: String,
    /// Command name of the reading process.
    pub reader: String,
    /// Source and destination as the receiver has them, if an address translation is between the ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrives_as: Option<(Endpoint, Endpoint)>,
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

/// Numbers are valid within one recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// A flow received and not sent here is another direction than the same id sending.
    Flow(u16, FlowId, Role),
    Process(u16, u32, Role),
    Cgroup(u16, u64, Role),
    Node(u16, u32, Role),
    /// A container, a pod or a unit, by the hash of its name.
    Named(u16, u64, Role),
    Unknown(Role),
}

/// The group of one protocol.
pub(super) type ProtoKey = (Key, Proto);

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
        let ends = [
            End {
                role: Role::Sends,
                node: journey.tx_node,
                who: journey.sender,
                flow: context.tx_flow(journey),
            },
            End {
                role: Role::Reads,
                node: journey.rx_node,
                who: journey.reader,
                flow: context.rx_flow(journey),
            },
        ];
        if self.by != GroupBy::Flow {
            for end in &ends {
                self.count_end(journey, blame, end, context);
            }
            return;
        }
        let named = if ends[0].flow.is_some() { &ends[0] } else { &ends[1] };
        let id = named.flow.map_or(FlowId::NONE, |flow| flow.id);
        let sum = self.sums.entry((Key::Flow(named.node, id, named.role), journey.proto));
        sum.count(journey, blame);
        if sum.label == Label::Unknown {
            sum.label = Label::Flow(Box::new(FlowEnds::new(journey.proto, ends[0].flow, ends[1].flow)));
        }
        if let Label::Flow(label) = &mut sum.label {
            label.complete(&ends, context);
        }
    }

    fn count_end(&mut self, journey: &Journey, blame: Option<&Blame>, end: &End<'_>, context: &dyn Context) {
        let task = end.task(context);
        let named = end.named(self.by, task, context);
        let key = match &named {
            Some(label) => Some(Key::Named(end.node, hash(label), end.role)),
            None => end.key(self.by, task),
        };
        let key = key.unwrap_or(Key::Unknown(end.role));
        let sum = self.sums.entry((key, journey.proto));
        sum.count(journey, blame);
        if sum.label == Label::Unknown {
            sum.label = named.unwrap_or_else(|| end.label(key, task, context));
        } else if let (Label::Process { comm, other_names, .. }, Some(task)) = (&mut sum.label, task) {
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

/// One end of a journey.
struct End<'a> {
    role: Role,
    node: u16,
    who: Option<ThreadRef>,
    flow: Option<&'a Flow>,
}

impl End<'_> {
    fn task<'c>(&self, context: &'c dyn Context) -> Option<&'c Task> {
        context.task(self.node, self.who?.tid)
    }

    fn place(&self, context: &dyn Context) -> Option<String> {
        self.flow.map(|flow| context.place(self.node, flow.netns))
    }

    /// The container, pod or unit that it runs in, if such groups are wanted and it is known.
    fn named(&self, by: GroupBy, task: Option<&Task>, context: &dyn Context) -> Option<Label> {
        let member = || context.info(self.node)?.member(task, self.flow.map(|flow| flow.netns));
        let host =
            if context.nodes() > 1 { context.info(self.node).map(|info| info.host.as_str()) } else { None };
        let on_host = |name: &str| match host {
            Some(host) if !name.is_empty() => format!("{host}/{name}"),
            _ => name.to_owned(),
        };
        Some(match by {
            GroupBy::Container => {
                Label::Container { name: on_host(member()?.container_name().unwrap_or_default()) }
            }
            GroupBy::Pod => Label::Pod { name: on_host(&member()?.pod().unwrap_or_default()) },
            GroupBy::Unit => Label::Unit { name: on_host(member()?.unit.unwrap_or_default()) },
            GroupBy::Flow | GroupBy::Process | GroupBy::Cgroup | GroupBy::Node => return None,
        })
    }

    /// Its group, if known.
    fn key(&self, by: GroupBy, task: Option<&Task>) -> Option<Key> {
        let (node, role) = (self.node, self.role);
        match by {
            GroupBy::Flow | GroupBy::Container | GroupBy::Pod | GroupBy::Unit => None,
            GroupBy::Process => {
                self.who.filter(|who| who.tgid != 0).map(|who| Key::Process(node, who.tgid, role))
            }
            GroupBy::Cgroup => task.map(|task| Key::Cgroup(node, task.cgroup, role)),
            GroupBy::Node => self.flow.map(|flow| Key::Node(node, flow.netns, role)),
        }
    }

    fn label(&self, key: Key, task: Option<&Task>, context: &dyn Context) -> Label {
        match key {
            Key::Process(_, pid, _) => Label::Process {
                pid,
                comm: task.map(|task| task.comm.clone()).unwrap_or_default(),
                other_names: false,
                node: self.place(context).unwrap_or_default(),
            },
            Key::Cgroup(node, id, _) => {
                let path = context.info(node).and_then(|info| info.cgroup_path(id)).unwrap_or_default();
                Label::Cgroup { id, path: path.to_owned() }
            }
            Key::Node(..) => Label::Node { node: self.place(context).unwrap_or_default() },
            Key::Flow(..) | Key::Named(..) | Key::Unknown(_) => Label::Unknown,
        }
    }
}

impl FlowEnds {
    fn new(proto: Proto, tx: Option<&Flow>, rx: Option<&Flow>) -> Self {
        let (from, to) = match (tx, rx) {
            (Some(tx), _) => (tx.local.to_string(), tx.remote.to_string()),
            (None, Some(rx)) => (rx.remote.to_string(), rx.local.to_string()),
            (None, None) => Default::default(),
        };
        let id = tx.or(rx).map_or(FlowId::NONE, |flow| flow.id);
        FlowEnds { id, proto, from, to, ..FlowEnds::default() }
    }

    /// What identifies it, but for its number, which is a hash.
    fn names(&self) -> (u8, &str, &str, &str, &str) {
        (self.proto.0, &self.from, &self.to, &self.from_node, &self.to_node)
    }

    /// Source and destination as the receiver has them, with an address translation: `arrives as
    /// 10.0.0.1:4000 → 172.17.0.2:80`.
    pub(super) fn arrival(&self) -> Option<String> {
        self.arrives_as.map(|(from, to)| format!("arrives as {from} → {to}"))
    }

    /// Processes and where they run: `curl@client → nginx@server`.
    pub(super) fn route(&self) -> String {
        let end = |node: &str, comm: &str| match (node.is_empty(), comm.is_empty()) {
            (true, true) => "?".to_owned(),
            (true, false) => comm.to_owned(),
            (false, true) => node.to_owned(),
            (false, false) => format!("{comm}@{node}"),
        };
        format!("{} → {}", end(&self.from_node, &self.sender), end(&self.to_node, &self.reader))
    }

    /// Fills in fields that were unknown before.
    fn complete(&mut self, [tx, rx]: &[End<'_>; 2], context: &dyn Context) {
        for (place, end) in [(&mut self.sender, tx), (&mut self.reader, rx)] {
            if place.is_empty()
                && let Some(task) = end.task(context)
            {
                place.clone_from(&task.comm);
            }
        }
        if self.arrives_as.is_none()
            && let (Some(tx), Some(rx)) = (tx.flow, rx.flow)
        {
            self.arrives_as = tx.translated_to(rx);
        }
        for (place, end) in [(&mut self.from_node, tx), (&mut self.to_node, rx)] {
            if place.is_empty()
                && let Some(name) = end.place(context)
            {
                *place = name;
            }
        }
    }
}

/// The hash of a name.
fn hash(label: &Label) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    if let Label::Container { name } | Label::Pod { name } | Label::Unit { name } = label {
        name.hash(&mut hasher);
    }
    hasher.finish()
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
        role: match row.key.0 {
            Key::Flow(..) => None,
            Key::Process(_, _, role)
            | Key::Cgroup(_, _, role)
            | Key::Named(_, _, role)
            | Key::Node(_, _, role)
            | Key::Unknown(role) => Some(role),
        },
        figures: row.value.figures(duration_ns, weight),
        may_be_more: row.may_be_more,
    };
    let rows = ranking.rows.iter().map(row).collect();
    GroupTable { by, rows, others: ranking.others, rest: ranking.rest.figures(duration_ns, weight) }
}

impl GroupBy {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Process => "process",
            Self::Cgroup => "cgroup",
            Self::Container => "container",
            Self::Pod => "pod",
            Self::Unit => "unit",
            Self::Node => "node",
        }
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
