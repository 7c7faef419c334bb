//! The trigger: the condition that starts a picture.

mod edge;
mod text;
mod watch;

pub use text::TriggerError;
pub(crate) use watch::{CaptureWindow, Watch};
pub use watch::{MOST_CAPTURES, MOST_OPEN};

use crate::channel::Channel;
use magscope_core::exchange::ExchangeFilter;
use magscope_core::{Filter, Hop, HopSet};
use std::fmt;

/// How a value passes its threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edge {
    /// Value above the threshold: `>`.
    Above(f64),
    /// Value below the threshold: `<`.
    Below(f64),
    /// Value above, after one not above: `rises`.
    Rises(f64),
    /// Value below, after one not below: `falls`.
    Falls(f64),
    /// Growth by more than this per second: `slope >`; for a negative number, a fall by more.
    Slope(f64),
}

/// The trigger condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The time from one hop to a later one, nanoseconds; "just before" is the previous journey in the same
    /// flow.
    Latency {
        /// First hop.
        from: Hop,
        /// Second hop.
        to: Hop,
        /// How it passes the threshold.
        edge: Edge,
    },
    /// A signal of any connection, in its own unit.
    Signal {
        /// The channel.
        channel: Channel,
        /// How it passes the threshold.
        edge: Edge,
    },
    /// A journey that matches a `--where` expression.
    Journey(Filter),
    /// An exchange, as a condition of `requests --where`.
    Request(ExchangeFilter),
    /// The kernel dropped a packet.
    Drop,
    /// A byte range was sent again.
    Retransmit,
    /// The instrument missed events.
    EventLoss,
    /// A custom probe was hit: its name, as [`crate::Probe::name`].
    Hit(String),
    /// One of two hosts' clocks stepped by more than this, in either direction, as packets between them show.
    ClockStep {
        /// Names of the hosts, in any order.
        hosts: (String, String),
        /// Nanoseconds.
        above_ns: u64,
    },
}

/// Behaviour without a match, and after one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The picture continues without a match.
    #[default]
    Auto,
    /// The picture waits.
    Normal,
    /// Waits, and stops after the first match.
    Single,
}

/// The hold-off after a trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HoldOff {
    /// No hold-off.
    #[default]
    Nothing,
    /// All matches within this time, nanoseconds of event time.
    Time(u64),
    /// This number of further matches.
    Matches(u64),
}

/// Settings of the trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The condition; with `None` the picture is taken for the slowest journey.
    pub condition: Option<Condition>,
    /// Auto, normal or single.
    pub mode: Mode,
    /// The hold-off.
    pub hold_off: HoldOff,
    /// Part of the captured window before the trigger, per cent.
    pub pre_per_cent: u8,
    /// Length of the captured window, nanoseconds.
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

/// Phase of the trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TriggerState {
    /// No condition.
    #[default]
    Off,
    /// Waiting for a match.
    Armed,
    /// Fired; the window after it is not complete yet.
    Filling,
    /// Fired recently; the hold-off is active.
    HeldOff,
    /// A single shot is complete: the picture holds until the trigger is armed again.
    Stopped,
}

/// The capture of one trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Capture {
    /// Number in the order of firing, from 1.
    pub number: u64,
    /// Instant at which it fired.
    pub at_ns: u64,
    /// First instant of the window.
    pub from_ns: u64,
    /// Last instant of the window.
    pub to_ns: u64,
    /// The [key](crate::Lifeline::key) of the journey that caused it, if any.
    pub journey: Option<u64>,
    /// The cause, in words: `hop(dev.recv,app.recv) = 4.02 ms`.
    pub because: String,
}

impl Condition {
    /// The hops of the condition.
    pub fn hops(&self) -> HopSet {
        match self {
            Self::Latency { from, to, .. } => [*from, *to].into_iter().collect(),
            Self::Signal { channel, .. } if channel.is_of_connection() => {
                std::iter::once(Hop::TcpState).collect()
            }
            Self::Journey(filter) => filter.hops(),
            Self::Request(filter) => filter.hops(),
            Self::Drop => std::iter::once(Hop::SkbDrop).collect(),
            Self::Retransmit => std::iter::once(Hop::TcpRetransmit).collect(),
            Self::Signal { .. } | Self::EventLoss | Self::Hit(_) | Self::ClockStep { .. } => HopSet::EMPTY,
        }
    }

    /// True if it cannot occur where the kernel adds up in place of records.
    pub const fn needs_records(&self) -> bool {
        match self {
            Self::Signal { channel, .. } => channel.is_of_connection(),
            Self::EventLoss | Self::Hit(_) => false,
            Self::Latency { .. }
            | Self::Journey(_)
            | Self::Request(_)
            | Self::Drop
            | Self::Retransmit
            | Self::ClockStep { .. } => true,
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
