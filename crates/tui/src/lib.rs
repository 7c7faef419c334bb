//! Draws a scope in a terminal.
//!
//! Keys become actions ([`keys`]), actions change the scope, [`draw::draw`] turns a frame into cells and reads only.
//! [`run`] ties them to a real terminal and gives it back whatever happens.

pub mod draw;
mod error;
mod keyboard;
pub mod keys;
mod pace;
mod run;
mod signals;
mod terminal;
mod theme;

pub use error::TuiError;
pub use run::{Exit, Pump, run};
pub use theme::Theme;
