//! A frame: everything a screen draws, in one look. It borrows from the scope and changes nothing.

use crate::lane::Lane;
use crate::lifeline::{Lifeline, Step};
use crate::look::{CursorReading, PassRow, Payload, TriggerStatus, Wire};
use crate::overhead::{Overhead, Recording};
use crate::scope::Scope;
use crate::sweep::Sweep;
use crate::totals::Totals;
use crate::transport::Transport;
use crate::view::View;
use magscope_core::journey::Rung;
use std::time::Duration;

/// Whether time goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Events come as they happen.
    #[default]
    Live,
    /// Events come from a recording.
    Replay,
    /// The source has no more.
    Ended,
}

/// What stands at the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The nodes shown, `client → server` or the host.
    pub nodes: String,
    /// Name of the sender's node, empty where there are several.
    pub sender: String,
    /// Name of the receiver's node, empty where there are several.
    pub receiver: String,
    /// Whether time goes on.
    pub state: State,
    /// How old the picture is, nanoseconds, where events go on and it stays: it was taken for a journey, and none that is looked at came
    /// since.
    pub picture_age_ns: Option<u64>,
    /// How the clocks stand to each other: `one clock`, `clock ±18 µs CERTIFIED`.
    pub clock: String,
    /// UTC time of day at the left edge of the picture, nanoseconds since midnight, where it is known.
    pub origin_utc_ns: Option<u64>,
}

/// A row of the table of journeys.
#[derive(Clone, Debug)]
pub struct Listed<'a> {
    /// The journey.
    pub line: &'a Lifeline,
    /// Whether it is the selected one.
    pub selected: bool,
    /// Whether the picture was taken for it.
    pub anchor: bool,
    /// What became of it, in words.
    pub verdict: String,
    /// What to blame, in words, and for how long. `None` where only one event was seen.
    pub blame: Option<(String, u64)>,
}

/// The counts that are always there, also when they are zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Footer<'a> {
    /// Since the start or the last clear.
    pub totals: Totals,
    /// Events lost within the window.
    pub lost_lately: u64,
    /// Journeys a second over the window; `None` also where single events are left out, and with them unknown parts of
    /// journeys.
    pub journeys_per_s: Option<f64>,
    /// Whether that is an estimate of all there were, because flows are left out.
    pub journeys_estimated: bool,
    /// Journeys that have begun and not ended.
    pub in_flight: usize,
    /// How long the window is.
    pub window: Duration,
    /// What captures leave out to keep to their budgets, a host each, in words.
    pub governed: Vec<String>,
    /// What comes are the kernel's own sums: there are no journeys, and nobody knows how many there were.
    pub sums: bool,
    /// Of some of the time of the picture that is all there is.
    pub shows_sums: bool,
    /// What the instrument costs; `None` until it was measured.
    pub overhead: Option<Overhead>,
    /// The recording that runs.
    pub recording: Option<&'a Recording>,
}

/// A rung of the open ladder, the first hop first.
#[derive(Clone, Debug, PartialEq)]
pub struct LadderRow {
    /// The event.
    pub mark: Rung,
    /// Since the first event.
    pub since_start_ns: i64,
    /// Since the hop below in the same copy, or since the copy before was seen last: from which, and how long.
    pub step: Option<Step>,
    /// Whether this is the step to blame.
    pub blamed: bool,
    /// Who: `postgres/2211`; at a packet hop of a journey that was sent several times which copy, and whether the kernel dropped
    /// it. Else empty where the hop does not know.
    pub who: String,
}

/// The ladder of the selected journey.
#[derive(Clone, Debug)]
pub struct Inspector<'a> {
    /// The journey.
    pub line: &'a Lifeline,
    /// From which node to which, in words.
    pub route: String,
    /// What became of it, in words.
    pub verdict: String,
    /// Its rungs, the first hop first.
    pub rungs: Vec<LadderRow>,
    /// What to blame, in words, and for how long.
    pub blame: Option<(String, u64)>,
    /// The hits of custom probes that saw its bytes, in order of time.
    pub passes: Vec<PassRow<'a>>,
    /// What there is of its payload.
    pub payload: Payload<'a>,
}

/// What the lanes are to be drawn as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The lifelines of the [sweep](Frame::sweep): all that are in the picture are there.
    #[default]
    Lifelines,
    /// [Density](Frame::density): there are too many of them. The sweep has the slowest, to draw on top.
    Density,
    /// Density as well, until the lifelines have been read from the recording.
    Reading,
}

/// Everything a screen draws. What only one room needs is a method: it is computed when it is asked for.
#[derive(Clone)]
pub struct Frame<'a> {
    pub(crate) scope: &'a Scope,
    /// What the user chose.
    pub view: &'a View,
    /// The line at the top.
    pub header: Header,
    /// The lanes, top first.
    pub lanes: &'a [Lane],
    /// The lifelines and their time axis.
    pub sweep: &'a Sweep,
    /// The table of journeys.
    pub table: Vec<Listed<'a>>,
    /// The ladder, if it is open.
    pub inspector: Option<Inspector<'a>>,
    /// The counts.
    pub footer: Footer<'a>,
    /// What the lanes are to be drawn as.
    pub detail: Detail,
    /// Where in time the picture is.
    pub transport: Transport,
    /// The time across the wire and how sure it is.
    pub wire: Wire,
    /// The trigger as it stands.
    pub trigger: TriggerStatus<'a>,
    /// Cursors, if they are shown.
    pub cursors: Option<CursorReading>,
}
