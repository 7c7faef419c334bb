//! Blame: tables of rungs and the split that they must give; and that every split sums to the whole.

mod common;
use common::*;
use magscope_core::blame::{Blame, Part};
use magscope_core::{Event, Hop, HopSet, Proto};
use proptest::prelude::*;

/// A journey with these rungs, and the blame of it.
fn blame(served: HopSet, rungs: &[(Hop, u64)]) -> Blame {
    let mut events: Vec<Event> = rungs
        .iter()
        .map(|(hop, time_ns)| {
            let end = if hop.direction() == magscope_core::Direction::Tx { CLIENT } else { SERVER };
            let (seq, len) = if *hop == Hop::SockReady { (150, 0) } else { (100, 50) };
            match hop {
                Hop::TaskWake | Hop::TaskRun => by(Event::at(*hop, *time_ns), 7, 70),
                Hop::AppCopy | Hop::AppRecv => by(tcp(*hop, *time_ns, end, seq, len), 7, 70),
                _ => tcp(*hop, *time_ns, end, seq, len),
            }
        })
        .collect();
    events.sort_by_key(|e| e.time_ns);
    let done = correlate(served, flows(Proto::TCP), events).0;
    assert_eq!(done.len(), 1);
    Blame::of(&done[0], served).unwrap()
}

const WHOLE: [(Hop, u64); 13] = [
    (Hop::TcpSend, 0),
    (Hop::TcpXmit, 100),
    (Hop::IpOut, 101),
    (Hop::DevQueue, 105),
    (Hop::DevXmit, 110),
    (Hop::DevRecv, 1110),
    (Hop::IpIn, 1120),
    (Hop::TcpRecv, 1125),
    (Hop::SockReady, 1130),
    (Hop::TaskWake, 1132),
    (Hop::TaskRun, 1432),
    (Hop::AppCopy, 1440),
    (Hop::AppRecv, 1450),
];

#[test]
fn a_whole_journey_has_a_part_for_everyone() {
    let blame = blame(coverage(), &WHOLE);
    let parts: Vec<_> = blame.parts().collect();
    let expected = [
        (Part::SenderStack, 10),
        (Part::SendQueue, 100),
        (Part::Wire, 1000),
        (Part::ReceiverStack, 22),
        (Part::Scheduler, 300),
        (Part::Reading, 18),
    ];
    assert_eq!(parts, expected);
    assert_eq!((blame.total_ns(), blame.largest(), blame.ns(Part::Unknown)), (1450, Some(Part::Wire), None));
}

#[test]
fn a_reader_that_was_not_woken_was_away() {
    let rungs: Vec<_> =
        WHOLE.into_iter().filter(|(hop, _)| !matches!(hop, Hop::TaskWake | Hop::TaskRun)).collect();
    let here = blame(coverage(), &rungs);
    assert_eq!((here.ns(Part::ReaderAway), here.ns(Part::Reading)), (Some(310), Some(10)));
    // where wake-ups are not told of, nobody can say whether it waited for a CPU
    let mut served = coverage();
    served.remove(Hop::TaskWake);
    let here = blame(served, &rungs);
    assert_eq!((here.ns(Part::ReaderAway), here.ns(Part::Unknown)), (None, Some(310)));
}

#[test]
fn what_no_hop_tells_is_unknown() {
    let kept = [Hop::TcpSend, Hop::IpOut, Hop::DevRecv, Hop::AppRecv];
    let rungs: Vec<_> = WHOLE.into_iter().filter(|(hop, _)| kept.contains(hop)).collect();
    let here = blame(kept.into_iter().collect(), &rungs);
    assert_eq!(here.parts().collect::<Vec<_>>(), [(Part::SendQueue, 101), (Part::Unknown, 1349)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_sum_to_the_total(times in prop::collection::vec(0..50_u64, 13), hops in any::<u64>(), ordered in any::<bool>()) {
        let mut times = times;
        if ordered {
            times.sort_unstable();
        }
        let served: HopSet = coverage().iter().filter(|h| hops & (1 << *h as u8) != 0).collect();
        let mut events = Vec::new();
        for ((hop, _), time_ns) in WHOLE.iter().zip(&times).filter(|((hop, _), _)| served.contains(*hop)) {
            let end = if hop.direction() == magscope_core::Direction::Tx { CLIENT } else { SERVER };
            let (seq, len) = if *hop == Hop::SockReady { (150, 0) } else { (100, 50) };
            events.push(by(tcp(*hop, *time_ns, end, seq, len), 7, 70));
        }
        for journey in correlate(served, flows(Proto::TCP), events).0 {
            let blame = Blame::of(&journey, served);
            prop_assert_eq!(blame.map(|b| b.total_ns()), journey.total_ns());
            if let Some(blame) = blame {
                prop_assert_eq!(blame.parts().map(|(_, ns)| ns).sum::<u64>(), blame.total_ns());
                let most = blame.parts().map(|(_, ns)| ns).max();
                prop_assert!(blame.total_ns() == 0 || blame.largest().and_then(|p| blame.ns(p)) == most);
            }
        }
    }
}
