//! Transport: position and speed of the picture in time.

/// The slowest speed, as a multiple of real time.
pub const SLOWEST: f64 = 0.001;
/// The fastest.
pub const FASTEST: f64 = 100.0;

/// Position of the picture in time, for a front end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transport {
    /// First instant there is.
    pub from_ns: u64,
    /// Last instant of the time line; live it grows.
    pub to_ns: u64,
    /// End of the part of a recording read so far; equal to `to_ns` for all of it.
    pub read_ns: u64,
    /// The picture's head: its newest instant.
    pub head_ns: u64,
    /// Times that of events.
    pub speed: f64,
    /// True if it moves.
    pub playing: bool,
    /// True if it stays at the growing end.
    pub following: bool,
    /// True if it can seek to any instant: a recording.
    pub seekable: bool,
}

impl Transport {
    /// Position of the head as a fraction of the time line, 0 to 1.
    pub fn part(&self) -> f64 {
        let all = self.to_ns.saturating_sub(self.from_ns);
        if all == 0 { 1.0 } else { self.head_ns.saturating_sub(self.from_ns) as f64 / all as f64 }
    }
}

/// The head of the picture and its motion. The caller supplies the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Playhead {
    /// Position.
    pub head_ns: u64,
    /// True if it stays at the end.
    pub following: bool,
    /// Times that of events.
    speed: f64,
    /// Fraction of a nanosecond not yet applied.
    rest: f64,
}

impl Playhead {
    /// A playhead at an instant.
    pub fn new(head_ns: u64, following: bool, speed: f64) -> Self {
        let mut playhead = Playhead { head_ns, following, speed: 1.0, rest: 0.0 };
        playhead.set_speed(speed);
        playhead
    }

    /// Times that of events.
    pub const fn speed(&self) -> f64 {
        self.speed
    }

    /// Sets the speed, clamped to the valid range. NaN and infinity have no effect.
    pub fn set_speed(&mut self, speed: f64) {
        if speed.is_finite() {
            self.speed = speed.clamp(SLOWEST, FASTEST);
        }
    }

    /// The next faster speed (1) or slower one (−1) of 1, 2, 5 times a power of ten.
    pub fn step_speed(&mut self, by: i8) {
        let steps = (-3..=2).flat_map(|power| [1.0, 2.0, 5.0].map(|n| n * 10_f64.powi(power)));
        let mut steps = steps.filter(|speed| *speed < FASTEST * 1.01);
        let next = if by > 0 {
            steps.find(|speed| *speed > self.speed * 1.001)
        } else {
            steps.rfind(|speed| *speed < self.speed * 0.999)
        };
        self.set_speed(next.unwrap_or(self.speed));
    }

    /// Advances the head by a time, at most to the end. True if it reached the end by this.
    pub fn tick(&mut self, elapsed_ns: u64, end_ns: u64) -> bool {
        if self.following {
            self.head_ns = self.head_ns.max(end_ns);
            return false;
        }
        let go = elapsed_ns as f64 * self.speed + self.rest;
        self.rest = go.fract();
        let before = self.head_ns;
        self.head_ns = self.head_ns.saturating_add(go as u64).min(end_ns).max(before.min(end_ns));
        before < end_ns && self.head_ns >= end_ns
    }

    /// Moves to an instant and stays there.
    pub fn seek(&mut self, at_ns: u64) {
        (self.head_ns, self.following, self.rest) = (at_ns, false, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_moves_by_its_speed_and_stops_at_the_end() {
        for speed in [SLOWEST, 0.01, 1.0, 2.0, FASTEST] {
            let mut playhead = Playhead::new(1_000, false, speed);
            for _ in 0..1_000 {
                playhead.tick(777, u64::MAX);
            }
            let gone = (playhead.head_ns - 1_000) as f64;
            assert!((gone - 777_000.0 * speed).abs() <= 1.0, "{speed}: {gone}");
        }
        let mut playhead = Playhead::new(0, false, 10.0);
        assert!(!playhead.tick(99, 1_000) && playhead.tick(99, 1_000) && !playhead.tick(99, 1_000));
        assert_eq!(playhead.head_ns, 1_000);
        playhead.seek(500);
        assert!(playhead.tick(1_000, 900) && playhead.head_ns == 900);
    }

    #[test]
    fn speeds_are_steps_between_ends() {
        let mut playhead = Playhead::new(0, false, 1.0);
        let seen: Vec<f64> = (0..3)
            .map(|_| {
                playhead.step_speed(1);
                playhead.speed()
            })
            .collect();
        assert_eq!(seen, [2.0, 5.0, 10.0]);
        (0..50).for_each(|_| playhead.step_speed(1));
        assert!((playhead.speed() - FASTEST).abs() < 1e-9);
        (0..50).for_each(|_| playhead.step_speed(-1));
        assert!((playhead.speed() - SLOWEST).abs() < 1e-12);
        playhead.set_speed(f64::NAN);
        playhead.set_speed(1e9);
        assert!((playhead.speed() - FASTEST).abs() < 1e-9);
    }

    #[test]
    fn following_is_at_the_end() {
        let mut playhead = Playhead::new(0, true, 1.0);
        playhead.tick(1, 5_000);
        assert_eq!(playhead.head_ns, 5_000);
    }
}
