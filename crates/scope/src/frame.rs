//! A frame: everything that a screen draws. It borrows from the scope and changes nothing.

use crate::bands::Band;
use crate::controls::Controls;
use crate::edge::Edge;
use crate::format::short_duration;
use crate::lane::Lane;
use crate::lifeline::{Lifeline, Step};
use crate::look::{CursorReading, PassRow, Payload, TriggerStatus, Wire};
use crate::overhead::{Overhead, Recording};
use crate::scope::Scope;
use crate::sweep::Sweep;
use crate::totals::Totals;
use crate::tour::TourStep;
use crate::transport::Transport;
use magscope_core::Counts;
use magscope_core::journey::Rung;
use magscope_report::Headline;
use std::time::Duration;

/// Whether time advances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Events arrive as they happen.
    #[default]
    Live,
    /// Events are read from a recording.
    Replay,
    /// The source has no more data.
    Ended,
}

/// The header at the top.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The nodes shown, `client → server` or the host.
    pub nodes: String,
    /// Name of the sender's node, empty if there are several.
    pub sender: String,
    /// Name of the receiver's node, empty if there are several.
    pub receiver: String,
    /// Whether time advances.
    pub state: State,
    /// Where the picture stands against the newest instant.
    pub edge: Edge,
    /// How far back the counts of what is looked at go, nanoseconds, where a filter was set and there was more before: it counts the
    /// journeys that were still kept.
    pub counts_for_ns: Option<u64>,
    /// How the clocks stand to each other: `one clock`, `clock ±18 µs CERTIFIED`.
    pub clock: String,
    /// UTC time of day at the left edge of the picture, nanoseconds since midnight, if available.
    pub origin_utc_ns: Option<u64>,
}

impl Header {
    /// How far back counts go, in words, where they lack what was before.
    pub fn counts_words(&self) -> Option<String> {
        self.counts_for_ns.map(|ns| format!("counts of the last {}", short_duration(ns)))
    }
}

/// A row of the table of journeys.
#[derive(Clone, Debug)]
pub struct Listed<'a> {
    /// The journey.
    pub line: &'a Lifeline,
    /// True for the selected journey.
    pub selected: bool,
    /// True for the journey that the picture was taken for.
    pub anchor: bool,
    /// Its verdict, in words.
    pub verdict: String,
    /// The blamed part in words, and its time. `None` with only one event.
    pub blame: Option<(String, u64)>,
}

/// The counts that are always shown, also at zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Footer<'a> {
    /// Since the start or the last clear.
    pub totals: Totals,
    /// What every surface counts: dropped, lost, resent, broken, in flight, missed events.
    pub counts: Counts,
    /// Events missed within the window.
    pub missed_lately: u64,
    /// Journeys per second over the window; `None` also where single events are left out, and with them unknown
    /// parts of journeys.
    pub journeys_per_s: Option<f64>,
    /// True for an estimate, because flows are sampled out.
    pub journeys_estimated: bool,
    /// Length of the window.
    pub window: Duration,
    /// Reduced capture levels by budgets, one text per host.
    pub governed: Vec<String>,
    /// True if a filter or a pick chooses among the journeys, but not among these counts.
    pub is_of_all: bool,
    /// True if only the kernel's sums arrive: there are no journeys, and their number is unknown.
    pub sums: bool,
    /// True if part of the picture's time has only sums.
    pub shows_sums: bool,
    /// The instrument's overhead; `None` before the first measurement.
    pub overhead: Option<Overhead>,
    /// The recording that runs.
    pub recording: Option<&'a Recording>,
}

/// A level of the open ladder; the first hop is at the top.
#[derive(Clone, Debug, PartialEq)]
pub struct LadderRow {
    /// The event.
    pub mark: Rung,
    /// Since the first event.
    pub since_start_ns: i64,
    /// The hop below in the same copy, or the end of the previous copy, with the time since then.
    pub step: Option<Step>,
    /// True for the blamed step.
    pub blamed: bool,
    /// The thread: `postgres/2211`. At a packet hop of a retransmitted journey, which copy, and whether the
    /// kernel dropped it. Empty otherwise.
    pub who: String,
}

/// The ladder of the selected journey.
#[derive(Clone, Debug)]
pub struct Inspector<'a> {
    /// The journey.
    pub line: &'a Lifeline,
    /// Nodes of sender and receiver, in words.
    pub route: String,
    /// Its verdict, in words.
    pub verdict: String,
    /// Its levels, the first hop first.
    pub rungs: Vec<LadderRow>,
    /// The blamed part in words, and its time.
    pub blame: Option<(String, u64)>,
    /// The hits of custom probes that saw its bytes, in order of time.
    pub passes: Vec<PassRow<'a>>,
    /// Its payload, if any.
    pub payload: Payload<'a>,
}

/// How to draw the lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The lifelines of the [sweep](Frame::sweep), which has all of the picture's.
    #[default]
    Lifelines,
    /// [Density](Frame::density): there are too many of them. The sweep has the slowest, to draw on top.
    Density,
    /// Density, until the lifelines have been read from the recording.
    Reading,
}

/// Everything that a screen draws. Data that only one view needs are methods, computed on demand.
#[derive(Clone)]
pub struct Frame<'a> {
    pub(crate) scope: &'a Scope,
    /// The user's choices.
    pub controls: &'a Controls,
    /// The line at the top.
    pub header: Header,
    /// The worst true thing, or that nothing is wrong.
    pub headline: &'a Headline,
    /// The lanes, top first.
    pub lanes: &'a [Lane],
    /// The forwarders that have lanes, in the order of the path.
    pub bands: &'a [Band],
    /// The lifelines and their time axis.
    pub sweep: &'a Sweep,
    /// The table of journeys.
    pub table: Vec<Listed<'a>>,
    /// The ladder, if it is open.
    pub inspector: Option<Inspector<'a>>,
    /// The counts.
    pub footer: Footer<'a>,
    /// How to draw the lanes.
    pub detail: Detail,
    /// Position of the picture in time.
    pub transport: Transport,
    /// The time across the wire and its bound.
    pub wire: Wire,
    /// State of the trigger.
    pub trigger: TriggerStatus<'a>,
    /// Cursors, if shown.
    pub cursors: Option<CursorReading>,
    /// The step of the tour.
    pub tour: Option<TourStep>,
}
