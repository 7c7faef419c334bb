//! The two ends of an exchange.

use crate::context::Context;
use crate::flow::{Endpoint, FlowId};
use crate::journey::ThreadRef;
use crate::workload::Member;
use serde::Serialize;

/// One end of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExchangeEnd {
    /// Index of the recording; 0 if there is one only.
    pub node: u16,
    /// The flow from this end; [`FlowId::NONE`] if this end is not in the capture.
    pub flow: FlowId,
    /// Its address, if a flow of either end was announced.
    pub addr: Option<Endpoint>,
    /// The thread that read the last byte from the other end.
    pub reader: Option<ThreadRef>,
    /// The thread that sent the first byte.
    pub sender: Option<ThreadRef>,
}

impl ExchangeEnd {
    /// A thread of the end: the sender, else the reader.
    pub fn thread(&self) -> Option<ThreadRef> {
        self.sender.or(self.reader)
    }

    /// Where the end runs, if known.
    pub fn member<'c>(&self, context: &'c dyn Context) -> Option<Member<'c>> {
        let task = self.thread().and_then(|thread| context.task(self.node, thread.tid));
        let netns = context.flow(self.node, self.flow).map(|flow| flow.netns);
        context.info(self.node)?.member(task, netns)
    }
}

/// The ends that the capture has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// Both ends.
    Both,
    /// The requester's: transfers and answer are one sum.
    Requester,
    /// The responder's: only its own time is known.
    Responder,
}

impl View {
    /// Name in files and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Requester => "requester",
            Self::Responder => "responder",
        }
    }
}

/// The source of the knowledge who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequesterBy {
    /// The end that opened the connection asks.
    Handshake,
    /// Assumed: the end with the port that is not a service's asks.
    Ports,
    /// UDP: the end that sent first asks.
    FirstSender,
    /// Not known.
    Unknown,
}

impl RequesterBy {
    /// Name in files and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Ports => "ports",
            Self::FirstSender => "first-sender",
            Self::Unknown => "unknown",
        }
    }
}

/// Ports of UDP whose protocols answer each request: DNS and NTP. Nobody may answer to others, as those of logs.
pub(super) const ANSWERED_PORTS: [u16; 2] = [53, 123];

/// The kind of a port, by how likely a socket that sends the first request has it.
const fn kind_of_port(port: u16) -> u8 {
    match port {
        0..1_024 => 0,
        1_024..32_768 => 1,
        // Linux gives these to sockets that ask for none (`net.ipv4.ip_local_port_range`); other systems also give higher
        // ones.
        32_768..61_000 => 3,
        61_000.. => 2,
    }
}

/// Whether the first of two ports is the requester's; `None` if the ports do not show it.
pub const fn asks_by_port(own: u16, other: u16) -> Option<bool> {
    let (own, other) = (kind_of_port(own), kind_of_port(other));
    if own == other { None } else { Some(own > other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_show_the_requester_only_where_they_differ_in_kind() {
        assert_eq!(asks_by_port(40_000, 5_432), Some(true));
        assert_eq!(asks_by_port(443, 50_123), Some(false));
        assert_eq!(asks_by_port(5_000, 80), Some(true));
        assert_eq!(asks_by_port(40_000, 50_000), None);
        assert_eq!(asks_by_port(40_000, 65_001), Some(true), "Linux gives out none above 60999");
        assert_eq!(asks_by_port(62_000, 8_080), Some(true), "another system does");
        assert_eq!(asks_by_port(61_000, 60_999), Some(false));
        assert_eq!(asks_by_port(8_080, 9_090), None);
    }
}
