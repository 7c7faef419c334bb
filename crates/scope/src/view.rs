//! What the user chose to look at.

use crate::lifeline::Lifeline;
use crate::timebase::Timebase;
use magscope_core::{Hop, Proto};

/// From which node to which; `None` is outside, where nothing is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Network namespace of the sender.
    pub from: Option<u32>,
    /// Network namespace of the receiver.
    pub to: Option<u32>,
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

/// What the user chose to look at.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Whether the picture stands still.
    pub paused: bool,
    /// Time a division.
    pub timebase: Timebase,
    /// The user chose the timebase; else the scope does.
    pub timebase_fixed: bool,
    /// Where lifelines stand.
    pub align: Align,
    /// Divisions the picture was moved by.
    pub pan: i64,
    /// Only journeys of this route.
    pub route: Option<Route>,
    /// Only journeys of this protocol.
    pub proto: Option<Proto>,
    /// Which journeys the table lists.
    pub list: List,
    /// The hop whose details are shown.
    pub hop: Option<Hop>,
    /// The selected journey.
    pub journey: Option<u64>,
    /// What lies on top.
    pub top: Top,
    /// Whether the user asked to end.
    pub quit: bool,
}

impl View {
    /// Whether the filters let a journey through.
    pub fn accepts(&self, line: &Lifeline) -> bool {
        // Of a journey that was not seen to its end the other side may only be missing.
        let side = |wanted: Option<u32>, seen: Option<u32>| {
            wanted == seen || (seen.is_none() && !line.journey.verdict.is_whole())
        };
        self.proto.is_none_or(|proto| proto == line.journey.proto)
            && self.route.is_none_or(|route| side(route.from, line.from) && side(route.to, line.to))
    }
}
