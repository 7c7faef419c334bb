//! Lines of pieces back to the events they were cut from.
//!
//! A log has a line a journey and hop. Where one event passed several journeys (a `send` of many packets, a packet with the end of one
//! message and the beginning of the next) there are as many lines of the same instant, and one that concerns two passes of the same
//! bytes has a line for each. As events of their own they would say something else: a `send` that returned with fewer bytes takes back
//! what it had announced.

use magscope_core::{Event, Hop, Proto};

/// Events of one instant that are looked at to find the one that another belongs to.
const NEAR: usize = 64;

/// Events in order of time, those of one instant, place and thread put together where their ranges touch or lie over each other.
pub fn rejoin(events: &mut Vec<Event>) {
    events.sort_by_key(|event| event.time_ns);
    let mut kept: Vec<Event> = Vec::with_capacity(events.len());
    for event in events.drain(..) {
        let near = kept.iter_mut().rev().take(NEAR).take_while(|before| before.time_ns == event.time_ns);
        if !near.into_iter().any(|before| join(before, &event)) {
            kept.push(event);
        }
    }
    *events = kept;
}

/// Puts `event` into `before` if the two are one.
fn join(before: &mut Event, event: &Event) -> bool {
    let place = |e: &Event| (e.time_ns, e.hop, e.flow, e.cpu, e.tid, e.flags, e.detail);
    if before.proto != Proto::TCP || event.proto != Proto::TCP || place(before) != place(event) {
        return false;
    }
    if matches!(before.hop, Hop::SockReady | Hop::TaskWake | Hop::TaskRun | Hop::SkbDrop) {
        return false;
    }
    // Ranges by how far they are from the beginning of the one: sequence numbers wrap.
    let from = i64::from(event.seq.wrapping_sub(before.seq).cast_signed());
    let (to, end) = (from + i64::from(event.len), i64::from(before.len));
    if from > end || to < 0 {
        return false;
    }
    let (first, last) = (from.min(0), to.max(end));
    let Ok(len) = u32::try_from(last - first) else { return false };
    before.seq = before.seq.wrapping_add_signed(first as i32);
    before.len = len;
    // The newest of several passes: the packet was that one's, and the bytes' first time there is told by its being the first.
    before.ip_id = before.ip_id.max(event.ip_id);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(ns: u64, seq: u32, len: u32) -> Event {
        Event { seq, len, ..Event::at(Hop::AppSend, ns) }
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
        events.push(Event { proto: Proto::UDP, ..piece(4, 0, 5) });
        events.push(Event { proto: Proto::UDP, ..piece(4, 0, 5) });
        rejoin(&mut events);
        let ranges: Vec<_> = events.iter().map(|e| (e.time_ns, e.seq, e.len)).collect();
        // What does not touch, is elsewhere, or is no stream stays apart.
        let want = [(1, 0, 25), (1, 25, 5), (2, 100, 10), (2, 111, 10), (3, wraps, 15), (4, 0, 5), (4, 0, 5)];
        assert_eq!(ranges, want);
    }
}
