//! A live capture with its end conditions: a duration, a signal, and the demo's hosts.

use crate::capture::Started;
use crate::control::server::{Bound, Questions};
use crate::control::{ANSWERS_A_BATCH, answer};
use crate::hosts::Hosts;
use crate::screen::Feed;
use crate::signals::Stop;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, Hop};
use magscope_probe::governor::Governor;
use magscope_probe::{Capture, ProbeError};
use magscope_scope::{Budget, TourFault};
use std::time::{Duration, Instant};

/// A capture that detaches after a duration or at a signal, then delivers the rest of the rings.
pub struct Live {
    capture: Capture,
    governor: Option<Governor>,
    /// The demo's hosts, which must outlive the capture.
    hosts: Option<Hosts>,
    end: Option<Instant>,
    stop: Stop,
    stopped: bool,
    hit_ns: Option<f64>,
    questions: Option<Questions>,
}

impl Live {
    /// Ends a capture after `duration`, if given, or when `stop` is set.
    pub fn new(started: impl Into<Started>, duration: Option<Duration>, stop: Stop) -> Self {
        // A duration beyond the clock's range means no end.
        let end = duration.and_then(|duration| Instant::now().checked_add(duration));
        let Started { capture, governor, hit_ns } = started.into();
        Live { capture, governor, hosts: None, end, stop, stopped: false, hit_ns, questions: None }
    }

    /// Adds the control socket. Called after privileges are dropped.
    pub fn with_control(mut self, bound: Option<Bound>) -> Self {
        self.questions = bound.and_then(|bound| bound.listen().ok());
        self
    }

    /// Hits of a hop rejected so far because a filter field was unknown.
    ///
    /// # Errors
    /// The kernel's error if its counters are unavailable.
    pub fn undecided(&self, hop: Hop) -> Result<u64, ProbeError> {
        let counters = self.capture.counters()?;
        Ok(counters.hops.iter().filter(|count| count.hop == hop).map(|count| count.undecided).sum())
    }

    /// Adds hosts: if one of them ends early, the capture fails.
    pub fn with_hosts(mut self, hosts: Hosts) -> Self {
        self.hosts = Some(hosts);
        self
    }
}

impl Source for Live {
    fn info(&self) -> &NodeInfo {
        self.capture.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        if let Some(hosts) = &mut self.hosts {
            hosts.check()?;
        }
        for question in self.questions.iter().flat_map(Questions::waiting).take(ANSWERS_A_BATCH) {
            answer::reply(&mut self.capture, question);
        }
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        if !self.stopped && (self.stop.is_raised() || left.is_some_and(|left| left.is_zero())) {
            self.stopped = true;
            self.capture.stop();
        }
        if let Some(governor) = self.governor.as_mut().filter(|_| !self.stopped) {
            governor.turn(&mut self.capture)?;
        }
        self.capture.next(batch, left.map_or(timeout, |left| left.min(timeout)))
    }
}

impl Feed for Live {
    fn hits(&self) -> Option<u64> {
        // records, and hits in the kernel's sums
        self.capture.counters().ok().map(|counters| counters.cpus.iter().map(|cpu| cpu.accepted).sum())
    }

    fn hit_ns(&mut self) -> Option<f64> {
        self.governor.as_mut().map_or(self.hit_ns, Governor::hit_ns)
    }

    fn set_fault(&mut self, fault: Option<TourFault>) -> anyhow::Result<()> {
        self.hosts.as_mut().map_or(Ok(()), |hosts| hosts.set_fault(fault))
    }

    fn ring_fill_ratio(&self) -> f64 {
        self.capture.ring_fill_ratio()
    }

    fn budget(&self) -> Option<Budget> {
        let governor = self.governor.as_ref()?;
        let steps = governor.steps();
        let (ratio, used_ratio) = (steps.budget(), governor.used());
        Some(Budget { ratio, used_ratio, captured: steps.level().name() })
    }
}
