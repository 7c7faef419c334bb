//! TLS handshakes: by the first byte of captured payload, else by port and position.

use super::connection::End;
use crate::flow::{FlowId, Proto};
use crate::hash::Map;
use crate::head::PayloadHead;
use crate::hop::Direction;
use std::collections::VecDeque;

/// Ports whose services begin with a TLS handshake.
const PORTS: [u16; 13] = [465, 563, 636, 853, 989, 990, 992, 993, 994, 995, 5_061, 5_671, 8_883];
/// 443, and by convention 8443, 10443 and their like.
const HTTPS: u16 = 443;
/// A handshake takes at most this many exchanges (TLS 1.2: two).
const EXCHANGES: u64 = 2;
/// Content types of TLS records (RFC 8446, section 5.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;

/// Maximum number of directions with stored bytes, and of stored packets of one.
const MOST_DIRECTIONS: usize = 1 << 14;
const MOST_PACKETS: usize = 64;

/// Sequence numbers and first two bytes of recent packets.
type Packets = VecDeque<(u32, [u8; 2])>;

/// The first bytes of recent packets, by the end at which they were captured and whether it sent them.
#[derive(Debug, Default)]
pub(super) struct Heads(Map<(u16, FlowId, bool), Packets>);

impl Heads {
    pub fn push(&mut self, node: u16, head: &PayloadHead) {
        let Some(bytes) = head.bytes.first_chunk::<2>().filter(|_| head.proto == Proto::TCP) else { return };
        let at = (node, head.flow, head.hop.direction() == Direction::Tx);
        if self.0.len() >= MOST_DIRECTIONS && !self.0.contains_key(&at) {
            self.0.clear();
        }
        let packets = self.0.entry(at).or_default();
        if packets.back() == Some(&(head.seq, *bytes)) {
            return;
        }
        if packets.len() >= MOST_PACKETS {
            packets.pop_front();
        }
        packets.push_back((head.seq, *bytes));
    }

    /// The bytes at a position of a stream.
    pub fn at(&self, end: End, sent: bool, position: u64) -> Option<[u8; 2]> {
        let packets = self.0.get(&(end.node, end.flow, sent))?;
        packets.iter().rev().find(|(seq, _)| *seq == position as u32).map(|(_, bytes)| *bytes)
    }
}

/// Whether an exchange belongs to the handshake of TLS: from the first two bytes of its request if they were captured,
/// else by the responder's port and by being one of the first.
pub(super) fn is_handshake(head: Option<[u8; 2]>, proto: Proto, port: Option<u16>, exchanges: u64) -> bool {
    match head {
        Some([kind, version]) => version == 3 && matches!(kind, HANDSHAKE | CHANGE_CIPHER_SPEC),
        None => {
            proto == Proto::TCP
                && exchanges < EXCHANGES
                && port.is_some_and(|port| port % 1_000 == HTTPS || PORTS.contains(&port))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_bytes_decide_before_the_port() {
        let (tls, http) = (Some([22, 3]), Some(*b"GE"));
        assert!(is_handshake(tls, Proto::TCP, Some(80), 5));
        assert!(!is_handshake(http, Proto::TCP, Some(443), 0));
        assert!(!is_handshake(Some([23, 3]), Proto::TCP, Some(443), 1));
        assert!(is_handshake(None, Proto::TCP, Some(443), 1));
        assert!(!is_handshake(None, Proto::TCP, Some(443), 2));
        assert!(!is_handshake(None, Proto::TCP, Some(6379), 0));
        assert!(!is_handshake(None, Proto::TCP, None, 0));
        assert!(!is_handshake(None, Proto::UDP, Some(443), 0));
    }
}
