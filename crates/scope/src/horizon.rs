//! The horizon: the stretch of the time line in the picture.
//!
//! It is an anchor instant at a fixed place of the screen, and a scale. Zoom changes only the scale, so that
//! zooming out and in restores the stretch exactly; only a move changes the anchor.

use crate::timebase::Timebase;

/// The width of the screen in units of position.
const WHOLE: u64 = 1 << 16;
/// Maximum number of stored stretches.
const MOST_BACK: usize = 32;

/// Which stretch of the time line the picture shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Horizon {
    at: Placement,
    back: Vec<Placement>,
}

/// An instant at a place, and a scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Placement {
    anchor_ns: u64,
    /// Position of the anchor: 0 the left edge, [`WHOLE`] the right edge.
    place: u64,
    /// The chosen timebase, and the steps from it.
    chosen: Timebase,
    steps: i32,
    /// Notches of a wheel on top of the steps.
    notches: i32,
}

impl Placement {
    fn timebase(self) -> Timebase {
        self.chosen.stepped(self.steps).notched(self.notches)
    }

    fn ahead_ns(self) -> u64 {
        (u128::from(self.timebase().span_ns()) * u128::from(self.place) / u128::from(WHOLE)) as u64
    }

    fn origin_ns(self) -> u64 {
        self.anchor_ns.saturating_sub(self.ahead_ns())
    }
}

impl Horizon {
    /// Time a division.
    pub fn timebase(&self) -> Timebase {
        self.at.timebase()
    }

    /// Time at the left edge.
    pub fn begin_ns(&self) -> u64 {
        self.at.origin_ns()
    }

    /// Time at the right edge.
    pub fn end_ns(&self) -> u64 {
        self.begin_ns().saturating_add(self.timebase().span_ns())
    }

    /// True if an instant is on the screen.
    pub fn holds(&self, time_ns: u64) -> bool {
        (self.begin_ns()..=self.end_ns()).contains(&time_ns)
    }

    /// The instant at a place of the screen, 0 the left edge and 1 the right one.
    pub fn time_at(&self, x: f64) -> u64 {
        self.begin_ns().saturating_add_signed((x * self.timebase().span_ns() as f64) as i64)
    }

    /// Position of an instant on the screen: 0 the left edge, 1 the right edge, linear beyond both.
    pub fn x(&self, time_ns: u64) -> f64 {
        let since = i128::from(time_ns) - i128::from(self.begin_ns());
        since as f64 / self.timebase().span_ns() as f64
    }

    /// Widens or narrows by steps of the knob around `x`.
    pub fn zoom(&mut self, steps: i32, x: f64) {
        self.hold(x);
        if self.at.notches != 0 && steps != 0 {
            // A step of the knob from the width that the wheel left.
            (self.at.chosen, self.at.steps, self.at.notches) = (self.at.timebase(), 0, 0);
        }
        // At an end of the range the steps stop.
        for _ in 0..steps.unsigned_abs().min(100) {
            let now = self.at.timebase();
            let next = self.at.steps + steps.signum();
            let after = self.at.chosen.stepped(next);
            if after == now {
                return;
            }
            self.at.steps = next;
        }
    }

    /// Widens or narrows by notches of a wheel around `x`.
    pub fn zoom_notches(&mut self, notches: i32, x: f64) {
        self.hold(x);
        for _ in 0..notches.unsigned_abs().min(100) {
            let now = self.at.timebase();
            self.at.notches += notches.signum();
            if self.at.timebase() == now {
                self.at.notches -= notches.signum();
                return;
            }
        }
    }

    /// Anchors the instant at `x`, which a zoom leaves in its place.
    fn hold(&mut self, x: f64) {
        let place = if x.is_finite() { (x.clamp(0.0, 1.0) * WHOLE as f64) as u64 } else { WHOLE / 2 };
        if place != self.at.place {
            let origin_ns = self.at.origin_ns();
            self.at.place = place;
            self.at.anchor_ns = origin_ns.saturating_add(self.at.ahead_ns());
        }
    }

    /// Sets the scale around the middle.
    pub fn scale(&mut self, timebase: Timebase) {
        let middle_ns = self.time_at(0.5);
        self.at = Placement { anchor_ns: middle_ns, place: WHOLE / 2, chosen: timebase, steps: 0, notches: 0 };
    }

    /// Places an instant at a part of the screen, 0 the left edge.
    pub fn place_at(&mut self, time_ns: u64, x: f64, timebase: Timebase) {
        let place = (x.clamp(0.0, 1.0) * WHOLE as f64) as u64;
        self.at = Placement { anchor_ns: time_ns, place, chosen: timebase, steps: 0, notches: 0 };
    }

    /// Moves an instant to a part of the screen and keeps the scale.
    pub fn go(&mut self, time_ns: u64, x: f64) {
        self.at.place = (x.clamp(0.0, 1.0) * WHOLE as f64) as u64;
        self.at.anchor_ns = time_ns;
    }

    /// Moves by a part of the width, to later where positive. Stops at the beginning of time.
    pub fn pan(&mut self, by: f64) {
        if by.is_finite() {
            let by_ns = (by * self.timebase().span_ns() as f64) as i64;
            let least_ns = if by_ns < 0 { self.at.ahead_ns().min(self.at.anchor_ns) } else { 0 };
            self.at.anchor_ns = self.at.anchor_ns.saturating_add_signed(by_ns).max(least_ns);
        }
    }

    /// Shows a stretch, plus the rounding of a division to nanoseconds.
    pub fn show(&mut self, from_ns: u64, to_ns: u64) {
        let (from_ns, to_ns) = (from_ns.min(to_ns), from_ns.max(to_ns));
        self.place_at(from_ns, 0.0, Timebase::of_span(to_ns - from_ns));
    }

    /// Saves this stretch to return to it.
    pub fn remember(&mut self) {
        if self.back.last() != Some(&self.at) {
            if self.back.len() >= MOST_BACK {
                self.back.remove(0);
            }
            self.back.push(self.at);
        }
    }

    /// Returns to the last saved stretch. False if there is none.
    pub fn back(&mut self) -> bool {
        let before = self.back.pop();
        self.at = before.unwrap_or(self.at);
        before.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn out_and_in_again_is_where_it_was(
            from in 1_u64 << 50..1 << 60,
            span in 1..100_000_000_000_u64,
            steps in -6..6_i32,
            x in 0.0..1.0_f64,
            other in 0.0..1.0_f64,
        ) {
            let mut horizon = Horizon::default();
            horizon.show(from, from + span);
            let before = (horizon.begin_ns(), horizon.end_ns());
            horizon.zoom(steps, x);
            let narrow = horizon.timebase();
            prop_assume!(steps == 0 || narrow.finer() != narrow && narrow.coarser() != narrow);
            let wide = (horizon.begin_ns(), horizon.end_ns());
            // and again at another place, there and back
            horizon.zoom(1, other);
            horizon.zoom(-1, other);
            prop_assert_eq!((horizon.begin_ns(), horizon.end_ns()), wide);
            horizon.zoom(-steps, x);
            prop_assert_eq!((horizon.begin_ns(), horizon.end_ns()), before);
        }

        #[test]
        fn nothing_breaks_it(moves in prop::collection::vec((0..5_u8, any::<i32>(), any::<f64>(), any::<u64>()), 0..60)) {
            let mut horizon = Horizon::default();
            for (what, n, x, ns) in moves {
                match what {
                    0 if n % 2 == 0 => horizon.zoom(n % 100, x),
                    0 => horizon.zoom_notches(n % 100, x),
                    1 => horizon.pan(x),
                    2 => horizon.show(ns, ns.wrapping_mul(3)),
                    3 => horizon.remember(),
                    _ => { horizon.back(); }
                }
                prop_assert!(horizon.begin_ns() <= horizon.end_ns());
            }
        }
    }

    #[test]
    fn notches_of_the_wheel_are_quarters_and_lead_back() {
        let mut horizon = Horizon::default();
        horizon.show(1_000_000_000, 1_010_000_000);
        horizon.zoom_notches(1, 0.5);
        assert_eq!(horizon.timebase().per_division_ns(), 1_250_000);
        horizon.zoom_notches(6, 0.5);
        horizon.zoom_notches(-7, 0.5);
        assert_eq!((horizon.begin_ns(), horizon.end_ns()), (1_000_000_000, 1_010_000_000));
        horizon.zoom_notches(-1, 0.5);
        horizon.zoom(1, 0.5);
        assert_eq!(
            horizon.timebase().per_division_ns(),
            1_000_000,
            "a step of the knob is a round number again"
        );
        horizon.zoom_notches(-1_000, 0.5);
        assert!(horizon.timebase().per_division_ns() >= 100);
    }

    #[test]
    fn what_is_pointed_at_stays() {
        let mut horizon = Horizon::default();
        horizon.show(1_000_000_000, 1_010_000_000);
        horizon.zoom(-3, 0.25);
        assert_eq!(horizon.timebase().per_division_ns(), 100_000);
        assert!((horizon.x(1_002_500_000) - 0.25).abs() < 1e-3);
        horizon.pan(-1e12);
        assert_eq!(horizon.begin_ns(), 0);
        horizon.pan(0.5);
        assert_eq!(horizon.begin_ns(), 500_000);
    }

    #[test]
    fn it_goes_back() {
        let mut horizon = Horizon::default();
        horizon.show(100, 2_000_100);
        horizon.remember();
        horizon.show(500, 1_000_500);
        assert!(horizon.back());
        assert_eq!(horizon.begin_ns(), 100);
        assert!(!horizon.back());
    }
}
