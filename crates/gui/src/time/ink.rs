//! Batches many lines into one mesh: one quad per segment.

use egui::{Color32, Mesh, Pos2, Rect, pos2};

/// Lines of one mesh, clipped to bound their coordinates.
pub struct Ink {
    mesh: Mesh,
    area: Rect,
    /// Antialiased edges: twice the vertices, for few lines only.
    soft: bool,
}

impl Ink {
    /// Clips to `area`.
    pub fn new(area: Rect, soft: bool) -> Self {
        Ink { mesh: Mesh::default(), area: area.expand(2.0), soft }
    }

    /// The finished mesh.
    pub fn mesh(self) -> Mesh {
        self.mesh
    }

    /// A line of this width.
    pub fn line(&mut self, from: Pos2, to: Pos2, width: f32, colour: Color32) {
        let Some((from, to)) = cut(from, to, self.area) else { return };
        let along = to - from;
        let length = along.length();
        let across = if length > 1e-3 { along.rot90() / length } else { egui::vec2(1.0, 0.0) };
        if self.soft {
            let (inner, outer) = (across * (width * 0.5 - 0.5).max(0.0), across * (width * 0.5 + 0.5));
            let clear = Color32::TRANSPARENT;
            self.strip([
                (from + outer, to + outer, clear),
                (from + inner, to + inner, colour),
                (from - inner, to - inner, colour),
                (from - outer, to - outer, clear),
            ]);
        } else {
            let half = across * (width * 0.5);
            self.strip([(from + half, to + half, colour), (from - half, to - half, colour)]);
        }
    }

    /// A filled triangle.
    pub fn triangle(&mut self, corners: [Pos2; 3], colour: Color32) {
        let first = self.mesh.vertices.len() as u32;
        for corner in corners {
            self.mesh.colored_vertex(self.near(corner), colour);
        }
        self.mesh.add_triangle(first, first + 1, first + 2);
    }

    /// A filled rectangle.
    pub fn block(&mut self, rect: Rect, colour: Color32) {
        let rect = rect.intersect(self.area);
        if rect.is_positive() {
            self.mesh.add_colored_rect(rect, colour);
        }
    }

    /// A cross at this centre.
    pub fn cross(&mut self, at: Pos2, half: f32, width: f32, colour: Color32) {
        self.line(pos2(at.x - half, at.y - half), pos2(at.x + half, at.y + half), width, colour);
        self.line(pos2(at.x - half, at.y + half), pos2(at.x + half, at.y - half), width, colour);
    }

    /// A diamond at this centre.
    pub fn diamond(&mut self, at: Pos2, half: f32, colour: Color32) {
        if !self.area.expand(half).contains(at) {
            return;
        }
        let corner = |x: f32, y: f32| pos2(at.x + x * half, at.y + y * half);
        self.triangle([corner(0.0, -1.0), corner(1.0, 0.0), corner(0.0, 1.0)], colour);
        self.triangle([corner(0.0, -1.0), corner(-1.0, 0.0), corner(0.0, 1.0)], colour);
    }

    fn near(&self, at: Pos2) -> Pos2 {
        if at.x.is_finite() && at.y.is_finite() { self.area.expand(64.0).clamp(at) } else { self.area.center() }
    }

    fn strip<const N: usize>(&mut self, edges: [(Pos2, Pos2, Color32); N]) {
        let first = self.mesh.vertices.len() as u32;
        for (from, to, colour) in edges {
            self.mesh.colored_vertex(from, colour);
            self.mesh.colored_vertex(to, colour);
        }
        for n in 0..(N as u32).saturating_sub(1) {
            let at = first + 2 * n;
            self.mesh.add_triangle(at, at + 1, at + 2);
            self.mesh.add_triangle(at + 1, at + 2, at + 3);
        }
    }
}

/// The part of a line between the left and right edge of an area; `None` if empty. Vertical positions are those
/// of lanes and therefore inside.
fn cut(from: Pos2, to: Pos2, area: Rect) -> Option<(Pos2, Pos2)> {
    if !(from.x.is_finite() && to.x.is_finite() && from.y.is_finite() && to.y.is_finite()) {
        return None;
    }
    let (left, right) = (area.left(), area.right());
    if from.x.max(to.x) < left || from.x.min(to.x) > right {
        return None;
    }
    // In f64: a line may span ten years in a picture of a microsecond.
    let at = |x: f32| {
        let part = (f64::from(x) - f64::from(from.x)) / (f64::from(to.x) - f64::from(from.x));
        pos2(x, (f64::from(from.y) + part * (f64::from(to.y) - f64::from(from.y))) as f32)
    };
    let inside = |end: Pos2| {
        if end.x < left {
            at(left)
        } else if end.x > right {
            at(right)
        } else {
            end
        }
    };
    Some((inside(from), inside(to)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::vec2;

    #[test]
    fn lines_are_cut_at_the_edges_and_never_far_away() {
        let area = Rect::from_min_size(pos2(0.0, 0.0), vec2(100.0, 100.0));
        assert_eq!(cut(pos2(-50.0, 0.0), pos2(-1.0, 9.0), area), None);
        assert_eq!(cut(pos2(-100.0, 0.0), pos2(100.0, 100.0), area).unwrap().0, pos2(0.0, 50.0));
        assert_eq!(cut(pos2(f32::NAN, 0.0), pos2(1.0, 1.0), area), None);
        let mut ink = Ink::new(area, true);
        for x in [0.0, 1e9, -1e9, f32::MAX, f32::INFINITY, f32::NAN] {
            ink.line(pos2(x, 10.0), pos2(-x, 90.0), 1.5, Color32::WHITE);
            ink.triangle([pos2(x, 0.0), pos2(0.0, x), pos2(x, x)], Color32::WHITE);
            ink.diamond(pos2(x, x), 4.0, Color32::WHITE);
            ink.cross(pos2(x, 5.0), 4.0, 1.0, Color32::WHITE);
        }
        let mesh = ink.mesh();
        assert!(mesh.is_valid() && !mesh.is_empty());
        assert!(mesh.vertices.iter().all(|v| v.pos.x.abs() < 1e3 && v.pos.y.abs() < 1e3), "{mesh:?}");
    }
}
