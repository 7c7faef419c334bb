//! Frame rate control. The rate limits processor time and the use of the line, so that key presses are not
//! delayed by queued frames.

use std::time::{Duration, Instant};

/// Minimum frame interval for new data.
const SHORTEST: Duration = Duration::from_millis(80);
/// Minimum frame interval for user input.
const SHORTEST_FOR_KEYS: Duration = Duration::from_millis(25);
/// Maximum processor share of drawing, as 1/n.
const SHARE: u32 = 20;
/// Maximum time share of writing, as 1/n: a blocked write delays everything else.
const LINE_SHARE: u32 = 4;

/// Schedules frames.
#[derive(Debug)]
pub struct Pace {
    drawn: Option<(Instant, u64)>,
    cost: Duration,
    line: Duration,
    asked: bool,
}

impl Pace {
    /// No frame drawn so far.
    pub const fn new() -> Self {
        Pace { drawn: None, cost: Duration::ZERO, line: Duration::ZERO, asked: false }
    }

    /// Requests a frame for user input.
    pub const fn ask(&mut self) {
        self.asked = true;
    }

    /// Time until the next frame; `None` if nothing has changed.
    pub fn due_in(&self, now: Instant, revision: u64) -> Option<Duration> {
        let Some((at, drawn)) = self.drawn else { return Some(Duration::ZERO) };
        if drawn == revision && !self.asked {
            return None;
        }
        let least = if self.asked { SHORTEST_FOR_KEYS } else { SHORTEST };
        let gap = least.max(self.cost * SHARE).max(self.line * LINE_SHARE);
        Some((at + gap).saturating_duration_since(now))
    }

    /// Registers a frame of this revision, drawn from `began` to `ended`; `line` is the time in writes.
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
