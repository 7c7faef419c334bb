//! Draws a scope in a window.
//!
//! [`Front`] is the window without a window: a scope goes in, egui's shapes come out, and what was asked for goes back as
//! [`magscope_scope::Action`]s and [`Wish`]es. [`run`] ties it to a real window and to the [`World`]: whoever opens files and
//! feeds scopes, each [`Feed`] in a thread of its own with the scope [`Shared`] between them.
//!
//! # Modules
//!
//! - `front`: the window without a window. `time/`: the time line. `below/`, `side`, `minimap`, `loadlines`, `over/`: panels around it.
//! - `cache`: textures and meshes until what they show changes. `app`: what is open. `jobs`: long work. `shared`: the scope between the
//!   window's thread and its feed's; the feed yields.
//! - What draws has no privilege: the capture attaches first and stays in the first thread.

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
