//! The rooms other than the scope's, one per file.

mod clock;
mod events;
mod flows;
mod hops;
mod journeys;
mod losses;

pub use clock::draw as clock;
pub use events::draw as events;
pub use flows::draw as flows;
pub use hops::draw as hops;
pub use journeys::draw as journeys;
pub use losses::draw as losses;

use magscope_scope::{Frame, Room};
use ratatui::layout::Rect;

/// Row of the selected item below the title, in rooms with such rows.
pub fn selected_row(frame: &Frame, area: Rect) -> Option<usize> {
    let rows = usize::from(area.height.saturating_sub(1));
    match frame.view.room {
        Room::Flows => frame.flows(rows).rows.iter().position(|row| row.selected),
        Room::Journeys => frame.journeys(rows).rows.iter().position(|row| row.selected),
        Room::Events => frame.events(rows).rows.iter().position(|row| row.selected),
        _ => None,
    }
}
