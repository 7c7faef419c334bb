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
        let by_sender = context.tx_flow(journey).map(|flow| (flow.local.port(), flow.remote.port()));
        let by_reader = context.rx_flow(journey).map(|flow| (flow.remote.port(), flow.local.port()));
        Self::of_ends(journey.proto, by_sender, by_reader)
    }

    /// Of the sender's port and the receiver's, as each of the two sees them; `None` for an end without an observed flow.
    /// A translator between them changes ports. The service of both directions is the one that the requester names, so
    /// that responses are of the service of their requests.
    pub fn of_ends(proto: Proto, by_sender: Option<(u16, u16)>, by_reader: Option<(u16, u16)>) -> Self {
        let sent = Self::of_ports(proto, by_sender.or(by_reader));
        let Some(ports) = by_reader.filter(|_| !sent.to_port) else { return sent };
        let read = Self::of_ports(proto, Some(ports));
        if read.to_port { sent } else { read }
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

    #[test]
    fn a_translated_response_is_of_the_service_of_its_request() {
        let words = |by_sender, by_reader| ServiceKey::of_ends(Proto::TCP, by_sender, by_reader).words();
        // The client asks port 80, and the server behind the translator has port 8080.
        let (asked, reached) = ((40_000, 80), (40_000, 8_080));
        let (answered, read) = ((8_080, 40_000), (80, 40_000));
        assert_eq!(words(Some(asked), Some(reached)), "tcp to :80");
        assert_eq!(words(Some(answered), Some(read)), "tcp from :80");
        // One end alone has its own ports, and nothing else.
        assert_eq!(
            (words(Some(answered), None), words(None, Some(read))),
            ("tcp from :8080".into(), "tcp from :80".into())
        );
        assert_eq!(words(None, Some(reached)), "tcp to :8080");
        assert_eq!(words(None, None), "tcp");
        // Without a translator both ends see one pair.
        assert_eq!(words(Some((443, 40_000)), Some((443, 40_000))), "tcp from :443");
    }
}
