//! Draws a scope in a window.
//!
//! [`Front`] is the window's logic without a window: it draws a scope as egui shapes and returns requests as
//! [`magscope_scope::Action`]s and [`HostRequest`]es. [`run`] connects it to a real window and to the [`World`], which
//! opens files and feeds scopes. Each [`Feed`] has its own thread and shares the scope by [`Shared`].
//!
//! # Modules
//!
//! - `front`: the logic without a window. `time/`: the time line. `panels/`, `side`, `minimap`, `loadlines`,
//!   `overlays/`: panels around it.
//! - `cache`: textures and meshes until their content changes. `app`: the open session. `jobs`: long work.
//!   `shared`: the scope between the window's thread and its feed's; the feed yields.
//! - The drawing thread has no privilege: the capture attaches first and stays in the first thread.

mod app;
mod bar;
mod cache;
mod chart;
mod chosen;
mod colours;
mod compare;
mod front;
mod grid;
mod headline;
mod host_request;
mod jobs;
mod keys;
mod loadlines;
mod menu;
mod minimap;
mod overlays;
mod panels;
mod picture;
mod room;
mod run;
mod selection;
mod shared;
mod side;
mod splitter;
mod text;
mod time;
mod ui_context;
mod welcome;
mod wheel;
mod world;

pub use app::{Ask, Window};
pub use chosen::{Axes, Chosen, ChosenTimes, Light, Tint};
pub use colours::{Colours, DARK, LIGHT, dress};
pub use compare::{Compared, Spreads};
pub use front::Front;
pub use host_request::HostRequest;
pub use magscope_scope::command::keys::KeyMap;
pub use run::{GuiError, run, run_with_local_feed};
pub use shared::Shared;
pub use world::{Feed, Format, Job, Opened, Part, Trouble, World};
