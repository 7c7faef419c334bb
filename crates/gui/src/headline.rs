//! The headline: the worst true thing in one line, and a button that leads to its evidence.

use crate::ui_context::UiContext;
use egui::{Align, Label, Layout, RichText, Ui};
use magscope_scope::{Action, Evidence, Frame, HeadlineKind};

/// Draws the line.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let headline = frame.headline;
    let (sign, colour) = match headline.kind {
        HeadlineKind::Loss | HeadlineKind::Unreached | HeadlineKind::Unanswered => ("! ", cx.c.bad),
        HeadlineKind::Slow | HeadlineKind::Retransmissions => ("! ", cx.c.accent),
        HeadlineKind::MissedEvents => ("? ", cx.c.missed),
        HeadlineKind::NothingWrong => ("", cx.c.text),
        HeadlineKind::Unknown => ("", cx.c.dim),
    };
    let words = if headline.text.is_empty() { "nothing observed yet" } else { &headline.text };
    ui.horizontal(|ui| {
        ui.set_min_height(ui.spacing().interact_size.y); // the button comes and goes
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if headline.evidence != Evidence::None
                && ui.small_button("Show why").on_hover_text("show what this is concluded from (!)").clicked()
            {
                cx.act(Action::ShowEvidence);
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                let text = RichText::new(format!("{sign}{words}")).color(colour).strong();
                ui.add(Label::new(text).truncate()).on_hover_text(words);
            });
        });
    });
}
