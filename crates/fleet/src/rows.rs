//! Row-level access control by a viewer's grants.
//!
//! Every row of every table passes [`Rows::admits`]. A row passes only if the certificate grants it for
//! certain: a row of an unknown process belongs to no granted container. Clock samples and losses describe the
//! measurement and belong to no process. Without them no row has a time, and losses would be invisible.

use crate::grants::Grants;
use crate::owners::{Owners, Used};
use magscope_core::change::HopCount;
use magscope_core::node::NodeInfo;
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::workload::Names;
use magscope_core::{Event, Flow, FlowId, Hop, PayloadHead, ProbeHit, Task, TcpSample};

/// A row of any table.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Row<'a> {
    Event(&'a Event),
    Flow(&'a Flow),
    Task(&'a Task),
    Tcp(&'a TcpSample),
    Hit(&'a ProbeHit),
    Head(&'a PayloadHead),
    Loss,
    Clock,
    Change,
    Count(&'a HopCount),
    Sum(&'a Synthesis),
}

/// Grants that a row needs.
struct Needs {
    at: RowPlace,
    whose: RowOwner,
    /// The row has payload bytes, or values that may be payload.
    payload: bool,
}

/// Origin of a row.
enum RowPlace {
    /// No hop.
    NoHop,
    /// This hop.
    Hop(Hop),
    /// Between these two.
    Hops(Hop, Hop),
    /// A custom probe, which is no hop.
    Probe,
}

/// Owner of a row.
enum RowOwner {
    /// A fact of the measurement.
    Nobody,
    /// A sum over all processes.
    Everybody,
    /// A thread's.
    Thread(u32),
    /// A cgroup's.
    Cgroup(u64),
    /// The user of this socket or flow.
    User(Used),
}

impl Row<'_> {
    fn needs(self) -> Needs {
        let user = |time_ns, tid, socket, flow| RowOwner::User(Used { time_ns, tid, socket, flow });
        let (at, whose, payload) = match self {
            Self::Event(event) => {
                let tid = if event.hop.knows_process() { event.tid } else { 0 };
                (RowPlace::Hop(event.hop), user(event.time_ns, tid, event.socket, event.flow), false)
            }
            // Announcements have no time of their own.
            Self::Flow(flow) => (RowPlace::NoHop, user(u64::MAX, 0, 0, flow.id), false),
            Self::Task(task) => (RowPlace::NoHop, RowOwner::Thread(task.tid), false),
            Self::Tcp(tcp) => (RowPlace::Hop(Hop::TcpState), user(tcp.time_ns, 0, tcp.socket, tcp.flow), false),
            // Its thread may be an interrupted one.
            Self::Hit(hit) => (RowPlace::Probe, user(hit.time_ns, 0, hit.socket, hit.flow), true),
            Self::Head(head) => (RowPlace::Hop(head.hop), user(head.time_ns, 0, 0, head.flow), true),
            Self::Loss | Self::Clock | Self::Change => (RowPlace::NoHop, RowOwner::Nobody, false),
            Self::Count(count) => (RowPlace::Hop(count.hop), RowOwner::Everybody, false),
            Self::Sum(sum) => {
                let whose = match sum.of {
                    Sum::Flow(flow) => user(sum.from_ns, 0, 0, flow),
                    Sum::Cgroup(id) => RowOwner::Cgroup(id),
                    Sum::Since(_) | Sum::Begun | Sum::Reason(_) | Sum::Rest => RowOwner::Everybody,
                };
                let at = if let Sum::Since(from) = sum.of {
                    RowPlace::Hops(from, sum.hop)
                } else {
                    RowPlace::Hop(sum.hop)
                };
                (at, whose, false)
            }
        };
        Needs { at, whose, payload }
    }
}

/// Filter for granted rows.
#[derive(Clone, Debug)]
pub struct Rows {
    grants: Grants,
}

impl Rows {
    /// A filter for these grants.
    pub fn new(grants: &Grants) -> Self {
        Rows { grants: grants.clone() }
    }

    /// True if the row is granted.
    pub fn admits(&self, row: Row<'_>, owners: &Owners, info: &NodeInfo) -> bool {
        let Needs { at, whose, payload } = row.needs();
        let hops = self.grants.hops.is_none_or(|hops| match at {
            RowPlace::NoHop => true,
            RowPlace::Hop(hop) => hops.contains(hop),
            RowPlace::Hops(from, to) => hops.contains(from) && hops.contains(to),
            RowPlace::Probe => false,
        });
        hops && !(payload && self.grants.no_payload) && self.is_of_granted(&whose, owners, info)
    }

    fn is_of_granted(&self, whose: &RowOwner, owners: &Owners, info: &NodeInfo) -> bool {
        if self.grants.containers.is_empty() {
            return true;
        }
        let cgroup = |id: u64| info.cgroup_path(id).is_some_and(|path| self.grants.grant_cgroup(path));
        let thread = |tid: u32| owners.task(tid).is_some_and(|task| cgroup(task.cgroup));
        match whose {
            RowOwner::Nobody => true,
            RowOwner::Everybody => false,
            RowOwner::Thread(tid) => thread(*tid),
            RowOwner::Cgroup(id) => cgroup(*id),
            RowOwner::User(used) => owners.owner(used).is_some_and(|owner| !owner.shared && thread(owner.tid)),
        }
    }

    /// Clears thread ids of foreign containers in an admitted hit.
    pub fn blank(&self, hit: &mut ProbeHit, owners: &Owners, info: &NodeInfo) {
        if !self.is_of_granted(&RowOwner::Thread(hit.tid), owners, info) {
            (hit.tgid, hit.tid) = (0, 0);
        }
    }

    /// A capture setting as this viewer may read it: filters and probes contain names of foreign processes,
    /// addresses and containers.
    pub fn setting(&self, text: &str) -> String {
        let word = text.split_whitespace().next().unwrap_or_default();
        if self.grants.containers.is_empty() || !matches!(word, "filter" | "probe") || text == "filter off" {
            text.to_owned()
        } else {
            format!("{word} withheld")
        }
    }

    /// Later names, restricted to the grants.
    pub fn names(&self, names: &mut Names) {
        if !self.grants.containers.is_empty() {
            names.cgroups.retain(|cgroup| self.grants.grant_cgroup(&cgroup.path));
            names.containers.retain(|container| self.grants.grant_cgroup(&container.cgroup));
            names.netns.clear();
            names.interfaces.clear();
        }
    }

    /// The host's description, restricted to the grants.
    pub fn host(&self, mut info: NodeInfo) -> NodeInfo {
        let Grants { no_payload, containers, hops } = &self.grants;
        if !containers.is_empty() {
            info.cgroups.retain(|cgroup| self.grants.grant_cgroup(&cgroup.path));
            info.containers.retain(|container| self.grants.grant_cgroup(&container.cgroup));
            info.netns.clear();
            for setting in &mut info.settings {
                *setting = self.setting(setting);
            }
        }
        if *no_payload || hops.is_some() {
            info.probes.clear();
        }
        info
    }
}

/// The flow of a row.
pub fn flow_of(row: Row<'_>) -> FlowId {
    match row.needs().whose {
        RowOwner::User(used) => used.flow,
        _ => FlowId::NONE,
    }
}
