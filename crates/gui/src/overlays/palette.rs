//! The command palette: commands matched by typed letters.

use super::ask::LONGEST;
use super::{Next, Overlay, modal};
use crate::ui_context::UiContext;
use egui::{Align, Context, Key, Layout, RichText, ScrollArea, TextEdit};
use magscope_scope::command::keys::KeyMap;
use magscope_scope::command::{behind, find};

/// The typed text, and the selected match.
#[derive(Debug, Default)]
pub struct Typed {
    text: String,
    chosen: usize,
}

pub fn show(ctx: &Context, mut typed: Typed, keys: &KeyMap, cx: &mut UiContext) -> Next {
    let mut run = None;
    let close = modal(ctx, "commands", 560.0, |ui| {
        let (up, down, enter) = ui.input(|input| {
            (input.key_pressed(Key::ArrowUp), input.key_pressed(Key::ArrowDown), input.key_pressed(Key::Enter))
        });
        let edit = TextEdit::singleline(&mut typed.text)
            .char_limit(LONGEST)
            .desired_width(f32::INFINITY)
            .hint_text("some letters of a command");
        let response = ui.add(edit);
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TextInput, true, "command"));
        response.request_focus();
        if response.changed() {
            typed.chosen = 0;
        }
        let found: Vec<_> = find(&typed.text).into_iter().filter(|c| crate::front::is_for_windows(c)).collect();
        let last = found.len().saturating_sub(1);
        typed.chosen = (typed.chosen + usize::from(down)).min(last).saturating_sub(usize::from(up));
        if enter && let Some(command) = found.get(typed.chosen) {
            run = Some((*command, behind(&typed.text).to_owned()));
        }
        // The keys at the right end are not below the scroll bar.
        let scroll = &mut ui.spacing_mut().scroll;
        scroll.floating_allocated_width = scroll.bar_width;
        ScrollArea::vertical().max_height(420.0).auto_shrink([false, true]).show(ui, |ui| {
            for (n, command) in found.iter().enumerate() {
                ui.horizontal(|ui| {
                    let name = RichText::new(command.name).monospace();
                    let row = ui.selectable_label(n == typed.chosen, name);
                    if n == typed.chosen && (up || down) {
                        row.scroll_to_me(None);
                    }
                    if row.clicked() {
                        run = Some((*command, String::new()));
                    }
                    ui.label(RichText::new(command.words).color(cx.c.dim));
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                        ui.label(RichText::new(keys.shown(command)).monospace().color(cx.c.dim));
                    });
                });
            }
            if found.is_empty() {
                ui.label(RichText::new("no command has these letters").color(cx.c.dim));
            }
        });
    });
    match run {
        Some((command, rest)) => Next::Run(command, rest),
        None if close => Next::Gone,
        None => Next::Stay(Overlay::Palette(typed)),
    }
}
