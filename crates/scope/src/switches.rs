//! Hops that changes of a capture switched on or off while it ran.
//!
//! The info of a recording has the services at the start. Changes travel in the batches, as text. A recording is
//! read in any order and more than once, so the changes are sorted by time and each is stored once.

use magscope_core::node::{NodeInfo, Service};
use magscope_core::{Batch, Change, Hop, HopSet};

/// Maximum number of stored changes of a recording, the newest: 40 bytes each.
const MOST_CHANGES: usize = 1 << 14;

/// The state of a hop at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HopState {
    /// The same as at the start of the capture.
    AsStarted(Service),
    /// Switched on after the start. The recording does not name the kind of probe.
    SwitchedOn,
    /// Switched off after the start.
    SwitchedOff,
}

impl HopState {
    /// Not requested at the start, and not switched on since.
    pub const OFF: Self = Self::AsStarted(Service::Off);

    /// True if the hop is measured.
    pub const fn is_on(&self) -> bool {
        matches!(self, Self::SwitchedOn | Self::AsStarted(Service::Served { .. }))
    }

    /// True if a change can switch it on, or the user did not ask for it.
    pub const fn is_off(&self) -> bool {
        matches!(self, Self::SwitchedOff | Self::AsStarted(Service::Off))
    }

    /// The state in words, for a table: `fentry udp_recvmsg`, `off`.
    pub fn words(&self) -> String {
        match self {
            Self::AsStarted(Service::Served { backend, point, note }) => {
                format!("{backend} {point}{}{note}", if note.is_empty() { "" } else { "; " })
            }
            Self::AsStarted(Service::Off) => "off".to_owned(),
            Self::AsStarted(Service::Missing { because }) => format!("missing: {because}"),
            Self::SwitchedOn => "switched on".to_owned(),
            Self::SwitchedOff => "switched off".to_owned(),
        }
    }

    /// The state after a change; `None` without a change.
    fn changed(self, on: Option<bool>) -> Self {
        match (on, self) {
            (Some(true), Self::AsStarted(served @ Service::Served { .. })) => Self::AsStarted(served),
            (Some(true), _) => Self::SwitchedOn,
            (Some(false), missing @ Self::AsStarted(Service::Missing { .. })) => missing,
            (Some(false), _) => Self::SwitchedOff,
            (None, state) => state,
        }
    }
}

/// Hops that changes switched on and off; a hop is in at most one of both sets.
#[derive(Clone, Copy, Debug, Default)]
struct Switched {
    on: HopSet,
    off: HopSet,
}

impl Switched {
    fn with(self, on: bool, hops: HopSet) -> Self {
        let (more, less) = if on { (self.on, self.off) } else { (self.off, self.on) };
        let (more, less) = (HopSet(more.0 | hops.0), HopSet(less.0 & !hops.0));
        if on { Switched { on: more, off: less } } else { Switched { on: less, off: more } }
    }

    /// `None` for a hop without a change.
    fn of(self, hop: Hop) -> Option<bool> {
        let switched = self.on.contains(hop) || self.off.contains(hop);
        switched.then(|| self.on.contains(hop))
    }
}

/// One change: its end, whether it switches on, and its hops.
type Switch = (u64, bool, u64);

/// `None` for a change of anything but hops.
fn switch_of(change: &Change) -> Option<Switch> {
    let (word, hops) = change.what.split_once(' ')?;
    let on = match word {
        "enable" => true,
        "disable" => false,
        _ => return None,
    };
    let hops: HopSet = hops.split(',').filter_map(|hop| hop.trim().parse::<Hop>().ok()).collect();
    Some((change.to_ns, on, hops.0))
}

/// The changes of one recording, in order of time, and what is switched after each.
#[derive(Debug, Default)]
pub struct Switches(Vec<(Switch, Switched)>);

impl Switches {
    /// Stores the changes of a batch.
    pub fn batch(&mut self, batch: &Batch) {
        batch.changes.iter().filter_map(switch_of).for_each(|switch| self.insert(switch));
        let surplus = self.0.len().saturating_sub(MOST_CHANGES);
        self.0.drain(..surplus);
    }

    fn insert(&mut self, switch: Switch) {
        let Err(place) = self.0.binary_search_by_key(&switch, |(switch, _)| *switch) else { return };
        let mut switched = self.after(place);
        self.0.insert(place, (switch, switched));
        for ((_, on, hops), total) in self.0.iter_mut().skip(place) {
            switched = switched.with(*on, HopSet(*hops));
            *total = switched;
        }
    }

    /// What is switched after so many changes.
    fn after(&self, changes: usize) -> Switched {
        changes
            .checked_sub(1)
            .and_then(|last| self.0.get(last))
            .map_or_else(Switched::default, |(_, total)| *total)
    }

    fn at(&self, at_ns: u64) -> Switched {
        self.after(self.0.partition_point(|((end_ns, ..), _)| *end_ns <= at_ns))
    }

    /// The state of a hop at an instant; `None` if neither the info nor a change names the hop.
    pub fn state(&self, info: &NodeInfo, hop: Hop, at_ns: u64) -> Option<HopState> {
        let on = self.at(at_ns).of(hop);
        let state = info.coverage.of(hop).cloned().map(HopState::AsStarted);
        state.or_else(|| on.map(|_| HopState::OFF)).map(|state| state.changed(on))
    }

    /// The hops that were on at an instant.
    pub fn served(&self, info: &NodeInfo, at_ns: u64) -> HopSet {
        let Switched { on, off } = self.at(at_ns);
        HopSet((info.coverage.served().0 | on.0) & !off.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::{Backend, Coverage};

    /// A capture with one hop on, one off and one missing.
    fn info() -> NodeInfo {
        let mut coverage = Coverage::full(Backend::Fentry);
        for row in &mut coverage.hops {
            match row.hop {
                Hop::DevQueue => row.service = Service::Off,
                Hop::IpPre => row.service = Service::Missing { because: "no function".to_owned() },
                _ => {}
            }
        }
        NodeInfo { coverage, ..NodeInfo::default() }
    }

    fn changes(rows: &[(u64, &str)]) -> Batch {
        let change =
            |(at, what): &(u64, &str)| Change { from_ns: at - 1, to_ns: *at, what: (*what).to_owned() };
        Batch { changes: rows.iter().map(change).collect(), ..Batch::default() }
    }

    #[test]
    fn a_change_switches_its_hops_from_its_end_on() {
        let mut switches = Switches::default();
        switches.batch(&changes(&[
            (10, "disable dev.recv, ip.in, ip.pre"),
            (20, "enable dev.queue"),
            (30, "filter off"),
        ]));
        let is_on = |hop, at_ns| switches.state(&info(), hop, at_ns).unwrap().is_on();
        for hop in [Hop::DevRecv, Hop::IpIn] {
            assert_eq!([is_on(hop, 9), is_on(hop, 10), is_on(hop, 99)], [true, false, false], "{hop}");
        }
        assert_eq!([is_on(Hop::DevQueue, 19), is_on(Hop::DevQueue, 20)], [false, true]);
        let missing = switches.state(&info(), Hop::IpPre, 99);
        assert!(matches!(missing, Some(HopState::AsStarted(Service::Missing { .. }))), "{missing:?}");
        for at_ns in [9, 15, 99] {
            let served = switches.served(&info(), at_ns);
            let agrees = |hop: &&Hop| served.contains(**hop) == is_on(**hop, at_ns);
            assert_eq!(Hop::ALL.iter().find(|hop| !agrees(hop)), None);
        }
    }

    #[test]
    fn a_hop_that_is_switched_on_again_has_its_kind_of_probe() {
        let mut switches = Switches::default();
        switches.batch(&changes(&[(10, "disable dev.recv"), (20, "enable dev.recv")]));
        let state = |at_ns| switches.state(&info(), Hop::DevRecv, at_ns).unwrap();
        assert_eq!(state(15), HopState::SwitchedOff);
        assert_eq!(state(25), state(5));
        assert!(matches!(state(25), HopState::AsStarted(Service::Served { .. })));
    }

    #[test]
    fn the_order_of_reading_has_no_effect() {
        let rows = [(10, "disable dev.recv"), (20, "enable dev.recv"), (30, "disable dev.recv")];
        let mut switches = Switches::default();
        for at in [2, 0, 1, 0, 2] {
            switches.batch(&changes(&rows[at..=at]));
        }
        let is_on = |at_ns| switches.served(&info(), at_ns).contains(Hop::DevRecv);
        assert_eq!([5, 15, 25, 35].map(is_on), [true, false, true, false]);
        assert_eq!(switches.0.len(), 3);
    }

    #[test]
    fn many_changes_take_bounded_memory_and_their_sum_remains() {
        let mut switches = Switches::default();
        switches.batch(&changes(&[(1, "disable ip.in")]));
        let word = |at: u64| if at.is_multiple_of(2) { "disable dev.recv" } else { "enable dev.recv" };
        let rows: Vec<_> = (2..2 * MOST_CHANGES as u64).map(|at| (at, word(at))).collect();
        switches.batch(&changes(&rows));
        assert_eq!(switches.0.len(), MOST_CHANGES);
        assert!(!switches.served(&info(), u64::MAX).contains(Hop::IpIn));
    }
}
