//! Row-level access control by a viewer's grants.
//!
//! Every row of every table passes [`Rows::admits`]. A row passes only if the certificate grants it for
//! certain: a row of an unknown process belongs to no granted container. Clock samples and losses describe the
//! measurement and belong to no process. Without them no row has a time, and losses would be invisible.

use crate::grants::Grants;
use crate::owners::{Owners, Used};
use magscope_core::change::HopCount;
use magscope_core::node::{NodeInfo, Service};
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::workload::Names;
use magscope_core::{Event, Flow, FlowId, Hop, PayloadHead, ProbeHit, Task, TcpSample};

/// Reason of a hop without service for this viewer.
const NOT_GRANTED: &str = "not granted to this viewer";

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
        let is_foreign =
            matches!(word, "filter" | "pcap" | "probe") && !matches!(text, "filter off" | "pcap off");
        if self.grants.containers.is_empty() || !is_foreign {
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

    /// The host's description, restricted to the grants. Hops that are not granted are missing: otherwise every
    /// packet without their events would count as lost there.
    pub fn host(&self, mut info: NodeInfo) -> NodeInfo {
        let Grants { no_payload, containers, hops } = &self.grants;
        if !containers.is_empty() {
            info.cgroups.retain(|cgroup| self.grants.grant_cgroup(&cgroup.path));
            info.containers.retain(|container| self.grants.grant_cgroup(&container.cgroup));
            info.netns.clear();
            info.interfaces.clear();
            info.programs.clear();
            info.chains.clear();
            info.lists_deciders = false;
            info.not_followed.clear();
            for setting in &mut info.settings {
                *setting = self.setting(setting);
            }
        }
        if *no_payload || hops.is_some() {
            info.probes.clear();
        }
        if let Some(hops) = hops {
            for row in info.coverage.hops.iter_mut().filter(|row| !hops.contains(row.hop)) {
                row.service = Service::Missing { because: NOT_GRANTED.to_owned() };
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::HopSet;
    use magscope_core::deciders::{AttachedProgram, FilterChain, FilterFamily, FilterHook, ProgramKind};
    use magscope_core::node::{Backend, Coverage, InterfaceName, UnfollowedSockets};

    fn rows(limits: &str) -> Rows {
        let grants: Grants = format!("magnet-scope:viewer?{limits}").parse().expect("limits");
        Rows::new(&grants)
    }

    /// A host with every fact that may be another's.
    fn host() -> NodeInfo {
        let interface = InterfaceName { netns: 1, index: 2, name: "eth0".to_owned(), kind: String::new() };
        let chain = FilterChain {
            netns: 1,
            family: FilterFamily::Inet,
            table: "filter".to_owned(),
            chain: "input".to_owned(),
            hook: FilterHook::Input,
            policy: true,
            rule: None,
            others: false,
        };
        NodeInfo {
            interfaces: vec![interface],
            settings: vec!["pcap tcp port 443".to_owned()],
            programs: vec![AttachedProgram::of(ProgramKind::Xdp, 7)],
            chains: vec![chain],
            lists_deciders: true,
            not_followed: vec![UnfollowedSockets { netns: 1, kind: "packet".to_owned(), sockets: 3 }],
            coverage: Coverage::full(Backend::Generator),
            ..NodeInfo::default()
        }
    }

    #[test]
    fn hops_that_are_not_granted_are_missing() {
        let limited = rows("hops=dev.xmit,dev.recv").host(host());
        let granted: HopSet = [Hop::DevXmit, Hop::DevRecv].into_iter().collect();
        assert_eq!(limited.coverage.served(), granted);
        let missing = Service::Missing { because: NOT_GRANTED.to_owned() };
        assert_eq!(limited.coverage.of(Hop::IpOut), Some(&missing));
        assert_eq!(rows("no-payload").host(host()), host(), "all hops are granted");
    }

    #[test]
    fn a_viewer_of_some_containers_reads_no_facts_of_others() {
        let limited = rows("containers=4fa2").host(host());
        let expected = NodeInfo {
            settings: vec!["pcap withheld".to_owned()],
            coverage: host().coverage,
            ..NodeInfo::default()
        };
        assert_eq!(limited, expected);
    }

    #[test]
    fn settings_with_foreign_names_are_withheld() {
        let limited = rows("containers=4fa2");
        for (text, shown) in [
            ("filter comm = other", "filter withheld"),
            ("pcap host 10.0.0.1", "pcap withheld"),
            ("probe on refill", "probe withheld"),
            ("filter off", "filter off"),
            ("pcap off", "pcap off"),
            ("sample flows 1/16", "sample flows 1/16"),
        ] {
            assert_eq!(limited.setting(text), shown);
            assert_eq!(rows("no-payload").setting(text), text);
        }
    }
}
