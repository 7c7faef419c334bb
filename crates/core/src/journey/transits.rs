//! The passages of one piece through forwarders, while it is open.

use super::forwarder::{Forwarder, MAX_FORWARDERS};
use super::piece::{Mark, RX, TX};
use super::rungs::{Rungs, bit};
use super::state::Ends;
use crate::event::Event;
use crate::hop::{Direction, Hop};

/// Maximum number of stored passages: of several copies through several nodes.
const MAX_TRANSITS: usize = 2 * MAX_FORWARDERS;

/// The passages of a piece in the order of their first events.
#[derive(Clone, Debug, Default)]
pub(super) struct Transits {
    list: Vec<(u32, Forwarder)>,
}

impl Transits {
    /// Records an event of a forwarder in the namespace `netns`. Returns false without room for it.
    pub fn record(&mut self, netns: u32, event: &Event, mark: &Mark) -> bool {
        let Mark { hop, time_ns, cpu, .. } = *mark;
        let receives = hop.direction() == Direction::Rx;
        let found = self.list.iter().rposition(|(of, _)| *of == netns);
        let newest = found.and_then(|index| Some((index, &self.list.get(index)?.1)));
        let index = match newest {
            // A packet that left and comes in again, or comes in twice at one interface, passes anew.
            Some((_, at)) if receives && at.rungs.present() & TX != 0 => None,
            Some((_, at)) if receives && at.rungs.has(hop) && at.rx_ifindex == event.ifindex => None,
            // A further device of this node, after the next node had the packet.
            Some((index, at)) if !receives && index + 1 < self.list.len() && at.rungs.has(hop) => return true,
            newest => newest.map(|(index, _)| index),
        };
        let index = match index {
            Some(index) => index,
            None if self.list.len() < MAX_TRANSITS => {
                self.list.reserve_exact(1);
                self.list.push((netns, Forwarder { rx_ifindex: event.ifindex, ..Forwarder::default() }));
                self.list.len() - 1
            }
            None => return false,
        };
        let Some((_, at)) = self.list.get_mut(index) else { return false };
        if receives {
            at.rx_flow = event.flow;
            at.rungs.set_first(hop, time_ns, cpu);
        } else {
            (at.tx_flow, at.tx_ifindex) = (event.flow, event.ifindex);
            at.rungs.set(hop, time_ns, cpu, false);
        }
        true
    }

    /// The hops of an end that was a forwarder after all become its passage.
    pub fn take_end(&mut self, netns: u32, end: Forwarder) {
        if end.rungs.is_empty() {
            return;
        }
        let joins = |of: &u32, at: &Forwarder| *of == netns && at.rungs.present() & end.rungs.present() == 0;
        if let Some((_, at)) = self.list.iter_mut().find(|(of, at)| joins(of, at)) {
            at.rungs.take(&end.rungs, RX | TX);
            if end.rx_flow.is_none() {
                (at.tx_flow, at.tx_ifindex) = (end.tx_flow, end.tx_ifindex);
            } else {
                (at.rx_flow, at.rx_ifindex) = (end.rx_flow, end.rx_ifindex);
            }
        } else if self.list.len() < MAX_TRANSITS {
            self.list.push((netns, end));
        }
    }

    /// The forwarders of the copy with these hops: those between its departure and its arrival. If the bytes were
    /// sent several times, the newest passage through each node. The ends themselves are none.
    pub fn of(&self, ends: &Ends, rungs: &Rungs, resent: bool) -> Vec<Forwarder> {
        let times = |hops: u32| {
            let all = rungs.hops().filter(move |hop| bit(*hop) & hops != 0 && *hop != Hop::DevDone);
            all.filter(|hop| !rungs.is_at_return(*hop)).filter_map(|hop| rungs.time_ns(hop))
        };
        let (left_ns, came_ns) = (times(TX).max().unwrap_or(0), times(RX).min().unwrap_or(u64::MAX));
        let is_between =
            |at: &Forwarder| at.span_ns().is_some_and(|(from, to)| left_ns <= from && to <= came_ns);
        let is_end = |at: &Forwarder| at.tx_flow.is_none() && at.rx_flow == ends.rx.flow;
        let between = self.list.iter().filter(|(_, at)| is_between(at) && !is_end(at));
        let mut all: Vec<(u32, Forwarder)> = between.copied().collect();
        all.sort_by_key(|(_, at)| at.span_ns());
        if resent {
            let mut places = Vec::new();
            all.reverse();
            all.retain(|(netns, at)| {
                let place = (*netns, at.rx_ifindex);
                let is_newest = !places.contains(&place);
                places.push(place);
                is_newest
            });
            all.reverse();
        }
        let mut forwarders: Vec<Forwarder> = all.into_iter().map(|(_, at)| at).collect();
        forwarders.truncate(MAX_FORWARDERS);
        forwarders
    }
}
