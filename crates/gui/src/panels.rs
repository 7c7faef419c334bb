//! The bottom panels, one per tab.

mod clock;
mod compare;
mod compare_words;
mod distributions;
mod events;
mod flows;
mod heat;
mod journeys;
mod losses;
mod persistence;
mod requests;
mod topology;
mod trigger;
mod xy;

use crate::compare::Compared;
use crate::room::Room;
use crate::ui_context::UiContext;
use egui::{Button, RichText, Ui};
use magscope_scope::{Frame, View};

/// Draws the tabs. A click on the active one hides the panel. Where panels have no room the tabs say so, and do nothing.
pub fn tabs(ui: &mut Ui, room: Room, cx: &mut UiContext) {
    let lack = room.below_lack();
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        for (tab, title) in View::tabs() {
            let shown = cx.chosen.below && cx.chosen.tab == tab && lack.is_none();
            let response = ui
                .add_enabled(lack.is_none(), Button::selectable(shown, title))
                .on_hover_text(tab.spec().words)
                .on_disabled_hover_text(lack.unwrap_or_default());
            if response.clicked() {
                cx.chosen.below = !shown;
                cx.chosen.tab = tab;
            }
        }
        if let Some(words) = lack {
            ui.label(RichText::new(words).color(cx.c.dim).small());
        }
    });
}

/// Draws the tabs and the chosen panel.
pub fn show(ui: &mut Ui, frame: &Frame, compared: Option<&Compared>, cx: &mut UiContext) {
    tabs(ui, Room::default(), cx);
    ui.add_space(2.0);
    if cx.scroll_pages != 0.0 {
        // The first scroll area of the panel takes it.
        let page = (ui.available_height() - 2.0 * crate::grid::ROW).max(crate::grid::ROW);
        let by = egui::vec2(0.0, -std::mem::take(&mut cx.scroll_pages) * page);
        ui.scroll_with_delta_animation(by, egui::style::ScrollAnimation::none());
    }
    match cx.chosen.tab {
        View::Hops => heat::show(ui, frame, cx),
        View::Distributions => distributions::show(ui, frame, cx),
        View::Flows => flows::show(ui, frame, cx),
        View::Journeys => journeys::show(ui, frame, cx),
        View::Events => events::show(ui, frame, cx),
        View::Clock => clock::show(ui, frame, cx),
        View::Losses => losses::show(ui, frame, cx),
        View::Requests => requests::show(ui, frame, cx),
        View::Topology => topology::show(ui, frame, cx),
        View::Trigger => trigger::show(ui, frame, cx),
        View::Persistence => persistence::show(ui, frame, cx),
        View::Xy => xy::show(ui, frame, cx),
        View::Scope => {} // above, without a tab
        View::Compare => compare::show(ui, compared, cx),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_scope::explain::explain;

    #[test]
    fn every_column_explains_itself() {
        let tables: [&[crate::grid::Col]; 7] = [
            flows::COLUMNS,
            &flows::SUMS,
            journeys::COLUMNS,
            events::COLUMNS,
            trigger::COLUMNS,
            compare::COLUMNS,
            &topology::columns(),
        ];
        for column in tables.into_iter().flatten() {
            assert!(explain(column.title()).is_some(), "{:?} has no explanation", column.title());
        }
    }
}
