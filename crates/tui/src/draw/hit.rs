//! The object at a screen position, for the mouse.

use super::bar::view_at;
use super::scope::{Layout, list_at};
use super::shell::Shell;
use super::views::{self, Title};
use magscope_scope::{Frame, Place, View};
use ratatui::layout::{Position, Rect};

/// The object at a screen position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hit {
    /// The headline.
    Headline,
    /// The name of a view.
    Tab(View),
    /// The picture: position on the time axis, lane, and column width.
    Picture {
        /// Position, 0 at the left edge, 1 at the right.
        at: f64,
        /// The lane.
        lane: Option<Place>,
        /// Column width as a fraction of the axis.
        column: f64,
    },
    /// The name or the numbers of a lane.
    Lane(Place),
    /// The overview line: a fraction of the time range.
    Session(f64),
    /// A row of the table below the picture, from 0.
    Listed(usize),
    /// A row of a view's table, relative to the selected one.
    Row(i32),
    /// A title of a table.
    Title(Title),
}

/// The object at position `at` of a screen of this `area`.
pub fn hit(frame: &Frame, area: Rect, at: Position) -> Option<Hit> {
    let shell = Shell::of(area, frame);
    if shell.headline.contains(at) {
        return Some(Hit::Headline);
    }
    if shell.bar.contains(at) {
        return view_at(at.x - shell.bar.x, shell.bar.width).map(Hit::Tab);
    }
    if !shell.body.contains(at) {
        return None;
    }
    if !frame.controls.view.is_on_picture() {
        if at.y == shell.body.y && frame.inspector.is_none() {
            return views::title_at(frame, shell.body, at.x - shell.body.x).map(Hit::Title);
        }
        let row = i32::from(at.y - shell.body.y) - 1;
        return Some(Hit::Row(row - views::selected_row(frame, shell.body)? as i32)).filter(|_| row >= 0);
    }
    let layout = Layout::new(shell.body, frame);
    let part = |of: Rect| (f64::from(at.x - of.x) + 0.5) / f64::from(of.width.max(1));
    let lane = |y: u16| {
        let row = layout.rows.iter().find(|row| (row.top..row.top + layout.lane_height).contains(&y))?;
        Some(frame.lanes.get(row.lane)?.place)
    };
    if layout.picture.contains(at) || layout.axis.contains(at) {
        let lane = at.y.checked_sub(layout.picture.y).and_then(lane);
        let column = 1.0 / f64::from(layout.picture.width.max(1));
        return Some(Hit::Picture { at: part(layout.picture), lane, column });
    }
    if layout.labels.contains(at) || layout.numbers.contains(at) {
        return lane(at.y - layout.labels.y).map(Hit::Lane);
    }
    if layout.minimap.contains(at) {
        return Some(Hit::Session(part(layout.minimap)));
    }
    let row = layout.table.contains(at).then(|| usize::from(at.y - layout.table.y))?;
    if row == 0 {
        return list_at(at.x - layout.table.x).map(|list| Hit::Title(Title::List(list)));
    }
    row.checked_sub(1).filter(|row| *row < frame.table.len()).map(Hit::Listed)
}
