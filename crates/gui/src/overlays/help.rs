//! Help: mouse functions, and every command with its keys.

use super::{Next, Overlay, modal};
use crate::ui_context::UiContext;
use egui::{Context, Grid, RichText, ScrollArea};
use magscope_scope::command::COMMANDS;
use magscope_scope::command::keys::KeyMap;

/// Mouse functions on the time line.
const MOUSE: &[(&str, &str)] = &[
    ("wheel", "zoom to the pointer, a quarter a notch"),
    ("shift + wheel, sideways wheel", "earlier, later"),
    ("drag", "select a stretch: cursors stand at its ends, and it is measured"),
    ("shift + drag, right or middle drag", "move the picture"),
    ("click", "select the journey, or the slow one in the rail above the lanes, and zoom to it"),
    ("double click", "show all there is"),
    ("right click on a mark or a row", "only this, not this, copy the row"),
    ("right click elsewhere", "the stretch shown before"),
    ("click on a hop's name", "select the hop"),
    ("drag on the line of the whole session", "move the window of the picture"),
];

pub fn show(ctx: &Context, keys: &KeyMap, cx: &mut UiContext) -> Next {
    let close = modal(ctx, "help", 760.0, |ui| {
        let height = (ctx.content_rect().height() - 240.0).max(120.0);
        ScrollArea::vertical().max_height(height).auto_shrink([false, true]).show(ui, |ui| {
            ui.label(RichText::new("the mouse on the time line").strong().color(cx.c.accent));
            Grid::new("mouse").num_columns(2).striped(true).show(ui, |ui| {
                for (what, words) in MOUSE {
                    ui.label(*what);
                    ui.label(*words);
                    ui.end_row();
                }
            });
            ui.add_space(8.0);
            ui.label(
                RichText::new("keys and commands (the terminal has others for w, a, s, d and f)")
                    .strong()
                    .color(cx.c.accent),
            );
            Grid::new("keys").num_columns(3).striped(true).show(ui, |ui| {
                for command in COMMANDS.iter().filter(|command| crate::front::is_for_windows(command)) {
                    ui.label(RichText::new(keys.shown(command)).monospace());
                    ui.label(RichText::new(command.name).monospace());
                    ui.label(command.words);
                    ui.end_row();
                }
            });
        });
        ui.add_space(4.0);
        if ui.button("Close").clicked() {
            ui.close();
        }
    });
    if close { Next::Gone } else { Next::Stay(Overlay::Help) }
}
