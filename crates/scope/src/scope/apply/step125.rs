//! Scales in steps of 1, 2, 5.

/// Units per division: 1, 2 or 5 times a power of ten.
pub struct Steps {
    lead: usize,
    power: i32,
}

impl Steps {
    const LEADS: [f64; 3] = [1.0, 2.0, 5.0];

    /// The step nearest to a value.
    pub fn near(value: f64) -> Self {
        let value = if value.is_finite() && value > 0.0 { value.clamp(1e-12, 1e15) } else { 1.0 };
        let power = value.log10().floor();
        let lead = value / 10_f64.powf(power);
        let lead = if lead < 1.5 {
            0
        } else if lead < 3.5 {
            1
        } else {
            2
        };
        Steps { lead, power: power as i32 }
    }

    /// The next one, up or down.
    pub const fn step(&mut self, up: bool) {
        if up && self.lead == 2 {
            (self.lead, self.power) = (0, self.power + 1);
        } else if up {
            self.lead += 1;
        } else if self.lead == 0 {
            (self.lead, self.power) = (2, self.power - 1);
        } else {
            self.lead -= 1;
        }
    }

    /// The value of the step.
    pub fn value(&self) -> f64 {
        Self::LEADS[self.lead] * 10_f64.powi(self.power.clamp(-12, 15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_go_up_and_down_by_one_two_five() {
        let mut scale = Steps::near(0.9);
        let up: Vec<f64> = (0..4)
            .map(|_| {
                scale.step(true);
                scale.value()
            })
            .collect();
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9 * b.abs());
        assert!(near(&up, &[1.0, 2.0, 5.0, 10.0]), "{up:?}");
        scale.step(false);
        assert!(scale.value() < up[3]);
        for wrong in [f64::NAN, f64::INFINITY, 0.0, -3.0] {
            assert!((Steps::near(wrong).value() - 1.0).abs() < 1e-12);
        }
        let mut tiny = Steps::near(1e-300);
        (0..1_000).for_each(|_| tiny.step(false));
        assert!(tiny.value() > 0.0 && tiny.value().is_finite());
    }
}
