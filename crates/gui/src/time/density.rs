//! The zoomed-out lanes: one texture with a row per lane and a column per time column.
//!
//! Intensity shows the number of events, and a warm hue shows slow ones: one slow packet among a million stays
//! visible.

use crate::colours::Colours;
use egui::{Color32, ColorImage, Mesh, Rect, TextureHandle, TextureId, pos2};
use magscope_scope::look::{Cell, Density, LaneRow};

/// The image of a density.
pub fn image(density: &Density, c: &Colours) -> ColorImage {
    let columns = density.lanes.first().map_or(1, |row| row.cells.len()).max(1);
    let mut pixels = Vec::with_capacity(columns * density.lanes.len().max(1));
    let most = (density.max_count as f32).ln_1p().max(0.7);
    for row in &density.lanes {
        let pace = Pace::of(row);
        pixels.extend(row.cells.iter().map(|cell| shade(cell, most, &pace, c)));
    }
    pixels.resize(columns * density.lanes.len().max(1), Color32::TRANSPARENT);
    ColorImage::new([columns, density.lanes.len().max(1)], pixels)
}

/// Typical and maximum latency of a lane.
struct Pace {
    typical: f32,
    most: f32,
}

impl Pace {
    fn of(row: &LaneRow) -> Self {
        let logs = || row.cells.iter().filter(|cell| cell.max_ns > 0).map(|cell| (cell.max_ns as f32).ln());
        let n = logs().count().max(1) as f32;
        Pace { typical: logs().sum::<f32>() / n, most: logs().fold(f32::MIN, f32::max) }
    }

    /// 0 for typical or faster, 1 for the slowest; a lane of uniform latency has no slow ones.
    fn part(&self, max_ns: u64) -> f32 {
        let range = (self.most - self.typical).max(1.5);
        (((max_ns.max(1) as f32).ln() - self.typical) / range).clamp(0.0, 1.0)
    }
}

fn shade(cell: &Cell, most: f32, pace: &Pace, c: &Colours) -> Color32 {
    if cell.count == 0 {
        return Color32::TRANSPARENT;
    }
    let slow = pace.part(cell.max_ns);
    let much = (cell.count as f32).ln_1p() / most;
    c.pace(slow).gamma_multiply((0.25 + 0.6 * much + 0.25 * slow).min(1.0))
}

/// The texture over the lanes.
pub fn mesh(texture: &TextureHandle, rects: &[Rect]) -> Mesh {
    let mut mesh = Mesh::with_texture(TextureId::from(texture));
    let lanes = rects.len().max(1) as f32;
    for (n, rect) in rects.iter().enumerate() {
        // Centre of a texture row, so that neighbouring rows do not blend in.
        let v = (n as f32 + 0.5) / lanes;
        let rect = rect.shrink2(egui::vec2(0.0, (rect.height() * 0.14).min(4.0)));
        mesh.add_rect_with_uv(rect, Rect::from_min_max(pos2(0.0, v), pos2(1.0, v)), Color32::WHITE);
    }
    mesh
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colours::DARK;
    use magscope_core::Hop;
    use magscope_scope::Place;

    #[test]
    fn one_slow_packet_among_many_is_seen() {
        let mut cells = vec![Cell { count: 10_000, min_ns: 900, max_ns: 1_200 }; 50];
        cells[20].max_ns = 2_000_000;
        cells[30] = Cell::default();
        let lanes = vec![LaneRow { place: Place::Hop(Hop::IpIn), cells }];
        let image = image(&Density { lanes, max_count: 10_000, ..Density::default() }, &DARK);
        assert_eq!(image.size, [50, 1]);
        assert_eq!(image.pixels[30], Color32::TRANSPARENT);
        let warmth = |at: usize| i32::from(image.pixels[at].r()) - i32::from(image.pixels[at].b());
        assert!(warmth(20) > warmth(0) + 60, "{:?} {:?}", image.pixels[20], image.pixels[0]);
    }

    #[test]
    fn nothing_is_a_picture_too() {
        assert_eq!(image(&Density::default(), &DARK).size, [1, 1]);
    }
}
