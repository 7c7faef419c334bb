//! A simulated path: the delay of a packet.

use super::random::Random;

#[derive(Clone, Copy, Debug)]
pub enum Jitter {
    Exponential {
        mean_ns: f64,
    },
    Pareto {
        scale_ns: f64,
        alpha: f64,
    },
    /// Alternating quiet and busy times.
    OnOff {
        busy_ns: f64,
        period_ns: f64,
    },
    Bimodal {
        second_ns: f64,
        share: f64,
    },
}

impl Jitter {
    pub fn any(random: &mut Random) -> Self {
        let size = random.magnitude(100.0, 1e6);
        match random.below(4) {
            0 => Jitter::Exponential { mean_ns: size },
            1 => Jitter::Pareto { scale_ns: size, alpha: random.between(1.1, 3.0) },
            2 => Jitter::OnOff { busy_ns: size, period_ns: random.magnitude(1e5, 1e9) },
            _ => Jitter::Bimodal { second_ns: size, share: random.between(0.05, 0.95) },
        }
    }

    pub fn draw(&self, random: &mut Random, t_ns: i64) -> f64 {
        match *self {
            Jitter::Exponential { mean_ns } => random.exponential(mean_ns),
            Jitter::Pareto { scale_ns, alpha } => scale_ns * ((1.0 - random.unit()).powf(-1.0 / alpha) - 1.0),
            Jitter::OnOff { busy_ns, period_ns } => {
                let busy = (t_ns as f64 / period_ns) as u64 % 2 == 1;
                random.exponential(if busy { busy_ns } else { busy_ns / 100.0 })
            }
            Jitter::Bimodal { second_ns, share } => {
                let second = if random.chance(share) { second_ns } else { 0.0 };
                second + random.exponential(second_ns / 50.0)
            }
        }
    }
}

/// One direction of a path.
#[derive(Clone, Debug)]
pub struct Path {
    pub floor_ns: f64,
    pub jitter: Jitter,
    /// New floor from this instant on.
    pub route_change: Option<(i64, f64)>,
}

impl Path {
    pub fn delay_ns(&self, random: &mut Random, t_ns: i64) -> i64 {
        let floor = match self.route_change {
            Some((at, floor)) if t_ns >= at => floor,
            _ => self.floor_ns,
        };
        // A tail of hours would be a different test.
        (floor + self.jitter.draw(random, t_ns)).min(10e9) as i64
    }
}
