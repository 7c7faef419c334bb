//! Tables: columns with titles, rows that can be chosen, numbers to the right in digits of one width.

use crate::cx::Cx;
use crate::text::NUMBERS;
use egui::{Align, Color32, Layout, Response, RichText, Sense, Ui};
use egui_extras::{Column, TableBuilder, TableRow};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Col {
    title: &'static str,
    width: f32,
    number: bool,
}

/// Words, to the left.
pub const fn words(title: &'static str, width: f32) -> Col {
    Col { title, width, number: false }
}

/// Numbers, to the right.
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
    /// The next cell: words or a number, by its column.
    pub fn put(&mut self, text: impl Into<String>, colour: Color32) {
        let is_number = self.columns.get(self.at).is_some_and(|column| column.number);
        self.at += 1;
        let text: String = text.into();
        // Words that can be marked would take the click that chooses the row.
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

    /// The next cell, drawn by hand.
    pub fn draw(&mut self, add: impl FnOnce(&mut Ui)) {
        self.at += 1;
        self.line.col(add);
    }

    /// Numbers and words of this row.
    pub fn text(&self) -> Color32 {
        self.c.text
    }

    /// What is not looked at first.
    pub fn dim(&self) -> Color32 {
        self.c.dim
    }

    /// This row is the selected one.
    pub fn select(&mut self, selected: bool) {
        self.line.set_selected(selected);
    }
}

/// Draws a table of so many rows. `add` draws one and returns whether it is selected and what it is called. Returns the row that was clicked, and
/// whether twice.
pub fn show(
    ui: &mut Ui,
    name: &'static str,
    columns: &[Col],
    rows: usize,
    cx: &Cx,
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
