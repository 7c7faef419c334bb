//! Software rasteriser for egui's triangles: the same picture on every machine, without display, driver or
//! adapter.

use egui::epaint::{ImageData, Primitive, Vertex};
use egui::{Color32, FullOutput, Rect, TextureFilter, TextureId, TexturesDelta};
use egui_kittest::TestRenderer;
use image::{Rgba, RgbaImage};
use std::collections::HashMap;

#[derive(Default)]
pub struct Raster {
    textures: HashMap<TextureId, Texture>,
}

struct Texture {
    size: [usize; 2],
    pixels: Vec<Color32>,
    nearest: bool,
}

impl Texture {
    fn texel(&self, x: i64, y: i64) -> [f32; 4] {
        let x = x.clamp(0, self.size[0] as i64 - 1) as usize;
        let y = y.clamp(0, self.size[1] as i64 - 1) as usize;
        self.pixels[y * self.size[0] + x].to_array().map(|part| f32::from(part) / 255.0)
    }

    fn at(&self, u: f32, v: f32) -> [f32; 4] {
        let (x, y) = (u * self.size[0] as f32, v * self.size[1] as f32);
        if self.nearest {
            return self.texel(x.floor() as i64, y.floor() as i64);
        }
        let (x, y) = (x - 0.5, y - 0.5);
        let (fx, fy) = (x - x.floor(), y - y.floor());
        let (x, y) = (x.floor() as i64, y.floor() as i64);
        let mix = |a: [f32; 4], b: [f32; 4], t: f32| std::array::from_fn(|n| a[n] + (b[n] - a[n]) * t);
        let top = mix(self.texel(x, y), self.texel(x + 1, y), fx);
        let bottom = mix(self.texel(x, y + 1), self.texel(x + 1, y + 1), fx);
        mix(top, bottom, fy)
    }
}

impl TestRenderer for Raster {
    fn handle_delta(&mut self, delta: &mut TexturesDelta) {
        for (id, change) in
            delta.set.iter().flat_map(|(id, changes)| changes.iter().map(move |change| (id, change)))
        {
            let ImageData::Color(image) = &change.image;
            let nearest = change.options.magnification == TextureFilter::Nearest;
            match change.pos {
                None => {
                    let texture = Texture { size: image.size, pixels: image.pixels.clone(), nearest };
                    self.textures.insert(*id, texture);
                }
                Some([left, top]) => {
                    let texture = self.textures.get_mut(id).expect("a part of a texture that is there");
                    for (y, row) in image.pixels.chunks(image.size[0].max(1)).enumerate() {
                        let at = (top + y) * texture.size[0] + left;
                        texture.pixels[at..at + row.len()].copy_from_slice(row);
                    }
                }
            }
        }
        for id in &delta.free {
            self.textures.remove(id);
        }
        delta.clear();
    }

    fn render(&mut self, ctx: &egui::Context, output: &FullOutput) -> Result<RgbaImage, String> {
        let scale = output.pixels_per_point;
        let size = ctx.content_rect().size() * scale;
        let (width, height) = (size.x.round() as u32, size.y.round() as u32);
        let mut canvas = vec![[0.0_f32, 0.0, 0.0, 1.0]; (width * height) as usize];
        for clipped in ctx.tessellate(output.shapes.clone(), scale) {
            let Primitive::Mesh(mesh) = &clipped.primitive else { continue };
            let Some(texture) = self.textures.get(&mesh.texture_id) else { continue };
            let clip = clipped.clip_rect * scale;
            for corners in mesh.indices.chunks_exact(3) {
                let corner = |n: usize| &mesh.vertices[corners[n] as usize];
                triangle(&mut canvas, width, height, [corner(0), corner(1), corner(2)], texture, clip, scale);
            }
        }
        Ok(RgbaImage::from_fn(width, height, |x, y| {
            let pixel = canvas[(y * width + x) as usize];
            Rgba(pixel.map(|part| (part.clamp(0.0, 1.0) * 255.0 + 0.5) as u8))
        }))
    }
}

/// Egui blends premultiplied colours directly, without conversion to linear light.
fn triangle(
    canvas: &mut [[f32; 4]],
    width: u32,
    height: u32,
    corners: [&Vertex; 3],
    texture: &Texture,
    clip: Rect,
    scale: f32,
) {
    let [a, b, c] = corners.map(|corner| corner.pos * scale);
    let area = (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
    if area.abs() < 1e-6 || !area.is_finite() {
        return;
    }
    let least =
        |values: [f32; 3], edge: f32| values.iter().copied().fold(f32::MAX, f32::min).max(edge).floor() as i64;
    let most =
        |values: [f32; 3], edge: f32| values.iter().copied().fold(f32::MIN, f32::max).min(edge).ceil() as i64;
    let (xs, ys) = ([a.x, b.x, c.x], [a.y, b.y, c.y]);
    let (left, right) = (least(xs, clip.left().max(0.0)), most(xs, clip.right().min(width as f32)));
    let (top, bottom) = (least(ys, clip.top().max(0.0)), most(ys, clip.bottom().min(height as f32)));
    let colours = corners.map(|corner| corner.color.to_array().map(|part| f32::from(part) / 255.0));
    for y in top..bottom {
        for x in left..right {
            let (px, py) = (x as f32 + 0.5, y as f32 + 0.5);
            if px < clip.left() || px >= clip.right() || py < clip.top() || py >= clip.bottom() {
                continue;
            }
            let w0 = ((b.x - px) * (c.y - py) - (b.y - py) * (c.x - px)) / area;
            let w1 = ((c.x - px) * (a.y - py) - (c.y - py) * (a.x - px)) / area;
            let w2 = 1.0 - w0 - w1;
            // A pixel on a shared edge belongs to one triangle, by the direction of the edge.
            let owns = |w: f32, from: egui::Pos2, to: egui::Pos2| {
                let along = if area > 0.0 { to - from } else { from - to };
                w > 0.0 || (w == 0.0 && (along.y > 0.0 || (along.y == 0.0 && along.x < 0.0)))
            };
            if !(owns(w0, b, c) && owns(w1, c, a) && owns(w2, a, b)) {
                continue;
            }
            let [at0, at1, at2] = corners.map(|corner| corner.uv.to_vec2());
            let at = at0 * w0 + at1 * w1 + at2 * w2;
            let texel = texture.at(at.x, at.y);
            let source: [f32; 4] = std::array::from_fn(|n| {
                (w0 * colours[0][n] + w1 * colours[1][n] + w2 * colours[2][n]) * texel[n]
            });
            let pixel = &mut canvas[(y as u32 * width + x as u32) as usize];
            for n in 0..3 {
                pixel[n] = source[n] + pixel[n] * (1.0 - source[3]);
            }
        }
    }
}
