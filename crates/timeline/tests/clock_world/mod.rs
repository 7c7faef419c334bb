//! A simulated world with two clocks and a path between them, generated from a seed, with a known truth.

#![allow(dead_code, reason = "each test and bench uses some of it")]

pub mod clock;
pub mod delay;
pub mod peers;
pub mod random;

use clock::Crystal;
use delay::{Jitter, Path};
use magscope_timeline::pair::Constraint;
use random::Random;

pub const SECOND: i64 = 1_000_000_000;
const HOUR_NS: f64 = 3.6e12;

/// Both clocks show integer nanoseconds: the rounding error of a difference of two readings is less than two.
/// The true value in the comparison has the same error.
pub const ROUNDING_NS: u64 = 3;

/// Parameters of a world.
#[derive(Clone, Debug)]
pub struct Settings {
    pub span_ns: i64,
    pub packets: usize,
    pub floor_ns: f64,
    /// 0: both directions are alike. 1: one of them has no delay.
    pub asymmetry: f64,
    pub jitter: [Jitter; 2],
    /// Rate of A and B, ppm; temperature variation and random walk of their rates.
    pub ppm: [f64; 2],
    pub sway_ppm: f64,
    pub sway_period_ns: f64,
    pub walk_ppm: f64,
    pub route_change: bool,
    /// Share of packets lost, of those retransmitted, and of those retransmitted and matched wrongly.
    pub loss: f64,
    pub retransmission: f64,
    pub false_match: f64,
    /// Packets of a super-packet: sent with one stamp (GSO), and received with one (GRO).
    pub offload: u64,
    /// A span with packets from only A, or only B.
    pub one_way: Option<(i64, i64, bool)>,
    /// True instant, true for A's clock (else B's), and size of the jump.
    pub jumps: Vec<(i64, bool, i64)>,
    /// Maximum error of time stamps.
    pub noise_ns: u64,
}

impl Settings {
    /// Any world that satisfies ρ.
    pub fn any(random: &mut Random, packets: usize) -> Self {
        let span_ns = random.magnitude(1e6, 1e12) as i64;
        let some = |random: &mut Random, share: f64, most: f64| {
            if random.chance(share) { random.between(0.0, most) } else { 0.0 }
        };
        let one_way = random.chance(0.3).then(|| {
            let (from, len) = (random.between(0.0, 1.0), random.between(0.0, 1.0));
            let at = |x: f64| (span_ns as f64 * x) as i64;
            (at(from), at(from + len), random.chance(0.5))
        });
        Settings {
            span_ns,
            packets,
            floor_ns: random.magnitude(500.0, 1e8),
            asymmetry: if random.chance(0.3) { 1.0 } else { random.unit() },
            jitter: [Jitter::any(random), Jitter::any(random)],
            ppm: [random.between(-90.0, 90.0), random.between(-90.0, 90.0)],
            sway_ppm: some(random, 0.5, 4.0),
            sway_period_ns: random.magnitude(1e8, 1e12),
            walk_ppm: some(random, 0.5, 1.0),
            route_change: random.chance(0.2),
            loss: some(random, 0.3, 0.5),
            retransmission: some(random, 0.3, 0.2),
            false_match: 0.0,
            offload: if random.chance(0.3) { 1 + random.below(8) } else { 1 },
            one_way,
            jumps: Vec::new(),
            noise_ns: if random.chance(0.5) { random.below(500) } else { 0 },
        }
    }

    /// Two hosts on one switch with good crystals: 25 µs per direction and some queueing.
    pub fn quiet(packets: usize, span_ns: i64) -> Self {
        Settings {
            span_ns,
            packets,
            floor_ns: 25_000.0,
            asymmetry: 0.0,
            jitter: [Jitter::Exponential { mean_ns: 10_000.0 }; 2],
            ppm: [12.0, -17.0],
            sway_ppm: 0.0,
            sway_period_ns: 3e11,
            walk_ppm: 0.0,
            route_change: false,
            loss: 0.0,
            retransmission: 0.0,
            false_match: 0.0,
            offload: 1,
            one_way: None,
            jumps: Vec::new(),
            noise_ns: 0,
        }
    }
}

/// A packet seen on both nodes.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    pub a_to_b: bool,
    /// On the sender's clock.
    pub sent_ns: u64,
    /// On the receiver's clock.
    pub received_ns: u64,
    pub error_ns: u64,
    /// By true time.
    pub true_delay_ns: i64,
    /// True for two different packets.
    pub false_match: bool,
}

impl Flight {
    pub fn constraint(&self) -> Constraint {
        let made = if self.a_to_b {
            Constraint::a_to_b(self.sent_ns, self.received_ns, self.error_ns)
        } else {
            Constraint::b_to_a(self.sent_ns, self.received_ns, self.error_ns)
        };
        made.expect("differences of this world fit")
    }
}

#[derive(Clone, Debug)]
pub struct World {
    pub a: Crystal,
    pub b: Crystal,
    pub settings: Settings,
    /// In order of sending.
    pub flights: Vec<Flight>,
}

impl World {
    pub fn new(random: &mut Random, settings: Settings) -> Self {
        let start = random.magnitude(1e13, 1e16) as u64;
        let crystal = |random: &mut Random, start_ns: u64, ppm: f64, settings: &Settings| {
            let mut crystal = Crystal::new(start_ns, ppm);
            crystal.sway = (settings.sway_ppm, settings.sway_period_ns, random.between(0.0, 6.0));
            crystal.walking(random, settings.span_ns, settings.walk_ppm)
        };
        let offset = random.between(-HOUR_NS, HOUR_NS) as i64;
        let mut a = crystal(random, start, settings.ppm[0], &settings);
        let mut b = crystal(random, start.wrapping_add_signed(offset), settings.ppm[1], &settings);
        for (at, on_a, by) in &settings.jumps {
            if *on_a { &mut a } else { &mut b }.jumps.push((*at, *by));
        }
        let mut world = World { a, b, settings, flights: Vec::new() };
        world.fly(random);
        world
    }

    pub fn any(seed: u64, packets: usize) -> Self {
        let mut random = Random(seed);
        let settings = Settings::any(&mut random, packets);
        World::new(&mut random, settings)
    }

    fn fly(&mut self, random: &mut Random) {
        let settings = self.settings.clone();
        let floors =
            [settings.floor_ns * (1.0 + settings.asymmetry), settings.floor_ns * (1.0 - settings.asymmetry)];
        let swapped = random.chance(0.5);
        let path = |i: usize, random: &mut Random| {
            let floor_ns = floors[i ^ usize::from(swapped)];
            let change = (settings.span_ns / 2, floor_ns * random.between(0.2, 5.0));
            Path { floor_ns, jitter: settings.jitter[i], route_change: settings.route_change.then_some(change) }
        };
        let paths = [path(0, random), path(1, random)];
        let gap = settings.span_ns as f64 / settings.packets.max(1) as f64;
        let mut t = 0.0;
        while self.flights.len() < settings.packets && t < settings.span_ns as f64 {
            t += random.exponential(gap);
            let now = t as i64;
            let a_to_b = match settings.one_way {
                Some((from, to, a_sends)) if (from..to).contains(&now) => a_sends,
                _ => random.chance(0.5),
            };
            let mut group: Vec<i64> = Vec::new();
            for _ in 0..=random.below(settings.offload) {
                let path = &paths[usize::from(!a_to_b)];
                group.push(now + path.delay_ns(random, now));
            }
            // GRO delivers the packets of a super-packet together, after the last.
            let merged = random.chance(0.5).then(|| group.iter().copied().max()).flatten();
            for arrived in group {
                let arrived = merged.unwrap_or(arrived);
                if random.chance(settings.loss) {
                    continue;
                }
                if random.chance(settings.retransmission) {
                    // Karn: the received copy of the two is unknown, so it gives no bound, except after a wrong
                    // match.
                    if random.chance(settings.false_match) {
                        let again = now + random.magnitude(1e6, 1e9) as i64;
                        self.note(random, a_to_b, again, arrived, true);
                    }
                    continue;
                }
                if random.chance(settings.false_match) {
                    // Any two packets taken for one, the receipt long before the sending or long after.
                    let off = random.magnitude(1e5, 1e10) as i64;
                    let off = if random.chance(0.5) { off } else { -off };
                    self.note(random, a_to_b, now, arrived.saturating_add(off), true);
                    continue;
                }
                self.note(random, a_to_b, now, arrived, false);
            }
        }
    }

    /// Adds a packet at true instants.
    pub fn note(&mut self, random: &mut Random, a_to_b: bool, sent: i64, arrived: i64, false_match: bool) {
        let noise = self.settings.noise_ns;
        let mut stamp = |t: i64, on_a: bool| {
            let off = random.below(2 * noise + 1) as i64 - noise as i64;
            if on_a { &self.a } else { &self.b }.read(t).wrapping_add_signed(off)
        };
        let (sent_ns, received_ns) = (stamp(sent, a_to_b), stamp(arrived, !a_to_b));
        let error_ns = 2 * noise + ROUNDING_NS;
        let true_delay_ns = arrived - sent;
        self.flights.push(Flight { a_to_b, sent_ns, received_ns, error_ns, true_delay_ns, false_match });
    }

    pub fn constraints(&self) -> Vec<Constraint> {
        self.flights.iter().enumerate().map(|(i, f)| f.constraint().of_packet(i as u64)).collect()
    }

    /// R of A, and `D` there, at a true instant.
    pub fn truth(&self, t_ns: i64) -> (u64, i64) {
        let (a, b) = (self.a.read(t_ns), self.b.read(t_ns));
        (a, b.wrapping_sub(a) as i64)
    }

    /// A true instant at which R of A shows about this.
    pub fn true_ns(&self, a_ns: u64) -> i64 {
        let (mut from, mut to) = (-self.settings.span_ns, 2 * self.settings.span_ns);
        while to - from > 1 {
            let amid = from + (to - from) / 2;
            if self.a.read(amid) <= a_ns { from = amid } else { to = amid }
        }
        from
    }

    /// Instants spread over the world, and slightly beyond its ends.
    pub fn instants(&self, random: &mut Random, n: usize) -> Vec<i64> {
        let span = self.settings.span_ns as f64;
        (0..n).map(|_| (random.between(-0.05, 1.05) * span) as i64).collect()
    }
}
