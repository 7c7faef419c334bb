//! Tables: titled columns, selectable rows, right-aligned numbers with fixed-width digits.

use crate::text::{NUMBERS, explained};
use crate::ui_context::UiContext;
use egui::{Align, Color32, Layout, Response, RichText, ScrollArea, Sense, Ui};
use egui_extras::{Column, TableBuilder, TableRow};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Col {
    title: &'static str,
    width: f32,
    number: bool,
    sort: Sort,
}

/// Whether a table can be ordered by a column, and is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    No,
    Can,
    Is,
}

impl Col {
    /// The title.
    pub const fn title(&self) -> &'static str {
        self.title
    }

    /// The same with another width, points.
    #[must_use]
    pub const fn of_width(self, width: f32) -> Self {
        Col { width, ..self }
    }

    /// The same; a click on its title orders the table by it.
    #[must_use]
    pub const fn sorts(self, is_sorted: bool) -> Self {
        Col { sort: if is_sorted { Sort::Is } else { Sort::Can }, ..self }
    }
}

/// A left-aligned text column.
pub const fn words(title: &'static str, width: f32) -> Col {
    Col { title, width, number: false, sort: Sort::No }
}

/// A right-aligned number column.
pub const fn number(title: &'static str, width: f32) -> Col {
    Col { title, width, number: true, sort: Sort::No }
}

/// Height of a row.
pub const ROW: f32 = 19.0;

/// A row being drawn.
pub struct Row<'r, 'a, 'b> {
    line: TableRow<'a, 'b>,
    columns: &'r [Col],
    at: usize,
    /// The cells as text, if the right button was clicked in this frame.
    text: Option<String>,
    c: &'static crate::colours::Colours,
}

impl Row<'_, '_, '_> {
    /// The next cell: text or a number, by its column.
    pub fn put(&mut self, text: impl Into<String>, colour: Color32) {
        let is_number = self.columns.get(self.at).is_some_and(|column| column.number);
        self.at += 1;
        let text: String = text.into();
        self.copy(&text);
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

    /// The next cell: a text whose characters have one width, for the guides of a tree.
    pub fn put_aligned(&mut self, text: impl Into<String>, colour: Color32) {
        let text: String = text.into();
        self.at += 1;
        self.copy(&text);
        let words = RichText::new(text).font(NUMBERS).color(colour);
        self.line.col(|ui| {
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                ui.add(egui::Label::new(words).selectable(false).truncate());
            });
        });
    }

    fn copy(&mut self, cell: &str) {
        let is_first = self.at <= 1;
        if let Some(text) = &mut self.text {
            text.push_str(if is_first { "" } else { "\t" });
            text.push_str(cell.trim());
        }
    }

    /// The next cell, drawn by `add`.
    pub fn draw(&mut self, add: impl FnOnce(&mut Ui)) {
        self.at += 1;
        self.copy("");
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

/// Space between two columns and beside the scroll bar.
const GAP: f32 = 8.0;

/// The widths of columns: those of words share what numbers leave. They shrink by a fifth at most in a narrow window, and
/// numbers never.
fn widths(columns: &[Col], room: f32) -> Vec<f32> {
    let sum =
        |number: bool| columns.iter().filter(|column| column.number == number).map(|column| column.width).sum();
    let (numbers, words): (f32, f32) = (sum(true), sum(false));
    let share = (room - numbers - GAP * (columns.len() + 1) as f32) / words.max(1.0);
    let of = |column: &Col| if column.number { column.width } else { column.width * share.clamp(0.8, 1.6) };
    columns.iter().map(of).collect()
}

/// Width of a table that has all of its columns' widths.
pub fn width(columns: &[Col]) -> f32 {
    columns.iter().map(|column| column.width + GAP).sum::<f32>() + GAP
}

/// A click on a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Click {
    /// On a row.
    Row(usize, Press),
    /// On the title of a column that the table can be ordered by.
    Title(&'static str),
}

/// A click on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Press {
    /// One click.
    Once,
    /// A double click.
    Twice,
    /// The right button: the row's cells as text.
    Menu(String),
}

/// Draws a table of `rows` rows. `add` draws one and returns its selection state and label. Returns
/// what was clicked.
pub fn show(
    ui: &mut Ui,
    name: &'static str,
    columns: &[Col],
    rows: usize,
    cx: &UiContext,
    add: impl FnMut(&mut Row, usize),
) -> Option<Click> {
    let widths = widths(columns, ui.available_width());
    let needed = widths.iter().sum::<f32>() + GAP * (columns.len() + 1) as f32;
    if needed <= ui.available_width() + 1.0 {
        return whole(ui, name, columns, widths, rows, cx, add);
    }
    let area = ScrollArea::horizontal().id_salt((name, "wide")).auto_shrink([false, false]);
    area.show(ui, |ui| {
        ui.set_max_width(needed);
        whole(ui, name, columns, widths, rows, cx, add)
    })
    .inner
}

fn whole(
    ui: &mut Ui,
    name: &'static str,
    columns: &[Col],
    widths: Vec<f32>,
    rows: usize,
    cx: &UiContext,
    mut add: impl FnMut(&mut Row, usize),
) -> Option<Click> {
    let mut clicked = None;
    let room = ui.available_width();
    let opens_menu = ui.input(|input| input.pointer.secondary_clicked());
    // The last column ends before the scroll bar: the two outer gaps are wider than it.
    let scroll = &mut ui.spacing_mut().scroll;
    scroll.floating_allocated_width = scroll.bar_width;
    let mut table = TableBuilder::new(ui)
        .id_salt((name, columns.len(), (room / 40.0) as i32))
        .striped(true)
        .sense(Sense::click())
        .resizable(true)
        // A low panel scrolls; the table does not grow out of it.
        .min_scrolled_height(ROW);
    for (n, width) in widths.into_iter().enumerate() {
        let made = if n + 1 == columns.len() { Column::remainder() } else { Column::initial(width) };
        table = table.column(made.clip(true).at_least(30.0));
    }
    table
        .header(ROW, |mut header| {
            for column in columns {
                let (_, cell) = header.col(|ui| {
                    let is_order = column.sort == Sort::Is;
                    let title =
                        if is_order { format!("{} ▼", column.title) } else { column.title.to_owned() };
                    let colour = if is_order { cx.c.text } else { cx.c.dim };
                    let label = egui::Label::new(RichText::new(title).color(colour).small()).selectable(false);
                    // Both in the middle of the height, so that titles are on one line.
                    let layout = if column.number {
                        Layout::right_to_left(Align::Center)
                    } else {
                        Layout::left_to_right(Align::Center)
                    };
                    ui.with_layout(layout, |ui| ui.add(label));
                });
                if column.sort != Sort::No && cell.clicked() {
                    clicked = Some(Click::Title(column.title));
                }
                explained(cell, column.title);
            }
        })
        .body(|body| {
            body.rows(ROW, rows, |row| {
                let n = row.index();
                let mut row = Row { line: row, columns, at: 0, text: opens_menu.then(String::new), c: cx.c };
                add(&mut row, n);
                let response: Response = row.line.response();
                if response.clicked() {
                    let press = if response.double_clicked() { Press::Twice } else { Press::Once };
                    clicked = Some(Click::Row(n, press));
                } else if response.secondary_clicked() {
                    clicked = Some(Click::Row(n, Press::Menu(row.text.unwrap_or_default())));
                }
            });
        });
    clicked
}
