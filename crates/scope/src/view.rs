//! What the user chose to look at.

use crate::channel::{Channel, Vertical};
use crate::cursor::Cursors;
use crate::lifeline::Lifeline;
use crate::look::{FlowOrder, Room};
use crate::math::Math;
use crate::measure::Over;
use crate::names::{Names, Seat};
use crate::persistence::Persistence;
use crate::pick::Pick;
use crate::roll::Roll;
use magscope_core::{Filter, Hop, Proto};

/// From which node to which; `None` is outside, where nothing is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Node of the sender.
    pub from: Option<Seat>,
    /// Node of the receiver.
    pub to: Option<Seat>,
}

/// Which journeys the table lists.
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

/// Where on the time axis lifelines stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// At the time they happened.
    #[default]
    Time,
    /// All from the left edge, so that their shapes can be compared.
    Start,
}

/// What lies on top of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Top {
    /// Nothing.
    #[default]
    Nothing,
    /// The ladder of the selected journey.
    Inspector,
    /// The help.
    Help,
}

/// Loadlines shown at most.
pub const MOST_SHOWN: usize = 16;

/// A loadline the user chose to see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    /// Which signal.
    pub channel: Channel,
    /// How it stands on its axis.
    pub vertical: Vertical,
}

/// What to tell the user, until the next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// In words.
    pub text: String,
    /// Something did not work.
    pub is_error: bool,
}

/// What the user chose to look at.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Which room fills the screen.
    pub room: Room,
    /// Whether the picture stands still.
    pub paused: bool,
    /// The user chose the timebase; else the scope does.
    pub timebase_fixed: bool,
    /// Where lifelines stand.
    pub align: Align,
    /// Only journeys of this route.
    pub route: Option<Route>,
    /// Only journeys of this protocol.
    pub proto: Option<Proto>,
    /// Which journeys the table lists.
    pub list: List,
    /// The hop whose details are shown.
    pub hop: Option<Hop>,
    /// The [key](Lifeline::key) of the selected journey.
    pub journey: Option<u64>,
    /// What lies on top.
    pub top: Top,
    /// Whether the picture rolls.
    pub roll: Roll,
    /// Loadlines shown, in order.
    pub channels: Vec<Shown>,
    /// Which of them the vertical controls move: an index.
    pub channel: usize,
    /// Cursors, if they are shown.
    pub cursors: Option<Cursors>,
    /// Over which stretch is measured.
    pub over: Over,
    /// The computed channel.
    pub math: Option<Math>,
    /// One signal against another.
    pub xy: Option<(Channel, Channel)>,
    /// How long lifelines stay.
    pub persistence: Persistence,
    /// Only journeys for which this holds.
    pub filter: Option<Filter>,
    /// Only what has to do with these, each of another kind.
    pub picks: Vec<Pick>,
    /// What flows are ordered by.
    pub order: FlowOrder,
    /// The selected row of the room's table.
    pub row: usize,
    /// In the events' room: so many events after the one in the middle of the picture.
    pub event: i64,
    /// The user wants a recording to run.
    pub recording: bool,
    /// What to tell the user.
    pub message: Option<Message>,
    /// Whether the user asked to end.
    pub quit: bool,
}

impl View {
    /// Whether filters and picks let a journey through.
    pub fn accepts(&self, line: &Lifeline, names: &Names) -> bool {
        // Of a journey that was not seen to its end the other side may only be missing.
        let side = |wanted: Option<Seat>, seen: Option<Seat>| {
            wanted == seen || (seen.is_none() && !line.journey.verdict.is_whole())
        };
        self.proto.is_none_or(|proto| proto == line.journey.proto)
            && self.route.is_none_or(|route| side(route.from, line.from) && side(route.to, line.to))
            && self.picks.iter().all(|pick| pick.means(line, names))
            && self.filter.as_ref().is_none_or(|filter| filter.matches(&line.journey, names))
    }

    /// Whether anything is left out.
    pub fn is_narrowed(&self) -> bool {
        self.proto.is_some() || self.route.is_some() || !self.picks.is_empty() || self.filter.is_some()
    }
}
