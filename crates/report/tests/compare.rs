//! Comparison: no difference is found without one, and a slowed step is found alone.

use magscope_core::context::NodeContext;
use magscope_core::node::{Backend, NodeInfo, Service};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Correlator, Event, Generator, GeneratorOptions, Hop, HopSet, Limits, Proto};
use magscope_report::compare::{Change, Comparison, Run as Reading, Side, common_hops, compare};
use std::time::Duration;

/// A generated capture, and its modifications.
#[derive(Clone, Copy, Default)]
struct Run {
    seed: u64,
    events: u64,
    /// Additional delay of every message from this hop on, nanoseconds.
    later: Option<(Hop, u64)>,
    lose_every: u32,
    /// A disabled hop.
    off: Option<Hop>,
    /// Waiting time for missing events, nanoseconds; 0: the default.
    wait_ns: u64,
}

fn info(run: Run) -> NodeInfo {
    let mut info = Generator::new(GeneratorOptions::default()).info().clone();
    for row in info.coverage.hops.iter_mut().filter(|row| Some(row.hop) == run.off) {
        row.service = Service::Off;
    }
    info
}

fn read(side: &mut Side, info: &NodeInfo, hops: HopSet, run: Run) {
    let mut reading = Reading::new(info, hops);
    let Run { seed, events, lose_every, .. } = run;
    let options = GeneratorOptions { seed, events, lose_every, flows: 8, ..GeneratorOptions::default() };
    let mut generator = Generator::new(options);
    let mut limits = Limits::default();
    if run.wait_ns > 0 {
        limits.max_age_ns = run.wait_ns;
    }
    let mut correlator = Correlator::new(info.coverage.served(), limits);
    let (mut batch, mut done, mut shift_ns) = (Batch::default(), Vec::new(), 0);
    loop {
        let progress = generator.next(&mut batch, Duration::ZERO).expect("a generator never fails");
        batch.events.retain(|event| Some(event.hop) != run.off);
        for event in &mut batch.events {
            shift_ns += run.later.filter(|(hop, _)| *hop == event.hop).map_or(0, |(_, ns)| ns);
            *event = Event { time_ns: event.time_ns + shift_ns, ..*event };
        }
        batch.watermark_ns += shift_ns;
        reading.batch(&batch);
        correlator.push(&batch, &mut done);
        if progress == Progress::End {
            correlator.finish(&mut done);
        }
        for journey in done.drain(..) {
            reading.journey(&journey, &NodeContext { correlator: &correlator, node: info });
        }
        if progress == Progress::End {
            side.add(reading);
            return;
        }
    }
}

/// Three similar captures per side: the minimum for an interval.
fn compared(a: Run, b: Run) -> Comparison {
    let three = |run: Run| [0, 100, 200].map(|more| Run { seed: run.seed + more, ..run });
    several(&three(a), &three(b))
}

fn several(a: &[Run], b: &[Run]) -> Comparison {
    let infos: Vec<NodeInfo> = a.iter().chain(b).map(|run| info(*run)).collect();
    let hops = common_hops(&infos);
    let side = |runs: &[Run]| {
        let mut side = Side::default();
        for run in runs {
            read(&mut side, &info(*run), hops, *run);
        }
        side
    };
    compare(&side(a), &side(b))
}

/// Different runs of the same system: each is slower at one hop by this, nanoseconds.
fn runs(seed: u64, noise_ns: &[u64]) -> Vec<Run> {
    let one = |(seed, ns)| Run { seed, events: 30_000, later: Some((Hop::IpPost, ns)), ..PLAIN };
    (seed..).zip(noise_ns.iter().copied()).map(one).collect()
}

#[test]
fn a_difference_that_runs_of_one_side_have_too_is_not_called_one() {
    let (a, b) = (runs(1, &[900, 400, 1_300]), runs(11, &[1_200, 1_900, 700]));
    for few in [several(&a[1..2], &b[1..2]), several(&a[..2], &b[..2]), several(&a, &b[..2])] {
        assert!(found(&few).iter().all(|(_, _, change)| *change == Change::TooFew), "{few:?}");
        assert!(few.warnings.iter().any(|warning| warning.to_string().contains("at least 3 a side")));
        let steps = few.protocols.iter().flat_map(|p| &p.steps).map(|step| &step.measured);
        assert!(steps.clone().count() > 8);
        assert!(steps.flat_map(|m| [&m.p50, &m.p99]).all(|q| q.at_least_ns.or(q.at_most_ns).is_none()));
        assert!(few.protocols.iter().flat_map(|p| &p.shares).all(|share| !share.differs));
        assert_eq!(few.compared, 0);
    }
    let all = several(&a, &b);
    assert_eq!(found(&all), [], "noise");
    assert!(all.warnings.is_empty());
    let step = all.protocols[0].steps.iter().find(|step| step.to == Hop::IpPost).expect("a step");
    assert!(step.measured.p50.spread_ns.is_some_and(|ns| (300..700).contains(&ns)), "{step:?}");
    assert_eq!((step.measured.p50.runs_a_ns.len(), all.a.runs), (3, 3));
}

#[test]
fn a_difference_beyond_the_noise_of_runs_is_found() {
    let (a, b) = (runs(1, &[900, 400, 1_300, 700]), runs(11, &[5_200, 5_900, 4_700, 5_400]));
    let all = several(&a, &b);
    assert_eq!(found(&all), ["tcp", "udp"].map(|proto| (proto.to_owned(), Hop::IpPost, Change::Slower)));
    let p50 = &all.protocols[0].steps[0].measured.p50;
    let (low, high) = (p50.at_least_ns.expect("many"), p50.at_most_ns.expect("many"));
    assert!(low > 1_500 && low < 4_475 && high > 4_475, "the true one, 4475 ns, is inside: {p50:?}");
    assert_eq!(found(&several(&b, &a)).len(), 2);
}

const PLAIN: Run = Run { seed: 1, events: 60_000, later: None, lose_every: 0, off: None, wait_ns: 0 };
const ANOTHER: Run = Run { seed: 2, ..PLAIN };

/// Steps with a difference: protocol, hop, change.
fn found(comparison: &Comparison) -> Vec<(String, Hop, Change)> {
    let steps = comparison.protocols.iter().flat_map(|p| p.steps.iter().map(move |step| (p.proto, step)));
    let found = steps.filter(|(_, step)| step.measured.change != Change::NotShown);
    found.map(|(proto, step)| (proto.to_string(), step.to, step.measured.change)).collect()
}

#[test]
fn nothing_differs_between_a_capture_and_itself() {
    let comparison = compared(PLAIN, PLAIN);
    assert_eq!(found(&comparison), []);
    assert_eq!(comparison.a, comparison.b);
    assert_eq!(comparison.warnings, []);
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
            let p50 = &first.measured.p50;
            let (low, high) = (p50.at_least_ns.expect("many"), p50.at_most_ns.expect("many"));
            assert!(low <= ns as i64 && ns as i64 <= high, "{hop} {ns}: {p50:?}");
            // A total varies more than a step: with three recordings per side only large differences show.
            assert!(
                ns < 100_000 || protocol.total.change == Change::Slower,
                "{hop} {ns}: {:?}",
                protocol.total
            );
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
    in_a.settings = vec!["sample flows 1/16".to_owned(), "filter port = 80".to_owned()];
    for row in in_a.coverage.hops.iter_mut().filter(|row| row.hop == Hop::DevXmit) {
        row.service = Service::Served { backend: Backend::Kprobe, point: String::new(), note: String::new() };
    }
    let b = Run { off: Some(Hop::IpIn), ..ANOTHER };
    let hops = common_hops([&in_a, &info(b)]);
    let (mut side_a, mut side_b) = (Side::default(), Side::default());
    for more in [0, 100, 200] {
        read(&mut side_a, &in_a, hops, Run { seed: PLAIN.seed + more, ..PLAIN });
        read(&mut side_b, &info(b), hops, Run { seed: b.seed + more, ..b });
    }
    let comparison = compare(&side_a, &side_b);
    let texts: Vec<_> = comparison.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert_eq!(texts[0], "A ran on Linux 6.1, B on Linux synthetic");
    let settings = "A was captured with filter port = 80, sample flows 1/16, B with neither filter nor sampler";
    assert!(texts[1].starts_with(settings), "{texts:?}");
    assert!(texts[2].starts_with("dev.xmit was taken by kprobe and by generator"), "{texts:?}");
    assert_eq!(texts[3], "ip.in was off in B: left out");
    assert_eq!(found(&comparison), [], "the step over the missing hop is one step in both");
    let steps = || comparison.protocols.iter().flat_map(|p| &p.steps);
    assert!(steps().all(|step| step.from != Hop::IpIn && step.to != Hop::IpIn));
    assert!(steps().any(|step| (step.from, step.to) == (Hop::IpPre, Hop::TcpRecv)));
}

#[test]
fn totals_that_end_at_other_hops_are_not_compared() {
    // Without `udp.recv` no datagram is followed to its reader: its path ends below the socket, and is shorter.
    let b = Run { off: Some(Hop::UdpRecv), wait_ns: 1_000_000, ..ANOTHER };
    let comparison = compared(PLAIN, b);
    let udp = comparison.protocols.iter().find(|p| p.proto == Proto::UDP).expect("datagrams");
    let [other] = udp.other_routes[..] else { panic!("{:?}", udp.other_routes) };
    let ends = [udp.route.expect("journeys").1, other.to];
    assert!(ends.contains(&Hop::AppRecv) && ends.contains(&Hop::IpIn), "{udp:?}");
    assert!(!udp.total.change.is_found() && udp.total.n_a.min(udp.total.n_b) == 0, "{:?}", udp.total);
    let texts = comparison.warnings.iter().map(ToString::to_string);
    let texts: Vec<_> = texts.filter(|text| text.starts_with("totals of udp are from ip.out to")).collect();
    assert_eq!(texts.len(), 1, "{:?}", comparison.warnings);
    let tcp = &comparison.protocols[0];
    assert!(tcp.other_routes.is_empty() && tcp.total.change == Change::NotShown, "{tcp:?}");
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
