//! The path of a journey: its places in order, and the time from each to the next.

use super::translation::{Addresses, Change};
use crate::names::NetnsKey;
use magscope_core::context::Context;
use magscope_core::journey::{Across, Forwarder};
use magscope_core::{Direction, Flow, FlowId, Hop, Journey, Layer, Verdict};

/// A place on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathPlace {
    /// A node of the capture.
    Node(NetnsKey),
    /// Any node without probes.
    Outside,
    /// No place: packets that left and were not seen again.
    Unseen,
}

/// A leg of a path, from the place before it to the next one. The first one of a path has only its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathLeg {
    /// Interface by which packets left the forwarder before it; 0 at an end.
    pub left_by: u32,
    /// Interface by which they came to this forwarder; 0 at an end.
    pub came_by: u32,
    /// Where they came to.
    pub to: PathPlace,
}

/// The time of one journey on a leg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LegTime {
    /// One of its ends was not seen.
    #[default]
    Unseen,
    /// The clocks of its ends are unrelated.
    Apart,
    /// From the last hop before it to the first one behind it.
    Measured { ns: u64, half_width_ns: u64, hops: (Hop, Hop) },
}

/// Whose events arrived at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Arrival {
    /// Nobody's: the sender, or a place without events.
    #[default]
    None,
    /// Those of the forwarder with this number, and of the receiver with 0.
    Of(u8),
}

/// One place on the path of one journey, and the leg to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    pub leg: PathLeg,
    pub time: LegTime,
    /// From the first to the last event in a forwarder.
    pub inside_ns: Option<u64>,
    /// How addresses changed on the leg to it: one of its ends translates.
    pub changed_before: Option<Change>,
    /// How addresses changed in it.
    pub changed_inside: Option<Change>,
    /// The flow by which its packet left.
    pub exit: FlowId,
    arrival: Arrival,
    on_sender_clock: bool,
    left_by: u32,
    came: Option<Addresses>,
    left: Option<Addresses>,
}

impl Passage {
    const fn to(place: PathPlace) -> Self {
        Passage {
            leg: PathLeg { left_by: 0, came_by: 0, to: place },
            time: LegTime::Unseen,
            inside_ns: None,
            changed_before: None,
            changed_inside: None,
            exit: FlowId::NONE,
            arrival: Arrival::None,
            on_sender_clock: true,
            left_by: 0,
            came: None,
            left: None,
        }
    }

    /// True for the receiver's place.
    pub fn is_receivers(&self) -> bool {
        self.arrival == Arrival::Of(0)
    }

    fn of_sender(journey: &Journey, context: &dyn Context) -> Self {
        let flow = context.tx_flow(journey);
        let left = flow.map(|flow| Addresses::of(flow, Direction::Tx));
        Passage { left, exit: journey.tx_flow, ..Self::to(place(journey.tx_node, flow)) }
    }

    fn of_receiver(journey: &Journey, context: &dyn Context) -> Self {
        let flow = context.rx_flow(journey);
        let came = flow.map(|flow| Addresses::of(flow, Direction::Rx));
        let (arrival, on_sender_clock) = (Arrival::Of(0), false);
        Passage { arrival, on_sender_clock, came, ..Self::to(place(journey.rx_node, flow)) }
    }

    fn of_forwarder(journey: &Journey, at: &Forwarder, number: u8, context: &dyn Context) -> Self {
        let node = journey.node_of_forwarder(at);
        let (rx, tx) = (context.flow(node, at.rx_flow), context.flow(node, at.tx_flow));
        let netns = tx.or(rx).map_or(0, |flow| flow.netns);
        let came_by = if at.rx_flow.is_none() { 0 } else { at.rx_ifindex };
        let came = rx.map(|flow| Addresses::of(flow, Direction::Rx));
        let left = tx.map(|flow| Addresses::of(flow, Direction::Tx));
        let is_whole = !at.rx_flow.is_none() && !at.tx_flow.is_none();
        Passage {
            leg: PathLeg { left_by: 0, came_by, to: PathPlace::Node(NetnsKey { node, netns }) },
            inside_ns: at.inside_ns().filter(|_| is_whole),
            changed_inside: came.zip(left).and_then(Change::between),
            exit: at.tx_flow,
            arrival: Arrival::Of(number),
            on_sender_clock: !at.is_receivers,
            left_by: at.tx_ifindex,
            came,
            left: left.or(came),
            ..Self::to(PathPlace::Outside)
        }
    }
}

fn place(node: u16, flow: Option<&Flow>) -> PathPlace {
    flow.map_or(PathPlace::Outside, |flow| PathPlace::Node(NetnsKey { node, netns: flow.netns }))
}

/// The node of a flow of either recording of a journey.
fn node_of(journey: &Journey, flow: FlowId, context: &dyn Context) -> Option<NetnsKey> {
    let nodes = [journey.tx_node, journey.rx_node].into_iter().filter(|_| !flow.is_none());
    let mut found = nodes.filter_map(|node| Some(NetnsKey { node, netns: context.flow(node, flow)?.netns }));
    found.next()
}

/// The place on a path at which a packet of this flow was dropped.
pub(super) fn dropped_at(
    path: &[Passage],
    journey: &Journey,
    flow: FlowId,
    context: &dyn Context,
) -> Option<usize> {
    let to = PathPlace::Node(node_of(journey, flow, context)?);
    path.iter().rposition(|passage| passage.leg.to == to)
}

/// Fills `path` with the path of a journey, as far as its events show it.
pub(super) fn walk(journey: &Journey, context: &dyn Context, path: &mut Vec<Passage>) {
    path.clear();
    path.push(Passage::of_sender(journey, context));
    for (at, number) in journey.forwarders.iter().zip(1..) {
        push(path, Passage::of_forwarder(journey, at, number, context));
    }
    if let Some(end) = end_of(journey, context, path) {
        push(path, end);
    }
    set_times(journey, path);
}

/// The last place, if it is none of those before.
fn end_of(journey: &Journey, context: &dyn Context, path: &[Passage]) -> Option<Passage> {
    if journey.rungs.hops().any(|hop| hop.direction() == Direction::Rx) {
        return Some(Passage::of_receiver(journey, context));
    }
    match journey.verdict {
        Verdict::HalfComplete => Some(Passage::to(PathPlace::Outside)),
        Verdict::LostAfter { hop } if has_left(journey, hop) => Some(Passage::to(PathPlace::Unseen)),
        Verdict::Dropped { .. } if dropped_at(path, journey, journey.drop_flow, context).is_none() => {
            let mut end = Passage::to(PathPlace::Node(node_of(journey, journey.drop_flow, context)?));
            end.leg.came_by = journey.drop_ifindex;
            Some(end)
        }
        _ => None,
    }
}

/// True if the packet of a lost journey left the last node that it was seen at.
fn has_left(journey: &Journey, hop: Hop) -> bool {
    match journey.forwarders.last() {
        Some(at) => at.last().is_some_and(|hop| hop.direction() == Direction::Tx),
        None => hop.direction() == Direction::Tx && hop.layer() == Layer::Device,
    }
}

fn push(path: &mut Vec<Passage>, mut passage: Passage) {
    if let Some(before) = path.last() {
        passage.leg.left_by = before.left_by;
        passage.changed_before = before.left.zip(passage.came).and_then(Change::between);
    }
    path.push(passage);
}

fn set_times(journey: &Journey, path: &mut [Passage]) {
    for at in 1..path.len() {
        let is_apart = path[at - 1].on_sender_clock != path[at].on_sender_clock;
        if is_apart && journey.across == Across::Apart && path[at].arrival != Arrival::None {
            path[at].time = LegTime::Apart;
        }
    }
    // Times in a wrong order are those of different copies.
    if !journey.copies.is_empty() && journey.disordered() > 0 {
        return;
    }
    for (rung, latency) in journey.spans() {
        let Some(latency) = latency.filter(|latency| !latency.is_wait) else { continue };
        let crosses = latency.from.direction() == Direction::Tx && latency.to.direction() == Direction::Rx;
        // Earlier copies may have taken another path.
        if !crosses || (rung.copy != 0 && rung.copy != journey.copy) {
            continue;
        }
        let (ns, half_width_ns) = (latency.ns, latency.half_width_ns);
        let arrival = Arrival::Of(rung.forwarder);
        if let Some(passage) = path.iter_mut().find(|passage| passage.arrival == arrival) {
            passage.time = LegTime::Measured { ns, half_width_ns, hops: (latency.from, latency.to) };
        }
    }
}
