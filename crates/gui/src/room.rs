//! Room of a window for panels: in a small one the time line has priority.

/// Least height of the area of panels and time line for a panel below, points.
const LEAST_HEIGHT: f32 = 430.0;
/// Least width for a panel beside, points.
const LEAST_WIDTH: f32 = 860.0;

/// Which panels have room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    is_wide: bool,
    is_high: bool,
}

impl Default for Room {
    /// Room for all of them.
    fn default() -> Self {
        Room { is_wide: true, is_high: true }
    }
}

impl Room {
    /// The room of an area of this size, points.
    pub fn of(size: egui::Vec2) -> Self {
        Room { is_wide: size.x >= LEAST_WIDTH, is_high: size.y >= LEAST_HEIGHT }
    }

    /// Why the side panel is not shown, in words; `None` with room for it.
    pub fn side_lack(self) -> Option<&'static str> {
        (!self.is_wide).then_some("the window is too narrow for the panel beside")
    }

    /// Why no panel is shown below, in words; `None` with room for one.
    pub fn below_lack(self) -> Option<&'static str> {
        (!self.is_high).then_some("the window is too low for a panel")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::vec2;

    #[test]
    fn a_small_window_has_room_for_the_time_line_alone() {
        let room = Room::of(vec2(640.0, 300.0));
        assert!(room.side_lack().is_some() && room.below_lack().is_some());
        assert_eq!(Room::of(vec2(1280.0, 700.0)), Room::default());
        let low = Room::of(vec2(1280.0, 429.0));
        assert!(low.side_lack().is_none() && low.below_lack().is_some());
    }
}
