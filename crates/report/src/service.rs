//! A service: the port that its clients send to.

use magscope_core::context::Context;
use magscope_core::flow::Proto;
use magscope_core::journey::Journey;

/// A port, as seen by the packets to it or from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey {
    /// Protocol.
    pub proto: Proto,
    /// The lower port of the two ends; `None` without an observed flow or without ports.
    pub port: Option<u16>,
    /// True for journeys to the port, false for those from it.
    pub to_port: bool,
}

impl ServiceKey {
    /// Of a journey.
    pub fn of(journey: &Journey, context: &dyn Context) -> Self {
        let ends = context.tx_flow(journey).map(|flow| (flow.local, flow.remote));
        let ends = ends.or_else(|| context.rx_flow(journey).map(|flow| (flow.remote, flow.local)));
        Self::of_ports(journey.proto, ends.map(|(from, to)| (from.port(), to.port())))
    }

    /// Of the sender's port and the receiver's.
    pub fn of_ports(proto: Proto, ports: Option<(u16, u16)>) -> Self {
        let ports = ports.filter(|ports| *ports != (0, 0));
        ServiceKey {
            proto,
            port: ports.map(|(from, to)| from.min(to)),
            to_port: ports.is_none_or(|(from, to)| to <= from),
        }
    }

    /// `udp to :7777`.
    pub fn words(self) -> String {
        let direction = if self.to_port { "to" } else { "from" };
        match self.port {
            Some(port) => format!("{} {direction} :{port}", self.proto),
            None => self.proto.to_string(),
        }
    }
}
