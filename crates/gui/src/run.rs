//! A real window.

use crate::app::{Ask, Window};
use crate::chosen::Chosen;
use crate::shared::Shared;
use crate::world::{Trouble, World};
use eframe::{NativeOptions, Renderer};
use egui::ViewportBuilder;
use magscope_scope::Scope;
use magscope_scope::command::keys::KeyMap;
use std::sync::Arc;
use std::thread;
use winit::platform::wayland::EventLoopBuilderExtWayland;
use winit::platform::x11::EventLoopBuilderExtX11;

/// Reason why no window opened.
#[derive(Debug, thiserror::Error)]
pub enum GuiError {
    /// No display, no OpenGL, or no memory.
    #[error("no window could be opened: {0}")]
    Window(String),
}

/// Opens the window on a scope that `feed` feeds in the calling thread, for captures that cannot change thread.
/// The window runs in another thread. Returns when both have ended; closing the window stops the feed.
pub fn run_with_local_feed(
    world: Arc<dyn World>,
    keys: KeyMap,
    title: String,
    scope: Scope,
    feed: impl FnOnce(&Shared) -> Result<(), Trouble>,
) -> Result<(), GuiError> {
    let shared = Arc::new(Shared::new(scope));
    let ask = Ask::Separate(title, shared.clone());
    let shown = shared.clone();
    let window = thread::Builder::new().name("window".to_owned()).spawn(move || {
        let ended = run(world, keys, ask);
        shown.end();
        ended
    });
    let window = window.map_err(|error| GuiError::Window(error.to_string()))?;
    if let Err(trouble) = feed(&shared) {
        shared.fail(trouble);
    }
    window.join().unwrap_or_else(|_| Err(GuiError::Window("its thread failed".to_owned())))
}

/// Opens the window and returns when it is closed. The calling thread becomes the window's.
pub fn run(world: Arc<dyn World>, keys: KeyMap, ask: Ask) -> Result<(), GuiError> {
    let chosen = Chosen::read(&world.settings());
    let viewport = ViewportBuilder::default()
        .with_title("magnet-scope")
        .with_app_id("magnet-scope")
        .with_inner_size([chosen.window.0, chosen.window.1])
        .with_min_inner_size([640.0, 400.0])
        .with_drag_and_drop(true);
    let options = NativeOptions {
        viewport,
        renderer: Renderer::Glow,
        multisampling: 0,
        persist_window: false,
        system_font_fallback: false,
        // X11 and Wayland allow any thread; the feed may need the first one.
        event_loop_builder: Some(Box::new(|builder| {
            EventLoopBuilderExtX11::with_any_thread(builder, true);
            EventLoopBuilderExtWayland::with_any_thread(builder, true);
        })),
        ..NativeOptions::default()
    };
    let made = Box::new(move |cc: &eframe::CreationContext<'_>| {
        Ok(Box::new(Window::new(&cc.egui_ctx, world, keys, ask)) as Box<dyn eframe::App>)
    });
    eframe::run_native("magnet-scope", options, made)
        .map_err(|error| GuiError::Window(plain(&error.to_string()).to_owned()))
}

/// Removes a library's source position from a message.
fn plain(text: &str) -> &str {
    let place = text.find(".rs:").and_then(|at| text.get(at..)).and_then(|rest| rest.split_once(": "));
    place.map_or(text, |(_, message)| message)
}
