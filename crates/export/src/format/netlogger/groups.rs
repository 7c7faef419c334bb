//! Lines that repeat an event, and datagrams to groups.
//!
//! An event of several journeys has a line in each of them. A datagram to a group has its sender's lines in the journey of
//! each receiver, and a log does not mark the arrivals of such a datagram. The address shows multicast and the broadcast of
//! a link, but not that of a subnet. Lines are in order of time, so the sender's repeated lines come before the arrivals:
//! they show all groups. Limits: no mark of an arrival that a clock's error puts before its sender, and none without an
//! identification.

use magscope_core::hash::Set;
use magscope_core::hop::Role;
use magscope_core::{Direction, Event, Flow};
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};

/// Maximum number of values of one generation.
pub(super) const MOST: usize = 1 << 16;

/// The newest values: at least [`MOST`] of them, and at most twice as many.
struct Recent<T> {
    current: Set<T>,
    /// The generation before. Without it a value would be new again when the set is full.
    previous: Set<T>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Recent { current: Set::default(), previous: Set::default() }
    }
}

impl<T: Eq + Hash> Recent<T> {
    fn contains(&self, value: &T) -> bool {
        self.current.contains(value) || self.previous.contains(value)
    }

    /// Makes a value the newest. Returns true if it is new.
    fn insert(&mut self, value: T) -> bool {
        if self.current.contains(&value) {
            return false;
        }
        let is_new = !self.previous.contains(&value);
        if self.current.len() >= MOST {
            self.previous = std::mem::take(&mut self.current);
        }
        self.current.insert(value);
        is_new
    }
}

/// An event: its hop, time, socket mixed with its bytes or packet, and thread.
type Key = (u8, u64, u64, u32);

/// Sender, destination and identification of a datagram.
type Datagram = (SocketAddr, SocketAddr, u16);

/// Events that occur in the lines of several journeys: those of the socket layer, and those of a datagram with several
/// receivers.
#[derive(Default)]
pub(super) struct Groups {
    written: Recent<Key>,
    /// Datagrams that left once and are in several journeys.
    sent: Recent<Datagram>,
    /// Repeated lines of senders, of datagrams to groups without an identification.
    pub unidentified: u64,
}

impl Groups {
    /// True if another line was of this event of a flow: a wake-up serves all available data, and a datagram with several
    /// receivers has the lines of its sender in the journey of each. An identification of 0 is none; without one
    /// nothing shows that two lines are of one datagram.
    pub(super) fn is_repeated(&mut self, event: &Event, flow: &Flow, identification: u16) -> bool {
        let role = event.hop.role();
        let is_sent = event.hop.direction() == Direction::Tx;
        let what = match role {
            Role::Ready | Role::Reader => u64::from(event.seq()) << 32,
            Role::Send | Role::Packet if identification != 0 || is_sent && is_group(flow.remote.ip()) => {
                u64::from(event.cpu) << 32 | u64::from(identification)
            }
            _ => return false,
        };
        if self.written.insert((event.hop.id(), event.time_ns, event.socket ^ what, event.tid)) {
            return false;
        }
        let is_of_datagram = matches!(role, Role::Send | Role::Packet);
        if is_of_datagram && identification == 0 {
            self.unidentified += 1;
            return false;
        }
        if role == Role::Packet && is_sent {
            self.sent.insert((flow.local, flow.remote, identification));
        }
        true
    }

    /// True for a received packet of a flow that may have further receivers: its address is that of a group, or its
    /// sender's lines are in several journeys.
    pub(super) fn is_received(&self, event: &Event, flow: &Flow, identification: u16) -> bool {
        let receives = event.hop.role() == Role::Packet && event.hop.direction() == Direction::Rx;
        let is_sent = || self.sent.contains(&(flow.remote, flow.local, identification));
        receives && identification != 0 && (is_group(flow.local.ip()) || is_sent())
    }
}

/// True for the address of a multicast group, or of all hosts of a link.
fn is_group(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_set_has_its_newest_values() {
        let mut recent = Recent::default();
        assert!((0..MOST).all(|n| recent.insert(n)));
        assert!(!recent.insert(MOST - 1), "the set is full");
        assert!(recent.insert(MOST), "a new generation");
        assert!(!recent.insert(0) && recent.contains(&1), "the generation before");
        // The next generation: 0 was used again, and 1 was not.
        assert!((MOST + 1..2 * MOST).all(|n| recent.insert(n)));
        assert!(recent.contains(&0) && !recent.contains(&1));
        assert!(recent.current.len() + recent.previous.len() <= 2 * MOST);
    }
}
