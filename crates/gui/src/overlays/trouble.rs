//! An error: the failure, its cause, and the remedy.

use super::{Next, Overlay, modal};
use crate::ui_context::UiContext;
use crate::world::Trouble;
use egui::{Context, RichText};

pub fn show(ctx: &Context, trouble: Trouble, cx: &mut UiContext) -> Next {
    let close = modal(ctx, "this did not work", 620.0, |ui| {
        ui.label(RichText::new(&trouble.what).color(cx.c.bad).strong());
        if !trouble.why.is_empty() {
            ui.label(&trouble.why);
        }
        if !trouble.next.is_empty() {
            ui.add_space(4.0);
            ui.label(RichText::new("what to do").color(cx.c.dim).small());
            ui.label(RichText::new(&trouble.next).color(cx.c.accent));
        }
        ui.add_space(6.0);
        ui.horizontal(|ui| {
            if ui.button("Close").clicked() {
                ui.close();
            }
            if ui.button("Copy").on_hover_text("copy these words").clicked() {
                ui.ctx().copy_text(format!("{}\n{}\n{}", trouble.what, trouble.why, trouble.next));
            }
        });
    });
    if close { Next::Gone } else { Next::Stay(Overlay::Trouble(trouble)) }
}
