//! What lies over the window: questions, the palette, help, channels, the file picker, trouble.

mod ask;
mod channels;
mod help;
mod palette;
mod pick;
mod trouble;

pub use ask::Asked;
pub use palette::Typed;
pub use pick::{Pick, Picker};

use crate::cx::Cx;
use crate::world::{Trouble, World};
use egui::{Align2, Context, Id, Modal, Ui};
use magscope_scope::Scope;
use magscope_scope::command::keys::KeyMap;
use magscope_scope::command::{Command, Question};

/// What lies over the window.
#[derive(Debug)]
pub enum Over {
    /// A line of text is asked for.
    Ask(Asked),
    /// The commands, found by typing.
    Palette(Typed),
    /// Keys and commands.
    Help,
    /// The signals, to choose loadlines.
    Channels,
    /// A file picker is asked for.
    Pick(Pick),
    /// One is open.
    Picking(Picker),
    /// Something went wrong.
    Trouble(Trouble),
}

impl Over {
    /// Asks a question, with the answer there is.
    pub fn ask(question: Question, now: String) -> Self {
        Self::Ask(Asked::new(question, now))
    }
}

/// What came of a look at it.
pub enum Next {
    /// It stays.
    Stay(Over),
    /// It is done with.
    Gone,
    /// A command was chosen, with what was typed behind it.
    Run(&'static Command, String),
}

/// Draws what lies over the window, and takes its input.
pub fn show(
    ctx: &Context,
    over: Over,
    scope: &mut Scope,
    keys: &KeyMap,
    world: &dyn World,
    cx: &mut Cx,
) -> Next {
    match over {
        Over::Ask(asked) => ask::show(ctx, asked, scope, cx),
        Over::Palette(typed) => palette::show(ctx, typed, keys, cx),
        Over::Help => help::show(ctx, keys, cx),
        Over::Channels => channels::show(ctx, scope, cx),
        Over::Pick(what) => Next::Stay(Over::Picking(Picker::new(what, world))),
        Over::Picking(picker) => pick::show(ctx, picker, scope, world, cx),
        Over::Trouble(trouble) => trouble::show(ctx, trouble, cx),
    }
}

/// A window in the middle that takes all input. Whether it is to be closed.
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
