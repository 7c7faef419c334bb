//! What a group is called, and the groups of each end of a journey.

use crate::as_text;
use crate::service::ServiceKey;
use magscope_core::context::Context;
use magscope_core::flow::{Endpoint, Flow, FlowId, Proto, Task};
use magscope_core::journey::{Journey, ThreadRef};
use serde::Serialize;
use std::fmt;

/// Grouping key of journeys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupBy {
    /// One direction of a connection, or of a pair of UDP sockets.
    #[default]
    Flow,
    /// A port, as receiver and as sender of its clients' journeys.
    Service,
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

impl GroupBy {
    /// All, in the order of menus.
    pub const ALL: [GroupBy; 8] = [
        Self::Flow,
        Self::Service,
        Self::Process,
        Self::Cgroup,
        Self::Container,
        Self::Pod,
        Self::Unit,
        Self::Node,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Service => "service",
            Self::Process => "process",
            Self::Cgroup => "cgroup",
            Self::Container => "container",
            Self::Pod => "pod",
            Self::Unit => "unit",
            Self::Node => "node",
        }
    }

    /// What a group is, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Flow => "One direction of a connection",
            Self::Service => "Ports that clients send to",
            Self::Process => "Sending and reading processes",
            Self::Cgroup => "Their cgroups",
            Self::Container => "Their containers",
            Self::Pod => "Their pods",
            Self::Unit => "Their units of systemd",
            Self::Node => "Network namespaces",
        }
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
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
    /// A service: the port that its clients send to.
    Service {
        /// The port; `None` for a protocol without ports.
        port: Option<u16>,
        /// True for journeys to the port, false for those from it.
        to_port: bool,
    },
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

/// Identity of a group. Its numbers are valid within one capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKey {
    /// A flow received and not sent here is another direction than the same id sending.
    Flow(u16, FlowId, Role),
    /// A service.
    Service(ServiceKey),
    /// A process, by its recording and its number.
    Process(u16, u32, Role),
    /// A cgroup, likewise.
    Cgroup(u16, u64, Role),
    /// A container, a pod, a unit or a network namespace, by the hash of its name.
    Named(u16, u64, Role),
    /// That end was not seen, or its owner is unknown.
    Unknown(Role),
}

impl GroupKey {
    /// The end of its journeys; `None` for flows and services, which have both.
    pub const fn role(self) -> Option<Role> {
        match self {
            Self::Flow(..) | Self::Service(_) => None,
            Self::Process(_, _, role)
            | Self::Cgroup(_, _, role)
            | Self::Named(_, _, role)
            | Self::Unknown(role) => Some(role),
        }
    }
}

/// One end of a journey.
#[derive(Clone, Copy, Debug)]
pub struct GroupEnd {
    /// The sender's or the reader's.
    pub role: Role,
    /// Index of its recording.
    pub node: u16,
    /// Its thread, if seen.
    pub who: Option<ThreadRef>,
    /// Its network namespace, if its flow is known.
    pub netns: Option<u32>,
}

impl GroupEnd {
    /// The ends of a journey: the sender's, the reader's.
    pub fn of(journey: &Journey, context: &dyn Context) -> [Self; 2] {
        [
            GroupEnd {
                role: Role::Sends,
                node: journey.tx_node,
                who: journey.sender,
                netns: context.tx_flow(journey).map(|flow| flow.netns),
            },
            GroupEnd {
                role: Role::Reads,
                node: journey.rx_node,
                who: journey.reader,
                netns: context.rx_flow(journey).map(|flow| flow.netns),
            },
        ]
    }

    pub(super) fn task<'c>(&self, context: &'c dyn Context) -> Option<&'c Task> {
        context.task(self.node, self.who?.tid)
    }

    fn place(&self, context: &dyn Context) -> Option<String> {
        self.netns.map(|netns| context.place(self.node, netns))
    }

    /// The container, pod or unit that it runs in, if such groups are wanted and it is known.
    fn named(&self, by: GroupBy, context: &dyn Context) -> Option<Label> {
        let member = || context.info(self.node)?.member(self.task(context), self.netns);
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
            GroupBy::Node => Label::Node { node: self.place(context)? },
            GroupBy::Flow | GroupBy::Service | GroupBy::Process | GroupBy::Cgroup => return None,
        })
    }

    /// Its group. Flows and services have both ends of a journey and none of one end.
    pub fn key(&self, by: GroupBy, context: &dyn Context) -> GroupKey {
        let (node, role) = (self.node, self.role);
        let key = match by {
            GroupBy::Flow | GroupBy::Service => None,
            // A network namespace's number may be that of several containers, one after the other.
            GroupBy::Container | GroupBy::Pod | GroupBy::Unit | GroupBy::Node => {
                self.named(by, context).map(|label| GroupKey::Named(node, hash(&label), role))
            }
            GroupBy::Process => {
                self.who.filter(|who| who.tgid != 0).map(|who| GroupKey::Process(node, who.tgid, role))
            }
            GroupBy::Cgroup => self.task(context).map(|task| GroupKey::Cgroup(node, task.cgroup, role)),
        };
        key.unwrap_or(GroupKey::Unknown(role))
    }

    /// What its group is called.
    pub fn label(&self, by: GroupBy, context: &dyn Context) -> Label {
        match self.key(by, context) {
            GroupKey::Process(_, pid, _) => Label::Process {
                pid,
                comm: self.task(context).map(|task| task.comm.clone()).unwrap_or_default(),
                other_names: false,
                node: self.place(context).unwrap_or_default(),
            },
            GroupKey::Cgroup(node, id, _) => {
                let path = context.info(node).and_then(|info| info.cgroup_path(id)).unwrap_or_default();
                Label::Cgroup { id, path: path.to_owned() }
            }
            GroupKey::Named(..) => self.named(by, context).unwrap_or_default(),
            GroupKey::Flow(..) | GroupKey::Service(_) | GroupKey::Unknown(_) => Label::Unknown,
        }
    }
}

fn hash(label: &Label) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    if let Label::Container { name } | Label::Pod { name } | Label::Unit { name } | Label::Node { node: name } =
        label
    {
        name.hash(&mut hasher);
    }
    hasher.finish()
}

impl Role {
    /// `sends` or `reads`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sends => "sends",
            Self::Reads => "reads",
        }
    }
}

impl Label {
    /// Its name in a table: `to :443`, `nginx@web`, `no container`.
    pub fn words(&self) -> String {
        match self {
            Self::Unknown => "not known".to_owned(),
            Self::Flow(ends) => ends.from.clone(),
            Self::Service { port: None, .. } => "without ports".to_owned(),
            Self::Service { port: Some(port), to_port } => {
                format!("{} :{port}", if *to_port { "to" } else { "from" })
            }
            Self::Process { comm, node, .. } => {
                let at = if node.is_empty() { String::new() } else { format!("@{node}") };
                format!("{}{at}", if comm.is_empty() { "?" } else { comm })
            }
            Self::Cgroup { id, path } if path.is_empty() => format!("cgroup {id}"),
            Self::Cgroup { path, .. } => {
                path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/").to_owned()
            }
            Self::Container { name } => or_none(name, "no container"),
            Self::Pod { name } => or_none(name, "no pod"),
            Self::Unit { name } => or_none(name, "no unit"),
            Self::Node { node } => node.clone(),
        }
    }
}

fn or_none(name: &str, none: &str) -> String {
    if name.is_empty() { none.to_owned() } else { name.to_owned() }
}

impl FlowEnds {
    pub(super) fn new(proto: Proto, tx: Option<&Flow>, rx: Option<&Flow>) -> Self {
        let (from, to) = match (tx, rx) {
            (Some(tx), _) => (tx.local.to_string(), tx.remote.to_string()),
            (None, Some(rx)) => (rx.remote.to_string(), rx.local.to_string()),
            (None, None) => Default::default(),
        };
        let id = tx.or(rx).map_or(FlowId::NONE, |flow| flow.id);
        FlowEnds { id, proto, from, to, ..FlowEnds::default() }
    }

    /// What identifies it, but for its number, which is a hash.
    pub(super) fn names(&self) -> (u8, &str, &str, &str, &str) {
        (self.proto.0, &self.from, &self.to, &self.from_node, &self.to_node)
    }

    /// Source and destination as the receiver has them, with an address translation: `arrives as
    /// 10.0.0.1:4000 → 172.17.0.2:80`.
    pub(crate) fn arrival(&self) -> Option<String> {
        self.arrives_as.map(|(from, to)| format!("arrives as {from} → {to}"))
    }

    /// Processes and where they run: `curl@client → nginx@server`.
    pub(crate) fn route(&self) -> String {
        let end = |node: &str, comm: &str| match (node.is_empty(), comm.is_empty()) {
            (true, true) => "?".to_owned(),
            (true, false) => comm.to_owned(),
            (false, true) => node.to_owned(),
            (false, false) => format!("{comm}@{node}"),
        };
        format!("{} → {}", end(&self.from_node, &self.sender), end(&self.to_node, &self.reader))
    }

    /// Fills in fields that were unknown before: what the ends are called, and a translation between them.
    pub(super) fn complete(&mut self, [tx, rx]: &[GroupEnd; 2], journey: &Journey, context: &dyn Context) {
        for (place, end) in [(&mut self.sender, tx), (&mut self.reader, rx)] {
            if place.is_empty()
                && let Some(task) = end.task(context)
            {
                place.clone_from(&task.comm);
            }
        }
        if self.arrives_as.is_none()
            && let (Some(tx), Some(rx)) = (context.tx_flow(journey), context.rx_flow(journey))
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
