//! Whole notches of a wheel, from movement that arrives in small pieces.

/// Movement of one notch, points: egui's for a line.
pub const NOTCH: f32 = 40.0;

/// Movement below a full notch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wheel(f32);

impl Wheel {
    /// The notches that are full after a movement, up positive. The rest is kept.
    pub fn turn(&mut self, points: f32) -> i32 {
        if !points.is_finite() {
            return 0;
        }
        self.0 += points;
        // The pieces of a smooth movement add up to a notch but for rounding.
        let notches = (self.0 / NOTCH + self.0.signum() * 1e-3).trunc();
        self.0 -= notches * NOTCH;
        notches.clamp(-20.0, 20.0) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_to_notches() {
        let mut wheel = Wheel::default();
        let turned: i32 = (0..30).map(|_| wheel.turn(NOTCH / 10.0)).sum();
        assert_eq!(turned, 3);
        assert_eq!((wheel.turn(-NOTCH), wheel.turn(f32::NAN), wheel.turn(0.0)), (-1, 0, 0));
        assert_eq!(wheel.turn(f32::MAX), 20);
    }
}
