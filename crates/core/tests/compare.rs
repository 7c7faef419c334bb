//! Comparison: nothing is found where nothing differs, and what was slowed down is found and only there.

use magscope_core::compare::{Change, Comparison, Side, compare, sides};
use magscope_core::node::{Backend, NodeInfo, Service};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Correlator, Event, Generator, GeneratorOptions, Hop, Limits};
use std::time::Duration;

/// A generated capture, and what is done to it.
#[derive(Clone, Copy, Default)]
struct Run {
    seed: u64,
    events: u64,
    /// Everything from this hop of every message on comes so much later, nanoseconds.
    later: Option<(Hop, u64)>,
    lose_every: u32,
    /// A hop that is switched off.
    off: Option<Hop>,
}

fn info(run: Run) -> NodeInfo {
    let mut info = Generator::new(GeneratorOptions::default()).info().clone();
    for row in info.coverage.hops.iter_mut().filter(|row| Some(row.hop) == run.off) {
        row.service = Service::Off;
    }
    info
}

fn read(side: &mut Side, info: &NodeInfo, run: Run) {
    let Run { seed, events, lose_every, .. } = run;
    let options = GeneratorOptions { seed, events, lose_every, flows: 8, ..GeneratorOptions::default() };
    let mut generator = Generator::new(options);
    let mut correlator = Correlator::new(info.coverage.served(), Limits::default());
    let (mut batch, mut done, mut shift_ns) = (Batch::default(), Vec::new(), 0);
    loop {
        let progress = generator.next(&mut batch, Duration::ZERO).expect("a generator never fails");
        batch.events.retain(|event| Some(event.hop) != run.off);
        for event in &mut batch.events {
            shift_ns += run.later.filter(|(hop, _)| *hop == event.hop).map_or(0, |(_, ns)| ns);
            *event = Event { time_ns: event.time_ns + shift_ns, ..*event };
        }
        batch.watermark_ns += shift_ns;
        side.batch(&batch);
        correlator.push(&batch, &mut done);
        if progress == Progress::End {
            correlator.finish(&mut done);
        }
        done.drain(..).for_each(|journey| side.journey(&journey));
        if progress == Progress::End {
            return;
        }
    }
}

fn compared(a: Run, b: Run) -> Comparison {
    let (in_a, in_b) = (info(a), info(b));
    let (mut side_a, mut side_b) = sides(&in_a, &in_b);
    read(&mut side_a, &in_a, a);
    read(&mut side_b, &in_b, b);
    compare(&side_a, &side_b)
}

const PLAIN: Run = Run { seed: 1, events: 60_000, later: None, lose_every: 0, off: None };
const ANOTHER: Run = Run { seed: 2, ..PLAIN };

/// Steps with a difference: protocol, where to, what.
fn found(comparison: &Comparison) -> Vec<(String, Hop, Change)> {
    let steps = comparison.protocols.iter().flat_map(|p| p.steps.iter().map(move |step| (p.proto, step)));
    let found = steps.filter(|(_, step)| step.measured.change != Change::NotShown);
    found.map(|(proto, step)| (proto.to_string(), step.to, step.measured.change)).collect()
}

#[test]
fn nothing_differs_between_a_capture_and_itself() {
    let comparison = compared(PLAIN, PLAIN);
    assert_eq!(found(&comparison), []);
    assert_eq!((comparison.warnings.len(), comparison.a == comparison.b), (0, true));
    for protocol in &comparison.protocols {
        assert!(protocol.steps.len() > 8 && protocol.steps.iter().all(|step| step.effect_ns == 0));
        assert_eq!(protocol.total.change, Change::NotShown);
        assert!(protocol.total.n_a > 500);
        assert!(protocol.shares.iter().all(|share| !share.differs));
    }
}

#[test]
fn nothing_is_found_between_two_captures_of_the_same_kind() {
    for seed in 2..8 {
        let comparison = compared(PLAIN, Run { seed, ..ANOTHER });
        assert_eq!(found(&comparison), [], "seed {seed}");
    }
}

#[test]
fn a_step_that_was_slowed_down_is_found_and_only_there() {
    for (hop, ns) in [(Hop::DevRecv, 500), (Hop::IpPost, 5_000), (Hop::SockReady, 100_000)] {
        let slower = compared(PLAIN, Run { later: Some((hop, ns)), ..ANOTHER });
        let expected = ["tcp", "udp"].map(|proto| (proto.to_owned(), hop, Change::Slower));
        assert_eq!(found(&slower), expected, "{hop}");
        for protocol in &slower.protocols {
            let first = &protocol.steps[0];
            assert_eq!(first.to, hop, "what differs comes first");
            assert!(first.effect_ns.abs_diff(ns as i64) < ns / 5 + 50, "{first:?}");
            let p50 = first.measured.p50;
            let (low, high) = (p50.at_least_ns.expect("many"), p50.at_most_ns.expect("many"));
            assert!(low <= ns as i64 && ns as i64 <= high, "{hop} {ns}: {p50:?}");
            assert_eq!(protocol.total.change, Change::Slower);
        }
        let faster = compared(Run { later: Some((hop, ns)), ..ANOTHER }, PLAIN);
        let expected = ["tcp", "udp"].map(|proto| (proto.to_owned(), hop, Change::Faster));
        assert_eq!(found(&faster), expected, "{hop}");
    }
}

#[test]
fn too_few_are_not_called_equal() {
    let comparison = compared(Run { events: 200, ..PLAIN }, Run { events: 200, ..ANOTHER });
    let steps = || comparison.protocols.iter().flat_map(|p| &p.steps);
    assert!(steps().any(|step| step.measured.change == Change::TooFew));
    assert!(steps().all(|step| step.measured.p99.change == Change::TooFew));
}

#[test]
fn a_hop_that_one_of_them_has_not_is_left_out_and_said() {
    let mut in_a = info(PLAIN);
    in_a.kernel = "6.1".to_owned();
    for row in in_a.coverage.hops.iter_mut().filter(|row| row.hop == Hop::DevXmit) {
        row.service = Service::Served { backend: Backend::Kprobe, point: String::new(), note: String::new() };
    }
    let b = Run { off: Some(Hop::IpIn), ..ANOTHER };
    let (mut side_a, mut side_b) = sides(&in_a, &info(b));
    read(&mut side_a, &in_a, PLAIN);
    read(&mut side_b, &info(b), b);
    let comparison = compare(&side_a, &side_b);
    let said: Vec<_> = comparison.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(said[0], "A ran on Linux 6.1, B on Linux synthetic");
    assert!(said[1].starts_with("dev.xmit was taken by kprobe in A and by generator in B"), "{said:?}");
    assert_eq!(said[2], "ip.in was off in B: left out");
    assert_eq!(found(&comparison), [], "the step over the missing hop is one step in both");
    let steps = || comparison.protocols.iter().flat_map(|p| &p.steps);
    assert!(steps().all(|step| step.from != Hop::IpIn && step.to != Hop::IpIn));
    assert!(steps().any(|step| (step.from, step.to) == (Hop::IpPre, Hop::TcpRecv)));
}

#[test]
fn more_retransmissions_show_in_the_shares() {
    let comparison = compared(PLAIN, Run { lose_every: 10, ..ANOTHER });
    let tcp = &comparison.protocols[0];
    let resent = tcp.shares.iter().find(|share| share.kind == "resent").expect("some were sent again");
    assert!(resent.differs && resent.a == 0 && resent.b > 100, "{resent:?}");
    let json = serde_json::to_value(&comparison).expect("JSON");
    assert_eq!(json["protocols"][0]["proto"], "tcp");
    assert!(json["protocols"][0]["steps"][0]["p50"]["a_ns"].is_u64());
}
