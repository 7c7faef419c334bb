//! The scope's view: lanes and lifelines, loadlines, the overview line, and the journeys.

mod axis;
mod bands;
mod columns;
mod density;
mod first_minute;
mod hits;
mod inspector;
mod lanes;
mod layout;
mod lifelines;
mod loadlines;
mod marks;
mod measurements;
mod minimap;
mod raster;
pub mod table;
mod xy;

pub use inspector::{inspect, ladder_lines};
pub use layout::Layout;
pub use raster::Raster;
pub use table::list_at;

use super::Extras;
use super::canvas::Canvas;
use magscope_scope::{Frame, Persistence};
use ratatui::layout::Rect;

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame, extras: &Extras) {
    let layout = Layout::new(area, frame);
    lanes::draw(canvas, &layout, frame, extras);
    let extent = if frame.controls.persistence == Persistence::Off {
        lifelines::draw(canvas, &layout, frame);
        None
    } else {
        density::persistence(canvas, &layout, frame)
    };
    marks::draw(canvas, &layout, frame);
    axis::draw(canvas, &layout, frame, extent.as_deref());
    marks::drag(canvas, &layout, extras);
    first_minute::draw(canvas, layout.picture, frame);
    xy::draw(canvas, &layout, frame);
    loadlines::draw(canvas, &layout, frame);
    minimap::draw(canvas, &layout, frame);
    table::draw(canvas, layout.table, frame);
    if layout.side.is_empty() {
        if extras.measurements {
            measurements::over(canvas, area, frame);
        }
    } else {
        measurements::draw(canvas, layout.side, frame);
    }
    if frame.inspector.is_some() {
        inspect(canvas, area, frame, extras.ladder_from);
    }
}
