//! The connection and the direction of a half.

use magscope_core::flow::{Endpoint, Flow, Proto, canonical, is_from_anybody};

/// The end of the path that a half covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    Tx = 0,
    Rx = 1,
}

impl End {
    pub const fn other(self) -> Self {
        match self {
            Self::Tx => Self::Rx,
            Self::Rx => Self::Tx,
        }
    }
}

/// One direction between two addresses, from one end's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub proto: Proto,
    pub from: Endpoint,
    pub to: Endpoint,
    /// Recording and namespace, for addresses that mean another host in each of them.
    private: Option<(u16, u32)>,
    /// The end of the half, if no other half can have the same packets.
    alone: Option<End>,
}

impl Key {
    /// The key of a half at `end`, from its `flow`.
    pub fn of(node: u16, end: End, flow: &Flow) -> Self {
        let (from, to) = match end {
            End::Tx => (flow.local, flow.remote),
            End::Rx => (flow.remote, flow.local),
        };
        let alone = is_from_anybody(flow.proto, from).then_some(end);
        let private = from.ip().is_loopback() || to.ip().is_loopback() || alone.is_some();
        let private = private.then_some((node, flow.netns));
        Key { proto: flow.proto, from: canonical(from), to: canonical(to), private, alone }
    }

    /// The key of the answers.
    pub const fn reversed(&self) -> Self {
        Key { from: self.to, to: self.from, ..*self }
    }

    /// True if one of the two addresses is the same in both.
    pub fn shares_address(&self, other: &Key) -> bool {
        // The identifier of an ICMP echo is in the place of both ports, and a translator may change it.
        let is_same = |one: Endpoint, two: Endpoint| {
            if self.proto.has_ports() { one == two } else { one.ip() == two.ip() }
        };
        is_same(self.from, other.from) || is_same(self.to, other.to)
    }

    /// True if one send may reach several receivers.
    pub fn has_many_receivers(&self) -> bool {
        match self.to.ip() {
            std::net::IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
            std::net::IpAddr::V6(ip) => ip.is_multicast(),
        }
    }

    pub const fn is_private(&self) -> bool {
        self.private.is_some()
    }
}
