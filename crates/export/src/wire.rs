//! The wire key, which identifies a journey on both hosts.

use magscope_core::{Flow, Journey, Proto};
use std::net::{IpAddr, SocketAddr};

/// Number of buckets: tables with equal buckets join file by file.
pub const BUCKETS: i64 = 64;

/// The wire key: 63 bits that both ends compute from the packet. For TCP: protocol, addresses, ports and the
/// first sequence number. For datagrams: protocol, addresses, ports, identification and length; without
/// identification there is no key.
pub fn key(journey: &Journey, tx: Option<&Flow>, rx: Option<&Flow>) -> Option<u64> {
    Ends::of(journey.proto, ends(tx, rx)?).key(journey)
}

/// Source and destination of journeys of these flows.
pub fn ends(tx: Option<&Flow>, rx: Option<&Flow>) -> Option<(SocketAddr, SocketAddr)> {
    tx.map(|f| (f.local, f.remote)).or_else(|| rx.map(|f| (f.remote, f.local)))
}

/// Common part of the keys between two ends.
#[derive(Clone, Copy, Debug)]
pub struct Ends(u64);

impl Ends {
    /// For this protocol, from the first to the second.
    pub fn of(proto: Proto, (from, to): (SocketAddr, SocketAddr)) -> Self {
        Ends([from, to].into_iter().fold(mix(u64::from(proto.0)), address))
    }

    /// The key of one of them.
    pub fn key(self, journey: &Journey) -> Option<u64> {
        let piece = if journey.proto == Proto::TCP {
            journey.range.start & 0xffff_ffff
        } else if journey.ip_id == 0 {
            return None;
        } else {
            u64::from(journey.ip_id) << 32 | journey.bytes() & 0xffff_ffff
        };
        Some(mix(self.0 ^ piece) >> 1)
    }
}

/// Hash of all traffic between the ends of a flow, independent of side and direction. For TCP it covers the
/// connection; for datagrams the two hosts, because a fragment has no ports.
pub fn conversation(flow: &Flow) -> u64 {
    let end = |end: SocketAddr| {
        let port = if flow.proto == Proto::TCP { end.port() } else { 0 };
        address(mix(u64::from(flow.proto.0)), SocketAddr::new(end.ip().to_canonical(), port))
    };
    // Symmetric in both ends.
    mix(end(flow.local).wrapping_add(end(flow.remote))) >> 1
}

/// The bucket of a key.
pub const fn bucket(key: u64) -> i64 {
    (key % BUCKETS as u64) as i64
}

pub(crate) fn address(hash: u64, end: SocketAddr) -> u64 {
    let bits = match end.ip() {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    let hash = mix(hash ^ bits as u64);
    let hash = mix(hash ^ (bits >> 64) as u64);
    mix(hash ^ u64::from(end.port()))
}

/// The finaliser of `splitmix64` (Steele, Lea and Flood, 2014).
pub(crate) const fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::FlowId;

    fn flow(proto: Proto, local: &str, remote: &str) -> Flow {
        let end = |text: &str| text.parse().expect("an address");
        Flow { id: FlowId(1), netns: 1, proto, local: end(local), remote: end(remote) }
    }

    #[test]
    fn a_conversation_is_the_same_from_both_ends() {
        let (a, b, c) = ("10.0.0.1:443", "10.0.0.2:5000", "10.0.0.2:5001");
        for proto in [Proto::TCP, Proto::UDP, Proto::ICMP] {
            assert_eq!(conversation(&flow(proto, a, b)), conversation(&flow(proto, b, a)));
        }
        assert_ne!(conversation(&flow(Proto::TCP, a, b)), conversation(&flow(Proto::TCP, a, c)));
        assert_eq!(conversation(&flow(Proto::UDP, a, b)), conversation(&flow(Proto::UDP, a, c)));
        assert_ne!(conversation(&flow(Proto::UDP, a, b)), conversation(&flow(Proto::ICMP, a, b)));
        let mapped = flow(Proto::TCP, "[::ffff:10.0.0.1]:443", "[::ffff:10.0.0.2]:5000");
        assert_eq!(conversation(&flow(Proto::TCP, a, b)), conversation(&mapped));
    }

    #[test]
    fn conversations_spread_over_all_buckets() {
        let mut filled = [0_u32; BUCKETS as usize];
        for port in 10_000..16_400 {
            let remote = format!("10.0.0.2:{port}");
            filled[bucket(conversation(&flow(Proto::TCP, "10.0.0.1:443", &remote))) as usize] += 1;
        }
        assert!(filled.iter().all(|count| (50..200).contains(count)), "{filled:?}");
    }
}
