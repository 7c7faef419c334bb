//! Text drawing.

use egui::{
    Align2, Color32, FontFamily, FontId, Painter, Pos2, Rect, Response, Sense, Shape, TextStyle, Ui, Vec2,
};
use magscope_scope::explain::explain;
use std::f32::consts::FRAC_PI_2;

/// Text.
pub const WORDS: FontId = FontId { size: 12.5, family: FontFamily::Proportional };
/// Smallest text.
pub const SMALL: FontId = FontId { size: 11.5, family: FontFamily::Proportional };
/// Numbers in fixed-width digits.
pub const NUMBERS: FontId = FontId { size: 11.5, family: FontFamily::Monospace };

/// Width of a text in one line, points.
pub fn width(ui: &Ui, words: &str, style: &TextStyle) -> f32 {
    let font = style.resolve(ui.style());
    ui.painter().layout_no_wrap(words.to_owned(), font, Color32::PLACEHOLDER).size().x
}

/// Shows the explanation of a label while the pointer is on it.
pub fn explained(response: Response, label: &str) -> Response {
    explained_of(response, || explain(label))
}

/// The same with a text of the caller.
pub fn explained_of(response: Response, words: impl FnOnce() -> Option<String>) -> Response {
    if !response.hovered() {
        return response; // the search costs nothing while the pointer is elsewhere
    }
    match words() {
        Some(words) => response.on_hover_text(words),
        None => response,
    }
}

/// Text, truncated with an ellipsis. Returns its rectangle.
pub fn put(
    painter: &Painter,
    at: Pos2,
    anchor: Align2,
    words: &str,
    font: FontId,
    colour: Color32,
    room: f32,
) -> Rect {
    let mut job = egui::text::LayoutJob::simple_singleline(words.to_owned(), font, colour);
    job.wrap = egui::text::TextWrapping::truncate_at_width(room.max(0.0));
    let galley = painter.layout_job(job);
    let rect = anchor.anchor_size(at, galley.size());
    painter.galley(rect.min, galley, colour);
    rect
}

/// The same, with the explanation of the text while the pointer is on it.
pub fn put_explained(
    ui: &Ui,
    at: Pos2,
    anchor: Align2,
    words: &str,
    font: FontId,
    colour: Color32,
    room: f32,
) -> Rect {
    let rect = put(ui.painter(), at, anchor, words, font, colour, room);
    let id = ui.scope_id().with(("explained", words, at.x as i32, at.y as i32));
    explained(ui.interact(rect, id, Sense::hover()), words);
    rect
}

/// Text over a picture, with a background.
pub fn put_over(
    painter: &Painter,
    (at, anchor): (Pos2, Align2),
    words: &str,
    colour: Color32,
    back: Color32,
    room: f32,
) {
    let mut job = egui::text::LayoutJob::simple_singleline(words.to_owned(), SMALL, colour);
    job.wrap = egui::text::TextWrapping::truncate_at_width(room.max(0.0));
    let galley = painter.layout_job(job);
    let rect = anchor.anchor_size(at, galley.size());
    painter.rect_filled(rect.expand2(Vec2::new(3.0, 0.0)), 2.0, back.gamma_multiply(0.8));
    painter.galley(rect.min, galley, colour);
}

/// Vertical text, centred at `middle`.
pub fn upright(painter: &Painter, middle: Pos2, words: &str, font: FontId, colour: Color32, room: f32) {
    let mut job = egui::text::LayoutJob::simple_singleline(words.to_owned(), font, colour);
    job.wrap = egui::text::TextWrapping::truncate_at_width(room.max(0.0));
    let galley = painter.layout_job(job);
    let half = galley.size() * 0.5;
    let at = middle + Vec2::new(-half.y, half.x);
    painter.add(Shape::Text(egui::epaint::TextShape::new(at, galley, colour).with_angle(-FRAC_PI_2)));
}
