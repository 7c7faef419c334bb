//! What a filter must know beyond the journey itself: flows, processes, namespaces.

use crate::flow::{Flow, FlowId};
use crate::journey::{Correlator, Journey};
use crate::node::NodeInfo;
use std::net::SocketAddr;

/// Looks up what the numbers of a journey stand for.
pub trait Context {
    /// What a flow id stands for.
    fn flow(&self, id: FlowId) -> Option<&Flow>;

    /// Command name of a thread.
    fn comm(&self, tid: u32) -> Option<&str>;

    /// Name of a network namespace.
    fn netns_name(&self, netns: u32) -> Option<&str>;
}

/// What a correlator and its node know.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Knows flows and threads.
    pub correlator: &'a Correlator,
    /// Knows the names of namespaces.
    pub node: &'a NodeInfo,
}

impl Context for Known<'_> {
    fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.correlator.flow(id)
    }

    fn comm(&self, tid: u32) -> Option<&str> {
        self.correlator.task(tid).map(|task| task.comm.as_str())
    }

    fn netns_name(&self, netns: u32) -> Option<&str> {
        self.node.netns.iter().find(|n| n.netns == netns).map(|n| n.name.as_str())
    }
}

/// Addresses of the sender and the receiver, whichever half of the journey was seen.
pub(super) fn ends(journey: &Journey, context: &dyn Context) -> Option<(SocketAddr, SocketAddr)> {
    let sent = context.flow(journey.tx_flow).map(|flow| (flow.local, flow.remote));
    sent.or_else(|| context.flow(journey.rx_flow).map(|flow| (flow.remote, flow.local)))
}
