//! The passages of one piece through forwarders, and inside the outer packets of tunnels, while it is open.

use super::forwarder::{Forwarder, MAX_FORWARDERS};
use super::ip_ids::IpIds;
use super::piece::{Mark, RX, TX};
use super::rungs::{Rungs, bit};
use super::state::Ends;
use crate::event::Event;
use crate::flow::FlowId;
use crate::hop::{Direction, Hop};

/// Maximum number of stored passages: of several copies through several nodes.
const MAX_TRANSITS: usize = 2 * MAX_FORWARDERS;

/// One passage through one node.
#[derive(Clone, Copy, Debug, Default)]
struct Transit {
    netns: u32,
    /// The hops are those of the outer packet of a tunnel.
    is_outer: bool,
    /// Identifications of the packet.
    ids: IpIds,
    /// True if the kernel dropped the packet in this node.
    ended: bool,
    /// The node has sent copies of it on, of which no hop is recorded.
    is_copier: bool,
    at: Forwarder,
}

/// The passages of a piece in the order of their first events.
#[derive(Clone, Debug, Default)]
pub(super) struct Transits {
    list: Vec<Transit>,
}

impl Transits {
    /// Records an event of a forwarder, or of the outer packet of a tunnel (`is_outer`), in the namespace `netns`. Returns
    /// false without room for it.
    pub fn record(&mut self, (netns, is_outer): (u32, bool), event: &Event, mark: &Mark) -> bool {
        let Mark { hop, time_ns, cpu, ids, .. } = *mark;
        let receives = hop.direction() == Direction::Rx;
        let may_be = |of: IpIds| !of.is_present() || !ids.is_present() || of.meets(ids);
        let found =
            self.list.iter().rposition(|of| (of.netns, of.is_outer) == (netns, is_outer) && may_be(of.ids));
        let newest = found.and_then(|index| Some((index, &self.list.get(index)?.at)));
        let index = match newest {
            // A packet that left and comes in again, or comes in twice at one interface, is a new passage.
            Some((_, at)) if receives && at.rungs.present() & TX != 0 => None,
            Some((_, at)) if receives && at.rungs.has(hop) && at.rx_ifindex == event.ifindex => None,
            // What came out of a tunnel enters the next one.
            Some((_, at)) if is_outer && !receives && at.rungs.present() & RX != 0 => None,
            // The outer packet of another copy: each passes a hop once, and further devices below.
            Some((_, at)) if is_outer && !receives && at.rungs.has(hop) => {
                let is_below = matches!(hop, Hop::DevQueue | Hop::DevXmit) && at.tx_ifindex != event.ifindex;
                newest.map(|(index, _)| index).filter(|_| is_below)
            }
            // A further device of this node, after the next node had the packet.
            Some((index, at)) if !receives && index + 1 < self.list.len() && at.rungs.has(hop) => return true,
            newest => newest.map(|(index, _)| index),
        };
        let index = match index {
            Some(index) => index,
            None if self.list.len() < MAX_TRANSITS => {
                self.list.reserve_exact(1);
                let at = Forwarder { rx_ifindex: event.ifindex, ..Forwarder::default() };
                self.list.push(Transit { netns, is_outer, ids, at, ..Transit::default() });
                self.list.len() - 1
            }
            None => return false,
        };
        let Some(Transit { at, ended, .. }) = self.list.get_mut(index) else { return false };
        // The kernel frees the parts of a merged packet that it cuts, and sends their bytes.
        *ended &= receives;
        if receives {
            at.rx_flow = event.flow;
            at.rungs.set_first(hop, time_ns, cpu);
        } else {
            (at.tx_flow, at.tx_ifindex) = (event.flow, event.ifindex);
            at.rungs.set(hop, time_ns, cpu, false);
        }
        true
    }

    /// True if the packet came to its last node, and was not seen to leave it at `tx_last`.
    pub fn are_in_node(&self, tx_last: Option<Hop>) -> bool {
        let last = self.list.iter().rfind(|of| !of.is_outer && !of.ended);
        last.filter(|of| !of.is_copier).is_some_and(|of| {
            // A device on top of another one hands the packet on to the queue below. A forwarder has no place for the
            // driver's return, the last hop of a sender.
            let [queued_ns, sent_ns] = [Hop::DevQueue, Hop::DevXmit].map(|hop| of.at.rungs.time_ns(hop));
            let has_left = match sent_ns {
                Some(sent_ns) => queued_ns.is_none_or(|queued_ns| queued_ns <= sent_ns),
                None => tx_last.is_some_and(|hop| of.at.rungs.has(hop)),
            };
            of.at.rungs.present() & RX != 0 && !has_left
        })
    }

    /// The packet is to a group, and a node that sends it on received it as `entry` shows. Only the first node is on the path
    /// to each of its receivers.
    pub fn note_copier(&mut self, netns: u32, entry: Forwarder) {
        if self.list.iter().all(|of| of.is_outer) && self.list.len() < MAX_TRANSITS {
            self.list.push(Transit { netns, is_copier: true, at: entry, ..Transit::default() });
        }
    }

    /// The kernel dropped the packet in this namespace, where it had not left.
    pub fn end(&mut self, netns: u32) {
        if let Some(of) = self.list.iter_mut().rfind(|of| of.netns == netns && !of.is_outer) {
            of.ended = of.at.rungs.present() & TX == 0;
        }
    }

    /// The hops at the node of this flow, which is the receiver after all.
    pub fn give_end(&mut self, flow: FlowId) -> Rungs {
        let found = self.list.iter().position(|of| of.at.rx_flow == flow && !of.is_outer);
        let mut rungs = Rungs::default();
        if let Some(index) = found {
            // What it sends is a copy, as of a mirror.
            rungs.take(&self.list.remove(index).at.rungs, RX);
        }
        rungs
    }

    /// The hops of an end that was a forwarder after all become its passage.
    pub fn take_end(&mut self, netns: u32, end: Forwarder) {
        if end.rungs.is_empty() {
            return;
        }
        let joins = |of: &&mut Transit| {
            !of.is_outer && of.netns == netns && of.at.rungs.present() & end.rungs.present() == 0
        };
        if let Some(Transit { at, .. }) = self.list.iter_mut().find(joins) {
            at.rungs.take(&end.rungs, RX | TX);
            if end.rx_flow.is_none() {
                (at.tx_flow, at.tx_ifindex) = (end.tx_flow, end.tx_ifindex);
            } else {
                (at.rx_flow, at.rx_ifindex) = (end.rx_flow, end.rx_ifindex);
            }
        } else if self.list.len() < MAX_TRANSITS {
            self.list.push(Transit { netns, at: end, ..Transit::default() });
        }
    }

    /// The forwarders of the packet with these hops and identifications, or with `is_outer` its outer packets: those
    /// between its departure and its arrival. The ends themselves are none. `resent`: other packets had the same bytes; a
    /// node that several of them may have passed is left out, because nothing shows which one it was.
    pub fn of(&self, is_outer: bool, ends: &Ends, rungs: &Rungs, resent: bool, ids: IpIds) -> Vec<Forwarder> {
        let times = |hops: u32| {
            let all = rungs.hops().filter(move |hop| bit(*hop) & hops != 0 && *hop != Hop::DevDone);
            all.filter(|hop| !rungs.is_at_return(*hop)).filter_map(|hop| rungs.time_ns(hop))
        };
        let (left_ns, came_ns) = (times(TX).max().unwrap_or(0), times(RX).min().unwrap_or(u64::MAX));
        let fits = |of: &&Transit| {
            let is_between = of.at.span_ns().is_some_and(|(from, to)| left_ns <= from && to <= came_ns);
            // An end may send a copy of what it receives, as a mirror does.
            let has_sent = !of.at.tx_flow.is_none();
            let is_end = !is_outer && of.at.rx_flow == ends.rx.flow && !(has_sent && ends.rx.flow.is_none());
            let is_its = !ids.is_present() || !of.ids.is_present() || of.ids.meets(ids);
            // A node that dropped its copy of a packet that arrived was not on the way.
            let is_aside = of.ended && came_ns != u64::MAX;
            of.is_outer == is_outer && is_between && !is_end && is_its && !is_aside
        };
        let mut all: Vec<&Transit> = self.list.iter().filter(fits).collect();
        all.sort_by_key(|of| of.at.span_ns());
        let place = |of: &Transit| (of.netns, of.at.rx_ifindex);
        let mut forwarders = Vec::with_capacity(all.len().min(MAX_FORWARDERS));
        for (n, of) in all.iter().enumerate() {
            let is_again = all.iter().take(n).any(|other| place(other) == place(of));
            let is_one = all.iter().filter(|other| place(other) == place(of)).count() == 1;
            // A second passage of one packet is that of a duplicate.
            if forwarders.len() < MAX_FORWARDERS && (is_one || !resent && !is_again) {
                forwarders.push(of.at);
            }
        }
        forwarders
    }
}
