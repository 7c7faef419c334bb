//! Properties: no input causes a panic, and memory is bounded; a stream cut at random at every hop becomes
//! pieces that partition it exactly.

use crate::common;
use common::*;
use magscope_core::journey::{Correlator, Limits, MAX_COPIES, Verdict};
use magscope_core::{
    Batch, DetailKind, Event, EventFlags, ExtentKind, Flow, FlowId, Hop, HopSet, Loss, LossCause, Proto,
};
use proptest::prelude::*;

fn any_event() -> impl Strategy<Value = Event> {
    let number = || prop_oneof![Just(0), Just(1), Just(u32::MAX), 0..5000_u32, any::<u32>()];
    let place = (0..Hop::ALL.len(), prop_oneof![0..100_000_u64, any::<u64>()], 0..7_u64, 0..3_u64);
    let range = (number(), number(), 0..4_u32, 0..3_u16, 0..4_u16);
    let kinds = (0..ExtentKind::ALL.len(), 0..DetailKind::ALL.len(), any::<bool>());
    let rest =
        (any::<u8>(), any::<u8>(), 0..3_u32, prop_oneof![Just(6), Just(6), Just(17), Just(17), any::<u8>()]);
    (place, range, rest, kinds).prop_map(
        |(
            (hop, time_ns, flow, socket),
            (number, len, skb, ip_id, segs),
            (tcp, flags, tid, proto),
            (extent, detail, is_sound),
        )| {
            let flags = if flags < 200 { EventFlags(0) } else { EventFlags(u16::from(flags) << 2 | 3) };
            let tcp_flags = if tcp < 200 { 16 } else { tcp };
            let at = Event::at(Hop::ALL[hop], time_ns);
            let event = Event {
                flow: FlowId(flow * 11),
                socket,
                extent: ExtentKind::ALL[extent].of(number),
                detail: DetailKind::ALL[detail].of(number),
                len,
                skb,
                ip_id,
                segs,
                tcp_flags,
                flags,
                tid,
                tgid: tid,
                proto: Proto(proto),
                ..at
            };
            let extent = if is_sound { event.extent_kind().of(number) } else { event.extent };
            let detail = if is_sound { event.detail_kind().of(number) } else { event.detail };
            Event { extent, detail, ..event }
        },
    )
}

fn any_flows() -> Vec<Flow> {
    let mut all = flows(Proto::TCP);
    all.push(flow(FlowId(55), 1, Proto::UDP, "127.0.0.1:9", "127.0.0.1:9"));
    all.push(flow(FlowId(66), 1, Proto::UDP, "[::1]:5", "127.0.0.1:9"));
    all.push(flow(FlowId(11), 1, Proto::UDP, "10.0.0.1:4000", "10.0.0.2:80")); // collides
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_memory_is_bounded(
        events in prop::collection::vec(any_event(), 0..400),
        cuts in prop::collection::vec((any::<u64>(), any::<u64>()), 1..6),
        hops in any::<u64>(),
        max_pieces in 0..40_usize,
        max_flows in 0..8_usize,
    ) {
        let limits = Limits { max_pieces, max_age_ns: 1 << 14, max_flows };
        let served = if hops % 2 == 0 { HopSet::all() } else { HopSet(hops) };
        let mut correlator = Correlator::new(served, limits);
        let mut done = Vec::new();
        for (events, cut) in events.chunks(100).zip(cuts.iter().cycle()) {
            let (from_ns, to_ns) = *cut;
            let losses = vec![Loss { cpu: 0, from_ns, to_ns, count: 1, cause: LossCause::Gap }];
            let watermark_ns = if from_ns % 3 == 0 { from_ns } else { to_ns % 200_000 };
            let batch = Batch { events: events.to_vec(), flows: any_flows(), losses, watermark_ns, ..Batch::default() };
            correlator.push(&batch, &mut done);
            prop_assert!(correlator.in_flight() <= max_pieces);
            prop_assert!(correlator.flows().count() <= max_flows.max(1));
        }
        correlator.finish(&mut done);
        prop_assert_eq!(correlator.in_flight(), 0);
        prop_assert_eq!(correlator.counters().journeys, done.len() as u64);
        for journey in &done {
            prop_assert!(!journey.rungs.is_empty());
            prop_assert!(journey.copies.len() <= MAX_COPIES);
            prop_assert!(journey.latencies().count() < 19 * (1 + journey.copies.len()));
            let _ = (journey.total_ns(), journey.bytes(), journey.ladder().count());
        }
    }

    #[test]
    fn pieces_partition_the_stream(
        start in any::<u32>(),
        len in 1..5000_u32,
        cuts in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..8), 12),
    ) {
        let path: Vec<Hop> = [Hop::TcpSend].iter().chain(&PACKET_TX).chain(&PACKET_RX).copied()
            .chain([Hop::AppCopy, Hop::AppRecv]).collect();
        let mut events = Vec::new();
        let mut borders = Vec::new();
        for (n, (hop, cuts)) in path.iter().zip(&cuts).enumerate() {
            let mut here: Vec<u32> = cuts.iter().map(|c| c % len).chain([0, len]).collect();
            here.sort_unstable();
            here.dedup();
            let flow = if n < 6 { CLIENT } else { SERVER };
            for (i, pair) in here.windows(2).enumerate() {
                let time_ns = 1000 * n as u64 + i as u64;
                events.push(tcp(*hop, time_ns, flow, start.wrapping_add(pair[0]), pair[1] - pair[0]));
            }
            borders.extend(here);
        }
        // A byte that TCP sends alone can look like a keep-alive only after its delivery, which is later here.
        borders.sort_unstable();
        borders.dedup();
        let (done, correlator) = correlate(coverage(), flows(Proto::TCP), events.clone());
        let base = done[0].range.start;
        let found: Vec<u32> = done.iter().map(|j| (j.range.start - base) as u32).chain([len]).collect();
        prop_assert_eq!(found, borders);
        prop_assert!(done.windows(2).all(|w| w[0].range.end == w[1].range.start));
        prop_assert_eq!(correlator.counters().after_end, 0);
        for journey in &done {
            prop_assert_eq!((journey.verdict, journey.retransmits(), journey.disordered()), (Verdict::Complete, 0, 0));
            prop_assert_eq!(journey.rungs.len(), path.len());
            let at = (journey.range.start - base) as u32;
            for rung in journey.ladder() {
                let covers = |e: &&Event| e.hop == rung.hop && at.wrapping_sub(e.seq().wrapping_sub(start)) < e.len;
                prop_assert_eq!(events.iter().find(covers).map(|e| e.time_ns), Some(rung.time_ns));
            }
        }
    }
}
