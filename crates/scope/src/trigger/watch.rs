//! The watch: checks every journey, sample and event against the condition, and captures a window around each
//! match.
//!
//! Journeys are checked when they end, later than they happened; the scope's memory compensates for that. Input
//! may be in any order of time.

use super::{Capture, Condition, Edge, HoldOff, Mode, Settings, TriggerState};
use crate::channel::{Channel, Unit};
use crate::format::{count, short_duration, signal};
use crate::lifeline::Lifeline;
use crate::names::Names;
use magscope_core::exchange::Exchange;
use magscope_core::{Event, FlowId, Hop, Loss, TcpSample};
use magscope_report::requests::service_name;
use std::collections::{HashMap, VecDeque};

/// Maximum number of captured windows; the oldest is evicted.
pub const MOST_CAPTURES: usize = 64;
/// Part of a window that lies before something which began earlier than the window would.
const LEAD: u64 = 10;
/// Maximum number of windows that wait for their end. A hit beyond that counts, without a window of its own.
pub const MOST_OPEN: usize = 16;
/// Maximum number of flows with a stored previous value; beyond it the table restarts empty.
const MOST_FLOWS: usize = 1 << 14;

/// A window and the journeys in it.
#[derive(Clone, Debug)]
pub struct CaptureWindow {
    /// The window.
    pub capture: Capture,
    /// The journeys that overlap it.
    pub lines: Vec<Lifeline>,
    /// True if these are all of them.
    pub is_whole: bool,
}

/// The watch of one trigger.
#[derive(Debug, Default)]
pub struct Watch {
    settings: Settings,
    before: HashMap<(u16, FlowId), (u64, f64)>,
    matches: u64,
    fired: u64,
    last_ns: Option<u64>,
    /// Number of matches still to skip.
    skip: u64,
    stopped: bool,
    open: Vec<Capture>,
    windows: VecDeque<CaptureWindow>,
}

impl Watch {
    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets it, and arms it.
    pub fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings);
        self.arm();
    }

    /// Arms the trigger again. Captures stay.
    pub fn arm(&mut self) {
        self.before.clear();
        self.last_ns = None;
        self.skip = 0;
        self.stopped = false;
    }

    /// Discards captures and counts.
    pub fn clear(&mut self) {
        *self = Watch { settings: std::mem::take(&mut self.settings), ..Watch::default() };
    }

    /// Number of matches of the condition.
    pub const fn matches(&self) -> u64 {
        self.matches
    }

    /// Number of times it fired.
    pub const fn fired(&self) -> u64 {
        self.fired
    }

    /// True after a single shot.
    pub const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// True after a single shot whose window is complete.
    pub const fn is_complete(&self) -> bool {
        self.stopped && self.open.is_empty()
    }

    /// Instant at which it fired last, by event time.
    pub const fn last_ns(&self) -> Option<u64> {
        self.last_ns
    }

    /// The captured windows, oldest first.
    pub fn windows(&self) -> impl DoubleEndedIterator<Item = &CaptureWindow> + ExactSizeIterator {
        self.windows.iter()
    }

    /// Its phase.
    pub fn state(&self, now_ns: u64) -> TriggerState {
        let held = match self.settings.hold_off {
            HoldOff::Nothing => false,
            HoldOff::Time(ns) => self.last_ns.is_some_and(|last| now_ns < last.saturating_add(ns)),
            HoldOff::Matches(_) => self.skip > 0,
        };
        match (&self.settings.condition, self.stopped, self.open.is_empty()) {
            (_, true, true) => TriggerState::Stopped,
            (_, _, false) => TriggerState::Filling,
            (None, false, true) => TriggerState::Off,
            _ if held => TriggerState::HeldOff,
            _ => TriggerState::Armed,
        }
    }

    /// A journey ended.
    pub fn journey(&mut self, line: &Lifeline, names: &Names) -> bool {
        let hit = match &self.settings.condition {
            Some(Condition::Latency { from, to, edge }) => {
                let (from, to, edge) = (*from, *to, *edge);
                let Some(ns) = line.journey.between_ns(from, to) else { return false };
                let at_ns = line.journey.rung(to).map_or(line.end_ns(), |rung| rung.time_ns);
                let since_ns = at_ns.saturating_sub(ns);
                let of =
                    if line.journey.tx_flow.is_none() { line.journey.rx_flow } else { line.journey.tx_flow };
                if !self.edge(edge, (0, of), (at_ns, ns as f64)) {
                    return false;
                }
                (since_ns, at_ns, format!("hop({from},{to}) = {}", short_duration(ns)))
            }
            Some(Condition::Journey(filter)) if filter.matches(&line.journey, names) => {
                (line.start_ns(), line.end_ns(), filter.to_string())
            }
            _ => return false,
        };
        self.hit_since(hit.0, hit.1, Some(line.key()), hit.2)
    }

    /// An exchange was closed. `find` gives the key of the journey that ended it, if that is in memory.
    pub fn exchange(&mut self, exchange: &Exchange, names: &Names, find: impl FnOnce() -> Option<u64>) -> bool {
        let Some(Condition::Request(filter)) = &self.settings.condition else { return false };
        if !filter.matches(exchange, names) {
            return false;
        }
        let total = exchange.total_ns().map_or_else(String::new, |ns| format!(" {}", short_duration(ns)));
        let because = format!("request{total} to {}", service_name(exchange, names));
        let end_ns = exchange.end_ns().unwrap_or(0);
        let fires = self.hit_since(exchange.start_ns().unwrap_or(end_ns), end_ns, None, because);
        // A search in all journeys: only for a window.
        if let Some(opened) = self.open.last_mut().filter(|open| fires && open.number == self.fired) {
            opened.journey = find();
        }
        fires
    }

    /// The journey of the window that the last firing opened, if it opened one.
    pub fn opened_journey(&self) -> Option<u64> {
        self.open.last().filter(|open| open.number == self.fired)?.journey
    }

    /// A connection's state was sampled.
    pub fn sample(&mut self, node: u16, sample: &TcpSample) -> bool {
        let Some(Condition::Signal { channel, edge }) = self.settings.condition else { return false };
        let Some(value) = channel.of_sample(sample) else { return false };
        self.value(channel, edge, (node, sample.flow), (sample.time_ns, value))
    }

    /// A signal of all traffic has a new value.
    pub fn signal(&mut self, channel: Channel, at_ns: u64, value: f64) -> bool {
        self.value_of(0, channel, at_ns, value)
    }

    /// A signal of a recording has a new value; "just before" is the previous one of the same recording.
    pub fn value_of(&mut self, node: u16, channel: Channel, at_ns: u64, value: f64) -> bool {
        match self.settings.condition {
            Some(Condition::Signal { channel: wanted, edge }) if wanted == channel => {
                self.value(channel, edge, (node, FlowId::NONE), (at_ns, value))
            }
            _ => false,
        }
    }

    /// The signal of its condition, if that is one of all traffic and not of a connection.
    pub fn wants(&self) -> Option<Channel> {
        match self.settings.condition {
            Some(Condition::Signal { channel, .. }) if !channel.is_of_connection() => Some(channel),
            _ => None,
        }
    }

    fn value(&mut self, channel: Channel, edge: Edge, of: (u16, FlowId), now: (u64, f64)) -> bool {
        self.edge(edge, of, now)
            && self.hit(now.0, None, format!("{channel} = {}", in_words(channel.unit(), now.1)))
    }

    /// Checks an event; `why` gives the name of a kernel's drop reason.
    pub fn event(&mut self, event: &Event, why: impl FnOnce(u32) -> String) -> bool {
        let because = match &self.settings.condition {
            Some(Condition::Drop) if event.hop == Hop::SkbDrop => format!("drop, {}", why(event.drop_reason())),
            Some(Condition::Retransmit) if event.hop == Hop::TcpRetransmit => "retransmit".to_owned(),
            _ => return false,
        };
        self.hit(event.time_ns, None, because)
    }

    /// A custom probe of this name was hit.
    pub fn hit_of(&mut self, probe: &str, at_ns: u64) -> bool {
        matches!(&self.settings.condition, Some(Condition::Hit(wanted)) if wanted == probe)
            && self.hit(at_ns, None, format!("hit {probe}"))
    }

    /// One of two hosts' clocks stepped.
    pub fn clock_step(&mut self, (a, b): (&str, &str), at_ns: u64, step_ns: i64) -> bool {
        let Some(Condition::ClockStep { hosts: (one, other), above_ns }) = &self.settings.condition else {
            return false;
        };
        let is_pair = a == one && b == other || a == other && b == one;
        if !is_pair || step_ns.unsigned_abs() <= *above_ns {
            return false;
        }
        let size = short_duration(step_ns.unsigned_abs());
        let sign = if step_ns < 0 { "−" } else { "+" };
        self.hit(at_ns, None, format!("clock({a},{b}) step = {sign}{size}"))
    }

    /// Events were lost.
    pub fn loss(&mut self, loss: &Loss) -> bool {
        self.settings.condition == Some(Condition::EventLoss)
            && self.hit(loss.to_ns, None, format!("{} events missed: {}", loss.count, loss.cause))
    }

    /// Fires now, independent of the hold-off.
    pub fn force(&mut self, now_ns: u64) {
        self.stopped = false;
        self.fire(now_ns, now_ns, None, "forced".to_owned());
    }

    fn edge(&mut self, edge: Edge, of: (u16, FlowId), now: (u64, f64)) -> bool {
        if self.before.len() >= MOST_FLOWS && !self.before.contains_key(&of) {
            self.before.clear();
        }
        let before = self.before.insert(of, now);
        edge.passes(before, now)
    }

    /// Records a match of an instant. True if the trigger fires.
    fn hit(&mut self, at_ns: u64, journey: Option<u64>, because: String) -> bool {
        self.hit_since(at_ns, at_ns, journey, because)
    }

    /// Records a match of something that began earlier. True if the trigger fires.
    fn hit_since(&mut self, since_ns: u64, at_ns: u64, journey: Option<u64>, because: String) -> bool {
        self.matches += 1;
        if self.stopped {
            return false;
        }
        match self.settings.hold_off {
            HoldOff::Time(ns) if self.last_ns.is_some_and(|last| at_ns < last.saturating_add(ns)) => {
                return false;
            }
            HoldOff::Matches(_) if self.skip > 0 => {
                self.skip -= 1;
                return false;
            }
            _ => {}
        }
        self.fire(since_ns, at_ns, journey, because);
        true
    }

    fn fire(&mut self, since_ns: u64, at_ns: u64, journey: Option<u64>, because: String) {
        self.fired += 1;
        self.last_ns = Some(self.last_ns.map_or(at_ns, |last| last.max(at_ns)));
        if let HoldOff::Matches(n) = self.settings.hold_off {
            self.skip = n;
        }
        self.stopped = self.settings.mode == Mode::Single;
        if self.open.len() >= MOST_OPEN {
            return;
        }
        let window = u128::from(self.settings.window_ns);
        let pre_ns = (window * u128::from(self.settings.pre_per_cent.min(100)) / 100) as u64;
        // What took longer than the part before the trigger is whole in the window, with a little before it.
        let is_cut = pre_ns > 0 && since_ns < at_ns.saturating_sub(pre_ns);
        let lead_ns = self.settings.window_ns / LEAD;
        let from_ns = if is_cut { since_ns.saturating_sub(lead_ns) } else { at_ns.saturating_sub(pre_ns) };
        let to_ns = at_ns.saturating_add(self.settings.window_ns - pre_ns);
        self.open.push(Capture { number: self.fired, at_ns, from_ns, to_ns, journey, because });
    }

    /// Closes the windows that ended before `now_ns`, with the journeys from `lines`. Returns the windows.
    pub fn close(
        &mut self,
        now_ns: u64,
        mut lines: impl FnMut(&Capture) -> (Vec<Lifeline>, bool),
    ) -> Vec<Capture> {
        let ended: Vec<Capture> = self.open.extract_if(.., |capture| capture.to_ns <= now_ns).collect();
        for capture in &ended {
            if self.windows.len() >= MOST_CAPTURES {
                self.windows.pop_front();
            }
            let (lines, is_whole) = lines(capture);
            self.windows.push_back(CaptureWindow { lines, is_whole, capture: capture.clone() });
        }
        ended
    }
}

/// A value of a signal, in words: a count with all of its digits, because a threshold may differ in the last one.
fn in_words(unit: Unit, value: f64) -> String {
    if unit == Unit::Count && value.is_finite() {
        let sign = if value < 0.0 { "−" } else { "" };
        return format!("{sign}{}", count(value.abs().round() as u64));
    }
    let text = signal(unit, value);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;
    use magscope_core::DetailKind;
    use proptest::prelude::*;

    fn watch(condition: &str, hold_off: HoldOff) -> Watch {
        let mut watch = Watch::default();
        watch.set(|settings| {
            settings.condition = Condition::parse(condition).unwrap();
            settings.hold_off = hold_off;
            settings.window_ns = 1_000;
            settings.pre_per_cent = 25;
        });
        watch
    }

    fn slow(id: u64, at_ns: u64, ns: u64) -> Lifeline {
        lifeline(id, &[(Hop::DevRecv, at_ns - ns), (Hop::AppRecv, at_ns)])
    }

    proptest! {
        #[test]
        fn it_never_misses_and_never_fires_within_hold_off(
            journeys in prop::collection::vec((10_000..1_000_000_u64, 1..100_u64), 1..200),
            hold in 0..50_000_u64,
        ) {
            let names = Names::default();
            let mut free = watch("hop(dev.recv,app.recv) > 50ns", HoldOff::Nothing);
            let mut held = watch("hop(dev.recv,app.recv) > 50ns", HoldOff::Time(hold));
            let mut counted = watch("hop(dev.recv,app.recv) > 50ns", HoldOff::Matches(hold % 5));
            let mut fires: Vec<u64> = Vec::new();
            for (n, (at_ns, ns)) in journeys.iter().enumerate() {
                let line = slow(n as u64, *at_ns, *ns);
                prop_assert_eq!(free.journey(&line, &names), *ns > 50);
                counted.journey(&line, &names);
                if held.journey(&line, &names) {
                    prop_assert!(fires.iter().all(|before| at_ns.abs_diff(*before) >= hold || hold == 0));
                    fires.push(*at_ns);
                }
            }
            let matches = journeys.iter().filter(|(_, ns)| *ns > 50).count() as u64;
            prop_assert_eq!((free.matches(), free.fired(), held.matches()), (matches, matches, matches));
            prop_assert_eq!(counted.fired(), matches.div_ceil(hold % 5 + 1));
            prop_assert!(fires.is_empty() == (matches == 0));
        }
    }

    #[test]
    fn the_window_lies_around_it() {
        for (pre, window) in [(25, (9_750, 10_750)), (0, (10_000, 11_000)), (100, (9_000, 10_000))] {
            let mut watch = watch("hop(dev.recv,app.recv) > 50ns", HoldOff::Nothing);
            watch.set(|settings| settings.pre_per_cent = pre);
            assert_eq!(watch.state(0), TriggerState::Armed);
            assert!(watch.journey(&slow(1, 10_000, 60), &Names::default()));
            assert_eq!(watch.state(10_000), TriggerState::Filling);
            assert_eq!(watch.close(window.1 - 1, |_| (Vec::new(), true)), []);
            let closed = watch.close(window.1, |_| (vec![slow(7, 10_000, 60)], true));
            assert_eq!((closed[0].from_ns, closed[0].to_ns, closed[0].at_ns), (window.0, window.1, 10_000));
            assert_eq!(watch.windows().next().map(|saved| saved.lines.len()), Some(1));
            assert_eq!(closed[0].because, "hop(dev.recv,app.recv) = 60 ns");
        }
    }

    #[test]
    fn what_took_longer_than_the_time_before_the_trigger_is_whole_in_the_window() {
        let mut watch = watch("hop(dev.recv,app.recv) > 50ns", HoldOff::Nothing);
        assert!(watch.journey(&slow(1, 10_000, 251), &Names::default()), "1 ns more than 25 per cent");
        let closed = watch.close(u64::MAX, |_| (Vec::new(), true));
        assert_eq!((closed[0].from_ns, closed[0].to_ns), (10_000 - 251 - 100, 10_750));
    }

    #[test]
    fn single_stops_until_it_is_armed_and_force_needs_nothing() {
        let (mut watch, names) = (watch("hop(dev.recv,app.recv) > 50ns", HoldOff::Nothing), Names::default());
        watch.set(|settings| settings.mode = Mode::Single);
        assert!(watch.journey(&slow(1, 10_000, 60), &names) && !watch.journey(&slow(2, 20_000, 60), &names));
        watch.close(u64::MAX, |_| (Vec::new(), true));
        assert_eq!((watch.state(30_000), watch.matches(), watch.fired()), (TriggerState::Stopped, 2, 1));
        watch.arm();
        assert!(watch.journey(&slow(3, 30_000, 60), &names));
        watch.force(40_000);
        assert_eq!(watch.fired(), 3);
        let mut idle = Watch::default();
        assert_eq!(idle.state(0), TriggerState::Off);
        idle.force(5);
        assert_eq!(idle.close(u64::MAX, |_| (Vec::new(), true))[0].because, "forced");
    }

    #[test]
    fn signals_events_and_losses() {
        let sample = crate::signals::tests::sample;
        let mut rising = watch("cwnd rises 15", HoldOff::Nothing);
        let seen: Vec<bool> =
            [10, 20, 30, 12, 16].iter().zip(1..).map(|(n, t)| rising.sample(0, &sample(1, t, *n, 9))).collect();
        assert_eq!(seen, [false, true, false, false, true]);
        assert!(!rising.sample(0, &sample(2, 9, 90, 9)), "another connection has another before");

        let mut drop = watch("drop", HoldOff::Nothing);
        let why = |reason: u32| format!("reason {reason}");
        assert!(drop.event(&Event { detail: DetailKind::DropReason.of(5), ..Event::at(Hop::SkbDrop, 7) }, why));
        assert!(!drop.event(&Event::at(Hop::TcpRetransmit, 7), why));
        let mut loss = watch("missed", HoldOff::Nothing);
        let cause = magscope_core::LossCause::Gap;
        assert!(loss.loss(&Loss { cpu: 0, from_ns: 1, to_ns: 2, count: 3, cause }));
        let mut rate = watch("own_cpu > 5%", HoldOff::Nothing);
        assert_eq!(rate.wants(), Some(Channel::OwnCpu));
        assert!(rate.signal(Channel::OwnCpu, 1, 0.06) && !rate.signal(Channel::RingFill, 1, 0.9));
        let mut verdict = watch("verdict = complete", HoldOff::Nothing);
        assert!(verdict.journey(&slow(1, 100, 1), &Names::default()));
    }

    #[test]
    fn counts_have_all_digits() {
        let words = [1_001.0, -70_001.0, 0.0].map(|value| in_words(Unit::Count, value));
        assert_eq!(words, ["1 001", "−70 001", "0"], "a threshold may lie between two of them");
    }

    #[test]
    fn the_cause_has_the_value_in_its_unit() {
        for (condition, channel, value, because) in [
            ("own_cpu > 1%", Channel::OwnCpu, 0.019_068_012_345, "own_cpu = 1.9 %"),
            ("cpu > 1%", Channel::HostCpu, 0.760_1, "cpu = 76 %"),
            ("ring_fill > 1%", Channel::RingFill, 0.070_1, "ring_fill = 7.0 %"),
            ("events > 1", Channel::Events, 18_204.7, "events = 18.2 k/s"),
            ("events > 1", Channel::Events, 412.0, "events = 412 /s"),
        ] {
            let mut watch = watch(condition, HoldOff::Nothing);
            assert!(watch.signal(channel, 1, value));
            assert_eq!(watch.close(u64::MAX, |_| (Vec::new(), true))[0].because, because);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (mut watch, names) = (watch("hop(dev.recv,app.recv) > 50ns", HoldOff::Nothing), Names::default());
        for n in 0..10_000 {
            assert!(watch.journey(&slow(n, 1_000 + n * 10, 60), &names));
            if n % 100 == 0 {
                watch.close(1_000 + n * 10, |_| (Vec::new(), true));
            }
        }
        assert!(watch.open.len() <= MOST_OPEN && watch.windows().len() <= MOST_CAPTURES);
        assert_eq!(watch.fired(), 10_000);
    }
}
