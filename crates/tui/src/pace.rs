//! How often to draw: as seldom as looks live, never so often that drawing is what the CPU does, and never so often that
//! the line to the terminal is full of frames: a key has to find it free.

use std::time::{Duration, Instant};

/// No two frames closer than this for what the source brings.
const SHORTEST: Duration = Duration::from_millis(80);
/// No two frames closer than this for what the user does.
const SHORTEST_FOR_KEYS: Duration = Duration::from_millis(25);
/// Drawing takes at most one part in so many of the time.
const SHARE: u32 = 20;
/// Writing takes at most one part in so many: while it waits for the line nothing else gets done.
const LINE_SHARE: u32 = 4;

/// Decides when the next frame is due.
#[derive(Debug)]
pub struct Pace {
    drawn: Option<(Instant, u64)>,
    cost: Duration,
    line: Duration,
    asked: bool,
}

impl Pace {
    /// Nothing drawn yet.
    pub const fn new() -> Self {
        Pace { drawn: None, cost: Duration::ZERO, line: Duration::ZERO, asked: false }
    }

    /// The user did something and wants to see it.
    pub const fn ask(&mut self) {
        self.asked = true;
    }

    /// How long until a frame is due; `None` if nothing has changed since the last one.
    pub fn due_in(&self, now: Instant, revision: u64) -> Option<Duration> {
        let Some((at, drawn)) = self.drawn else { return Some(Duration::ZERO) };
        if drawn == revision && !self.asked {
            return None;
        }
        let least = if self.asked { SHORTEST_FOR_KEYS } else { SHORTEST };
        let gap = least.max(self.cost * SHARE).max(self.line * LINE_SHARE);
        Some((at + gap).saturating_duration_since(now))
    }

    /// A frame of this revision was drawn from `began` to `ended`, and for `line` of that the line was waited for.
    pub fn drew(&mut self, began: Instant, ended: Instant, line: Duration, revision: u64) {
        let took = ended.saturating_duration_since(began);
        self.line = line.min(took).min(Duration::from_secs(2));
        self.cost = took.saturating_sub(line).min(Duration::from_millis(50));
        self.drawn = Some((ended, revision));
        self.asked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_new_is_not_drawn() {
        let start = Instant::now();
        let mut pace = Pace::new();
        assert_eq!(pace.due_in(start, 1), Some(Duration::ZERO));
        pace.drew(start, start, Duration::ZERO, 1);
        assert_eq!(pace.due_in(start + Duration::from_secs(9), 1), None);
        assert_eq!(pace.due_in(start, 2), Some(SHORTEST));
        pace.ask();
        assert_eq!(pace.due_in(start, 1), Some(SHORTEST_FOR_KEYS));
        assert_eq!(pace.due_in(start + Duration::from_secs(1), 1), Some(Duration::ZERO));
    }

    #[test]
    fn a_slow_picture_is_drawn_less_often() {
        let start = Instant::now();
        let end = start + Duration::from_millis(30);
        let mut pace = Pace::new();
        pace.drew(start, end, Duration::ZERO, 1);
        assert_eq!(pace.due_in(end, 2), Some(Duration::from_millis(600)));
    }

    #[test]
    fn a_slow_line_is_left_free_for_most_of_the_time() {
        let start = Instant::now();
        let end = start + Duration::from_millis(500);
        let mut pace = Pace::new();
        pace.drew(start, end, Duration::from_millis(499), 1);
        assert_eq!(pace.due_in(end, 2), Some(Duration::from_millis(4 * 499)));
        pace.drew(start, end, Duration::from_millis(2), 1);
        assert_eq!(pace.due_in(end, 2), Some(Duration::from_secs(1)), "a picture this slow is capped");
    }
}
