//! The trigger in the scope: overhead and rate conditions, and the captured windows.

use super::sums::FRESH_NS;
use super::{HOLD_EDGES, Scope};
use crate::channel::Channel;
use crate::lifeline::Lifeline;
use crate::look::TriggerStatus;
use crate::memory::Memory;
use crate::names::Names;
use crate::overhead::Overhead;
use crate::requests::{JourneyRef, Requests};
use crate::switches::HopState;
use crate::trigger::{Capture, CaptureWindow, Condition, Mode};
use crate::window::BUCKET_NS;
use magscope_core::Hop;
use magscope_core::exchange::Exchange;
use magscope_core::node::{NodeInfo, Service};

/// Maximum number of journeys in a captured window: the slowest.
const MOST_LINES: usize = 1024;
/// Maximum number of buckets whose rate is checked at a time, about half an hour: a longer stretch is a silence, and its
/// buckets are alike.
const MOST_CHECKED: u64 = 4096;
/// Time for journeys that were in flight at the end of a stretch, nanoseconds. A journey that ends even later, as a lost one
/// does, is in no window and no checked rate.
const LATE_NS: u64 = BUCKET_NS / 2;

/// The key of the journey that ended an exchange.
fn last_journey(memory: &Memory, exchange: &Exchange) -> Option<u64> {
    let [request, response] = JourneyRef::last_of(exchange);
    let last = response.or(request)?;
    memory.all().find(|line| last.is(&line.journey)).map(Lifeline::key)
}

impl Scope {
    /// Feeds the requests; every exchange that is closed meanwhile is checked against the condition.
    pub(super) fn watch_exchanges(
        &mut self,
        feed: impl FnOnce(&mut Requests, &Names, &mut dyn FnMut(&Exchange)),
    ) {
        let Scope { watch, memory, names, requests, .. } = self;
        let mut fired = Vec::new();
        feed(requests, names, &mut |exchange| {
            if watch.exchange(exchange, names, || last_journey(memory, exchange)) {
                fired.push((exchange.end_ns().unwrap_or(0), watch.opened_journey()));
            }
        });
        for (at_ns, key) in fired {
            self.fires(true, at_ns, key);
        }
        self.keep_slowest_requests();
    }

    /// The list of the slowest requests leads to their journeys, also long after these.
    fn keep_slowest_requests(&mut self) {
        let fresh = self.requests.take_fresh();
        if fresh.is_empty() {
            return;
        }
        for (id, last) in fresh {
            self.memory.keep_for_request(id, |line| last.iter().flatten().any(|of| of.is(&line.journey)));
        }
        let requests = &self.requests;
        self.memory.retain_requests(|id| requests.is_slowest(id));
    }

    /// The trigger fired, or not; `key` is that of the journey that caused it.
    pub(super) fn fires(&mut self, fires: bool, at_ns: u64, key: Option<u64>) {
        if fires {
            let newer = self.fired.is_none_or(|(before_ns, _)| before_ns <= at_ns);
            if newer {
                self.fired = Some((at_ns, key));
            }
            self.revision += 1;
        }
    }

    /// Checks the instrument's overhead against the condition.
    pub(super) fn watch_overhead(&mut self, overhead: Overhead) {
        for (channel, value) in
            [(Channel::OwnCpu, overhead.reader_cpu_ratio), (Channel::RingFill, overhead.ring_fill_ratio)]
        {
            let fires = self.watch.signal(channel, self.now_ns, value);
            self.fires(fires, self.now_ns, None);
        }
    }

    /// Instant up to which everything was counted: of a recording, by its survey.
    pub(super) fn counted_to_ns(&self) -> u64 {
        self.recorded.as_ref().map_or(self.now_ns, |recorded| recorded.read_ns)
    }

    /// Checks the rates of the buckets whose journeys have had time to end.
    pub(super) fn watch_settled_rates(&mut self) {
        self.watch_rates(self.counted_to_ns().saturating_sub(LATE_NS));
    }

    /// Checks the rate over each bucket that ended until then against the condition, every bucket once.
    pub(super) fn watch_rates(&mut self, mut until_ns: u64) {
        let is_rate = |c: &Channel| !c.is_of_this_process() && !matches!(c, Channel::Value(_));
        let Some(begin_ns) = self.begin_ns else { return };
        let channel = self.watch.wants().filter(is_rate);
        // A row of the kernel's sums arrives at its end, later than the buckets in it.
        if let (Some(Channel::Throughput(_)), Some(summed_ns)) = (channel, self.sums.alone_ns())
            && summed_ns.saturating_add(FRESH_NS) >= until_ns
        {
            until_ns = until_ns.min(summed_ns);
        }
        let (first, end) = (self.rate_bucket.unwrap_or(begin_ns / BUCKET_NS), until_ns / BUCKET_NS);
        if end <= first {
            return;
        }
        self.rate_bucket = Some(end);
        let Some(channel) = channel else { return };
        self.counts.pyramid.settle();
        let most = end.min(first.saturating_add(MOST_CHECKED));
        for bucket in (first..most).chain(most.max(end - 1)..end) {
            let to_ns = (bucket + 1) * BUCKET_NS;
            let value = self.rate(channel, bucket * BUCKET_NS, to_ns);
            let fires = self.watch.signal(channel, to_ns, value);
            self.fires(fires, to_ns, None);
        }
    }

    /// Closes the windows that are full, with the journeys in them.
    pub(super) fn close_captures(&mut self, now_ns: u64) {
        let memory = &self.memory;
        let lines = |capture: &Capture| {
            let inside = |line: &&Lifeline| line.overlaps(capture.from_ns, capture.to_ns);
            let mut lines: Vec<&Lifeline> = memory.all().filter(inside).collect();
            // The journey of the trigger first, then the slowest.
            lines.sort_by_key(|line| {
                (Some(line.key()) != capture.journey, std::cmp::Reverse(line.total_ns()), line.id())
            });
            lines.dedup_by_key(|line| line.key());
            let is_in_memory = memory.reaches_back_to().is_none_or(|oldest_ns| oldest_ns <= capture.from_ns)
                && !memory.has_gap(capture.from_ns, capture.to_ns);
            let is_whole = is_in_memory && lines.len() <= MOST_LINES;
            (lines.into_iter().take(MOST_LINES).cloned().collect(), is_whole)
        };
        // Journeys end late: one in flight at the end of a window may still belong to it.
        let settled_ns = now_ns.saturating_sub(LATE_NS);
        let settled_ns = if now_ns == u64::MAX { now_ns } else { settled_ns };
        let closed = self.watch.close(settled_ns, lines);
        if !closed.is_empty() {
            self.revision += 1;
            if self.watch.is_complete() && self.fired.is_some() {
                self.held_edges = HOLD_EDGES; // a single shot stops at once
            }
            self.captured.extend(closed);
            let too_many = self.captured.len().saturating_sub(crate::trigger::MOST_CAPTURES);
            self.captured.drain(..too_many);
        }
    }

    /// The windows that closed since the last call, for the caller to save. At most the last
    /// [`crate::trigger::MOST_CAPTURES`].
    pub fn take_captures(&mut self) -> Vec<Capture> {
        std::mem::take(&mut self.captured)
    }

    /// Number of times the trigger fired. Beyond [`crate::trigger::MOST_OPEN`] open windows, one has none of its own.
    pub const fn times_triggered(&self) -> u64 {
        self.watch.fired()
    }

    /// Changes the trigger's settings, also before the first batch.
    pub fn set_trigger(&mut self, change: impl FnOnce(&mut crate::trigger::Settings)) {
        self.watch.set(change);
        self.revision += 1;
        if let Err(words) = self.can_trigger() {
            self.show_message(words, true);
        }
    }

    /// Checks that the trigger's condition can occur.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn can_trigger(&self) -> Result<(), String> {
        self.watch.settings().condition.as_ref().map_or(Ok(()), |condition| self.can_wait_for(condition))
    }

    /// Checks that this condition can occur. The error is the reason why it cannot.
    pub(super) fn can_wait_for(&self, condition: &Condition) -> Result<(), String> {
        let infos = self.names.infos();
        let is_summed =
            !infos.is_empty() && self.seen.is_empty() && infos.iter().all(NodeInfo::begins_with_sums_only);
        match condition {
            Condition::Signal { channel, .. } if channel.is_of_this_process() && !self.measures_itself => {
                Err(format!("nothing measures `{channel}` here: only a live capture of this host does"))
            }
            _ if is_summed && condition.needs_records() => Err(format!(
                "`{condition}` needs records, and the kernel adds up in their place (`detail histograms`): capture with \
                 `--detail both`"
            )),
            Condition::Signal { channel, .. } if self.unknown(*channel) => Err(self.unknown_words(*channel)),
            Condition::Signal { channel, edge } if self.is_without_sign(*channel) && edge.is_below_zero() => {
                Err(format!(
                    "`{channel}` has no sign, so it is never below 0; a program's value is cast as in `retval:int32`"
                ))
            }
            Condition::Hit(name) if self.probes.all().iter().all(|probe| probe.name != *name) => {
                let names: Vec<&str> = self.probes.all().iter().map(|probe| probe.name.as_str()).collect();
                Err(match names.as_slice() {
                    [] => {
                        format!("there is no custom probe `{name}`: name one with --probe, see docs/probes.md")
                    }
                    _ => format!("there is no custom probe `{name}`: there are {}", names.join(", ")),
                })
            }
            Condition::ClockStep { hosts: (a, b), .. } => {
                let is_unknown = |name: &&String| self.names.infos().iter().all(|info| info.host != **name);
                match [a, b].into_iter().find(is_unknown) {
                    Some(name) => Err(format!("there is no host `{name}` among the sources")),
                    None => Ok(()),
                }
            }
            Condition::Latency { from, to, .. }
                if from.rank().zip(to.rank()).is_some_and(|(from, to)| from >= to) =>
            {
                Err(format!("no journey passes {from} before {to}: swap them"))
            }
            _ => condition.hops().iter().try_for_each(|hop| self.has_hop(hop)),
        }
    }

    /// Checks that a node serves a hop. The error is the reason why none does.
    fn has_hop(&self, hop: Hop) -> Result<(), String> {
        match self.hop_state(hop) {
            // it may be switched on again, or its nodes are unknown yet
            _ if self.seen.contains(hop) || self.names.infos().is_empty() => Ok(()),
            state if state.is_on() => Ok(()),
            HopState::AsStarted(Service::Missing { because }) => {
                Err(format!("no probe serves {hop} here: {because}"))
            }
            HopState::SwitchedOff => Err(format!("{hop} is switched off; `magnet-scope ctl enable {hop}`")),
            _ => Err(format!("{hop} is not probed; capture with `--hops +{hop}`")),
        }
    }

    /// True if the window that is shown has all journeys of a stretch.
    pub(super) fn is_all_of_shown(&self, from_ns: u64, to_ns: u64) -> bool {
        /// A division is rounded to nanoseconds.
        const ROUNDING_NS: u64 = 1_000;
        let shown = self.watch.windows().find(|window| Some(window.capture.number) == self.shown);
        shown.is_some_and(|CaptureWindow { capture, is_whole, .. }| {
            *is_whole && capture.from_ns <= from_ns && to_ns <= capture.to_ns.saturating_add(ROUNDING_NS)
        })
    }

    /// The journeys of the window that is shown.
    pub(super) fn shown_lines(&self) -> impl Iterator<Item = &Lifeline> {
        let shown = self.watch.windows().find(|window| Some(window.capture.number) == self.shown);
        shown.into_iter().flat_map(|window| &window.lines)
    }

    /// Shows the captured window at this distance.
    pub(super) fn next_capture(&mut self, by: i8) {
        let windows: Vec<&CaptureWindow> = self.watch.windows().collect();
        let now = windows.iter().position(|window| Some(window.capture.number) == self.shown);
        let at = super::apply::step(now.or(windows.len().checked_sub(1).filter(|_| by < 0)), by, windows.len());
        let next = if now.is_none() { windows.len().checked_sub(1) } else { at };
        let Some(capture) = next.and_then(|at| windows.get(at)).map(|window| window.capture.clone()) else {
            return self.show_message("the trigger has kept nothing yet".to_owned(), false);
        };
        self.show_capture(&capture);
    }

    /// Shows the window with this number, if it is still in memory.
    pub(super) fn show_capture_of(&mut self, number: u64) {
        let window = self.watch.windows().find(|window| window.capture.number == number);
        if let Some(capture) = window.map(|window| window.capture.clone()) {
            self.show_capture(&capture);
        }
    }

    fn show_capture(&mut self, capture: &Capture) {
        self.controls.paused = true;
        self.shown = Some(capture.number);
        self.horizon.remember();
        if let Some(line) = capture.journey.and_then(|key| self.find(key)) {
            self.controls.journey = capture.journey;
            self.sweep.anchor = capture.journey;
            self.selected = Some(line);
        }
        let x = f64::from(self.watch.settings().pre_per_cent) / 100.0;
        if self.controls.timebase_fixed {
            self.horizon.go(capture.at_ns, x.clamp(0.02, 0.98));
        } else {
            self.horizon.show(capture.from_ns, capture.to_ns);
        }
        if let Some(recorded) = &self.recorded {
            self.playhead.seek(capture.at_ns.min(recorded.all.to_ns));
        }
        self.redraw();
    }

    /// True if the picture belongs to the trigger: then no other picture is taken.
    pub(super) fn waits_for_trigger(&self) -> bool {
        let settings = self.watch.settings();
        settings.condition.is_some()
            && match settings.mode {
                Mode::Auto => {
                    self.watch.last_ns().is_some_and(|last| self.now_ns < last.saturating_add(2 * BUCKET_NS))
                }
                Mode::Normal | Mode::Single => true,
            }
    }

    /// State of the trigger.
    pub(super) fn trigger_status(&self) -> TriggerStatus<'_> {
        let settings = self.watch.settings();
        let captures: Vec<&Capture> = self.watch.windows().map(|window| &window.capture).collect();
        let shown = captures.iter().position(|capture| Some(capture.number) == self.shown);
        let at_ns = shown.and_then(|at| captures.get(at)).map(|capture| capture.at_ns).or(self.watch.last_ns());
        TriggerStatus {
            settings,
            text: settings.condition.as_ref().map(ToString::to_string).unwrap_or_default(),
            state: self.watch.state(self.now_ns),
            matches: self.watch.matches(),
            fired: self.watch.fired(),
            captures,
            shown,
            at: at_ns.filter(|at| self.horizon.holds(*at)).map(|at| self.horizon.x(at)),
        }
    }
}
