//! The hosts of a recording converted from a log of several.

use super::across::Across;
use crate::hash::Map;
use crate::node::MergedHosts;

/// The host of each namespace, and the bounds between the hosts' clocks.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    across: Across,
    /// Host number by network namespace.
    hosts: Map<u32, usize>,
}

impl Hosts {
    pub fn new(several: &MergedHosts) -> Self {
        let number = |host: &str| several.hosts.iter().position(|of| of.host == host).unwrap_or_default();
        let hosts = several.hosts.iter().map(|of| (of.netns, number(&of.host))).collect();
        Hosts { across: several.across, hosts }
    }

    /// The clock relation between two namespaces; for unknown ones that of two hosts.
    pub fn between(&self, a: Option<u32>, b: Option<u32>) -> Across {
        let host = |netns: Option<u32>| self.hosts.get(&netns?);
        match (host(a), host(b)) {
            (Some(a), Some(b)) if a == b => Across::OneClock,
            _ => self.across,
        }
    }
}
