//! Input of the scope.

use super::{HOLD_EDGES, MAX_ROUTES, Scope};
use crate::controls::Route;
use crate::frame::State;
use crate::journal::Mark;
use crate::lifeline::Lifeline;
use crate::look::PointKind;
use crate::names::NetnsKey;
use crate::pyramid::Lane;
use crate::window::BUCKET_NS;
use magscope_core::context::Context;
use magscope_core::drop_reason::Freed;
use magscope_core::governed::Level;
use magscope_core::{Batch, Direction, Event, Hop, Journey, Loss};

/// Maximum number of distinct drop reasons.
const MOST_REASONS: usize = 256;

impl Scope {
    /// Processes the next batch of the only source, and joins its events to journeys.
    pub fn ingest(&mut self, batch: &Batch) {
        self.correlator.push(batch, &mut self.journeys);
        let edges = self.take_batch(0, batch);
        self.take_journeys();
        self.settle(edges, batch);
        self.watch_settled_rates();
    }

    /// Processes a batch of one of several recordings, with times on the common time line. Journeys arrive
    /// separately, see [`Scope::ingest_journey`].
    pub fn ingest_batch(&mut self, node: u16, batch: &Batch) {
        // The journeys of the batches before this one have arrived.
        self.watch_settled_rates();
        let edges = self.take_batch(node, batch);
        self.settle(edges, batch);
    }

    /// Processes a journey that ended.
    pub fn ingest_journey(&mut self, journey: Journey) {
        self.journeys.push(journey);
        self.take_journeys();
    }

    /// Stores only the names that a batch announces.
    pub fn learn(&mut self, node: u16, batch: &Batch) {
        self.names.learn(node, batch);
    }

    /// Counts a batch, except its journeys. Returns the number of bucket edges crossed.
    fn take_batch(&mut self, node: u16, batch: &Batch) -> u64 {
        self.names.learn(node, batch);
        self.watch_exchanges(|requests, names, visit| requests.batch(node, batch, names, visit));
        batch.clock.iter().for_each(|sample| self.clocks.push(node, *sample));
        self.weights.batch(node, batch);
        let mut edges = 0;
        let mut hits = batch.hits.iter().peekable();
        let mut sums = batch.synthesis.iter().peekable();
        for event in &batch.events {
            while let Some(sum) = sums.next_if(|sum| sum.to_ns <= event.time_ns) {
                self.take_sum(node, sum);
            }
            while let Some(hit) = hits.next_if(|hit| hit.time_ns <= event.time_ns) {
                self.take_hit(node, hit);
            }
            edges += self.stats.advance(event.time_ns);
            self.take_event(node, event);
        }
        hits.for_each(|hit| self.take_hit(node, hit));
        sums.for_each(|sum| self.take_sum(node, sum));
        if !self.is_recorded() {
            batch.heads.iter().for_each(|head| self.journal.head(node, head));
        }
        // A silent network has a watermark and no events; the end of a source may have a meaningless watermark.
        if batch.watermark_ns != u64::MAX && batch.watermark_ns != 0 {
            edges += self.stats.advance(batch.watermark_ns);
            self.now_ns = self.now_ns.max(batch.watermark_ns);
            self.begin_ns = self.begin_ns.or(Some(batch.watermark_ns));
        }
        self.now_ns = batch.events.last().map_or(self.now_ns, |event| self.now_ns.max(event.time_ns));
        self.totals.batch(batch);
        if let Some(count) = self.hop_events.get_mut(usize::from(Hop::TcpState.id())) {
            *count += batch.tcp.len() as u64;
        }
        for sample in &batch.tcp {
            self.signals.push(*sample);
            let fires = self.watch.sample(node, sample);
            self.fires(fires, sample.time_ns, None);
        }
        batch.losses.iter().for_each(|loss| self.take_loss(loss));
        for level in batch.changes.iter().filter_map(Level::of) {
            match level {
                Level::Full => self.governed.remove(&node),
                below => self.governed.insert(node, below),
            };
        }
        Mark::losses_and_changes(batch).for_each(|mark| self.journal.mark(mark));
        edges
    }

    /// Where an event was, if that is known.
    pub(super) fn netns_key_of(&mut self, node: u16, event: &Event) -> Option<NetnsKey> {
        let names = &self.names;
        let places = self.places.get_mut(usize::from(node))?;
        let netns = places.of(event, |flow| names.flow(node, flow).map(|flow| flow.netns))?;
        Some(NetnsKey { node, netns })
    }

    fn take_event(&mut self, node: u16, event: &Event) {
        let netns_key = self.netns_key_of(node, event);
        self.begin_ns = self.begin_ns.or(Some(event.time_ns));
        if let Some(last_event_ns) = self.last_event_ns.get_mut(usize::from(node)) {
            *last_event_ns = (*last_event_ns).max(Some(event.time_ns));
        }
        self.seen.insert(event.hop);
        // A stopped live view stores no events.
        let is_stored = !self.controls.paused || self.is_recorded();
        self.findings.event(event, is_stored, || self.names.flow(node, event.flow));
        if let Some(count) = self.hop_events.get_mut(usize::from(event.hop.id())) {
            *count += 1;
        }
        self.counts.pyramid.count(Lane::Events, event.time_ns, 1);
        if event.hop.rank().is_some() {
            if !self.controls.chooses_journeys() && self.looks_at(event, netns_key) {
                self.counts.payload(event);
            }
            if let Some(unfiltered) = &mut self.unfiltered {
                unfiltered.counts.payload(event);
            }
        }
        if !self.is_recorded() {
            self.stats.event(event, netns_key);
            if self.controls.paused {
                self.journal.leave_out(event);
            } else {
                self.journal.event(node, event);
            }
        }
        if event.hop == Hop::SkbDrop {
            self.count_drops(node, Some(Freed::of(event)), 1);
            if !self.names.is_drop(node, event) {
                return; // no mark, no trigger
            }
        }
        if let Some(mark) = Mark::of(node, event) {
            match mark.kind {
                PointKind::Drop { .. } => {
                    self.counts.pyramid.count(Lane::Drops, event.time_ns, 1);
                    self.totals.dropped += 1;
                }
                PointKind::Retransmit => self.counts.pyramid.count(Lane::Retransmits, event.time_ns, 1),
                _ => {}
            }
            self.journal.mark(mark);
            let fires = self.watch.event(event, |reason| self.names.drop_reason(node, reason));
            self.fires(fires, event.time_ns, None);
        }
    }

    /// Drops and clean-up by their reason; `None` for those whose reason found no entry.
    pub(super) fn count_drops(&mut self, node: u16, freed: Option<Freed>, n: u64) {
        // The rows add up to the number of dropped packets.
        let has_room = self.drops.len() < MOST_REASONS || self.drops.contains_key(&(node, freed));
        let sum = self.drops.entry((node, freed.filter(|_| has_room))).or_default();
        *sum = sum.saturating_add(n);
    }

    /// Whether the filters let an event through, as far as they ask for what an event knows.
    pub(super) fn looks_at(&self, event: &Event, netns_key: Option<NetnsKey>) -> bool {
        let receiving = event.hop.direction() == Direction::Rx;
        self.controls.route.is_none_or(|route| netns_key == if receiving { route.to } else { route.from })
            && self.controls.proto.is_none_or(|proto| event.proto == proto)
    }

    fn take_loss(&mut self, loss: &Loss) {
        self.revision += 1; // a loss is shown at once
        self.counts.pyramid.count(Lane::Lost, loss.to_ns, loss.count);
        if let Some(row) = self.losses.iter_mut().find(|row| row.cause == loss.cause) {
            row.count = row.count.saturating_add(loss.count);
            row.last_ns = row.last_ns.max(Some(loss.to_ns));
        }
        let fires = self.watch.loss(loss);
        self.fires(fires, loss.to_ns, None);
    }

    /// Processes the journeys that ended.
    pub(super) fn take_journeys(&mut self) {
        let mut journeys = std::mem::take(&mut self.journeys);
        for journey in journeys.drain(..) {
            self.watch_exchanges(|requests, names, visit| requests.journey(&journey, names, visit));
            let line = self.lifeline(journey);
            self.totals.journey(&line.journey);
            self.note_finding(&line);
            let route = Route { from: line.from, to: line.to };
            let new = line.journey.verdict.is_whole() && !self.routes.contains(&route);
            if new && self.routes.len() < MAX_ROUTES {
                self.routes.push(route);
            }
            let fires = self.watch.journey(&line, &self.names);
            self.fires(fires, line.end_ns(), fires.then(|| line.key()));
            let accepted = self.controls.accepts(&line, &self.names);
            if !self.is_recorded() {
                self.stats.journey(&line);
            }
            if accepted {
                self.count(&line);
            }
            if let Some(unfiltered) = &mut self.unfiltered {
                unfiltered.counts.journey(&line, &self.names);
            }
            if self.controls.paused && !self.is_recorded() {
                self.memory.skip(&line);
            } else {
                self.memory.push(line, accepted);
            }
        }
        self.journeys = journeys;
    }

    /// A journey with the names of its ends.
    pub(super) fn lifeline(&self, journey: Journey) -> Lifeline {
        let context: &dyn Context = &self.names;
        let (tx, rx) = (context.tx_flow(&journey), context.rx_flow(&journey));
        let ends =
            tx.map(|flow| (flow.local, flow.remote)).or_else(|| rx.map(|flow| (flow.remote, flow.local)));
        let from = tx.map(|flow| NetnsKey { node: journey.tx_node, netns: flow.netns });
        let to = rx.map(|flow| NetnsKey { node: journey.rx_node, netns: flow.netns });
        let passed = journey.forwarders.iter().map(|at| {
            let node = journey.node_of_forwarder(at);
            let flow = context.flow(node, at.flow())?;
            Some(NetnsKey { node, netns: flow.netns })
        });
        let passed = passed.collect();
        Lifeline::new(journey, ends, (from, to), passed)
    }

    /// Counts an accepted journey.
    pub(super) fn count(&mut self, line: &Lifeline) {
        self.counts.journey(line, &self.names);
        if self.controls.chooses_journeys() {
            self.counts.payload_of(line);
        }
        if let Some(overlay) = &mut self.overlay {
            overlay.draw(line);
        }
    }

    /// Makes everything counted readable.
    pub(super) fn settle_counts(&mut self) {
        self.all_counts().for_each(|counts| counts.pyramid.settle());
    }

    /// Ends a batch: counts become readable, windows of triggers close, and the picture advances.
    fn settle(&mut self, edges: u64, batch: &Batch) {
        // Live, the picture changes at edges of buckets, with a loss, and by a user's action, which settles for itself.
        if edges > 0 || !batch.losses.is_empty() || self.is_recorded() {
            self.settle_counts();
        }
        if let Some(recorded) = &mut self.recorded {
            let read_ns = if batch.watermark_ns == u64::MAX { self.now_ns } else { batch.watermark_ns };
            let summed_ns = batch.synthesis.iter().map(|sum| sum.to_ns).max().unwrap_or(0);
            let read_ns = read_ns.max(summed_ns);
            // Only `end` reaches the last instant: until then journeys are open, or not in tiles yet.
            recorded.read_ns = recorded.read_ns.max(read_ns.min(recorded.all.to_ns.saturating_sub(1)));
        }
        self.close_captures(self.counted_to_ns());
        self.reach(edges);
    }

    /// Updates the numbers after bucket edges, and the picture once per second.
    fn reach(&mut self, edges: u64) {
        if edges > 0 {
            self.lately.edge(self.totals, edges);
            self.held_edges += edges;
            self.revision += 1;
            self.conclude_after(edges);
        }
        if self.is_recorded() {
            return; // the playhead moves this picture
        }
        if !self.controls.paused {
            self.playhead.tick(0, self.now_ns);
            if edges > 0 {
                self.measure();
            }
            let is_new = |line: &Lifeline| line.end_ns() >= self.swept_ns;
            let nothing_yet =
                self.sweep.lifelines.is_empty() && self.memory.recent().next().is_some_and(is_new);
            if self.held_edges >= HOLD_EDGES || nothing_yet || self.rolls() && edges > 0 {
                self.memory.age(self.now_ns);
                self.settle_counts();
                self.retake();
            }
        }
    }

    /// Ends the source: journeys in flight are closed, and everything is shown. For a recording, the survey is
    /// complete.
    pub fn end(&mut self) {
        self.correlator.finish(&mut self.journeys);
        self.take_journeys();
        self.watch_exchanges(|requests, names, visit| requests.end(names, visit));
        self.settle_counts();
        self.revision += 1;
        if let Some(recorded) = &mut self.recorded {
            recorded.read_ns = recorded.all.to_ns;
            // It was read before all was known that helps its reader.
            recorded.filled = None;
            self.conclude();
            self.watch_rates(self.counted_to_ns());
            self.close_captures(u64::MAX);
            self.measure();
            self.relist();
            return;
        }
        self.conclude();
        self.state = State::Ended;
        self.watch_rates(self.now_ns);
        self.now_ns = self.now_ns.saturating_add(BUCKET_NS);
        let edges = self.stats.advance(self.now_ns);
        self.held_edges = HOLD_EDGES;
        self.close_captures(u64::MAX);
        self.reach(edges);
    }
}
