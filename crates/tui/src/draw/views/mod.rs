//! The views of the terminal: one per file, except the scope's.

mod clock;
mod events;
mod flows;
mod hops;
mod journeys;
mod losses;
mod requests;
mod topology;

use super::canvas::Canvas;
use super::{Extras, scope, scrolled};
use crate::theme::Theme;
use magscope_scope::look::FlowOrder;
use magscope_scope::{Frame, List, Rows, View};
use ratatui::layout::Rect;

/// Draws the view that the user chose.
pub fn draw(canvas: &mut Canvas, body: Rect, frame: &Frame, extras: &Extras) {
    match frame.controls.view {
        View::Scope
        // Only the window has these.
        | View::Distributions
        | View::Trigger
        | View::Persistence
        | View::Xy
        | View::Compare => scope::draw(canvas, body, frame, extras),
        View::Flows => flows::draw(canvas, body, frame, extras),
        View::Hops => hops::draw(canvas, body, frame),
        View::Journeys => journeys::draw(canvas, body, frame),
        View::Events => events::draw(canvas, body, frame),
        View::Clock => clock::draw(canvas, body, frame),
        View::Losses => losses::draw(canvas, body, frame, extras),
        View::Requests => requests::draw(canvas, body, frame),
        View::Topology => topology::draw(canvas, body, frame, extras),
    }
    if frame.inspector.is_some() && !frame.controls.view.is_on_picture() {
        scope::inspect(canvas, body, frame, extras.ladder_from);
    }
}

/// The last row from which the lines of the view fill its area; `None` for a view with rows of another kind.
pub fn last_row(frame: &Frame, theme: &Theme, body: Rect, extras: &Extras) -> Option<usize> {
    let lines = match frame.controls.view {
        View::Clock => clock::lines(frame, body),
        View::Losses => losses::lines(frame, theme, body, extras),
        _ => return None,
    };
    Some(scrolled::last_from(lines, body.height))
}

/// What a click on a title at position `x` of the area asks for.
pub fn title_at(frame: &Frame, area: Rect, x: u16) -> Option<Title> {
    match frame.controls.view {
        View::Flows => flows::order_at(frame, area, x).map(Title::Order),
        View::Journeys => scope::list_at(x).map(Title::List),
        _ => None,
    }
}

/// A title that orders or changes a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Title {
    /// Orders the flows by its column.
    Order(FlowOrder),
    /// Lists these journeys.
    List(List),
}

/// Row of the selected item below the title, in views with such rows.
pub fn selected_row(frame: &Frame, area: Rect) -> Option<usize> {
    let rows = usize::from(area.height.saturating_sub(1));
    match frame.controls.view.spec().rows {
        Rows::Flows => frame.flows(flows::rows(area)).rows.iter().position(|row| row.selected),
        Rows::Journeys => frame.journeys(rows).rows.iter().position(|row| row.selected),
        Rows::Events => frame.events(rows).rows.iter().position(|row| row.selected),
        Rows::Legs => topology::selected_row(frame, area),
        Rows::Picture | Rows::Pairs | Rows::Requests | Rows::Lines => None,
    }
}
