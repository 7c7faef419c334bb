//! Several hosts as one live picture: sender and receiver on one time line, by the current clock relation.
//! Sources are running recordings or agents.

use super::trigger_buffers::TriggerBuffers;
use super::{ScopeAccess, ScreenArgs, Triggered, end_of, save, show_damage};
use crate::connect::Connected;
use crate::growing::Growing;
use crate::recordings::FoundDamage;
use crate::signals::Stop;
use anyhow::Result;
use magscope_core::journey::Limits;
use magscope_core::node::{NodeInfo, make_name_unique, make_names_unique};
use magscope_core::source::{Progress, Source, SourceError};
use magscope_fleet::{HostDiscovery, Ticker};
use magscope_scope::look::ClockPair;
use magscope_scope::{Options, Scope, State};
use magscope_timeline::align::{Alignment, Online};
use magscope_timeline::join::Timeline;
use magscope_timeline::merged_reader::{Piece, ReadSummary, Walker};
use magscope_timeline::pair::{Live, smallest_visible_step_ns};
use magscope_tui::Pump;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum wait for one recording while others wait too.
const PATIENCE: Duration = Duration::from_millis(5);
/// Interval of updates of the clock display.
const CLOCKS: Duration = Duration::from_millis(500);
/// Maximum number of stored bounds over time.
const INSTANTS: usize = 256;

/// Hosts to follow.
pub struct Followed {
    sources: Vec<Box<dyn Source>>,
    infos: Vec<NodeInfo>,
    online: Online,
    /// Discovery of further hosts.
    discovery: Option<HostDiscovery>,
    /// Trigger buffers of the hosts.
    trigger_buffers: TriggerBuffers,
    /// Damage of recordings.
    damage: Arc<FoundDamage>,
}

impl Followed {
    /// Running recordings from their start until they are closed.
    pub fn open(dirs: &[PathBuf]) -> Result<Self> {
        let damage = Arc::new(FoundDamage::default());
        let sources = dirs.iter().map(|dir| Growing::new(dir.clone(), Stop::default(), damage.clone()));
        let sources = sources.map(|source| source.map(|source| Box::new(source) as Box<dyn Source>));
        Ok(Followed { damage: damage.clone(), ..Self::of(sources.collect::<Result<Vec<_>>>()?, None) })
    }

    /// Agents, from the requested start.
    pub fn connected(connected: Connected) -> Self {
        let sources = connected.hosts.into_iter().map(|host| Box::new(host) as Box<dyn Source>);
        Self::of(sources.collect(), Some(connected.discovery))
    }

    fn of(sources: Vec<Box<dyn Source>>, discovery: Option<HostDiscovery>) -> Self {
        let mut infos: Vec<NodeInfo> = sources.iter().map(|source| source.info().clone()).collect();
        make_names_unique(&mut infos);
        let online = Online::new(&infos);
        let (trigger_buffers, damage) = (TriggerBuffers::default(), Arc::default());
        Followed { sources, infos, online, discovery, trigger_buffers, damage }
    }

    /// Damage of the recordings that was found so far.
    pub fn damage(&self) -> Arc<FoundDamage> {
        self.damage.clone()
    }

    /// Adds trigger buffers, with one directory per host.
    pub fn saving(mut self, triggered: Triggered<'_>) -> Result<Self> {
        self.trigger_buffers = TriggerBuffers::of(triggered, &self.infos, &mut self.sources)?;
        Ok(self)
    }

    /// The hosts with unique names.
    pub fn infos(&self) -> &[NodeInfo] {
        &self.infos
    }

    /// The scope for them.
    pub fn scope(&self, limits: Limits, most_lifelines: usize) -> Scope {
        let options = Options { state: State::Live, limits, most_lifelines, ..Options::default() };
        Scope::of_several(self.infos.clone(), options)
    }

    /// The merged reader.
    pub fn follower(&mut self, limits: Limits) -> Follower<'_> {
        Follower {
            walker: Walker::live(std::mem::take(&mut self.sources), &self.online, limits, PATIENCE),
            online: &self.online,
            infos: self.infos.clone(),
            discovery: self.discovery.as_ref(),
            buffers: &mut self.trigger_buffers,
            damage: &self.damage,
            damage_shown: 0,
            clocks_shown_at: None,
            bounds: BTreeMap::new(),
        }
    }
}

/// Output of followed hosts.
pub enum Received<'a> {
    /// A new host.
    Host(&'a NodeInfo),
    /// Something of one of them.
    Piece(Piece<'a>),
}

/// Reads on and feeds a scope or another consumer.
pub struct Follower<'f> {
    walker: Walker<'f>,
    online: &'f Online,
    infos: Vec<NodeInfo>,
    discovery: Option<&'f HostDiscovery>,
    buffers: &'f mut TriggerBuffers,
    damage: &'f FoundDamage,
    /// Number of damaged places that were shown.
    damage_shown: usize,
    clocks_shown_at: Option<Instant>,
    /// Bound of each pair over time, by instants of the first's R.
    bounds: BTreeMap<(u16, u16), Vec<(u64, u64)>>,
}

impl Follower<'_> {
    /// Reads the next batch of any host; [`Progress::End`] once all are closed and no further host can appear.
    pub fn step(&mut self, visit: &mut dyn FnMut(Received<'_>)) -> Result<Progress, SourceError> {
        while let Some(host) = self.discovery.and_then(HostDiscovery::arrived) {
            let mut info = host.info().clone();
            make_name_unique(&self.infos, &mut info);
            let source = self.buffers.hold(&info, Box::new(host))?;
            let info = self.walker.join(source);
            visit(Received::Host(&info));
            self.infos.push(info);
        }
        let progress = self.walker.step(&mut |piece| visit(Received::Piece(piece)))?;
        if progress == Progress::End && self.ticker().is_some_and(|ticker| !ticker.is_stopped()) {
            std::thread::sleep(PATIENCE);
            return Ok(Progress::More);
        }
        Ok(progress)
    }

    /// The ticker of connections to agents.
    pub fn ticker(&self) -> Option<&Ticker> {
        self.discovery.map(HostDiscovery::ticker)
    }

    /// The current relations of the clocks.
    pub fn online(&self) -> &Online {
        self.online
    }

    /// Results so far.
    pub fn walked(&self) -> ReadSummary {
        self.walker.walked()
    }

    /// Reads available data for the duration of a slice; [`Progress::End`] once all are closed.
    pub fn turn(&mut self, scope: &mut dyn ScopeAccess, slice: Duration) -> Result<Progress, SourceError> {
        let began = Instant::now();
        loop {
            let progress = self.step(&mut |came| match came {
                Received::Host(info) => scope.hold(&mut |scope| scope.join(info.clone())),
                Received::Piece(Piece::Batch(node, batch)) => {
                    scope.hold(&mut |scope| scope.ingest_batch(node, batch));
                }
                Received::Piece(Piece::Journey(journey, ..)) => {
                    scope.hold(&mut |scope| scope.ingest_journey(journey.clone()));
                }
            })?;
            if progress == Progress::End {
                self.show_clocks(scope);
                show_damage(self.damage, &mut self.damage_shown, scope);
                scope.hold(&mut Scope::end);
                return Ok(Progress::End);
            }
            if began.elapsed() >= slice {
                break;
            }
        }
        let mut captures = Vec::new();
        scope.hold(&mut |scope| captures.extend(scope.take_captures()));
        for capture in captures {
            let (words, bad) = self.buffers.save(&capture, self.online);
            scope.hold(&mut |scope| scope.show_message(words.clone(), bad));
        }
        if self.clocks_shown_at.is_none_or(|reported| reported.elapsed() >= CLOCKS) {
            self.show_clocks(scope);
        }
        show_damage(self.damage, &mut self.damage_shown, scope);
        Ok(Progress::More)
    }

    /// Updates the clock display.
    fn show_clocks(&mut self, scope: &mut dyn ScopeAccess) {
        self.clocks_shown_at = Some(Instant::now());
        let pairs = self.clocks();
        scope.hold(&mut |scope| scope.set_clock_pairs(pairs.clone()));
        let away = self.ticker().map(Ticker::away).unwrap_or_default().join(", ");
        scope.hold(&mut |scope| scope.set_away(&away));
        for news in self.ticker().map(Ticker::news).unwrap_or_default() {
            scope.hold(&mut |scope| scope.show_message(news.text.clone(), news.bad));
        }
    }

    /// Relations of every pair of clocks.
    pub fn clocks(&mut self) -> Vec<ClockPair> {
        let (infos, bounds) = (&self.infos, &mut self.bounds);
        self.online.look(|all| {
            let couples = all.reported_pairs().into_iter();
            couples.map(|pair| clock_pair(all, infos, pair, bounds.entry(pair).or_default())).collect()
        })
    }
}

fn clock_pair(
    all: &Alignment<Live>,
    infos: &[NodeInfo],
    (a, b): (u16, u16),
    bound: &mut Vec<(u64, u64)>,
) -> ClockPair {
    let live = all.pair(a, b);
    let newest_ns = live.and_then(Live::newest_ns);
    let shown = newest_ns.map(|at_ns| all.difference_at(a, b, at_ns));
    let half_width_ns = shown.and_then(|shown| shown.half_width_ns());
    if let (Some(at_ns), Some(half_width_ns)) = (newest_ns, half_width_ns)
        && bound.last().is_none_or(|(last_ns, _)| *last_ns < at_ns)
    {
        bound.push((at_ns, half_width_ns));
        if bound.len() > INSTANTS {
            // every second entry, so that the whole time stays visible
            *bound = bound.iter().copied().step_by(2).collect();
        }
    }
    let host = |node: u16| infos.get(usize::from(node)).map_or_else(String::new, |info| info.host.clone());
    ClockPair {
        hosts: (host(a), host(b)),
        state: all.state(a, b),
        offset_ns: shown.and_then(|shown| shown.estimate_ns),
        half_width_ns,
        drift_ppm: None,
        min_round_trip_ns: live.and_then(|live| live.certified().min_round_trip_ns()),
        packets_used: live.map_or(0, |live| live.certified().counts().used),
        last_step_ns: live.and_then(|live| live.certified().last_step()).and_then(|step| {
            let event_ns = all.clock(a)?.event_ns(step.at_ns)?.ns;
            let shift_ns = if a == 0 { 0 } else { all.shift_ns(a, event_ns)? };
            Some((event_ns.saturating_add_signed(shift_ns), step.change_ns))
        }),
        smallest_visible_step_ns: half_width_ns.map(smallest_visible_step_ns),
        hints: live.map_or(&[][..], Live::hints).iter().map(ToString::to_string).collect(),
        bound: bound.clone(),
    }
}

/// Shows recordings that still run until it is quit.
pub fn follow(dirs: &[PathBuf], limits: Limits, args: &ScreenArgs) -> Result<()> {
    let options = args.options()?;
    let mut followed = Followed::open(dirs)?;
    let damage = followed.damage();
    let mut scope = followed.scope(limits, Options::default().most_lifelines);
    let mut follower = followed.follower(limits);
    let ended = magscope_tui::run(&mut follower, &mut scope, options);
    damage.note();
    end_of(ended)
}

/// Shows agents until it is quit.
pub fn watch(followed: Followed, limits: Limits, args: &ScreenArgs, triggered: Triggered<'_>) -> Result<()> {
    let options = args.options()?;
    let mut scope = followed.scope(limits, Options::default().most_lifelines);
    scope.set_trigger(|settings| triggered.set(settings));
    let mut followed = followed.saving(triggered)?;
    let mut follower = followed.follower(limits);
    end_of(magscope_tui::run(&mut follower, &mut scope, options))
}

impl Pump for Follower<'_> {
    fn pump(&mut self, scope: &mut Scope, timeout: Duration) -> Result<Progress, SourceError> {
        self.turn(scope, timeout)
    }

    fn save(&mut self, ending: &str, contents: &str) -> Result<String, String> {
        save::save(Path::new("."), ending, contents)
    }
}
