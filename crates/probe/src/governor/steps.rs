//! Choice of the level: pure, fed with measurements once a second.
//!
//! The level drops at once to one that is expected to meet the budget. A rise needs a quiet period and an
//! expected cost within the budget. A rise that fails doubles the next waiting period, so that a load between
//! two levels causes no oscillation.

use magscope_core::governed::Level;
use std::time::Duration;

/// Cost of a hit, nanoseconds, including the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HitCosts {
    /// A hit that becomes a record.
    pub full: f64,
    /// A hit that becomes a compact record.
    pub compact: f64,
    /// A hit that the kernel adds to sums.
    pub histograms: f64,
    /// A hit that a filter or a sampler rejects.
    pub left_out: f64,
}

impl HitCosts {
    /// Cost of an accepted hit at a level.
    fn of_level(&self, level: Level) -> f64 {
        match level {
            Level::Full => self.full,
            Level::Compact | Level::Flows(_) => self.compact,
            Level::Histograms | Level::Packets | Level::Rest => self.histograms,
        }
    }
}

/// Hits of one CPU in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuHits {
    /// Accepted: became records or were added to sums.
    pub accepted: u64,
    /// Rejected by a sampler.
    pub sampled: u64,
    /// Rejected by a filter.
    pub filtered: u64,
    /// Hits of any outcome at the hops that [`Level::Packets`] leaves on.
    pub outermost: u64,
}

impl CpuHits {
    /// Difference of two counter readings.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        CpuHits {
            accepted: self.accepted.saturating_sub(before.accepted),
            sampled: self.sampled.saturating_sub(before.sampled),
            filtered: self.filtered.saturating_sub(before.filtered),
            outermost: self.outermost.saturating_sub(before.outermost),
        }
    }
}

/// Measurement of an interval at one level.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Length of the interval.
    pub elapsed: Duration,
    /// Processor time of the reader, which counts in addition to the probes.
    pub reader: Duration,
    /// Records that the reader took. After a burst these are more than the accepted hits.
    pub records: u64,
    /// Hits by CPU, for every CPU of the host.
    pub cpus: Vec<CpuHits>,
}

/// The instrument's share of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Share of the processor time of all CPUs, including the reader.
    pub of_cpus: f64,
    /// Share of the busiest CPU's time, probes alone: the maximum slow-down of a stream that saturates one CPU.
    pub of_stream: f64,
}

impl Share {
    /// The larger of the two, which the budget limits.
    pub fn most(self) -> f64 {
        self.of_cpus.max(self.of_stream)
    }

    /// The share of a reading at these prices.
    fn of(reading: &Reading, level: Level, prices: &HitCosts) -> Self {
        let ns = reading.elapsed.as_nanos().max(1) as f64;
        let cost = |cpu: &CpuHits| {
            cpu.accepted as f64 * prices.of_level(level) + (cpu.sampled + cpu.filtered) as f64 * prices.left_out
        };
        let costs = || reading.cpus.iter().map(cost);
        let cpus = reading.cpus.len().max(1) as f64;
        Share {
            of_cpus: (costs().sum::<f64>() + reading.reader.as_nanos() as f64) / (ns * cpus),
            of_stream: costs().fold(0.0, f64::max) / ns,
        }
    }
}

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The new level.
    pub to: Level,
    /// Measured share before the change.
    pub share: Share,
}

/// Maximum expected share of a new level, as a fraction of the budget: on the way down, and on the way up.
const DOWN_TO: f64 = 0.9;
const UP_TO: f64 = 0.7;
/// Minimum fraction of the budget reserved for costs that a level can change.
const LEAST_ROOM: f64 = 0.25;
/// A cost above this multiple of the budget causes a step at once; a lower excess must occur twice.
const AT_ONCE: f64 = 2.0;
/// Quiet period before a step up: initial value, and maximum.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(2));
/// A step up that is reverted within this time counts as wrong.
const SOON: Duration = Duration::from_secs(15);
/// Minimum fraction of outermost hits from which the cost of all hops can be estimated.
const LEAST_OUTERMOST: f64 = 0.01;
/// Record rates below this count as idle.
const FEW_RECORDS: f64 = 1_000.0;

/// Chooser of levels.
#[derive(Clone, Debug)]
pub struct Steps {
    budget: f64,
    level: Level,
    share: Share,
    /// Share of one CPU that the reader takes when idle; measured at low load.
    idle: Option<f64>,
    /// Share of one CPU that the reader took under load, and the records per second then.
    busy: Option<(f64, f64)>,
    /// Smoothed share of one CPU that the reader takes.
    reader: Option<f64>,
    /// Fraction of outermost hits when all hops are on.
    outermost: Option<f64>,
    over_before: bool,
    calm: Duration,
    patience: Duration,
    /// Time since the last step up.
    up: Option<Duration>,
    /// Levels that this kernel cannot provide.
    barred: Vec<Level>,
}

impl Steps {
    /// Starts at the top level. The budget is a share of the machine: 0.02 for 2 %.
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

    /// Levels that are skipped from now on.
    pub fn bar(&mut self, levels: Vec<Level>) {
        self.barred = levels;
    }

    /// Current level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Budget as a share of the machine.
    pub fn budget(&self) -> f64 {
        self.budget
    }

    /// Share at the last reading.
    pub fn share(&self) -> Share {
        self.share
    }

    /// Processes a measurement and returns the resulting step. At rest the measurements are short intervals
    /// with histograms; the result is then no step or a step up.
    pub fn take(&mut self, reading: &Reading, prices: &HitCosts) -> Option<Step> {
        let reading = &self.smoothed(reading);
        self.share = Share::of(reading, self.level, prices);
        self.learn(reading);
        let room = self.headroom(reading);
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
        // Measurements at rest are short and rare: one replaces the quiet period.
        if self.calm < self.patience && self.level != Level::Rest {
            return None;
        }
        self.up = Some(Duration::ZERO);
        Some(self.go(best))
    }

    /// Smooths the reader's processor time over some seconds, because the reader writes in bursts.
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

    /// Updates the estimates of the reader's cost.
    fn learn(&mut self, reading: &Reading) {
        let seconds = reading.elapsed.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let mix = |old: f64, new: f64| old * 0.7 + new * 0.3;
        let all = reading.cpus.iter().map(|cpu| cpu.accepted + cpu.sampled + cpu.filtered).sum::<u64>();
        if self.level != Level::Packets && all > 0 {
            let part = reading.cpus.iter().map(|cpu| cpu.outermost).sum::<u64>() as f64 / all as f64;
            self.outermost = Some(self.outermost.map_or(part, |old| mix(old, part)));
        }
        let records = reading.records as f64 / seconds;
        let taken = reading.reader.as_secs_f64() / seconds;
        if records < FEW_RECORDS {
            // The minimum, with slow decay.
            self.idle = Some(self.idle.map_or(taken, |idle| (idle * 1.01).min(taken)));
        } else {
            let (before, so_many) = self.busy.unwrap_or((taken, records));
            self.busy = Some((mix(before, taken), mix(so_many, records)));
        }
    }

    /// Cost of reading one record, nanoseconds.
    fn record_ns(&self) -> f64 {
        let each = |(taken, records): (f64, f64)| (taken - self.idle.unwrap_or(0.0)).max(0.0) / records * 1e9;
        self.busy.map_or(0.0, each)
    }

    /// Reader time of this interval that is independent of the number of records.
    fn idle_ns(&self, reading: &Reading) -> f64 {
        self.idle.unwrap_or(0.0) * reading.elapsed.as_nanos() as f64
    }

    /// The part of the budget for costs that a level can change. A reader with a high fixed cost does not force
    /// the lowest level.
    fn headroom(&self, reading: &Reading) -> f64 {
        let idle = self.idle.unwrap_or(0.0) / reading.cpus.len().max(1) as f64;
        (self.budget - idle).max(self.budget * LEAST_ROOM)
    }

    /// Expected share of a level for the same traffic, without the fixed cost of the reader.
    fn expected(&self, reading: &Reading, prices: &HitCosts, level: Level) -> f64 {
        if level == Level::Rest {
            return 0.0;
        }
        let cpus: Vec<_> = reading.cpus.iter().map(|cpu| self.at(level, cpu)).collect();
        let has_records = level.passed_share() > 0.0;
        let then: u64 = if has_records { cpus.iter().map(|cpu| cpu.accepted).sum() } else { 0 };
        // Scaled by the number of records; without records now, by the earlier cost per record.
        let busy_ns = (reading.reader.as_nanos() as f64 - self.idle_ns(reading)).max(0.0);
        let record_ns = if reading.records > 0 { busy_ns / reading.records as f64 } else { self.record_ns() };
        let reader = Duration::from_nanos((then as f64 * record_ns) as u64);
        let there = Reading { elapsed: reading.elapsed, reader, records: then, cpus };
        Share::of(&there, level, prices).most()
    }

    /// Expected hits of a CPU at a level, by outcome.
    fn at(&self, level: Level, now: &CpuHits) -> CpuHits {
        // At the current level, the same flows; at others, a random selection of the new size.
        if level == self.level {
            return *now;
        }
        if level == Level::Packets {
            return CpuHits { accepted: now.outermost, outermost: now.outermost, ..CpuHits::default() };
        }
        let more = match self.level {
            Level::Packets => 1.0 / self.outermost.unwrap_or(1.0).clamp(LEAST_OUTERMOST, 1.0),
            _ => 1.0,
        };
        let so_many = |n: u64, part: f64| (n as f64 * part).round() as u64;
        let passed = so_many(now.accepted + now.sampled, more);
        let accepted = if level == Level::Histograms { passed } else { so_many(passed, level.passed_share()) };
        let filtered = so_many(now.filtered, more);
        CpuHits { accepted, sampled: passed - accepted.min(passed), filtered, outermost: now.outermost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: HitCosts = HitCosts { full: 200.0, compact: 170.0, histograms: 120.0, left_out: 80.0 };
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

    /// Traffic of flows of equal weight, on one of two CPUs; a record costs 100 ns to read.
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
            let records = (passed as f64 * level.passed_share()) as u64;
            let accepted = if level.passed_share() > 0.0 { records } else { passed };
            let outermost = if level == Level::Packets { passed } else { passed / 6 };
            let cpu = CpuHits { accepted, sampled: passed - accepted, filtered: 0, outermost };
            let reader = Duration::from_nanos(records * 100 + 1_000_000);
            Reading { elapsed, reader, records, cpus: vec![cpu, CpuHits::default()] }
        }

        /// Simulates `seconds` seconds and returns the levels.
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
        // The step up occurs when all hops are expected to fit the budget, and not before.
        let levels = Machine { hits_per_s: 250_000 }.run(&mut steps, 60);
        assert_eq!(levels.last(), Some(&Level::Packets), "{levels:?}");
        let levels = Machine { hits_per_s: 60_000 }.run(&mut steps, 20);
        assert_eq!(levels.last(), Some(&Level::Full), "{levels:?}");
    }

    #[test]
    fn one_flow_that_is_kept_where_few_are_does_not_stop_it() {
        // All traffic is one flow that every sampling rate accepts.
        let mut steps = Steps::new(0.02);
        for _ in 0..20 {
            let accepted = if steps.level() == Level::Rest { 250_000 } else { 1_000_000 };
            let elapsed = if steps.level() == Level::Rest { SECOND / 4 } else { SECOND };
            let cpus = vec![CpuHits { accepted, outermost: accepted, ..CpuHits::default() }];
            let records = if steps.level().passed_share() > 0.0 { accepted } else { 0 };
            steps.take(&Reading { elapsed, reader: Duration::from_millis(100), records, cpus }, &PRICES);
        }
        assert_eq!(steps.level(), Level::Rest);
    }

    #[test]
    fn a_reader_that_takes_much_by_itself_gives_nothing_up_for_it() {
        // 3 % of one of two CPUs: three quarters of the budget.
        let mut steps = Steps::new(0.02);
        for _ in 0..30 {
            let level = steps.level();
            let accepted = if level.passed_share() > 0.0 { 1_600 } else { 0 };
            let cpus = vec![CpuHits { accepted, ..CpuHits::default() }, CpuHits::default()];
            let elapsed = if level == Level::Rest { SECOND / 4 } else { SECOND };
            let reader = elapsed * 42 / 1_000;
            steps.take(&Reading { elapsed, reader, records: accepted, cpus }, &PRICES);
        }
        assert_eq!(steps.level(), Level::Full);
    }

    #[test]
    fn a_stroke_of_the_reader_is_no_load() {
        let mut steps = Steps::new(0.03);
        for second in 0..60 {
            let cpus = vec![CpuHits { accepted: 28_000, ..CpuHits::default() }, CpuHits::default()];
            let reader = Duration::from_millis(if second % 20 == 19 { 80 } else { 30 });
            let step = steps.take(&Reading { elapsed: SECOND, reader, records: 28_000, cpus }, &PRICES);
            assert_eq!(step, None, "{second}");
        }
    }

    #[test]
    fn records_of_a_burst_that_are_read_late_are_no_cost_of_later_ones() {
        let mut steps = Steps::new(0.03);
        Machine { hits_per_s: 500 }.run(&mut steps, 10);
        Machine { hits_per_s: 1_000_000 }.run(&mut steps, 1);
        assert_ne!(steps.level(), Level::Full);
        // A level with few records, while the reader is still busy with those of the burst.
        for _ in 0..3 {
            let cpus =
                vec![CpuHits { accepted: 1_100, sampled: 900_000, ..CpuHits::default() }, CpuHits::default()];
            let reader = Duration::from_millis(900);
            steps.take(&Reading { elapsed: SECOND, reader, records: 300_000, cpus }, &PRICES);
        }
        let levels = Machine { hits_per_s: 500 }.run(&mut steps, 150);
        assert_eq!(levels.last(), Some(&Level::Full), "{levels:?}");
    }

    #[test]
    fn nothing_measured_is_nothing_done() {
        let mut steps = Steps::new(0.02);
        assert_eq!(steps.take(&Reading::default(), &PRICES), None);
        assert_eq!(steps.level(), Level::Full);
    }
}
