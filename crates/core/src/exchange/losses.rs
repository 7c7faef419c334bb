//! Event losses and changes of the settings, by recording: bytes that moved meanwhile may have left no event at all.
//!
//! Bytes that are missing between two others show as a gap of their stream. The last bytes of a request or of a
//! response have nothing behind them, so nothing but the loss shows that they may be missing.
//!
//! A run that the kernel refused hides one hop of some bytes. Their other hops show them. It may also hide a switch of
//! threads: see `threads.rs`.
//!
//! A new filter, or a sampler of flows, hides the rest of an exchange, and its connection may never be seen again.
//!
//! Settings that a capture begins with may hide all bytes of one direction. Then no answer was seen, and that proves
//! nothing.

use super::grade::BrokenBy;
use crate::batch::{Loss, LossCause};
use crate::capture_filter::{CaptureFilter, Field};
use crate::change::Change;
use crate::governed::Level;
use crate::hash::Map;
use crate::hop::{Hop, HopSet};
use crate::node::NodeInfo;
use crate::sampled::flows_one_in;
use std::collections::VecDeque;

/// Maximum number of stored intervals of a recording.
const MOST: usize = 1 << 10;

/// The latest intervals of every recording, in nanoseconds of the time line, roughly in their order.
#[derive(Debug, Default)]
pub(super) struct Intervals(Map<u16, VecDeque<(u64, u64)>>);

impl Intervals {
    /// Adds an interval. Of too many, the oldest ones become one.
    pub fn push(&mut self, node: u16, from_ns: u64, to_ns: u64) {
        let intervals = self.0.entry(node).or_default();
        match intervals.back_mut() {
            // The CPUs lose at the same time.
            Some((from, to)) if from_ns <= *to && *from <= to_ns => {
                (*from, *to) = (from_ns.min(*from), to_ns.max(*to));
            }
            _ => intervals.push_back((from_ns, to_ns)),
        }
        if intervals.len() > MOST
            && let (Some(first), Some(second)) = (intervals.pop_front(), intervals.front_mut())
        {
            *second = (first.0.min(second.0), first.1.max(second.1));
        }
    }

    /// True if one of a recording has an instant between these two, both included.
    pub fn any(&self, node: u16, from_ns: u64, to_ns: u64) -> bool {
        self.0.get(&node).into_iter().flatten().any(|(from, to)| *from <= to_ns && from_ns <= *to)
    }
}

/// When events of a recording were lost, and when its settings changed so that they may be missing.
#[derive(Debug, Default)]
pub(super) struct Losses {
    lost: Intervals,
    changed: Intervals,
    /// Whether each recording began with settings that may hide the bytes of one direction.
    one_sided: Map<u16, bool>,
}

impl Losses {
    /// Takes the settings that a recording began with, once.
    pub fn begin(&mut self, node: u16, info: &NodeInfo) {
        let one_sided = || info.settings.iter().any(|setting| hides_a_direction(setting));
        self.one_sided.entry(node).or_insert_with(one_sided);
    }

    /// True if a recording began with settings that may hide the bytes of one direction.
    pub fn hides_a_direction(&self, node: u16) -> bool {
        self.one_sided.get(&node).copied().unwrap_or(false)
    }

    /// Takes the losses of a recording's batch.
    pub fn take(&mut self, node: u16, losses: &[Loss]) {
        for loss in losses.iter().filter(|loss| loss.cause != LossCause::Refused) {
            self.lost.push(node, loss.from_ns, loss.to_ns);
        }
    }

    /// Takes the changes of a recording's batch.
    pub fn change(&mut self, node: u16, changes: &[Change]) {
        for change in changes.iter().filter(|change| hides_bytes(change)) {
            self.changed.push(node, change.from_ns, change.to_ns);
        }
    }

    /// Why bytes of a recording may have been missed between two instants, both included; `None` if none can.
    pub fn cause(&self, node: u16, from_ns: u64, to_ns: u64) -> Option<BrokenBy> {
        if self.lost.any(node, from_ns, to_ns) {
            Some(BrokenBy::EventLoss)
        } else {
            self.changed.any(node, from_ns, to_ns).then_some(BrokenBy::Changed)
        }
    }
}

/// True if a setting may leave out the sends and reads of one direction and not those of the other. A sampler of flows,
/// and a filter of what both directions have, as the socket and its process, leave out both.
fn hides_a_direction(setting: &str) -> bool {
    use Field::{Cgroup, Comm, Container, Host, Netns, Pod, Port, Proto, Socket, Tgid, Uid, Unit};
    let of_both = |field: &Field| {
        let of_packets = matches!(field, Proto | Host | Port | Netns);
        of_packets || matches!(field, Socket | Tgid | Comm | Uid | Cgroup | Container | Pod | Unit)
    };
    let is_of_both = match setting.split_once(' ') {
        Some(("filter", filter)) => {
            CaptureFilter::parse(filter).is_ok_and(|filter| filter.fields().iter().all(of_both))
        }
        _ => flows_one_in(setting).is_some(),
    };
    !is_of_both && hides_bytes(&Change { from_ns: 0, to_ns: 0, what: setting.to_owned() })
}

/// True if a change leaves out sends or reads that were recorded before.
fn hides_bytes(change: &Change) -> bool {
    let what = change.what.as_str();
    let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
    let has_calls = |list: &str| {
        let hops = HopSet::listed(list);
        hops.contains(Hop::AppSend) || hops.contains(Hop::AppRecv)
    };
    match word {
        "filter" | "pcap" => !rest.is_empty() && rest != "off",
        "sample" => match (flows_one_in(what), rest.split_once(' ')) {
            (Some(one_in), _) => one_in > 1,
            (None, _) if rest.starts_with("off") => false,
            (None, at_hops) => has_calls(at_hops.map_or("all", |(_, hops)| hops)),
        },
        "disable" => has_calls(rest),
        "detail" => rest == "histograms",
        "governor:" => !matches!(Level::of(change), Some(Level::Full | Level::Compact) | None),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_found_however_many_there_are() {
        let mut losses = Losses::default();
        for n in 0..3 * MOST as u64 {
            let loss = |cpu, from_ns, to_ns| Loss { cpu, from_ns, to_ns, count: 1, cause: LossCause::RingFull };
            losses.take(1, &[loss(0, 100 * n, 100 * n + 10), loss(1, 100 * n + 5, 100 * n + 20)]);
        }
        assert!(losses.lost.0[&1].len() <= MOST);
        let last = 100 * (3 * MOST as u64 - 1);
        for at in [0, 20, 100, 12_345, last, last + 20] {
            assert_eq!(losses.cause(1, at, at), Some(BrokenBy::EventLoss), "{at}");
        }
        assert!(
            losses.cause(1, last - 79, last - 1).is_none() && losses.cause(1, last - 80, last - 1).is_some()
        );
        let refused = Loss { cpu: 0, from_ns: 0, to_ns: u64::MAX, count: 9, cause: LossCause::Refused };
        losses.take(0, &[refused]);
        losses.take(1, &[refused]);
        assert_eq!(losses.cause(1, last + 21, u64::MAX).or(losses.cause(0, 0, u64::MAX)), None);
    }

    #[test]
    fn settings_of_the_beginning_that_hide_one_direction_are_found() {
        let hides = |setting: &str| {
            let mut losses = Losses::default();
            losses.begin(3, &NodeInfo { settings: vec![setting.to_owned()], ..NodeInfo::default() });
            assert!(!losses.hides_a_direction(2), "another recording");
            assert_eq!(losses.cause(3, 0, u64::MAX), None, "nothing changed");
            losses.hides_a_direction(3)
        };
        for setting in ["filter tx", "filter dport = 53", "pcap udp", "sample 1/10 all", "sample 1/2 app.recv"]
        {
            assert!(hides(setting), "{setting}");
        }
        for setting in [
            "filter port = 53",
            "filter container = web and tcp",
            "filter off",
            "sample flows 1/4",
            "sample 1/10 skb.drop",
            "snap 64 dev.recv",
        ] {
            assert!(!hides(setting), "{setting}");
        }
    }

    #[test]
    fn changes_that_leave_out_sends_or_reads_are_found() {
        let cause = |what: &str| {
            let mut losses = Losses::default();
            losses.change(3, &[Change { from_ns: 100, to_ns: 110, what: what.to_owned() }]);
            assert_eq!(losses.cause(3, 0, 99).or(losses.cause(3, 111, 200)).or(losses.cause(2, 0, 200)), None);
            losses.cause(3, 105, 200)
        };
        for what in [
            "filter port = 443",
            "pcap tcp port 80",
            "sample flows 1/16",
            "sample 1/10 all",
            "sample 1/10 app.send,dev.xmit",
            "disable app.recv",
            "detail histograms",
            "governor: 1/4 of the flows (3.1 % of 2.0 %)",
        ] {
            assert_eq!(cause(what), Some(BrokenBy::Changed), "{what}");
        }
        for what in [
            "filter off",
            "pcap off",
            "sample flows 1/1",
            "sample off all",
            "sample 1/10 skb.drop",
            "disable dev.queue",
            "enable app.recv",
            "detail full",
            "snap 64 dev.xmit",
            "governor: events alone (3.1 % of 2.0 %)",
            "rules changed in network namespace 4026531840",
        ] {
            assert_eq!(cause(what), None, "{what}");
        }
    }
}
