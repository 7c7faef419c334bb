//! What a capture leaves out on purpose: by filters, by samplers, and at hops that were switched off.
//!
//! A statement on all traffic (*nothing was dropped*, *2 % were lost*) needs all of its records. The settings of the start do
//! not suffice, because each of them can change while the capture runs. So an omission counts from the first setting
//! or change that made it, and its end is not tracked: the statement is on the complete capture.

use crate::change::HopCount;
use crate::hop::{Hop, HopSet};
use crate::sampled::flows_one_in;

/// Drop records (`skb.drop`) by what became of them, from the kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropRecords {
    /// Recorded, or added up in the kernel.
    pub passed: u64,
    /// Left out by the filter: of unwanted packets, or at an unwanted hop.
    pub filtered: u64,
    /// Left out because the filter uses a field that is unknown there: of wanted packets, or of others.
    pub undecided: u64,
    /// Left out by a sampler.
    pub sampled: u64,
}

impl DropRecords {
    /// The hits between two readings of the counters.
    pub(crate) fn between(from: Option<HopCount>, to: HopCount) -> Self {
        let since = |of: fn(&HopCount) -> u64| of(&to).saturating_sub(from.as_ref().map_or(0, of));
        DropRecords {
            passed: since(HopCount::passed),
            filtered: since(|count| count.filtered),
            undecided: since(|count| count.undecided),
            sampled: since(|count| count.sampled),
        }
    }

    /// Records that were left out although their packets may be wanted.
    pub const fn unknown(self) -> u64 {
        self.undecided.saturating_add(self.sampled)
    }

    /// All records that were left out.
    pub const fn left_out(self) -> u64 {
        self.unknown().saturating_add(self.filtered)
    }

    /// Drops per recorded drop, if those without a record are of wanted packets: for an order, not for a figure.
    pub fn weight(self) -> f64 {
        let all = self.passed.saturating_add(self.unknown());
        if self.passed == 0 { 1.0 } else { all as f64 / self.passed as f64 }
    }

    /// Those that were left out, by their cause: none of the causes without any.
    pub fn causes(self) -> impl Iterator<Item = (&'static str, u64)> {
        let causes = [
            ("left out by the filter", self.filtered),
            ("left out: the filter could not decide", self.undecided),
            ("left out by the sampler", self.sampled),
        ];
        causes.into_iter().filter(|(_, count)| *count > 0)
    }

    /// All of them.
    pub const fn all(self) -> u64 {
        self.passed.saturating_add(self.left_out())
    }
}

/// What a capture left out at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Omissions {
    /// True with a filter or an expression of libpcap.
    pub filtered: bool,
    /// True if only some of the flows were recorded.
    pub flows_sampled: bool,
    /// Hops at which a sampler left single events out.
    pub sampled_hops: HopSet,
    /// Hops that were switched off, or on, while the capture ran.
    pub switched_hops: HopSet,
    /// What became of drop records.
    pub drops: DropRecords,
    /// Hits at other hops that became no record: of a filter, or of a sampler.
    pub left_out: u64,
    /// The hops of these hits.
    pub left_out_hops: HopSet,
}

impl Omissions {
    /// Applies a setting or a change, in the syntax of the command line.
    pub(crate) fn setting(&mut self, setting: &str) {
        let (word, rest) = setting.split_once(' ').unwrap_or((setting, ""));
        match word {
            "filter" | "pcap" => self.filtered |= !rest.is_empty() && rest != "off",
            "sample" => match flows_one_in(setting) {
                Some(one_in) => self.flows_sampled |= one_in > 1,
                None if rest.starts_with("off") => {}
                None => {
                    let hops = rest.split_once(' ').map_or("all", |(_, hops)| hops);
                    self.sampled_hops.0 |= HopSet::listed(hops).0;
                }
            },
            "enable" | "disable" => self.switched_hops.0 |= HopSet::listed(rest).0,
            _ => {}
        }
    }

    /// Adds the omissions of another capture.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        let (a, b) = (self.drops, other.drops);
        Omissions {
            filtered: self.filtered || other.filtered,
            flows_sampled: self.flows_sampled || other.flows_sampled,
            sampled_hops: HopSet(self.sampled_hops.0 | other.sampled_hops.0),
            switched_hops: HopSet(self.switched_hops.0 | other.switched_hops.0),
            drops: DropRecords {
                passed: a.passed.saturating_add(b.passed),
                filtered: a.filtered.saturating_add(b.filtered),
                undecided: a.undecided.saturating_add(b.undecided),
                sampled: a.sampled.saturating_add(b.sampled),
            },
            left_out: self.left_out.saturating_add(other.left_out),
            left_out_hops: HopSet(self.left_out_hops.0 | other.left_out_hops.0),
        }
    }

    /// True if a filter or a sampler left traffic out.
    pub const fn is_narrowed(self) -> bool {
        self.filtered || self.flows_sampled || !self.sampled_hops.is_empty()
    }

    /// True if a sampler left out single events of journeys, other than drops: journeys may be torn, so their number is
    /// not that of packets.
    pub fn tears_journeys(self) -> bool {
        self.sampled_hops.iter().any(|hop| hop.rank().is_some() || hop == Hop::TcpRetransmit)
    }

    /// True if the drop of a packet with other records may have none. A sampler of flows leaves out all records of a packet.
    pub fn hides_drops(self) -> bool {
        let at_hop = self.sampled_hops.contains(Hop::SkbDrop) || self.switched_hops.contains(Hop::SkbDrop);
        at_hop || self.drops.undecided > 0
    }

    /// True if recorded drops are fewer than those that the filter wants.
    pub fn undercounts_drops(self) -> bool {
        self.hides_drops() || self.drops.unknown() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: &[&str]) -> Omissions {
        let mut omissions = Omissions::default();
        for setting in settings {
            omissions.setting(setting);
        }
        omissions
    }

    #[test]
    fn a_filter_or_sampler_at_any_time_narrows_a_capture() {
        for narrowing in
            ["filter port = 443", "pcap tcp", "sample 1/10 all", "sample flows 1/4", "sample 10ms dev.xmit"]
        {
            assert!(of(&[narrowing]).is_narrowed(), "{narrowing}");
        }
        for setting in
            ["filter off", "pcap off", "sample off all", "sample flows 1/1", "detail both", "snap off dev.recv"]
        {
            assert!(!of(&[setting]).is_narrowed(), "{setting}");
        }
        assert!(of(&["filter port = 443", "filter off"]).is_narrowed(), "it was narrowed for a time");
    }

    #[test]
    fn a_sampler_of_drops_leaves_journeys_in_one_piece() {
        let drops = of(&["sample 1/10 skb.drop"]);
        assert!(drops.hides_drops() && !drops.tears_journeys());
        let path = of(&["sample 1/10 dev.xmit,dev.recv"]);
        assert!(!path.hides_drops() && path.tears_journeys());
        let all = of(&["sample 1/10"]);
        assert!(all.hides_drops() && all.tears_journeys());
        let switched = of(&["sample 1/2 sched.switch", "disable skb.drop"]);
        assert!(switched.hides_drops() && !switched.tears_journeys());
        let flows = of(&["sample flows 1/4"]);
        assert!(!flows.hides_drops() && !flows.tears_journeys());
        let drops = DropRecords { sampled: 50, ..DropRecords::default() };
        let flows = Omissions { drops, ..flows };
        assert!(!flows.hides_drops() && flows.undercounts_drops(), "they are of flows without any record");
    }
}
