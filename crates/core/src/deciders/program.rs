//! Programs and filters that may drop packets.

use super::FilterHook;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a program or filter is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramKind {
    /// BPF program at an interface's XDP hook.
    Xdp,
    /// BPF program as a classifier of an interface (`cls_bpf`).
    Tc,
    /// BPF program in an interface's tcx list.
    Tcx,
    /// Classifier of an interface that is no BPF program (`u32`, `flower`).
    TcFilter,
    /// BPF program of a cgroup, for packets of its sockets.
    CgroupSkb,
    /// BPF program at a hook of netfilter. Its namespace is unknown.
    Netfilter,
    /// BPF program of a pair of netkit interfaces, listed at its primary end.
    Netkit,
    /// BPF program of the type that filters of sockets have. Its sockets are unknown.
    SocketFilter,
}

impl ProgramKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Xdp,
        Self::Tc,
        Self::Tcx,
        Self::TcFilter,
        Self::CgroupSkb,
        Self::Netfilter,
        Self::Netkit,
        Self::SocketFilter,
    ];

    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Tc => "tc",
            Self::Tcx => "tcx",
            Self::TcFilter => "tc-filter",
            Self::CgroupSkb => "cgroup-skb",
            Self::Netfilter => "netfilter",
            Self::Netkit => "netkit",
            Self::SocketFilter => "socket-filter",
        }
    }

    /// Name in sentences.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Xdp => "XDP program",
            Self::Tc => "tc program",
            Self::Tcx => "tcx program",
            Self::TcFilter => "tc filter",
            Self::CgroupSkb => "cgroup program",
            Self::Netfilter => "netfilter program",
            Self::Netkit => "netkit program",
            Self::SocketFilter => "socket filter",
        }
    }
}

impl fmt::Display for ProgramKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The packets that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// Received ones.
    Ingress,
    /// Sent ones.
    Egress,
}

/// A program or filter that may drop packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedProgram {
    /// What it is attached to.
    pub kind: ProgramKind,
    /// The kernel's number of the program; 0 for a filter that is none.
    #[serde(default)]
    pub id: u32,
    /// Name of the program, or kind of the filter; empty without a name.
    #[serde(default, deserialize_with = "crate::foreign::text")]
    pub name: String,
    /// Network namespace of the interface; 0 without one.
    #[serde(default)]
    pub netns: u32,
    /// Index of the interface there; 0 without one.
    #[serde(default)]
    pub interface: u32,
    /// The packets that it sees; both without an entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Traffic>,
    /// Number of the cgroup; 0 without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cgroup: u64,
    /// Hook of netfilter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<FilterHook>,
    /// Of XDP and netkit at one end of a pair of interfaces: index of the other end; 0 otherwise.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub peer: u32,
    /// Network namespace of the other end; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub peer_netns: u32,
}

impl AttachedProgram {
    /// A program without name and place.
    pub const fn of(kind: ProgramKind, id: u32) -> Self {
        AttachedProgram {
            kind,
            id,
            name: String::new(),
            netns: 0,
            interface: 0,
            direction: None,
            cgroup: 0,
            hook: None,
            peer: 0,
            peer_netns: 0,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // signature of serde
fn is_zero<N: PartialEq + From<u8>>(number: &N) -> bool {
    *number == N::from(0)
}
