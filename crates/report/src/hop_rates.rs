//! Events of each hop of one recording, and estimates of all events where a sampler left some out.
//!
//! A sampler of single events leaves out any of them, so each recorded event has the mean weight of its hop. A sampler of flows
//! never leaves out events without a flow (a socket without a peer, later fragments), which have the weight 1. The others then
//! have a larger weight than the mean. Numbers of events need no such difference, because the kernel counts all of them.

use super::estimates::connection;
use crate::stats::HopRate;
use magscope_core::event::Event;
use magscope_core::flow::Flow;
use magscope_core::hop::{HOP_IDS, Hop, HopSet};
use magscope_core::node::NodeInfo;
use magscope_core::sampled::Sampled;

/// The recorded events of one recording.
pub(super) struct HopRates {
    /// Its sampling state.
    pub sampled: Sampled,
    all: [HopRate; HOP_IDS],
    /// Events of flows, which a sampler of flows chooses from.
    of_flows: [HopRate; HOP_IDS],
    /// Hops with events of flows whose ends are unknown.
    unknown: HopSet,
}

impl HopRates {
    pub fn new(info: &NodeInfo) -> Self {
        let none = [HopRate::default(); HOP_IDS];
        HopRates { sampled: Sampled::of(info), all: none, of_flows: none, unknown: HopSet::EMPTY }
    }

    /// Counts a sample of TCP's state.
    pub fn tcp_state(&mut self) {
        self.all[usize::from(Hop::TcpState.id())].count(0);
    }

    /// Counts an event with this payload.
    pub fn event(&mut self, event: &Event, bytes: u64, flow: Option<&Flow>) {
        let hop = usize::from(event.hop.id());
        self.all[hop].count(bytes);
        // An order-only record has the weight 1.
        if event.is_for_order() || event.flow.is_none() {
            return;
        }
        match flow {
            Some(flow) if connection(flow).is_some() => self.of_flows[hop].count(bytes),
            Some(_) => {}
            None => self.unknown.insert(event.hop),
        }
    }

    /// The recorded events of a hop.
    pub fn of(&self, hop: Hop) -> HopRate {
        self.all[usize::from(hop.id())]
    }

    /// Payload of all events of a hop that passed its filter; `None` if the recorded events do not have one known weight: with two kinds of
    /// samplers, after a change of the rate, without an event of a chosen flow, and if some flows are unknown.
    pub fn all_bytes(&self, hop: Hop) -> Option<f64> {
        let (all, weight) = (self.of(hop), self.sampled.weight(hop));
        if weight <= 1.0 {
            return Some(all.bytes as f64);
        }
        let omissions = self.sampled.omissions();
        if self.sampled.rate_changed() {
            return None;
        }
        if !omissions.flows_sampled {
            return Some(all.bytes as f64 * weight);
        }
        let of_flows = self.of_flows[usize::from(hop.id())];
        let mixed = omissions.sampled_hops.contains(hop) || self.unknown.contains(hop);
        if mixed || of_flows.events == 0 {
            return None;
        }
        let left_out = all.events as f64 * (weight - 1.0);
        let weight = 1.0 + left_out / of_flows.events as f64;
        Some(all.bytes.saturating_sub(of_flows.bytes) as f64 + of_flows.bytes as f64 * weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::change::{Change, HopCount};
    use magscope_core::flow::{FlowId, Proto};
    use magscope_core::{Batch, EventFlags};

    fn rates(settings: &[&str], recorded: u64, sampled: u64) -> HopRates {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut rates = HopRates::new(&NodeInfo { settings, ..NodeInfo::default() });
        let count = HopCount {
            time_ns: 1,
            hop: Hop::AppSend,
            kept: recorded,
            filtered: 0,
            undecided: 0,
            sampled,
            synthesised: 0,
        };
        let events = vec![Event::at(Hop::AppSend, 1); recorded as usize];
        rates.sampled.batch(&Batch { events, counts: vec![count], ..Batch::default() });
        rates
    }

    fn flow(local: &str, remote: &str) -> Flow {
        let end = |text: &str| text.parse().expect("an end");
        Flow { id: FlowId(1), netns: 1, proto: Proto::UDP, local: end(local), remote: end(remote) }
    }

    /// Two large sends without a peer, and ten small ones of a flow.
    fn sends(rates: &mut HopRates) {
        let of_flow = Event { flow: FlowId(1), ..Event::at(Hop::AppSend, 1) };
        (0..2).for_each(|_| rates.event(&Event::at(Hop::AppSend, 1), 1_000, None));
        let flow = flow("10.0.0.1:4000", "10.0.0.2:53");
        (0..10).for_each(|_| rates.event(&of_flow, 10, Some(&flow)));
    }

    fn rounded(bytes: Option<f64>) -> Option<u64> {
        bytes.map(|bytes| bytes.round() as u64)
    }

    #[test]
    fn bytes_without_a_flow_are_never_left_out_by_a_sampler_of_flows() {
        let mut of_flows = rates(&["sample flows 1/8"], 12, 70);
        sends(&mut of_flows);
        assert_eq!(rounded(of_flows.all_bytes(Hop::AppSend)), Some(2_000 + 80 * 10));
        let mut single = rates(&["sample 1/4 app.send"], 12, 36);
        sends(&mut single);
        assert_eq!(rounded(single.all_bytes(Hop::AppSend)), Some(4 * 2_100));
        let mut all = rates(&["sample flows 1/1"], 12, 0);
        sends(&mut all);
        assert_eq!(rounded(all.all_bytes(Hop::AppSend)), Some(2_100));
    }

    #[test]
    fn bytes_of_an_order_only_record_are_not_scaled() {
        let mut rates = rates(&["sample flows 1/8"], 13, 70);
        sends(&mut rates);
        let other = Event { flow: FlowId(2), flags: EventFlags::ORDER, ..Event::at(Hop::AppSend, 1) };
        rates.event(&other, 500, Some(&flow("10.0.0.1:4000", "10.0.0.2:54")));
        assert_eq!(rounded(rates.all_bytes(Hop::AppSend)), Some(2_500 + 80 * 10));
    }

    #[test]
    fn bytes_of_events_with_unknown_weights_are_not_estimated() {
        let mut mixed = rates(&["sample flows 1/8", "sample 1/2 app.send"], 12, 70);
        sends(&mut mixed);
        assert_eq!(mixed.all_bytes(Hop::AppSend), None);
        let mut changed = rates(&["sample flows 1/8"], 12, 70);
        sends(&mut changed);
        let change = Change { from_ns: 1, to_ns: 2, what: "sample flows 1/4".to_owned() };
        changed.sampled.batch(&Batch { changes: vec![change], ..Batch::default() });
        assert_eq!(changed.all_bytes(Hop::AppSend), None);
        let mut unknown = rates(&["sample flows 1/8"], 12, 70);
        sends(&mut unknown);
        unknown.event(&Event { flow: FlowId(9), ..Event::at(Hop::AppSend, 1) }, 10, None);
        assert_eq!(unknown.all_bytes(Hop::AppSend), None);
        assert_eq!(rates(&["sample flows 1/8"], 12, 70).all_bytes(Hop::AppSend), None, "no event of a flow");
    }
}
