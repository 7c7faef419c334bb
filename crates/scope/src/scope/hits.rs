//! Hits of custom probes: input, counts, and drawing on their lanes.

use super::Scope;
use crate::controls::Align;
use crate::journal::{Entry, NodeHit};
use crate::look::{HitHeat, HitPoint, HitRow, Hits, MOST_POINTS};
use crate::names::NetnsKey;
use crate::pick::Pick;
use crate::probe_matches;
use crate::probes::ProbeId;
use crate::pyramid::Lane;
use crate::recorded::Recorded;
use crate::stats::HopStats;
use crate::window::{BUCKET_NS, BUCKETS};
use magscope_core::context::Context;
use magscope_core::custom::ProbeHit;
use magscope_core::{Direction, FlowId};

impl Scope {
    /// Processes a hit.
    pub(super) fn take_hit(&mut self, node: u16, hit: &ProbeHit) {
        let Some(probe) = self.probes.count(node, hit) else { return };
        self.begin_ns = self.begin_ns.or(Some(hit.time_ns));
        // Hits may precede the events of their time: only the batch's watermark advances the present.
        let hit = NodeHit { node, probe, hit: *hit };
        if !self.is_recorded() {
            self.journal.hit(hit);
            if !self.controls.paused {
                self.journal.entry(node, Entry::Hit(probe, hit.hit));
            }
        }
        let accepted = self.looks_at_hit(&hit);
        let Some(probe) = self.probes.get(hit.probe) else { return };
        if accepted {
            self.counts.hit(&hit, probe);
        }
        if let Some(unfiltered) = &mut self.unfiltered {
            unfiltered.counts.hit(&hit, probe);
        }
        self.watch_hit(&hit);
    }

    /// Holds a hit, and what it read, against the trigger's condition.
    fn watch_hit(&mut self, hit: &NodeHit) {
        let at_ns = hit.hit.time_ns;
        let fires = self.probes.get(hit.probe).is_some_and(|probe| self.watch.hit_of(&probe.name, at_ns));
        self.fires(fires, at_ns, None);
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

    /// True if the filters accept a hit, as far as they test properties of a hit.
    pub(super) fn looks_at_hit(&self, hit: &NodeHit) -> bool {
        let Some(probe) = self.probes.get(hit.probe) else { return false };
        let flow = self.names.flow(hit.node, hit.hit.flow);
        let proto =
            self.controls.proto.is_none_or(|proto| hit.hit.flow == FlowId::NONE || hit.hit.proto == proto);
        let route = self.controls.route.zip(flow).is_none_or(|(route, flow)| {
            let netns_key = Some(NetnsKey { node: hit.node, netns: flow.netns });
            match probe.direction() {
                Some(Direction::Tx) => route.from == netns_key,
                Some(Direction::Rx) => route.to == netns_key,
                _ => route.from == netns_key || route.to == netns_key,
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
            Pick::Cpu(cpu) => hit.hit.cpu == *cpu,
            _ => true,
        };
        proto && route && self.controls.picks.iter().all(picked)
    }

    /// The accepted hits of a stretch in order of time, if all are in memory and their number is within the
    /// limit.
    pub(super) fn hits_at_hand(
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

    pub(crate) fn hits(&self, n: usize) -> Hits {
        let (n, stretch) = (n.clamp(1, super::pictures::MOST_COLUMNS), self.stretch());
        let mut out = Hits { max_count: 1, ..Hits::default() };
        out.rows = self.probes.all().iter().map(|_| HitRow { cells: vec![0; n], tile_ns: 0 }).collect();
        if self.controls.align == Align::Start {
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
                let journey = journeys.get(&probe_matches::name(hit.node, &hit.hit)).copied();
                out.points.push(HitPoint { probe: hit.probe, node: hit.node, hit: hit.hit, x, journey });
            }
        } else {
            for (probe, row) in self.probes.all().iter().zip(&mut out.rows) {
                row.tile_ns =
                    self.counts.pyramid.columns(Lane::Hits(probe.id), stretch, n, |first, last, tile| {
                        row.cells.iter_mut().take(last + 1).skip(first).for_each(|cell| *cell += tile.count);
                    });
            }
        }
        let most = out.rows.iter().flat_map(|row| &row.cells).max();
        out.max_count = most.copied().unwrap_or(1).max(1);
        out
    }

    /// Counts of each custom probe over the picture.
    pub(crate) fn hit_heats(&self, n: usize) -> Vec<HitHeat<'_>> {
        let rows = self.hits(n).rows;
        let (from_ns, to_ns) = self.stretch();
        let heat = |(probe, row): (&'_ crate::Probe, HitRow)| {
            let exact = row.tile_ns == 0;
            let counted = || self.counts.pyramid.total(Lane::Hits(probe.id), from_ns, to_ns).count;
            let hits = if exact { row.cells.iter().sum() } else { counted() };
            (probe.id, HitRow { cells: row.cells, ..row }, hits)
        };
        let rows: Vec<_> = self.probes.all().iter().zip(rows).map(heat).collect();
        rows.into_iter()
            .filter_map(|(id, row, hits)| Some(HitHeat { probe: self.probes.get(id)?, cells: row.cells, hits }))
            .collect()
    }

    /// The window of the numbers next to the lanes, as far as it was observed. `None` before there is a whole bucket of it: a
    /// rate over less is that of a burst. A recording that is shorter than a bucket has rates over all of it.
    pub(super) fn lately(&self) -> Option<(u64, u64)> {
        let window_ns = BUCKET_NS * BUCKETS as u64;
        let (from_ns, to_ns) = match &self.recorded {
            None => {
                let edge_ns = |ns: u64| ns / BUCKET_NS * BUCKET_NS;
                let to_ns = edge_ns(self.now_ns);
                // The first bucket counts as a whole one, as in the windows of all traffic.
                let begin_ns = edge_ns(self.begin_ns?);
                (to_ns.saturating_sub(window_ns).max(begin_ns).max(self.chosen_from_ns()), to_ns)
            }
            Some(recorded) => {
                let (from_ns, wanted_ns) = self.figures_of(recorded);
                let to_ns = wanted_ns.min(recorded.counted_to_ns());
                if to_ns == wanted_ns {
                    return (from_ns < to_ns).then_some((from_ns, to_ns));
                }
                (from_ns, to_ns)
            }
        };
        (to_ns.saturating_sub(from_ns) >= BUCKET_NS).then_some((from_ns, to_ns))
    }

    /// The stretch of a recording that the numbers next to the lanes are of: five seconds before the end of the picture,
    /// or before the playhead that moves in it; of a wider picture all of it. Recorded time without events counts, as in all
    /// other rates. At the beginning of the recording they are of its first bucket, or of all of it if it is shorter: a rate
    /// over less would be that of a burst.
    pub(super) fn figures_of(&self, recorded: &Recorded) -> (u64, u64) {
        let (begin_ns, end_ns) = (self.horizon.begin_ns(), self.horizon.end_ns());
        let head_ns = self.playhead.head_ns;
        let is_played = !self.controls.paused && (begin_ns..=end_ns).contains(&head_ns);
        let to_ns = if is_played { head_ns } else { end_ns };
        let observed = recorded.observed;
        let to_ns = to_ns.min(observed.to_ns);
        let from_ns = to_ns.saturating_sub(BUCKET_NS * BUCKETS as u64).min(begin_ns);
        let from_ns = from_ns.max(observed.from_ns);
        if from_ns >= to_ns {
            return (from_ns, to_ns); // before the recording
        }
        (from_ns, to_ns.max(from_ns.saturating_add(BUCKET_NS)).min(observed.to_ns))
    }

    /// The rate of a custom probe over the window.
    pub(super) fn stats_of_probe(&self, probe: ProbeId) -> Option<HopStats> {
        let (from_ns, to_ns) = self.lately()?;
        let s = (to_ns - from_ns) as f64 / 1e9;
        let hits = self.counts.pyramid.total(Lane::Hits(probe), from_ns, to_ns).count;
        Some(HopStats { events_per_s: hits as f64 / s, ..HopStats::default() })
    }

    /// All custom probes.
    pub(crate) fn probes(&self) -> &[crate::Probe] {
        self.probes.all()
    }
}
