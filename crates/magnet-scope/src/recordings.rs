//! One or more recordings on one time line.

mod damage;

pub use damage::{DamageReader, FoundDamage};

use crate::cli::PartArgs;
use crate::failure::Hint;
use crate::joint::Joint;
use crate::missing;
use crate::output;
use crate::sessions;
use anyhow::Result;
use magscope_core::Batch;
use magscope_core::change::HopCount;
use magscope_core::clock::ClockSample;
use magscope_core::journey::{Limits, Proofs};
use magscope_core::node::{NodeInfo, make_names_unique};
use magscope_core::source::{Progress, Source, SourceError};
use magscope_scope::format::counted;
use magscope_scope::look::ClockPair;
use magscope_session::Session;
use magscope_timeline::UtcMap;
use magscope_timeline::align::{Aligner, Alignment, separate_clones};
use magscope_timeline::join::{Timeline, Unaligned};
use magscope_timeline::merged_reader::{self, Piece, ReadSummary, Walker};
use magscope_timeline::pair::State as ClockState;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Recordings opened together.
pub struct Recordings {
    dirs: Vec<PathBuf>,
    sessions: Vec<Session>,
    infos: Vec<NodeInfo>,
    /// The selected part of each, on its own clock.
    parts: Vec<(Option<u64>, Option<u64>)>,
    alignment: Alignment,
    utc: UtcMap,
    /// Damage that was found while reading.
    found: FoundDamage,
}

impl Recordings {
    /// Opens them and aligns their clocks.
    pub fn open(dirs: &[PathBuf], part: PartArgs, limits: Limits) -> Result<Self> {
        Self::open_watched(dirs, part, limits, &|_| true)
    }

    /// As [`Self::open`]; `watch` receives the progress of the alignment and returns false to cancel.
    pub fn open_watched(
        dirs: &[PathBuf],
        part: PartArgs,
        limits: Limits,
        watch: &dyn Fn(&Batch) -> bool,
    ) -> Result<Self> {
        let sessions = sessions::open_all(dirs)?;
        let mut infos: Vec<NodeInfo> = sessions.iter().map(|session| session.info().clone()).collect();
        make_names_unique(&mut infos);
        let samples: Vec<Vec<ClockSample>> = sessions.iter().map(Session::clock_samples).collect();
        for clone in separate_clones(&mut infos, &samples) {
            let host = infos.get(clone).map_or("", |info| info.host.as_str());
            output::note(&format!(
                "the recording of {host} has the boot id of another one and a clock of its own: one is of a clone, or was continued from a saved state"
            ));
        }
        let maps: Vec<UtcMap> = sessions.iter().map(sessions::utc_map).collect();
        let parts = sessions::windows(&sessions, &maps, part)?;
        let mut all = Recordings {
            dirs: dirs.to_vec(),
            alignment: Aligner::new(&infos).finish(),
            utc: maps.first().cloned().unwrap_or_default(),
            sessions,
            infos,
            parts,
            found: FoundDamage::default(),
        };
        if !Aligner::new(&all.infos).is_one_clock() {
            let to_utc_ns = maps.iter().map(|map| {
                let sample = map.samples().first();
                sample.map_or(0, |s| s.realtime_ns.wrapping_sub(s.event_ns() as i64))
            });
            let rough = Unaligned { to_utc_ns: overlapping(&all.sessions, to_utc_ns.collect()) };
            // All data, independent of the shown part: more packets give a narrower bound.
            let opened = all.dirs.iter().zip(&all.sessions);
            let replays = opened.map(|(dir, session)| all.found.replay(dir, session, (None, None)));
            let replays = all.infos.iter().zip(replays);
            let mut replays: Vec<Watched<'_>> =
                replays.map(|(info, replay)| Watched { info, replay, watch }).collect();
            let mut sources: Vec<&mut dyn Source> =
                replays.iter_mut().map(|replay| replay as &mut dyn Source).collect();
            let aligned = merged_reader::align(&mut sources, &rough, limits, Duration::ZERO);
            all.alignment = aligned.map_err(anyhow::Error::from_boxed)?;
        }
        Ok(all)
    }

    /// The nodes, in the order of the recordings.
    pub fn infos(&self) -> &[NodeInfo] {
        &self.infos
    }

    /// Each recording with its directory.
    pub fn opened(&self) -> impl Iterator<Item = (&Path, &Session)> {
        self.dirs.iter().map(PathBuf::as_path).zip(&self.sessions)
    }

    /// Relations of their clocks.
    pub fn alignment(&self) -> &Alignment {
        &self.alignment
    }

    /// The map to UTC of the common time line, that of the first recording.
    pub fn utc(&self) -> &UtcMap {
        &self.utc
    }

    /// First and last shown instant with data on the common time line.
    pub fn extent(&self) -> (u64, u64) {
        let all = self.shown(Session::extent_ns);
        all.map_or((0, 0), |(from_ns, to_ns)| (from_ns, to_ns.max(from_ns)))
    }

    /// First and last instant of the shown part of the recorded time on the common time line.
    pub fn observed(&self) -> Option<(u64, u64)> {
        self.shown(Session::observed_ns).filter(|(from_ns, to_ns)| from_ns <= to_ns)
    }

    /// The shown part of a stretch of each recording, together, on the common time line.
    fn shown(&self, of: impl Fn(&Session) -> Option<(u64, u64)>) -> Option<(u64, u64)> {
        let ends = self.sessions.iter().zip(&self.parts).enumerate().filter_map(|(at, (session, part))| {
            let (from_ns, to_ns) = of(session)?;
            let from_ns = part.0.unwrap_or(0).max(from_ns);
            let to_ns = part.1.unwrap_or(u64::MAX).min(to_ns);
            let common = |ns| u64::try_from(self.alignment.rough_ns(at as u16, ns)).unwrap_or(0);
            Some((common(from_ns), common(to_ns)))
        });
        ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// A merged reader of all, or of a range of the common time line.
    pub fn walker(&self, limits: Limits, stretch: Option<(u64, u64)>) -> Walker<'_> {
        let sources = self.opened().zip(&self.parts).enumerate().map(|(at, ((dir, session), part))| {
            let own = stretch.map(|(from, to)| (self.own_ns(at as u16, from), self.own_ns(at as u16, to)));
            let from = own.map(|own| own.0.max(part.0.unwrap_or(0))).or(part.0);
            let to = own.map(|own| own.1.min(part.1.unwrap_or(u64::MAX))).or(part.1);
            Box::new(self.found.replay(dir, session, (from, to))) as Box<dyn Source + '_>
        });
        Walker::new(sources.collect(), &self.alignment, limits, Duration::ZERO)
    }

    /// A merged reader of a range of the common time line, which knows what a [reader of all](Walker::keep_proofs) has
    /// proven before.
    pub fn stretch_walker(&self, limits: Limits, stretch: (u64, u64), proofs: &[Proofs]) -> Walker<'_> {
        self.walker(limits, Some(stretch)).begin_with(proofs, |node| self.own_ns(node, stretch.0))
    }

    /// Converts an instant of the common time line to a recording's own clock.
    fn own_ns(&self, node: u16, at_ns: u64) -> u64 {
        // The clocks drift apart by parts per million: each iteration reduces the error by that factor.
        let look = |own: u64, _| {
            let off = (at_ns as i64).wrapping_sub(self.alignment.rough_ns(node, own));
            own.saturating_add_signed(off)
        };
        (0..3).fold(at_ns, look)
    }

    /// Relations of every pair of clocks, for the screen.
    pub fn clock_pairs(&self) -> Vec<ClockPair> {
        const INSTANTS: u64 = 128;
        let host =
            |node: u16| self.infos.get(usize::from(node)).map(|info| info.host.clone()).unwrap_or_default();
        let pair = |nodes: (u16, u16)| {
            let hosts = (host(nodes.0), host(nodes.1));
            let state = self.alignment.state(nodes.0, nodes.1);
            // Without a packet in common nothing else is known of their clocks.
            let Some(pair) = self.alignment.pair(nodes.0, nodes.1) else {
                return ClockPair { hosts, state, ..ClockPair::default() };
            };
            let shown = |at| self.alignment.difference_at(nodes.0, nodes.1, at);
            let estimate = pair.middle_ns().map(shown);
            let bound = pair.span_ns().map_or_else(Vec::new, |(from, to)| {
                let at = (0..INSTANTS).map(|n| from + (to.saturating_sub(from)) / INSTANTS * n);
                at.filter_map(|at| Some((at, shown(at).half_width_ns()?))).collect()
            });
            ClockPair {
                hosts,
                state,
                offset_ns: estimate.and_then(|shown| shown.estimate_ns),
                half_width_ns: estimate.and_then(|shown| shown.half_width_ns()),
                drift_ppm: pair.drift_ppm(),
                min_round_trip_ns: pair.min_round_trip_ns(),
                packets_used: pair.counts().used,
                last_step_ns: None,
                smallest_visible_step_ns: pair.smallest_visible_step_ns(),
                hints: pair.hints().iter().map(ToString::to_string).collect(),
                bound,
            }
        };
        let reported = self.alignment.reported_pairs();
        // Many clocks without any packet in common: one pair shows that they are not synchronised.
        let first = self.alignment.couples().take(usize::from(reported.is_empty()));
        reported.into_iter().chain(first).map(pair).collect()
    }

    /// Reads all of them, merged, and prints damage that is found.
    pub fn walk(&self, limits: Limits, visit: impl FnMut(Piece<'_>)) -> Result<ReadSummary> {
        let walked = self.walk_watched(limits, &|_| true, visit);
        self.note_damage();
        walked
    }

    /// Reads all of them, merged; `watch` receives the progress and returns false to cancel.
    pub fn walk_watched(
        &self,
        limits: Limits,
        watch: &dyn Fn(&Batch) -> bool,
        visit: impl FnMut(Piece<'_>),
    ) -> Result<ReadSummary> {
        let parts = self.opened().zip(&self.parts);
        let mut replays: Vec<Watched<'_>> = parts
            .map(|((dir, session), part)| Watched {
                info: session.info(),
                replay: self.found.replay(dir, session, *part),
                watch,
            })
            .collect();
        let mut sources: Vec<&mut dyn Source> =
            replays.iter_mut().map(|replay| replay as &mut dyn Source).collect();
        merged_reader::walk(&mut sources, &self.alignment, limits, Duration::ZERO, visit)
            .map_err(anyhow::Error::from_boxed)
    }

    /// An error if any recording is damaged. Reads all data. The end of a killed recorder is no damage.
    pub fn require_whole(&self) -> Result<()> {
        for (session, dir) in self.sessions.iter().zip(&self.dirs) {
            let damage = session.verify().into_iter().filter(|damage| !damage.unfinished);
            let damage: Vec<_> = damage.map(|damage| damage.to_string()).collect();
            if let Some(first) = damage.first() {
                let next = "leave out --strict to read what is whole";
                return Err(Hint::error(not_whole(dir, damage.len()), first.clone(), next));
            }
        }
        Ok(())
    }

    /// Descriptions of damage, found at the opening and then while reading.
    pub fn damage(&self) -> Vec<String> {
        let at_opening =
            self.sessions.iter().flat_map(|session| session.damage().iter().map(ToString::to_string));
        at_opening.chain(self.found.all()).collect()
    }

    /// Damage that was found while reading.
    pub fn found(&self) -> &FoundDamage {
        &self.found
    }

    /// Prints damage that was found while reading, each place once. The opening prints what it finds.
    pub fn note_damage(&self) {
        self.found.note();
    }

    /// Events in all of them.
    pub fn events(&self) -> u64 {
        self.sessions.iter().map(|session| session.summary().events).sum()
    }

    /// Approximate number of events in the shown part, assuming a uniform rate.
    pub fn events_shown(&self) -> f64 {
        let each = self.sessions.iter().zip(&self.parts).map(|(session, part)| {
            let summary = session.summary();
            let (Some(first), Some(last)) = (summary.from_ns, summary.to_ns) else { return 0.0 };
            let (from, to) = (part.0.unwrap_or(first).max(first), part.1.unwrap_or(last).min(last));
            let share = to.saturating_sub(from) as f64 / last.saturating_sub(first).max(1) as f64;
            summary.events as f64 * share.clamp(0.0, 1.0)
        });
        each.sum()
    }

    /// UTC minus the common time line, nanoseconds, from the first clock sample.
    pub fn to_utc_ns(&self) -> Option<i64> {
        let sample = self.utc.samples().first()?;
        Some(sample.realtime_ns.wrapping_sub(sample.monotonic_ns as i64))
    }

    /// Metadata of exports: sessions, lost records, damage.
    pub fn about(&self) -> Vec<(String, String)> {
        let mut about = Vec::new();
        for (at, session) in self.sessions.iter().enumerate() {
            let mut say =
                |what: &str, value: String| about.push((format!("magscope.recording.{at}.{what}"), value));
            say("session", session.meta().session.clone());
            say("host", session.info().host.clone());
            say("events", session.summary().events.to_string());
            say("lost_records", session.summary().losses.total().to_string());
            say("damage", session.damage().len().to_string());
            let counts = session.changes().1;
            let sum = |of: fn(&HopCount) -> u64| counts.iter().map(of).sum::<u64>().to_string();
            say("sampled_out", sum(|count| count.sampled));
            say("filtered", sum(|count| count.filtered.saturating_add(count.undecided)));
        }
        about
    }

    /// Descriptions of missing data.
    pub fn missing(&self) -> Vec<String> {
        missing::of(&self.sessions)
    }

    /// Pairs of hosts whose clocks no packet relates: what the rows of both mean together.
    pub fn clocks_apart(&self) -> Vec<String> {
        let is_apart =
            |pair: &&ClockPair| matches!(pair.state, Some(ClockState::OneSided | ClockState::Unsynchronised));
        let pairs = self.clock_pairs();
        let words = |pair: &ClockPair| {
            let (a, b) = &pair.hosts;
            let state = pair.state.map_or_else(String::new, |state| state.to_string());
            format!("the clocks of {a} and {b} are {state}: their own wall clocks place one beside the other")
        };
        pairs.iter().filter(is_apart).map(words).collect()
    }

    /// The summary of all recordings.
    pub fn joint(&self, walked: &ReadSummary) -> Joint {
        Joint::new(&self.dirs, &self.infos, &self.alignment, walked)
    }
}

/// Error text for a recording with this number of damaged places, if `--strict` refuses damage.
fn not_whole(dir: &Path, places: usize) -> String {
    let places = counted(places as u64, "place", "places");
    format!("{} is damaged in {places}, and --strict was asked for", dir.display())
}

/// Recordings of exchanged packets overlap in time. If two do not overlap by their wall clocks, one clock is
/// wrong by more than a recording's length; its recording is then assumed to start with the first.
fn overlapping(sessions: &[Session], mut to_utc_ns: Vec<i64>) -> Vec<i64> {
    let spans: Vec<_> = sessions.iter().map(Session::extent_ns).collect();
    let Some(((first_from, first_to), first)) =
        spans.first().copied().flatten().zip(to_utc_ns.first().copied())
    else {
        return to_utc_ns;
    };
    let at = |ns: u64, to_utc_ns: i64| i128::from(ns) + i128::from(to_utc_ns);
    for (span, to_utc_ns) in spans.iter().zip(&mut to_utc_ns).skip(1) {
        let Some((from, to)) = *span else { continue };
        if at(from, *to_utc_ns) > at(first_to, first) || at(to, *to_utc_ns) < at(first_from, first) {
            *to_utc_ns = first.wrapping_add(first_from.wrapping_sub(from).cast_signed());
        }
    }
    to_utc_ns
}

/// A replay with progress and cancellation.
struct Watched<'w> {
    info: &'w NodeInfo,
    replay: DamageReader<'w>,
    watch: &'w dyn Fn(&Batch) -> bool,
}

impl Source for Watched<'_> {
    fn info(&self) -> &NodeInfo {
        self.info
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        let progress = self.replay.next(batch, timeout)?;
        Ok(if (self.watch)(batch) { progress } else { Progress::End })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_of_damage_is_singular() {
        let of = |places| not_whole(Path::new("a"), places);
        assert!(of(1).starts_with("a is damaged in 1 place, "), "{}", of(1));
        assert!(of(2).starts_with("a is damaged in 2 places, "), "{}", of(2));
    }
}
