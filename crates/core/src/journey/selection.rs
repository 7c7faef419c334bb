//! Deliberate omissions of a capture that may hide a part of a journey.
//!
//! A filter by protocol, addresses or ports keeps all events of a packet or none, and so does sampling by flow:
//! journeys stay complete. Everything else (a CPU, a process, one in a hundred, a disabled hop) keeps only some
//! of a journey's events. A missing event may then just have been left out.

use super::unread::UnreadByFilter;
use crate::capture_filter::{CaptureFilter, Field};
use crate::flow::Flow;
use crate::hop::{Hop, HopSet};
use crate::node::NodeInfo;

/// The instant since which events of a journey may be left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    since_ns: Option<u64>,
    order: Order,
    hides_drops: bool,
    unread: UnreadByFilter,
}

impl Selection {
    /// The omissions of a node from its beginning.
    pub fn of(info: &NodeInfo) -> Self {
        let tears = info.settings.iter().any(|setting| tears_journeys(setting));
        let mut order = Order { reported: info.tells_order, ..Order::default() };
        info.settings.iter().for_each(|setting| order.change(0, setting));
        let since_ns = tears.then_some(0);
        let mut selection =
            Selection { since_ns, order, hides_drops: false, unread: UnreadByFilter::default() };
        info.settings.iter().for_each(|setting| selection.change_what_is_kept(setting));
        selection
    }

    /// True if a filter may have left out the read of a datagram that arrived in this flow.
    pub fn may_hide_read(&self, flow: &Flow) -> bool {
        self.unread.may_hide_read(flow)
    }

    /// True if the kernel's discards are not recorded now.
    pub fn hides_drops(&self) -> bool {
        self.hides_drops
    }

    fn change_what_is_kept(&mut self, setting: &str) {
        let (what, rest) = setting.split_once(' ').unwrap_or((setting, ""));
        if what == "filter" {
            self.unread.add(rest);
        }
        if rest.contains(Hop::SkbDrop.name()) {
            self.hides_drops = match what {
                "disable" => true,
                "enable" => false,
                "sample" => !rest.starts_with("off "),
                _ => self.hides_drops,
            };
        }
    }

    /// Applies a change of a running capture, in the syntax of the command line.
    pub fn change(&mut self, from_ns: u64, to_ns: u64, what: &str) {
        self.order.change(to_ns, what);
        self.change_what_is_kept(what);
        if tears_journeys(what) {
            // The end of the omission is not tracked: a journey may have been cut at any time before it ended.
            self.since_ns = Some(self.since_ns.map_or(from_ns, |since| since.min(from_ns)));
        }
    }

    /// The instant since which datagrams are read in the order of their arrival at the socket; `None` without
    /// such an order. A socket with one peer is part of a flow, which a sampler of flows keeps or leaves out
    /// completely. A socket without one keeps all its reads.
    pub fn order_since_ns(&self, has_peer: bool) -> Option<u64> {
        let (holds, since_ns) = (self.order.holds(), self.order.since_ns);
        if has_peer {
            return holds.then_some(since_ns);
        }
        (holds && !self.order.flows).then_some(since_ns.max(self.order.flows_since_ns))
    }

    /// True if events until `to_ns` may have been left out.
    pub fn may_hide(&self, to_ns: u64) -> bool {
        self.since_ns.is_some_and(|since| since <= to_ns)
    }
}

/// Obstacles to assigning reads by order: arrivals at a socket were left out and its reads were not, or vice
/// versa.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    filtered: bool,
    pcap: bool,
    sampled: bool,
    /// Disabled hops of the two that are needed.
    off: HopSet,
    /// Instant at which one of these was changed last.
    since_ns: u64,
    /// True if arrivals of left-out flows are recorded, too.
    reported: bool,
    /// Otherwise, true if flows are sampled, with the last change of the rate.
    flows: bool,
    flows_since_ns: u64,
}

impl Order {
    fn holds(self) -> bool {
        !self.filtered && !self.pcap && !self.sampled && self.off.0 == 0
    }

    fn change(&mut self, to_ns: u64, setting: &str) {
        let (what, rest) = setting.split_once(' ').unwrap_or((setting, ""));
        let asked = [Hop::UdpRecv, Hop::AppRecv].into_iter().filter(|hop| rest.contains(hop.name()));
        let asked: HopSet = asked.collect();
        let of_reads = asked.0 != 0;
        match what {
            "filter" => {
                self.filtered =
                    rest != "off" && !asks_only(rest, |field| of_a_packet(field) || of_a_socket(field));
            }
            "pcap" => self.pcap = rest != "off",
            "sample" if rest.starts_with("flows ") && self.reported => return,
            "sample" if rest.starts_with("flows ") => {
                if self.flows {
                    self.flows_since_ns = self.flows_since_ns.max(to_ns);
                }
                self.flows = rest != "flows 1/1";
                return;
            }
            "sample" if rest == "off all" => self.sampled = false,
            "sample" if of_reads || rest.ends_with(" all") => self.sampled |= !rest.starts_with("off "),
            "enable" if of_reads => self.off.0 &= !asked.0,
            "disable" if of_reads => self.off.0 |= asked.0,
            "detail" => {}
            _ => return,
        }
        self.since_ns = self.since_ns.max(to_ns);
    }
}

/// True if a filter has this version's syntax, and all its fields are of a kind.
fn asks_only(filter: &str, of_a_kind: impl Fn(Field) -> bool) -> bool {
    CaptureFilter::parse(filter).is_ok_and(|filter| filter.fields().iter().copied().all(of_a_kind))
}

/// Fields equal for all events of a packet.
fn of_a_packet(field: Field) -> bool {
    use Field::{Dport, Dst, Host, Port, Proto, Sport, Src};
    matches!(field, Proto | Host | Src | Dst | Port | Sport | Dport)
}

/// Fields equal for all arrivals at a socket and all reads of it.
fn of_a_socket(field: Field) -> bool {
    use Field::{Cgroup, Comm, Container, Netns, Pod, Socket, Tgid, Uid, Unit};
    matches!(field, Tgid | Uid | Comm | Cgroup | Container | Pod | Unit | Netns | Socket)
}

/// True if a setting can leave out some events of a journey and keep others.
fn tears_journeys(setting: &str) -> bool {
    let (what, rest) = setting.split_once(' ').unwrap_or((setting, ""));
    match what {
        "filter" if rest == "off" => false,
        "filter" => !asks_only(rest, of_a_packet),
        // libpcap defines the meaning of its words
        "pcap" => rest != "off",
        "sample" => !rest.starts_with("flows ") && !rest.starts_with("off"),
        "disable" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_reads_proves_nothing_where_reads_or_arrivals_are_left_out() {
        let after = |settings: &[&str]| {
            let mut selection = Selection::default();
            for (at_ns, setting) in (1..).zip(settings) {
                selection.change(at_ns, at_ns, setting);
            }
            selection.order_since_ns(true)
        };
        for setting in [
            "filter tgid = 1 and port = 53",
            "filter container = web or pod = shop/web or unit = nginx.service",
            "sample flows 1/16",
            "disable ip.in",
            "snap 64 app.recv",
        ] {
            assert!(after(&[setting]).is_some(), "{setting}");
        }
        assert_eq!(after(&[]), Some(0));
        assert_eq!(after(&["watermark 1 events 0 bytes 20ms", "sample flows 1/4"]), Some(0));
        for left_out in
            ["filter cpu = 1", "sample 1/10 all", "sample 10ms app.recv", "disable app.recv,ip.in", "pcap tcp"]
        {
            assert_eq!(after(&[left_out]), None, "{left_out}");
        }
        assert_eq!(after(&["filter cpu = 1", "filter off"]), Some(2));
        assert_eq!(after(&["sample 1/10 all", "sample off all"]), Some(2));
        assert_eq!(after(&["disable app.recv", "detail full", "enable app.recv"]), Some(3));
        assert_eq!(after(&["detail histograms", "detail full"]), Some(2));
        let one_of_two = ["disable app.recv,udp.recv", "enable app.recv"];
        assert_eq!(after(&one_of_two), None, "the other is still off");
        let mut selection = Selection::default();
        assert_eq!(selection.order_since_ns(false), Some(0));
        selection.change(1, 1, "sample flows 1/4");
        assert_eq!((selection.order_since_ns(true), selection.order_since_ns(false)), (Some(0), None));
        selection.change(2, 2, "sample flows 1/1");
        assert_eq!((selection.order_since_ns(true), selection.order_since_ns(false)), (Some(0), Some(2)));
        let reported = NodeInfo {
            tells_order: true,
            settings: vec!["sample flows 1/4".to_owned()],
            ..NodeInfo::default()
        };
        assert_eq!(Selection::of(&reported).order_since_ns(false), Some(0));
    }

    #[test]
    fn what_keeps_packets_whole_keeps_journeys_whole() {
        for whole in [
            "filter port = 443 and host = 10.0.0.0/8",
            "sample flows 1/16",
            "snap 64 dev.xmit",
            "filter off",
            "pcap off",
            "enable ip.in",
        ] {
            assert!(!tears_journeys(whole), "{whole}");
        }
        let torn = [
            "filter cpu = 1",
            "filter port = 443 and not comm = sshd",
            "sample 1/10 dev.xmit",
            "disable ip.in",
            "pcap tcp port 443",
        ];
        for torn in torn {
            assert!(tears_journeys(torn), "{torn}");
        }
        assert!(tears_journeys("filter of a later version"));
    }
}
