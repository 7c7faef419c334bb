//! Persistence: overlaid lifelines, aligned at their start, as a fading density.

use crate::lifeline::Lifeline;
use magscope_core::Hop;
use magscope_core::hop::PATH_HOPS;
use magscope_core::journey::Rung;

/// Columns of the density.
const COLUMNS: usize = 512;
/// Weights grow by e to this power at most before a rescale: far below the limit of an `f32`.
const MOST_FOLDS: f64 = 32.0;

/// Decay of the overlay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// No persistence.
    #[default]
    Off,
    /// Decay to 1/e in this time, nanoseconds of event time.
    Fade(u64),
    /// No decay.
    Endless,
}

impl Persistence {
    /// The next setting of the key's cycle.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Off => Self::Fade(1_000_000_000),
            Self::Fade(..=1_000_000_000) => Self::Fade(10_000_000_000),
            Self::Fade(_) => Self::Endless,
            Self::Endless => Self::Off,
        }
    }
}

/// The density of lifelines by hop and time since their start.
///
/// New lines get more weight instead of old ones less: one exponential per line, independent of older lines.
#[derive(Debug)]
pub struct Overlay {
    mode: Persistence,
    span_ns: u64,
    rows: Vec<[f32; COLUMNS]>,
    /// Instant at which a line weighs 1.
    zero_ns: u64,
    newest_ns: u64,
    lines: u64,
}

impl Overlay {
    /// An empty overlay; the right edge is `span_ns` after the start of each line.
    pub fn new(mode: Persistence, span_ns: u64) -> Self {
        let rows = vec![[0.0; COLUMNS]; PATH_HOPS];
        Overlay { mode, span_ns: span_ns.max(1), rows, zero_ns: 0, newest_ns: 0, lines: 0 }
    }

    /// Decay, and width of the picture.
    pub const fn is_for(&self) -> (Persistence, u64) {
        (self.mode, self.span_ns)
    }

    /// Lines drawn.
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// Draws a line.
    pub fn draw(&mut self, line: &Lifeline) {
        let at_ns = line.end_ns();
        if self.lines == 0 {
            self.zero_ns = at_ns;
        }
        self.lines += 1;
        self.newest_ns = self.newest_ns.max(at_ns);
        let weight = match self.mode {
            Persistence::Off => return,
            Persistence::Endless => 1.0,
            Persistence::Fade(ns) => {
                let folds = |at_ns: u64, zero_ns: u64| {
                    (i128::from(at_ns) - i128::from(zero_ns)) as f64 / ns.max(1) as f64
                };
                if folds(at_ns, self.zero_ns) > MOST_FOLDS {
                    let by = (-folds(at_ns, self.zero_ns)).exp() as f32;
                    self.rows.iter_mut().flatten().for_each(|weight| *weight *= by);
                    self.zero_ns = at_ns;
                }
                folds(at_ns, self.zero_ns).exp() as f32
            }
        };
        let start_ns = line.start_ns();
        let first = line.marks().next().map(|mark| mark.hop.direction());
        let on_its_clock = |mark: &Rung| !line.is_apart() || Some(mark.hop.direction()) == first;
        for mark in line.marks().filter(on_its_clock) {
            let since = u128::from(mark.time_ns.saturating_sub(start_ns)) * COLUMNS as u128;
            let column = (since / u128::from(self.span_ns)) as usize;
            let row = mark.hop.rank().and_then(|index| self.rows.get_mut(index));
            if let Some(place) = row.and_then(|row| row.get_mut(column)) {
                *place += weight;
            }
        }
    }

    /// The current weights of a hop in this number of columns: the number of lines, each faded.
    pub fn row(&self, hop: Hop, columns: usize, now_ns: u64) -> Vec<f32> {
        let mut out = vec![0.0; columns];
        let Some(row) = hop.rank().and_then(|index| self.rows.get(index)) else { return out };
        let scale = match self.mode {
            Persistence::Fade(ns) => {
                let since = i128::from(now_ns.max(self.newest_ns)) - i128::from(self.zero_ns);
                (-(since as f64) / ns.max(1) as f64).exp() as f32
            }
            _ => 1.0,
        };
        for (at, weight) in row.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            if let Some(place) = out.get_mut(at * columns / COLUMNS) {
                *place += weight * scale;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;

    fn line(at_ns: u64, ns: u64) -> Lifeline {
        lifeline(1, &[(Hop::AppSend, at_ns), (Hop::AppRecv, at_ns + ns)])
    }

    fn weight(overlay: &Overlay, hop: Hop, columns: usize, now_ns: u64) -> Vec<(usize, f32)> {
        let row = overlay.row(hop, columns, now_ns);
        row.into_iter().enumerate().filter(|(_, w)| *w > 1e-3).collect()
    }

    #[test]
    fn lines_stand_over_each_other_from_their_start() {
        let mut overlay = Overlay::new(Persistence::Endless, 1_000);
        for n in 0..10 {
            overlay.draw(&line(n * 1_000_000, 500));
        }
        overlay.draw(&line(50, 990));
        overlay.draw(&line(50, 1_500));
        assert_eq!(weight(&overlay, Hop::AppRecv, 4, 0), [(2, 10.0), (3, 1.0)]);
        assert_eq!(weight(&overlay, Hop::AppSend, 4, 0), [(0, 12.0)]);
        assert_eq!(overlay.lines(), 12);
    }

    #[test]
    fn nothing_is_placed_by_a_clock_that_says_nothing_of_the_start() {
        let mut overlay = Overlay::new(Persistence::Endless, 1_000);
        let mut apart = line(0, 500);
        apart.journey.across = magscope_core::journey::Across::Apart;
        overlay.draw(&apart);
        assert_eq!(weight(&overlay, Hop::AppSend, 4, 0), [(0, 1.0)]);
        assert_eq!(weight(&overlay, Hop::AppRecv, 4, 0), []);
    }

    #[test]
    fn they_fade_as_the_exponential_says() {
        let second = 1_000_000_000;
        let mut overlay = Overlay::new(Persistence::Fade(second), 1_000);
        let times = [0, second / 2, 3 * second, 40 * second, 41 * second];
        for (n, at) in times.into_iter().enumerate() {
            overlay.draw(&line(at, 500));
            let now = at + 500;
            let truth: f64 = times[..=n].iter().map(|t| (-((now - t - 500) as f64) / 1e9).exp()).sum();
            let seen: f32 = overlay.row(Hop::AppRecv, 8, now).iter().sum();
            assert!((f64::from(seen) - truth).abs() < 1e-3, "{n}: {seen} for {truth}");
        }
        assert!(weight(&overlay, Hop::AppRecv, 8, 100 * second).is_empty());
    }

    #[test]
    fn a_key_goes_round() {
        let mut mode = Persistence::Off;
        let seen: Vec<_> = (0..4)
            .map(|_| {
                mode = mode.next();
                mode
            })
            .collect();
        assert_eq!(
            seen,
            [
                Persistence::Fade(1_000_000_000),
                Persistence::Fade(10_000_000_000),
                Persistence::Endless,
                Persistence::Off
            ]
        );
    }
}
