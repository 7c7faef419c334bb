//! Draws a scope in a window.
//!
//! [`Front`] is the window without a window: a scope goes in, egui's shapes come out, and what was asked for goes back as
//! [`magscope_scope::Action`]s and [`Wish`]es. [`run`] ties it to a real window and to the [`World`]: whoever opens files and
//! feeds scopes, each [`Feed`] in a thread of its own with the scope [`Shared`] between them.

mod app;
mod bar;
mod below;
mod cache;
mod chart;
mod chosen;
mod colours;
mod compare;
mod cx;
mod front;
mod grid;
mod jobs;
mod keys;
mod loadlines;
mod minimap;
mod over;
mod picture;
mod run;
mod shared;
mod side;
mod text;
mod time;
mod welcome;
mod wish;
mod world;

pub use app::{Ask, Window};
pub use chosen::{Axes, Chosen, Light, Tab, Tint};
pub use colours::{Colours, DARK, LIGHT, dress};
pub use compare::{Compared, Spreads};
pub use front::Front;
pub use magscope_scope::command::keys::KeyMap;
pub use run::{GuiError, run, run_beside};
pub use shared::Shared;
pub use wish::Wish;
pub use world::{Feed, Format, Job, Opened, Part, Trouble, World};
