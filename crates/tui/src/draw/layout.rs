//! Which panel stands where, and which lanes there is room for.

use super::columns::{Column, fitting, total_width};
use magscope_core::Hop;
use magscope_scope::{Frame, Lane, Place};
use ratatui::layout::Rect;

/// Columns the names of hops take.
const LABELS: u16 = 13;
/// The picture is not narrowed below this for the sake of numbers.
const NARROWEST_PICTURE: u16 = 34;
/// Part of what is left that the numbers may take, in per cent.
const NUMBERS_SHARE: u32 = 55;

/// A lane and the rows it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index into the frame's lanes.
    pub lane: usize,
    /// First row, from the top of the lanes.
    pub top: u16,
}

/// Which panel stands where. Panels there is no room for are empty.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Title line.
    pub header: Rect,
    /// The rule with the columns' titles.
    pub titles: Rect,
    /// Names of the hops.
    pub labels: Rect,
    /// Lifelines.
    pub picture: Rect,
    /// Numbers beside the lanes.
    pub numbers: Rect,
    /// The time axis.
    pub axis: Rect,
    /// Slowest or recent journeys.
    pub table: Rect,
    /// Losses and own cost.
    pub footer: Rect,
    /// Keys.
    pub keys: Rect,
    /// The lanes shown, top first.
    pub rows: Vec<Row>,
    /// Rows each of them has.
    pub lane_height: u16,
    /// Lanes there was no room for.
    pub hidden: usize,
    /// The columns of numbers.
    pub columns: Vec<Column>,
}

/// Rows of each panel, from the top.
struct Heights {
    header: u16,
    titles: u16,
    lanes: u16,
    axis: u16,
    table: u16,
    footer: u16,
    keys: u16,
}

impl Heights {
    /// Shares out `height` rows: first what must never be missing, then the lanes, then comfort.
    fn new(height: u16, lanes: u16) -> Self {
        let mut left = height;
        let mut take = |wanted: u16| {
            let given = wanted.min(left);
            left -= given;
            given
        };
        let header = take(1);
        let footer = take(1); // losses are always there
        let mut lane_rows = take(5);
        let axis = take(1);
        let titles = take(1);
        let keys = take(1);
        lane_rows += take(5);
        let mut table = take(4);
        if table < 2 {
            lane_rows += table;
            table = 0;
        }
        lane_rows += take(lanes.saturating_sub(lane_rows));
        table += take(if table > 0 { 7 } else { 0 });
        // A second and third row for every lane, or none.
        while lane_rows > 0 && lane_rows / lanes.max(1) < 3 && left >= lanes {
            lane_rows += lanes;
            left -= lanes;
        }
        table += left;
        Heights { header, titles, lanes: lane_rows, axis, table, footer, keys }
    }
}

impl Layout {
    /// The layout of `frame` in `area`.
    pub fn new(area: Rect, frame: &Frame) -> Self {
        let heights = Heights::new(area.height, frame.lanes.len() as u16);
        let mut y = area.y;
        let mut band = |height: u16| {
            let rect = Rect { y, height, ..area };
            y += height;
            rect
        };
        let header = band(heights.header);
        let titles = band(heights.titles);
        let lanes = band(heights.lanes);
        let axis = band(heights.axis);
        let table = band(heights.table);
        let footer = band(heights.footer);
        let keys = band(heights.keys);

        let label_width = LABELS.min(area.width);
        let beside = area.width - label_width;
        let margin = beside.min(1);
        let room = beside.saturating_sub(NARROWEST_PICTURE + margin);
        let room = room.min((u32::from(beside) * NUMBERS_SHARE / 100) as u16);
        let columns = fitting(room);
        let numbers_width = total_width(&columns);
        let picture_width = beside - numbers_width - margin;
        let column = |x: u16, width: u16, of: Rect| Rect { x: area.x + x, width, ..of };

        let (rows, lane_height) = rows(frame.lanes, heights.lanes);
        Layout {
            header,
            titles,
            labels: column(0, label_width, lanes),
            picture: column(label_width, picture_width, lanes),
            numbers: column(label_width + picture_width, numbers_width, lanes),
            axis: column(label_width, picture_width, axis),
            table,
            footer,
            keys,
            hidden: frame.lanes.len() - rows.len(),
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

/// The lanes that fit into `height` rows, and the rows of each.
fn rows(lanes: &[Lane], height: u16) -> (Vec<Row>, u16) {
    if lanes.is_empty() || height == 0 {
        return (Vec::new(), 1);
    }
    let lane_height = (height / lanes.len() as u16).clamp(1, 3);
    let mut by_need: Vec<usize> = (0..lanes.len()).collect();
    by_need.sort_by_key(|at| (need_of_lane(&lanes[*at]), *at));
    by_need.truncate(usize::from(height / lane_height));
    by_need.sort_unstable();
    let row = |(i, lane): (usize, usize)| Row { lane, top: i as u16 * lane_height };
    (by_need.into_iter().enumerate().map(row).collect(), lane_height)
}

/// What to keep where there is little room: what is measured before what is not, the ends of a leg before its middle.
fn need_of_lane(lane: &Lane) -> (u8, u8) {
    let Some(hop) = lane.hop() else { return (0, 0) };
    let class = match (lane.is_served(), lane.seen) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    };
    (class, need_of_hop(hop))
}

const fn need_of_hop(hop: Hop) -> u8 {
    match hop {
        Hop::AppRecv => 0,
        Hop::AppSend => 1,
        Hop::DevRecv => 2,
        Hop::DevXmit => 3,
        Hop::TaskRun => 4,
        Hop::SockReady => 5,
        Hop::IpOut => 6,
        Hop::TcpSend => 7,
        Hop::UdpSend => 8,
        Hop::TcpRecv => 9,
        Hop::UdpRecv => 10,
        Hop::TaskWake => 11,
        Hop::DevQueue => 12,
        Hop::IpIn => 13,
        Hop::TcpXmit => 14,
        Hop::AppCopy => 15,
        Hop::IpPost => 16,
        Hop::IpPre => 17,
        _ => 18,
    }
}

/// Whether a lane is the wire.
pub fn is_wire(lane: &Lane) -> bool {
    lane.place == Place::Wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_given_to_someone_and_losses_first() {
        for height in 0..100 {
            let h = Heights::new(height, 20);
            let sum = h.header + h.titles + h.lanes + h.axis + h.table + h.footer + h.keys;
            assert_eq!(sum, height);
            assert_eq!(h.footer, u16::from(height >= 2));
        }
        let at_24 = Heights::new(24, 20);
        assert_eq!((at_24.lanes, at_24.table), (15, 4));
        let at_36 = Heights::new(36, 20);
        assert_eq!((at_36.lanes, at_36.table), (20, 11));
        let at_60 = Heights::new(60, 20);
        assert_eq!((at_60.lanes, at_60.table), (40, 15));
    }
}
