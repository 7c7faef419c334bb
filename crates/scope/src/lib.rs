//! The oscilloscope without a screen: input becomes an [`Action`], an action changes the [`Scope`], a [`Frame`] only
//! reads it.
//!
//! Nothing here knows threads, files, the kernel or a screen, and time is the time of events: a recording played back
//! shows what the live picture showed.
//!
//! # What a front end sees
//!
//! [`Scope::frame`] is cheap and always current; a front end draws it when [`Scope::revision`] has grown. The fields of a
//! [`Frame`] are what most rooms need: the [view](View) (what the user chose, and a [message](View::message) for them), the
//! [lanes](Frame::lanes), the [picture](Frame::sweep), the table below it, the [inspector](Frame::inspector), the
//! [transport](Frame::transport), the [wire](Frame::wire) with its bound, the [trigger](Frame::trigger), the
//! [cursors](Frame::cursors) and the [footer](Frame::footer). What only one room or panel needs is a method and is computed
//! when it is asked for: [`Frame::density`], [`Frame::points`], [`Frame::loadlines`], [`Frame::minimap`],
//! [`Frame::heat_map`], [`Frame::sum_map`], [`Frame::flows`], [`Frame::journeys`], [`Frame::events`], [`Frame::clock`], [`Frame::losses`],
//! [`Frame::measurements`], [`Frame::math`], [`Frame::xy`], [`Frame::persistence`]. Those that make a picture take the number of columns
//! there is room for; their work depends on that and not on how much was recorded.
//!
//! A custom probe has a lane where [`Lane::probe`] says so: [`Frame::name_of`] names it, [`Frame::hits`] are its points, and [`Frame::stops`]
//! takes a lifeline through it where the hit saw the journey's bytes. What it reads are [channels](Frame::channels) as all others are.
//! [`Frame::hit_heats`] are its rows in the room of hops.
//!
//! What the kernel added up in place of events has rows of its own there ([`Frame::sum_map`]), never among those of journeys: its times are of packets and
//! sockets. Numbers that are its are marked where they stand: [`HopStats::summed`], [`look::Measurements::sums`], [`look::FlowRow::summed`],
//! [`Footer::sums`].
//!
//! Positions on the time axis are `f64`: 0 is the left edge of the picture, 1 the right one ([`Sweep::x`] and every field
//! named `x`, `a`, `b`, `at`). Journeys are named by [`Lifeline::key`]; numbers ([`Lifeline::id`]) are for people.
//! [`Frame::detail`] says whether to draw lifelines or density.
//!
//! # Modules
//!
//! - `scope/`: the instrument, one file a concern. Live data pass through `ingest` once. A recording is *surveyed*: everything passes through
//!   once, into the pyramid and the tables; a stretch whose single journeys are drawn is read again (`Scope::wants`, `Scope::fill`).
//!   So the cost of a picture does not depend on the length of the recording.
//! - `pyramid/`: tiles. `horizon`: zoom and pan. `sums/`: the kernel's sums over time. `trigger/`: conditions, hold-off, windows.
//! - `transport`: the playhead. `measure`, `signals`, `persistence`, `flows`, `journal`, `memory`: measurements, series, tables.
//! - `probes`, `ties`: custom probes, and which of their hits saw which lifeline's bytes.
//! - `look/`: the types that a frame returns. `command/`: the one table of commands, keys and questions for every front end.

mod action;
mod axis;
pub mod blame;
mod channel;
mod clocks;
pub mod command;
mod cursor;
mod family;
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
mod probes;
mod pyramid;
pub mod recorded;
mod roll;
mod scan;
mod scope;
mod signals;
mod stats;
mod sums;
mod sweep;
mod ties;
mod timebase;
mod totals;
pub mod transport;
pub mod trigger;
mod view;
mod weights;
mod window;

pub use action::Action;
pub use channel::{Channel, Unit, UnknownChannel, ValueName, Vertical};
pub use cursor::{CursorId, Cursors};
pub use family::Family;
pub use frame::{Detail, Footer, Frame, Header, Inspector, LadderRow, Listed, State};
pub use lane::{Lane, Place};
pub use lifeline::{Lifeline, Step};
pub use look::Room;
pub use math::{Math, MathError};
pub use measure::Over;
pub use names::Seat;
pub use overhead::{Budget, Overhead, Recording};
pub use persistence::Persistence;
pub use pick::Pick;
pub use probes::{Probe, ProbeId};
pub use roll::Roll;
pub use scope::{Options, Scope};
pub use stats::HopStats;
pub use sweep::Sweep;
pub use timebase::{DIVISIONS, Timebase};
pub use totals::Totals;
pub use transport::Transport;
pub use view::{Align, List, Message, Route, Shown, Top, View};
pub use window::Latency;
