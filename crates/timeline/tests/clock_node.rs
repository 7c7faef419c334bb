//! Simulated clocks of one node: slewed, asleep, moved to another clocksource, set. The map between them must
//! hold, and must report its breaks.
//!
//! `MAGSCOPE_CASES` sets the number of nodes per property, with fresh seeds; by default, the same 10 000.

use crate::clock_world;

use clock_world::ROUNDING_NS;
use clock_world::random::Random;
use magscope_core::clock::{Break, ClockSample, Clocksource};
use magscope_core::node::NodeInfo;
use magscope_timeline::align::{Aligner, Online, separate_clones};
use magscope_timeline::join::{Crossing, Timeline};
use magscope_timeline::pair::Estimate;
use magscope_timeline::{NodeClock, UtcMap};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const SECOND: u64 = 1_000_000_000;
/// Mean distance of samples, and its variation.
const EVERY_NS: u64 = 100_000_000;
const JITTER_NS: u64 = 25_000_000;

fn config() -> ProptestConfig {
    let asked = std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok());
    let rng_seed = if asked.is_some() { RngSeed::Random } else { RngSeed::Fixed(2_026) };
    let cases = asked.unwrap_or(10_000);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// An event of a node's clocks at a true instant.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// MONOTONIC and REALTIME run at this rate against R from now on, parts per million.
    Slew(i64),
    /// R, MONOTONIC and REALTIME stop for this time; BOOTTIME continues, and REALTIME is corrected at the
    /// wake-up.
    Suspend(u64),
    /// The clock source changes: R jumps ahead by this.
    Clocksource(u64),
    /// REALTIME is set ahead by this.
    Set(i64),
    /// The machine is saved and continued: no clock counts the pause. The report comes later.
    Restore { pause_ns: u64, report_ns: u64 },
}

/// All clocks of a node at a true instant.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    t_ns: u64,
    raw_ns: u64,
    monotonic_ns: u64,
    realtime_ns: i64,
    suspended_ns: u64,
    sets: u32,
    source: Clocksource,
    /// Pauses that no clock counted, nanoseconds.
    paused_ns: u64,
}

struct Node {
    /// The clocks directly after each event.
    pieces: Vec<(Clocks, i64)>,
    /// True instants from which a continuation is reported.
    reports: Vec<u64>,
    end_ns: u64,
}

impl Node {
    /// Events are at least four samples apart, and as far from the ends.
    fn new(random: &mut Random, happenings: &[Happening]) -> Self {
        Self::with_gaps(random, happenings, 5 * EVERY_NS)
    }

    fn with_gaps(random: &mut Random, happenings: &[Happening], gap_ns: u64) -> Self {
        let mut now = Clocks {
            t_ns: 0,
            raw_ns: random.below(1 << 50),
            monotonic_ns: random.below(1 << 50),
            realtime_ns: 1_790_000_000 * SECOND as i64,
            suspended_ns: 0,
            sets: 0,
            source: Clocksource::Tsc,
            paused_ns: 0,
        };
        let first = (now, random.below(1_000) as i64 - 500);
        let mut node = Node { pieces: vec![first], reports: Vec::new(), end_ns: 0 };
        for happening in happenings {
            now = node.at(now.t_ns + gap_ns + random.below(5 * EVERY_NS));
            let (_, mut ppm) = *node.pieces.last().expect("one at least");
            match *happening {
                Happening::Slew(new) => ppm = new,
                Happening::Suspend(ns) => {
                    now.t_ns += ns;
                    now.suspended_ns += ns;
                    now.realtime_ns += ns as i64;
                }
                Happening::Clocksource(ns) => {
                    now.raw_ns += ns;
                    now.source =
                        if now.source == Clocksource::Tsc { Clocksource::Hpet } else { Clocksource::Tsc };
                }
                Happening::Set(ns) => {
                    now.realtime_ns += ns;
                    now.sets += 1;
                }
                Happening::Restore { pause_ns, report_ns } => {
                    now.t_ns += pause_ns;
                    now.paused_ns += pause_ns;
                    node.reports.push(now.t_ns + report_ns);
                }
            }
            node.pieces.push((now, ppm));
        }
        node.end_ns = now.t_ns + gap_ns + EVERY_NS;
        node
    }

    fn at(&self, t_ns: u64) -> Clocks {
        let after = self.pieces.partition_point(|(clocks, _)| clocks.t_ns <= t_ns).max(1);
        let (from, ppm) = self.pieces[after - 1];
        let since = t_ns - from.t_ns;
        let slewed = (i128::from(since) * i128::from(1_000_000 + ppm)).div_euclid(1_000_000) as u64;
        Clocks {
            t_ns,
            raw_ns: from.raw_ns + since,
            monotonic_ns: from.monotonic_ns + slewed,
            realtime_ns: from.realtime_ns + slewed as i64,
            ..from
        }
    }

    fn ppm_at(&self, t_ns: u64) -> i64 {
        self.pieces[self.pieces.partition_point(|(clocks, _)| clocks.t_ns <= t_ns).max(1) - 1].1
    }

    /// True if it is awake at an instant: no process reads clocks during sleep.
    fn is_awake(&self, t_ns: u64) -> bool {
        let asleep = |pair: &[(Clocks, i64)]| {
            let stopped_ns = |clocks: &Clocks| clocks.suspended_ns + clocks.paused_ns;
            let slept = stopped_ns(&pair[1].0) - stopped_ns(&pair[0].0);
            slept > 0 && (pair[1].0.t_ns - slept..pair[1].0.t_ns).contains(&t_ns)
        };
        !self.pieces.windows(2).any(asleep)
    }

    fn sample(&self, random: &mut Random, t_ns: u64) -> ClockSample {
        // R and REALTIME were read somewhere between the two readings of MONOTONIC.
        let width = 40 + random.below(400);
        let (before, after) = (self.at(t_ns), self.at(t_ns + width));
        let (first, second) = (random.below(width / 2), width / 2 + random.below(width / 2));
        let width_ns = (after.monotonic_ns - before.monotonic_ns) as u32;
        ClockSample {
            monotonic_ns: before.monotonic_ns + u64::from(width_ns) / 2,
            raw_ns: self.at(t_ns + first).raw_ns,
            realtime_ns: self.at(t_ns + second).realtime_ns,
            width_ns,
            suspended_ns: before.suspended_ns,
            realtime_steps: before.sets,
            clocksource: before.source,
            frequency: self.ppm_at(t_ns) << 16,
            status: 0x40,
            generations: self.reports.iter().filter(|report| **report <= t_ns).count() as u32,
            ..ClockSample::default()
        }
    }

    fn samples(&self, random: &mut Random) -> Vec<(u64, ClockSample)> {
        let (mut t_ns, mut samples) = (0, Vec::new());
        while t_ns < self.end_ns {
            // A reading interrupted by an event is not the narrowest of eight.
            let quiet = self.pieces.iter().all(|(clocks, _)| !(t_ns..t_ns + 1_000).contains(&clocks.t_ns));
            if quiet && self.is_awake(t_ns) && self.is_awake(t_ns + 1_000) {
                samples.push((t_ns, self.sample(random, t_ns)));
            }
            t_ns += EVERY_NS - JITTER_NS + random.below(2 * JITTER_NS);
        }
        // As at the end of a capture.
        samples.push((self.end_ns, self.sample(random, self.end_ns)));
        samples
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (-500..=500_i64).prop_map(Happening::Slew),
        prop_oneof![Just(83_333_i64), Just(-83_333), -83_333..=83_333_i64].prop_map(Happening::Slew),
        (2_000_000..3_600 * SECOND).prop_map(Happening::Suspend),
        (0..10_000_000_u64).prop_map(Happening::Clocksource),
        prop_oneof![Just(3_600 * SECOND as i64), -3_600_000_000_000..3_600_000_000_000_i64]
            .prop_map(Happening::Set),
        (0..3_600 * SECOND, 0..3 * EVERY_NS)
            .prop_map(|(pause_ns, report_ns)| Happening::Restore { pause_ns, report_ns }),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_map_holds_between_its_breaks_and_names_them(
        seed in any::<u64>(),
        happenings in prop::collection::vec(happening(), 0..6),
    ) {
        let mut random = Random(seed);
        let node = Node::new(&mut random, &happenings);
        let samples = node.samples(&mut random);
        let (mut clock, mut utc) = (NodeClock::new(), UtcMap::new());
        for (_, sample) in &samples {
            clock.push(*sample);
            utc.push(*sample);
        }
        let breaks: Vec<_> = clock.breaks().collect();
        let expected: Vec<Break> = happenings.iter().filter_map(|happening| match happening {
            Happening::Suspend(_) => Some(Break::Suspend),
            Happening::Clocksource(_) => Some(Break::Clocksource),
            Happening::Restore { .. } => Some(Break::Generation),
            Happening::Slew(_) | Happening::Set(_) => None,
        }).collect();
        let found: Vec<Break> = breaks.iter().map(|(.., what)| *what).collect();
        prop_assert_eq!(found, expected);
        let (first, last) = (samples[1].0, samples[samples.len() - 2].0);
        for _ in 0..20 {
            let t_ns = first + random.below(last - first);
            let truth = node.at(t_ns);
            if !node.is_awake(t_ns) || breaks.iter().any(|(from, to, _)| (*from..=*to).contains(&truth.raw_ns)) {
                continue;
            }
            map_holds(&clock, &truth)?;
            let back = clock.event_ns(truth.raw_ns).expect("amid samples");
            prop_assert!(back.ns.abs_diff(truth.monotonic_ns) <= back.error_ns + ROUNDING_NS, "{back:?}, truly {truth:?}");
            // Near a set or a wake-up, either value is valid.
            let near = |clocks: &Clocks| clocks.t_ns.abs_diff(t_ns) > 2 * EVERY_NS;
            if node.pieces.iter().skip(1).all(|(clocks, _)| near(clocks)) {
                let shown = utc.utc_ns(truth.monotonic_ns).expect("amid samples");
                prop_assert!(shown.abs_diff(truth.realtime_ns) <= 900, "{shown}, truly {truth:?}");
            }
        }
    }

    /// Two recordings of one boot share its clock, whatever happens to it. A clone was continued at another time, so its
    /// R is behind by at least a tenth of a second.
    #[test]
    fn recordings_of_one_boot_share_a_clock_and_clones_do_not(
        seed in any::<u64>(),
        happenings in prop::collection::vec(happening(), 0..6),
        behind_ns in EVERY_NS..3_600 * SECOND,
    ) {
        let mut random = Random(seed);
        let node = Node::new(&mut random, &happenings);
        let series = |random: &mut Random| node.samples(random).into_iter().map(|(_, sample)| sample);
        let (one, two): (Vec<_>, Vec<_>) = (series(&mut random).collect(), series(&mut random).collect());
        let cut = random.below(two.len() as u64 - 1) as usize;
        let mut boots = [(); 3].map(|()| NodeInfo { boot_id: "a".to_owned(), ..NodeInfo::default() });
        // The third begins anywhere in the second, or after the first.
        let later = if random.below(2) == 0 { two[cut..].to_vec() } else { Vec::new() };
        prop_assert_eq!(separate_clones(&mut boots, &[one.clone(), two.clone(), later]), Vec::<usize>::new());
        let behind = |sample: &ClockSample| ClockSample {
            raw_ns: sample.raw_ns + 3_600 * SECOND - behind_ns,
            monotonic_ns: sample.monotonic_ns + 3_600 * SECOND - behind_ns,
            ..*sample
        };
        let ahead = |sample: &ClockSample| ClockSample {
            raw_ns: sample.raw_ns + 3_600 * SECOND,
            monotonic_ns: sample.monotonic_ns + 3_600 * SECOND,
            ..*sample
        };
        let sets = happenings.iter().any(|what| matches!(what, Happening::Set(_) | Happening::Suspend(_)));
        if !sets {
            let series = [one.iter().map(ahead).collect(), two.iter().map(behind).collect()];
            prop_assert_eq!(separate_clones(&mut boots[..2], &series), vec![1]);
            prop_assert_eq!((boots[0].boot_id.as_str(), boots[1].boot_id.as_str()), ("a", ""));
        }
    }

    /// A slew begins in the first interval, or in the last one. The map holds from the first sample to the last, if the
    /// kernel's rate was recorded. A slew by chrony is a hundred times what the frequency alone allows.
    #[test]
    fn the_map_holds_in_the_first_and_the_last_interval_of_a_slew(
        seed in any::<u64>(),
        ppm in prop_oneof![Just(83_333_i64), Just(-83_333), -83_333..=83_333_i64],
        at_end in any::<bool>(),
    ) {
        let mut random = Random(seed);
        let slew = Node::new(&mut random, &[Happening::Slew(ppm)]);
        let begun_ns = slew.pieces[1].0.t_ns;
        // Between the two samples at one end.
        let samples: Vec<u64> = slew.samples(&mut random).iter().map(|(t_ns, _)| *t_ns).collect();
        let next = samples.partition_point(|t_ns| *t_ns <= begun_ns);
        let part = if at_end { &samples[..=next] } else { &samples[next - 1..] };
        let mut clock = NodeClock::new();
        for t_ns in part {
            clock.push(slew.sample(&mut random, *t_ns));
        }
        prop_assert!(clock.samples().len() > 4);
        for _ in 0..20 {
            let t_ns = samples[next - 1] + random.below(samples[next] - samples[next - 1]);
            map_holds(&clock, &slew.at(t_ns))?;
        }
        // After the last sample, the set rate goes on.
        if at_end {
            map_holds(&clock, &slew.at(samples[next] + random.below(SECOND)))?;
        }
    }

    /// B's R jumps by less than a packet's delay, or more: the packets alone could not show it, its samples
    /// can.
    #[test]
    fn a_known_break_is_an_epoch_however_small(
        seed in any::<u64>(),
        what in jump(),
        on_b in any::<bool>(),
    ) {
        let mut random = Random(seed);
        let nodes = one_jumps(&mut random, what, on_b);
        let (end_ns, infos) = (nodes[0].end_ns, infos());
        let mut aligner = Aligner::new(&infos);
        for (at, node) in nodes.iter().enumerate() {
            for (_, sample) in node.samples(&mut random) {
                aligner.clock(at as u16, sample);
            }
        }
        for (_, crossing) in crossings(&nodes, &mut random) {
            aligner.crossing(&crossing);
        }
        let alignment = aligner.finish();
        let pair = alignment.pair(0, 1).expect("they talked");
        prop_assert_eq!((pair.steps(), pair.counts().rejected), (1, 0));
        for _ in 0..20 {
            let t_ns = 2 * EVERY_NS + random.below(end_ns - 4 * EVERY_NS);
            if !nodes.iter().all(|node| node.is_awake(t_ns)) {
                continue;
            }
            let (a, b) = (nodes[0].at(t_ns).raw_ns, nodes[1].at(t_ns).raw_ns);
            let (bounds, difference) = (pair.bounds_at(a), b.wrapping_sub(a) as i64);
            prop_assert!(bounds.contains(difference), "{difference} at {a} is not in {bounds:?}");
        }
    }

    /// The same live. Bounds hold at every instant except those between a break and the sample that shows it.
    #[test]
    fn online_bounds_hold_and_a_known_break_ends_them(
        seed in any::<u64>(),
        what in jump(),
        on_b in any::<bool>(),
    ) {
        let mut random = Random(seed);
        let nodes = one_jumps(&mut random, what, on_b);
        let is_late = matches!(what, Happening::Restore { .. });
        let infos = infos();
        let online = Online::new(&infos);
        let mut reported: Vec<(u64, Input)> = crossings(&nodes, &mut random)
            .map(|(t_ns, crossing)| (t_ns, Input::Crossing(crossing)))
            .collect();
        for (at, node) in nodes.iter().enumerate() {
            reported.extend(node.samples(&mut random).into_iter().map(|(t_ns, s)| (t_ns, Input::Clock(at as u16, s))));
        }
        reported.sort_by_key(|(t_ns, _)| *t_ns);
        let jumps = usize::from(on_b);
        let broke_ns = nodes[jumps].pieces[1].0.t_ns;
        // A sample shows the break within this time; until then bounds from before it are applied to later
        // instants.
        let due_ns = nodes[jumps].reports.first().copied().unwrap_or(broke_ns + 1);
        let reported_ns = reported.iter().find(|(t_ns, what)| *t_ns >= due_ns && matches!(what, Input::Clock(at, _) if usize::from(*at) == jumps));
        let reported_ns = reported_ns.expect("the last sample").0;
        let mut bounded = 0;
        for (t_ns, what) in reported {
            match what {
                Input::Clock(node, sample) => online.clock(node, sample),
                Input::Crossing(crossing) => online.crossing(&crossing),
            }
            if t_ns == reported_ns {
                prop_assert_eq!(online.difference_ns(0, 1, nodes[0].at(t_ns).monotonic_ns), None);
            }
            // Until the report of a continuation, packets from after it are taken for ones from before.
            if is_late && (broke_ns..reported_ns).contains(&t_ns) {
                continue;
            }
            // now, recently, and long ago
            for t_ns in [t_ns, t_ns.saturating_sub(EVERY_NS + JITTER_NS), random.below(t_ns + 1)] {
                let (a, b) = (nodes[0].at(t_ns).monotonic_ns, nodes[1].at(t_ns).monotonic_ns);
                let Some(difference) = online.difference_ns(0, 1, a) else { continue };
                let is_awake = nodes.iter().all(|node| node.is_awake(t_ns));
                if !is_awake || (broke_ns..reported_ns).contains(&t_ns) { continue }
                let (truth_ns, (lower_ns, upper_ns)) = (b.wrapping_sub(a) as i64, difference.ends_ns());
                let slack_ns = 2 * ROUNDING_NS as i64;
                let is_inside = (lower_ns - slack_ns..=upper_ns + slack_ns).contains(&truth_ns);
                prop_assert!(is_inside, "{truth_ns} is not {difference:?} at {t_ns}");
                bounded += 1;
            }
        }
        prop_assert!(bounded > 0);
        let counts = online.counts(0, 1);
        let steps = online.look(|all| all.pair(0, 1).map(|live| live.certified().steps()));
        // Packets may show the break before its report.
        prop_assert!(if is_late { steps >= Some(1) } else { (steps, counts.rejected) == (Some(1), 0) }, "{steps:?} {counts:?}");
        prop_assert!(counts.used > 20, "{counts:?}");
    }
}

fn map_holds(clock: &NodeClock, truth: &Clocks) -> Result<(), TestCaseError> {
    let raw = clock.raw_ns(truth.monotonic_ns).expect("amid samples");
    prop_assert!(raw.ns.abs_diff(truth.raw_ns) <= raw.error_ns + ROUNDING_NS, "{raw:?}, truly {truth:?}");
    Ok(())
}

/// Input of a source.
enum Input {
    Clock(u16, ClockSample),
    Crossing(Crossing),
}

fn infos() -> [NodeInfo; 2] {
    ["a", "b"].map(|boot| NodeInfo { boot_id: boot.to_owned(), ..NodeInfo::default() })
}

/// A jump of R, by its clocksource or because the machine was continued.
fn jump() -> impl Strategy<Value = Happening> {
    let jump_ns = || prop_oneof![0..40_000_u64, 0..1_000_000_000_u64];
    prop_oneof![
        jump_ns().prop_map(Happening::Clocksource),
        (jump_ns(), 0..SECOND * 8 / 10)
            .prop_map(|(pause_ns, report_ns)| Happening::Restore { pause_ns, report_ns }),
    ]
}

/// Two nodes; one of them is slewed, the other one's R jumps.
fn one_jumps(random: &mut Random, what: Happening, on_b: bool) -> [Node; 2] {
    let gap_ns = if matches!(what, Happening::Restore { .. }) { 2 * SECOND } else { 5 * EVERY_NS };
    let jumping = Node::with_gaps(random, &[what], gap_ns);
    let steady = Node::with_gaps(random, &[Happening::Slew(83_333)], gap_ns);
    let mut nodes = if on_b { [steady, jumping] } else { [jumping, steady] };
    let end_ns = nodes[0].end_ns.max(nodes[1].end_ns);
    for node in &mut nodes {
        node.end_ns = end_ns;
    }
    nodes
}

/// Packets in both directions, each with the true instant of its receipt.
fn crossings<'a>(nodes: &'a [Node; 2], random: &'a mut Random) -> impl Iterator<Item = (u64, Crossing)> + 'a {
    (0..120).filter_map(|i| {
        let t_ns = (nodes[0].end_ns - 1_000_000) * i / 120 + random.below(1_000);
        let (tx, rx) = if i % 2 == 0 { (0, 1) } else { (1, 0) };
        let received_t_ns = t_ns + 25_000 + random.exponential(10_000.0) as u64;
        let crossing = Crossing {
            tx_node: tx,
            rx_node: rx,
            sent_ns: nodes[usize::from(tx)].at(t_ns).monotonic_ns,
            received_ns: nodes[usize::from(rx)].at(received_t_ns).monotonic_ns,
        };
        let are_awake = nodes.iter().all(|node| node.is_awake(t_ns) && node.is_awake(received_t_ns));
        are_awake.then_some((received_t_ns, crossing))
    })
}

/// Two sources with one clock have no difference, from the first packet on.
#[test]
fn sources_of_one_boot_have_no_difference_and_wait_for_nothing() {
    let one = NodeInfo { boot_id: "a".to_owned(), ..NodeInfo::default() };
    let online = Online::new(&[one.clone(), one]);
    assert_eq!(online.difference_ns(0, 1, 12_345), Some(Estimate::default()));
    let online = Online::new(&infos());
    assert_eq!(online.difference_ns(0, 1, 12_345), None, "of two, nothing is known yet");
}
