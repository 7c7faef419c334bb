//! Persistence: overlaid lifelines, aligned at their start, as a fading density.

use crate::cache::{key, place};
use crate::chart::{Axis, Chart};
use crate::text::{self, SMALL};
use crate::ui_context::UiContext;
use egui::{Align2, Color32, ColorImage, Mesh, Rect, RichText, Role, Sense, TextureId, Ui, WidgetInfo, pos2};
use magscope_scope::format::{count, short_duration};
use magscope_scope::look::PersistenceMap;
use magscope_scope::{Action, Frame, Persistence};

/// Columns of the density.
const COLUMNS: usize = 512;

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let second = 1_000_000_000;
    ui.horizontal_wrapped(|ui| {
        for (persistence, name) in [
            (Persistence::Off, "off"),
            (Persistence::Fade(second), "1 s"),
            (Persistence::Fade(10 * second), "10 s"),
            (Persistence::Endless, "endless"),
        ] {
            if ui.selectable_label(frame.controls.persistence == persistence, name).clicked() {
                cx.act(Action::SetPersistence(persistence));
            }
        }
    });
    let Some(map) = frame.persistence(COLUMNS) else {
        ui.label(
            RichText::new("choose how long lifelines stay to lay them over each other, each from its start")
                .color(cx.c.dim),
        );
        return;
    };
    let (rect, response) = ui.allocate_exact_size(ui.available_size(), Sense::hover());
    let words = format!("persistence: {} lifelines over each other", count(map.lifelines));
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &words));
    let chart = Chart::new(rect, Axis::new(0.0, map.span_ns as f64, false), Axis::new(0.0, 1.0, false));
    chart.frame(ui.painter(), |ns| short_duration(ns.max(0.0) as u64), |_| String::new(), cx);
    let c = cx.c;
    let state = key(&[cx.revision, place(rect), u64::from(c == &crate::colours::DARK)]);
    let texture = cx.cache.texture(ui.ctx(), "persistence", state, || image(&map, c));
    let mut mesh = Mesh::with_texture(TextureId::from(&texture));
    mesh.add_rect_with_uv(chart.area, Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0)), Color32::WHITE);
    ui.painter().add(mesh);
    let height = chart.area.height() / map.rows.len().max(1) as f32;
    for (n, row) in map.rows.iter().enumerate().filter(|_| height >= 10.0) {
        let at = pos2(chart.area.left() - 6.0, chart.area.top() + height * (n as f32 + 0.5));
        let name = frame.name_of(row.place);
        text::put(ui.painter(), at, Align2::RIGHT_CENTER, name, SMALL, c.dim, 70.0);
    }
    let at = chart.area.right_top() + egui::vec2(-8.0, 6.0);
    text::put(ui.painter(), at, Align2::RIGHT_TOP, &words, SMALL, c.dim, 400.0);
}

fn image(map: &PersistenceMap, c: &crate::colours::Colours) -> ColorImage {
    let columns = map.rows.first().map_or(1, |row| row.weights.len()).max(1);
    let most = map.max_weight.max(1e-6).ln_1p().max(0.1);
    let mut pixels: Vec<Color32> = Vec::with_capacity(columns * map.rows.len().max(1));
    for row in &map.rows {
        pixels.extend(row.weights.iter().map(|weight| {
            let part = (weight.max(0.0).ln_1p() / most).clamp(0.0, 1.0);
            if *weight > 1e-4 { c.pace(part).gamma_multiply(0.3 + 0.7 * part) } else { Color32::TRANSPARENT }
        }));
    }
    pixels.resize(columns * map.rows.len().max(1), Color32::TRANSPARENT);
    ColorImage::new([columns, map.rows.len().max(1)], pixels)
}
