//! The user's choices: what a front end shows, and of which journeys.

use crate::channel::{Channel, Vertical};
use crate::choice::Choice;
use crate::cursor::Cursors;
use crate::lane::Place;
use crate::lifeline::Lifeline;
use crate::look::{FlowOrder, GroupId};
use crate::math::Math;
use crate::measure::MeasureSpan;
use crate::names::{Names, NetnsKey};
use crate::persistence::Persistence;
use crate::pick::Pick;
use crate::roll::Roll;
use crate::topology::PathLeg;
use crate::views::View;
use magscope_core::exchange::ExchangeFilter;
use magscope_core::{Filter, Hop, Proto};
use magscope_report::GroupBy;

/// Sender's and receiver's node; `None` for outside, a node without probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Node of the sender.
    pub from: Option<NetnsKey>,
    /// Node of the receiver.
    pub to: Option<NetnsKey>,
}

/// The kind of journeys in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum List {
    /// Slowest first.
    #[default]
    Slowest,
    /// Newest first.
    Recent,
    /// Dropped and lost, newest first.
    Bad,
}

impl List {
    /// All, in the order of their command.
    pub const ALL: [Self; 3] = [Self::Slowest, Self::Recent, Self::Bad];

    /// Its name on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slowest => "slowest",
            Self::Recent => "recent",
            Self::Bad => "failed",
        }
    }

    /// The one after it, in a circle.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Slowest => Self::Recent,
            Self::Recent => Self::Bad,
            Self::Bad => Self::Slowest,
        }
    }
}

/// Alignment of lifelines on the time axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// At their time.
    #[default]
    Time,
    /// All at the left edge, to compare their shapes.
    Start,
}

/// The panel on top of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Top {
    /// No panel.
    #[default]
    Nothing,
    /// The ladder of the selected journey.
    Inspector,
    /// The help.
    Help,
}

/// Loadlines shown at most.
pub const MOST_SHOWN: usize = 16;

/// A group of flows that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within {
    /// Kind of the group.
    pub by: GroupBy,
    /// Its identity.
    pub id: GroupId,
    /// Its name.
    pub words: String,
    /// Its row.
    pub row: usize,
}

/// A loadline that is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    /// The signal.
    pub channel: Channel,
    /// Scale and offset on its axis.
    pub vertical: Vertical,
}

/// A message to the user, until the next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Text.
    pub text: String,
    /// Something did not work.
    pub is_error: bool,
}

/// The controls of the instrument: the user's choices.
#[derive(Clone, Debug, Default)]
pub struct Controls {
    /// The view on the screen.
    pub view: View,
    /// True if the picture is paused.
    pub paused: bool,
    /// True if the user chose the timebase; otherwise the scope does.
    pub timebase_fixed: bool,
    /// Alignment of lifelines.
    pub align: Align,
    /// True to show lanes of hops that are off or not available, too.
    pub all_hops: bool,
    /// Only journeys of this route.
    pub route: Option<Route>,
    /// Only journeys of this protocol.
    pub proto: Option<Proto>,
    /// The kind of journeys in the table.
    pub list: List,
    /// The selected lane: a hop, whose details are shown, or a forwarder, to open it.
    pub lane: Option<Place>,
    /// The open forwarders: a bit for each, the first on the path the lowest.
    pub open_forwarders: u8,
    /// The [key](Lifeline::key) of the selected journey.
    pub journey: Option<u64>,
    /// Number of the selected exchange.
    pub request: Option<u64>,
    /// The panel on top.
    pub top: Top,
    /// Whether the picture rolls.
    pub roll: Roll,
    /// Loadlines shown, in order.
    pub channels: Vec<Shown>,
    /// Index of the loadline of the vertical controls.
    pub channel: usize,
    /// Cursors, if they are shown.
    pub cursors: Option<Cursors>,
    /// The stretch of measurements.
    pub over: MeasureSpan,
    /// The computed channel.
    pub math: Option<Math>,
    /// XY display: one signal against another.
    pub xy: Option<(Channel, Channel)>,
    /// Decay of the overlay.
    pub persistence: Persistence,
    /// Only journeys and requests that match this.
    pub filter: Option<Choice>,
    /// Only journeys that match these picks, each of another kind.
    pub picks: Vec<Pick>,
    /// Sort key of flows.
    pub order: FlowOrder,
    /// Whether rows of the view of flows are flows or groups.
    pub flows_by: GroupBy,
    /// The view of flows has only those of this group.
    pub within: Option<Within>,
    /// The selected row of the view of the topology: its path. Empty for the first row.
    pub path: Vec<PathLeg>,
    /// The selected row of the view's table.
    pub row: usize,
    /// In the view of events: offset from the event in the middle of the picture.
    pub event: i64,
    /// True if the user wants a recording.
    pub recording: bool,
    /// Message to the user.
    pub message: Option<Message>,
    /// True after the user's request to quit.
    pub quit: bool,
}

impl Controls {
    /// True if filters and picks accept a journey.
    pub fn accepts(&self, line: &Lifeline, names: &Names) -> bool {
        // For a journey without a seen end the other side may only be missing.
        let side = |wanted: Option<NetnsKey>, seen: Option<NetnsKey>| {
            wanted == seen || (seen.is_none() && !line.journey.verdict.is_whole())
        };
        self.proto.is_none_or(|proto| proto == line.journey.proto)
            && self.route.is_none_or(|route| side(route.from, line.from) && side(route.to, line.to))
            && self.picks.iter().all(|pick| pick.means(line, names))
            && self.journey_filter().is_none_or(|filter| filter.matches(&line.journey, names))
    }

    /// The selected hop.
    pub const fn hop(&self) -> Option<Hop> {
        match self.lane {
            Some(Place::Hop(hop)) => Some(hop),
            _ => None,
        }
    }

    /// The filter's part for journeys.
    pub fn journey_filter(&self) -> Option<&Filter> {
        self.filter.as_ref()?.journeys.as_ref()
    }

    /// The filter's part for requests.
    pub fn request_filter(&self) -> Option<&ExchangeFilter> {
        self.filter.as_ref()?.requests.as_ref()
    }

    /// True if any filter or pick of journeys is active.
    pub fn is_narrowed(&self) -> bool {
        self.proto.is_some() || self.route.is_some() || self.chooses_journeys()
    }

    /// True if only whole journeys show what is looked at: an event alone matches no filter and no pick.
    pub fn chooses_journeys(&self) -> bool {
        !self.picks.is_empty() || self.journey_filter().is_some()
    }
}
