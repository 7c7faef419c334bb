//! Read access to a scope.

use super::Scope;
use crate::blame::{blame_words, wait_words};
use crate::controls::{Align, Route, Top};
use crate::edge::Edge;
use crate::format::DAY_NS;
use crate::format::short_duration;
use crate::frame::{Footer, Frame, Header, Inspector, LadderRow, Listed, State};
use crate::lifeline::{Lifeline, Step};
use crate::names::NetnsKey;
use crate::window::{BUCKET_NS, BUCKETS};
use magscope_core::context::Context;
use magscope_core::governed::Level;
use magscope_core::journey::{Forwarder, Rung};
use magscope_core::{Counts, Direction, Hop};
use std::time::Duration;

/// Age from which a live picture is old: it is held for a second.
const OLD_NS: u64 = 2_500_000_000;

impl Scope {
    /// Everything a screen draws now.
    pub fn frame(&self) -> Frame<'_> {
        Frame {
            scope: self,
            controls: &self.controls,
            header: self.header(),
            headline: self.headline(),
            lanes: &self.lanes,
            bands: self.bands.all(),
            sweep: &self.sweep,
            table: self.listed.iter().map(|line| self.listed(line)).collect(),
            inspector: self.inspector(),
            footer: self.footer(),
            detail: self.detail(),
            transport: self.transport(),
            wire: self.wire(),
            trigger: self.trigger_status(),
            cursors: self.cursor_reading(),
            tour: self.tour_step(),
        }
    }

    fn header(&self) -> Header {
        let named = |netns_key: Option<NetnsKey>| self.names.netns_name(netns_key);
        let keys = self.netns_keys();
        let (nodes, sender, receiver) = if let Some(route) = self.controls.route {
            let (from, to) = (named(route.from), named(route.to));
            (format!("{from} → {to}"), from, to)
        } else {
            let all: Vec<_> = keys.iter().map(|netns_key| named(Some(*netns_key))).collect();
            match all.as_slice() {
                [] => (self.info().host.clone(), String::new(), String::new()),
                // From the first frame on, a host has its own name: that of its namespace is the same on each.
                [one] => (self.names.host_or_netns(keys[0]), one.clone(), one.clone()),
                [a, b] => (format!("{a} ↔ {b}"), String::new(), String::new()),
                [a, b, rest @ ..] => {
                    (format!("{a}, {b} and {} more", rest.len()), String::new(), String::new())
                }
            }
        };
        Header {
            nodes,
            sender,
            receiver,
            state: self.state,
            edge: self.edge(),
            counts_for_ns: self.chosen_for_ns(),
            clock: self.clock_words(),
            origin_utc_ns: self.origin_utc_ns(),
        }
    }

    /// Where the picture stands.
    fn edge(&self) -> Edge {
        if !self.away.is_empty() {
            return Edge::Away { hosts: self.away.clone() };
        }
        let transport = self.transport();
        if self.is_recorded() || self.state != State::Live {
            let all_ns = transport.to_ns.saturating_sub(transport.from_ns);
            return match self.state {
                _ if transport.read_ns < transport.to_ns => {
                    let read_ns = transport.read_ns.saturating_sub(transport.from_ns);
                    Edge::Reading { read: read_ns as f64 / all_ns.max(1) as f64 }
                }
                _ if self.controls.paused => Edge::Paused,
                State::Ended => Edge::Ended,
                _ => Edge::Playing,
            };
        }
        let behind_ns = self.now_ns.saturating_sub(self.horizon.end_ns());
        // Before the first journey there is no picture, and its time is zero.
        let has_time = self.horizon.begin_ns() > 0 && self.sweep.align == Align::Time;
        match (self.controls.paused, has_time) {
            (true, true) => Edge::Stopped { behind_ns },
            (true, false) => Edge::Stopped { behind_ns: self.now_ns.saturating_sub(self.swept_ns) },
            (false, true) if !self.playhead.following => Edge::Past { behind_ns },
            (false, true) if behind_ns >= OLD_NS && self.selected.is_some() => Edge::Selected { behind_ns },
            (false, true) if behind_ns >= OLD_NS => Edge::Held { behind_ns },
            (false, _) => Edge::Live,
        }
    }

    fn origin_utc_ns(&self) -> Option<u64> {
        if self.sweep.align == Align::Start || (self.sweep.lifelines.is_empty() && !self.shows_sums()) {
            return None;
        }
        self.utc_of_day_ns(self.sweep.origin_ns)
    }

    /// UTC of an instant since midnight, nanoseconds, if it is known.
    pub(crate) fn utc_of_day_ns(&self, time_ns: u64) -> Option<u64> {
        let clock = self.clocks.last(0)?;
        let since = i128::from(time_ns) - i128::from(clock.monotonic_ns);
        let utc = i128::from(clock.realtime_ns) + since;
        u64::try_from(utc.rem_euclid(DAY_NS)).ok()
    }

    fn blame(&self, line: &Lifeline) -> Option<(String, u64)> {
        let step = line.blame()?;
        let words = blame_words(line, step, |tid| self.comm_at(line, step.to, tid));
        let is_inside = step.from.direction() == Direction::Rx && step.to.direction() == Direction::Tx;
        let words = match self.forwarder_name(line, step.forwarder).filter(|_| is_inside) {
            Some(name) => format!("{words} at {name}"),
            None => words,
        };
        Some((words, step.ns))
    }

    /// The name of a forwarder by its number.
    fn forwarder_name(&self, line: &Lifeline, number: u8) -> Option<String> {
        let forwarder = line.journey.forwarders.get(usize::from(number).checked_sub(1)?)?;
        let context: &dyn Context = &self.names;
        Some(context.forwarder(&line.journey, forwarder))
    }

    /// The outer packet of a tunnel by its number. Its source is a row above.
    fn outer_words(&self, line: &Lifeline, number: u8) -> String {
        let outer = usize::from(number).checked_sub(1).and_then(|at| line.journey.tunnels.get(at));
        let context: &dyn Context = &self.names;
        let ends = outer.and_then(|at| context.outer(&line.journey, at));
        ends.map_or_else(String::new, |(proto, _, to)| format!("inside {proto} to {to}"))
    }

    /// The name of the forwarder of an event, and at the first event of its sending what it did to the addresses.
    fn forwarder_words(&self, line: &Lifeline, mark: &Rung) -> String {
        let name = self.forwarder_name(line, mark.forwarder).unwrap_or_default();
        let forwarder =
            usize::from(mark.forwarder).checked_sub(1).and_then(|at| line.journey.forwarders.get(at));
        let mut sent =
            forwarder.into_iter().flat_map(Forwarder::hops).filter(|hop| hop.direction() == Direction::Tx);
        let is_first = sent.next() == Some(mark.hop);
        match forwarder.filter(|_| is_first).and_then(|at| self.translation(line, at)) {
            Some(translation) => format!("{name}, {translation}"),
            None => name,
        }
    }

    /// The number of the copy, on its first event; and the kernel's drop, on its last.
    fn copy_words(&self, line: &Lifeline, mark: &Rung, step: Option<Step>) -> String {
        let journey = &line.journey;
        let Some(copy) = journey.copies.iter().find(|copy| copy.number == mark.copy) else {
            return String::new();
        };
        let mut words = Vec::new();
        if copy.rungs.hops().next() == Some(mark.hop) {
            let wait =
                if step.is_some_and(|step| step.is_wait) { " after waiting for retransmission" } else { "" };
            words.push(format!("{}{wait}", copy.words()));
        }
        if let Some(drop) = copy.dropped.filter(|_| copy.rungs.last() == Some(mark.hop)) {
            let context: &dyn Context = &self.names;
            words.push(context.copy_drop(journey, copy, &drop));
        }
        words.join(", ")
    }

    /// Thread name of an event: a sender's hop uses the names of the sender's recording.
    fn comm_at(&self, line: &Lifeline, hop: Hop, tid: u32) -> Option<&str> {
        let sends = hop.direction() == Direction::Tx;
        let node = if sends { line.journey.tx_node } else { line.journey.rx_node };
        self.names.comm(node, tid)
    }

    /// The nodes that journeys began or ended at, in order of appearance.
    fn netns_keys(&self) -> Vec<NetnsKey> {
        let mut netns_keys: Vec<NetnsKey> = self.stats.netns_keys().collect();
        for netns_key in self.routes.iter().flat_map(|route| [route.from, route.to]).flatten() {
            if !netns_keys.contains(&netns_key) {
                netns_keys.push(netns_key);
            }
        }
        netns_keys
    }

    fn clock_words(&self) -> String {
        let wire = self.wire();
        match (wire.state, wire.half_width_ns) {
            (None, Some(0)) => "one clock".to_owned(),
            (state, half_width_ns) => {
                let state = state.map_or_else(String::new, |state| format!(" {state}"));
                let bound = half_width_ns
                    .map_or_else(|| "clock ?".to_owned(), |ns| format!("clock ±{}", short_duration(ns)));
                format!("{bound}{state}")
            }
        }
    }

    pub(super) fn listed<'a>(&'a self, line: &'a Lifeline) -> Listed<'a> {
        Listed {
            line,
            selected: self.controls.journey == Some(line.key()),
            anchor: self.sweep.anchor == Some(line.key()),
            verdict: self.names.verdict(&line.journey),
            blame: self.blame(line),
        }
    }

    fn route_words(&self, route: Route) -> String {
        format!("{} → {}", self.names.netns_name(route.from), self.names.netns_name(route.to))
    }

    fn inspector(&self) -> Option<Inspector<'_>> {
        let line = self.selected.as_ref().filter(|_| self.controls.top == Top::Inspector)?;
        let blamed = line.blame();
        let rungs = line.spans().map(|(mark, step)| {
            let who = match (mark.tid, self.comm_at(line, mark.hop, mark.tid)) {
                _ if mark.tunnel != 0 => self.outer_words(line, mark.tunnel),
                _ if mark.forwarder != 0 => self.forwarder_words(line, &mark),
                (0, _) => match step.filter(|step| !step.is_wait).and_then(|step| wait_words(line, step)) {
                    Some(wait) => format!("after {wait}"),
                    None => self.copy_words(line, &mark, step),
                },
                (tid, None) => tid.to_string(),
                (tid, Some(comm)) => format!("{comm}/{tid}"),
            };
            let since = i128::from(mark.time_ns) - i128::from(line.start_ns());
            let since_start_ns = i64::try_from(since).unwrap_or(i64::MAX);
            LadderRow { mark, since_start_ns, step, blamed: step.is_some() && step == blamed, who }
        });
        let mut rungs: Vec<LadderRow> = rungs.collect();
        // Copies sent after the delivery of the journey's bytes are listed last.
        rungs.sort_by_key(|row| row.mark.copy <= line.journey.copy);
        let route = self.route_words(Route { from: line.from, to: line.to });
        let (passes, payload) = (self.passes(line), self.payload(line));
        let verdict = self.names.verdict(&line.journey);
        Some(Inspector { line, route, verdict, rungs, blame: self.blame(line), passes, payload })
    }

    /// With more than one host, each text has the host's name.
    fn governed(&self) -> Vec<String> {
        let infos = self.names.infos();
        let of = |(node, level): (&u16, &Level)| match infos.get(usize::from(*node)) {
            Some(info) if infos.len() > 1 => format!("{}: {level}", info.host),
            _ => level.to_string(),
        };
        // For a recording, the level at its end does not apply to the picture.
        self.governed.iter().filter(|_| !self.is_recorded()).map(of).collect()
    }

    /// The counts of every surface now.
    pub(super) fn counts_now(&self) -> Counts {
        self.totals.counts(self.correlator.in_flight() as u64)
    }

    /// Journeys per second if each counts `weight`: lately, or over a whole recording of a second at least.
    fn journeys_per_s(&self, weight: f64) -> Option<f64> {
        let Some(recorded) = &self.recorded else { return self.lately.journeys_per_s(weight) };
        let secs = recorded.counted_ns() as f64 / 1e9;
        (secs >= 1.0).then(|| self.totals.all_journeys(weight) / secs)
    }

    fn footer(&self) -> Footer<'_> {
        let sums = self.draws_sums();
        Footer {
            totals: self.totals,
            missed_lately: self.lately.missed_events(&self.totals),
            journeys_per_s: self
                .weights
                .of_journeys()
                .filter(|_| !sums)
                .and_then(|weight| self.journeys_per_s(weight)),
            journeys_estimated: self.weights.of_journeys().is_some_and(|weight| weight > 1.0),
            counts: self.counts_now(),
            window: Duration::from_nanos(BUCKET_NS * BUCKETS as u64),
            governed: self.governed(),
            is_of_all: self.controls.is_narrowed(),
            sums,
            shows_sums: self.shows_sums(),
            overhead: self.overhead,
            recording: self.recording.as_ref(),
        }
    }
}
