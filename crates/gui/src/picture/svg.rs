//! The shapes of the last frame as SVG, with text and lines as such.

use egui::epaint::{ClippedShape, Mesh, PathShape, RectShape, TextShape};
use egui::{Color32, Context, FontFamily, Pos2, Rect, Shape, Stroke, TextureId};
use std::fmt::Write as _;

/// The last frame of a context, without dialogs and tool tips.
pub fn svg(ctx: &Context) -> String {
    let area = ctx.content_rect();
    let mut out = String::new();
    // Writing to a String cannot fail.
    _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0}" height="{1:.0}" viewBox="0 0 {0:.0} {1:.0}">"#,
        area.width(),
        area.height()
    );
    let shapes = background(ctx);
    let mut writer = Writer { out, clips: Vec::new() };
    for clipped in &shapes {
        writer.shape(&clipped.shape, clipped.clip_rect, ctx);
    }
    let mut out = writer.out;
    out.push_str("</svg>\n");
    out
}

/// Everything that was painted on the window itself.
fn background(ctx: &Context) -> Vec<ClippedShape> {
    ctx.graphics(|layers| {
        let list = layers.get(egui::LayerId::background());
        list.into_iter().flat_map(|list| list.all_entries().cloned().collect::<Vec<_>>()).collect()
    })
}

struct Writer {
    out: String,
    clips: Vec<Rect>,
}

impl Writer {
    fn shape(&mut self, shape: &Shape, clip: Rect, ctx: &Context) {
        match shape {
            Shape::Vec(all) => all.iter().for_each(|shape| self.shape(shape, clip, ctx)),
            Shape::Rect(rect) => self.rect(rect, clip),
            Shape::LineSegment { points, stroke } => self.line(points, *stroke, clip),
            Shape::Path(path) => self.path(path, clip),
            Shape::Circle(circle) => {
                let clip = self.clip(clip);
                _ = writeln!(
                    self.out,
                    r#"<circle cx="{:.2}" cy="{:.2}" r="{:.2}" {} {clip}/>"#,
                    circle.center.x,
                    circle.center.y,
                    circle.radius,
                    paint(circle.fill, circle.stroke)
                );
            }
            Shape::Text(text) => self.text(text, clip),
            Shape::Mesh(mesh) => self.mesh(mesh, clip, ctx),
            _ => {} // unused by this program
        }
    }

    fn clip(&mut self, rect: Rect) -> String {
        if !rect.is_finite() || rect.width() > 1e5 {
            return String::new();
        }
        let existing = self.clips.iter().position(|existing| *existing == rect);
        let n = existing.unwrap_or_else(|| {
            self.clips.push(rect);
            let n = self.clips.len() - 1;
            _ = writeln!(
                self.out,
                r#"<clipPath id="c{n}"><rect x="{:.2}" y="{:.2}" width="{:.2}" height="{:.2}"/></clipPath>"#,
                rect.left(),
                rect.top(),
                rect.width().max(0.0),
                rect.height().max(0.0)
            );
            n
        });
        format!(r#"clip-path="url(#c{n})""#)
    }

    fn rect(&mut self, shape: &RectShape, clip: Rect) {
        let rect = shape.rect;
        if !rect.is_positive() || (shape.fill == Color32::TRANSPARENT && shape.stroke.is_empty()) {
            return;
        }
        let clip = self.clip(clip);
        _ = writeln!(
            self.out,
            r#"<rect x="{:.2}" y="{:.2}" width="{:.2}" height="{:.2}" rx="{}" {} {clip}/>"#,
            rect.left(),
            rect.top(),
            rect.width(),
            rect.height(),
            shape.corner_radius.nw,
            paint(shape.fill, shape.stroke)
        );
    }

    fn line(&mut self, points: &[Pos2; 2], stroke: Stroke, clip: Rect) {
        if stroke.is_empty() {
            return;
        }
        let clip = self.clip(clip);
        let [a, b] = points;
        _ = writeln!(
            self.out,
            r#"<line x1="{:.2}" y1="{:.2}" x2="{:.2}" y2="{:.2}" {} {clip}/>"#,
            a.x,
            a.y,
            b.x,
            b.y,
            paint(Color32::TRANSPARENT, stroke)
        );
    }

    fn path(&mut self, path: &PathShape, clip: Rect) {
        let clip = self.clip(clip);
        let points = path.points.iter().fold(String::new(), |mut points, p| {
            _ = write!(points, "{:.2},{:.2} ", p.x, p.y); // writing into a String cannot fail
            points
        });
        let stroke = match path.stroke.color {
            egui::epaint::ColorMode::Solid(colour) => Stroke::new(path.stroke.width, colour),
            egui::epaint::ColorMode::UV(_) => Stroke::NONE,
        };
        let element = if path.closed { "polygon" } else { "polyline" };
        _ = writeln!(self.out, r#"<{element} points="{points}" {} {clip}/>"#, paint(path.fill, stroke));
    }

    fn text(&mut self, text: &TextShape, clip: Rect) {
        let clip = self.clip(clip);
        let turn = if text.angle == 0.0 {
            String::new()
        } else {
            format!(
                r#" transform="rotate({:.1} {:.2} {:.2})""#,
                text.angle.to_degrees(),
                text.pos.x,
                text.pos.y
            )
        };
        for row in &text.galley.rows {
            let Some(first) = row.glyphs.first() else { continue };
            let section = text.galley.job.sections.first();
            let (font, colour) =
                section.map_or((12.0, text.fallback_color), |s| (s.format.font_id.size, s.format.color));
            let mono = section.is_some_and(|s| s.format.font_id.family == FontFamily::Monospace);
            let colour = text.override_text_color.unwrap_or(if colour == Color32::PLACEHOLDER {
                text.fallback_color
            } else {
                colour
            });
            let at = text.pos + row.pos.to_vec2() + first.pos.to_vec2();
            let words: String = row.glyphs.iter().map(|glyph| glyph.chr).collect();
            let family = if mono { "monospace" } else { "Ubuntu, 'DejaVu Sans', sans-serif" };
            let width = row.glyphs.last().map_or(0.0, |last| last.pos.x + last.advance_width - first.pos.x);
            _ = writeln!(
                self.out,
                r#"<g {clip}><text x="{:.2}" y="{:.2}" font-family="{family}" font-size="{font}" textLength="{width:.1}" lengthAdjust="spacingAndGlyphs" xml:space="preserve" {}{turn}>{}</text></g>"#,
                at.x,
                at.y,
                paint(colour, Stroke::NONE),
                escaped(&words)
            );
        }
    }

    /// Triangles in a single colour each, the mean of their corners. Triangles of equal colour share a path.
    fn mesh(&mut self, mesh: &Mesh, clip: Rect, ctx: &Context) {
        if mesh.texture_id != TextureId::default() {
            return self.textured(mesh, clip, ctx);
        }
        let clip = self.clip(clip);
        let mut open: Option<Color32> = None;
        for corners in mesh.indices.chunks_exact(3) {
            let corner = |n: usize| corners.get(n).and_then(|at| mesh.vertices.get(*at as usize));
            let (Some(a), Some(b), Some(c)) = (corner(0), corner(1), corner(2)) else { continue };
            // The SVG renderer antialiases edges itself.
            let strongest = [a, b, c].into_iter().max_by_key(|v| v.color.a()).map_or(a.color, |v| v.color);
            let clear = [a, b, c].iter().filter(|v| v.color.a() == 0).count();
            if clear >= 1 {
                continue;
            }
            if open != Some(strongest) {
                if open.is_some() {
                    self.out.push_str("\"/>\n");
                }
                _ = write!(self.out, r#"<path {} {clip} d=""#, paint(strongest, Stroke::NONE));
                open = Some(strongest);
            }
            _ = write!(
                self.out,
                "M{:.2} {:.2}L{:.2} {:.2}L{:.2} {:.2}Z",
                a.pos.x, a.pos.y, b.pos.x, b.pos.y, c.pos.x, c.pos.y
            );
        }
        if open.is_some() {
            self.out.push_str("\"/>\n");
        }
    }

    /// A textured mesh, with one rectangle per run of equal pixels.
    fn textured(&mut self, mesh: &Mesh, clip: Rect, ctx: &Context) {
        let Some(image) = crate::cache::image(ctx, mesh.texture_id) else { return };
        let clip = self.clip(clip);
        let [columns, rows] = image.size;
        for quad in mesh.vertices.chunks_exact(4) {
            let (Some(first), Some(last)) = (quad.first(), quad.last()) else { continue };
            let rect = Rect::from_two_pos(first.pos, last.pos);
            let (top, bottom) = (first.uv.y.min(last.uv.y), first.uv.y.max(last.uv.y));
            let from = ((top * rows as f32) as usize).min(rows.saturating_sub(1));
            let to = ((bottom * rows as f32).ceil() as usize).clamp(from + 1, rows.max(1));
            for row in from..to {
                let height = rect.height() / (to - from) as f32;
                let y = rect.top() + height * (row - from) as f32;
                let pixels = image.pixels.get(row * columns..(row + 1) * columns).unwrap_or_default();
                let width = rect.width() / columns.max(1) as f32;
                let mut at = 0;
                for run in pixels.chunk_by(|a, b| a == b) {
                    let x = rect.left() + width * at as f32;
                    at += run.len();
                    let colour = run.first().copied().unwrap_or(Color32::TRANSPARENT);
                    if colour.a() > 0 {
                        _ = writeln!(
                            self.out,
                            r#"<rect x="{x:.2}" y="{y:.2}" width="{:.2}" height="{height:.2}" {} {clip}/>"#,
                            width * run.len() as f32,
                            paint(colour, Stroke::NONE)
                        );
                    }
                }
            }
        }
    }
}

/// Fill and stroke as attributes.
fn paint(fill: Color32, stroke: Stroke) -> String {
    let mut words = match opaque(fill) {
        None => r#"fill="none""#.to_owned(),
        Some((colour, 1.0)) => format!(r#"fill="{colour}""#),
        Some((colour, part)) => format!(r#"fill="{colour}" fill-opacity="{part:.3}""#),
    };
    if stroke.width > 0.0
        && let Some((colour, part)) = opaque(stroke.color)
    {
        _ = write!(
            words,
            r#" stroke="{colour}" stroke-width="{:.2}" stroke-opacity="{part:.3}""#,
            stroke.width
        );
    }
    words
}

/// A colour without its opacity, and the opacity.
fn opaque(colour: Color32) -> Option<(String, f32)> {
    let [r, g, b, a] = colour.to_srgba_unmultiplied();
    (a > 0).then(|| (format!("#{r:02x}{g:02x}{b:02x}"), f32::from(a) / 255.0))
}

fn escaped(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
