//! The hosts of a recording that was made of a log of several.

use super::journey::Across;
use crate::hash::Map;
use crate::node::Several;

/// Which namespace is of which host, and what was known of their clocks.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    across: Across,
    /// By network namespace, numbered.
    hosts: Map<u32, usize>,
}

impl Hosts {
    pub fn new(several: &Several) -> Self {
        let number = |host: &str| several.hosts.iter().position(|of| of.host == host).unwrap_or_default();
        let hosts = several.hosts.iter().map(|of| (of.netns, number(&of.host))).collect();
        Hosts { across: several.across, hosts }
    }

    /// What is known of the time from one namespace to another; where they are not known, as between two hosts.
    pub fn between(&self, a: Option<u32>, b: Option<u32>) -> Across {
        let host = |netns: Option<u32>| self.hosts.get(&netns?);
        match (host(a), host(b)) {
            (Some(a), Some(b)) if a == b => Across::OneClock,
            _ => self.across,
        }
    }
}
