//! The first bytes of a packet's payload, on request.

use crate::flow::{FlowId, Proto};
use crate::hop::Hop;
use std::fmt::Write;

/// The first bytes of the payload of one event's packet. Captured only on request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadHead {
    /// Time of the event, nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The event's flow.
    pub flow: FlowId,
    /// TCP sequence number of the packet's first byte, as in [`crate::Event::seq`]; 0 for another protocol.
    pub seq: u32,
    /// Payload bytes that the packet has at this hop.
    pub of_bytes: u32,
    /// Number of the event in this CPU's stream of records, modulo 2³².
    pub event: u32,
    /// Number of this record itself in that stream.
    pub record: u32,
    /// The CPU.
    pub cpu: u16,
    /// IPv4 identification of the packet.
    pub ip_id: u16,
    /// The event's hop.
    pub hop: Hop,
    /// The event's protocol.
    pub proto: Proto,
    /// The bytes: as many as requested, present and readable.
    pub bytes: Vec<u8>,
}

impl PayloadHead {
    /// Lines of 16 bytes, each in hexadecimal and as ASCII where printable; never a control character.
    pub fn dump(&self) -> Vec<String> {
        let line = |(at, bytes): (usize, &[u8])| {
            let mut hex = String::with_capacity(48);
            for byte in bytes {
                // Writing into a String cannot fail.
                let _ = write!(hex, "{byte:02x} ");
            }
            let ascii: String = bytes
                .iter()
                .map(|b| if b.is_ascii_graphic() || *b == b' ' { char::from(*b) } else { '.' })
                .collect();
            format!("{:04x}  {hex:<48} {ascii}", at * 16)
        };
        self.bytes.chunks(16).enumerate().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_has_sixteen_bytes_a_line_and_nothing_that_moves_a_cursor() {
        let head = PayloadHead {
            time_ns: 1,
            flow: FlowId(1),
            seq: 0,
            of_bytes: 40,
            event: 1,
            record: 2,
            cpu: 0,
            ip_id: 0,
            hop: Hop::DevRecv,
            proto: Proto::UDP,
            bytes: b"GET / HTTP/1.1\r\n\x1b[2J".to_vec(),
        };
        assert_eq!(
            head.dump(),
            [
                "0000  47 45 54 20 2f 20 48 54 54 50 2f 31 2e 31 0d 0a  GET / HTTP/1.1..",
                "0010  1b 5b 32 4a                                      .[2J",
            ]
        );
    }
}
