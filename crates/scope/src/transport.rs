//! Transport: where in time the picture is, and how fast it moves.

/// The slowest speed, times that of events.
pub const SLOWEST: f64 = 0.001;
/// The fastest.
pub const FASTEST: f64 = 100.0;

/// Where in time the picture is, as a front end shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transport {
    /// First instant there is.
    pub from_ns: u64,
    /// Last instant there is; live it grows.
    pub to_ns: u64,
    /// Up to where a recording was read so far; the same as `to_ns` when all of it was.
    pub read_ns: u64,
    /// Where the picture's head is: its newest instant.
    pub head_ns: u64,
    /// Times that of events.
    pub speed: f64,
    /// It moves.
    pub playing: bool,
    /// It stays at the end, as that grows.
    pub following: bool,
    /// It can go back to any instant: a recording.
    pub seekable: bool,
}

impl Transport {
    /// Where the head is as a part of all there is, 0 to 1.
    pub fn part(&self) -> f64 {
        let all = self.to_ns.saturating_sub(self.from_ns);
        if all == 0 { 1.0 } else { self.head_ns.saturating_sub(self.from_ns) as f64 / all as f64 }
    }
}
