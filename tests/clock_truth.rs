//! Real traffic between two hosts, recorded on one clock, then rewritten as worlds whose two clocks are made: every
//! claim about their difference is compared with the truth.
//!
//! Seven kinds of traffic over IPv4 and IPv6 are recorded once, in namespaces, six of them over a wire in user space that
//! delays frames and loses some. Each recording becomes several worlds: offsets, rates of ±95 ppm, a rate that wanders,
//! slews by 480 ppm, wall clocks that become wrong, steps forward and back, and swapped ends. `MAGSCOPE_CASES` is the number
//! of worlds; 112 by default.

use crate::common::{self, hosts as wired, two_clocks, wire};

use common::{is_root, skipped};
use magscope_core::clock::ClockSample;
use magscope_core::hash::Map;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, Event, FlowId, Proto};
use magscope_session::{RecordOptions, Recorder, Session};
use magscope_timeline::align::Alignment;
use magscope_timeline::join::{Timeline, Unaligned};
use magscope_timeline::merged_reader;
use magscope_timeline::pair::State;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use two_clocks::clocks_are_sampled;
use wire::{Impaired, Wire};
use wired::{Hosts, RecorderChild, SERVER, SERVER_6, in_namespace};

/// Round trips of TCP at 100 a second.
const REQUESTS: usize = 400;
const EVERY: Duration = Duration::from_millis(10);
/// At five a second.
const SPARSE_REQUESTS: usize = 20;
const SPARSE: Duration = Duration::from_millis(200);
const BULK_WRITES: usize = 400;

/// Rounding of two clocks that show whole nanoseconds.
const ROUNDING_NS: i64 = 3;

/// Error of UTC that both hosts claim. Their wall clocks drift by less.
const CLAIM_NS: u64 = 5_000_000;
/// Time without a claim after the wall clock was set.
const SILENT_NS: i64 = 200_000_000;

/// Traffic, and the path that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Direct,
    Lan,
    Asymmetric,
    Lossy,
    Masqueraded,
    Sparse,
    Upload,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::Direct, Kind::Lan, Kind::Asymmetric, Kind::Lossy, Kind::Masqueraded, Kind::Sparse, Kind::Upload];

    /// The wire, where it is not that of the kernel. Its round trip of 10 ms is a hundred times the jitter of the
    /// machine.
    fn impaired(self) -> Option<Impaired> {
        let wire = |to_server_ms: f64, to_client_ms: f64, loss_percent: f64| {
            Some(Impaired { to_server_ms, to_client_ms, loss_percent })
        };
        match self {
            Kind::Direct => None,
            Kind::Lan | Kind::Masqueraded | Kind::Sparse | Kind::Upload => wire(5.0, 5.0, 0.0),
            Kind::Asymmetric => wire(8.0, 2.0, 0.0),
            Kind::Lossy => wire(5.0, 5.0, 4.0),
        }
    }

    fn run(self, hosts: &Hosts, to: &str) {
        match self {
            Kind::Direct | Kind::Lan | Kind::Asymmetric | Kind::Lossy | Kind::Masqueraded => {
                round_trips(hosts, to, REQUESTS, EVERY);
            }
            Kind::Sparse => round_trips(hosts, to, SPARSE_REQUESTS, SPARSE),
            Kind::Upload => bulk(hosts, to),
        }
    }

    /// Limit of the half width by half the quickest round trip, where the path is longer than the jitter of the
    /// machine: for packets in both directions, and for bulk in one direction.
    fn most(self) -> Option<f64> {
        match self {
            Kind::Direct => None,
            Kind::Lan | Kind::Asymmetric | Kind::Lossy | Kind::Masqueraded | Kind::Sparse => Some(1.1),
            Kind::Upload => Some(1.3),
        }
    }
}

fn round_trips(hosts: &Hosts, to: &str, count: usize, every: Duration) {
    let [client, _, server] = &hosts.names;
    let listener = in_namespace(server, || TcpListener::bind((to, 7000)).expect("a port"));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, mut bytes) = (listener.accept().expect("a client").0, [0; 100]);
            stream.set_nodelay(true).expect("TCP");
            for _ in 0..count {
                stream.read_exact(&mut bytes).expect("a request");
                stream.write_all(&bytes).expect("an answer");
            }
        });
        in_namespace(client, || {
            let (mut stream, mut bytes) = (TcpStream::connect((to, 7000)).expect("a route"), [1; 100]);
            stream.set_nodelay(true).expect("TCP");
            for _ in 0..count {
                stream.write_all(&bytes).expect("a request");
                stream.read_exact(&mut bytes).expect("an answer");
                std::thread::sleep(every);
            }
        });
    });
}

/// An upload: only acknowledgements return.
fn bulk(hosts: &Hosts, to: &str) {
    let [client, _, server] = &hosts.names;
    let listener = in_namespace(server, || TcpListener::bind((to, 7000)).expect("a port"));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, mut bytes) = (listener.accept().expect("a client").0, Vec::new());
            stream.read_to_end(&mut bytes).expect("the upload");
        });
        in_namespace(client, || {
            let mut stream = TcpStream::connect((to, 7000)).expect("a route");
            for _ in 0..BULK_WRITES {
                stream.write_all(&[5; 6_000]).expect("room");
                std::thread::sleep(EVERY);
            }
            stream.shutdown(Shutdown::Write).expect("a connection");
        });
    });
}

/// Both ends of some traffic of one family, on one clock.
pub struct Recorded {
    kind: Kind,
    is_ipv6: bool,
    ends: [(NodeInfo, Vec<Batch>); 2],
    /// First and last event, nanoseconds.
    pub span: (i64, i64),
}

/// Records one kind of traffic over IPv4 and IPv6 at the same time.
pub fn record(kind: Kind) -> Vec<Recorded> {
    let Some(hosts) = Hosts::new(&format!("t{}", kind as u8)) else { return Vec::new() };
    let name = format!("{kind:?}").to_lowercase();
    let wire = kind.impaired().map(|impaired| Wire::between(&hosts, &name, &impaired));
    if matches!(wire, Some(None)) {
        return Vec::new();
    }
    let families = if hosts.add_ipv6() { &[SERVER, SERVER_6][..] } else { &[SERVER][..] };
    if kind == Kind::Masqueraded && !(hosts.translate_family("ip") && hosts.translate_family("ip6")) {
        skipped("masqueraded traffic", "nft cannot masquerade");
        return Vec::new();
    }
    let dir = TempDir::new().expect("a directory");
    let paths = [0, 1].map(|end| dir.path().join(end.to_string()).display().to_string());
    let recorders = [(0, 0), (2, 1)]
        .map(|(host, end): (usize, usize)| RecorderChild::start(&hosts.names[host], &paths[end]));
    for path in &paths {
        clocks_are_sampled(path, 2);
    }
    std::thread::scope(|scope| {
        for to in families {
            scope.spawn(|| kind.run(&hosts, to));
        }
    });
    for path in &paths {
        clocks_are_sampled(path, 3);
    }
    recorders.into_iter().for_each(RecorderChild::end);
    let ends = paths.map(|path| read(&path));
    families.iter().map(|to| of_family(kind, to.contains(':'), &ends)).collect()
}

fn read(path: &str) -> (NodeInfo, Vec<Batch>) {
    let session = Session::open(Path::new(path)).expect("a recording");
    let (mut replay, mut batch, mut batches) = (session.replay(None, None), Batch::default(), Vec::new());
    while replay.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
        batches.push(batch.clone());
    }
    (session.info().clone(), batches)
}

fn of_family(kind: Kind, is_ipv6: bool, ends: &[(NodeInfo, Vec<Batch>); 2]) -> Recorded {
    let ends = ends.each_ref().map(|(info, batches)| {
        let mut families: Map<FlowId, bool> = Map::default();
        for flow in batches.iter().flat_map(|batch| &batch.flows) {
            families.insert(flow.id, flow.local.is_ipv6());
        }
        let mut batches = batches.clone();
        for batch in &mut batches {
            // Neighbour discovery goes on when the traffic has ended. No packet shows a step there.
            let is_of_traffic =
                |event: &Event| event.proto == Proto::TCP && families.get(&event.flow) == Some(&is_ipv6);
            batch.events.retain(is_of_traffic);
        }
        (info.clone(), batches)
    });
    let times =
        || ends.iter().flat_map(|(_, batches)| batches).flat_map(|batch| &batch.events).map(|e| e.time_ns);
    let span = (times().min().expect("events") as i64, times().max().expect("events") as i64);
    Recorded { kind, is_ipv6, ends, span }
}

/// Reproducible random numbers (`SplitMix64`).
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    fn sign(&mut self) -> f64 {
        if self.unit() < 0.5 { -1.0 } else { 1.0 }
    }
}

/// What the clocks of a world do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    Offset,
    Rates,
    Wander,
    Slew,
    Set,
    Forward,
    Back,
    Swapped,
}

impl Clocks {
    const ALL: [Clocks; 8] = [
        Clocks::Offset,
        Clocks::Rates,
        Clocks::Wander,
        Clocks::Slew,
        Clocks::Set,
        Clocks::Forward,
        Clocks::Back,
        Clocks::Swapped,
    ];
}

/// The clocks of one host, by true time: `CLOCK_MONOTONIC` of the recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    base_ns: i64,
    offset_ns: i64,
    ppm: f64,
    /// Amplitude of a rate that wanders, ppm, and its period.
    wander: (f64, f64),
    /// `CLOCK_MONOTONIC` is slewed by this many ppm in this interval.
    slew: (f64, i64, i64),
    /// R steps by this at an instant.
    pub step: Option<(i64, i64)>,
    /// The wall clock is set by this at an instant.
    pub set: Option<(i64, i64)>,
}

impl Made {
    fn raw(&self, t: i64) -> u64 {
        let since = (t - self.base_ns) as f64;
        let (amplitude, period) = self.wander;
        let wandered =
            if amplitude > 0.0 { amplitude * 1e-6 * period * (1.0 - (since / period).cos()) } else { 0.0 };
        let drift = (self.ppm * 1e-6 * since + wandered).floor() as i64;
        let stepped = self.step.map_or(0, |(at, by)| if t >= at { by } else { 0 });
        (t + self.offset_ns + drift + stepped) as u64
    }

    fn monotonic(&self, t: i64) -> u64 {
        let (ppm, from, to) = self.slew;
        let slewed = (ppm * 1e-6 * (t.clamp(from, to.max(from)) - from) as f64).floor() as i64;
        self.raw(t).wrapping_add_signed(slewed)
    }

    fn sample(&self, sample: &ClockSample) -> ClockSample {
        let t = sample.monotonic_ns as i64;
        let set = self.set.filter(|(at, _)| t >= *at);
        let is_silent = set.is_some_and(|(at, _)| t < at + SILENT_NS);
        // The wall clock runs at the rate of `CLOCK_MONOTONIC`.
        let since_ns = |t: i64| self.monotonic(t).wrapping_sub(t as u64) as i64;
        let drifted_ns = since_ns(t) - since_ns(self.base_ns);
        ClockSample {
            monotonic_ns: self.monotonic(t),
            raw_ns: self.raw(t),
            realtime_ns: sample.realtime_ns + drifted_ns + set.map_or(0, |(_, by)| by),
            realtime_steps: u32::from(set.is_some()),
            // A step of R moves the wall clock as well, and any claim would be wrong.
            utc_error_ns: Some(CLAIM_NS).filter(|_| !is_silent && self.step.is_none()),
            stamp_ns: 0,
            ..*sample
        }
    }
}

/// A batch with the times of a made clock.
fn rewritten(batch: &Batch, clock: &Made) -> Batch {
    let mut batch = batch.clone();
    let at = |ns: &mut u64| *ns = clock.monotonic(*ns as i64);
    batch.events.iter_mut().for_each(|event| at(&mut event.time_ns));
    batch.tcp.clear();
    batch.losses.iter_mut().for_each(|loss| {
        at(&mut loss.from_ns);
        at(&mut loss.to_ns);
    });
    batch.clock.iter_mut().for_each(|sample| *sample = clock.sample(sample));
    if batch.watermark_ns != u64::MAX {
        at(&mut batch.watermark_ns);
    }
    batch
}

/// One host of a world.
struct Host {
    info: NodeInfo,
    batches: std::vec::IntoIter<Batch>,
}

impl Source for Host {
    fn info(&self) -> &NodeInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch, _: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        let Some(next) = self.batches.next() else { return Ok(Progress::End) };
        *batch = next;
        Ok(Progress::More)
    }
}

/// A recording with two made clocks.
pub struct World<'r> {
    recorded: &'r Recorded,
    pub made: [Made; 2],
    /// The second end is given first.
    is_swapped: bool,
}

impl<'r> World<'r> {
    pub fn new(recorded: &'r Recorded, clocks: Clocks, seed: u64) -> Self {
        let mut random = Random(seed);
        let (from, to) = recorded.span;
        let amid = |random: &mut Random| from + ((to - from) as f64 * random.between(0.25, 0.75)) as i64;
        let mut made = [0, 1].map(|_| Made {
            base_ns: from,
            offset_ns: random.between(1e9, 3.6e12) as i64,
            ppm: if clocks == Clocks::Offset { 0.0 } else { random.between(-95.0, 95.0) },
            ..Made::default()
        });
        let one = usize::from(random.unit() < 0.5);
        match clocks {
            Clocks::Offset | Clocks::Swapped => {}
            Clocks::Rates => (made[0].ppm, made[1].ppm) = (95.0 * random.sign(), 95.0 * random.sign()),
            Clocks::Wander => {
                for made in &mut made {
                    made.ppm = random.between(-90.0, 90.0);
                    made.wander = (random.between(1.0, 5.0), random.between(1e9, 1e10));
                }
            }
            Clocks::Slew => {
                for made in &mut made {
                    let begin = from + ((to - from) as f64 * random.between(0.2, 0.4)) as i64;
                    made.slew = (480.0 * random.sign(), begin, begin + 1_500_000_000);
                }
            }
            Clocks::Set => made[one].set = Some((amid(&mut random), (3.6e12 * random.sign()) as i64)),
            Clocks::Forward => made[one].step = Some((amid(&mut random), random.between(2e7, 2e9) as i64)),
            // R of the first would show an instant twice, and its difference there has two values. A clock that was set
            // back by more than the time between two samples has no samples until it catches up.
            Clocks::Back => made[1].step = Some((amid(&mut random), -random.between(1e7, 2e7) as i64)),
        }
        World { recorded, made, is_swapped: clocks == Clocks::Swapped }
    }

    fn order(&self) -> [usize; 2] {
        if self.is_swapped { [1, 0] } else { [0, 1] }
    }

    fn host(&self, end: usize) -> Host {
        let (info, batches) = &self.recorded.ends[end];
        let name = format!("host{end}");
        let info = NodeInfo { host: name.clone(), boot_id: name, ..info.clone() };
        let batches: Vec<Batch> = batches.iter().map(|batch| rewritten(batch, &self.made[end])).collect();
        Host { info, batches: batches.into_iter() }
    }

    /// Writes both ends as recordings.
    pub fn write(&self, dirs: [&str; 2]) {
        for (dir, end) in dirs.into_iter().zip(self.order()) {
            let Host { info, batches } = self.host(end);
            let recorder = Recorder::create(Path::new(dir), &info, RecordOptions::default());
            let mut recorder = recorder.expect("a directory");
            batches.for_each(|batch| recorder.append(&batch).expect("room"));
            recorder.close().expect("it is written");
        }
    }

    pub fn aligned(&self) -> Alignment {
        let mut hosts = self.order().map(|end| self.host(end));
        let base_ns = self.recorded.span.0;
        let to_utc_ns = self.order().map(|end| -(self.made[end].monotonic(base_ns) as i64)).to_vec();
        let [a, b] = &mut hosts;
        let (rough, limits) = (Unaligned { to_utc_ns }, Limits::default());
        merged_reader::align(&mut [a, b], &rough, limits, Duration::ZERO).expect("a recording in memory")
    }

    /// R of A, and the difference, at a true instant.
    fn truth(&self, t: i64) -> (u64, i64) {
        let [a, b] = self.order().map(|end| self.made[end].raw(t));
        (a, b.wrapping_sub(a) as i64)
    }

    /// Instants over the recording, many of them near a step.
    fn instants(&self, random: &mut Random) -> Vec<i64> {
        let (from, to) = self.recorded.span;
        let mut all: Vec<i64> =
            (0..200).map(|_| from + ((to - from) as f64 * random.between(-0.05, 1.05)) as i64).collect();
        if let Some((at, _)) = self.made.iter().find_map(|made| made.step) {
            let near_step = |random: &mut Random| {
                at + (random.between(100_f64.ln(), 1e8_f64.ln()).exp() * random.sign()) as i64
            };
            all.extend((0..200).map(|_| near_step(random)));
        }
        all
    }
}

/// Number of instants at which a claim excludes the truth, moved by `moved_ns`: 0 for the checker, more for a mutated
/// one.
fn outside(world: &World<'_>, alignment: &Alignment, instants: &[i64], moved_ns: i64) -> usize {
    let Some(pair) = alignment.pair(0, 1) else { return 0 };
    let is_outside = |t: &&i64| {
        let (a, d) = world.truth(**t);
        let d = d + moved_ns;
        let is_in = |lower: Option<i64>, upper: Option<i64>| {
            lower.is_none_or(|ns| ns <= d + ROUNDING_NS) && upper.is_none_or(|ns| d - ROUNDING_NS <= ns)
        };
        let bounds = pair.bounds_at(a);
        let shown = alignment.difference_at(0, 1, a).bounds;
        // What a latency of journeys is made of, on the slewed clocks.
        let [here, there] = world.order().map(|end| world.made[end].monotonic(**t));
        let used = alignment.difference_ns(0, 1, here).map(|used| used.ends_ns());
        let by_events = there.wrapping_sub(here) as i64 + moved_ns;
        let is_used_right = used.is_none_or(|(lower_ns, upper_ns)| {
            (lower_ns - ROUNDING_NS..=upper_ns + ROUNDING_NS).contains(&by_events)
        });
        !(is_in(bounds.lower, bounds.upper) && is_in(shown.lower, shown.upper) && is_used_right)
    };
    instants.iter().filter(is_outside).count()
}

/// Results of the worlds of one kind of traffic.
#[derive(Default)]
struct Tally {
    worlds: usize,
    instants: usize,
    outside: usize,
    steps: usize,
    ratios: Vec<f64>,
    suspect: usize,
}

#[test]
fn no_claim_about_made_clocks_excludes_the_truth() {
    if !is_root("real recordings with made clocks") {
        return;
    }
    let worlds = std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(112_usize);
    let recorded: Vec<Recorded> = std::thread::scope(|scope| {
        let all = Kind::ALL.map(|kind| scope.spawn(move || record(kind)));
        all.into_iter().flat_map(|one| one.join().expect("a recording")).collect()
    });
    if recorded.is_empty() {
        return;
    }
    let mut table: Vec<(&Recorded, Tally)> = recorded.iter().map(|one| (one, Tally::default())).collect();
    for number in 0..worlds {
        let at = number % recorded.len();
        let clocks = Clocks::ALL[number / recorded.len() % Clocks::ALL.len()];
        let world = World::new(&recorded[at], clocks, number as u64);
        let alignment = world.aligned();
        let pair = alignment.pair(0, 1).unwrap_or_else(|| panic!("no packet crossed in world {number}"));
        let instants = world.instants(&mut Random(!(number as u64)));
        let tally = &mut table[at].1;
        tally.worlds += 1;
        tally.instants += instants.len();
        let wrong = outside(&world, &alignment, &instants, 0);
        if wrong > 0 {
            println!("world {number}: {wrong} outside: {:?} {clocks:?} {:?}", world.recorded.kind, world.made);
        }
        tally.outside += wrong;
        let is_step = matches!(clocks, Clocks::Forward | Clocks::Back);
        // A step shortly before the end of sparse packets is undecided.
        let is_seen = pair.steps() > 0 || is_step && pair.counts().quarantined > 0;
        assert_eq!(is_seen, is_step, "world {number}: {:?} {:?}", world.recorded.kind, world.made);
        tally.steps += usize::from(is_step);
        let set = world.order().into_iter().position(|end| world.made[end].set.is_some());
        if !is_step {
            let refuted: Vec<u16> = set.into_iter().map(|at| at as u16).collect();
            assert_eq!(alignment.refuted_utc(0, 1), refuted, "world {number}: {:?}", world.made);
        }
        tally.suspect += usize::from(alignment.state(0, 1) == Some(State::Suspect));
        // A checker with another truth must object: a round trip more or less is outside the bounds.
        let trip_ns = pair.min_round_trip_ns().expect("two-sided") as i64;
        let [_, median_ns, ..] = pair.half_widths_ns().expect("two-sided");
        for moved_ns in [trip_ns.max(3 * median_ns as i64), -trip_ns.max(3 * median_ns as i64)] {
            let caught = outside(&world, &alignment, &instants, moved_ns);
            assert!(
                caught * 10 > instants.len(),
                "world {number}: a truth {moved_ns} ns off is outside {caught} times only"
            );
        }
        if !is_step {
            tally.ratios.push(median_ns as f64 * 2.0 / trip_ns as f64);
        }
    }
    for (Recorded { kind, is_ipv6, .. }, tally) in &mut table {
        tally.ratios.sort_by(f64::total_cmp);
        let ratio = tally.ratios.get(tally.ratios.len() / 2).copied();
        println!(
            "{kind:?} IPv{}: {} worlds, {} with a step, {} of {} instants outside, half width {:.3} of half the quickest \
             round trip at the median, {} suspect",
            if *is_ipv6 { 6 } else { 4 },
            tally.worlds,
            tally.steps,
            tally.outside,
            tally.instants,
            ratio.unwrap_or(f64::NAN),
            tally.suspect
        );
        if let (Some(ratio), Some(most)) = (ratio, kind.most()) {
            assert!(ratio <= most, "{kind:?}: {ratio}");
        }
    }
    let outside: usize = table.iter().map(|(_, tally)| tally.outside).sum();
    assert_eq!(outside, 0, "claims outside of the truth");
}
