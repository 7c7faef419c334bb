//! The scope: takes batches in, keeps what a screen needs, hands out frames.

mod apply;
mod pending;
mod read;

use crate::blame::passes;
use crate::frame::State;
use crate::lane::{Lane, Place, places};
use crate::lifeline::Lifeline;
use crate::memory::Memory;
use crate::overhead::{Overhead, Recording};
use crate::stats::{Sides, Stats};
use crate::sweep::Sweep;
use crate::totals::{Lately, Totals};
use crate::trigger::Settings;
use crate::view::{List, Route, View};
use crate::window::BUCKET_NS;
use magscope_core::clock::ClockSample;
use magscope_core::hop::HopSet;
use magscope_core::node::{NodeInfo, Service};
use magscope_core::sampled::Sampled;
use magscope_core::{Batch, Correlator, Journey, Limits, Proto};

/// Bucket edges a picture is held for: a second.
const HOLD_EDGES: u64 = 2;
/// Journeys the table lists at most.
const LISTED: usize = 32;
/// Routes that can be chosen.
const MAX_ROUTES: usize = 64;

/// How a scope begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether the source is live or a recording.
    pub state: State,
    /// What its correlator may keep.
    pub limits: Limits,
}

/// A software oscilloscope without a screen.
pub struct Scope {
    info: NodeInfo,
    state: State,
    view: View,
    correlator: Correlator,
    sampled: Sampled,
    journeys: Vec<Journey>,
    stats: Stats,
    totals: Totals,
    lately: Lately,
    memory: Memory,
    seen: HopSet,
    routes: Vec<Route>,
    overhead: Option<Overhead>,
    recording: Option<Recording>,
    clock: Option<ClockSample>,
    now_ns: u64,
    /// Bucket edges since the last sweep, and when that was.
    held_edges: u64,
    swept_ns: u64,
    revision: u64,
    // What is on the screen. Taken at bucket edges and not between, so that it stands still while it is read.
    lanes: Vec<Lane>,
    sweep: Sweep,
    listed: Vec<Lifeline>,
    selected: Option<Lifeline>,
    trigger: Settings,
}

impl Scope {
    /// What a sampler leaves out: each rate is to be multiplied by a weight of it, and to say that it is an estimate.
    pub const fn sampled(&self) -> &Sampled {
        &self.sampled
    }

    /// A scope for what `info` describes.
    pub fn new(info: NodeInfo, options: Options) -> Self {
        let correlator = Correlator::of_node(&info, options.limits);
        let sampled = Sampled::of(&info);
        let mut scope = Scope {
            info,
            sampled,
            state: options.state,
            view: View::default(),
            correlator,
            journeys: Vec::new(),
            stats: Stats::default(),
            totals: Totals::default(),
            lately: Lately::default(),
            memory: Memory::default(),
            seen: HopSet::EMPTY,
            routes: Vec::new(),
            overhead: None,
            recording: None,
            clock: None,
            now_ns: 0,
            held_edges: 0,
            swept_ns: 0,
            revision: 0,
            lanes: Vec::new(),
            sweep: Sweep::default(),
            listed: Vec::new(),
            selected: None,
            trigger: Settings::default(),
        };
        scope.measure();
        scope
    }

    /// Takes in the next batch.
    pub fn ingest(&mut self, batch: &Batch) {
        self.correlator.push(batch, &mut self.journeys);
        self.sampled.batch(batch);
        self.clock = batch.clock.last().copied().or(self.clock);
        let mut edges = 0;
        for event in &batch.events {
            edges += self.stats.advance(event.time_ns);
            let correlator = &self.correlator;
            self.stats.event(event, |flow| correlator.flow(flow).map(|f| f.netns));
            self.seen.insert(event.hop);
        }
        // A silent network has a watermark and no events; the end of a source may have a watermark without meaning.
        if batch.watermark_ns != u64::MAX {
            edges += self.stats.advance(batch.watermark_ns);
            self.now_ns = self.now_ns.max(batch.watermark_ns);
        }
        self.now_ns = batch.events.last().map_or(self.now_ns, |event| self.now_ns.max(event.time_ns));
        self.totals.batch(batch);
        if !batch.losses.is_empty() {
            self.revision += 1; // a loss is shown at once
        }
        self.take_journeys();
        self.reach(edges);
    }

    /// Takes in the journeys that ended.
    fn take_journeys(&mut self) {
        let mut journeys = std::mem::take(&mut self.journeys);
        for journey in journeys.drain(..) {
            let line = self.lifeline(journey);
            self.stats.journey(&line);
            self.totals.journey(&line.journey);
            let route = Route { from: line.from, to: line.to };
            let new = line.journey.verdict.is_whole() && !self.routes.contains(&route);
            if new && self.routes.len() < MAX_ROUTES {
                self.routes.push(route);
            }
            if !self.view.paused {
                let listed = self.view.accepts(&line);
                self.memory.push(line, listed);
            }
        }
        self.journeys = journeys;
    }

    /// A journey with the names of its ends.
    fn lifeline(&self, journey: Journey) -> Lifeline {
        let (tx, rx) = (self.correlator.flow(journey.tx_flow), self.correlator.flow(journey.rx_flow));
        let ends =
            tx.map(|flow| (flow.local, flow.remote)).or_else(|| rx.map(|flow| (flow.remote, flow.local)));
        let (from, to) = (tx.map(|flow| flow.netns), rx.map(|flow| flow.netns));
        Lifeline { journey, ends, from, to }
    }

    /// After bucket edges were crossed the numbers are taken again, and once a second the picture.
    fn reach(&mut self, edges: u64) {
        if edges > 0 {
            self.lately.edge(self.totals, edges);
            self.held_edges += edges;
            self.revision += 1;
        }
        if self.view.paused {
            return;
        }
        if edges > 0 {
            self.measure();
        }
        let nothing_yet = self.sweep.lifelines.is_empty() && self.memory.recent().next().is_some();
        if self.held_edges >= HOLD_EDGES || nothing_yet {
            self.memory.age(self.now_ns);
            self.retake();
        }
    }

    /// The source has no more: what is still in flight is closed and everything shown.
    pub fn end(&mut self) {
        self.state = State::Ended;
        self.correlator.finish(&mut self.journeys);
        self.take_journeys();
        self.now_ns += BUCKET_NS;
        let edges = self.stats.advance(self.now_ns);
        self.held_edges = HOLD_EDGES;
        self.reach(edges);
        self.revision += 1;
    }

    /// Reads the windows into the lanes.
    fn measure(&mut self) {
        let sides: Sides = self.view.route.map(|route| (route.from, route.to));
        self.lanes.clear();
        for place in places() {
            let Place::Hop(hop) = place else {
                self.lanes.push(Lane { place, service: Service::Off, seen: true, stats: None });
                continue;
            };
            let service = self.info.coverage.of(hop).cloned().unwrap_or(Service::Off);
            let served = matches!(service, Service::Served { .. });
            let stats = if served { self.stats.read(hop, sides) } else { None };
            let stats = stats.map(|stats| stats.standing_for(self.sampled.weight_lately(hop)));
            let seen = self.seen.contains(hop);
            if self.view.proto.is_none_or(|proto| passes(hop, proto)) {
                self.lanes.push(Lane { place, service, seen, stats });
            }
        }
    }

    /// Takes the picture and the list again.
    fn retake(&mut self) {
        self.sweep.take(&self.memory, &mut self.view, self.swept_ns);
        self.swept_ns = self.now_ns;
        self.held_edges = 0;
        self.relist();
        self.revision += 1;
    }

    fn relist(&mut self) {
        let view = &self.view;
        let accepted = |line: &&Lifeline| view.accepts(line);
        self.listed.clear();
        match view.list {
            List::Slowest => {
                self.listed.extend(self.memory.slowest().iter().filter(accepted).take(LISTED).cloned());
            }
            List::Recent => self.listed.extend(self.memory.recent().filter(accepted).take(LISTED).cloned()),
            List::Bad => self.listed.extend(self.memory.bad().filter(accepted).take(LISTED).cloned()),
        }
        if let Some(selected) = &self.selected
            && !self.listed.iter().any(|line| line.id() == selected.id())
        {
            self.listed.insert(0, selected.clone());
            self.listed.truncate(LISTED);
        }
    }

    /// Tells the scope what the instrument costs.
    pub fn set_overhead(&mut self, overhead: Overhead) {
        if self.overhead != Some(overhead) {
            self.overhead = Some(overhead);
            self.revision += 1;
        }
    }

    /// Tells the scope of a recording that runs beside it, or that none does.
    pub fn set_recording(&mut self, recording: Option<Recording>) {
        if self.recording != recording {
            self.recording = recording;
            self.revision += 1;
        }
    }

    /// Grows with every change a screen should show.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether the user asked to end.
    pub const fn quits(&self) -> bool {
        self.view.quit
    }

    /// Whether the user wants a recording to run. Whoever feeds the scope begins and ends it, and says so with
    /// [`Scope::set_recording`].
    pub const fn wants_recording(&self) -> bool {
        self.view.recording
    }

    /// What the source knows about its node.
    pub const fn info(&self) -> &NodeInfo {
        &self.info
    }

    /// Protocols a filter can choose.
    const PROTOS: [Proto; 2] = [Proto::TCP, Proto::UDP];
}

#[cfg(test)]
mod tests;
