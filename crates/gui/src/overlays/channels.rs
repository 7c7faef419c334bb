//! The list of signals, to select loadlines and their axis scaling.

use super::{Next, Overlay, modal};
use crate::ui_context::UiContext;
use egui::{Context, Grid, RichText};
use magscope_scope::command::Question;
use magscope_scope::{Action, Scope};

pub fn show(ctx: &Context, scope: &Scope, cx: &mut UiContext) -> Next {
    let frame = scope.frame();
    let shown = &frame.controls.channels;
    let close = modal(ctx, "channels", 560.0, |ui| {
        ui.label(
            RichText::new("drawn below the lanes; those of TCP are of the picked connection, or the busiest")
                .color(cx.c.dim),
        );
        Grid::new("channels").num_columns(2).striped(true).min_col_width(240.0).show(ui, |ui| {
            for pair in frame.channels().chunks(2) {
                for channel in pair {
                    let mut on = shown.iter().any(|shown| shown.channel == *channel);
                    if ui.checkbox(&mut on, channel.name()).changed() {
                        cx.act(Action::ToggleChannel(*channel));
                    }
                }
                ui.end_row();
            }
        });
        if let Some(chosen) = shown.get(frame.controls.channel) {
            ui.separator();
            ui.horizontal_wrapped(|ui| {
                ui.label("vertical of");
                ui.label(RichText::new(chosen.channel.name()).color(cx.c.accent).strong());
                for (words, action) in [
                    ("next", Action::NextChannel(1)),
                    ("more/div", Action::VerticalScale(1)),
                    ("less/div", Action::VerticalScale(-1)),
                    ("up", Action::VerticalOffset(1)),
                    ("down", Action::VerticalOffset(-1)),
                    ("auto", Action::VerticalAuto),
                    (if chosen.vertical.log { "linear" } else { "logarithmic" }, Action::ToggleLog),
                ] {
                    if ui.button(words).clicked() {
                        cx.act(action);
                    }
                }
            });
        }
        ui.add_space(4.0);
        ui.horizontal(|ui| {
            if ui.button("Compute …").on_hover_text("a signal computed from others").clicked() {
                cx.over = Some(Overlay::ask(Question::Math, Question::Math.now(scope)));
                ui.close();
            }
            if ui.button("Close").clicked() {
                ui.close();
            }
        });
    });
    if close { Next::Gone } else { Next::Stay(Overlay::Channels) }
}
