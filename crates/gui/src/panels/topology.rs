//! The topology: the paths from each sender as a tree, leg by leg, and the selected leg in sentences.

use crate::cache::key;
use crate::grid::{self, Click, Col, Press, number, words};
use crate::menu::{self, Target};
use crate::ui_context::UiContext;
use egui::{Color32, RichText, ScrollArea, Ui};
use magscope_scope::look::{LegColumn, LegRow, TopologyPanel};
use magscope_scope::{Action, Frame, Pick};

/// Rows at most: all that there can be.
const MOST: usize = 10_000;
/// Height of the details, points, and their largest part of the panel.
const DETAILS: f32 = 120.0;
const PART: f32 = 0.33;

/// Width of a character, points, and the largest width of a text.
const CHARACTER: f32 = 7.5;
const TEXT: f32 = 480.0;

/// A column whose longest text has so many characters.
fn column(of: LegColumn, longest: usize) -> Col {
    match of {
        LegColumn::Path | LegColumn::Translation | LegColumn::Reason => {
            words(of.title(), (longest as f32 * CHARACTER).clamp(160.0, TEXT))
        }
        _ => number(of.title(), 76.0),
    }
}

/// The columns with anything in them that have room, those that are needed first. What has none is in the details.
fn shown_columns(panel: &TopologyPanel, room: f32) -> Vec<(LegColumn, Col)> {
    let longest = |of| panel.rows.iter().map(|leg| leg.cell(of).chars().count()).max().unwrap_or(0);
    let mut shown: Vec<(LegColumn, Col)> = panel.columns().map(|of| (of, column(of, longest(of)))).collect();
    for least in LegColumn::BY_NEED.iter().rev() {
        let columns: Vec<Col> = shown.iter().map(|(_, column)| *column).collect();
        if grid::width(&columns) <= room {
            break;
        }
        shown.retain(|(of, _)| of != least || *of == LegColumn::Path);
    }
    shown
}

/// The title of each column.
#[cfg(test)]
pub(super) fn columns() -> Vec<Col> {
    LegColumn::ALL.map(|of| column(of, 0)).to_vec()
}

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let panel = cx.cache.topology.get(key(&[cx.revision]), || frame.topology(MOST));
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new(&panel.title).color(cx.c.dim).small());
        for pick in &frame.controls.picks {
            if let Pick::Path(path) = pick {
                ui.label(RichText::new(&path.words).color(cx.c.accent));
            }
        }
        if !frame.controls.picks.is_empty()
            && ui.button("Everything").on_hover_text("undo what was picked").clicked()
        {
            cx.act(Action::Pick(Pick::Nothing));
        }
        let hint = "pick the journeys of the selected row, and show their flows";
        if let Some(leg) = panel.rows.iter().find(|leg| leg.selected)
            && ui.button("Its flows").on_hover_text(hint).clicked()
        {
            pick(leg, cx);
        }
    });
    if panel.rows.is_empty() {
        return;
    }
    let height = ui.available_height();
    let below = DETAILS.min(height * PART);
    ui.allocate_ui(egui::vec2(ui.available_width(), height - below), |ui| tree(ui, &panel, cx));
    ScrollArea::vertical().id_salt("leg").auto_shrink([false, false]).show(ui, |ui| {
        for line in &panel.details {
            ui.label(RichText::new(line).color(cx.c.text).small());
        }
    });
}

fn tree(ui: &mut Ui, panel: &TopologyPanel, cx: &mut UiContext) {
    let c = cx.c;
    let shown = shown_columns(panel, ui.available_width());
    let columns: Vec<Col> = shown.iter().map(|(_, column)| *column).collect();
    let clicked = grid::show(ui, "topology", &columns, panel.rows.len(), cx, |row, n| {
        let Some(leg) = panel.rows.get(n) else { return };
        row.select(leg.selected);
        for (of, _) in &shown {
            let (text, colour) = (leg.cell(*of), colour(leg, *of, c));
            if *of == LegColumn::Path { row.put_aligned(text, colour) } else { row.put(text, colour) }
        }
    });
    let Some(Click::Row(n, press)) = clicked else { return };
    let Some(leg) = panel.rows.get(n) else { return };
    match press {
        Press::Menu(text) => menu::open(ui, cx, Target::of_text(text)),
        Press::Once => cx.act(Action::ChoosePath(leg.path.clone())),
        Press::Twice => pick(leg, cx),
    }
}

/// Picks the journeys of a row, and shows their flows.
fn pick(leg: &LegRow, cx: &mut UiContext) {
    cx.act(Action::ChoosePath(leg.path.clone()));
    cx.act(Action::TakeRow);
}

const fn colour(row: &LegRow, column: LegColumn, c: &crate::colours::Colours) -> Color32 {
    match column {
        LegColumn::Failed if row.failed > 0 => c.bad,
        LegColumn::Dropped | LegColumn::Reason => c.bad,
        LegColumn::Failed | LegColumn::Translation => c.dim,
        _ => c.text,
    }
}
