//! Names behind the numbers of a journey: flows, processes, namespaces, of one recording or of several.

use crate::deciders::{DropPlace, SocketFilter, taken_by};
use crate::flow::{Endpoint, Flow, FlowId, Proto, Task};
use crate::hop::{Direction, Hop, Layer};
use crate::journey::{CopyDrop, Correlator, Forwarder, Journey, SentCopy, ThreadRef, Verdict};
use crate::node::NodeInfo;
use crate::workload::Member;

/// What a journey or a copy has of its drop.
struct DropFacts {
    flow: FlowId,
    reason: u32,
    ifindex: u32,
    rules_changed: bool,
    filter: SocketFilter,
}

/// Resolves the numbers of a journey. Each number belongs to a recording, in [`Journey::tx_node`] or
/// [`Journey::rx_node`].
pub trait Context {
    /// The flow of an id in a recording.
    fn flow(&self, node: u16, id: FlowId) -> Option<&Flow>;

    /// The thread of an id in a recording.
    fn task(&self, node: u16, tid: u32) -> Option<&Task>;

    /// Info of a recording's host.
    fn info(&self, node: u16) -> Option<&NodeInfo>;

    /// Number of recordings.
    fn nodes(&self) -> u16 {
        1
    }
}

impl dyn Context + '_ {
    /// The flow from the sender's side.
    pub fn tx_flow(&self, journey: &Journey) -> Option<&Flow> {
        self.flow(journey.tx_node, journey.tx_flow)
    }

    /// The flow from the receiver's side.
    pub fn rx_flow(&self, journey: &Journey) -> Option<&Flow> {
        self.flow(journey.rx_node, journey.rx_flow)
    }

    /// The flow of its packets where they leave the sender's recording, after any address translation.
    pub fn sent_flow(&self, journey: &Journey) -> Option<&Flow> {
        self.flow(journey.tx_node, journey.sent_flow())
    }

    /// The flow of its packets where they enter the receiver's recording, before any address translation.
    pub fn received_flow(&self, journey: &Journey) -> Option<&Flow> {
        self.flow(journey.rx_node, journey.received_flow())
    }

    /// Source and destination of a journey as its receiver has them, if an address translation is between its ends.
    pub fn arrives_as(&self, journey: &Journey) -> Option<(Endpoint, Endpoint)> {
        self.tx_flow(journey)?.translated_to(self.rx_flow(journey)?)
    }

    /// The drop reason of a recording's kernel, by its name; `reason 5` without names.
    pub fn drop_reason(&self, node: u16, reason: u32) -> String {
        self.info(node).map_or_else(|| format!("reason {reason}"), |info| info.drop_reason(reason))
    }

    /// The name of a forwarder of a journey: the display name of its network namespace; empty if unknown.
    pub fn forwarder(&self, journey: &Journey, forwarder: &Forwarder) -> String {
        let node = journey.node_of_forwarder(forwarder);
        self.flow(node, forwarder.flow()).map_or_else(String::new, |flow| self.place(node, flow.netns))
    }

    /// The name of an interface at which a flow's packets were; empty if it is unknown.
    pub fn interface_of(&self, node: u16, flow: FlowId, ifindex: u32) -> &str {
        let named = self.info(node).zip(self.flow(node, flow));
        named.and_then(|(info, flow)| info.interface(flow.netns, ifindex)).unwrap_or_default()
    }

    /// Protocol, source and destination of the outer packet of a tunnel that a journey's packet is inside of; `None` if
    /// its flow is unknown.
    pub fn outer(&self, journey: &Journey, at: &Forwarder) -> Option<(Proto, Endpoint, Endpoint)> {
        let flow = self.flow(journey.node_of_forwarder(at), at.flow())?;
        let (from, to) =
            if at.tx_flow.is_none() { (flow.remote, flow.local) } else { (flow.local, flow.remote) };
        Some((flow.proto, from, to))
    }

    /// The flow of the forwarder at which a journey ended.
    fn ended_flow(&self, journey: &Journey) -> Option<&Flow> {
        let at = journey.ended_at()?;
        self.flow(journey.node_of_forwarder(at), at.flow())
    }

    /// The last hop of a lost journey, and the forwarder that it is of: `dev.xmit of router`.
    fn end_words(&self, journey: &Journey, hop: Hop) -> String {
        match journey.ended_at() {
            Some(at) => format!("{} of {}", at.last().unwrap_or(hop), self.forwarder(journey, at)),
            None => hop.to_string(),
        }
    }

    /// The verdict of a journey, with the kernel's name of the reason.
    pub fn verdict(&self, journey: &Journey) -> String {
        match (journey.verdict, self.why_dropped(journey)) {
            (Verdict::Dropped { hop, .. }, Some(why)) => {
                let hop = self.end_words(journey, hop);
                let place = self.drop_interface(journey).map_or_else(String::new, |name| format!(" at {name}"));
                let by = self.dropped_by(journey).map_or_else(String::new, |by| format!(" ({by})"));
                format!("dropped after {hop}, {why}{place}{by}")
            }
            (Verdict::LostAfter { hop }, _) => {
                let by = self.taken_by(journey).map_or_else(String::new, |by| format!(" ({by})"));
                format!("lost after {}{by}", self.end_words(journey, hop))
            }
            (verdict, _) => {
                let by = self.taken_by(journey).map_or_else(String::new, |by| format!(" ({by})"));
                format!("{verdict}{by}")
            }
        }
    }

    /// The reason why the kernel dropped a journey, in its own words; `None` if it did not.
    pub fn why_dropped(&self, journey: &Journey) -> Option<String> {
        let Verdict::Dropped { hop, reason } = journey.verdict else { return None };
        let node = if hop.direction() == Direction::Rx { journey.rx_node } else { journey.tx_node };
        Some(self.drop_reason(node, reason))
    }

    /// The flow of a packet that was dropped in the network namespace of neither end. Between the hosts of both ends it
    /// may still be counted at the one that it has left.
    fn dropped_elsewhere(&self, journey: &Journey, flow: FlowId) -> Option<&Flow> {
        let nodes = [journey.tx_node, journey.rx_node];
        let flow = nodes.into_iter().filter(|_| !flow.is_none()).find_map(|node| self.flow(node, flow))?;
        let mut ends = [self.tx_flow(journey), self.rx_flow(journey)].into_iter().flatten();
        ends.all(|end| end.netns != flow.netns).then_some(flow)
    }

    /// That the kernel dropped a copy of a journey, and why, in its own words.
    pub fn copy_drop_reason(&self, journey: &Journey, copy: &SentCopy, drop: &CopyDrop) -> String {
        let at_receiver = copy.rungs.last().is_some_and(|hop| hop.direction() == Direction::Rx);
        let node = if at_receiver { journey.rx_node } else { journey.tx_node };
        format!("dropped, {}", self.drop_reason(node, drop.reason))
    }

    /// The same, the interface that it was at, and the program or rule that dropped it.
    pub fn copy_drop(&self, journey: &Journey, copy: &SentCopy, drop: &CopyDrop) -> String {
        let place = self.copy_drop_interface(journey, copy, drop).map(|name| format!(" at {name}"));
        let by = self.copy_dropped_by(journey, copy, drop).map(|by| format!(" ({by})"));
        self.copy_drop_reason(journey, copy, drop) + &place.unwrap_or_default() + &by.unwrap_or_default()
    }

    /// The program or rule that dropped a journey, or the candidates, of those that were attached when the capture
    /// began; `None` where the stack itself dropped it.
    pub fn dropped_by(&self, journey: &Journey) -> Option<String> {
        let Verdict::Dropped { hop, reason } = journey.verdict else { return None };
        let found = DropFacts {
            flow: journey.drop_flow,
            reason,
            ifindex: journey.drop_ifindex,
            rules_changed: journey.drop_rules_changed,
            filter: journey.drop_filter,
        };
        self.decided_by(journey, hop, &found)
    }

    /// The programs of XDP that may have taken the packet of a lost journey, which left an interface and was not seen
    /// again.
    pub fn taken_by(&self, journey: &Journey) -> Option<String> {
        let Verdict::LostAfter { hop } = journey.verdict else { return None };
        let has_left = hop.direction() == Direction::Tx && hop.layer() == Layer::Device;
        let flow = match journey.ended_at() {
            Some(at) => self.ended_flow(journey).filter(|_| !at.tx_flow.is_none()),
            None => self.tx_flow(journey).filter(|_| has_left),
        };
        taken_by(flow?.netns, self.info(journey.tx_node)?)
    }

    /// The same of a copy.
    pub fn copy_dropped_by(&self, journey: &Journey, copy: &SentCopy, drop: &CopyDrop) -> Option<String> {
        let CopyDrop { flow, reason, ifindex, rules_changed, filter, .. } = *drop;
        let found = DropFacts { flow, reason, ifindex, rules_changed, filter };
        self.decided_by(journey, copy.rungs.last()?, &found)
    }

    fn decided_by(&self, journey: &Journey, behind: Hop, found: &DropFacts) -> Option<String> {
        let is_received = behind.direction() == Direction::Rx;
        let node = if is_received { journey.rx_node } else { journey.tx_node };
        let info = self.info(node)?;
        if !info.lists_deciders && info.programs.is_empty() && info.chains.is_empty() {
            return None;
        }
        let reason = info.drop_reason(found.reason);
        let (tx, rx) = (self.tx_flow(journey), self.rx_flow(journey));
        let own = if is_received { rx } else { tx };
        // What has left one host is at the other one, before its first hop there.
        let has_left = !is_received && behind.layer() == Layer::Device;
        let last = self.ended_flow(journey);
        let ends = match last {
            Some(_) => [last, rx.or(last)],
            None if has_left => [own, rx],
            None => [own, own],
        };
        let netns: Option<Vec<u32>> = match self.dropped_elsewhere(journey, found.flow) {
            Some(flow) => Some(vec![flow.netns]),
            None => ends.iter().map(|flow| flow.map(|flow| flow.netns)).collect(),
        };
        let netns = netns.unwrap_or_default();
        let who = if is_received { self.reader(journey) } else { self.sender(journey) };
        let place = DropPlace {
            reason: &reason,
            behind,
            netns: &netns,
            ifindex: found.ifindex,
            cgroup: who.map(|task| task.cgroup).filter(|id| *id != 0),
            is_ipv6: own.or(tx).or(rx).map(|flow| flow.local.ip().to_canonical().is_ipv6()),
            rules_changed: found.rules_changed,
            filter: found.filter,
        };
        place.dropped_by(info)
    }

    /// The interface that a dropped journey's packet was at; `None` where it was at none, and where a socket dropped it.
    pub fn drop_interface(&self, journey: &Journey) -> Option<String> {
        let Verdict::Dropped { hop, .. } = journey.verdict else { return None };
        self.interface(journey, hop, journey.drop_flow, journey.drop_ifindex)
    }

    /// The interface that a copy was dropped at; `None` as for `drop_interface`.
    pub fn copy_drop_interface(&self, journey: &Journey, copy: &SentCopy, drop: &CopyDrop) -> Option<String> {
        self.interface(journey, copy.rungs.last()?, drop.flow, drop.ifindex)
    }

    /// The name of an interface that a packet was dropped at behind a hop, in the network namespace of that end; its number where it
    /// has no name. What came to a socket has left its interface behind.
    fn interface(&self, journey: &Journey, behind: Hop, dropped: FlowId, ifindex: u32) -> Option<String> {
        if ifindex == 0 || !matches!(behind.layer(), Layer::Ip | Layer::Device) {
            return None;
        }
        let (node, flow) = if behind.direction() == Direction::Rx {
            (journey.rx_node, self.rx_flow(journey))
        } else {
            (journey.tx_node, self.ended_flow(journey).or_else(|| self.tx_flow(journey)))
        };
        let flow = self.dropped_elsewhere(journey, dropped).or(flow);
        let name = self.info(node).zip(flow).and_then(|(info, flow)| info.interface(flow.netns, ifindex));
        Some(name.map_or_else(|| format!("interface {ifindex}"), str::to_owned))
    }

    /// The sending thread.
    pub fn sender(&self, journey: &Journey) -> Option<&Task> {
        self.of(journey.tx_node, journey.sender)
    }

    /// The reading thread.
    pub fn reader(&self, journey: &Journey) -> Option<&Task> {
        self.of(journey.rx_node, journey.reader)
    }

    fn of(&self, node: u16, who: Option<ThreadRef>) -> Option<&Task> {
        self.task(node, who?.tid)
    }

    /// Where the sender runs, if known.
    pub fn sender_member(&self, journey: &Journey) -> Option<Member<'_>> {
        let netns = self.tx_flow(journey).map(|flow| flow.netns);
        self.info(journey.tx_node)?.member(self.sender(journey), netns)
    }

    /// Where the reader runs, if known.
    pub fn reader_member(&self, journey: &Journey) -> Option<Member<'_>> {
        let netns = self.rx_flow(journey).map(|flow| flow.netns);
        self.info(journey.rx_node)?.member(self.reader(journey), netns)
    }

    /// Display name of a network namespace: with the host before it for several recordings.
    pub fn place(&self, node: u16, netns: u32) -> String {
        let Some(info) = self.info(node) else { return String::new() };
        info.place(netns, self.nodes() > 1)
    }
}

/// The names of one correlator and its node, for any recording number.
#[derive(Clone, Copy, Debug)]
pub struct NodeContext<'a> {
    /// Source of flows and threads.
    pub correlator: &'a Correlator,
    /// Source of the names of namespaces.
    pub node: &'a NodeInfo,
}

impl Context for NodeContext<'_> {
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
