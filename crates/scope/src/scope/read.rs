//! A look at a scope.

use super::Scope;
use crate::blame::blame_words;
use crate::frame::{Footer, Frame, Header, Inspector, LadderRow, Listed};
use crate::lifeline::Lifeline;
use crate::view::{Align, Route, Top};
use crate::window::{BUCKET_NS, BUCKETS};
use std::time::Duration;

const DAY_NS: i64 = 86_400_000_000_000;

impl Scope {
    /// Everything a screen draws now.
    pub fn frame(&self) -> Frame<'_> {
        Frame {
            scope: self,
            view: &self.view,
            header: self.header(),
            lanes: &self.lanes,
            sweep: &self.sweep,
            table: self.listed.iter().map(|line| self.listed(line)).collect(),
            inspector: self.inspector(),
            footer: self.footer(),
            detail: self.detail(),
            transport: self.transport(),
            wire: self.wire(),
            trigger: self.trigger_status(),
            cursors: self.cursor_reading(),
        }
    }

    fn header(&self) -> Header {
        let named =
            |netns: Option<u32>| netns.map_or_else(|| "outside".to_owned(), |n| self.info.netns_name(n));
        let (nodes, sender, receiver) = if let Some(route) = self.view.route {
            let (from, to) = (named(route.from), named(route.to));
            (format!("{from} → {to}"), from, to)
        } else {
            let all: Vec<_> = self.stats.netns().map(|netns| self.info.netns_name(netns)).collect();
            match all.as_slice() {
                [] => (self.info.host.clone(), String::new(), String::new()),
                [one] => (one.clone(), one.clone(), one.clone()),
                [a, b] => (format!("{a} ↔ {b}"), String::new(), String::new()),
                [a, b, rest @ ..] => {
                    (format!("{a}, {b} and {} more", rest.len()), String::new(), String::new())
                }
            }
        };
        // One source is one kernel: every node of it reads the same CLOCK_MONOTONIC.
        Header {
            nodes,
            sender,
            receiver,
            state: self.state,
            clock: "one clock",
            origin_utc_ns: self.origin_utc_ns(),
        }
    }

    fn origin_utc_ns(&self) -> Option<u64> {
        if self.sweep.align == Align::Start || self.sweep.lifelines.is_empty() {
            return None;
        }
        let clock = self.clock.as_ref()?;
        let since = i128::from(self.sweep.origin_ns) - i128::from(clock.monotonic_ns);
        let utc = i128::from(clock.realtime_ns) + since;
        u64::try_from(utc.rem_euclid(i128::from(DAY_NS))).ok()
    }

    fn blame(&self, line: &Lifeline) -> Option<(String, u64)> {
        let step = line.blame()?;
        Some((blame_words(line, step, |tid| self.comm(tid)), step.ns))
    }

    fn comm(&self, tid: u32) -> Option<&str> {
        self.correlator.task(tid).map(|task| task.comm.as_str())
    }

    fn listed<'a>(&'a self, line: &'a Lifeline) -> Listed<'a> {
        Listed {
            line,
            selected: self.view.journey == Some(line.id()),
            anchor: self.sweep.anchor == Some(line.id()),
            blame: self.blame(line),
        }
    }

    fn route_words(&self, route: Route) -> String {
        let named =
            |netns: Option<u32>| netns.map_or_else(|| "outside".to_owned(), |n| self.info.netns_name(n));
        format!("{} → {}", named(route.from), named(route.to))
    }

    fn inspector(&self) -> Option<Inspector<'_>> {
        let line = self.selected.as_ref().filter(|_| self.view.top == Top::Inspector)?;
        let blamed = line.blame();
        let rungs = line.marks().map(|mark| {
            let step = line.steps().find(|step| step.to == mark.hop);
            let who = match (mark.tid, self.comm(mark.tid)) {
                (0, _) => String::new(),
                (tid, None) => tid.to_string(),
                (tid, Some(comm)) => format!("{comm}/{tid}"),
            };
            let since = i128::from(mark.time_ns) - i128::from(line.start_ns());
            let since_start_ns = i64::try_from(since).unwrap_or(i64::MAX);
            LadderRow { mark, since_start_ns, step, blamed: step.is_some() && step == blamed, who }
        });
        let rungs = rungs.collect();
        let route = self.route_words(Route { from: line.from, to: line.to });
        Some(Inspector { line, route, rungs, blame: self.blame(line) })
    }

    fn footer(&self) -> Footer<'_> {
        Footer {
            totals: self.totals,
            lost_lately: self.lately.lost_events(&self.totals),
            journeys_per_s: self
                .sampled
                .journey_weight()
                .and_then(|weight| Some(self.lately.journeys_per_s()? * weight)),
            journeys_estimated: self.sampled.journey_weight().is_some_and(|weight| weight > 1.0),
            in_flight: self.correlator.in_flight(),
            window: Duration::from_nanos(BUCKET_NS * BUCKETS as u64),
            overhead: self.overhead,
            recording: self.recording.as_ref(),
        }
    }
}
