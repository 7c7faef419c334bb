//! Clock bounds between the hosts of a log, derived from its lines.
//!
//! A recording made from a log has one clock. A line with a journey's time from another host also has the bounds
//! of that time; the largest distance on each side applies to all. A journey between hosts without such a line has an unknown
//! error.

use super::read::Line;
use magscope_core::hash::Map;
use magscope_core::journey::Across;
use magscope_core::{Direction, Hop};
use std::collections::VecDeque;

/// Maximum number of concurrent journeys.
const MOST: usize = 1 << 16;

/// Fields of a time, its half width, and its bounds.
type Fields = [[&'static str; 2]; 4];
const LATENCY: Fields = [
    ["MAG.LAT", "mag.latency_ns"],
    ["MAG.ERR", "mag.half_width_ns"],
    ["MAG.LOW", "mag.lower_ns"],
    ["MAG.HIGH", "mag.upper_ns"],
];
const TOTAL: Fields = [
    ["MAG.ALL", "mag.total_ns"],
    ["MAG.AERR", "mag.total_half_width_ns"],
    ["MAG.ALOW", "mag.total_lower_ns"],
    ["MAG.AHI", "mag.total_upper_ns"],
];

/// The errors of a time to both sides; `None` within one clock. Where a bound is missing, or a time or a bound
/// was raised to zero, the half width is that of the side.
fn errors(line: &Line<'_>, names: &Fields) -> Option<(u64, u64)> {
    let of = |names: &[&'static str; 2]| line.number::<u64>(names);
    let half_width_ns = of(&names[1]).filter(|ns| *ns > 0)?;
    let ns = of(&names[0]).filter(|ns| *ns > 0);
    let below_ns =
        ns.zip(of(&names[2])).filter(|(_, lower)| *lower > 0).and_then(|(ns, lower)| ns.checked_sub(lower));
    let above_ns = ns.zip(of(&names[3])).and_then(|(ns, upper)| upper.checked_sub(ns));
    Some((below_ns.unwrap_or(half_width_ns), above_ns.unwrap_or(half_width_ns)))
}

/// State of the derivation.
#[derive(Default)]
pub(super) struct Hosts {
    open: Map<u64, HostPair>,
    order: VecDeque<u64>,
    /// Number of finished journeys; later lines of the same ID are possible.
    unobserved: u64,
    /// True if any line has a time between hosts.
    reported: bool,
    /// The largest errors so far: the true time is this much shorter, or longer.
    widest_ns: Option<(u64, u64)>,
}

/// A journey between hosts.
#[derive(Default)]
struct HostPair {
    sent: Option<u64>,
    received: Option<u64>,
    reported: bool,
}

impl HostPair {
    /// True if the time between hosts is unknown.
    fn is_unknown(&self) -> bool {
        !self.reported && self.is_between()
    }

    fn is_between(&self) -> bool {
        self.sent.zip(self.received).is_some_and(|(sent, received)| sent != received)
    }
}

impl Hosts {
    /// Processes the line of a hop; `id` and `host` are hashes of its ID and host.
    pub fn line(&mut self, line: &Line<'_>, hop: Hop, id: u64, host: u64) {
        // Times to and from these are missing within one host, too.
        if hop == Hop::DevDone || line.get(&["MAG.RET", "mag.at_return"]).is_some() {
            return;
        }
        if !self.open.contains_key(&id) {
            if self.open.len() >= MOST
                && let Some(oldest) = self.order.pop_front()
            {
                let gone = self.open.remove(&oldest);
                self.unobserved += u64::from(gone.is_some_and(|pair| pair.is_unknown()));
            }
            self.order.push_back(id);
        }
        let pair = self.open.entry(id).or_default();
        match hop.direction() {
            Direction::Tx => _ = pair.sent.get_or_insert(host),
            Direction::Rx => _ = pair.received.get_or_insert(host),
            Direction::Off => return,
        }
        let from = line.get(&["MAG.FROM", "mag.from"]).and_then(|from| from.parse::<Hop>().ok());
        let crossed =
            hop.direction() == Direction::Rx && from.is_some_and(|hop| hop.direction() == Direction::Tx);
        pair.reported |= crossed && line.get(&["MAG.LAT", "mag.latency_ns"]).is_some();
        self.reported |= pair.reported && pair.is_between();
        for names in [LATENCY, TOTAL] {
            if let Some((below_ns, above_ns)) = errors(line, &names) {
                let (below, above) = self.widest_ns.unwrap_or_default();
                self.widest_ns = Some((below.max(below_ns), above.max(above_ns)));
            }
        }
    }

    /// Clock relation of the hosts.
    pub fn across(&self) -> Across {
        let unobserved = self.unobserved > 0 || self.open.values().any(HostPair::is_unknown);
        match self.widest_ns {
            _ if unobserved => Across::Apart,
            Some((below_ns, above_ns)) => Across::Bounded { below_ns, above_ns },
            None if self.reported => Across::OneClock,
            None => Across::Apart, // no journey between hosts
        }
    }
}
