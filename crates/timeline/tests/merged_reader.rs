//! The model stack in two recordings with clocks of their own. Joined and aligned they must agree with one
//! recording with one clock, and make only true claims.
//!
//! `MAGSCOPE_CASES` sets the number of worlds; 48 by default.

use crate::model;
use crate::recording::Recording;

use magscope_core::clock::ClockSample;
use magscope_core::journey::{Across, Journey, Limits, Verdict};
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, Event, FlowId, Hop, Loss, Proto};
use magscope_timeline::align::{Alignment, Online};
use magscope_timeline::join::{Crossing, Unaligned};
use magscope_timeline::merged_reader::{self, Piece, ReadSummary, Walker};
use model::capture::Capture;
use model::{Random, Weather, World, truth};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

const LIMITS: Limits = Limits { max_pieces: 1 << 18, max_age_ns: 1_000_000_000_000, max_flows: 1 << 16 };
/// The model has a switch without delay; a recording extends seconds before and after.
const MARGIN_NS: u64 = 2_000_000_000;

/// A clock: `offset + t + t * ppm`, as that of another host. Once it may jump ahead, as that of a virtual
/// machine that moves to another host.
#[derive(Clone, Copy, Debug)]
struct Clock {
    offset_ns: u64,
    ppm: i64,
    /// Instant and distance of the jump.
    step: Option<(u64, u64)>,
}

impl Clock {
    fn at(self, true_ns: u64) -> u64 {
        let drift = i128::from(true_ns) * i128::from(self.ppm) / 1_000_000;
        let stepped = self.step.filter(|(at, _)| true_ns >= *at).map_or(0, |(_, by)| by);
        self.offset_ns + stepped + (i128::from(true_ns) + drift) as u64
    }
}

impl Recording {
    /// The recording of namespace `netns`, by its own clock.
    fn of(world: &World, capture: &Capture, netns: u32, clock: Clock) -> Self {
        let mine: HashMap<FlowId, bool> = world.flows.iter().map(|f| (f.id, f.netns == netns)).collect();
        let events = capture.events.iter().filter(|e| e.flow.is_none() || mine.get(&e.flow) == Some(&true));
        let events: Vec<Event> = events.map(|e| Event { time_ns: clock.at(e.time_ns), ..*e }).collect();
        let losses = capture.losses.iter();
        let losses: Vec<Loss> =
            losses.map(|l| Loss { from_ns: clock.at(l.from_ns), to_ns: clock.at(l.to_ns), ..*l }).collect();
        let end = capture.events.last().map_or(0, |e| e.time_ns) + MARGIN_NS;
        let mut samples = (0..=end).step_by(100_000_000).map(|t| ClockSample {
            monotonic_ns: clock.at(t),
            raw_ns: clock.at(t),
            realtime_ns: clock.at(t) as i64,
            width_ns: 50,
            ..ClockSample::default()
        });
        let mut losses = losses.into_iter().peekable();
        let mut batches: Vec<Batch> = Vec::new();
        for events in events.chunks(200) {
            let watermark_ns = events.last().map_or(0, |e| e.time_ns);
            let mut batch = Batch { events: events.to_vec(), watermark_ns, ..Batch::default() };
            while let Some(loss) = losses.next_if(|l| l.to_ns <= watermark_ns) {
                batch.losses.push(loss);
            }
            batch.clock.extend(samples.by_ref().take_while(|s| s.monotonic_ns <= watermark_ns));
            batches.push(batch);
        }
        let mut last = Batch { watermark_ns: clock.at(end), ..Batch::default() };
        last.losses.extend(losses);
        last.clock.extend(samples);
        batches.push(last);
        if let Some(first) = batches.first_mut() {
            first.flows = world.flows.iter().filter(|f| f.netns == netns).copied().collect();
        }
        let info = NodeInfo {
            host: format!("host{netns}"),
            boot_id: format!("boot{netns}"),
            coverage: Coverage::full(Backend::Generator),
            ..NodeInfo::default()
        };
        Recording { info, batches: batches.into_iter() }
    }
}

struct Seen {
    journeys: Vec<Journey>,
    crossings: Vec<Crossing>,
    /// The wire of each crossing: from the sender's clock to the receiver's, with its error.
    wires: Vec<(Crossing, u64, u64)>,
    walked: ReadSummary,
    alignment: Alignment,
}

/// Reads both recordings like a program: once for the clocks, once for the journeys.
fn see(world: &World, capture: &Capture, clocks: [Clock; 2]) -> Seen {
    let record = || [Recording::of(world, capture, 1, clocks[0]), Recording::of(world, capture, 2, clocks[1])];
    let rough = Unaligned { to_utc_ns: clocks.iter().map(|c| -(c.offset_ns as i64)).collect() };
    let [mut a, mut b] = record();
    let alignment =
        merged_reader::align(&mut [&mut a, &mut b], &rough, LIMITS, Duration::ZERO).expect("no source fails");
    let [mut a, mut b] = record();
    let (mut journeys, mut crossings, mut wires) = (Vec::new(), Vec::new(), Vec::new());
    let walked =
        merged_reader::walk(&mut [&mut a, &mut b], &alignment, LIMITS, Duration::ZERO, |piece| match piece {
            Piece::Batch(..) => {}
            Piece::Journey(journey, crossing, names) => {
                assert!(names.nodes() == 2);
                journeys.push(journey.clone());
                crossings.extend(crossing.copied());
                let wire = journey.latencies().find(|l| l.to == Hop::DevRecv && l.from == Hop::DevXmit);
                wires.extend(crossing.zip(wire).map(|(c, wire)| (*c, wire.ns, wire.half_width_ns)));
            }
        })
        .expect("no source fails");
    Seen { journeys, crossings, wires, walked, alignment }
}

fn honest(seed: u64, weather: Weather, clocks: [Clock; 2], losses: bool) -> Result<(), String> {
    let world = world(seed, weather);
    let mut random = Random(seed ^ 5);
    let mut capture = Capture::whole(&world);
    if losses {
        capture = capture.with_losses(&mut random);
    }
    let seen = see(&world, &capture, clocks);
    // No crossing is false: every received packet was sent before.
    let times = |clock: Clock| capture.events.iter().map(move |e| (clock.at(e.time_ns), e.time_ns));
    let true_times: [HashMap<u64, u64>; 2] = clocks.map(|clock| times(clock).collect());
    let back = |node: u16, at: u64| true_times[usize::from(node)].get(&at).copied();
    for crossing in &seen.crossings {
        let (sent, received) =
            (back(crossing.tx_node, crossing.sent_ns), back(crossing.rx_node, crossing.received_ns));
        if sent.is_none() || received.is_none() || sent > received {
            return Err(format!("sent {sent:?}, received {received:?}: {crossing:?}"));
        }
    }
    // A clock that jumped ahead is detected by its sent packets: they seem to arrive before they were sent.
    // Without further packets from it, packets towards it just seem slow.
    for (node, clock) in clocks.iter().enumerate() {
        let Some((at, _)) = clock.step else { continue };
        let sent = |by: usize, after: bool| {
            let mine = seen.crossings.iter().filter(|c| usize::from(c.tx_node) == by);
            mine.filter(|c| (back(c.tx_node, c.sent_ns) >= Some(at)) == after).count()
        };
        // With few packets for one side of the step, they and not the others may be rejected as false.
        if [(node, true), (node, false), (1 - node, true), (1 - node, false)]
            .iter()
            .any(|(by, after)| sent(*by, *after) < 20)
        {
            truth::apart(&world, &seen.journeys)?;
            return Ok(());
        }
    }
    // Every latency from one clock to the other has the truth in its interval.
    for (crossing, ns, half_width_ns) in &seen.wires {
        let (sent, received) =
            (back(crossing.tx_node, crossing.sent_ns), back(crossing.rx_node, crossing.received_ns));
        let true_ns = received.unwrap_or(0) - sent.unwrap_or(0);
        // By the clock of recording 0, which has a small rate error itself.
        if ns.abs_diff(true_ns) > half_width_ns + true_ns / 5_000 + 2 {
            return Err(format!("{true_ns} is not {ns} ± {half_width_ns}: {crossing:?}"));
        }
    }
    if clocks.iter().any(|clock| clock.step.is_some()) {
        truth::apart(&world, &seen.journeys)?;
        return Ok(());
    }
    // The truth is inside the bounds wherever bounds exist.
    for pair in seen.alignment.couples() {
        let Some(bounds) = seen.alignment.pair(pair.0, pair.1) else { continue };
        assert_eq!(pair, (0, 1));
        for true_ns in (0..3_000_000_000).step_by(100_000_000) {
            let (a, b) = (clocks[0].at(true_ns), clocks[1].at(true_ns));
            let difference = (i128::from(b) - i128::from(a)) as i64;
            if !bounds.bounds_at(a).contains(difference) {
                return Err(format!("{difference} outside of {:?} at {true_ns}", bounds.bounds_at(a)));
            }
        }
        if bounds.counts().rejected > 0 {
            return Err(format!("rejected: {:?}", bounds.counts()));
        }
    }
    // All recordings together give at least the information of the pair alone, without contradiction.
    for true_ns in (0..3_000_000_000).step_by(500_000_000) {
        let (a, b) = (clocks[0].at(true_ns), clocks[1].at(true_ns));
        let combined = seen.alignment.at(a).map_err(|e| e.to_string())?.0.bounds(0, 1);
        let alone = seen.alignment.pair(0, 1).map(|pair| pair.bounds_at(a));
        if !combined.contains((i128::from(b) - i128::from(a)) as i64)
            || alone.is_some_and(|alone| alone != combined)
        {
            return Err(format!("together {combined:?}, alone {alone:?} at {true_ns}"));
        }
    }
    // No byte twice, no negative time.
    truth::apart(&world, &seen.journeys)?;
    for journey in &seen.journeys {
        // After lost events of the first copy, those of a later one replace them.
        if journey.disordered() > 0 && !losses {
            return Err(format!("disordered: {journey:?}"));
        }
    }
    Ok(())
}

fn world(seed: u64, weather: Weather) -> World {
    let mut world = World::new(seed, weather);
    for _ in 0..2 {
        let (a, b) = world.connect(Proto::TCP);
        let start = world.random.within(1_000_000, 2_000_000);
        model::tcp::run(&mut world, a, b, start);
        let start = world.random.within(1_000_000, 2_000_000);
        model::tcp::run(&mut world, b, a, start);
    }
    let start = world.random.within(1_000_000, 2_000_000);
    model::udp::run(&mut world, start);
    world
}

/// Complete bytes of each stream, with the times of the packet hops converted back from each end's clock.
fn complete(world: &World, journeys: &[Journey]) -> Result<BTreeMap<(usize, u64), Vec<Hop>>, String> {
    let mut bytes = BTreeMap::new();
    for journey in journeys.iter().filter(|j| j.proto == Proto::TCP && j.verdict == Verdict::Complete) {
        let (stream, range) = truth::place(world, journey)?;
        for byte in range {
            // `dev.done` is off the path.
            bytes.insert((stream, byte), journey.rungs.hops().filter(|hop| *hop != Hop::DevDone).collect());
        }
    }
    Ok(bytes)
}

/// Two recordings of hosts with the same clock agree with one recording of both.
fn same_as_one(seed: u64, weather: Weather) -> Result<(), String> {
    let world = world(seed, weather);
    let capture = Capture::whole(&world);
    let mut random = Random(seed ^ 6);
    let (one, _) = capture.correlate(&world, LIMITS, &mut random, true);
    let clock = Clock { offset_ns: 0, ppm: 0, step: None };
    let two = see(&world, &capture, [clock, clock]);
    let (one, joined) = (complete(&world, &one)?, complete(&world, &two.journeys)?);
    let differs = |(byte, hops): &(&(usize, u64), &Vec<Hop>)| joined.get(byte) != Some(hops);
    let missing: Vec<_> = one.iter().filter(differs).map(|(b, h)| (b, h, joined.get(b))).take(3).collect();
    if !missing.is_empty() {
        let pairs = &two.walked.pairings;
        return Err(format!("{} of {} differ: {missing:?}\n{pairs:#?}", missing.len(), one.len()));
    }
    Ok(())
}

/// A recording that is followed: some pieces come together, and some are waited for.
struct Followed {
    recording: Recording,
    random: Random,
    /// Most batches that come at once.
    at_once: u64,
    /// Empty answers before the first data.
    late: u64,
    /// It does not end.
    goes_on: bool,
}

impl Source for Followed {
    fn info(&self) -> &NodeInfo {
        self.recording.info()
    }

    fn next(&mut self, into: &mut Batch, patience: Duration) -> Result<Progress, SourceError> {
        into.clear();
        if self.late > 0 {
            self.late -= 1;
            return Ok(Progress::More);
        }
        let mut piece = Batch::default();
        for _ in 0..self.random.within(0, self.at_once) {
            if self.recording.next(&mut piece, patience)? == Progress::End {
                break;
            }
            into.events.append(&mut piece.events);
            into.clock.append(&mut piece.clock);
            into.flows.append(&mut piece.flows);
            into.watermark_ns = piece.watermark_ns;
        }
        let is_over = self.recording.batches.len() == 0 && into.events.is_empty() && into.clock.is_empty();
        Ok(if is_over && !self.goes_on { Progress::End } else { Progress::More })
    }
}

/// Whatever comes first and together, halves of followed recordings find each other as those of finished ones do.
fn followed_as_read(seed: u64, weather: Weather, clocks: [Clock; 2], late: (u64, u64)) -> Result<(), String> {
    let mut world = World::new(seed, weather);
    // Longer than a half waits.
    for start_ns in (1..8).map(|second| second * 1_000_000_000) {
        let (a, b) = world.connect(Proto::TCP);
        model::tcp::run(&mut world, a, b, start_ns);
        model::tcp::run(&mut world, b, a, start_ns);
        model::udp::run(&mut world, start_ns);
    }
    let capture = Capture::whole(&world);
    // What is not read has no end to wait for.
    let joined_bytes = |journey: &Journey| {
        let is_joined = journey.verdict == Verdict::Complete && journey.tx_node != journey.rx_node;
        if is_joined { journey.bytes() } else { 0 }
    };
    let read: u64 = see(&world, &capture, clocks).journeys.iter().map(joined_bytes).sum();
    let mut random = Random(seed ^ 7);
    let sources = [(1, clocks[0], late.0), (2, clocks[1], late.1)].map(|(netns, clock, late)| {
        let recording = Recording::of(&world, &capture, netns, clock);
        let at_once = [1, 4, 1_000][random.within(0, 2) as usize];
        let random = Random(random.within(0, u64::MAX - 1));
        Box::new(Followed { recording, random, at_once, late, goes_on: false }) as Box<dyn Source>
    });
    let infos = sources.each_ref().map(|source| source.info().clone());
    let online = Online::new(&infos);
    let mut walker = Walker::live(sources.into(), &online, LIMITS, Duration::ZERO);
    let mut journeys = Vec::new();
    let mut visit = |piece: Piece<'_>| {
        if let Piece::Journey(journey, ..) = piece {
            journeys.push(journey.clone());
        }
    };
    while walker.step(&mut visit).map_err(|e| e.to_string())? == Progress::More {}
    truth::apart(&world, &journeys)?;
    // Without bounds yet, more can be joined by their order.
    let followed: u64 = journeys.iter().map(joined_bytes).sum();
    if followed < read {
        return Err(format!("bytes: {read} read, {followed} followed: {:?}", walker.walked().join));
    }
    Ok(())
}

fn weather() -> impl Strategy<Value = Weather> {
    let percent = |most: u64| prop_oneof![Just(0), 0..most];
    (percent(30), percent(20), percent(30), percent(20)).prop_map(|(lost, duplicated, delayed, peeked)| {
        Weather { lost, duplicated, delayed, peeked, ..Weather::default() }
    })
}

fn clock() -> impl Strategy<Value = Clock> {
    (0..4_000_000_000_000_u64, -90..90_i64).prop_map(|(offset_ns, ppm)| Clock { offset_ns, ppm, step: None })
}

fn config() -> ProptestConfig {
    let cases = std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(48);
    ProptestConfig { cases, max_shrink_iters: 50, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn two_recordings_say_what_one_says(seed in any::<u64>(), weather in weather()) {
        same_as_one(seed, weather).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn two_clocks_are_aligned_by_what_crossed(seed in any::<u64>(), weather in weather(), a in clock(), b in clock()) {
        honest(seed, weather, [a, b], false).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn followed_recordings_find_the_same_halves(
        seed in any::<u64>(),
        // A loss can delay the first read of a connection for longer than a half waits, and datagrams that arrive
        // twice are joined by their order, which depends on the bounds.
        weather in weather().prop_map(|weather| Weather { lost: 0, delayed: 0, duplicated: 0, ..weather }),
        a in clock(),
        b in clock(),
        late in (0..40_u64, 0..40_u64),
    ) {
        followed_as_read(seed, weather, [a, b], late).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn a_clock_that_steps_makes_no_false_latency(
        seed in any::<u64>(),
        a in clock(),
        b in clock(),
        (at, by, second) in (2_000_000..60_000_000_u64, 1_000_000..1_000_000_000_u64, any::<bool>()),
    ) {
        let mut clocks = [a, b];
        clocks[usize::from(second)].step = Some((at, by));
        honest(seed, Weather::default(), clocks, false).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn lost_events_make_no_false_bound(seed in any::<u64>(), weather in weather(), a in clock(), b in clock()) {
        honest(seed, weather, [a, b], true).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn hosts_that_exchange_nothing_do_not_hold_back_their_halves() {
    let (clock, capture) = (Clock { offset_ns: 0, ppm: 0, step: None }, world(3, Weather::default()));
    let mut talks = Recording::of(&capture, &Capture::whole(&capture), 1, clock);
    let samples = |from_s: u64, to_s: u64| {
        let at = (from_s * 10..to_s * 10).map(|tenth| tenth * 100_000_000);
        let sample = |ns| ClockSample {
            monotonic_ns: ns,
            raw_ns: ns,
            realtime_ns: ns as i64,
            width_ns: 50,
            ..ClockSample::default()
        };
        Batch { clock: at.map(sample).collect(), watermark_ns: to_s * 1_000_000_000, ..Batch::default() }
    };
    let batches: Vec<Batch> = talks.batches.chain([samples(10, 60)]).collect();
    talks.batches = batches.into_iter();
    let info = NodeInfo { host: "quiet".to_owned(), boot_id: "another".to_owned(), ..talks.info.clone() };
    let quiet = Recording { info, batches: vec![samples(0, 60)].into_iter() };
    let sources = [talks, quiet].map(|recording| {
        let source = Followed { recording, random: Random(1), at_once: 1_000_000, late: 0, goes_on: true };
        Box::new(source) as Box<dyn Source>
    });
    let infos = sources.each_ref().map(|source| source.info().clone());
    let online = Online::new(&infos);
    let mut walker = Walker::live(sources.into(), &online, LIMITS, Duration::ZERO);
    let mut halves = 0;
    for _ in 0..100 {
        let visit = &mut |piece: Piece<'_>| halves += usize::from(matches!(piece, Piece::Journey(..)));
        assert_eq!(walker.step(visit).expect("no source fails"), Progress::More);
    }
    assert!(halves > 100, "{halves} came while both went on");
}

#[test]
fn aligned_halves_have_an_interval_between_them() {
    let calm = world(11, Weather::default());
    let clocks = [
        Clock { offset_ns: 5_000, ppm: 20, step: None },
        Clock { offset_ns: 3_600_000_000_000, ppm: -30, step: None },
    ];
    let seen = see(&calm, &Capture::whole(&calm), clocks);
    let joined: Vec<_> = seen.journeys.iter().filter(|j| j.verdict == Verdict::Complete).collect();
    assert!(joined.len() > 20, "{}", joined.len());
    for journey in joined {
        let Across::Bounded { below_ns, above_ns } = journey.across else { panic!("{journey:?}") };
        let wire = journey.latencies().find(|l| l.to == Hop::DevRecv).expect("the wire");
        assert!(wire.half_width_ns > 0 && wire.half_width_ns == below_ns.max(above_ns));
        assert_eq!(wire.bounds_ns, (wire.ns.saturating_sub(below_ns), wire.ns + above_ns));
        assert_eq!((journey.tx_node + journey.rx_node, journey.disordered()), (1, 0));
    }
    assert!(seen.walked.join.joined > 20 && seen.walked.counters.len() == 2);
}

#[test]
fn halves_on_two_sides_of_a_step_are_doubted() {
    let clocks = [
        Clock { offset_ns: 3_157_924_479_586, ppm: -88, step: Some((2_342_458, 592_095_858)) },
        Clock { offset_ns: 418_878_181_672, ppm: -47, step: None },
    ];
    honest(14_136_775_747_894_283_794, Weather::default(), clocks, false)
        .expect("the interval holds the truth");
}
