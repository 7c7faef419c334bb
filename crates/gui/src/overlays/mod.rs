//! Overlays: prompts, the palette, help, channels, the file picker, errors.

mod ask;
mod channels;
mod help;
mod palette;
mod pick;
mod trouble;

pub use ask::Asked;
pub use palette::Typed;
pub use pick::{Pick, Picker};

use crate::ui_context::UiContext;
use crate::world::{Trouble, World};
use egui::{Align2, Context, Id, Modal, Ui};
use magscope_scope::Scope;
use magscope_scope::command::keys::KeyMap;
use magscope_scope::command::{Command, Question};

/// An overlay.
#[derive(Debug)]
pub enum Overlay {
    /// A text prompt.
    Ask(Asked),
    /// The command palette.
    Palette(Typed),
    /// Keys and commands.
    Help,
    /// The signals, to choose loadlines.
    Channels,
    /// Request for a file picker.
    Pick(Pick),
    /// An open file picker.
    Picking(Picker),
    /// An error.
    Trouble(Trouble),
}

impl Overlay {
    /// A prompt with the current value.
    pub fn ask(question: Question, now: String) -> Self {
        Self::Ask(Asked::new(question, now))
    }
}

/// Result of drawing an overlay.
pub enum Next {
    /// The overlay stays open.
    Stay(Overlay),
    /// The overlay is closed.
    Gone,
    /// A command was chosen, with its argument.
    Run(&'static Command, String),
}

/// Draws the overlay and handles its input.
pub fn show(
    ctx: &Context,
    over: Overlay,
    scope: &mut Scope,
    keys: &KeyMap,
    world: &dyn World,
    cx: &mut UiContext,
) -> Next {
    match over {
        Overlay::Ask(asked) => ask::show(ctx, asked, scope, cx),
        Overlay::Palette(typed) => palette::show(ctx, typed, keys, cx),
        Overlay::Help => help::show(ctx, keys, cx),
        Overlay::Channels => channels::show(ctx, scope, cx),
        Overlay::Pick(what) => Next::Stay(Overlay::Picking(Picker::new(what, world))),
        Overlay::Picking(picker) => pick::show(ctx, picker, scope, world, cx),
        Overlay::Trouble(trouble) => trouble::show(ctx, trouble, cx),
    }
}

/// A centred modal window. Returns true if it is to be closed.
fn modal(ctx: &Context, name: &str, width: f32, add: impl FnOnce(&mut Ui)) -> bool {
    let area = Modal::default_area(Id::unique(name)).anchor(Align2::CENTER_TOP, [0.0, 90.0]);
    let response = Modal::new(Id::unique(name)).area(area).show(ctx, |ui| {
        ui.set_width(width.min(ctx.content_rect().width() - 40.0));
        ui.heading(name);
        ui.add_space(4.0);
        add(ui);
    });
    response.should_close()
}
