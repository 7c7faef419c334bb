//! Several recordings read side by side, their journeys joined: what one recording is to a correlator, a set of them is to this.

use crate::align::{Aligner, Alignment};
use crate::batch::Batch;
use crate::context::Context;
use crate::flow::{Flow, FlowId, Task};
use crate::join::{Crossing, JoinCounters, JoinLimits, Joined, Joiner, Pairing, Timeline};
use crate::journey::{Correlator, Counters, Journey, Limits};
use crate::node::{NodeInfo, tell_apart};
use crate::source::{Progress, Source, SourceError};
use std::time::Duration;

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
    ended: bool,
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
    timeline: &'s dyn Timeline,
    /// Halves of one recording can meet only where there is more than one namespace, behind a translator.
    joiner: Option<Joiner<'s>>,
    patience: Duration,
    batch: Batch,
    done: Vec<Journey>,
    joined: Vec<Joined>,
    finished: bool,
}

impl<'s> Walker<'s> {
    /// Reads these sources in the order of `timeline`. A source may wait at most `patience` for something to come.
    pub fn new(
        sources: Vec<Box<dyn Source + 's>>,
        timeline: &'s dyn Timeline,
        limits: Limits,
        patience: Duration,
    ) -> Self {
        let mut infos: Vec<NodeInfo> = sources.iter().map(|source| source.info().clone()).collect();
        tell_apart(&mut infos);
        let lanes = sources.into_iter().zip(infos).map(|(source, info)| {
            let correlator = Correlator::of_node(&info, limits);
            Lane { source, correlator, info, at_ns: i64::MIN, ended: false }
        });
        let lanes: Vec<Lane<'_>> = lanes.collect();
        let joins = lanes.len() > 1 || lanes.iter().any(|lane| lane.info.netns.len() > 1);
        let limits = JoinLimits { max_waiting: limits.max_pieces, ..JoinLimits::default() };
        Walker {
            lanes,
            timeline,
            joiner: joins.then(|| Joiner::new(timeline, limits)),
            patience,
            batch: Batch::default(),
            done: Vec::new(),
            joined: Vec::new(),
            finished: false,
        }
    }

    /// Reads the next batch of one of them and visits what comes of it. After [`Progress::End`] nothing more comes.
    pub fn step(&mut self, visit: &mut dyn FnMut(Piece<'_>)) -> Result<Progress, SourceError> {
        let behind = (0..self.lanes.len()).filter(|at| !self.lanes[*at].ended);
        let Some(at) = behind.min_by_key(|at| self.lanes[*at].at_ns) else {
            self.finish(visit);
            return Ok(Progress::End);
        };
        let node = at as u16;
        let newest_ns = self.lanes.iter().map(|lane| lane.at_ns).max().unwrap_or(i64::MIN);
        let lane = &mut self.lanes[at];
        if lane.source.next(&mut self.batch, self.patience)? == Progress::End {
            lane.ended = true;
            lane.correlator.finish(&mut self.done);
        } else {
            // Where nothing comes, as from a quiet host, the others go on.
            let last = self.batch.events.last();
            lane.at_ns =
                last.map_or(newest_ns.saturating_add(1), |last| self.timeline.rough_ns(node, last.time_ns));
            lane.correlator.push(&self.batch, &mut self.done);
            on_time_line(&mut self.batch, node, self.timeline);
            visit(Piece::Batch(node, &self.batch));
        }
        let names = Names(&self.lanes);
        for journey in self.done.drain(..) {
            match &mut self.joiner {
                Some(joiner) => joiner.push(node, journey, &names, &mut self.joined),
                None => visit(Piece::Journey(&journey, None, &names)),
            }
        }
        for one in self.joined.drain(..) {
            visit(Piece::Journey(&one.journey, one.crossing.as_ref(), &names));
        }
        Ok(Progress::More)
    }

    /// The sources have ended: what still waits for its other half goes on alone.
    fn finish(&mut self, visit: &mut dyn FnMut(Piece<'_>)) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        if let Some(joiner) = &mut self.joiner {
            joiner.finish(&mut self.joined);
        }
        let names = Names(&self.lanes);
        for one in self.joined.drain(..) {
            visit(Piece::Journey(&one.journey, one.crossing.as_ref(), &names));
        }
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

/// Moves the times of a batch to those of recording 0. One step for all of it, so that differences stay what they are.
fn on_time_line(batch: &mut Batch, node: u16, timeline: &dyn Timeline) {
    if node == 0 {
        return;
    }
    // A batch can be without events and tell of losses all the same.
    let first = batch.events.first().map_or(batch.watermark_ns, |event| event.time_ns);
    let shift_ns = timeline.rough_ns(node, first).wrapping_sub(first as i64);
    let shift = |ns: &mut u64| *ns = ns.saturating_add_signed(shift_ns);
    batch.events.iter_mut().for_each(|event| shift(&mut event.time_ns));
    batch.tcp.iter_mut().for_each(|sample| shift(&mut sample.time_ns));
    batch.hits.iter_mut().for_each(|hit| shift(&mut hit.time_ns));
    batch.heads.iter_mut().for_each(|head| shift(&mut head.time_ns));
    batch.counts.iter_mut().for_each(|count| shift(&mut count.time_ns));
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
