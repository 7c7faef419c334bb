//! A service: the port that its clients send to.

use magscope_core::context::Context;
use magscope_core::exchange::asks_by_port;
use magscope_core::flow::Proto;
use magscope_core::journey::Journey;

/// A port, as seen by the packets to it or from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey {
    /// Protocol.
    pub proto: Proto,
    /// The port that is not the requester's by its kind; of two ports of one kind the lower. `None` without an observed
    /// flow or without ports.
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
        let Some((from, to)) = ports.filter(|ports| *ports != (0, 0) && proto.has_ports()) else {
            return ServiceKey { proto, port: None, to_port: true };
        };
        let to_port = asks_by_port(from, to).unwrap_or(to <= from);
        ServiceKey { proto, port: Some(if to_port { to } else { from }), to_port }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_the_port_that_clients_do_not_get() {
        let words = |proto, ports| ServiceKey::of_ports(proto, ports).words();
        for (proto, ports, expected) in [
            (Proto::TCP, Some((40_000, 443)), "tcp to :443"),
            (Proto::TCP, Some((443, 40_000)), "tcp from :443"),
            (Proto::UDP, Some((40_123, 65_001)), "udp to :65001"),
            (Proto::TCP, Some((65_000, 41_146)), "tcp from :65000"),
            (Proto::TCP, Some((8_080, 9_090)), "tcp from :8080"),
            (Proto::ICMP, Some((443, 443)), "icmp"),
            (Proto::UDP, Some((0, 0)), "udp"),
            (Proto::UDP, None, "udp"),
        ] {
            assert_eq!(words(proto, ports), expected, "{ports:?}");
        }
    }
}
