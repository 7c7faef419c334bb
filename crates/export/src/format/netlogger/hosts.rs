//! How well the clocks of a log's hosts were known to stand to each other, as its lines tell.
//!
//! A recording that is made of a log has one clock. A line of ours that tells how long its journey took from another host tells also how
//! far from the truth that is; the widest of these holds for all. Where a journey went from one host to another and no line tells how
//! long that took, nobody knew.

use super::read::Line;
use magscope_core::hash::Map;
use magscope_core::journey::Across;
use magscope_core::{Direction, Hop};
use std::collections::VecDeque;

/// Journeys looked at together, at most.
const MOST: usize = 1 << 16;

/// What was read of it.
#[derive(Default)]
pub(super) struct Hosts {
    open: Map<u64, Way>,
    order: VecDeque<u64>,
    /// Journeys that were judged: lines of the same ID may still come.
    untold: u64,
    /// A time from one host to another was told.
    told: bool,
    widest_ns: Option<u64>,
}

/// A journey from one host to another.
#[derive(Default)]
struct Way {
    sent: Option<u64>,
    received: Option<u64>,
    told: bool,
}

impl Way {
    /// Whether nobody knew how long it took.
    fn is_untold(&self) -> bool {
        !self.told && self.is_between()
    }

    fn is_between(&self) -> bool {
        self.sent.zip(self.received).is_some_and(|(sent, received)| sent != received)
    }
}

impl Hosts {
    /// Takes the line of a hop; `id` and `host` are numbers for its ID and its host.
    pub fn line(&mut self, line: &Line<'_>, hop: Hop, id: u64, host: u64) {
        // From and to these no time is told within one host either.
        if hop == Hop::DevDone || line.get(&["MAG.RET", "mag.at_return"]).is_some() {
            return;
        }
        if !self.open.contains_key(&id) {
            if self.open.len() >= MOST
                && let Some(oldest) = self.order.pop_front()
            {
                let gone = self.open.remove(&oldest);
                self.untold += u64::from(gone.is_some_and(|way| way.is_untold()));
            }
            self.order.push_back(id);
        }
        let way = self.open.entry(id).or_default();
        match hop.direction() {
            Direction::Tx => _ = way.sent.get_or_insert(host),
            Direction::Rx => _ = way.received.get_or_insert(host),
            Direction::Off => return,
        }
        let from = line.get(&["MAG.FROM", "mag.from"]).and_then(|from| from.parse::<Hop>().ok());
        let crossed =
            hop.direction() == Direction::Rx && from.is_some_and(|hop| hop.direction() == Direction::Tx);
        way.told |= crossed && line.get(&["MAG.LAT", "mag.latency_ns"]).is_some();
        self.told |= way.told && way.is_between();
        let error = line.number::<u64>(&["MAG.ERR", "mag.half_width_ns"]);
        let of_all = line.number::<u64>(&["MAG.AERR", "mag.total_half_width_ns"]);
        self.widest_ns = self.widest_ns.max(error.max(of_all).filter(|ns| *ns > 0));
    }

    /// What was known of a time from one host to another.
    pub fn across(&self) -> Across {
        let untold = self.untold > 0 || self.open.values().any(Way::is_untold);
        match self.widest_ns {
            _ if untold => Across::Apart,
            Some(half_width_ns) => Across::Bounded { half_width_ns },
            None if self.told => Across::OneClock,
            None => Across::Apart, // no journey went from one to another: nobody said anything
        }
    }
}
