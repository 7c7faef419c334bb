//! The menu of a row or a mark, under the right button: *only this*, *not this*, and the text for the clipboard.
//!
//! It keeps what was pointed at when it opened: live rows move on beneath it.

use crate::ui_context::UiContext;
use egui::{Id, LayerId, Order, Popup, PopupKind, Pos2, Rect, Response, RichText, Ui};
use magscope_scope::Action;

/// What the pointer was on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// The row as a condition of a filter; `None` if no filter can say it.
    pub condition: Option<String>,
    /// The row as text, its cells apart by tabs.
    pub text: String,
}

impl Target {
    /// A row without a condition.
    pub fn of_text(text: String) -> Self {
        Target { condition: None, text }
    }
}

/// An open menu.
#[derive(Clone, Debug)]
pub struct Menu {
    target: Target,
    at: Pos2,
}

/// Opens the menu of a row without a widget of its own, if the right button was clicked on it.
pub fn on_rect(ui: &Ui, rect: Rect, cx: &mut UiContext, target: impl FnOnce() -> Target) {
    let clicked = ui.input(|input| input.pointer.secondary_clicked()) && ui.rect_contains_pointer(rect);
    if clicked {
        open(ui, cx, target());
    }
}

/// The same for the line of a grid that begins with this widget.
pub fn on_line(ui: &Ui, first: &Response, cx: &mut UiContext, target: impl FnOnce() -> Target) {
    let rect =
        Rect::from_x_y_ranges(ui.max_rect().x_range(), first.rect.expand2(egui::vec2(0.0, 1.0)).y_range());
    on_rect(ui, rect, cx, target);
}

/// Opens a menu at the pointer.
pub fn open(ui: &Ui, cx: &mut UiContext, target: Target) {
    if let Some(at) = ui.input(|input| input.pointer.interact_pos()) {
        cx.menu = Some(Menu { target, at });
    }
}

/// Draws an open menu; `None` once it is closed.
pub fn show(ui: &Ui, menu: Menu, cx: &mut UiContext) -> Option<Menu> {
    let mut is_open = true;
    let layer = LayerId::new(Order::Foreground, Id::unique("row menu layer"));
    Popup::new(Id::unique("row menu"), ui.ctx().clone(), menu.at, layer)
        .kind(PopupKind::Menu)
        .open_bool(&mut is_open)
        .show(|ui| items(ui, &menu.target, cx));
    is_open.then_some(menu)
}

fn items(ui: &mut Ui, target: &Target, cx: &mut UiContext) {
    ui.set_max_width(320.0);
    let mut item = |ui: &mut Ui, words: &str, action: Action| {
        if ui.button(words).clicked() {
            cx.act(action);
            ui.close();
        }
    };
    if let Some(condition) = &target.condition {
        item(ui, "Only this", Action::NarrowTo { condition: condition.clone(), only: true });
        item(ui, "Not this", Action::NarrowTo { condition: condition.clone(), only: false });
    }
    if ui.button("Copy the row").clicked() {
        ui.ctx().copy_text(target.text.clone());
        ui.close();
    }
    if let Some(condition) = &target.condition {
        ui.separator();
        ui.label(RichText::new(condition).color(cx.c.dim).small());
    }
}
