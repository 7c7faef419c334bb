//! Layout of the panels, and the selection of lanes.

use super::columns::{Column, fitting, total_width};
use magscope_core::Hop;
use magscope_scope::{Frame, Lane, Place};
use ratatui::layout::Rect;

/// Width of the hop names.
const LABELS: u16 = 13;
/// Minimum width of the picture.
const NARROWEST_PICTURE: u16 = 34;
/// Maximum share of the remaining width for numbers, per cent.
const NUMBERS_SHARE: u32 = 55;

/// A lane and its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index into the frame's lanes.
    pub lane: usize,
    /// First row, from the top of the lanes.
    pub top: u16,
}

/// Minimum width for measurements next to the table.
const WIDE: u16 = 150;
/// Their width.
const SIDE: u16 = 72;

/// Areas of the panels; empty without room.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The rule with the columns' titles.
    pub titles: Rect,
    /// Names of the hops.
    pub labels: Rect,
    /// Lifelines.
    pub picture: Rect,
    /// Numbers next to the lanes.
    pub numbers: Rect,
    /// The time axis.
    pub axis: Rect,
    /// The overview line; as wide as the picture.
    pub minimap: Rect,
    /// Loadlines, from the labels to the numbers.
    pub loads: Rect,
    /// Rows per loadline.
    pub load_height: u16,
    /// Slowest or recent journeys.
    pub table: Rect,
    /// Measurements.
    pub side: Rect,
    /// The lanes shown, top first.
    pub rows: Vec<Row>,
    /// Rows per lane.
    pub lane_height: u16,
    /// Number of lanes without room.
    pub hidden: usize,
    /// The line about folded lanes; empty without any.
    pub folded: Rect,
    /// The columns of numbers.
    pub columns: Vec<Column>,
}

/// Rows of each panel, from the top.
#[derive(Debug, Default)]
struct Heights {
    titles: u16,
    lanes: u16,
    folded: u16,
    axis: u16,
    minimap: u16,
    loads: u16,
    table: u16,
}

impl Heights {
    /// Distributes `height` rows among the panels for this many lanes and loadlines: lanes first, then the
    /// rest.
    fn new(height: u16, lanes: u16, folded: u16, loads: u16) -> Self {
        let mut left = height;
        let mut take = |wanted: u16| {
            let given = wanted.min(left);
            left -= given;
            given
        };
        let mut h = Heights { lanes: take(5), axis: take(1), titles: take(1), ..Heights::default() };
        h.lanes += take(lanes.saturating_sub(h.lanes).min(5));
        h.folded = take(folded);
        h.table = take(4);
        if h.table < 2 {
            h.lanes += std::mem::take(&mut h.table);
        }
        h.loads = take(loads.min(2));
        h.lanes += take(lanes.saturating_sub(h.lanes));
        h.minimap = take(1);
        h.loads += take(loads.saturating_sub(h.loads));
        h.table += take(if h.table > 0 { 3 } else { 0 });
        // A second row for every lane or none.
        if h.lanes > 0 && left >= lanes {
            h.lanes += lanes;
            left -= lanes;
        }
        while loads > 0 && h.loads / loads < 3 && left >= loads + 3 {
            h.loads += loads;
            left -= loads;
        }
        if h.table > 0 {
            h.table += left;
        } else {
            h.lanes += left;
        }
        h
    }
}

impl Layout {
    /// The layout of `frame` in `area`.
    pub fn new(area: Rect, frame: &Frame) -> Self {
        let loads = frame.controls.channels.len() + usize::from(frame.controls.math.is_some());
        let loads = loads.min(usize::from(u8::MAX)) as u16;
        let shown = |lane: &&Lane| !frame.is_folded(lane);
        let lanes_shown = frame.lanes.iter().filter(shown).count();
        let folded = u16::from(lanes_shown < frame.lanes.len());
        let heights = Heights::new(area.height, lanes_shown as u16, folded, loads);
        let mut y = area.y;
        let mut band = |height: u16| {
            let rect = Rect { y, height, ..area };
            y += height;
            rect
        };
        let titles = band(heights.titles);
        let lanes = band(heights.lanes);
        let folded = band(heights.folded);
        let axis = band(heights.axis);
        let load_rows = band(heights.loads);
        let minimap = band(heights.minimap);
        let bottom = band(heights.table);

        let label_width = LABELS.min(area.width);
        let remaining_width = area.width - label_width;
        let margin = remaining_width.min(1);
        let room = remaining_width.saturating_sub(NARROWEST_PICTURE + margin);
        let room = room.min((u32::from(remaining_width) * NUMBERS_SHARE / 100) as u16);
        let columns = fitting(room);
        let numbers_width = total_width(&columns);
        let picture_width = remaining_width - numbers_width - margin;
        let column = |x: u16, width: u16, of: Rect| Rect { x: area.x + x, width, ..of };

        let side = if area.width >= WIDE && bottom.height >= 5 { SIDE } else { 0 };
        let (rows, lane_height) = rows(frame, heights.lanes);
        Layout {
            titles,
            labels: column(0, label_width, lanes),
            picture: column(label_width, picture_width, lanes),
            numbers: column(label_width + picture_width, numbers_width, lanes),
            axis: column(label_width, picture_width, axis),
            minimap: column(label_width, picture_width, minimap),
            loads: load_rows,
            load_height: heights.loads.checked_div(loads).unwrap_or(0).max(1),
            table: Rect { width: bottom.width - side, ..bottom },
            side: Rect { x: bottom.x + bottom.width - side, width: side, ..bottom },
            hidden: lanes_shown - rows.len(),
            folded,
            rows,
            lane_height,
            columns,
        }
    }

    /// The middle row of a lane.
    pub const fn middle(&self) -> u16 {
        self.lane_height / 2
    }
}

/// The lanes that fit into `height` rows, and the rows per lane.
fn rows(frame: &Frame, height: u16) -> (Vec<Row>, u16) {
    let lanes = frame.lanes;
    let mut by_need: Vec<usize> = (0..lanes.len()).filter(|at| !frame.is_folded(&lanes[*at])).collect();
    if by_need.is_empty() || height == 0 {
        return (Vec::new(), 1);
    }
    let lane_height = (height / by_need.len() as u16).clamp(1, 3);
    by_need.sort_by_key(|at| (need_of_lane(&lanes[*at]), *at));
    by_need.truncate(usize::from(height / lane_height));
    by_need.sort_unstable();
    let row = |(i, lane): (usize, usize)| Row { lane, top: i as u16 * lane_height };
    (by_need.into_iter().enumerate().map(row).collect(), lane_height)
}

/// Priority of lanes under lack of room: served before unserved, ends of a leg before its middle.
fn need_of_lane(lane: &Lane) -> (u8, u8) {
    let hop = match lane.place {
        Place::Hop(hop) => hop,
        Place::Wire(0) | Place::Forwarder(_) => return (0, 0),
        // The user opened it.
        Place::Inside(..) => return (0, need_of_hop(Hop::DevRecv)),
        // A custom probe has priority, but not over the ends of the path, and nor have the other wires.
        Place::Probe(_) if !lane.seen => return (0, need_of_hop(Hop::UdpRecv)),
        Place::Probe(_) | Place::Wire(_) => return (0, need_of_hop(Hop::DevXmit)),
    };
    let class = match (lane.is_served(), lane.seen) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    };
    (class, need_of_hop(hop))
}

const fn need_of_hop(hop: Hop) -> u8 {
    hop.spec().screen_priority
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_given_to_someone() {
        for height in 0..100 {
            for loads in [0, 1, 3, 20] {
                for (lanes, folded) in [(20, 0), (13, 1), (2, 1)] {
                    let h = Heights::new(height, lanes, folded, loads);
                    let sum = h.titles + h.lanes + h.folded + h.axis + h.minimap + h.loads + h.table;
                    assert_eq!(sum, height, "{h:?}");
                }
            }
        }
        let at_24 = Heights::new(20, 20, 0, 2);
        assert_eq!((at_24.lanes, at_24.table, at_24.loads), (12, 4, 2));
        let at_60 = Heights::new(56, 20, 0, 3);
        assert_eq!((at_60.lanes, at_60.minimap), (40, 1));
    }
}
