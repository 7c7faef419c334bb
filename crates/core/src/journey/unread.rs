//! Reads that a capture filter leaves out although it keeps their datagrams.
//!
//! **The problem.** A filter by the address or port of the other end keeps the datagrams of a socket without a peer, and
//! leaves out its reads: at a read the other end is unknown, and what is undecided is left out.
//!
//! **The choice.** At its arrival, a datagram is compared as its read by a socket without a peer would be. If the
//! filter may leave that out, a missing read proves nothing. Whether the socket has a peer is unknown, so the same
//! holds for one that has: its reads are recorded, and none is missing.

use crate::capture_filter::{CaptureFilter, FilterInput};
use crate::flow::Flow;
use crate::hop::Hop;
use crate::node::NodeInfo;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Maximum number of filters of a capture that are stored.
const MAX_FILTERS: usize = 8;

/// The filters of a capture, past ones included: datagrams of their time may still wait.
#[derive(Clone, Debug, Default)]
pub(super) struct UnreadByFilter {
    filters: Vec<CaptureFilter>,
    /// There were more.
    is_full: bool,
}

impl UnreadByFilter {
    /// Adds a filter in the syntax of the command line; `off` and one that is not understood add none.
    pub fn add(&mut self, filter: &str) {
        let Ok(filter) = CaptureFilter::parse(filter) else { return };
        if self.filters.contains(&filter) {
            return;
        }
        if self.filters.len() >= MAX_FILTERS {
            self.is_full = true;
            return;
        }
        self.filters.push(filter);
    }

    /// True if the read of a datagram that arrived in this flow may have been left out.
    pub fn may_hide_read(&self, flow: &Flow) -> bool {
        if self.filters.is_empty() {
            return false;
        }
        let anybody = match flow.remote.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        // A socket may be bound to all addresses of its host.
        let local = SocketAddr::new(anybody, flow.local.port());
        let socket = Flow { local, remote: SocketAddr::new(anybody, 0), ..*flow };
        self.is_full || self.filters.iter().any(|filter| !keeps_read(filter, &socket))
    }
}

fn keeps_read(filter: &CaptureFilter, socket: &Flow) -> bool {
    let info = NodeInfo::default();
    let read = FilterInput {
        hop: Hop::AppRecv,
        cpu: 0,
        proto: socket.proto,
        ifindex: 0,
        len: 0,
        socket: 0,
        flow: Some(socket),
        task: None,
        info: &info,
    };
    filter.holds(&read) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{FlowId, Proto};

    #[test]
    fn a_filter_hides_reads_that_it_cannot_decide_by_the_own_port() {
        let flow = Flow {
            id: FlowId(1),
            netns: 1,
            proto: Proto::UDP,
            local: "10.0.0.1:7000".parse().unwrap(),
            remote: "10.0.0.2:9000".parse().unwrap(),
        };
        let hides = |filters: &[&str]| {
            let mut unread = UnreadByFilter::default();
            for filter in filters {
                unread.add(filter);
            }
            unread.may_hide_read(&flow)
        };
        for (filter, expected) in [
            ("off", false),
            ("udp", false),
            ("port = 7000", false),
            ("port = 9000", true),
            ("host = 10.0.0.2", true),
            ("host = 10.0.0.1", true),
            ("port = 9000 or udp", false),
            ("sport = 9000", true),
            ("dport = 7000", false),
        ] {
            assert_eq!(hides(&[filter]), expected, "{filter}");
        }
        assert!(hides(&["udp", "port = 9000", "off"]), "datagrams of its time may still wait");
        let many: Vec<String> = (0..20).map(|n| format!("port = 7000 and udp and not port = {n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(hides(&many));
    }
}
