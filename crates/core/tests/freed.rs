//! Datagrams and what the kernel frees of them: drops, and what only looks like one.

use crate::common;
use common::*;
use magscope_core::journey::Verdict;
use magscope_core::{DetailKind, Event, ExtentKind, Hop, HopSet, Proto};

/// Before Linux 6.2, the parts of a merged packet are freed like dropped packets, also after a read.
#[test]
fn a_part_of_a_merged_packet_is_dropped_with_the_whole_alone() {
    let whole = |event: Event| Event { segs: 3, extent: ExtentKind::Segments.of(400), ..event };
    let sent = down(0, 7, 3, 1_200).into_iter().map(whole);
    let came = up(100, 7, 3, 1_200).into_iter().map(|e| if e.hop == Hop::SockReady { e } else { whole(e) });
    let events: Vec<Event> = sent.chain(came).collect();
    let drop = |time_ns, ip_id, skb, len| {
        let event = udp(Hop::SkbDrop, time_ns, SERVER, ip_id, skb, len);
        Event { detail: DetailKind::DropReason.of(2), ..event }
    };
    let parts = || [drop(151, 8, 4, 400), drop(152, 9, 5, 400)];
    let verdicts = |more: Vec<Event>| -> Vec<Verdict> {
        let done = journeys(flows(Proto::UDP), [events.clone(), more].concat());
        done.iter().map(|journey| journey.verdict).collect()
    };
    let read = [&parts()[..], &[read(200, 1_200)]].concat();
    assert_eq!(verdicts(read), [Verdict::Complete; 3]);
    let dropped = [&[whole(drop(150, 7, 3, 1_200))], &parts()[..]].concat();
    assert_eq!(verdicts(dropped), [Verdict::Dropped { hop: Hop::SockReady, reason: 2 }; 3]);
}

#[test]
fn the_return_of_a_driver_after_the_drop_is_no_datagram() {
    let drop = udp(Hop::SkbDrop, 20, CLIENT, 9, 1, 100);
    let drop = Event { detail: DetailKind::DropReason.of(2), ..drop };
    let events = [down(0, 9, 1, 100), vec![drop, udp(Hop::DevDone, 30, CLIENT, 9, 1, 100)]].concat();
    let (done, _) = correlate(HopSet::all(), flows(Proto::UDP), events);
    assert_eq!(done.len(), 1, "{done:#?}");
    assert!(matches!(done[0].verdict, Verdict::Dropped { .. }), "{:?}", done[0].verdict);
}
