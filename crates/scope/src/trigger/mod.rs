//! The trigger: what the picture waits for.

mod edge;
mod text;
mod watch;

pub use text::TriggerError;
pub use watch::MOST_CAPTURES;
pub(crate) use watch::{Kept, Watch};

use crate::channel::Channel;
use magscope_core::{Filter, Hop, HopSet};
use std::fmt;

/// How a value has to pass its threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edge {
    /// It is above: `>`.
    Above(f64),
    /// It is below: `<`.
    Below(f64),
    /// It was not above just before, and is: `rises`.
    Rises(f64),
    /// It was not below just before, and is: `falls`.
    Falls(f64),
    /// It grows by more than so much a second: `slope >`; of a negative number, it falls by more.
    Slope(f64),
}

/// What the trigger waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The time from one hop to a later one, nanoseconds; "just before" is the journey before in the same flow.
    Latency {
        /// From here.
        from: Hop,
        /// To here.
        to: Hop,
        /// How it passes the threshold.
        edge: Edge,
    },
    /// A signal of any connection, in its own unit.
    Signal {
        /// Which.
        channel: Channel,
        /// How it passes the threshold.
        edge: Edge,
    },
    /// A journey for which this holds, in the words of `--where`.
    Journey(Filter),
    /// The kernel dropped a packet.
    Drop,
    /// A byte range was sent again.
    Retransmit,
    /// Events were lost by the instrument.
    EventLoss,
    /// A custom probe was hit: its name, as [`crate::Probe::name`].
    Hit(String),
}

/// What it does while nothing happens, and after something did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The picture goes on by itself while nothing happens.
    #[default]
    Auto,
    /// The picture waits.
    Normal,
    /// It waits, and stops after the first time.
    Single,
}

/// What is left out after it fired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HoldOff {
    /// Nothing.
    #[default]
    Nothing,
    /// All that follows within so many nanoseconds of event time.
    Time(u64),
    /// The next so many matches.
    Matches(u64),
}

/// How the trigger is set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What it waits for; nothing, and the picture is taken for the slowest journey.
    pub condition: Option<Condition>,
    /// Auto, normal or single.
    pub mode: Mode,
    /// What is left out after it fired.
    pub hold_off: HoldOff,
    /// How much of the kept window lies before the trigger, per cent.
    pub pre_per_cent: u8,
    /// How long a window is kept at every trigger, nanoseconds.
    pub window_ns: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            condition: None,
            mode: Mode::Auto,
            hold_off: HoldOff::Nothing,
            pre_per_cent: 50,
            window_ns: 1_000_000_000,
        }
    }
}

/// Where the trigger stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is waited for.
    #[default]
    Off,
    /// It waits.
    Armed,
    /// It fired, and the window behind it is not full yet.
    Filling,
    /// It fired lately and is held off.
    HeldOff,
    /// A single shot was taken: the picture stands until it is armed again.
    Stopped,
}

/// What is kept of one trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Capture {
    /// Number in the order of firing, from 1.
    pub number: u64,
    /// When it fired.
    pub at_ns: u64,
    /// First instant that is kept.
    pub from_ns: u64,
    /// Last instant that is kept.
    pub to_ns: u64,
    /// The [key](crate::Lifeline::key) of the journey that did it, if one did.
    pub journey: Option<u64>,
    /// What happened, in words: `hop(dev.recv,app.recv) = 4.02 ms`.
    pub because: String,
}

impl Condition {
    /// The hops that it rests on.
    pub fn hops(&self) -> HopSet {
        match self {
            Self::Latency { from, to, .. } => [*from, *to].into_iter().collect(),
            Self::Signal { channel, .. } if channel.is_of_connection() => {
                std::iter::once(Hop::TcpState).collect()
            }
            Self::Journey(filter) => filter.hops(),
            Self::Drop => std::iter::once(Hop::SkbDrop).collect(),
            Self::Retransmit => std::iter::once(Hop::TcpRetransmit).collect(),
            Self::Signal { .. } | Self::EventLoss | Self::Hit(_) => HopSet::EMPTY,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Normal => "normal",
            Self::Single => "single",
        })
    }
}
