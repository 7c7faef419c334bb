//! Drawings as files: SVG, and PNG from it.

use crate::failure::Usage;
use crate::{files, output};
use anyhow::{Context, Result};
use resvg::{tiny_skia, usvg};
use std::path::Path;
use std::sync::Arc;

/// PNG pixels per drawing unit, for dense screens.
const SCALE: f32 = 2.0;

/// Format of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Svg,
    Png,
}

impl Format {
    /// Format by file name extension.
    pub fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => {
                let text = "cannot be drawn: plots are SVG or PNG; give it a name that ends in .svg or .png";
                Err(Usage(format!("{} {text}", path.display())).into())
            }
        }
    }
}

/// Makes a drawing as SVG and writes it in the format of the file name.
pub fn write(path: &Path, draw: impl FnOnce() -> Result<String>) -> Result<()> {
    let could_not = |e: anyhow::Error| output::could_not_write("the plot", path, &format!("{e:#}"));
    let format = Format::of(path)?;
    let svg = draw().map_err(could_not)?;
    let bytes = match format {
        Format::Svg => svg.into_bytes(),
        Format::Png => png(&svg).map_err(could_not)?,
    };
    files::write(path, bytes).map_err(could_not)
}

/// Renders an SVG with embedded fonts, so that the result is equal on every host.
pub fn png(svg: &str) -> Result<Vec<u8>> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(svg, &options)?;
    let size = tree.size();
    let pixels = |length: f32| (length * SCALE).ceil() as u32;
    let mut pixmap = tiny_skia::Pixmap::new(pixels(size.width()), pixels(size.height())).context("no room")?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixmap.as_mut());
    Ok(pixmap.encode_png()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_have_letters() {
        let svg = "<svg xmlns='http://www.w3.org/2000/svg' width='120' height='40'>\
                   <rect width='120' height='40' fill='white'/>\
                   <text x='10' y='30' font-family='sans-serif' font-size='24'>RTT µs</text></svg>";
        let image = png(svg).expect("pixels");
        let page = tiny_skia::Pixmap::decode_png(&image).expect("what was encoded");
        assert_eq!((page.width(), page.height()), (240, 80));
        let ink = page.pixels().iter().filter(|p| p.red() < 0x60).count();
        assert!(ink > 200, "{ink}");
        assert!(png("no drawing").is_err());
    }

    #[test]
    fn a_name_says_what_it_is() {
        assert_eq!(Format::of(Path::new("a/b.SVG")).ok(), Some(Format::Svg));
        assert_eq!(Format::of(Path::new("b.png")).ok(), Some(Format::Png));
        assert!(Format::of(Path::new("b.jpg")).is_err() && Format::of(Path::new("png")).is_err());
    }
}
