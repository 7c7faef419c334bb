//! Blocks of a pcapng file, little-endian.

use magscope_core::Hop;
use magscope_core::change::HopCount;
use magscope_core::node::NodeInfo;
use std::fmt::Write;

/// No link layer was captured: four bytes say whether IPv4 or IPv6 follows. tcpdump reads several interfaces of this type,
/// and refuses those of raw IP (101), for which libpcap has two numbers.
const LINKTYPE_NULL: u16 = 0;
/// Families of addresses in these bytes. Systems differ in that of IPv6; readers take this one as well as the others.
const IPV4: u32 = 2;
const IPV6: u32 = 24;
/// Maximum length of an option's text.
const LONGEST: usize = 4_000;

/// A packet to be written.
pub struct Packet<'p> {
    pub interface: u32,
    /// Since 1970 UTC.
    pub ns: u64,
    pub data: &'p [u8],
    /// Original length, bytes.
    pub original_len: u32,
    pub outbound: bool,
    /// Journey number.
    pub id: Option<u64>,
    /// The CPU, as the queue.
    pub queue: u32,
    /// Records of the host lost since its previous packet.
    pub lost: u64,
    pub comments: &'p [String],
}

/// The section header: program and host.
pub fn section(out: &mut Vec<u8>, infos: &[NodeInfo]) {
    block(out, 0x0A0D_0D0A, |body| {
        body.extend(0x1A2B_3C4D_u32.to_le_bytes());
        body.extend(1_u16.to_le_bytes());
        body.extend(0_u16.to_le_bytes());
        body.extend((-1_i64).to_le_bytes());
        let kernels: Vec<&str> = infos.iter().map(|info| info.kernel.as_str()).collect();
        option(body, 3, kernels.join(", ").as_bytes());
        option(body, 4, concat!("magnet-scope ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(
            body,
            1,
            b"Headers are put together from what the probes read: addresses, ports, sequence and acknowledgement numbers, \
              flags, time to live, type of service and identification are those of the packet. Options of IPv4 and TCP, extension headers \
              of IPv6 (but that of a fragment), checksums and the link layer were not captured and are absent, or 0 (UDP over IPv6: \
              0xffff). Lengths are those of the packet, less what is absent. A window that was not captured is 65535. The queue number \
              is the CPU.",
        );
        option(body, 0, b"");
    });
}

/// An interface: a hop of a namespace of a host.
pub fn interface(out: &mut Vec<u8>, name: &str, hop: Hop) {
    block(out, 1, |body| {
        body.extend(LINKTYPE_NULL.to_le_bytes());
        body.extend(0_u16.to_le_bytes());
        body.extend(0_u32.to_le_bytes());
        option(body, 2, name.as_bytes());
        option(body, 3, format!("packets at {hop}, headers put together from what was captured").as_bytes());
        // Times are nanoseconds.
        option(body, 9, &[9]);
        option(body, 0, b"");
    });
}

/// Kernel counters at an interface's hop since the start of the capture: the file may contain only a part of
/// the packets.
pub fn statistics(out: &mut Vec<u8>, interface: u32, ns: u64, count: &HopCount) {
    block(out, 5, |body| {
        body.extend(interface.to_le_bytes());
        body.extend(((ns >> 32) as u32).to_le_bytes());
        body.extend((ns as u32).to_le_bytes());
        let HopCount { kept: recorded, sampled, .. } = count;
        let filtered = count.filtered.saturating_add(count.undecided);
        option(body, 4, &count.seen().to_le_bytes());
        option(body, 6, &count.passed().saturating_add(*sampled).to_le_bytes());
        let mut comment =
            format!("of {} hits of this hop in all namespaces {recorded} were kept", count.seen());
        // Writing into a String cannot fail.
        if *sampled > 0 {
            let weight = count.weight();
            let _ = write!(
                comment,
                "; a sampler left out {sampled}, so each that is here stands for {weight:.2} and counts are estimates"
            );
        }
        if filtered > 0 {
            let _ = write!(comment, "; a filter left out {filtered}");
        }
        option(body, 1, comment.as_bytes());
        option(body, 0, b"");
    });
}

/// Records lost after the last packet of their host. A loss has no hop and no namespace, so no interface has the
/// number.
pub fn lost_after(out: &mut Vec<u8>, interface: u32, ns: u64, lost: u64) {
    block(out, 5, |body| {
        body.extend(interface.to_le_bytes());
        body.extend(((ns >> 32) as u32).to_le_bytes());
        body.extend((ns as u32).to_le_bytes());
        let comment =
            format!("{lost} records of this host were lost after its last packet, at hops that are not known");
        option(body, 1, comment.as_bytes());
        option(body, 0, b"");
    });
}

impl Packet<'_> {
    /// Writes an enhanced packet block.
    pub fn write(&self, out: &mut Vec<u8>) {
        block(out, 6, |body| {
            body.extend(self.interface.to_le_bytes());
            body.extend(((self.ns >> 32) as u32).to_le_bytes());
            body.extend((self.ns as u32).to_le_bytes());
            let family = if self.data.first().is_some_and(|byte| byte >> 4 == 6) { IPV6 } else { IPV4 };
            let with_family = |length: u32| length.saturating_add(size_of_val(&family) as u32).to_le_bytes();
            body.extend(with_family(self.data.len() as u32));
            body.extend(with_family(self.original_len));
            body.extend(family.to_le_bytes());
            body.extend(self.data);
            pad(body);
            option(body, 2, &(if self.outbound { 2_u32 } else { 1 }).to_le_bytes());
            if self.lost > 0 {
                option(body, 4, &self.lost.to_le_bytes());
            }
            if let Some(id) = self.id {
                option(body, 5, &id.to_le_bytes());
            }
            option(body, 6, &self.queue.to_le_bytes());
            for comment in self.comments {
                option(body, 1, comment.as_bytes());
            }
            option(body, 0, b"");
        });
    }
}

/// A block: type, length, body, length again.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    let length = (out.len() - begin + 4) as u32;
    if let Some(place) = out.get_mut(begin + 4..begin + 8) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    out.extend(length.to_le_bytes());
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let mut value = value.get(..LONGEST).unwrap_or(value);
    // Truncation must not split a character.
    while std::str::from_utf8(value).is_err_and(|error| error.error_len().is_none())
        && !value.is_empty()
        && value.len() > 64
    {
        value = value.get(..value.len() - 1).unwrap_or_default();
    }
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

/// Every part has a length that is a multiple of four, so the total has too.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}
