//! What the numbers of a journey stand for: flows, processes, namespaces, of one recording or of several.

use crate::flow::{Flow, FlowId, Task};
use crate::hop::Direction;
use crate::journey::{CopyDrop, Correlator, Journey, SentCopy, Verdict, Who};
use crate::node::NodeInfo;

/// Looks up what the numbers of a journey stand for. Each number belongs to a recording: [`Journey::tx_node`] and
/// [`Journey::rx_node`] say to which.
pub trait Context {
    /// What a flow id stands for in a recording.
    fn flow(&self, node: u16, id: FlowId) -> Option<&Flow>;

    /// Who a thread is in a recording.
    fn task(&self, node: u16, tid: u32) -> Option<&Task>;

    /// What a recording knows of its host.
    fn info(&self, node: u16) -> Option<&NodeInfo>;

    /// How many recordings there are.
    fn nodes(&self) -> u16 {
        1
    }
}

impl dyn Context + '_ {
    /// The flow as the sender sees it.
    pub fn tx_flow(&self, journey: &Journey) -> Option<&Flow> {
        self.flow(journey.tx_node, journey.tx_flow)
    }

    /// The flow as the receiver sees it.
    pub fn rx_flow(&self, journey: &Journey) -> Option<&Flow> {
        self.flow(journey.rx_node, journey.rx_flow)
    }

    /// Why the kernel of a recording dropped a packet, in its own words; `reason 5` where they are not known.
    pub fn drop_reason(&self, node: u16, reason: u32) -> String {
        self.info(node).map_or_else(|| format!("reason {reason}"), |info| info.drop_reason(reason))
    }

    /// What became of a journey, with the kernel's own words for why.
    pub fn verdict(&self, journey: &Journey) -> String {
        match (journey.verdict, self.why_dropped(journey)) {
            (Verdict::Dropped { hop, .. }, Some(why)) => format!("dropped after {hop}, {why}"),
            (verdict, _) => verdict.to_string(),
        }
    }

    /// Why the kernel dropped a journey, in its own words; `None` where it did not.
    pub fn why_dropped(&self, journey: &Journey) -> Option<String> {
        let Verdict::Dropped { hop, reason } = journey.verdict else { return None };
        let node = if hop.direction() == Direction::Rx { journey.rx_node } else { journey.tx_node };
        Some(self.drop_reason(node, reason))
    }

    /// That the kernel dropped a copy of a journey, and why, in its own words.
    pub fn copy_drop(&self, journey: &Journey, copy: &SentCopy, drop: &CopyDrop) -> String {
        let at_receiver = copy.rungs.last().is_some_and(|hop| hop.direction() == Direction::Rx);
        let node = if at_receiver { journey.rx_node } else { journey.tx_node };
        format!("dropped, {}", self.drop_reason(node, drop.reason))
    }

    /// The sending thread.
    pub fn sender(&self, journey: &Journey) -> Option<&Task> {
        self.of(journey.tx_node, journey.sender)
    }

    /// The reading thread.
    pub fn reader(&self, journey: &Journey) -> Option<&Task> {
        self.of(journey.rx_node, journey.reader)
    }

    fn of(&self, node: u16, who: Option<Who>) -> Option<&Task> {
        self.task(node, who?.tid)
    }

    /// What a person calls a network namespace: with the host before it where there are several recordings.
    pub fn place(&self, node: u16, netns: u32) -> String {
        let Some(info) = self.info(node) else { return String::new() };
        info.place(netns, self.nodes() > 1)
    }
}

/// What one correlator and its node know, whichever recording is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Knows flows and threads.
    pub correlator: &'a Correlator,
    /// Knows the names of namespaces.
    pub node: &'a NodeInfo,
}

impl Context for Known<'_> {
    fn flow(&self, _: u16, id: FlowId) -> Option<&Flow> {
        self.correlator.flow(id)
    }

    fn task(&self, _: u16, tid: u32) -> Option<&Task> {
        self.correlator.task(tid)
    }

    fn info(&self, _: u16) -> Option<&NodeInfo> {
        Some(self.node)
    }
}
