//! The description of a source's node.

use crate::custom::CustomProbe;
use crate::deciders::{AttachedProgram, FilterChain};
use crate::hop::{Hop, HopSet};
use crate::journey::Across;
use crate::workload::Container;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of probe that serves a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// A raw tracepoint with typed arguments (`tp_btf`).
    TpBtf,
    /// A trampoline at a function's entry.
    Fentry,
    /// A trampoline at a function's return.
    Fexit,
    /// A netfilter link, one per network namespace and family.
    Netfilter,
    /// A program at a cgroup's socket ingress.
    CgroupSkb,
    /// A classic tracepoint.
    Tracepoint,
    /// Many functions in one attachment.
    KprobeMulti,
    /// A breakpoint at a function.
    Kprobe,
    /// Events of a generator, not of a kernel.
    Generator,
}

impl Backend {
    /// Name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TpBtf => "tp-btf",
            Self::Fentry => "fentry",
            Self::Fexit => "fexit",
            Self::Netfilter => "netfilter",
            Self::CgroupSkb => "cgroup-skb",
            Self::Tracepoint => "tracepoint",
            Self::KprobeMulti => "kprobe-multi",
            Self::Kprobe => "kprobe",
            Self::Generator => "generator",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The service of one hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Service {
    /// Served: by this backend, at this point of the kernel (`net_dev_start_xmit`), with notes for the reader.
    Served {
        /// Kind of probe.
        backend: Backend,
        /// Name of the tracepoint, function or hook.
        #[serde(deserialize_with = "crate::foreign::text")]
        point: String,
        /// A limitation, empty without one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        #[serde(deserialize_with = "crate::foreign::text")]
        note: String,
    },
    /// Available but not requested.
    Off,
    /// No backend works here.
    Missing {
        /// The reason, in words.
        #[serde(deserialize_with = "crate::foreign::text")]
        because: String,
    },
}

/// The table of hops and their services: the basis of all conclusions from a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// One row per hop, in the order of [`Hop::ALL`].
    pub hops: Vec<HopService>,
    /// Abilities that the capture lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// Abilities of a capture in addition to events at hops. Each is present or absent independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ability {
    /// First bytes of payload.
    Payload,
    /// Bytes of packets in pages behind the linear part.
    PayloadPages,
    /// The capture filter.
    Filter,
    /// Filter expressions of libpcap.
    Pcap,
    /// Sampling by flow and by hop.
    Sampling,
    /// Sums of the kernel in place of records.
    Sums,
    /// User-defined probes.
    CustomProbes,
    /// The kernel's reasons for dropping packets.
    DropReasons,
    /// Threads that an epoll wakes, attributed to the socket.
    EpollWakeUps,
    /// Times read directly from the TSC.
    Tsc,
}

impl Ability {
    /// All abilities.
    pub const ALL: [Self; 10] = [
        Self::Payload,
        Self::PayloadPages,
        Self::Filter,
        Self::Pcap,
        Self::Sampling,
        Self::Sums,
        Self::CustomProbes,
        Self::DropReasons,
        Self::EpollWakeUps,
        Self::Tsc,
    ];

    /// Name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::PayloadPages => "payload-pages",
            Self::Filter => "filter",
            Self::Pcap => "pcap",
            Self::Sampling => "sampling",
            Self::Sums => "sums",
            Self::CustomProbes => "custom-probes",
            Self::DropReasons => "drop-reasons",
            Self::EpollWakeUps => "epoll-wake-ups",
            Self::Tsc => "tsc",
        }
    }

    /// The effect of its absence.
    pub const fn consequence(self) -> &'static str {
        match self {
            Self::Payload => "`--snap` is refused",
            Self::PayloadPages => "bytes behind the linear part of a packet are unknown",
            Self::Filter => "`--filter` is refused",
            Self::Pcap => "`--pcap` is refused",
            Self::Sampling => "`--sample` is refused, and a budget skips the steps that sample",
            Self::Sums => "`--detail histograms` is refused, and a budget skips the steps that add up",
            Self::CustomProbes => "`--probe` is refused",
            Self::DropReasons => "drops are seen, their reason is unknown",
            Self::EpollWakeUps => "which of several threads behind an epoll a socket woke is unknown",
            Self::Tsc => "events carry CLOCK_MONOTONIC",
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An ability that this kernel does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The ability.
    pub ability: Ability,
    /// The reason, in words.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub because: String,
}

/// A row of [`Coverage`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopService {
    /// The hop.
    pub hop: Hop,
    /// Its service.
    #[serde(flatten)]
    pub service: Service,
}

impl Coverage {
    /// Every hop served by one backend; for generators and tests.
    pub fn full(backend: Backend) -> Self {
        let row = |hop: &Hop| HopService {
            hop: *hop,
            service: Service::Served { backend, point: String::new(), note: String::new() },
        };
        Coverage { hops: Hop::ALL.iter().map(row).collect(), left_out: Vec::new() }
    }

    /// The hops that are served.
    pub fn served(&self) -> HopSet {
        let served = |row: &&HopService| matches!(row.service, Service::Served { .. });
        self.hops.iter().filter(served).map(|row| row.hop).collect()
    }

    /// The service of one hop, if the table has it.
    pub fn of(&self, hop: Hop) -> Option<&Service> {
        self.hops.iter().find(|row| row.hop == hop).map(|row| &row.service)
    }
}

/// A network namespace with its display name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetnsName {
    /// Inode number of `/proc/<pid>/ns/net`.
    pub netns: u32,
    /// `client`, or `host` for the namespace of process 1.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub name: String,
}

/// A network interface with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceName {
    /// Its network namespace.
    pub netns: u32,
    /// Its index there.
    pub index: u32,
    /// `eth0`.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub name: String,
    /// The kind that the kernel gives a virtual one, `vxlan`; empty for others.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "crate::foreign::text")]
    pub kind: String,
}

/// Kinds of interfaces that put the packets they send into packets of their own.
const TUNNELS: [&str; 19] = [
    "amt",
    "bareudp",
    "erspan",
    "fou",
    "geneve",
    "gre",
    "gretap",
    "gtp",
    "ip6erspan",
    "ip6gre",
    "ip6gretap",
    "ip6tnl",
    "ipip",
    "sit",
    "vti",
    "vti6",
    "vxlan",
    "wireguard",
    "xfrm",
];

impl InterfaceName {
    /// True if its packets travel inside others.
    pub fn is_tunnel(&self) -> bool {
        TUNNELS.contains(&self.kind.as_str())
    }
}

/// A cgroup with the path a person knows it by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupName {
    /// Number of its directory, as in [`Task::cgroup`](crate::flow::Task::cgroup).
    pub id: u64,
    /// Below the root of the hierarchy: `/system.slice/nginx.service`.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub path: String,
}

/// Sockets whose traffic is not followed, or at the packet hops only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfollowedSockets {
    /// Their network namespace.
    pub netns: u32,
    /// Their kind, `unix` or `packet`.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub kind: String,
    /// Their number.
    pub sockets: u32,
}

/// The hosts of a recording converted from a log of several of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedHosts {
    /// The clock relation between them.
    #[serde(flatten)]
    pub across: Across,
    /// The host of each network namespace.
    pub hosts: Vec<HostOf>,
}

impl MergedHosts {
    /// The host of a network namespace.
    pub fn host_of(&self, netns: u32) -> Option<&str> {
        self.hosts.iter().find(|of| of.netns == netns).map(|of| of.host.as_str())
    }
}

/// The host of a network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostOf {
    /// Number of the namespace in this recording.
    pub netns: u32,
    /// Name of its host.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub host: String,
}

/// A drop reason of this kernel: numbers differ between releases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropReason {
    /// Number in the kernel's `enum skb_drop_reason`.
    pub number: u32,
    /// Its name there, in lower case and without the common prefix: `no_socket`.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub name: String,
}

/// The description of a source's host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Host name.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub host: String,
    /// Kernel release, `6.18.1-amd64`.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub kernel: String,
    /// `/proc/sys/kernel/random/boot_id`: two captures with the same one share a `CLOCK_MONOTONIC`.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub boot_id: String,
    /// Possible CPUs.
    pub cpus: u32,
    /// The events' clock.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub clock: String,
    /// Names of network namespaces.
    #[serde(default)]
    pub netns: Vec<NetnsName>,
    /// Names of the interfaces that were there when the capture began, and of later ones as far as they were noticed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceName>,
    /// Paths of the cgroups that were there when the capture began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<CgroupName>,
    /// Containers and machines; see [`crate::workload`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Container>,
    /// Initial omissions, in the syntax of the command line: `filter port = 443`, `sample flows 1/16`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "crate::foreign::texts")]
    pub settings: Vec<String>,
    /// True if, with sampled flows, sockets without a peer report arrivals of left-out flows, which their order
    /// requires ([`Event::is_for_order`](crate::Event::is_for_order)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tells_order: bool,
    /// User-defined probes; a hit has its probe's index in this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<CustomProbe>,
    /// The kernel's names of its drop reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drop_reasons: Vec<DropReason>,
    /// The kernel's names of its reasons for resets; empty before Linux 6.10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reset_reasons: Vec<DropReason>,
    /// Programs and filters that may drop packets, as attached when the capture began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<AttachedProgram>,
    /// Chains of netfilter that may drop packets, as they were when the capture began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<FilterChain>,
    /// True if both lists have all that was attached when the capture began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lists_deciders: bool,
    /// Sockets that were there when the capture began and are not followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_followed: Vec<UnfollowedSockets>,
    /// For a recording converted from a log of several hosts: the hosts, and the relation of their clocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub several: Option<MergedHosts>,
    /// The service of each hop.
    pub coverage: Coverage,
}

fn name_of(reasons: &[DropReason], number: u32) -> String {
    let named = reasons.iter().find(|reason| reason.number == number);
    named.map_or_else(|| format!("reason {number}"), |reason| reason.name.clone())
}

impl NodeInfo {
    /// True if the capture began without records: the kernel adds up in their place.
    pub fn begins_with_sums_only(&self) -> bool {
        self.settings.iter().any(|setting| setting == "detail histograms")
    }

    /// The kernel's name of a drop reason; `reason 5` without names.
    pub fn drop_reason(&self, number: u32) -> String {
        name_of(&self.drop_reasons, number)
    }

    /// The kernel's name of its reason for a reset; `reason 5` without names.
    pub fn reset_reason(&self, number: u32) -> String {
        name_of(&self.reset_reasons, number)
    }

    /// Display name of a network namespace: with the host before it if this is one of several recordings.
    pub fn place(&self, netns: u32, one_of_several: bool) -> String {
        let name = self.netns_name(netns);
        match (one_of_several, name.as_str()) {
            (false, _) => name,
            (true, "host") => self.host.clone(),
            (true, _) => format!("{}/{name}", self.host),
        }
    }

    /// The name of a network namespace, or its number without a name.
    pub fn netns_name(&self, netns: u32) -> String {
        let named = self.netns.iter().find(|n| n.netns == netns);
        named.map_or_else(|| format!("netns:{netns}"), |n| n.name.clone())
    }

    /// The name of an interface, if it is known.
    pub fn interface(&self, netns: u32, index: u32) -> Option<&str> {
        let mut interfaces = self.interfaces.iter();
        interfaces.find(|i| (i.netns, i.index) == (netns, index)).map(|i| i.name.as_str())
    }

    /// The path of a cgroup, if it is known.
    pub fn cgroup_path(&self, id: u64) -> Option<&str> {
        self.cgroups.iter().find(|cgroup| cgroup.id == id).map(|cgroup| cgroup.path.as_str())
    }
}

/// Linux's name of an unnamed host.
const UNNAMED: &str = "(none)";

/// Gives each of several nodes a distinct host name: a number is appended to a duplicate (`web-1`, `web-2`) and
/// to a missing name.
pub fn make_names_unique(infos: &mut [NodeInfo]) {
    let mut given: Vec<String> = infos.iter().map(|info| info.host.clone()).collect();
    for (at, info) in infos.iter_mut().enumerate() {
        let stem = match info.host.as_str() {
            "" | UNNAMED => "host",
            own if given.iter().filter(|other| *other == own).count() > 1 => own,
            _ => continue,
        };
        let mut numbered = (at + 1..).map(|number| format!("{stem}-{number}"));
        if let Some(free) = numbered.find(|name| !given.contains(name)) {
            given.push(free.clone());
            info.host = free;
        }
    }
}

/// The same for one node added to others, whose names stay.
pub fn make_name_unique(others: &[NodeInfo], info: &mut NodeInfo) {
    let is_taken = |name: &str| others.iter().any(|other| other.host == name);
    let stem = match info.host.as_str() {
        "" | UNNAMED => "host",
        own if is_taken(own) => own,
        _ => return,
    };
    // Of one more name than there are others, one is free.
    let mut numbered = (others.len() + 1..).map(|number| format!("{stem}-{number}"));
    if let Some(free) = numbered.find(|name| !is_taken(name)) {
        info.host = free;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_comes_later_leaves_the_others_their_names() {
        let named = |host: &str| NodeInfo { host: host.to_owned(), ..NodeInfo::default() };
        let others = [named("web"), named("web-3")];
        let comes = |host: &str| {
            let mut info = named(host);
            make_name_unique(&others, &mut info);
            info.host
        };
        assert_eq!([comes("db"), comes("web"), comes("")], ["db", "web-4", "host-3"]);
    }

    #[test]
    fn every_node_gets_a_name_of_its_own_and_keeps_it() {
        let named = |names: &[&str]| {
            let info = |name: &&str| NodeInfo { host: (*name).to_owned(), ..NodeInfo::default() };
            let mut infos: Vec<NodeInfo> = names.iter().map(info).collect();
            make_names_unique(&mut infos);
            let once = infos.clone();
            make_names_unique(&mut infos);
            assert_eq!(infos, once);
            infos.into_iter().map(|info| info.host).collect::<Vec<_>>()
        };
        assert_eq!(named(&["web", "db"]), ["web", "db"]);
        assert_eq!(named(&["web", "db", "web"]), ["web-1", "db", "web-3"]);
        assert_eq!(named(&["(none)", "", "db"]), ["host-1", "host-2", "db"]);
        assert_eq!(named(&["web", "web", "web-1", "web-2"]), ["web-3", "web-4", "web-1", "web-2"]);
    }
}
