//! The overhead budget: a capture reduces its detail when its cost exceeds the budget, and restores it later.
//!
//! `steps` chooses the level (pure), `scale` measures the cost of a hit, and [`Governor`] reads the counters
//! and changes the capture. Each change carries the measured cost before it.

mod lingering;
mod scale;
mod steps;

pub use magscope_core::governed::Level;
pub use scale::{Scale, Weighed};
pub use steps::{CpuHits, HitCosts, Reading, Share, Step, Steps};

use crate::capture::Capture;
use crate::error::ProbeError;
use crate::setting::{Detail, Setting};
use lingering::{Runs, lingering, words};
use magscope_core::hop::HopSet;
use magscope_core::node::Ability;
use magscope_core::synthesis::outermost;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Measurement interval.
const PERIOD: Duration = Duration::from_secs(1);
/// At rest: interval between measurements, and their length.
const REST: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(250);
/// Interval between cost measurements of a hit.
const WEIGH: Duration = Duration::from_secs(30);

/// Processor time that counts in addition to the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The whole process's.
    Process,
    /// The thread that reads the capture. The remaining threads serve others, such as an agent's viewers.
    Thread,
}

impl Reader {
    /// Processor time so far.
    pub fn cpu_time(self) -> Duration {
        let time = clock_gettime(match self {
            Self::Process => ClockId::ProcessCPUTime,
            Self::Thread => ClockId::ThreadCPUTime,
        });
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
    }
}

/// Keeps a capture to its budget.
pub struct Governor {
    steps: Steps,
    scale: Scale,
    reader: Reader,
    /// True if cost measurements can continue without events in this capture.
    weighs_on: bool,
    weighed: Instant,
    /// Start of the current interval.
    began: Instant,
    cpu: Duration,
    records: u64,
    hits: Option<Vec<CpuHits>>,
    /// Requested settings, and the settings in force.
    asked: InForce,
    set: Option<InForce>,
    /// Hops to switch on again, if any are off.
    let_go: Option<HopSet>,
    /// At rest: true during a measurement.
    looks: bool,
    runs: Runs,
    /// Hops whose programs stay attached at rest, and their share of the machine.
    stays: (HopSet, f64),
}

/// Level of detail and flow sampling of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InForce {
    detail: Detail,
    /// Flow sampling, one in `one_in`.
    one_in: u32,
}

impl InForce {
    fn of(capture: &Capture) -> Self {
        InForce { detail: capture.detail(), one_in: capture.flow_one_in() }
    }

    /// The settings of a level: never more than requested.
    fn at(self, level: Level) -> Self {
        let detail = match level {
            Level::Histograms | Level::Packets | Level::Rest => Detail::Histograms,
            Level::Compact | Level::Flows(_) if self.detail == Detail::Full => Detail::Compact,
            Level::Full | Level::Compact | Level::Flows(_) => self.detail,
        };
        let one_in = match level {
            Level::Flows(one_in) => self.one_in.saturating_mul(one_in),
            Level::Full | Level::Compact | Level::Histograms | Level::Packets | Level::Rest => self.one_in,
        };
        InForce { detail, one_in }
    }
}

impl Governor {
    /// Creates a governor with a budget as share of the machine, 0.02 for 2 %. `every_netns` is set if the
    /// capture covers every namespace.
    pub fn new(budget: f64, scale: Scale, reader: Reader, every_netns: bool) -> Self {
        let now = Instant::now();
        Governor {
            steps: Steps::new(budget),
            scale,
            reader,
            weighs_on: !every_netns,
            weighed: now,
            began: now,
            cpu: reader.cpu_time(),
            records: 0,
            hits: None,
            asked: InForce { detail: Detail::Full, one_in: 1 },
            set: None,
            let_go: None,
            looks: false,
            runs: Runs::default(),
            stays: (HopSet::EMPTY, 0.0),
        }
    }

    /// State of the level choice.
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Measured cost of a hit with all detail, nanoseconds; `None` if noise hides it.
    pub fn hit_ns(&mut self) -> Option<f64> {
        self.scale.prices().map(|prices| prices.full)
    }

    fn rests(&self) -> bool {
        self.steps.level() == Level::Rest
    }

    /// Recent share of the machine. At rest: the share of a measurement, averaged over the rest interval, plus
    /// that of the attached programs.
    pub fn used(&self) -> f64 {
        if !self.rests() {
            return self.steps.share().most();
        }
        self.steps.share().most() * LOOK.as_secs_f64() / (LOOK + REST).as_secs_f64() + self.stays.1
    }

    /// Hops whose programs still run without captured events, and their runs per second.
    pub fn still_attached(&self) -> (HopSet, f64) {
        (self.stays.0, self.runs.of(self.stays.0))
    }

    /// Determines the attached programs and their cost: at most that of a rejected hit.
    fn look_what_stays(&mut self, capture: &Capture, left_out_ns: f64) {
        let hops = if self.rests() && !self.looks { lingering(capture) } else { HopSet::EMPTY };
        let cpus = capture.info.cpus.max(1);
        self.stays = (hops, self.runs.of(hops) * left_out_ns / 1e9 / f64::from(cpus));
    }

    /// Measures the cost at the end of each interval and changes the capture if needed. The thread that reads
    /// the capture calls this often.
    ///
    /// # Errors
    /// The capture cannot be changed, or the kernel does not give its counters.
    pub fn turn(&mut self, capture: &mut Capture) -> Result<(), ProbeError> {
        let now = Instant::now();
        let due = match (self.rests(), self.looks) {
            (true, true) => LOOK,
            (true, false) => REST,
            (false, _) => PERIOD,
        };
        if self.hits.is_some() && now - self.began < due {
            return Ok(());
        }
        if self.weighs_on && self.weighed.elapsed() >= WEIGH {
            self.weighed = now;
            self.scale.ask();
        }
        let counters = capture.counters()?;
        if self.hits.is_some() {
            self.runs.end(&counters.hops, capture.hops(), now - self.began);
        } else {
            self.runs.begin(&counters.hops);
        }
        let hits: Vec<CpuHits> = counters.cpus;
        let (began, cpu) = (std::mem::replace(&mut self.began, now), self.reader.cpu_time());
        let reader = cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu));
        let read = capture.records_read();
        let records = read - std::mem::replace(&mut self.records, read);
        let Some(before) = self.hits.replace(hits.clone()) else { return Ok(()) };
        if self.rests() && !self.looks {
            self.looks = true;
            capture.change(&Setting::Enable(self.let_go.unwrap_or_default()))?;
            // The measurement starts after all programs are attached.
            self.hits = None;
            return Ok(());
        }
        let reading = Reading {
            elapsed: now - began,
            reader,
            records,
            cpus: hits.iter().zip(&before).map(|(now, before)| now.since(*before)).collect(),
        };
        let Some(prices) = self.scale.prices() else { return Ok(()) };
        let (facts, samples_hits) = (capture.facts(), capture.control.samples_hits());
        let lacks = |level: &Level| match level {
            Level::Flows(_) => facts.left_out.contains_key(&Ability::Sampling),
            Level::Histograms | Level::Packets => samples_hits || facts.left_out.contains_key(&Ability::Sums),
            Level::Full | Level::Compact | Level::Rest => false,
        };
        self.steps.bar(Level::LADDER.into_iter().filter(lacks).collect());
        match self.steps.take(&reading, &prices) {
            Some(step) => self.go(step, capture, &prices)?,
            None if self.rests() => {
                self.looks = false;
                capture.change(&Setting::Disable(capture.hops()))?;
                self.look_what_stays(capture, prices.left_out);
            }
            None => {}
        }
        // The cost of the change itself counts in no interval.
        self.hits = None;
        Ok(())
    }

    fn go(&mut self, step: Step, capture: &mut Capture, prices: &HitCosts) -> Result<(), ProbeError> {
        let from_ns = capture.event_clock.now_ns();
        let now = InForce::of(capture);
        // Manual changes meanwhile become the requested settings.
        if self.set != Some(now) {
            self.asked = now;
        }
        let then = self.asked.at(step.to);
        // at rest no hit becomes a record, with or without sums
        let sums = !capture.facts().left_out.contains_key(&Ability::Sums);
        if then.detail != now.detail && (sums || !then.detail.adds_up()) {
            capture.apply(&Setting::Detail(then.detail))?;
        }
        if then.one_in != now.one_in {
            capture.apply(&Setting::SampleFlows(then.one_in))?;
        }
        self.set = Some(then);
        self.switch(step.to, capture)?;
        let (to_ns, used) = (capture.event_clock.now_ns(), step.share.most());
        self.look_what_stays(capture, prices.left_out);
        let mut change = step.to.change(from_ns, to_ns, used, self.steps.budget());
        let (hops, a_second) = self.still_attached();
        change.what.push_str(&words(hops, a_second));
        capture.changes.push(change);
        Ok(())
    }

    /// Switches hops to match a level. Hops that the user switched on meanwhile stay on.
    fn switch(&mut self, to: Level, capture: &mut Capture) -> Result<(), ProbeError> {
        let on = capture.hops();
        let all = HopSet(on.0 | self.let_go.take().unwrap_or_default().0);
        let wanted = match to {
            Level::Packets => outermost(all),
            Level::Rest => HopSet::EMPTY,
            _ => all,
        };
        self.looks = false;
        self.let_go = (wanted != all).then_some(all);
        let (missing, beyond) = (HopSet(wanted.0 & !on.0), HopSet(on.0 & !wanted.0));
        if missing != HopSet::EMPTY {
            capture.change(&Setting::Enable(missing))?;
        }
        if beyond != HopSet::EMPTY {
            capture.change(&Setting::Disable(beyond))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rung_has_records_where_it_is_said_to_and_never_more_than_was_asked_for() {
        for (detail, one_in) in Detail::ALL.into_iter().flat_map(|detail| [(detail, 1), (detail, 8)]) {
            let asked = InForce { detail, one_in };
            for level in Level::LADDER {
                let then = asked.at(level);
                let records = then.detail != Detail::Histograms;
                assert_eq!(
                    records,
                    level.passed_share() > 0.0 && detail != Detail::Histograms,
                    "{asked:?} {level}"
                );
                let share = f64::from(one_in) / f64::from(then.one_in);
                assert!(!records || (share - level.passed_share()).abs() < 1e-9, "{asked:?} {level}: {then:?}");
            }
            assert_eq!(asked.at(Level::Full), asked);
        }
    }
}
