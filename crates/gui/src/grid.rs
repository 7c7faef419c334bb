//! Tables: titled columns, selectable rows, right-aligned numbers with fixed-width digits.

use crate::text::NUMBERS;
use crate::ui_context::UiContext;
use egui::{Align, Color32, Layout, Response, RichText, Sense, Ui};
use egui_extras::{Column, TableBuilder, TableRow};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Col {
    title: &'static str,
    width: f32,
    number: bool,
}

/// A left-aligned text column.
pub const fn words(title: &'static str, width: f32) -> Col {
    Col { title, width, number: false }
}

/// A right-aligned number column.
pub const fn number(title: &'static str, width: f32) -> Col {
    Col { title, width, number: true }
}

/// Height of a row.
pub const ROW: f32 = 19.0;

/// A row being drawn.
pub struct Row<'r, 'a, 'b> {
    line: TableRow<'a, 'b>,
    columns: &'r [Col],
    at: usize,
    c: &'static crate::colours::Colours,
}

impl Row<'_, '_, '_> {
    /// The next cell: text or a number, by its column.
    pub fn put(&mut self, text: impl Into<String>, colour: Color32) {
        let is_number = self.columns.get(self.at).is_some_and(|column| column.number);
        self.at += 1;
        let text: String = text.into();
        // Selectable text would consume the click that selects the row.
        let label = |words: RichText| egui::Label::new(words.color(colour)).selectable(false);
        self.line.col(|ui| {
            if is_number {
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    ui.add(label(RichText::new(text).font(NUMBERS)));
                });
            } else {
                ui.add(label(RichText::new(text)).truncate());
            }
        });
    }

    /// The next cell, drawn by `add`.
    pub fn draw(&mut self, add: impl FnOnce(&mut Ui)) {
        self.at += 1;
        self.line.col(add);
    }

    /// Colour of primary text.
    pub fn text(&self) -> Color32 {
        self.c.text
    }

    /// Colour of secondary text.
    pub fn dim(&self) -> Color32 {
        self.c.dim
    }

    /// Marks the row as selected.
    pub fn select(&mut self, selected: bool) {
        self.line.set_selected(selected);
    }
}

/// Draws a table of `rows` rows. `add` draws one and returns its selection state and label. Returns the clicked
/// row, and true for a double click.
pub fn show(
    ui: &mut Ui,
    name: &'static str,
    columns: &[Col],
    rows: usize,
    cx: &UiContext,
    mut add: impl FnMut(&mut Row, usize),
) -> Option<(usize, bool)> {
    let mut clicked = None;
    let mut table = TableBuilder::new(ui).id_salt(name).striped(true).sense(Sense::click()).resizable(true);
    for (n, column) in columns.iter().enumerate() {
        let made = if n + 1 == columns.len() { Column::remainder() } else { Column::initial(column.width) };
        table = table.column(made.clip(true).at_least(30.0));
    }
    table
        .header(ROW, |mut header| {
            for column in columns {
                header.col(|ui| {
                    let words = RichText::new(column.title).color(cx.c.dim).small();
                    if column.number {
                        ui.with_layout(Layout::right_to_left(Align::Center), |ui| ui.label(words));
                    } else {
                        ui.label(words);
                    }
                });
            }
        })
        .body(|body| {
            body.rows(ROW, rows, |row| {
                let n = row.index();
                let mut row = Row { line: row, columns, at: 0, c: cx.c };
                add(&mut row, n);
                let response: Response = row.line.response();
                if response.clicked() {
                    clicked = Some((n, response.double_clicked()));
                }
            });
        });
    clicked
}
