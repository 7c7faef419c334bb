//! Plots as files: SVG or PNG.

use crate::failure::Usage;
use crate::{files, output};
use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::prelude::{BitMapBackend, DrawingBackend, SVGBackend, WHITE};
use plotters::style::{FontStyle, register_font};
use std::path::Path;

/// PNG pixels per drawing unit, for dense screens.
const PIXELS: u32 = 2;
/// Name of the embedded font, so that a plot is equal on every host; viewers of an SVG have their own.
pub const FONT: &str = "sans-serif";

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

/// A plot of panels below each other, which can be drawn in any format.
pub trait Plot {
    /// What one panel shows.
    type Panel;

    /// Width and height of a panel, drawing units.
    const SIZE: (u32, u32);

    /// The panels.
    fn panels(&self) -> &[Self::Panel];

    /// Draws a panel on its area, with this many pixels per drawing unit.
    fn draw<B: DrawingBackend>(
        &self,
        panel: &Self::Panel,
        area: &DrawingArea<B, Shift>,
        pixels: u32,
    ) -> Result<()>
    where
        B::ErrorType: 'static;
}

/// Makes a plot and writes it in the format of the file name.
pub fn write<P: Plot>(path: &Path, plot: impl FnOnce() -> Result<P>) -> Result<()> {
    let could_not = |e: anyhow::Error| output::could_not_write("the plot", path, &format!("{e:#}"));
    let format = Format::of(path)?;
    let plot = plot()?;
    let bytes = match format {
        Format::Svg => svg(&plot)?,
        Format::Png => png(&plot)?,
    };
    files::write(path, bytes).map_err(could_not)
}

fn size<P: Plot>(plot: &P, pixels: u32) -> (u32, u32) {
    (P::SIZE.0 * pixels, P::SIZE.1 * plot.panels().len() as u32 * pixels)
}

fn svg(plot: &impl Plot) -> Result<Vec<u8>> {
    let mut text = String::new();
    draw(plot, SVGBackend::with_string(&mut text, size(plot, 1)), 1)?;
    Ok(text.into_bytes())
}

fn png(plot: &impl Plot) -> Result<Vec<u8>> {
    let (width, height) = size(plot, PIXELS);
    let mut rgb = vec![0; width as usize * height as usize * 3];
    draw(plot, BitMapBackend::with_buffer(&mut rgb, (width, height)), PIXELS)?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    encoder.write_header()?.write_image_data(&rgb).context("cannot encode the picture")?;
    Ok(file)
}

fn draw<B: DrawingBackend>(plot: &impl Plot, backend: B, pixels: u32) -> Result<()>
where
    B::ErrorType: 'static,
{
    register_font(FONT, FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| anyhow!("the font is damaged"))?;
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    for (area, panel) in area.split_evenly((plot.panels().len(), 1)).iter().zip(plot.panels()) {
        plot.draw(panel, area, pixels)?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::element::Text;
    use plotters::style::IntoFont;

    struct Letters;

    impl Plot for Letters {
        type Panel = &'static str;

        const SIZE: (u32, u32) = (120, 40);

        fn panels(&self) -> &[&'static str] {
            &["RTT µs", "below"]
        }

        fn draw<B: DrawingBackend>(
            &self,
            panel: &&'static str,
            area: &DrawingArea<B, Shift>,
            pixels: u32,
        ) -> Result<()>
        where
            B::ErrorType: 'static,
        {
            area.draw(&Text::new(*panel, (10, 10), (FONT, 24 * pixels).into_font()))?;
            Ok(())
        }
    }

    #[test]
    fn pixels_have_letters() {
        let file = png(&Letters).expect("pixels");
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().expect("a picture");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a small one")];
        let info = reader.next_frame(&mut pixels).expect("what was encoded");
        assert_eq!((info.width, info.height), (240, 160));
        for panel in pixels.chunks(pixels.len() / 2) {
            let ink = panel.chunks(3).filter(|rgb| rgb.iter().all(|part| *part < 0x60)).count();
            assert!(ink > 200, "{ink}");
        }
    }

    #[test]
    fn text_stays_text_in_an_svg() {
        let text = String::from_utf8(svg(&Letters).expect("text")).expect("it is text");
        assert!(text.contains("RTT µs") && text.contains("below"), "{text}");
    }

    #[test]
    fn a_name_says_what_it_is() {
        assert_eq!(Format::of(Path::new("a/b.SVG")).ok(), Some(Format::Svg));
        assert_eq!(Format::of(Path::new("b.png")).ok(), Some(Format::Png));
        assert!(Format::of(Path::new("b.jpg")).is_err() && Format::of(Path::new("png")).is_err());
    }
}
