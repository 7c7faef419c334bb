//! Custom probes: their hits come in, are counted, drawn on their lanes and as loadlines, and tied to the journeys whose bytes they saw.

use super::Scope;
use crate::channel::Channel;
use crate::journal::{Entry, NodeHit};
use crate::lane::Place;
use crate::lifeline::Lifeline;
use crate::look::{Column, HitHeat, HitPoint, HitRow, Hits, MOST_POINTS, Pass, PassRow, Payload, Stop};
use crate::names::Seat;
use crate::pick::Pick;
use crate::probes::ProbeId;
use crate::pyramid::{Extent, Lane, Part};
use crate::signals::{Series, columns};
use crate::stats::HopStats;
use crate::ties::{self, Ties, is_tied};
use crate::view::Align;
use crate::window::{BUCKET_NS, BUCKETS};
use magscope_core::context::Context;
use magscope_core::custom::{MOST_VALUES, Mark, ProbeHit, ValueKind};
use magscope_core::{Direction, FlowId};

/// Hits looked through for the value before a picture.
const MOST_BACK: usize = 1 << 12;
/// How long before and after a journey something can be that saw its bytes: as the ties of the model, see [`magscope_core::beside`].
const SLACK_NS: u64 = 1_000_000_000;

impl Scope {
    /// A hit came in.
    pub(super) fn take_hit(&mut self, node: u16, hit: &ProbeHit) {
        let Some(probe) = self.probes.count(node, hit) else { return };
        self.begin_ns = self.begin_ns.or(Some(hit.time_ns));
        // Hits may come a little before the events of their time: it is the batch's watermark that moves the present.
        let hit = NodeHit { node, probe, hit: *hit };
        if !self.is_recorded() {
            self.journal.hit(hit);
            if !self.view.paused {
                self.journal.entry(node, Entry::Hit(probe, hit.hit));
            }
        }
        if self.looks_at_hit(&hit) {
            self.count_hit(&hit);
        }
        self.watch_hit(&hit);
    }

    fn count_hit(&mut self, hit: &NodeHit) {
        self.pyramid.count(Lane::Hits(hit.probe), hit.hit.time_ns, 1);
        let Some(probe) = self.probes.get(hit.probe) else { return };
        for (at, value) in probe.asked.values.iter().enumerate().take(MOST_VALUES) {
            if let Some(number) = hit.hit.value(at).filter(|_| value.kind != ValueKind::Address) {
                self.pyramid.value((hit.probe, at), hit.hit.time_ns, value.kind.number(number));
            }
        }
    }

    /// Counts again what is kept: others are looked at.
    pub(super) fn recount_hits(&mut self) {
        let kept: Vec<NodeHit> = self.journal.hits(0, u64::MAX).copied().collect();
        for hit in kept {
            if self.looks_at_hit(&hit) {
                self.count_hit(&hit);
            }
        }
    }

    /// Holds what a hit read against the trigger's condition.
    fn watch_hit(&mut self, hit: &NodeHit) {
        let Some((channel, (probe, value))) = self.watch.wants().and_then(|c| Some((c, self.probes.value(c)?)))
        else {
            return;
        };
        let number =
            self.probes.get(probe).filter(|_| probe == hit.probe).and_then(|p| p.number(&hit.hit, value));
        if let Some(number) = number {
            let fires = self.watch.value_of(hit.node, channel, hit.hit.time_ns, number);
            self.fires(fires, hit.hit.time_ns, None);
        }
    }

    /// Whether what was chosen lets a hit through, as far as that asks for what the hit knows.
    fn looks_at_hit(&self, hit: &NodeHit) -> bool {
        let Some(probe) = self.probes.get(hit.probe) else { return false };
        let flow = self.names.flow(hit.node, hit.hit.flow);
        let proto = self.view.proto.is_none_or(|proto| hit.hit.flow == FlowId::NONE || hit.hit.proto == proto);
        let route = self.view.route.zip(flow).is_none_or(|(route, flow)| {
            let seat = Some(Seat { node: hit.node, netns: flow.netns });
            match probe.direction() {
                Some(Direction::Tx) => route.from == seat,
                Some(Direction::Rx) => route.to == seat,
                _ => route.from == seat || route.to == seat,
            }
        });
        let picked = |pick: &Pick| match pick {
            Pick::Flow(wanted) => {
                hit.hit.flow == FlowId::NONE || hit.hit.flow == *wanted || {
                    let nodes = 0..self.names.nodes();
                    let wanted = nodes.into_iter().find_map(|node| self.names.flow(node, *wanted));
                    flow.zip(wanted).is_some_and(|(flow, wanted)| {
                        flow.proto == wanted.proto
                            && ((flow.local, flow.remote) == (wanted.local, wanted.remote)
                                || (flow.remote, flow.local) == (wanted.local, wanted.remote))
                    })
                }
            }
            Pick::Process(tgid) => !probe.knows_process() || hit.hit.tgid == *tgid,
            _ => true,
        };
        proto && route && self.view.picks.iter().all(picked)
    }

    /// The hits of a stretch that are looked at, in order of time, if every one of them is at hand and they are at most so many.
    fn hits_at_hand(
        &self,
        (from_ns, to_ns): (u64, u64),
        most: usize,
    ) -> Option<impl Iterator<Item = &NodeHit>> {
        let covered = match &self.recorded {
            None => self.journal.hits_from_ns() <= from_ns,
            Some(recorded) => recorded.filled.as_ref().is_some_and(|filled| {
                let seen = (from_ns.max(recorded.all.from_ns), to_ns.min(recorded.all.to_ns));
                filled.has_hits && filled.window.holds(seen.0, seen.1)
            }),
        };
        let hits = self.journal.hits(from_ns, to_ns);
        (covered && hits.len() <= most).then(|| hits.filter(|hit| self.looks_at_hit(hit)))
    }

    /// Finds which hits saw the bytes of which lifelines of the picture.
    pub(super) fn tie(&mut self) {
        if self.probes.all().is_empty() {
            return;
        }
        let lines = &self.sweep.lifelines;
        let around = |line: &Lifeline| {
            (line.start_ns().saturating_sub(SLACK_NS), line.end_ns().saturating_add(SLACK_NS))
        };
        let ranges = lines.iter().map(around);
        let all = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default();
        let anchor = lines.iter().position(|line| Some(line.key()) == self.sweep.anchor);
        let alone = anchor.and_then(|at| lines.get(at..=at)).unwrap_or_default();
        let only = alone.first().map_or((0, 0), |line| (line.start_ns(), line.end_ns()));
        let few = |(from_ns, to_ns)| self.journal.hits(from_ns, to_ns).len() <= ties::MOST_HITS;
        let (lines, (from_ns, to_ns)) = [(lines.as_slice(), all), (lines, self.stretch())]
            .into_iter()
            .find(|(_, range)| few(*range))
            .unwrap_or((alone, only));
        let hits = self.journal.hits(from_ns, to_ns).take(ties::MOST_HITS);
        self.ties = Ties::find(lines, hits, &self.probes);
    }

    pub(crate) fn hits(&self, n: usize) -> Hits {
        let (n, stretch) = (n.clamp(1, super::pictures::MOST_COLUMNS), self.stretch());
        let mut out = Hits { max_count: 1, ..Hits::default() };
        out.rows = self.probes.all().iter().map(|_| HitRow { cells: vec![0; n], tile_ns: 0 }).collect();
        if self.view.align == Align::Start {
            return out;
        }
        if let Some(hits) = self.hits_at_hand(stretch, MOST_POINTS) {
            let journeys = self.ties.journey_of();
            for hit in hits {
                let x = self.horizon.x(hit.hit.time_ns);
                if let Some(cell) = out
                    .rows
                    .get_mut(hit.probe.index())
                    .and_then(|row| row.cells.get_mut((x.max(0.0) * n as f64) as usize))
                {
                    *cell += 1;
                }
                let journey = journeys.get(&ties::name(hit.node, &hit.hit)).copied();
                out.points.push(HitPoint { probe: hit.probe, node: hit.node, hit: hit.hit, x, journey });
            }
        } else {
            for (probe, row) in self.probes.all().iter().zip(&mut out.rows) {
                row.tile_ns = self.pyramid.columns(Lane::Hits(probe.id), stretch, n, |first, last, tile| {
                    row.cells.iter_mut().take(last + 1).skip(first).for_each(|cell| *cell += tile.count);
                });
            }
        }
        let most = out.rows.iter().flat_map(|row| &row.cells).max();
        out.max_count = most.copied().unwrap_or(1).max(1);
        out
    }

    /// How often each custom probe was passed over the picture.
    pub(crate) fn hit_heats(&self, n: usize) -> Vec<HitHeat<'_>> {
        let rows = self.hits(n).rows;
        let (from_ns, to_ns) = self.stretch();
        let heat = |(probe, row): (&'_ crate::Probe, HitRow)| {
            let exact = row.tile_ns == 0;
            let counted = || self.pyramid.total(Lane::Hits(probe.id), from_ns, to_ns).count;
            let hits = if exact { row.cells.iter().sum() } else { counted() };
            (probe.id, HitRow { cells: row.cells, ..row }, hits)
        };
        let rows: Vec<_> = self.probes.all().iter().zip(rows).map(heat).collect();
        rows.into_iter()
            .filter_map(|(id, row, hits)| Some(HitHeat { probe: self.probes.get(id)?, cells: row.cells, hits }))
            .collect()
    }

    /// The rate of a custom probe over the window.
    pub(super) fn stats_of_probe(&self, probe: ProbeId) -> Option<HopStats> {
        let window_ns = BUCKET_NS * BUCKETS as u64;
        let (from_ns, to_ns) = match &self.recorded {
            None => {
                let to_ns = self.now_ns / BUCKET_NS * BUCKET_NS;
                (to_ns.saturating_sub(window_ns).max(self.begin_ns?), to_ns)
            }
            Some(recorded) => {
                let to_ns = self.playhead.head_ns.max(self.horizon.end_ns()).min(recorded.all.to_ns);
                let from_ns = to_ns.saturating_sub(window_ns).max(recorded.all.from_ns);
                (from_ns, to_ns.min(recorded.read_ns))
            }
        };
        let s = to_ns.checked_sub(from_ns).filter(|ns| *ns > 0)? as f64 / 1e9;
        let hits = self.pyramid.total(Lane::Hits(probe), from_ns, to_ns).count;
        Some(HopStats { events_per_s: hits as f64 / s, ..HopStats::default() })
    }

    /// What a custom probe read over the picture: hit by hit where they are at hand, else the mean of each tile.
    pub(super) fn value_series(&self, (probe, value): (ProbeId, usize), n: usize) -> Series {
        let stretch = self.stretch();
        let before = self.value_before((probe, value), n).map(|number| (stretch.0.saturating_sub(1), number));
        let mut series: Series = before.into_iter().collect();
        if let Some(numbers) = self.numbers((probe, value), stretch) {
            series.extend(numbers);
            return series;
        }
        let mut means: Vec<Extent> = vec![Extent::default(); n];
        self.pyramid.extents((probe, value), stretch, n, |first, _, extent| {
            if let Some(place) = means.get_mut(first) {
                place.merge(extent);
            }
        });
        let of = |extent: &Extent| (extent.last.0, extent.mean());
        series.extend(means.iter().filter(|extent| extent.count > 0).map(of));
        series
    }

    /// A value hit by hit, if all hits are at hand.
    fn numbers(
        &self,
        (probe, value): (ProbeId, usize),
        stretch: (u64, u64),
    ) -> Option<impl Iterator<Item = (u64, f64)>> {
        let of = self.probes.get(probe)?;
        let hits = self.hits_at_hand(stretch, MOST_POINTS)?.filter(move |hit| hit.probe == probe);
        Some(hits.filter_map(move |hit| Some((hit.hit.time_ns, of.number(&hit.hit, value)?))))
    }

    /// All of a value over a stretch: exact where its hits are at hand, else to within tiles.
    pub(super) fn value_extent(&self, value: (ProbeId, usize), from_ns: u64, end_ns: u64) -> Extent {
        let Some(numbers) = self.numbers(value, (from_ns, end_ns.saturating_sub(1))) else {
            return self.pyramid.extent(value, from_ns, end_ns);
        };
        let mut all = Extent::default();
        numbers.for_each(|(at_ns, number)| all.merge(&Extent::of(at_ns, number)));
        all
    }

    /// All custom probes.
    pub(crate) fn probes(&self) -> &[crate::Probe] {
        self.probes.all()
    }

    /// The last value before the picture.
    fn value_before(&self, (probe, value): (ProbeId, usize), n: usize) -> Option<f64> {
        let (from_ns, to_ns) = self.stretch();
        let of = self.probes.get(probe)?;
        let back = self.journal.hits(0, from_ns.saturating_sub(1)).rev().take(MOST_BACK);
        let kept = back
            .filter(|hit| hit.probe == probe && self.looks_at_hit(hit))
            .find_map(|hit| of.number(&hit.hit, value));
        kept.filter(|_| !self.is_recorded())
            .or_else(|| self.pyramid.value_before((probe, value), (from_ns, to_ns), n))
    }

    /// A value over the picture with its least, largest and last in each column. It holds until the next one, up to the last.
    pub(super) fn value_columns(&self, (probe, value): (ProbeId, usize), n: usize) -> Vec<Option<Column>> {
        let stretch = self.stretch();
        if self.hits_at_hand(stretch, MOST_POINTS).is_some() {
            return columns(&self.value_series((probe, value), n), stretch, n);
        }
        let mut extents: Vec<Extent> = vec![Extent::default(); n];
        self.pyramid.extents((probe, value), stretch, n, |first, last, extent| {
            extents.iter_mut().take(last + 1).skip(first).for_each(|place| place.merge(extent));
        });
        let end = extents.iter().rposition(|extent| extent.count > 0);
        let mut held = self.value_before((probe, value), n).filter(|_| end.is_some());
        let column = |(at, extent): (usize, &Extent)| {
            if extent.count > 0 {
                held = Some(extent.last.1);
                return Some(Column { min: extent.min, max: extent.max, last: extent.last.1 });
            }
            held.filter(|_| end.is_some_and(|end| at < end)).map(|v| Column { min: v, max: v, last: v })
        };
        extents.iter().enumerate().map(column).collect()
    }

    /// Whether there are these signals; says which is not.
    pub(super) fn knows(&mut self, channels: &[Channel]) -> bool {
        let unknown = channels.iter().find(|channel| self.unknown(**channel)).copied();
        if let Some(unknown) = unknown {
            let words = self.unknown_words(unknown);
            self.tell(words, true);
        }
        unknown.is_none()
    }

    /// Whether a channel is a value of a probe that no recording has.
    pub(super) fn unknown(&self, channel: Channel) -> bool {
        matches!(channel, Channel::Value(_)) && self.probes.value(channel).is_none()
    }

    pub(super) fn unknown_words(&self, channel: Channel) -> String {
        let there: Vec<String> = self.probes.channels().map(|channel| channel.to_string()).collect();
        if there.is_empty() {
            format!("no signal is called `{channel}`, and no custom probe reads a value (`--probe`)")
        } else {
            format!("no signal is called `{channel}`; custom probes read {}", there.join(", "))
        }
    }

    /// The places that a lifeline passes, in path order, with those of custom probes that saw its bytes.
    pub(crate) fn stops(&self, line: &Lifeline) -> Vec<Stop> {
        let mark = |rung: magscope_core::journey::Rung| {
            let at = (rung.hop.path_index().unwrap_or(0), 0);
            (at, Stop { place: Place::Hop(rung.hop), time_ns: rung.time_ns })
        };
        let mut stops: Vec<_> = line.marks().map(mark).collect();
        for pass in self.ties.of(line.key()) {
            let place = Place::Probe(pass.probe);
            let after = self.probes.get(pass.probe).and_then(|probe| probe.asked.after?.path_index());
            let Some(after) = after.filter(|_| stops.iter().all(|(_, stop)| stop.place != place)) else {
                continue;
            };
            stops.push(((after, 1 + pass.probe.index()), Stop { place, time_ns: pass.hit.time_ns }));
        }
        stops.sort_by_key(|(at, _)| *at);
        stops.into_iter().map(|(_, stop)| stop).collect()
    }

    /// The hits that saw the bytes of a journey, in order of time.
    pub(super) fn passes(&self, line: &Lifeline) -> Vec<PassRow<'_>> {
        let known = self.ties.of(line.key()).to_vec();
        let passes = if known.is_empty() { self.look_for_passes(line) } else { known };
        let row = |pass: Pass| {
            let probe = self.probes.get(pass.probe)?;
            let since = i128::from(pass.hit.time_ns) - i128::from(line.start_ns());
            let since_start_ns = i64::try_from(since).unwrap_or(i64::MAX);
            Some(PassRow { probe, hit: pass.hit, since_start_ns, told: probe.asked.told(&pass.hit) })
        };
        passes.into_iter().filter_map(row).collect()
    }

    /// Those of a journey that is not on the picture.
    fn look_for_passes(&self, line: &Lifeline) -> Vec<Pass> {
        let (from_ns, to_ns) =
            (line.start_ns().saturating_sub(SLACK_NS), line.end_ns().saturating_add(SLACK_NS));
        let tied = |hit: &&NodeHit| {
            let probe = self.probes.get(hit.probe).filter(|probe| probe.asked.mark == Mark::Hop);
            probe.is_some_and(|probe| is_tied(hit, probe.direction(), &line.journey))
        };
        let hits = self.journal.hits(from_ns, to_ns).filter(tied);
        hits.map(|hit| Pass { probe: hit.probe, node: hit.node, hit: hit.hit }).collect()
    }

    /// What there is of a journey's payload.
    pub(super) fn payload(&self, line: &Lifeline) -> Payload<'_> {
        let settings = self.names.infos().iter().flat_map(|info| &info.settings);
        let asked: Vec<&str> =
            settings.filter(|words| words.starts_with("snap ")).map(String::as_str).collect();
        let of =
            |(node, head): &&(u16, magscope_core::head::PayloadHead)| head.tie(*node, &line.journey).is_some();
        let heads: Vec<_> = self.journal.heads().filter(of).map(|(_, head)| head).collect();
        if !heads.is_empty() {
            return Payload::Heads(heads);
        }
        if asked.is_empty() {
            return Payload::NotAsked;
        }
        let inside = |filled: &crate::recorded::Filled| {
            filled.has_heads && filled.window.holds(line.start_ns(), line.end_ns())
        };
        let at_hand = match &self.recorded {
            None => self.journal.heads_from_ns() <= line.start_ns(),
            Some(recorded) => recorded.filled.as_ref().is_some_and(inside),
        };
        let asked = asked.join(", ");
        Payload::Elsewhere(if at_hand {
            format!("none of this journey was taken ({asked})")
        } else if self.is_recorded() {
            format!("not read here ({asked}): `magnet-scope journeys` prints it")
        } else {
            format!("not kept any more ({asked}): `record` keeps it, `magnet-scope journeys` prints it")
        })
    }
}
