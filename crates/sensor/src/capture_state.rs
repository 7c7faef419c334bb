//! State of a host's capture: the hops and settings in force, and the parts of the last minute without events.

use crate::in_force::InForce;
use crate::sums::clean;
use magscope_core::governed::Level;
use magscope_core::hop::HopSet;
use magscope_core::node::{NodeInfo, Service};
use magscope_core::{Change, Hop};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of remembered filters that have ended. The newest ones suffice: each is a reason of its own.
const MOST_ENDED: usize = 16;

/// State of a capture.
#[derive(Clone, Debug)]
pub struct CaptureState {
    in_force: InForce,
    /// Hops that have been switched off at any time.
    switched_off: HopSet,
    /// The last instant at which a hop was off.
    off_until_ns: BTreeMap<Hop, u64>,
    /// Filters that have ended, with that instant.
    ended: VecDeque<(u64, String)>,
}

impl CaptureState {
    /// The initial state.
    pub fn of(info: &NodeInfo) -> Self {
        CaptureState {
            in_force: InForce::of(info),
            switched_off: HopSet::EMPTY,
            off_until_ns: BTreeMap::new(),
            ended: VecDeque::new(),
        }
    }

    /// Applies a change.
    pub fn change(&mut self, change: &Change) {
        let ended = self.in_force.change(change);
        // The weight of a hop accounts for samplers.
        let is_filter = |setting: &String| setting.starts_with("filter") || setting.starts_with("pcap");
        if let Some(filter) = ended.filter(is_filter) {
            if self.ended.len() >= MOST_ENDED {
                self.ended.pop_front();
            }
            self.ended.push_back((change.to_ns, filter));
        }
        let (word, list) = change.what.split_once(' ').unwrap_or((change.what.as_str(), ""));
        match word {
            // A stream can begin while a hop is off. So it was off before, whatever was seen of it.
            "enable" => {
                for hop in HopSet::named(list).iter() {
                    let until_ns = self.off_until_ns.entry(hop).or_default();
                    *until_ns = change.to_ns.max(*until_ns);
                }
            }
            "disable" => self.switched_off = HopSet(self.switched_off.0 | HopSet::named(list).0),
            _ => {}
        }
    }

    /// Filters, samplers and the level of detail in force, as command-line settings.
    pub fn settings(&self) -> &[String] {
        self.in_force.settings()
    }

    /// The reason for the absence of a hop's events; `None` if it is on.
    pub fn unserved(&self, info: &NodeInfo, hop: Hop) -> Option<String> {
        match info.coverage.of(hop) {
            // No change serves it: it is not available, or is not granted to this viewer.
            Some(Service::Missing { because }) => Some(clean(because)),
            _ if self.in_force.hops().contains(hop) => None,
            _ if self.switched_off.contains(hop) => Some(format!("it was switched off{}", self.level())),
            Some(Service::Off | Service::Served { .. }) => Some("it is not asked for".to_owned()),
            None => Some("nobody says how it is served".to_owned()),
        }
    }

    /// The reason why events of a hop are missing of a part of the time since `from_ns`, if they are.
    pub fn gap(&self, hop: Hop, from_ns: u64) -> Option<String> {
        let was_off = self.off_until_ns.get(&hop).is_some_and(|until_ns| *until_ns > from_ns);
        was_off.then(|| format!("it was off for a part of this time{}", self.level()))
    }

    /// Filters that applied at any time since `from_ns`, and do not now.
    pub fn ended(&self, from_ns: u64) -> Vec<String> {
        self.ended.iter().filter(|(ns, _)| *ns > from_ns).map(|(_, setting)| setting.clone()).collect()
    }

    /// The level of the overhead budget, if it switches hops off.
    fn level(&self) -> String {
        match self.in_force.level() {
            level @ (Level::Packets | Level::Rest) => format!(" (to keep the overhead small: {level})"),
            _ => String::new(),
        }
    }
}
