//! Several recordings read in parallel, their journeys joined: the equivalent of a correlator for a set of
//! recordings.

use crate::align::{Aligner, Alignment, Online};
use crate::join::{Crossing, JoinCounters, JoinLimits, Joined, Joiner, Pairing, Timeline};
use magscope_core::batch::Batch;
use magscope_core::clock::ClockSample;
use magscope_core::context::Context;
use magscope_core::flow::{Flow, FlowId, Task};
use magscope_core::journey::{Correlator, Counters, Journey, Limits, Proofs};
use magscope_core::node::{NodeInfo, make_name_unique, make_names_unique};
use magscope_core::source::{Progress, Source, SourceError};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum number of journeys of a node that wait for its clocks; beyond it the oldest continue without.
const MAX_HELD: usize = 1 << 16;
/// Required clock information after a journey's end, nanoseconds: its instant on the other clock is not exact.
const AROUND_NS: u64 = 20_000_000;

/// The output, piece by piece.
pub enum Piece<'a> {
    /// Events of a recording, before their journeys. Their times, and those of losses and TCP states, are on
    /// the time line of recording 0, as exactly as known.
    Batch(u16, &'a Batch),
    /// A journey that ended, the crossing of its halves, and the context of its flows and processes.
    Journey(&'a Journey, Option<&'a Crossing>, &'a dyn Context),
}

/// Results of the walk.
#[derive(Clone, Debug, Default)]
pub struct ReadSummary {
    /// Counters of each recording's correlator.
    pub counters: Vec<Counters>,
    /// Counters of the join.
    pub join: JoinCounters,
    /// The result for each direction of each connection with only halves from the correlators.
    pub pairings: Vec<Pairing>,
}

/// State of one recording.
struct Lane<'s> {
    source: Box<dyn Source + 's>,
    info: NodeInfo,
    correlator: Correlator,
    /// Approximate common time of the data read so far, nanoseconds.
    at_ns: i64,
    /// Instants of its first and of its newest data by its own clock.
    own_ns: Option<(u64, u64)>,
    /// It was added while the others ran.
    is_late: bool,
    /// Whether its place by arrival is certain to [`LEAD_NS`]. `None` before it has one.
    is_placed: Option<bool>,
    /// It was placed when all sources had been read to the present.
    is_at_present: bool,
    /// Ended journeys that wait for clock information around them, by the instant of their end and a number: a
    /// correlator closes them in another order.
    held: BTreeMap<(u64, u64), Journey>,
    /// Journeys that were held so far.
    held_count: u64,
}

impl<'s> Lane<'s> {
    fn new(source: Box<dyn Source + 's>, info: NodeInfo, limits: Limits) -> Self {
        let correlator = Correlator::of_node(&info, limits);
        Lane {
            source,
            correlator,
            info,
            at_ns: i64::MIN,
            own_ns: None,
            is_late: false,
            is_placed: None,
            is_at_present: false,
            held: BTreeMap::new(),
            held_count: 0,
        }
    }
}

fn joiner(timeline: &dyn Timeline, limits: Limits, is_live: bool) -> Joiner<'_> {
    let new = if is_live { Joiner::live } else { Joiner::new };
    new(timeline, JoinLimits { max_waiting: limits.max_pieces, ..JoinLimits::default() })
}

/// Least time between two searches for halves that have waited long enough, nanoseconds.
const RELEASE_STEP_NS: u64 = 250_000_000;
/// How much of running sources may have been read when one is placed by arrival, so that its place is good enough to
/// give up waiting halves by it, nanoseconds.
const LEAD_NS: u64 = 1_000_000_000;
/// How far running sources may be behind the present when none of them has more data, nanoseconds: a recorder writes
/// now and then, and a busy machine delays it.
const BEHIND_NS: i64 = 10_000_000_000;

/// The names of all lanes.
struct Names<'a, 's>(&'a [Lane<'s>]);

impl Context for Names<'_, '_> {
    fn flow(&self, node: u16, id: FlowId) -> Option<&Flow> {
        self.0.get(usize::from(node))?.correlator.flow(id)
    }

    fn task(&self, node: u16, tid: u32) -> Option<&Task> {
        self.0.get(usize::from(node))?.correlator.task(tid)
    }

    fn info(&self, node: u16) -> Option<&NodeInfo> {
        self.0.get(usize::from(node)).map(|lane| &lane.info)
    }

    fn nodes(&self) -> u16 {
        self.0.len() as u16
    }
}

/// Reads recordings in parallel, one batch at a time, the least advanced first, so that halves wait as shortly
/// as possible.
pub struct Walker<'s> {
    lanes: Vec<Lane<'s>>,
    /// The running ones, by their position in time: the cost of a step must not grow with their number.
    order: BTreeSet<(i64, usize)>,
    timeline: &'s dyn Timeline,
    /// Computes the clock offsets during the walk.
    online: Option<&'s Online>,
    /// Halves of one recording can match only with several namespaces, behind a translator.
    joiner: Option<Joiner<'s>>,
    /// True if the crossings of segments without payload are needed, too.
    aligns: bool,
    limits: Limits,
    patience: Duration,
    /// Steps since the last data.
    quiet: usize,
    /// The place of the least advanced source when halves that waited too long were last sought.
    asked_ns: i64,
    batch: Batch,
    done: Vec<Journey>,
    joined: Vec<Joined>,
    finished: bool,
}

impl<'s> Walker<'s> {
    /// Reads these sources in the order of `timeline`. If none of them has data, each may wait at most
    /// `patience` for some.
    pub fn new(
        sources: Vec<Box<dyn Source + 's>>,
        timeline: &'s dyn Timeline,
        limits: Limits,
        patience: Duration,
    ) -> Self {
        let mut infos: Vec<NodeInfo> = sources.iter().map(|source| source.info().clone()).collect();
        make_names_unique(&mut infos);
        let lanes = sources.into_iter().zip(infos).map(|(source, info)| Lane::new(source, info, limits));
        let lanes: Vec<Lane<'_>> = lanes.collect();
        let joins = lanes.len() > 1 || lanes.iter().any(|lane| lane.info.netns.len() > 1);
        Walker {
            order: (0..lanes.len()).map(|at| (i64::MIN, at)).collect(),
            lanes,
            timeline,
            online: None,
            joiner: joins.then(|| joiner(timeline, limits, false)),
            aligns: false,
            limits,
            patience,
            quiet: 0,
            asked_ns: i64::MIN,
            batch: Batch::default(),
            done: Vec::new(),
            joined: Vec::new(),
            finished: false,
        }
    }

    /// Reads running sources, and computes the offsets between their clocks meanwhile. A journey waits for
    /// later clock samples before the join, some tenths of a second. Before any bounds of two clocks, a
    /// crossing between them has no latency.
    pub fn live(
        sources: Vec<Box<dyn Source + 's>>,
        online: &'s Online,
        limits: Limits,
        patience: Duration,
    ) -> Self {
        let mut walker = Walker::new(sources, online, limits, patience);
        walker.joiner = walker.joiner.map(|_| joiner(online, limits, true));
        Walker { online: Some(online), aligns: true, ..walker }
    }

    /// Keeps what the packets of each node prove of its addresses, for later readers of a part.
    #[must_use]
    pub fn keep_proofs(mut self) -> Self {
        self.lanes.iter_mut().for_each(|lane| lane.correlator.keep_proofs());
        self
    }

    /// The proofs of each node so far, if they are kept.
    pub fn proofs(&self) -> Vec<Proofs> {
        self.lanes.iter().map(|lane| lane.correlator.proofs().cloned().unwrap_or_default()).collect()
    }

    /// Begins amid the recordings with the proofs of each node; `at_ns` is the first instant by the node's clock.
    #[must_use]
    pub fn begin_with(mut self, proofs: &[Proofs], at_ns: impl Fn(u16) -> u64) -> Self {
        for ((lane, node), proofs) in self.lanes.iter_mut().zip(0..).zip(proofs) {
            lane.correlator.begin_with(proofs, at_ns(node));
        }
        self
    }

    /// Adds a running source; returns its info with a distinct name. Its times are placed by arrival until
    /// packets give better bounds.
    pub fn join(&mut self, source: Box<dyn Source + 's>) -> NodeInfo {
        let infos: Vec<NodeInfo> = self.lanes.iter().map(|lane| lane.info.clone()).collect();
        let mut info = source.info().clone();
        make_name_unique(&infos, &mut info);
        if let Some(online) = self.online {
            online.join(&info);
        }
        // Earlier journeys here have no possible match, later ones have.
        self.joiner.get_or_insert_with(|| joiner(self.timeline, self.limits, self.online.is_some()));
        self.order.insert((i64::MIN, self.lanes.len()));
        let lane = Lane::new(source, info.clone(), self.limits);
        self.lanes.push(Lane { is_late: true, ..lane });
        self.finished = false;
        info
    }

    /// Reads the next batch of one source and visits its output. After [`Progress::End`] there is no more
    /// output, unless another source [joins](Walker::join).
    pub fn step(&mut self, visit: &mut dyn FnMut(Piece<'_>)) -> Result<Progress, SourceError> {
        let newest_ns = self.order.last().map_or(i64::MIN, |(ns, _)| *ns);
        let Some((_, at)) = self.order.pop_first() else {
            self.finish(visit);
            return Ok(Progress::End);
        };
        let node = at as u16;
        let lane = &mut self.lanes[at];
        // Quiet hosts are waited for if all of them are: otherwise each would delay the others in turn.
        let patience = if self.quiet > self.order.len() { self.patience } else { Duration::ZERO };
        // the last batch was of another source
        self.batch.watermark_ns = 0;
        let has_ended = lane.source.next(&mut self.batch, patience)? == Progress::End;
        if has_ended {
            lane.correlator.finish(&mut self.done);
            if let Some(online) = self.online {
                online.ended(node);
            }
        } else {
            // A source without data, such as a quiet host, does not block the others.
            let newest = newest(&self.batch);
            self.quiet = if newest.is_some() { 0 } else { self.quiet.saturating_add(1) };
            if let (Some(online), Some(own_ns)) = (self.online, newest) {
                online.arrived(node, own_ns);
            }
            if let Some(own_ns) = newest {
                let first_ns = lane.own_ns.map_or_else(|| oldest(&self.batch).unwrap_or(own_ns), |(ns, _)| ns);
                lane.own_ns = Some((first_ns, own_ns));
            }
            let first = at == 0 && lane.at_ns == i64::MIN;
            lane.at_ns = match newest {
                Some(own_ns) => self.timeline.rough_ns(node, own_ns),
                // The others are placed by the first one's data.
                None if first && self.online.is_some() => i64::MIN,
                None => newest_ns.saturating_add(1),
            };
            self.order.insert((lane.at_ns, at));
            for names in &self.batch.names {
                lane.info.learn(names);
            }
            lane.correlator.push(&self.batch, &mut self.done);
            if let Some(online) = self.online {
                self.batch.clock.iter().for_each(|sample| online.clock(node, *sample));
            }
            if let Some(joiner) = &mut self.joiner {
                joiner.push_numbers(node, &lane.info, &self.batch, &lane.correlator);
            }
            if let Some(joiner) = self.joiner.as_mut().filter(|_| self.aligns) {
                joiner.push_events(node, &lane.info, &self.batch, &lane.correlator);
            }
            self.note_place(at);
            on_time_line(&mut self.batch, node, self.timeline);
            visit(Piece::Batch(node, &self.batch));
        }
        if let Some(online) = self.online {
            let lane = &mut self.lanes[at];
            for journey in self.done.drain(..) {
                lane.held_count += 1;
                lane.held.insert((journey.end_ns().unwrap_or(0), lane.held_count), journey);
            }
            let settled_ns = online.settled_ns(node).map_or(0, |(_, to_ns)| to_ns);
            // after the end no sample follows
            let until_ns = if has_ended { u64::MAX } else { settled_ns.saturating_sub(AROUND_NS) };
            self.release(at, until_ns);
        }
        let names = Names(&self.lanes);
        for journey in self.done.drain(..) {
            match &mut self.joiner {
                Some(joiner) => joiner.push(node, journey, &names, &mut self.joined),
                None => visit(Piece::Journey(&journey, None, &names)),
            }
        }
        self.place_at_present();
        self.release_old();
        self.hand_over(visit);
        Ok(Progress::More)
    }

    /// Gives up halves that have waited long enough in the join.
    fn release_old(&mut self) {
        // Asked when the least advanced source has moved on: the cost of a step must not grow with the sources.
        let least_ns = self.order.first().map_or(i64::MIN, |(ns, _)| *ns);
        if least_ns.abs_diff(self.asked_ns) < RELEASE_STEP_NS {
            return;
        }
        self.asked_ns = least_ns;
        if let (Some(read_ns), Some(joiner)) = (self.surely_read_ns(), &mut self.joiner) {
            joiner.release_old(read_ns, &mut self.joined);
        }
    }

    /// Notes whether a source's place by arrival is certain, once it has one: what arrived together is as far apart as
    /// the stretches that have been read. One that was added while the others ran sends what happens now.
    fn note_place(&mut self, at: usize) {
        let has_place = self.online.is_some_and(|online| online.has_place(at as u16));
        let of =
            |lane: &Lane<'_>| lane.own_ns.map_or(0, |(first_ns, newest_ns)| newest_ns.saturating_sub(first_ns));
        let longest_ns = self.lanes.iter().map(of).max().unwrap_or(0);
        if let Some(lane) = self.lanes.get_mut(at).filter(|lane| has_place && lane.is_placed.is_none()) {
            let read_ns = if lane.is_late { of(lane) } else { longest_ns };
            lane.is_placed = Some(at == 0 || read_ns <= LEAD_NS);
        }
    }

    /// Places the sources that have no certain place, when all have been read to the present: then their newest data
    /// happened at about the same time. What has ended lies before that.
    fn place_at_present(&mut self) {
        let Some(online) = self.online.filter(|_| self.quiet > self.order.len()) else { return };
        let Some((_, present_ns)) = self.lanes.first().and_then(|lane| lane.own_ns) else { return };
        for (lane, node) in self.lanes.iter_mut().zip(0..).filter(|(lane, _)| lane.is_placed == Some(false)) {
            let Some((_, own_ns)) = lane.own_ns.filter(|_| !lane.is_at_present) else { continue };
            online.place(node, own_ns, present_ns);
            lane.is_at_present = true;
            self.asked_ns = i64::MIN;
        }
    }

    /// The instant of the common time line up to which the journeys of all running sources are in the join. `None` for
    /// recordings that do not run, while one has given nothing yet, and while one has no certain place, though it may
    /// have ended: its data may be older than others that were read long ago.
    fn surely_read_ns(&self) -> Option<i64> {
        let online = self.online?;
        let is_placed = |lane: &Lane<'_>, node: u16| {
            lane.own_ns.is_none_or(|(_, ns)| lane.is_placed == Some(true) || online.is_aligned(node, ns))
        };
        let mut margin_ns = 0;
        for (lane, node) in self.lanes.iter().zip(0..) {
            match (is_placed(lane, node), lane.is_at_present) {
                (true, _) => {}
                (false, true) => margin_ns = BEHIND_NS,
                (false, false) => return None,
            }
        }
        let read_ns = |at: usize| {
            let (node, (_, own_ns)) = (at as u16, self.lanes.get(at)?.own_ns?);
            // Later journeys are still held.
            let (_, settled_ns) = online.settled_ns(node)?;
            Some(self.timeline.rough_ns(node, own_ns.min(settled_ns.saturating_sub(AROUND_NS))))
        };
        let mut running = self.order.iter().map(|(_, at)| read_ns(*at));
        let first = running.next()??;
        let least_ns = running.try_fold(first, |least, ns| Some(least.min(ns?)))?;
        Some(least_ns.saturating_sub(margin_ns))
    }

    /// Outputs the held journeys of a node that ended before an instant of its clock, and those beyond the maximum.
    fn release(&mut self, at: usize, until_ns: u64) {
        let node = at as u16;
        while let Some(lane) = self.lanes.get_mut(at)
            && let Some((end_ns, _)) = lane.held.first_key_value().map(|(key, _)| *key)
            && (end_ns < until_ns || lane.held.len() > MAX_HELD)
            && let Some((_, journey)) = lane.held.pop_first()
        {
            match &mut self.joiner {
                Some(joiner) => joiner.push(node, journey, &Names(&self.lanes), &mut self.joined),
                None => self.joined.push(Joined { journey, crossing: None }),
            }
        }
    }

    fn hand_over(&mut self, visit: &mut dyn FnMut(Piece<'_>)) {
        let names = Names(&self.lanes);
        for one in self.joined.drain(..) {
            if let (Some(online), Some(crossing)) = (self.online, &one.crossing) {
                online.crossing(crossing);
            }
            visit(Piece::Journey(&one.journey, one.crossing.as_ref(), &names));
        }
        if let Some(online) = self.online {
            self.take_crossings().iter().for_each(|crossing| online.crossing(crossing));
        }
    }

    /// The crossings of segments without payload since the last call.
    fn take_crossings(&mut self) -> Vec<Crossing> {
        self.joiner.as_mut().map(Joiner::take_crossings).unwrap_or_default()
    }

    /// Ends the sources: halves that still wait are output alone.
    fn finish(&mut self, visit: &mut dyn FnMut(Piece<'_>)) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        (0..self.lanes.len()).for_each(|at| self.release(at, u64::MAX));
        if let Some(joiner) = &mut self.joiner {
            joiner.finish(&mut self.joined);
        }
        self.hand_over(visit);
    }

    /// Results of the walk.
    pub fn walked(&self) -> ReadSummary {
        let counters = self.lanes.iter().map(|lane| *lane.correlator.counters()).collect();
        let joiner = self.joiner.as_ref();
        let join = joiner.map(|joiner| *joiner.counters()).unwrap_or_default();
        ReadSummary { counters, join, pairings: joiner.map(Joiner::pairings).unwrap_or_default() }
    }
}

/// Reads sources to their end, in parallel in the order of `timeline`, and joins their correlators' output. A
/// source may wait at most `patience` for data.
pub fn walk(
    sources: &mut [&mut dyn Source],
    timeline: &dyn Timeline,
    limits: Limits,
    patience: Duration,
    mut visit: impl FnMut(Piece<'_>),
) -> Result<ReadSummary, SourceError> {
    let sources = sources.iter_mut().map(|source| Box::new(&mut **source) as Box<dyn Source + '_>);
    let mut walker = Walker::new(sources.collect(), timeline, limits, patience);
    while walker.step(&mut visit)? == Progress::More {}
    Ok(walker.walked())
}

/// The newest instant in a batch, on its node's event clock.
fn newest(batch: &Batch) -> Option<u64> {
    let event = batch.events.last().map(|event| event.time_ns);
    event.into_iter().chain(batch.clock.last().map(ClockSample::event_ns)).max()
}

/// The oldest instant of a batch by its own clock.
fn oldest(batch: &Batch) -> Option<u64> {
    let event = batch.events.first().map(|event| event.time_ns);
    event.into_iter().chain(batch.clock.first().map(ClockSample::event_ns)).min()
}

/// Moves the times of a batch to those of recording 0. One shift for all of it, so that differences do not
/// change.
fn on_time_line(batch: &mut Batch, node: u16, timeline: &dyn Timeline) {
    // 0 and the maximum are no valid times
    let watermark_ns = Some(batch.watermark_ns).filter(|ns| !matches!(ns, 0 | &u64::MAX));
    // A batch can hold losses without events, or only the kernel's sums.
    let first = batch.events.first().map(|event| event.time_ns).or(watermark_ns);
    let first = first.or(batch.losses.first().map(|loss| loss.to_ns));
    let first = first.or(batch.synthesis.first().map(|sum| sum.to_ns));
    let first = first.or(batch.counts.first().map(|count| count.time_ns));
    let first = first.or(batch.changes.first().map(|change| change.to_ns));
    let Some(first) = first.filter(|_| node > 0) else { return };
    let shift_ns = timeline.rough_ns(node, first).wrapping_sub(first as i64);
    let shift = |ns: &mut u64| *ns = ns.saturating_add_signed(shift_ns);
    if watermark_ns.is_some() {
        shift(&mut batch.watermark_ns);
    }
    batch.events.iter_mut().for_each(|event| shift(&mut event.time_ns));
    batch.tcp.iter_mut().for_each(|sample| shift(&mut sample.time_ns));
    batch.hits.iter_mut().for_each(|hit| shift(&mut hit.time_ns));
    batch.heads.iter_mut().for_each(|head| shift(&mut head.time_ns));
    batch.counts.iter_mut().for_each(|count| shift(&mut count.time_ns));
    for change in &mut batch.changes {
        shift(&mut change.from_ns);
        shift(&mut change.to_ns);
    }
    for sum in &mut batch.synthesis {
        shift(&mut sum.from_ns);
        shift(&mut sum.to_ns);
    }
    for loss in &mut batch.losses {
        shift(&mut loss.from_ns);
        shift(&mut loss.to_ns);
    }
}

/// Reads recordings once for their clock alignment. `rough` orders the parallel read.
pub fn align(
    sources: &mut [&mut dyn Source],
    rough: &dyn Timeline,
    limits: Limits,
    patience: Duration,
) -> Result<Alignment, SourceError> {
    let infos: Vec<NodeInfo> = sources.iter().map(|source| source.info().clone()).collect();
    let mut aligner = Aligner::new(&infos);
    if aligner.is_one_clock() {
        return Ok(aligner.finish());
    }
    let sources = sources.iter_mut().map(|source| Box::new(&mut **source) as Box<dyn Source + '_>);
    let mut walker = Walker { aligns: true, ..Walker::new(sources.collect(), rough, limits, patience) };
    loop {
        let progress = walker.step(&mut |piece| match piece {
            Piece::Batch(node, batch) => batch.clock.iter().for_each(|sample| aligner.clock(node, *sample)),
            Piece::Journey(_, Some(crossing), _) => aligner.crossing(crossing),
            Piece::Journey(..) => {}
        })?;
        walker.take_crossings().iter().for_each(|crossing| aligner.crossing(crossing));
        if progress == Progress::End {
            return Ok(aligner.finish());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::Unaligned;
    use magscope_core::change::{Change, HopCount};
    use magscope_core::hop::Hop;
    use magscope_core::synthesis::{Sum, Synthesis};

    #[test]
    fn a_batch_of_nothing_but_sums_is_moved_to_the_line_too() {
        let sum = Synthesis {
            from_ns: 1_000,
            to_ns: 2_000,
            hop: Hop::DevXmit,
            of: Sum::Begun,
            n: 1,
            sum: 0,
            buckets: Vec::new(),
        };
        let count = HopCount {
            time_ns: 2_000,
            hop: Hop::DevXmit,
            kept: 0,
            filtered: 0,
            undecided: 0,
            sampled: 0,
            synthesised: 1,
        };
        let line = Unaligned { to_utc_ns: vec![0, 500] };
        // A recording without events has no watermark, and the last batch of one has the maximum.
        for watermark_ns in [0, u64::MAX] {
            let change = Change { from_ns: 1_000, to_ns: 1_001, what: "detail histograms".to_owned() };
            let batch = Batch { counts: vec![count], changes: vec![change], watermark_ns, ..Batch::default() };
            for sums in [vec![sum.clone()], Vec::new()] {
                let mut batch = Batch { synthesis: sums, ..batch.clone() };
                on_time_line(&mut batch, 1, &line);
                assert!(batch.synthesis.iter().all(|sum| (sum.from_ns, sum.to_ns) == (1_500, 2_500)));
                assert_eq!((batch.changes[0].from_ns, batch.changes[0].to_ns), (1_500, 1_501));
                assert_eq!((batch.counts[0].time_ns, batch.watermark_ns), (2_500, watermark_ns));
            }
        }
    }
}
