//! The scope: accepts batches, stores the data of a screen, returns frames.

mod apply;
mod bands;
mod first_minute;
mod headline;
mod heat;
mod hits;
mod ingest;
mod measured;
mod narrowed;
mod passes;
mod picture;
mod pictures;
mod read;
mod recording;
mod sums;
mod tables;
mod time;
mod trigger;
mod values;

use crate::bands::Bands;
use crate::channel::Vertical;
use crate::clocks::Clocks;
use crate::command::{History, Question};
use crate::counts::Counts;
use crate::frame::State;
use crate::horizon::Horizon;
use crate::journal::Journal;
use crate::lane::{Lane, Place, places};
use crate::lifeline::Lifeline;
use crate::look::{ClockPair, LossRow};
use crate::memory::Memory;
use crate::names::Names;
use crate::overhead::{Overhead, Recording};
use crate::persistence::Overlay;
use crate::probe_matches::ProbeMatches;
use crate::probes::Probes;
use crate::pyramid::Keep;
use crate::recorded::{Recorded, Window};
use crate::requests::Requests;
use crate::signals::Signals;
use crate::stats::{HopStats, Stats};
use crate::sums::Sums;
use crate::sweep::{MAX_LIFELINES, Sweep};
use crate::switches::HopState;
use crate::totals::{Totals, WindowTotals};
use crate::tour::TourState;
use crate::transport::Playhead;
use crate::trigger::{Capture, Watch};

use crate::controls::{Controls, Route, Shown};
use crate::weights::Weights;
use magscope_core::drop_reason::Freed;
use magscope_core::foreign::clean;
use magscope_core::governed::Level;
use magscope_core::hop::{HOP_IDS, HopSet};
use magscope_core::netns_resolver::Places;
use magscope_core::node::NodeInfo;
use magscope_core::{Correlator, Journey, Limits, LossCause, Proto};
use magscope_report::{Findings, Headline};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Bucket edges until a held picture is replaced: a second.
const HOLD_EDGES: u64 = 2;
/// Maximum number of journeys in the table.
const LISTED: usize = 64;
/// Maximum number of routes.
const MAX_ROUTES: usize = 64;
/// Maximum number of overhead measurements from the caller, one per half second.
const MOST_READINGS: usize = 4096;

/// Initial options of a scope.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Live source or recording.
    pub state: State,
    /// Limits of the correlator's memory.
    pub limits: Limits,
    /// Extent of a recording with random access. See [`Scope::survey`].
    pub recorded: Option<Window>,
    /// The time in which it was recorded, with and without events, for rates; the same if unknown.
    pub observed: Option<Window>,
    /// Initial playback speed, as a multiple of real time.
    pub speed: f64,
    /// Maximum number of drawn lifelines; more are drawn as density with the slowest on top.
    pub most_lifelines: usize,
    /// True for a capture of this host, whose user can be helped by commands to try.
    pub suggests: bool,
    /// True if the caller measures what the capture costs ([`Scope::set_overhead`]), and how busy the host is.
    pub measures_itself: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            state: State::default(),
            limits: Limits::default(),
            recorded: None,
            observed: None,
            speed: 1.0,
            most_lifelines: MAX_LIFELINES,
            suggests: false,
            measures_itself: false,
        }
    }
}

/// A software oscilloscope without a screen.
pub struct Scope {
    /// Info of the first recording.
    info: NodeInfo,
    pub(crate) names: Names,
    state: State,
    controls: Controls,
    horizon: Horizon,
    playhead: Playhead,
    /// State of a recording with random access.
    recorded: Option<Recorded>,
    /// Joins events to journeys, if the caller does not.
    correlator: Correlator,
    weights: Weights,
    journeys: Vec<Journey>,
    /// One per recording: numbers of threads and sockets are valid only within one.
    places: Vec<Places>,
    /// Custom probes.
    probes: Probes,
    // Counts.
    stats: Stats,
    totals: Totals,
    lately: WindowTotals,
    memory: Memory,
    counts: Counts,
    /// Live, while less is looked at than there is.
    unfiltered: Option<narrowed::Unfiltered>,
    requests: Requests,
    findings: Findings,
    headline: Headline,
    /// Bucket edges since the headline.
    concluded_edges: u64,
    signals: Signals,
    journal: Journal,
    clocks: Clocks,
    watch: Watch,
    overlay: Option<Overlay>,
    most_lifelines: usize,
    /// True if there are commands to try while nothing happens.
    suggests: bool,
    measures_itself: bool,
    /// Time of a quiet host so far, nanoseconds.
    waited_ns: u64,
    seen: HopSet,
    hop_events: [u64; HOP_IDS],
    /// The kernel's sums, including hits of hops without events.
    sums: Sums,
    hop_sums: [u64; HOP_IDS],
    /// Instant of the newest event of each recording.
    last_event_ns: Vec<Option<u64>>,
    drops: HashMap<(u16, Option<Freed>), u64>,
    losses: Vec<LossRow>,
    routes: Vec<Route>,
    /// Answers to prompts.
    history: History,
    pub(crate) tour: Option<TourState>,
    // State from the caller.
    /// Names of hosts whose connection is lost; empty without any.
    away: String,
    /// Levels of captures with a budget.
    governed: BTreeMap<u16, Level>,
    overhead: Option<Overhead>,
    own: VecDeque<(u64, Overhead)>,
    host_cpu: VecDeque<(u64, f64)>,
    recording: Option<Recording>,
    // Time.
    begin_ns: Option<u64>,
    now_ns: u64,
    /// Bucket edges since the last sweep, and its instant.
    held_edges: u64,
    swept_ns: u64,
    revision: u64,
    // The current picture. It changes only at bucket edges, so that it is readable.
    lanes: Vec<Lane>,
    bands: Bands,
    sweep: Sweep,
    /// The hits of custom probes that saw the bytes of its lifelines.
    ties: ProbeMatches,
    listed: Vec<Lifeline>,
    selected: Option<Lifeline>,
    /// The number of the shown captured window.
    shown: Option<u64>,
    /// The newest trigger without a picture yet: its instant, and the journey.
    fired: Option<(u64, Option<u64>)>,
    /// Number of the next bucket whose rate the trigger checks; `None` for the first.
    rate_bucket: Option<u64>,
    /// Windows that were closed and not yet fetched.
    captured: Vec<Capture>,
}

impl Scope {
    /// A scope for the recording of `info`.
    pub fn new(info: NodeInfo, options: Options) -> Self {
        Self::of_several(vec![info], options)
    }

    /// A scope for several recordings on the time line of the first. Their journeys arrive joined, see
    /// [`Scope::ingest_journey`].
    pub fn of_several(infos: Vec<NodeInfo>, options: Options) -> Self {
        let info = infos.first().cloned().unwrap_or_default();
        let correlator = Correlator::of_node(&info, options.limits);
        let weights = Weights::new(&infos);
        let keep = if options.recorded.is_some() { Keep::All } else { Keep::Newest };
        let recorded = options.recorded.map(|all| Recorded {
            all,
            observed: options.observed.map_or(all, |observed| observed.union(all)),
            read_ns: all.from_ns,
            ..Recorded::default()
        });
        let probes = Probes::new(&infos);
        let clocks = Clocks::of(&infos);
        let last_event_ns = vec![None; infos.len()];
        let head_ns = options.recorded.map_or(0, |all| all.from_ns);
        let mut scope = Scope {
            info,
            places: infos.iter().map(|_| Places::default()).collect(),
            counts: Counts::new(keep, probes.all().len()),
            unfiltered: None,
            names: Names::new(infos),
            state: options.state,
            controls: Controls { channels: asked_for(&probes), ..Controls::default() },
            probes,
            horizon: Horizon::default(),
            playhead: Playhead::new(head_ns, recorded.is_none(), options.speed),
            recorded,
            correlator,
            weights,
            journeys: Vec::new(),
            stats: Stats::default(),
            requests: Requests::default(),
            away: String::new(),
            history: History::default(),
            tour: None,
            findings: Findings::default(),
            headline: Headline::default(),
            concluded_edges: 0,
            totals: Totals::default(),
            lately: WindowTotals::default(),
            memory: Memory::default(),
            signals: Signals::new(keep),
            journal: Journal::default(),
            clocks,
            watch: Watch::default(),
            overlay: None,
            most_lifelines: options.most_lifelines.max(1),
            suggests: options.suggests,
            measures_itself: options.measures_itself,
            waited_ns: 0,
            seen: HopSet::EMPTY,
            hop_events: [0; HOP_IDS],
            sums: Sums::new(keep),
            hop_sums: [0; HOP_IDS],
            last_event_ns,
            drops: HashMap::new(),
            losses: LossCause::ALL.map(|cause| LossRow { cause, count: 0, last_ns: None }).to_vec(),
            routes: Vec::new(),
            governed: BTreeMap::new(),
            overhead: None,
            own: VecDeque::new(),
            host_cpu: VecDeque::new(),
            recording: None,
            begin_ns: options.recorded.map(|all| all.from_ns),
            now_ns: 0,
            held_edges: 0,
            swept_ns: head_ns,
            revision: 0,
            lanes: Vec::new(),
            bands: Bands::default(),
            sweep: Sweep::default(),
            ties: ProbeMatches::default(),
            listed: Vec::new(),
            selected: None,
            shown: None,
            fired: None,
            rate_bucket: None,
            captured: Vec::new(),
        };
        scope.horizon.go(head_ns, 0.0);
        scope.measure();
        scope
    }

    /// Adds a recording that begins during the session.
    pub fn join(&mut self, info: NodeInfo) {
        self.probes.join(&info);
        let probes = self.probes.all().len();
        self.all_counts().for_each(|counts| counts.pyramid.grow(probes));
        self.clocks.join(&info);
        self.places.push(Places::default());
        self.last_event_ns.push(None);
        self.weights.join(&info);
        self.show_message(format!("{} is here", info.host), false);
        self.names.join(info);
    }

    /// True for a recording with random access.
    pub(super) const fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// Reads the windows into the lanes.
    fn measure(&mut self) {
        // The windows of live statistics have all traffic.
        let has_window = !self.is_recorded() && !self.controls.is_narrowed();
        let summed = self.lately_summed().filter(|_| self.controls.route.is_none());
        self.bands = self.bands_now();
        self.lanes.clear();
        for place in places(&self.probes, &self.bands).collect::<Vec<_>>() {
            let hop = match place {
                Place::Hop(hop) => hop,
                Place::Wire(_) | Place::Inside(..) => {
                    self.lanes.push(Lane { place, state: HopState::OFF, seen: true, stats: None });
                    continue;
                }
                Place::Forwarder(number) => {
                    let stats = self.stats_of_band(number);
                    self.lanes.push(Lane { place, state: HopState::OFF, seen: true, stats });
                    continue;
                }
                Place::Probe(probe) => {
                    let (stats, seen) =
                        (self.stats_of_probe(probe), self.probes.get(probe).is_some_and(|p| p.hits > 0));
                    self.lanes.push(Lane { place, state: HopState::OFF, seen, stats });
                    continue;
                }
            };
            let state = self.hop_state(hop);
            let served = state.is_on();
            let stats = match (served, has_window) {
                (false, _) => None,
                (true, true) => self.stats.read(hop).map(|stats| stats.scaled(self.weights.lately(hop))),
                (true, false) => self.lately_counted(hop),
            };
            let stats = stats.or(summed.as_ref().filter(|_| served).map(|_| HopStats::default()));
            let stats = stats.map(|stats| Self::or_summed(stats, hop, summed.as_ref()));
            let seen = self.seen.contains(hop);
            // An optional hop has a lane only where it was asked for.
            let is_there = !hop.is_optional() || seen || !state.is_off();
            if is_there && self.controls.proto.is_none_or(|proto| hop.passes(proto)) {
                self.lanes.push(Lane { place, state, seen, stats });
            }
        }
    }

    /// Sets the overhead of the instrument.
    pub fn set_overhead(&mut self, overhead: Overhead) {
        if self.own.len() >= MOST_READINGS {
            self.own.pop_front();
        }
        self.own.push_back((self.now_ns, overhead));
        if self.overhead != Some(overhead) {
            self.overhead = Some(overhead);
            self.revision += 1;
        }
        self.watch_overhead(overhead);
    }

    /// Sets the recent utilisation of all the host's CPUs together, 0 to 1.
    pub fn set_host_cpu(&mut self, busy: f64) {
        if self.host_cpu.len() >= MOST_READINGS {
            self.host_cpu.pop_front();
        }
        self.host_cpu.push_back((self.now_ns, busy));
        let fires = self.watch.signal(crate::Channel::HostCpu, self.now_ns, busy);
        self.fires(fires, self.now_ns, None);
    }

    /// Sets the current recording, or none.
    pub fn set_recording(&mut self, recording: Option<Recording>) {
        let recording =
            recording.map(|recording| Recording { name: clean(&recording.name).into_owned(), ..recording });
        if self.recording != recording {
            self.recording = recording;
            self.revision += 1;
        }
    }

    /// Sets the clock offsets between the recordings.
    pub fn set_clock_pairs(&mut self, pairs: Vec<ClockPair>) {
        for pair in &pairs {
            if let Some((at_ns, step_ns)) = pair.last_step_ns.filter(|_| self.clocks.is_new_step(pair)) {
                let fires = self.watch.clock_step((&pair.hosts.0, &pair.hosts.1), at_ns, step_ns);
                self.fires(fires, at_ns, None);
            }
        }
        self.clocks.set(pairs);
        self.revision += 1;
    }

    /// Tells the user that something they asked for did not work, or that it did.
    /// Info of each recording.
    pub fn infos(&self) -> &[NodeInfo] {
        self.names.infos()
    }

    /// The user's choices.
    pub(crate) const fn controls(&self) -> &Controls {
        &self.controls
    }

    /// Answers to prompts so far.
    pub const fn history(&self) -> &History {
        &self.history
    }

    /// Stores an accepted answer to a prompt.
    pub fn remember(&mut self, question: Question, line: &str) {
        self.history.add(question, line);
    }

    /// Names of hosts whose connection is lost, in words; empty if none is.
    pub fn set_away(&mut self, hosts: &str) {
        if self.away != hosts {
            self.away = clean(hosts).into_owned();
            self.revision += 1;
        }
    }

    /// Words of a peer or a file's name can be in it, so it is cleaned.
    pub fn show_message(&mut self, text: String, is_error: bool) {
        let cleaned = if let Cow::Owned(cleaned) = clean(&text) { Some(cleaned) } else { None };
        let text = cleaned.unwrap_or(text);
        self.controls.message = Some(crate::controls::Message { text, is_error });
        self.revision += 1;
    }

    /// Grows with every visible change.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// True of a live picture that the user has stopped: only the counts beside it change.
    pub fn is_stopped(&self) -> bool {
        self.controls.paused && !self.is_recorded()
    }

    /// True after the user's request to quit.
    pub const fn quits(&self) -> bool {
        self.controls.quit
    }

    /// True if the user wants a recording. The caller starts and stops it and reports that with
    /// [`Scope::set_recording`].
    pub const fn wants_recording(&self) -> bool {
        self.controls.recording
    }

    /// Clears the user's request for a recording.
    pub const fn stop_recording(&mut self) {
        self.controls.recording = false;
    }

    /// Info of the node; that of the first of several.
    pub const fn info(&self) -> &NodeInfo {
        &self.info
    }

    /// Protocols of the filter's cycle.
    const PROTOS: [Proto; 2] = [Proto::TCP, Proto::UDP];
}

/// The initial loadlines: the values of probes with that option.
fn asked_for(probes: &Probes) -> Vec<Shown> {
    let loadlines =
        probes.all().iter().filter(|probe| probe.asked.mark == magscope_core::custom::Mark::Loadline);
    let channels =
        loadlines.flat_map(|probe| probe.channels().collect::<Vec<_>>()).take(crate::controls::MOST_SHOWN);
    channels.map(|(_, channel)| Shown { channel, vertical: Vertical::default() }).collect()
}

#[cfg(test)]
mod bands_tests;
#[cfg(test)]
mod counts_tests;
#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod moves_tests;
#[cfg(test)]
mod probes_tests;
#[cfg(test)]
mod quiet_tests;
#[cfg(test)]
mod scale_tests;
#[cfg(test)]
mod sums_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trigger_tests;
