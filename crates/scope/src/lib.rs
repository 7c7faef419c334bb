//! The oscilloscope without a screen: input becomes an [`Action`], an action changes the [`Scope`], a [`Frame`] only
//! reads it.
//!
//! Nothing here knows threads, files, the kernel or a screen, and time is the time of events: a recording played back
//! shows what the live picture showed.

mod action;
pub mod blame;
pub mod format;
mod frame;
mod lane;
mod lifeline;
mod memory;
mod overhead;
mod scope;
mod stats;
mod sweep;
mod timebase;
mod totals;
mod view;
mod window;

pub use action::Action;
pub use frame::{Footer, Frame, Header, Inspector, LadderRow, Listed, State};
pub use lane::{Lane, Place};
pub use lifeline::{Lifeline, Step};
pub use overhead::{Overhead, Recording};
pub use scope::{Options, Scope};
pub use stats::HopStats;
pub use sweep::Sweep;
pub use timebase::{DIVISIONS, Timebase};
pub use totals::Totals;
pub use view::{Align, List, Route, Top, View};
pub use window::Latency;
