//! What identifies a journey on both hosts, as one number.

use magscope_core::{Flow, Journey, Proto};
use std::net::{IpAddr, SocketAddr};

/// Buckets that keys are put into: tables with the same number of files by bucket join file by file.
pub const BUCKETS: i64 = 64;

/// The wire key: 63 bits that both ends compute alike from what they read in the packet. TCP: protocol, addresses, ports and the first
/// sequence number. Datagrams: protocol, addresses, ports, identification and length; those without identification have none.
pub fn key(journey: &Journey, tx: Option<&Flow>, rx: Option<&Flow>) -> Option<u64> {
    Ends::of(journey.proto, ends(tx, rx)?).key(journey)
}

/// Where journeys of these flows come from and go to.
pub fn ends(tx: Option<&Flow>, rx: Option<&Flow>) -> Option<(SocketAddr, SocketAddr)> {
    tx.map(|f| (f.local, f.remote)).or_else(|| rx.map(|f| (f.remote, f.local)))
}

/// What the keys of all journeys between two ends have in common.
#[derive(Clone, Copy, Debug)]
pub struct Ends(u64);

impl Ends {
    /// Of this protocol, from the first to the second.
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
