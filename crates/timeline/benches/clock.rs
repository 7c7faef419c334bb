//! The table of `docs/clock.md`: our bounds and other methods, on the same packets of simulated worlds with a
//! known truth.
//!
//! `cargo bench -p magscope-timeline --bench clock`

#[path = "../tests/clock_world/mod.rs"]
mod clock_world;

use clock_world::delay::Jitter;
use clock_world::peers::{ConvexHull, Method, QuickestTrip, Regression};
use clock_world::random::Random;
use clock_world::{SECOND, Settings, World};
use magscope_timeline::pair::{Bounds, Builder, Constraint, Drift, Kind, Level0, Live, Model, Recorded};
use std::time::Instant;

const SEEDS: u64 = 20;

#[derive(Default)]
struct OursCertified(Level0);

impl Method for OursCertified {
    fn name(&self) -> &'static str {
        "**Level 0, live**"
    }
    fn push(&mut self, constraint: &Constraint) {
        self.0.push(constraint);
    }
    fn estimate(&self, a_ns: u64) -> Option<i64> {
        self.0.estimate_at(a_ns).map(|(d, _)| d)
    }
    fn interval(&self, a_ns: u64) -> Option<(i64, i64)> {
        pair(&self.0.bounds_at(a_ns))
    }
}

#[derive(Default)]
struct OursModel(Live);

impl Method for OursModel {
    fn name(&self) -> &'static str {
        "**Level 1, live**"
    }
    fn push(&mut self, constraint: &Constraint) {
        self.0.push(constraint);
    }
    fn estimate(&self, a_ns: u64) -> Option<i64> {
        self.0.estimate_at(a_ns).map(|(d, _)| d)
    }
    fn interval(&self, a_ns: u64) -> Option<(i64, i64)> {
        pair(&self.0.sourced_bounds_at(a_ns).bounds)
    }
}

fn pair(bounds: &Bounds) -> Option<(i64, i64)> {
    bounds.lower.zip(bounds.upper)
}

/// Results of one method over all worlds of a scenario.
struct Row {
    name: &'static str,
    asked: u64,
    answered: u64,
    inside: u64,
    claims: u64,
    halves: Vec<f64>,
    errors: Vec<u64>,
    packets: u64,
    negative: u64,
    recovery: Vec<u64>,
    ns: f64,
}

impl Row {
    fn new(name: &'static str) -> Self {
        Row {
            name,
            asked: 0,
            answered: 0,
            inside: 0,
            claims: 0,
            halves: Vec::new(),
            errors: Vec::new(),
            packets: 0,
            negative: 0,
            recovery: Vec::new(),
            ns: 0.0,
        }
    }

    fn ask(&mut self, d: i64, estimate: Option<i64>, interval: Option<(i64, i64)>, round_trip_ns: f64) {
        self.asked += 1;
        if let Some(estimate) = estimate {
            self.answered += 1;
            self.errors.push(estimate.abs_diff(d));
        }
        if let Some((lower, upper)) = interval {
            self.claims += 1;
            self.inside += u64::from(lower <= d && d <= upper);
            self.halves.push((upper - lower).max(0) as f64 / round_trip_ns);
        }
    }

    fn packet(&mut self, constraint: &Constraint, estimate: Option<i64>) {
        let Some(d) = estimate else { return };
        self.packets += 1;
        let delay =
            if constraint.kind == Kind::Upper { constraint.value_ns - d } else { d - constraint.value_ns };
        self.negative += u64::from(delay < 0);
    }

    fn print(mut self) {
        let at = |sorted: &[f64], share: f64| {
            sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().max(1) - 1)).copied()
        };
        self.halves.sort_by(f64::total_cmp);
        let mut errors: Vec<f64> = self.errors.iter().map(|e| *e as f64).collect();
        errors.sort_by(f64::total_cmp);
        let ratio = |x: Option<f64>| x.map_or("–".to_owned(), |x| format!("{x:.3}"));
        let ns = |x: Option<f64>| x.map_or("–".to_owned(), duration);
        let coverage = if self.claims == 0 {
            "–".to_owned()
        } else {
            format!("{:.3} %", self.inside as f64 * 100.0 / self.claims as f64)
        };
        let recovery = self.recovery.iter().max().map_or("–".to_owned(), |most| {
            if *most == u64::MAX { "never".to_owned() } else { most.to_string() }
        });
        println!(
            "| {} | {coverage} | {} | {} | {} | {} | {:.2} % | {recovery} | {:.0} |",
            self.name,
            ratio(at(&self.halves, 0.5)),
            ratio(at(&self.halves, 0.99)),
            ns(at(&errors, 0.5)),
            ns(at(&errors, 0.99)),
            self.negative as f64 * 100.0 / self.packets.max(1) as f64,
            self.ns,
        );
    }
}

fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e4 => format!("{ns:.0} ns"),
        ns if ns < 1e7 => format!("{:.1} µs", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

/// A world with the input of every method, and instants of A with the true difference.
struct Trial {
    packets: Vec<(Constraint, bool)>,
    /// `D` at each packet.
    truth: Vec<i64>,
    step_at: Option<usize>,
    round_trip_ns: f64,
}

impl Trial {
    fn new(seed: u64, settings: &Settings) -> Self {
        let world = World::new(&mut Random(seed), settings.clone());
        let mut packets: Vec<(Constraint, bool)> =
            world.flights.iter().map(|f| (f.constraint(), f.false_match)).collect();
        packets.sort();
        let t_of = |a_ns: u64| {
            let (mut low, mut high) = (-20 * SECOND, settings.span_ns + 30 * SECOND);
            while low < high {
                let middle = low + (high - low) / 2;
                if world.a.read(middle) < a_ns { low = middle + 1 } else { high = middle }
            }
            low
        };
        let times: Vec<i64> = packets.iter().map(|(c, _)| t_of(c.at_ns)).collect();
        // At the same instants on A's clock.
        let truth = times.iter().map(|t| world.truth(*t).1).collect();
        let step_at = settings.jumps.first().map(|(at, ..)| times.partition_point(|t| t < at));
        Trial { packets, truth, step_at, round_trip_ns: settings.floor_ns * 2.0 }
    }

    fn live<M: Method + Default>(&self, row: &mut Row) {
        let mut timed = M::default();
        let start = Instant::now();
        for (constraint, _) in &self.packets {
            timed.push(constraint);
        }
        row.ns = start.elapsed().as_nanos() as f64 / self.packets.len() as f64;
        std::hint::black_box(&timed);
        let mut method = M::default();
        let mut recovered = None;
        for (i, (constraint, false_match)) in self.packets.iter().enumerate() {
            method.push(constraint);
            let a_ns = constraint.at_ns;
            if let Some(step) = self.step_at.filter(|step| i >= *step) {
                let inside = method.interval(a_ns).map_or_else(
                    || method.estimate(a_ns).is_some_and(|d| d.abs_diff(self.truth[i]) < 1_000_000),
                    |(lower, upper)| lower <= self.truth[i] && self.truth[i] <= upper,
                );
                recovered = if inside { recovered.or(Some((i - step) as u64)) } else { None };
            }
            if *false_match || i < 50 {
                continue;
            }
            let estimate = method.estimate(a_ns);
            row.packet(constraint, estimate);
            if i % 5 == 0 {
                row.ask(self.truth[i], estimate, method.interval(a_ns), self.round_trip_ns);
            }
        }
        if self.step_at.is_some() {
            row.recovery.push(recovered.unwrap_or(u64::MAX));
        }
    }

    fn recorded(&self, certified: &mut Row, model: &mut Row) {
        let start = Instant::now();
        let recorded = Recorded::build(self.packets.iter().map(|(c, _)| *c));
        let ns = start.elapsed().as_nanos() as f64 / self.packets.len() as f64;
        (certified.ns, model.ns) = (ns, ns);
        for (i, (constraint, false_match)) in self.packets.iter().enumerate() {
            if *false_match || i < 50 {
                continue;
            }
            let a_ns = constraint.at_ns;
            let bounds = recorded.bounds_at(a_ns);
            let estimate = recorded.estimate_at(a_ns).map(|(d, _)| d);
            certified.packet(constraint, bounds.middle_ns());
            model.packet(constraint, estimate);
            if i % 5 == 0 {
                certified.ask(self.truth[i], bounds.middle_ns(), pair(&bounds), self.round_trip_ns);
                let sourced = recorded.sourced_bounds_at(a_ns);
                model.ask(self.truth[i], estimate, pair(&sourced.bounds), self.round_trip_ns);
            }
        }
    }
}

fn scenario(title: &str, settings: &Settings) {
    println!("\n{title}\n");
    println!(
        "| method | truth inside | half width ÷ (RTT_min/2), p50 | p99 | error p50 | p99 | negative delays | packets to recover | ns a packet |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let trials: Vec<Trial> = (0..SEEDS).map(|seed| Trial::new(seed, settings)).collect();
    let (mut certified, mut model) = (Row::new("**Level 0, recorded**"), Row::new("**Level 1, recorded**"));
    for trial in &trials {
        trial.recorded(&mut certified, &mut model);
    }
    certified.print();
    model.print();
    live::<OursCertified>(&trials);
    live::<OursModel>(&trials);
    live::<ConvexHull>(&trials);
    live::<Regression>(&trials);
    live::<QuickestTrip>(&trials);
}

fn live<M: Method + Default>(trials: &[Trial]) {
    let mut row = Row::new(M::default().name());
    for trial in trials {
        trial.live::<M>(&mut row);
    }
    row.print();
}

/// Level 0 alone, by packet rate and drift bound: the conditions for a half width near half the quickest round
/// trip.
fn half_widths(settings: &Settings) {
    println!("\nLevel 0, recorded: half width ÷ (RTT_min/2) at p50, p99\n");
    println!("| packets/s | ρ = 200 ppm | ρ = 100 ppm | ρ = 50 ppm |\n|---|---|---|---|");
    for packets_per_s in [100, 333, 500, 1_000, 3_333] {
        print!("| {packets_per_s} |");
        for ppm in [200, 100, 50] {
            let packets = packets_per_s * (settings.span_ns / SECOND) as usize;
            let settings = Settings { packets, ..settings.clone() };
            let mut halves = Vec::new();
            for seed in 0..SEEDS / 4 {
                let world = World::new(&mut Random(seed), settings.clone());
                let mut builder = Builder::new(Drift { ppm }, Model::default());
                let constraints = world.constraints();
                for constraint in &constraints {
                    builder.push(*constraint);
                }
                let recorded = builder.finish();
                let at = constraints.iter().skip(50).step_by(5);
                halves.extend(at.filter_map(|c| recorded.bounds_at(c.at_ns).width_ns()));
            }
            halves.sort_unstable();
            let at = |share: usize| halves[halves.len() * share / 100] as f64 / (2.0 * settings.floor_ns);
            print!(" {:.3}, {:.3} |", at(50), at(99));
        }
        println!();
    }
}

fn main() {
    let minute = 60 * SECOND;
    let room =
        |settings: Settings| Settings { sway_ppm: 0.5, sway_period_ns: 6e11, walk_ppm: 0.003, ..settings };
    let switch = room(Settings::quiet(20_000, minute));
    scenario(
        "A switch: 25 µs each way and 10 µs of queueing, 333 packets/s for a minute, crystals in a room",
        &switch,
    );
    scenario("The same at 5 packets/s for an hour", &room(Settings::quiet(18_000, 60 * minute)));
    let tail = [Jitter::Pareto { scale_ns: 50_000.0, alpha: 1.3 }; 2];
    scenario("Heavy tails: Pareto (α 1.3, 50 µs)", &Settings { jitter: tail, ..switch.clone() });
    scenario(
        "All of the way in one direction (asymmetry 100 %)",
        &Settings { asymmetry: 1.0, ..switch.clone() },
    );
    let busy = [Jitter::OnOff { busy_ns: 300_000.0, period_ns: 2e9 }, Jitter::Exponential { mean_ns: 5_000.0 }];
    scenario(
        "One direction busy for a second, quiet for a second",
        &Settings { jitter: busy, ..switch.clone() },
    );
    scenario(
        "A temperature that sways fast: 2 ppm, in 20 s, more than Level 1 assumes",
        &Settings { sway_ppm: 2.0, sway_period_ns: 2e10, ..switch.clone() },
    );
    scenario("One match in a hundred is false", &Settings { false_match: 0.01, ..switch.clone() });
    half_widths(&Settings { span_ns: 20 * SECOND, ..switch.clone() });
    scenario(
        "A clock steps by 5 ms after 30 s",
        &Settings { jumps: vec![(minute / 2, false, 5_000_000)], ..switch },
    );
}
