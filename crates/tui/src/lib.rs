//! Draws a scope in a terminal.
//!
//! Keys become commands ([`keys`]) and then actions on the scope ([`Front`]); [`draw`] turns a frame into
//! cells. [`run`] connects them to a real terminal and always restores it.
//!
//! # Modules
//!
//! - `palette`, `prompt`: commands by name. `front`: between the terminal's events and the scope (pure).
//! - `draw/`: one panel per file. `theme/`: colours in TOML. `ascii`: translates finished cells.
//! - `picture`: a screen without a terminal.
//! - `run`, `terminal`, `keyboard`, `signals`: the real terminal. `pace`, `counted`: frame rate.

mod ascii;
mod counted;
pub mod draw;
mod error;
mod front;
mod keyboard;
mod pace;
mod palette;
mod picture;
mod prompt;
mod run;
pub mod shot;
mod signals;
mod terminal;
mod theme;

pub use ascii::is_utf8;
pub use error::TuiError;
pub use front::{Front, HostRequest, Options};
pub use magscope_scope::command::keys;
pub use picture::{BadKey, BadPicture, Picture};
pub use run::{Exit, Pump, run};
pub use theme::{Depth, Theme, ThemeError, parse as parse_theme};
