//! The picture as a file: PNG of the screen, SVG of the shapes.

mod svg;

pub use svg::svg;

use crate::world::Trouble;
use egui::ColorImage;
use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};

/// A picture as PNG.
pub fn png(image: &ColorImage) -> Result<Vec<u8>, Trouble> {
    let bytes: Vec<u8> = image.pixels.iter().flat_map(egui::Color32::to_array).collect();
    let mut out = Vec::new();
    let [width, height] = image.size;
    PngEncoder::new(&mut out)
        .write_image(&bytes, width as u32, height as u32, ExtendedColorType::Rgba8)
        .map_err(|error| Trouble {
            what: "the picture could not be made a PNG".to_owned(),
            why: error.to_string(),
            next: "write it as SVG".to_owned(),
        })?;
    Ok(out)
}
