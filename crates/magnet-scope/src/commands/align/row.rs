//! What is known of each pair of clocks.

use magscope_core::align::Alignment;
use magscope_core::clock::pair::{Bounds, Recorded, State};
use serde::Serialize;

/// All pairs, and what they say together.
#[derive(Debug, Serialize)]
pub struct Table {
    /// Hosts of the recordings, in the order they were given.
    pub hosts: Vec<String>,
    /// All recordings are of one host since one boot.
    pub one_clock: bool,
    pub pairs: Vec<Row>,
    /// Recordings whose clocks contradict each other, in words.
    pub contradiction: Option<String>,
}

/// Two recordings.
#[derive(Debug, Serialize)]
pub struct Row {
    pub a: u16,
    pub b: u16,
    /// What the bounds rest on.
    pub state: String,
    /// R of B less R of A amid their packets, nanoseconds.
    pub difference_ns: Option<i64>,
    /// It is at most so far off, by packets of these two alone.
    pub half_width_ns: Option<u64>,
    /// The same while the difference is a straight line over some seconds.
    pub model_half_width_ns: Option<u64>,
    /// The same by packets of all recordings together, where that says more.
    pub together_half_width_ns: Option<u64>,
    pub drift_ppm: Option<f64>,
    pub quickest_round_trip_ns: Option<u64>,
    pub used: u64,
    pub rejected: u64,
    pub quarantined: u64,
    pub between_epochs: u64,
    /// Steps of one of the two clocks.
    pub steps: u64,
    /// How often the model was found wrong.
    pub splits: u64,
}

impl Table {
    pub fn of(alignment: &Alignment, hosts: &[String]) -> Self {
        let nodes = hosts.len() as u16;
        let known =
            |a: u16, b: u16| alignment.pairs().find(|((x, y), _)| (*x, *y) == (a, b)).map(|(_, pair)| pair);
        // All of them together at an instant amid the packets of the first pair that recording 0 has.
        let amid = alignment.pairs().find(|((a, _), _)| *a == 0).and_then(|(_, pair)| pair.middle_ns());
        let together = amid.map(|raw_0_ns| alignment.at(raw_0_ns));
        let mut pairs = Vec::new();
        for a in 0..nodes {
            for b in a + 1..nodes {
                let Some(state) = alignment.state(a, b) else { continue };
                let solution = together.as_ref().and_then(|solved| solved.as_ref().ok());
                let all = solution.map_or(Bounds::NONE, |s| s.bounds(usize::from(a), usize::from(b)));
                pairs.push(Row::of(a, b, state, known(a, b), &all));
            }
        }
        let contradiction = together.and_then(Result::err).map(|e| e.to_string());
        Table { hosts: hosts.to_vec(), one_clock: pairs.is_empty(), pairs, contradiction }
    }
}

impl Row {
    fn of(a: u16, b: u16, state: State, pair: Option<&Recorded>, all: &Bounds) -> Self {
        let amid = pair.and_then(Recorded::middle_ns);
        let at = pair.zip(amid);
        let estimate = at.and_then(|(pair, at)| pair.estimate_at(at));
        let known = at.map(|(pair, at)| pair.known_at(at)).filter(|known| known.state == State::Model);
        let half = |bounds: &Bounds| bounds.width_ns().map(|width| width.div_ceil(2));
        let certified = at.and_then(|(pair, at)| half(&pair.bounds_at(at)));
        let counts = pair.map(Recorded::counts).unwrap_or_default();
        let together = half(all).filter(|all| certified.is_none_or(|own| *all < own));
        Row {
            a,
            b,
            state: state.to_string(),
            difference_ns: estimate.map(|(d, _)| d).or(together.and(all.middle_ns())),
            half_width_ns: certified,
            model_half_width_ns: known.and_then(|known| half(&known.bounds)),
            together_half_width_ns: together,
            drift_ppm: pair.and_then(Recorded::drift_ppm),
            quickest_round_trip_ns: pair.and_then(Recorded::min_round_trip_ns),
            used: counts.used,
            rejected: counts.rejected,
            quarantined: counts.quarantined,
            between_epochs: counts.between_epochs,
            steps: pair.map_or(0, Recorded::steps),
            splits: pair.map_or(0, Recorded::splits),
        }
    }
}
