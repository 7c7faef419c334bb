//! Several recordings read side by side, their journeys joined: what one recording is to a correlator, a set of them is to this.

use crate::align::{Aligner, Alignment, Online};
use crate::batch::Batch;
use crate::clock::ClockSample;
use crate::context::Context;
use crate::flow::{Flow, FlowId, Task};
use crate::join::{Crossing, JoinCounters, JoinLimits, Joined, Joiner, Pairing, Timeline};
use crate::journey::{Correlator, Counters, Journey, Limits};
use crate::node::{NodeInfo, tell_apart, tell_apart_from};
use crate::source::{Progress, Source, SourceError};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Journeys of a node that wait for its clocks, at most; then the oldest go on without.
const MAX_HELD: usize = 1 << 16;
/// The clocks have to be known so long after a journey's end, nanoseconds: where it stands on the other clock is not known to the
/// nanosecond.
const AROUND_NS: u64 = 20_000_000;

/// What comes out, piece by piece.
pub enum Piece<'a> {
    /// Events of a recording, before their journeys. Their times, and those of losses and TCP states, are on the time line of
    /// recording 0, as nearly as that is known.
    Batch(u16, &'a Batch),
    /// A journey that ended, what its halves say about the clocks, and what knows its flows and processes.
    Journey(&'a Journey, Option<&'a Crossing>, &'a dyn Context),
}

/// What was found on the way.
#[derive(Clone, Debug, Default)]
pub struct Walked {
    /// What the correlator of each recording could and could not make use of.
    pub counters: Vec<Counters>,
    /// What the join did.
    pub join: JoinCounters,
    /// What became of each direction of each connection of which only halves were seen by the correlators.
    pub pairings: Vec<Pairing>,
}

/// One recording on its way.
struct Lane<'s> {
    source: Box<dyn Source + 's>,
    info: NodeInfo,
    correlator: Correlator,
    /// Rough common time of what was read, nanoseconds.
    at_ns: i64,
    /// Journeys that ended and wait until the clocks are known around them.
    held: VecDeque<Journey>,
}

impl<'s> Lane<'s> {
    fn new(source: Box<dyn Source + 's>, info: NodeInfo, limits: Limits) -> Self {
        let correlator = Correlator::of_node(&info, limits);
        Lane { source, correlator, info, at_ns: i64::MIN, held: VecDeque::new() }
    }
}

fn joiner(timeline: &dyn Timeline, limits: Limits) -> Joiner<'_> {
    Joiner::new(timeline, JoinLimits { max_waiting: limits.max_pieces, ..JoinLimits::default() })
}

/// What the lanes know.
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

/// Reads recordings side by side, a batch at a time: whoever is behind goes on, so that halves wait as shortly as can be.
pub struct Walker<'s> {
    lanes: Vec<Lane<'s>>,
    /// Those that have not ended, by how far they are: a step must not cost more where there are many.
    order: BTreeSet<(i64, usize)>,
    timeline: &'s dyn Timeline,
    /// Learns the clocks on the way.
    online: Option<&'s Online>,
    /// Halves of one recording can meet only where there is more than one namespace, behind a translator.
    joiner: Option<Joiner<'s>>,
    limits: Limits,
    patience: Duration,
    /// Steps since anything came.
    quiet: usize,
    batch: Batch,
    done: Vec<Journey>,
    joined: Vec<Joined>,
    finished: bool,
}

impl<'s> Walker<'s> {
    /// Reads these sources in the order of `timeline`. Where none of them has anything, each may wait at most `patience` for
    /// something to come.
    pub fn new(
        sources: Vec<Box<dyn Source + 's>>,
        timeline: &'s dyn Timeline,
        limits: Limits,
        patience: Duration,
    ) -> Self {
        let mut infos: Vec<NodeInfo> = sources.iter().map(|source| source.info().clone()).collect();
        tell_apart(&mut infos);
        let lanes = sources.into_iter().zip(infos).map(|(source, info)| Lane::new(source, info, limits));
        let lanes: Vec<Lane<'_>> = lanes.collect();
        let joins = lanes.len() > 1 || lanes.iter().any(|lane| lane.info.netns.len() > 1);
        Walker {
            order: (0..lanes.len()).map(|at| (i64::MIN, at)).collect(),
            lanes,
            timeline,
            online: None,
            joiner: joins.then(|| joiner(timeline, limits)),
            limits,
            patience,
            quiet: 0,
            batch: Batch::default(),
            done: Vec::new(),
            joined: Vec::new(),
            finished: false,
        }
    }

    /// Reads sources that run yet, and learns on the way how their clocks stand to each other. A journey waits to be joined until clock
    /// samples have come after it, some tenths of a second; before anything bounds two clocks, what crosses between them has no latency.
    pub fn live(
        sources: Vec<Box<dyn Source + 's>>,
        online: &'s Online,
        limits: Limits,
        patience: Duration,
    ) -> Self {
        Walker { online: Some(online), ..Walker::new(sources, online, limits, patience) }
    }

    /// Reads one more from now on, of those that run yet; what it is, with a name of its own. Its times are placed by when they come
    /// until packets tell better.
    pub fn join(&mut self, source: Box<dyn Source + 's>) -> NodeInfo {
        let infos: Vec<NodeInfo> = self.lanes.iter().map(|lane| lane.info.clone()).collect();
        let mut info = source.info().clone();
        tell_apart_from(&infos, &mut info);
        if let Some(online) = self.online {
            online.join(&info);
        }
        // What ended here before has nobody left to meet, and what comes has.
        self.joiner.get_or_insert_with(|| joiner(self.timeline, self.limits));
        self.order.insert((i64::MIN, self.lanes.len()));
        self.lanes.push(Lane::new(source, info.clone(), self.limits));
        self.finished = false;
        info
    }

    /// Reads the next batch of one of them and visits what comes of it. After [`Progress::End`] nothing more comes, unless one more
    /// [joins](Walker::join).
    pub fn step(&mut self, visit: &mut dyn FnMut(Piece<'_>)) -> Result<Progress, SourceError> {
        let newest_ns = self.order.last().map_or(i64::MIN, |(ns, _)| *ns);
        let Some((_, at)) = self.order.pop_first() else {
            self.finish(visit);
            return Ok(Progress::End);
        };
        let node = at as u16;
        let lane = &mut self.lanes[at];
        // Quiet hosts are waited for when all of them are: else each would keep the others waiting in turn.
        let patience = if self.quiet > self.order.len() { self.patience } else { Duration::ZERO };
        // the last batch's was another source's
        self.batch.watermark_ns = 0;
        if lane.source.next(&mut self.batch, patience)? == Progress::End {
            lane.correlator.finish(&mut self.done);
            if let Some(online) = self.online {
                online.ended(node);
            }
        } else {
            // Where nothing comes, as from a quiet host, the others go on.
            let newest = newest(&self.batch);
            self.quiet = if newest.is_some() { 0 } else { self.quiet.saturating_add(1) };
            if let (Some(online), Some(own_ns)) = (self.online, newest) {
                online.arrived(node, own_ns);
            }
            let first = at == 0 && lane.at_ns == i64::MIN;
            lane.at_ns = match newest {
                Some(own_ns) => self.timeline.rough_ns(node, own_ns),
                // The others are placed by what has come of the first.
                None if first && self.online.is_some() => i64::MIN,
                None => newest_ns.saturating_add(1),
            };
            self.order.insert((lane.at_ns, at));
            lane.correlator.push(&self.batch, &mut self.done);
            if let Some(online) = self.online {
                self.batch.clock.iter().for_each(|sample| online.clock(node, *sample));
            }
            on_time_line(&mut self.batch, node, self.timeline);
            visit(Piece::Batch(node, &self.batch));
        }
        if let Some(online) = self.online {
            self.lanes[at].held.extend(self.done.drain(..));
            self.release(at, |node, journey, held| {
                let settled = online.settled_ns(node).map(|(_, to)| to);
                held > MAX_HELD
                    || journey.end_ns().is_none_or(|end| settled > Some(end.saturating_add(AROUND_NS)))
            });
        }
        let names = Names(&self.lanes);
        for journey in self.done.drain(..) {
            match &mut self.joiner {
                Some(joiner) => joiner.push(node, journey, &names, &mut self.joined),
                None => visit(Piece::Journey(&journey, None, &names)),
            }
        }
        self.hand_over(visit);
        Ok(Progress::More)
    }

    /// Lets held journeys of a node go, the first first, as long as they may: by node, journey, and how many are held.
    fn release(&mut self, at: usize, may: impl Fn(u16, &Journey, usize) -> bool) {
        let node = at as u16;
        while let Some(lane) = self.lanes.get_mut(at)
            && lane.held.front().is_some_and(|journey| may(node, journey, lane.held.len()))
            && let Some(journey) = lane.held.pop_front()
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
    }

    /// The sources have ended: what still waits for its other half goes on alone.
    fn finish(&mut self, visit: &mut dyn FnMut(Piece<'_>)) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        (0..self.lanes.len()).for_each(|at| self.release(at, |_, _, _| true));
        if let Some(joiner) = &mut self.joiner {
            joiner.finish(&mut self.joined);
        }
        self.hand_over(visit);
    }

    /// What was found on the way.
    pub fn walked(&self) -> Walked {
        let counters = self.lanes.iter().map(|lane| *lane.correlator.counters()).collect();
        let joiner = self.joiner.as_ref();
        let join = joiner.map(|joiner| *joiner.counters()).unwrap_or_default();
        Walked { counters, join, pairings: joiner.map(Joiner::pairings).unwrap_or_default() }
    }
}

/// Reads sources to their end, side by side in the order of `timeline`, and joins what their correlators give. A source may wait
/// at most `patience` for something to come.
pub fn walk(
    sources: &mut [&mut dyn Source],
    timeline: &dyn Timeline,
    limits: Limits,
    patience: Duration,
    mut visit: impl FnMut(Piece<'_>),
) -> Result<Walked, SourceError> {
    let sources = sources.iter_mut().map(|source| Box::new(&mut **source) as Box<dyn Source + '_>);
    let mut walker = Walker::new(sources.collect(), timeline, limits, patience);
    while walker.step(&mut visit)? == Progress::More {}
    Ok(walker.walked())
}

/// The newest instant that a batch tells of, on its node's event clock.
fn newest(batch: &Batch) -> Option<u64> {
    let event = batch.events.last().map(|event| event.time_ns);
    event.or(batch.clock.last().map(ClockSample::event_ns))
}

/// Moves the times of a batch to those of recording 0. One step for all of it, so that differences stay what they are.
fn on_time_line(batch: &mut Batch, node: u16, timeline: &dyn Timeline) {
    // 0 and the last of all are no time
    let watermark_ns = Some(batch.watermark_ns).filter(|ns| !matches!(ns, 0 | &u64::MAX));
    // A batch can be without events and tell of losses all the same.
    let first = batch.events.first().map(|event| event.time_ns).or(watermark_ns);
    let first = first.or(batch.losses.first().map(|loss| loss.to_ns));
    let first = first.or(batch.synthesis.first().map(|sum| sum.to_ns));
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
    for sum in &mut batch.synthesis {
        shift(&mut sum.from_ns);
        shift(&mut sum.to_ns);
    }
    for loss in &mut batch.losses {
        shift(&mut loss.from_ns);
        shift(&mut loss.to_ns);
    }
}

/// Reads recordings once for what they say about each other's clocks. `rough` is used to read them side by side.
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
    walk(sources, rough, limits, patience, |piece| match piece {
        Piece::Batch(node, batch) => batch.clock.iter().for_each(|sample| aligner.clock(node, *sample)),
        Piece::Journey(_, Some(crossing), _) => aligner.crossing(crossing),
        Piece::Journey(..) => {}
    })?;
    Ok(aligner.finish())
}
