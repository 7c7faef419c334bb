//! The oscilloscope without a screen: input becomes an [`Action`], an action changes the [`Scope`], a [`Frame`]
//! only reads it.
//!
//! This crate uses no threads, files, kernel or screen. Time is the time of events: a replayed recording shows
//! the same as the live picture.
//!
//! # What a front end reads
//!
//! [`Scope::frame`] is cheap and always current; a front end draws it after [`Scope::revision`] has grown. The
//! fields of a [`Frame`] hold the data of most views: the [controls](Controls) (the user's choices, and a
//! [message](Controls::message)), the [lanes](Frame::lanes), the [picture](Frame::sweep) and the table below it.
//! Further fields: the [inspector](Frame::inspector), the [transport](Frame::transport), the
//! [wire](Frame::wire) with its bound, the [trigger](Frame::trigger), the [cursors](Frame::cursors) and the
//! [footer](Frame::footer). Data of one view or panel are methods, computed on demand: [`Frame::density`],
//! [`Frame::points`], [`Frame::loadlines`], [`Frame::minimap`], [`Frame::heat_map`], [`Frame::sum_map`],
//! [`Frame::flows`], [`Frame::topology`], [`Frame::journeys`], [`Frame::events`], [`Frame::clock`], [`Frame::losses`],
//! [`Frame::measurements`], [`Frame::math`], [`Frame::xy`], [`Frame::persistence`]. Methods for pictures take
//! the number of columns; their cost depends on that number and not on the length of the recording.
//!
//! A forwarder between the ends has the lanes [`Place::Forwarder`] and, while it is open, [`Place::Inside`]:
//! [`Frame::bands`] are those that the picture has, [`Frame::forwarding`] and [`Frame::leg`] what the highlighted journey did
//! there and over the wires.
//!
//! A custom probe has a lane with [`Lane::probe`] set: [`Frame::name_of`] names it, [`Frame::hits`] are its
//! points. [`Frame::stops`] draws a lifeline through it if the hit saw the journey's bytes. Its values are
//! [channels](Frame::channels) like all others. [`Frame::hit_heats`] are its rows in the view of hops.
//!
//! The kernel's sums, which replace events in a synthesis capture, have rows of their own there
//! ([`Frame::sum_map`]). They are never mixed with those of journeys: their times belong to packets and
//! sockets. Numbers from sums are marked: [`HopStats::summed`], [`look::Measurements::sums`],
//! [`look::FlowRow::summed`], [`Footer::sums`].
//!
//! Positions on the time axis are `f64`: 0 is the left edge of the picture, 1 the right one ([`Sweep::x`] and
//! every field named `x`, `a`, `b`, `at`). [`Lifeline::key`] identifies a journey; numbers ([`Lifeline::id`])
//! are for display. [`Frame::detail`] selects lifelines or density.
//!
//! # Modules
//!
//! - `scope/`: the instrument, one file a concern. Live data pass through `ingest` once. A recording is *surveyed*: everything passes through
//!   once, into the pyramid and the tables; a stretch whose single journeys are drawn is read again (`Scope::wants`, `Scope::fill`).
//!   So the cost of a picture does not depend on the length of the recording.
//! - `pyramid/`: tiles. `horizon`: zoom and pan. `sums/`: the kernel's sums over time. `trigger/`: conditions, hold-off, windows.
//! - `transport`: the playhead. `measure`, `signals`, `persistence`, `journal`, `memory`: measurements, series, tables.
//! - `counts`: tiles and flows, twice while a filter is on: those of all journeys go on.
//! - `bands`: which forwarders have rows in the picture. `lane`: the list of rows.
//! - `probes`, `probe_matches`: custom probes, and which of their hits saw which lifeline's bytes.
//! - `requests`: exchanges by service, and the slowest. `flows/`: flows, and groups of them. `topology/`: paths, leg by leg.
//! - `condition`: rows and marks as conditions of the filter. `explain/`: what labels mean. `tour`: the steps of the tour.
//! - `views`: the table of views, for every front end. `controls`: the user's choices.
//! - `look/`: the types that a frame returns. `command/`: the one table of commands, keys and questions for every front end.

mod action;
mod axis;
mod bands;
pub mod blame;
mod channel;
mod choice;
mod clocks;
pub mod command;
pub mod condition;
mod controls;
mod counts;
mod cursor;
mod edge;
mod ends;
pub mod explain;
mod flows;
pub mod format;
mod frame;
mod horizon;
mod journal;
mod lane;
mod lifeline;
pub mod look;
mod math;
mod measure;
mod memory;
mod names;
mod overhead;
mod persistence;
mod pick;
mod probe_matches;
mod probes;
mod protocols;
mod pyramid;
pub mod recorded;
mod requests;
mod roll;
mod scan;
mod scope;
mod signals;
mod stats;
mod sums;
mod sweep;
mod switches;
mod timebase;
mod topology;
mod totals;
mod tour;
pub mod transport;
pub mod trigger;
mod views;
mod weights;
mod window;

pub use action::{Action, SeekPlace};
pub use bands::Band;
pub use channel::{Channel, Unit, UnknownChannel, ValueName, Vertical};
pub use choice::Choice;
pub use controls::{Align, Controls, List, Message, Route, Shown, Top, Within};
pub use cursor::{CursorId, Cursors};
pub use edge::Edge;
pub use ends::{ends, ends_within};
pub use flows::GROUPINGS;
pub use frame::{Detail, Footer, Frame, Header, Inspector, LadderRow, Listed, State};
pub use lane::{Lane, Place};
pub use lifeline::{Lifeline, Step};
pub use magscope_report::{Evidence, GroupBy, Headline, HeadlineKind, wrap};
pub use math::{Math, MathError};
pub use measure::MeasureSpan;
pub use names::NetnsKey;
pub use overhead::{Budget, Overhead, Recording};
pub use persistence::Persistence;
pub use pick::Pick;
pub use probes::{Probe, ProbeId};
pub use protocols::MAX_PROTOCOLS;
pub use roll::Roll;
pub use scope::{Options, Scope};
pub use stats::HopStats;
pub use sweep::Sweep;
pub use switches::HopState;
pub use timebase::{DIVISIONS, Timebase};
pub use topology::{PathLeg, PathPick, PathPlace};
pub use totals::Totals;
pub use tour::{TourFault, TourStep};
pub use transport::Transport;
pub use views::{Rows, VIEWS, View, ViewSpec};
pub use window::Latency;
