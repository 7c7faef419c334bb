//! Several recordings that still run, as one live picture: sender and receiver on one time line, by what is known of their clocks so far.

use super::{Hold, ScreenArgs, end_of, save};
use crate::growing::Growing;
use crate::signals::Stop;
use anyhow::Result;
use magscope_core::align::{Alignment, Online};
use magscope_core::clock::pair::Live;
use magscope_core::journey::Limits;
use magscope_core::node::{NodeInfo, tell_apart};
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::together::{Piece, Walker};
use magscope_scope::look::ClockPair;
use magscope_scope::{Options, Scope, State};
use magscope_tui::Pump;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest that one recording may wait for more while the others do.
const PATIENCE: Duration = Duration::from_millis(5);
/// How often the clocks are shown anew.
const CLOCKS: Duration = Duration::from_millis(500);
/// Instants kept of how wide a bound was.
const INSTANTS: usize = 256;

/// Recordings to be followed.
pub struct Followed {
    sources: Vec<Growing>,
    infos: Vec<NodeInfo>,
    online: Online,
}

impl Followed {
    /// From their beginnings, until they are closed.
    pub fn open(dirs: &[PathBuf]) -> Result<Self> {
        let sources =
            dirs.iter().map(|dir| Growing::new(dir.clone(), Stop::default())).collect::<Result<Vec<_>>>()?;
        let mut infos: Vec<NodeInfo> = sources.iter().map(|source| source.info().clone()).collect();
        tell_apart(&mut infos);
        let online = Online::new(&infos);
        Ok(Followed { sources, infos, online })
    }

    /// What shows them.
    pub fn scope(&self, limits: Limits, most_lifelines: usize) -> Scope {
        let options = Options { state: State::Live, limits, most_lifelines, ..Options::default() };
        Scope::of_several(self.infos.clone(), options)
    }

    /// What feeds it.
    pub fn follower(&mut self, limits: Limits) -> Follower<'_> {
        let sources = self.sources.drain(..).map(|source| Box::new(source) as Box<dyn Source>).collect();
        Follower {
            walker: Walker::live(sources, &self.online, limits, PATIENCE),
            online: &self.online,
            infos: &self.infos,
            told: None,
            bounds: BTreeMap::new(),
        }
    }
}

/// Reads on and feeds a scope.
pub struct Follower<'f> {
    walker: Walker<'f>,
    online: &'f Online,
    infos: &'f [NodeInfo],
    told: Option<Instant>,
    /// How wide the bound of each pair was, by instants of the first's R.
    bounds: BTreeMap<(u16, u16), Vec<(u64, u64)>>,
}

impl Follower<'_> {
    /// Reads for so long what has come; [`Progress::End`] once all of them are closed.
    pub fn turn(&mut self, scope: &mut dyn Hold, slice: Duration) -> Result<Progress, SourceError> {
        let began = Instant::now();
        loop {
            let progress = self.walker.step(&mut |piece| match piece {
                Piece::Batch(node, batch) => scope.hold(&mut |scope| scope.ingest_batch(node, batch)),
                Piece::Journey(journey, ..) => scope.hold(&mut |scope| scope.ingest_journey(journey.clone())),
            })?;
            if progress == Progress::End {
                self.tell(scope);
                scope.hold(&mut Scope::end);
                return Ok(Progress::End);
            }
            if began.elapsed() >= slice {
                break;
            }
        }
        if self.told.is_none_or(|told| told.elapsed() >= CLOCKS) {
            self.tell(scope);
        }
        Ok(Progress::More)
    }

    /// Shows how the clocks stand.
    fn tell(&mut self, scope: &mut dyn Hold) {
        self.told = Some(Instant::now());
        let bounds = &mut self.bounds;
        let pairs: Vec<ClockPair> = self.online.look(|all| {
            all.couples()
                .map(|pair| clock_pair(all, self.infos, pair, bounds.entry(pair).or_default()))
                .collect()
        });
        scope.hold(&mut |scope| scope.set_clock_pairs(pairs.clone()));
    }
}

fn clock_pair(
    all: &Alignment<Live>,
    infos: &[NodeInfo],
    (a, b): (u16, u16),
    bound: &mut Vec<(u64, u64)>,
) -> ClockPair {
    let live = all.pair(a, b);
    let newest = live.and_then(|live| Some((live, live.newest_ns()?)));
    let estimate = newest.and_then(|(live, at_ns)| live.estimate_at(at_ns));
    if let (Some((_, at_ns)), Some((_, half_width_ns))) = (newest, estimate)
        && bound.last().is_none_or(|(last_ns, _)| *last_ns < at_ns)
    {
        bound.push((at_ns, half_width_ns));
        if bound.len() > INSTANTS {
            // every second one, so that all of the time stays in the picture
            *bound = bound.iter().copied().step_by(2).collect();
        }
    }
    let host = |node: u16| infos.get(usize::from(node)).map_or_else(String::new, |info| info.host.clone());
    ClockPair {
        hosts: (host(a), host(b)),
        state: all.state(a, b),
        offset_ns: estimate.map(|(offset_ns, _)| offset_ns),
        half_width_ns: estimate.map(|(_, half_width_ns)| half_width_ns),
        drift_ppm: None,
        min_round_trip_ns: live.and_then(|live| live.certified().min_round_trip_ns()),
        packets_used: live.map_or(0, |live| live.certified().counts().used),
        bound: bound.clone(),
    }
}

/// Shows recordings that still run until it is quit.
pub fn follow(dirs: &[PathBuf], limits: Limits, args: &ScreenArgs) -> Result<()> {
    let mut followed = Followed::open(dirs)?;
    let mut scope = followed.scope(limits, Options::default().most_lifelines);
    let mut follower = followed.follower(limits);
    end_of(magscope_tui::run(&mut follower, &mut scope, args.options()?))
}

impl Pump for Follower<'_> {
    fn pump(&mut self, scope: &mut Scope, timeout: Duration) -> Result<Progress, SourceError> {
        self.turn(scope, timeout)
    }

    fn save(&mut self, ending: &str, contents: &str) -> Result<String, String> {
        save::save(Path::new("."), ending, contents)
    }
}
