//! A simulated crystal: R of a node as a function of true time.

use super::random::Random;
use std::f64::consts::TAU;

/// Maximum rate error of a clock in total, parts per million: two of them satisfy ρ = 200 ppm.
const WITHIN_PPM: f64 = 99.5;

#[derive(Clone, Debug)]
pub struct Crystal {
    /// R at true time zero.
    pub start_ns: u64,
    /// Constant error of its rate.
    pub ppm: f64,
    /// Temperature: amplitude in ppm, period, phase.
    pub sway: (f64, f64, f64),
    /// Random walk of the rate: knots `every` apart, with rate and the drift accumulated by then.
    walk: Vec<(f64, f64)>,
    every_ns: f64,
    /// Jumps: suspend of the other, migration. A negative one sets the clock back.
    pub jumps: Vec<(i64, i64)>,
}

impl Crystal {
    pub fn new(start_ns: u64, ppm: f64) -> Self {
        Crystal {
            start_ns,
            ppm,
            sway: (0.0, 1.0, 0.0),
            walk: vec![(0.0, 0.0)],
            every_ns: 1.0,
            jumps: Vec::new(),
        }
    }

    /// Adds a random walk of the rate, `ppm_per_sqrt_s`, within the rest of ±99.5 ppm.
    pub fn walking(mut self, random: &mut Random, span_ns: i64, ppm_per_sqrt_s: f64) -> Self {
        const KNOTS: usize = 32;
        let room = WITHIN_PPM - self.ppm.abs() - self.sway.0.abs();
        self.every_ns = span_ns as f64 / KNOTS as f64;
        let stride = ppm_per_sqrt_s * (self.every_ns / 1e9).sqrt();
        let (mut rate, mut drift) = (0.0_f64, 0.0_f64);
        self.walk = (0..KNOTS)
            .map(|_| {
                let knot = (rate, drift);
                drift += rate * 1e-6 * self.every_ns;
                rate = (rate + random.between(-1.7, 1.7) * stride).clamp(-room.max(0.0), room.max(0.0));
                knot
            })
            .collect();
        self
    }

    /// R at a true instant, whole nanoseconds as a clock shows them.
    pub fn read(&self, t_ns: i64) -> u64 {
        let t = t_ns as f64;
        let knot = ((t / self.every_ns).max(0.0) as usize).min(self.walk.len() - 1);
        let (rate, walked) = self.walk[knot];
        let walked = walked + rate * 1e-6 * (t - knot as f64 * self.every_ns);
        let (amplitude, period, phase) = self.sway;
        let sway = amplitude * 1e-6 * period / TAU * (phase.cos() - (TAU * t / period + phase).cos());
        let drift = (self.ppm * 1e-6 * t + sway + walked).floor() as i64;
        let jumped: i64 = self.jumps.iter().filter(|(at, _)| *at <= t_ns).map(|(_, by)| by).sum();
        self.start_ns.wrapping_add_signed(t_ns + drift + jumped)
    }
}
