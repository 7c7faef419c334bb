//! Names behind numbers: flows, threads and namespaces of every recording, as announced.

use crate::switches::{HopState, Switches};
use magscope_core::context::Context;
use magscope_core::node::NodeInfo;
use magscope_core::stored_context::StoredContext;
use magscope_core::{Batch, CleanUp, Direction, Event, Flow, FlowId, Hop, HopSet, Journey, Task};

/// A node: a network namespace of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetnsKey {
    /// Index of the recording, from 0.
    pub node: u16,
    /// Network namespace, its inode number.
    pub netns: u32,
}

/// Names behind the numbers of all recordings.
#[derive(Debug, Default)]
pub struct Names {
    stored: StoredContext,
    clean_up: Vec<CleanUp>,
    switches: Vec<Switches>,
}

impl Names {
    /// The names of these recordings.
    pub fn new(infos: Vec<NodeInfo>) -> Self {
        Names {
            clean_up: infos.iter().map(CleanUp::of).collect(),
            switches: infos.iter().map(|_| Switches::default()).collect(),
            stored: StoredContext::new(infos),
        }
    }

    /// Adds a recording.
    pub fn join(&mut self, info: NodeInfo) {
        self.clean_up.push(CleanUp::of(&info));
        self.switches.push(Switches::default());
        self.stored.join(info);
    }

    /// Stores the names that a batch announces, and its changes of hops.
    pub fn learn(&mut self, node: u16, batch: &Batch) {
        self.stored.batch(node, batch);
        if let Some(switches) = self.switches.get_mut(usize::from(node)) {
            switches.batch(batch);
        }
    }

    /// The state of a hop in each recording that names it, at an instant.
    pub fn hop_states(&self, hop: Hop, at_ns: u64) -> impl Iterator<Item = HopState> + '_ {
        let of = self.infos().iter().zip(&self.switches);
        of.filter_map(move |(info, switches)| switches.state(info, hop, at_ns))
    }

    /// The hops that were on for a journey at its last event: each half by its own recording.
    pub fn served(&self, journey: &Journey, at_ns: u64) -> HopSet {
        let (tx, rx) = (self.served_by(journey.tx_node, at_ns), self.served_by(journey.rx_node, at_ns));
        let side = |hop: &Hop| if hop.direction() == Direction::Tx { tx } else { rx }.contains(*hop);
        if journey.tx_node == journey.rx_node { tx } else { Hop::ALL.iter().copied().filter(side).collect() }
    }

    fn served_by(&self, node: u16, at_ns: u64) -> HopSet {
        let of = self.infos().get(usize::from(node)).zip(self.switches.get(usize::from(node)));
        of.map_or(HopSet::EMPTY, |(info, switches)| switches.served(info, at_ns))
    }

    /// The recordings.
    pub fn infos(&self) -> &[NodeInfo] {
        self.stored.infos()
    }

    /// Name of a thread.
    pub fn comm(&self, node: u16, tid: u32) -> Option<&str> {
        self.stored.task(node, tid).map(|task| task.comm.as_str())
    }

    /// The verdict of a journey, in words.
    pub fn verdict(&self, journey: &Journey) -> String {
        let context: &dyn Context = self;
        context.verdict(journey)
    }

    /// The kernel's reasons of a recording that are clean-up.
    pub fn clean_up(&self, node: u16) -> Option<&CleanUp> {
        self.clean_up.get(usize::from(node))
    }

    /// True for a packet that the kernel dropped.
    pub fn is_drop(&self, node: u16, event: &Event) -> bool {
        event.hop == Hop::SkbDrop && !self.clean_up(node).is_some_and(|of| of.is_event(event))
    }

    /// The reason why the kernel of a recording dropped a packet, in words.
    pub fn drop_reason(&self, node: u16, reason: u32) -> String {
        let context: &dyn Context = self;
        context.drop_reason(node, reason)
    }

    /// Display name of a node; `outside` for one without probes.
    pub fn netns_name(&self, netns_key: Option<NetnsKey>) -> String {
        let Some(netns_key) = netns_key else { return "outside".to_owned() };
        let context: &dyn Context = self;
        context.place(netns_key.node, netns_key.netns)
    }

    /// As [`Self::netns_name`]; the host's own namespace has the host's name.
    pub fn host_or_netns(&self, netns_key: NetnsKey) -> String {
        let info = self.infos().get(usize::from(netns_key.node));
        info.map_or_else(|| self.netns_name(Some(netns_key)), |info| info.place(netns_key.netns, true))
    }
}

impl Context for Names {
    fn flow(&self, node: u16, id: FlowId) -> Option<&Flow> {
        self.stored.flow(node, id)
    }

    fn task(&self, node: u16, tid: u32) -> Option<&Task> {
        self.stored.task(node, tid)
    }

    fn info(&self, node: u16) -> Option<&NodeInfo> {
        self.stored.info(node)
    }

    fn nodes(&self) -> u16 {
        self.stored.nodes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::NetnsName;

    #[test]
    fn the_hosts_own_namespace_has_its_name_from_the_first_frame_on() {
        let name = |netns, name: &str| NetnsName { netns, name: name.to_owned() };
        let host = "web-1".to_owned();
        let netns = vec![name(1, "host"), name(2, "left")];
        let names = Names::new(vec![NodeInfo { host, netns, ..NodeInfo::default() }]);
        let shown = |netns| names.host_or_netns(NetnsKey { node: 0, netns });
        assert_eq!((shown(1), shown(2)), ("web-1".to_owned(), "web-1/left".to_owned()));
    }
}
