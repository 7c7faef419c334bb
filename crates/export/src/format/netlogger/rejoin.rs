//! Merges lines of pieces into the original events.
//!
//! A log has one line per journey and hop. An event that concerns several journeys has several lines of the
//! same instant. Examples are a `send` of many packets and a packet with parts of two messages. Two passes of
//! the same bytes also have a line each.
//!
//! Separate events would have another meaning: a `send` that returned with fewer bytes cancels the rest of its
//! announcement. Datagrams of one `UDP_SEGMENT` call left as one super-packet; as separate sends, each would be
//! given up when the next began. Lines of one datagram with several receivers are one event before they come here.

use magscope_core::hop::Role;
use magscope_core::{Detail, DetailKind, Event, EventFlags, ExtentKind, FlowId, Hop, Proto};

/// Maximum number of events of one instant that are compared.
const NEAR: usize = 64;

/// Sorts events by time and merges those of one instant, place and thread with adjacent or overlapping ranges.
pub fn rejoin(events: &mut Vec<Event>) {
    events.sort_by_key(|event| event.time_ns);
    let of_one_instant = events.chunk_by_mut(|a, b| a.time_ns == b.time_ns);
    of_one_instant.filter(|group| group.len() > 1).for_each(super_packets);
    events.retain(|event| event.hop != Hop::IpOut || event.segs > 0);
    let mut merged: Vec<Event> = Vec::with_capacity(events.len());
    for event in events.drain(..) {
        let near = merged.iter_mut().rev().take(NEAR).take_while(|before| before.time_ns == event.time_ns);
        if !near.into_iter().any(|before| join(before, &event)) {
            merged.push(event);
        }
    }
    *events = merged;
}

/// Place and thread of events of one instant.
fn place(e: &Event) -> (Hop, FlowId, u16, u32, EventFlags, Detail) {
    (e.hop, e.flow, e.cpu, e.tid, e.flags, e.detail)
}

/// Merges datagrams sent in one instant into a run of segments, if their identifications are consecutive and
/// all but the last have equal length. The first becomes the run; the others have no segments.
fn super_packets(of_one_instant: &mut [Event]) {
    let leaves = |e: &&mut Event| e.hop == Hop::IpOut && e.proto == Proto::UDP && e.segs == 1;
    let mut packets: Vec<&mut Event> = of_one_instant.iter_mut().filter(leaves).collect();
    packets.sort_by_key(|e| (e.flow, e.cpu, e.tid, e.ip_id));
    // A run is ambiguous if all of it is: each datagram has further lines with its own mark.
    let place_of_run = |e: &Event| place(&Event { flags: e.flags.without(EventFlags::AMBIGUOUS), ..*e });
    for run in packets.chunk_by_mut(|a, b| place_of_run(a) == place_of_run(b)) {
        // Identifications wrap; without them (IPv6) only the last one's length helps.
        if let Some(at) = run.windows(2).position(|pair| pair[1].ip_id.wrapping_sub(pair[0].ip_id) > 1) {
            run.rotate_left(at + 1);
        }
        let numbered = run.iter().any(|e| e.ip_id != 0);
        if !numbered {
            run.sort_by_key(|e| std::cmp::Reverse(e.len));
        }
        let step = u16::from(numbered);
        let follows =
            |a: &Event, b: &Event| b.ip_id == a.ip_id.wrapping_add(step) && b.len <= a.len && a.len > 0;
        let Some((first, others)) = run.split_first_mut() else { continue };
        let Some((last, whole)) = others.split_last() else { continue };
        let size = first.len;
        let mut before: &Event = first;
        let in_order = others.iter().all(|next| follows(std::mem::replace(&mut before, next), next));
        let total = u64::from(size) * (whole.len() as u64 + 1) + u64::from(last.len);
        let (Ok(len), Ok(segs)) = (u32::try_from(total), u16::try_from(others.len() + 1)) else { continue };
        if in_order && whole.iter().all(|e| e.len == size) {
            (first.extent, first.len, first.segs) = (ExtentKind::Segments.of(size), len, segs);
            if !others.iter().all(|e| e.is_ambiguous()) {
                first.flags = first.flags.without(EventFlags::AMBIGUOUS);
            }
            for event in others.iter_mut() {
                event.segs = 0;
            }
        }
    }
}

/// True for an event of a packet: it passes, or ends.
pub(super) fn is_packet(hop: Hop) -> bool {
    matches!(hop.role(), Role::Packet | Role::Drop)
}

/// Merges `event` into `before` if both are parts of one event.
fn join(before: &mut Event, event: &Event) -> bool {
    let ready = before.proto == Proto::TCP && before.hop == Hop::SockReady;
    let poller = before.detail.poller_tid().max(event.detail.poller_tid());
    // A polling reader belongs to only some of the journeys.
    let (was, is) = (Event { detail: Detail::None, ..*before }, Event { detail: Detail::None, ..*event });
    if ready && is.proto == Proto::TCP && place(&was) == place(&is) {
        // Data up to a sequence number was ready: each journey has a line with its own end. Sequence numbers
        // wrap.
        if event.seq().wrapping_sub(before.seq()).cast_signed() > 0 {
            before.extent = event.extent;
        }
        before.detail = DetailKind::Poller.of(poller);
        return true;
    }
    // The line of a packet has a thread if no hop of a socket has one.
    let (tid, tgid) = (before.tid.max(event.tid), before.tgid.max(event.tgid));
    let threads = is_packet(before.hop) && (before.tid == 0 || event.tid == 0);
    let (was, is) =
        if threads { (Event { tid, ..*before }, Event { tid, ..*event }) } else { (*before, *event) };
    if was.proto != is.proto || place(&was) != place(&is) {
        return false;
    }
    let sends = before.hop.role() == Role::Send && before.hop.passes(Proto::UDP);
    if before.proto == Proto::UDP && sends && before.tid != 0 {
        // A thread makes one call at a time.
        before.len = before.len.saturating_add(event.len);
        return true;
    }
    if before.proto != Proto::TCP {
        return false;
    }
    if matches!(before.hop, Hop::SockReady | Hop::TaskWake | Hop::TaskRun) {
        return false;
    }
    // Ranges relative to the start of the first: sequence numbers wrap.
    let from = i64::from(event.seq().wrapping_sub(before.seq()).cast_signed());
    let (to, end) = (from + i64::from(event.len), i64::from(before.len));
    if from > end || to < 0 {
        return false;
    }
    let (first, last) = (from.min(0), to.max(end));
    let Ok(len) = u32::try_from(last - first) else { return false };
    before.extent = ExtentKind::Stream.of(before.seq().wrapping_add_signed(first as i32));
    before.len = len;
    (before.tid, before.tgid) = (tid, tgid);
    // The newest of several passes: the packet belongs to that one, and the first pass of the bytes is marked
    // as such.
    before.ip_id = before.ip_id.max(event.ip_id);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(ns: u64, seq: u32, len: u32) -> Event {
        Event { extent: ExtentKind::Stream.of(seq), len, ..Event::at(Hop::AppSend, ns) }
    }

    #[test]
    fn pieces_of_one_instant_are_one_event_again() {
        let wraps = u32::MAX - 9;
        let mut events = vec![
            piece(2, 100, 10),
            piece(1, 10, 10),
            piece(1, 0, 10),
            piece(1, 20, 5),
            piece(2, 111, 10),
            piece(3, 0, 5),
            piece(3, wraps, 10),
            piece(3, wraps, 10),
        ];
        events.push(Event { cpu: 1, ..piece(1, 25, 5) });
        // The thread is ambiguous.
        events.push(Event { proto: Proto::UDP, ..piece(4, 0, 5) });
        events.push(Event { proto: Proto::UDP, ..piece(4, 0, 5) });
        rejoin(&mut events);
        let ranges: Vec<_> = events.iter().map(|e| (e.time_ns, e.seq(), e.len)).collect();
        // Events that are not adjacent, elsewhere, or no stream stay separate.
        let want = [(1, 0, 25), (1, 25, 5), (2, 100, 10), (2, 111, 10), (3, wraps, 15), (4, 0, 5), (4, 0, 5)];
        assert_eq!(ranges, want);
    }

    #[test]
    fn one_announcement_of_ready_data_is_one_event_for_all_its_journeys() {
        let ready = |ns, seq| Event { extent: ExtentKind::Stream.of(seq), ..Event::at(Hop::SockReady, ns) };
        let mut events = vec![ready(1, 20), ready(1, 30), ready(1, 10), ready(2, u32::MAX - 5), ready(2, 4)];
        rejoin(&mut events);
        let all: Vec<_> = events.iter().map(|e| (e.time_ns, e.seq())).collect();
        assert_eq!(all, [(1, 30), (2, 4)]);
    }

    #[test]
    fn datagrams_of_one_call_are_one_send_and_one_super_packet() {
        let packet =
            |ip_id: u16, len: u32| Event { ip_id, len, segs: 1, proto: Proto::UDP, ..Event::at(Hop::IpOut, 2) };
        let runs = |ids: &[(u16, u32)]| {
            let mut events: Vec<Event> = ids.iter().map(|(ip_id, len)| packet(*ip_id, *len)).collect();
            events.extend(ids.iter().map(|(_, len)| Event { proto: Proto::UDP, tid: 7, ..piece(1, 0, *len) }));
            rejoin(&mut events);
            let sent: Vec<u32> = events.iter().filter(|e| e.hop == Hop::AppSend).map(|e| e.len).collect();
            let out = events.iter().filter(|e| e.hop == Hop::IpOut);
            (sent, out.map(|e| (e.ip_id, e.extent.segment_bytes(), e.len, e.segs)).collect::<Vec<_>>())
        };
        // In any order of their ends; identifications wrap.
        assert_eq!(runs(&[(0, 9), (65_535, 9), (1, 4)]), (vec![22], vec![(65_535, 9, 22, 3)]));
        assert_eq!(runs(&[(0, 4), (0, 9), (0, 9)]), (vec![22], vec![(0, 9, 22, 3)]));
        // Datagrams without consecutive identifications, or with a shorter first one, are no run.
        assert_eq!(runs(&[(3, 9), (5, 9)]).1.len(), 2);
        assert_eq!(runs(&[(3, 4), (4, 9)]).1.len(), 2);
    }
}
