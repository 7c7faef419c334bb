//! Journeys and custom probes: the match between hits and bytes, and the payload.

use super::Scope;
use crate::journal::NodeHit;
use crate::lane::Place;
use crate::lifeline::Lifeline;
use crate::look::{Pass, PassReading, PassRow, Payload, Stop};
use crate::measure::{percentiles, rate};
use crate::probe_matches::{self, ProbeMatches, is_tied};
use crate::probes::ProbeId;
use magscope_core::Hop;
use magscope_core::custom::Mark;
use std::collections::BTreeMap;

/// Maximum time between a journey and a hit that saw its bytes, before or after: as in the model, see
/// [`magscope_core::annotations`].
const SLACK_NS: u64 = 1_000_000_000;

impl Scope {
    /// Matches hits to the bytes of the picture's lifelines.
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
        let few = |(from_ns, to_ns)| self.journal.hits(from_ns, to_ns).len() <= probe_matches::MOST_HITS;
        let (lines, (from_ns, to_ns)) = [(lines.as_slice(), all), (lines, self.stretch())]
            .into_iter()
            .find(|(_, range)| few(*range))
            .unwrap_or((alone, only));
        let hits = self.journal.hits(from_ns, to_ns).take(probe_matches::MOST_HITS);
        self.ties = ProbeMatches::find(lines, hits, &self.probes);
    }

    /// The events of a lifeline that have a place, in path order.
    pub(crate) fn path_stops<'a>(&'a self, line: &'a Lifeline) -> impl Iterator<Item = Stop> + 'a {
        line.journey.ladder().filter_map(|rung| {
            let place = self.bands.place_of(line, &rung)?;
            Some(Stop { place, time_ns: rung.time_ns, on_sender_clock: rung.on_sender_clock })
        })
    }

    /// The same, with the custom probes that saw its bytes.
    pub(crate) fn stops(&self, line: &Lifeline) -> Vec<Stop> {
        let ranked = |stop: Stop| match stop.place {
            Place::Hop(hop) => ((hop.rank().unwrap_or(0), 0), stop),
            // Behind every probe of the sender.
            _ => ((Hop::DevDone.rank().unwrap_or(0), usize::MAX), stop),
        };
        let mut stops: Vec<_> = self.path_stops(line).map(ranked).collect();
        let mut probes = Vec::new();
        for pass in self.ties.of(line.key()) {
            let place = Place::Probe(pass.probe);
            let after = self.probes.get(pass.probe).and_then(|probe| probe.asked.after?.rank());
            let Some(after) = after.filter(|_| probes.iter().all(|(_, stop): &(_, Stop)| stop.place != place))
            else {
                continue;
            };
            let on_sender_clock = Hop::DevDone.rank().is_some_and(|last| after <= last);
            let stop = Stop { place, time_ns: pass.hit.time_ns, on_sender_clock };
            probes.push(((after, 1 + pass.probe.index()), stop));
        }
        // A hop may occur more than once, once per copy of the bytes.
        probes.sort_by_key(|(at, _)| *at);
        for (at, stop) in probes {
            let below = stops.iter().rposition(|(other, _)| *other <= at);
            stops.insert(below.map_or(0, |n| n + 1), (at, stop));
        }
        stops.into_iter().map(|(_, stop)| stop).collect()
    }

    /// Times of lifelines from the hop below to the custom probes, within a stretch, both ends included.
    pub(super) fn measured_passes(&self, from_ns: u64, to_ns: u64) -> Vec<PassReading> {
        if self.probes.all().is_empty() || self.ties.left_out || !self.has_all(from_ns, to_ns) {
            return Vec::new();
        }
        let mut pairs: BTreeMap<(ProbeId, usize), (Hop, Vec<u64>)> = BTreeMap::new();
        for line in &self.sweep.lifelines {
            let mut below = None;
            for stop in self.stops(line) {
                match (stop.place, below) {
                    (Place::Hop(hop), _) => below = Some((hop, stop.time_ns)),
                    (Place::Probe(probe), Some((hop, at_ns))) if (from_ns..=to_ns).contains(&stop.time_ns) => {
                        // The CPUs' clocks differ: a negative time is no latency.
                        let Some(ns) = stop.time_ns.checked_sub(at_ns) else { continue };
                        let key = (probe, hop.rank().unwrap_or(0));
                        pairs.entry(key).or_insert_with(|| (hop, Vec::new())).1.push(ns);
                    }
                    _ => {}
                }
            }
        }
        let stretch_ns = to_ns.saturating_sub(from_ns);
        let readings = pairs.into_iter().filter_map(|((probe, _), (from, mut times))| {
            let probe = self.probes.get(probe)?.name.clone();
            let n = times.len() as u64;
            let per_s = rate(n as f64, n, stretch_ns);
            Some(PassReading { from, probe, per_s, times: percentiles(&mut times) })
        });
        readings.collect()
    }

    /// The hits that saw the bytes of a journey, in order of time.
    pub(super) fn passes(&self, line: &Lifeline) -> Vec<PassRow<'_>> {
        let matched = self.ties.of(line.key()).to_vec();
        let passes = if matched.is_empty() { self.look_for_passes(line) } else { matched };
        let row = |pass: Pass| {
            let probe = self.probes.get(pass.probe)?;
            let since = i128::from(pass.hit.time_ns) - i128::from(line.start_ns());
            let since_start_ns = i64::try_from(since).unwrap_or(i64::MAX);
            Some(PassRow { probe, hit: pass.hit, since_start_ns, text: probe.asked.text(&pass.hit) })
        };
        passes.into_iter().filter_map(row).collect()
    }

    /// The passes of a journey off the picture.
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

    /// The payload of a journey.
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
