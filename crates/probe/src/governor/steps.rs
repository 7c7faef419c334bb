//! Which rung is the right one: pure, told what was measured, and asked once a second.
//!
//! Down at once to where the budget is expected to hold, up when it has held for a while and is expected to hold there too. A step up
//! that has to be taken back makes the next one wait longer, so that a load between two rungs does not make it swing.

use magscope_core::governed::Level;
use std::time::Duration;

/// What a hit costs, nanoseconds, being called included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// One that becomes a record.
    pub full: f64,
    /// One that becomes a compact record.
    pub compact: f64,
    /// One that is added up in the kernel.
    pub histograms: f64,
    /// One that a filter or a sampler leaves out.
    pub left_out: f64,
}

impl Prices {
    /// Of a hit that is kept at a rung.
    fn kept(&self, level: Level) -> f64 {
        match level {
            Level::Full => self.full,
            Level::Compact | Level::Flows(_) => self.compact,
            Level::Histograms | Level::Packets | Level::Rest => self.histograms,
        }
    }
}

/// Hits of one CPU in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuHits {
    /// Became records, or were added up in the kernel.
    pub kept: u64,
    /// Left out by a sampler.
    pub sampled: u64,
    /// Left out by a filter.
    pub filtered: u64,
    /// Of all of them, those at the hops that [`Level::Packets`] leaves on.
    pub outermost: u64,
}

impl CpuHits {
    /// What came between two readings of the counters.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        CpuHits {
            kept: self.kept.saturating_sub(before.kept),
            sampled: self.sampled.saturating_sub(before.sampled),
            filtered: self.filtered.saturating_sub(before.filtered),
            outermost: self.outermost.saturating_sub(before.outermost),
        }
    }
}

/// What was measured in a stretch of time in which one rung held.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// How long that was.
    pub elapsed: Duration,
    /// Processor time that reading took: what is to be paid beside the probes.
    pub reader: Duration,
    /// Every CPU of the host.
    pub cpus: Vec<CpuHits>,
}

/// What part of the machine the instrument takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Of the processor time of all CPUs, with the reader.
    pub of_cpus: f64,
    /// Of the busiest CPU's time, probes alone: what a stream that keeps a CPU busy is slowed by at most.
    pub of_stream: f64,
}

impl Share {
    /// The larger: what the budget is for.
    pub fn most(self) -> f64 {
        self.of_cpus.max(self.of_stream)
    }

    /// At prices.
    fn of(reading: &Reading, level: Level, prices: &Prices) -> Self {
        let ns = reading.elapsed.as_nanos().max(1) as f64;
        let cost = |cpu: &CpuHits| {
            cpu.kept as f64 * prices.kept(level) + (cpu.sampled + cpu.filtered) as f64 * prices.left_out
        };
        let costs = || reading.cpus.iter().map(cost);
        let cpus = reading.cpus.len().max(1) as f64;
        Share {
            of_cpus: (costs().sum::<f64>() + reading.reader.as_nanos() as f64) / (ns * cpus),
            of_stream: costs().fold(0.0, f64::max) / ns,
        }
    }
}

/// A step that is to be taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// To where.
    pub to: Level,
    /// What was taken before it.
    pub share: Share,
}

/// Of the budget, what a rung may be expected to take to be chosen on the way down, and on the way up.
const DOWN_TO: f64 = 0.9;
const UP_TO: f64 = 0.7;
/// What of it there always is for what a rung can change.
const LEAST_ROOM: f64 = 0.25;
/// So much over the budget is acted upon at once, less when it was so twice.
const AT_ONCE: f64 = 2.0;
/// How long the load has to be small before a step up: at first, and at most.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(2));
/// A step up that is taken back within this was wrong.
const SOON: Duration = Duration::from_secs(15);
/// There is no telling what all hops would take from fewer of all hits than this.
const LEAST_OUTERMOST: f64 = 0.01;
/// Fewer records a second are as good as none.
const FEW_RECORDS: f64 = 1_000.0;

/// Chooses rungs.
#[derive(Clone, Debug)]
pub struct Steps {
    budget: f64,
    level: Level,
    share: Share,
    /// What reading takes of one CPU's time however little there is to read, known once there was little.
    idle: Option<f64>,
    /// What it took of it when there was something to read, and how many records a second those were.
    busy: Option<(f64, f64)>,
    /// What the reader takes of one CPU's time, over some seconds.
    reader: Option<f64>,
    /// What part of all hits the outermost are, when all hops are on.
    outermost: Option<f64>,
    over_before: bool,
    calm: Duration,
    patience: Duration,
    /// Since the last step up.
    up: Option<Duration>,
    /// Rungs that this kernel cannot have.
    barred: Vec<Level>,
}

impl Steps {
    /// From the top, within a part of the machine: 0.02 for 2 %.
    pub fn new(budget: f64) -> Self {
        Steps {
            budget,
            level: Level::Full,
            share: Share::default(),
            idle: None,
            busy: None,
            reader: None,
            outermost: None,
            over_before: false,
            calm: Duration::ZERO,
            patience: PATIENCE.0,
            up: None,
            barred: Vec::new(),
        }
    }

    /// Rungs that are skipped from now on.
    pub fn bar(&mut self, levels: Vec<Level>) {
        self.barred = levels;
    }

    /// Where it is.
    pub fn level(&self) -> Level {
        self.level
    }

    /// What it may take.
    pub fn budget(&self) -> f64 {
        self.budget
    }

    /// What it took when it was told last.
    pub fn share(&self) -> Share {
        self.share
    }

    /// Takes what was measured since the last time; the step that follows from it. At rest it is told of looks, in which histograms were
    /// made; then it stays or climbs.
    pub fn take(&mut self, reading: &Reading, prices: &Prices) -> Option<Step> {
        let reading = &self.smoothed(reading);
        self.share = Share::of(reading, self.level, prices);
        self.learn(reading);
        let room = self.room(reading);
        let taken = self.expected(reading, prices, self.level);
        self.up = self.up.map(|up| up + reading.elapsed);
        let is_over = self.level != Level::Rest && taken > room;
        if is_over {
            self.calm = Duration::ZERO;
            let is_so = std::mem::replace(&mut self.over_before, true);
            if !is_so && taken < room * AT_ONCE {
                return None;
            }
            if self.up.take().is_some_and(|up| up < SOON) {
                self.patience = (self.patience * 2).min(PATIENCE.1);
            }
            let below = &Level::LADDER[self.level.depth() + 1..];
            let fits = |level: &&Level| {
                !self.barred.contains(level) && self.expected(reading, prices, **level) <= room * DOWN_TO
            };
            return Some(self.go(below.iter().find(fits).copied().unwrap_or(Level::Rest)));
        }
        self.over_before = false;
        if self.up.is_some_and(|up| up >= SOON) {
            (self.up, self.patience) = (None, PATIENCE.0);
        }
        let above = &Level::LADDER[..self.level.depth()];
        let fits = |level: &&Level| {
            !self.barred.contains(level) && self.expected(reading, prices, **level) <= room * UP_TO
        };
        let Some(best) = above.iter().find(fits).copied() else {
            self.calm = Duration::ZERO;
            return None;
        };
        self.calm += reading.elapsed;
        // Looks are short and far apart: one is as good as some seconds.
        if self.calm < self.patience && self.level != Level::Rest {
            return None;
        }
        self.up = Some(Duration::ZERO);
        Some(self.go(best))
    }

    /// A reader takes its time in strokes: it writes now and then. What counts is what it takes over some seconds.
    fn smoothed(&mut self, reading: &Reading) -> Reading {
        let seconds = reading.elapsed.as_secs_f64().max(1e-9);
        let now = reading.reader.as_secs_f64() / seconds;
        let taken = self.reader.map_or(now, |before| before * 0.6 + now * 0.4);
        self.reader = Some(taken);
        Reading { reader: Duration::from_secs_f64(taken * seconds), ..reading.clone() }
    }

    fn go(&mut self, to: Level) -> Step {
        self.reader = None;
        (self.level, self.calm, self.over_before) = (to, Duration::ZERO, false);
        Step { to, share: self.share }
    }

    /// What reading takes.
    fn learn(&mut self, reading: &Reading) {
        let seconds = reading.elapsed.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let mix = |known: f64, new: f64| known * 0.7 + new * 0.3;
        let all = reading.cpus.iter().map(|cpu| cpu.kept + cpu.sampled + cpu.filtered).sum::<u64>();
        if self.level != Level::Packets && all > 0 {
            let part = reading.cpus.iter().map(|cpu| cpu.outermost).sum::<u64>() as f64 / all as f64;
            self.outermost = Some(self.outermost.map_or(part, |known| mix(known, part)));
        }
        let kept: u64 = reading.cpus.iter().map(|cpu| cpu.kept).sum();
        let records = if self.level.kept() > 0.0 { kept as f64 / seconds } else { 0.0 };
        let taken = reading.reader.as_secs_f64() / seconds;
        if records < FEW_RECORDS {
            // The least there was, which is slowly forgotten.
            self.idle = Some(self.idle.map_or(taken, |idle| (idle * 1.01).min(taken)));
        } else {
            let (before, so_many) = self.busy.unwrap_or((taken, records));
            self.busy = Some((mix(before, taken), mix(so_many, records)));
        }
    }

    /// What reading a record takes, nanoseconds.
    fn record_ns(&self) -> f64 {
        let each = |(taken, records): (f64, f64)| (taken - self.idle.unwrap_or(0.0)).max(0.0) / records * 1e9;
        self.busy.map_or(0.0, each)
    }

    /// What the reader takes however little there is to read.
    fn idle_ns(&self, reading: &Reading) -> f64 {
        self.idle.unwrap_or(0.0) * reading.elapsed.as_nanos() as f64
    }

    /// What of the budget is left for what a rung can change. A reader that takes much by itself does not make it give everything up.
    fn room(&self, reading: &Reading) -> f64 {
        let idle = self.idle.unwrap_or(0.0) / reading.cpus.len().max(1) as f64;
        (self.budget - idle).max(self.budget * LEAST_ROOM)
    }

    /// What a rung would have taken of the same traffic, beside what the reader takes in any case.
    fn expected(&self, reading: &Reading, prices: &Prices, level: Level) -> f64 {
        if level == Level::Rest {
            return 0.0;
        }
        let cpus: Vec<_> = reading.cpus.iter().map(|cpu| self.at(level, cpu)).collect();
        let records = |cpus: &[CpuHits], level: Level| {
            if level.kept() > 0.0 { cpus.iter().map(|cpu| cpu.kept).sum() } else { 0_u64 }
        };
        let (now, then) = (records(&reading.cpus, self.level), records(&cpus, level));
        // As much less as there are fewer records; where there are none now, as much as each took.
        let beside = (reading.reader.as_nanos() as f64 - self.idle_ns(reading)).max(0.0);
        let reader = if now > 0 { beside * then as f64 / now as f64 } else { then as f64 * self.record_ns() };
        let there = Reading { elapsed: reading.elapsed, reader: Duration::from_nanos(reader as u64), cpus };
        Share::of(&there, level, prices).most()
    }

    /// What would be hit of what a CPU does, and what would become of it.
    fn at(&self, level: Level, now: &CpuHits) -> CpuHits {
        // Of the same flows as now, if as many; of more of them, if chance has it.
        if level == self.level {
            return *now;
        }
        if level == Level::Packets {
            return CpuHits { kept: now.outermost, outermost: now.outermost, ..CpuHits::default() };
        }
        let more = match self.level {
            Level::Packets => 1.0 / self.outermost.unwrap_or(1.0).clamp(LEAST_OUTERMOST, 1.0),
            _ => 1.0,
        };
        let so_many = |n: u64, part: f64| (n as f64 * part).round() as u64;
        let passed = so_many(now.kept + now.sampled, more);
        let kept = if level == Level::Histograms { passed } else { so_many(passed, level.kept()) };
        let filtered = so_many(now.filtered, more);
        CpuHits { kept, sampled: passed - kept.min(passed), filtered, outermost: now.outermost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices { full: 200.0, compact: 170.0, histograms: 120.0, left_out: 80.0 };
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn barred_rungs_are_skipped() {
        let mut steps = Steps::new(0.02);
        steps.bar(vec![Level::Histograms, Level::Packets, Level::Flows(4), Level::Flows(16), Level::Flows(64)]);
        let levels = Machine { hits_per_s: 900_000 }.run(&mut steps, 60);
        assert_eq!(levels.last(), Some(&Level::Rest));
        assert!(
            levels.iter().all(|level| matches!(level, Level::Full | Level::Compact | Level::Rest)),
            "{levels:?}"
        );
    }

    /// Traffic that is made of flows of equal weight, on one of two CPUs; reading a record takes 100 ns.
    struct Machine {
        hits_per_s: u64,
    }

    impl Machine {
        fn reading(&self, level: Level) -> Reading {
            let passed = match level {
                Level::Rest => self.hits_per_s / 4,
                Level::Packets => self.hits_per_s / 6,
                _ => self.hits_per_s,
            };
            let elapsed = if level == Level::Rest { SECOND / 4 } else { SECOND };
            let records = (passed as f64 * level.kept()) as u64;
            let kept = if level.kept() > 0.0 { records } else { passed };
            let outermost = if level == Level::Packets { passed } else { passed / 6 };
            let cpu = CpuHits { kept, sampled: passed - kept, filtered: 0, outermost };
            let reader = Duration::from_nanos(records * 100 + 1_000_000);
            Reading { elapsed, reader, cpus: vec![cpu, CpuHits::default()] }
        }

        /// So many seconds; the rungs it was on.
        fn run(&self, steps: &mut Steps, seconds: usize) -> Vec<Level> {
            let mut levels = Vec::new();
            for _ in 0..seconds {
                steps.take(&self.reading(steps.level()), &PRICES);
                levels.push(steps.level());
            }
            levels
        }
    }

    #[test]
    fn a_load_within_the_budget_is_captured_whole() {
        let mut steps = Steps::new(0.02);
        let levels = Machine { hits_per_s: 90_000 }.run(&mut steps, 60);
        assert!(levels.iter().all(|level| *level == Level::Full), "{levels:?}");
        assert!((steps.share().of_stream - 0.018).abs() < 1e-9, "{:?}", steps.share());
    }

    #[test]
    fn it_steps_down_to_where_the_budget_holds_and_up_again() {
        let mut steps = Steps::new(0.02);
        Machine { hits_per_s: 50_000 }.run(&mut steps, 20);
        for hits_per_s in [110_000, 160_000, 240_000, 300_000, 3_000_000] {
            let machine = Machine { hits_per_s };
            let levels = machine.run(&mut steps, 60);
            assert!(steps.share().most() <= 0.02 || steps.level() == Level::Rest, "{levels:?}");
            let settled = &levels[40..];
            assert!(settled.iter().all(|level| *level == settled[0]), "it swings at {hits_per_s}: {levels:?}");
        }
        assert_eq!(steps.level(), Level::Rest);
        let up = Machine { hits_per_s: 50_000 }.run(&mut steps, 20);
        assert_eq!(up.last(), Some(&Level::Full), "{up:?}");
    }

    #[test]
    fn twice_the_budget_is_left_at_once_and_a_little_more_than_it_after_two_seconds() {
        let mut steps = Steps::new(0.02);
        assert_eq!(Machine { hits_per_s: 250_000 }.run(&mut steps, 1).len(), 1);
        assert_ne!(steps.level(), Level::Full);
        let mut steps = Steps::new(0.02);
        assert_eq!(Machine { hits_per_s: 103_000 }.run(&mut steps, 2), [Level::Full, Level::Compact]);
    }

    #[test]
    fn a_load_that_doubles_and_halves_again_and_again_makes_it_ever_more_patient() {
        let mut steps = Steps::new(0.02);
        let mut changes = Vec::new();
        for round in 0..40 {
            for hits_per_s in [60_000, 120_000] {
                let levels = Machine { hits_per_s }.run(&mut steps, 8);
                changes.push((round, levels.windows(2).filter(|two| two[0] != two[1]).count()));
            }
        }
        let of = |rounds: std::ops::Range<usize>| {
            changes.iter().filter(|(round, _)| rounds.contains(round)).map(|(_, n)| n).sum::<usize>()
        };
        assert!(of(0..10) > of(30..40), "{changes:?}");
    }

    #[test]
    fn where_hops_cost_too_much_packets_are_still_counted() {
        let mut steps = Steps::new(0.02);
        let levels = Machine { hits_per_s: 600_000 }.run(&mut steps, 60);
        assert_eq!(levels.last(), Some(&Level::Packets), "{levels:?}");
        assert!((steps.share().of_stream - 0.012).abs() < 1e-3, "{:?}", steps.share());
        // Back when all hops are expected to hold, and not before.
        let levels = Machine { hits_per_s: 250_000 }.run(&mut steps, 60);
        assert_eq!(levels.last(), Some(&Level::Packets), "{levels:?}");
        let levels = Machine { hits_per_s: 60_000 }.run(&mut steps, 20);
        assert_eq!(levels.last(), Some(&Level::Full), "{levels:?}");
    }

    #[test]
    fn one_flow_that_is_kept_where_few_are_does_not_stop_it() {
        // All traffic is one flow that every sampling keeps.
        let mut steps = Steps::new(0.02);
        for _ in 0..20 {
            let kept = if steps.level() == Level::Rest { 250_000 } else { 1_000_000 };
            let elapsed = if steps.level() == Level::Rest { SECOND / 4 } else { SECOND };
            let cpus = vec![CpuHits { kept, outermost: kept, ..CpuHits::default() }];
            steps.take(&Reading { elapsed, reader: Duration::from_millis(100), cpus }, &PRICES);
        }
        assert_eq!(steps.level(), Level::Rest);
    }

    #[test]
    fn a_reader_that_takes_much_by_itself_gives_nothing_up_for_it() {
        // Of two CPUs, 3 % of one: three quarters of the budget.
        let mut steps = Steps::new(0.02);
        for _ in 0..30 {
            let level = steps.level();
            let kept = if level.kept() > 0.0 { 1_600 } else { 0 };
            let cpus = vec![CpuHits { kept, ..CpuHits::default() }, CpuHits::default()];
            let elapsed = if level == Level::Rest { SECOND / 4 } else { SECOND };
            let reader = elapsed * 42 / 1_000;
            steps.take(&Reading { elapsed, reader, cpus }, &PRICES);
        }
        assert_eq!(steps.level(), Level::Full);
    }

    #[test]
    fn a_stroke_of_the_reader_is_no_load() {
        let mut steps = Steps::new(0.03);
        for second in 0..60 {
            let cpus = vec![CpuHits { kept: 28_000, ..CpuHits::default() }, CpuHits::default()];
            let reader = Duration::from_millis(if second % 20 == 19 { 80 } else { 30 });
            let step = steps.take(&Reading { elapsed: SECOND, reader, cpus }, &PRICES);
            assert_eq!(step, None, "{second}");
        }
    }

    #[test]
    fn nothing_measured_is_nothing_done() {
        let mut steps = Steps::new(0.02);
        assert_eq!(steps.take(&Reading::default(), &PRICES), None);
        assert_eq!(steps.level(), Level::Full);
    }
}
