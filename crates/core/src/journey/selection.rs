//! Deliberate omissions of a capture that may hide a part of a journey.
//!
//! A filter by protocol, addresses or ports keeps all events of a packet or none, and so does sampling by flow:
//! journeys stay complete. Everything else (a CPU, a process, one in a hundred, a disabled hop) keeps only some
//! of a journey's events. A missing event may then just have been left out. The same holds for a packet that is under
//! way when the settings change: its events before and after are chosen differently.

use super::hidden::Hidden;
use super::unread::UnreadByFilter;
use crate::capture_filter::{CaptureFilter, Field};
use crate::flow::Flow;
use crate::hop::{Hop, HopSet};
use crate::node::NodeInfo;

/// The omissions so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// When events of a journey may have been left out.
    hidden: Hidden,
    tears: Tears,
    order: Order,
    hides_drops: bool,
    unread: UnreadByFilter,
}

impl Selection {
    /// The omissions of a node from its beginning.
    pub fn of(info: &NodeInfo) -> Self {
        let mut selection = Selection {
            order: Order { reported: info.tells_order, ..Order::default() },
            ..Selection::default()
        };
        for setting in &info.settings {
            selection.order.change(0, setting);
            selection.tears.change(setting);
            selection.change_what_is_recorded(setting);
        }
        selection.hidden.tear(0, 0, selection.tears.any());
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

    fn change_what_is_recorded(&mut self, setting: &str) {
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
        self.change_what_is_recorded(what);
        self.tears.change(what);
        self.hidden.tear(from_ns, to_ns, self.tears.any());
        if selects_packets(what) {
            self.hidden.add(from_ns, to_ns);
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

    /// True if events between two instants of one journey may have been left out.
    pub fn may_hide(&self, from_ns: u64, to_ns: u64) -> bool {
        self.hidden.overlaps(from_ns, to_ns)
    }

    /// True if events between two instants may have been left out by settings that are no longer in force.
    pub fn have_changed(&self, from_ns: u64, to_ns: u64) -> bool {
        self.hidden.has_ended_in(from_ns, to_ns)
    }

    /// True if the capture has ever recorded a part of a packet's events.
    pub const fn has_torn(&self) -> bool {
        self.hidden.has_torn()
    }
}

/// The settings in force that keep a part of a packet's events.
#[derive(Clone, Copy, Debug, Default)]
struct Tears {
    filter: bool,
    pcap: bool,
    sampled: HopSet,
    disabled: HopSet,
}

impl Tears {
    const fn any(self) -> bool {
        self.filter || self.pcap || !self.sampled.is_empty() || !self.disabled.is_empty()
    }

    fn change(&mut self, setting: &str) {
        let (what, rest) = setting.split_once(' ').unwrap_or((setting, ""));
        match what {
            "filter" => self.filter = rest != "off" && !asks_only(rest, of_a_packet),
            // libpcap defines the meaning of its words
            "pcap" => self.pcap = rest != "off",
            "sample" if rest.starts_with("flows ") => {}
            "sample" => {
                let (spec, hops) = rest.split_once(' ').unwrap_or((rest, ""));
                let hops = HopSet::listed(hops);
                self.sampled.0 = if spec == "off" { self.sampled.0 & !hops.0 } else { self.sampled.0 | hops.0 };
            }
            "enable" => self.disabled.0 &= !HopSet::named(rest).0,
            "disable" => self.disabled.0 |= HopSet::listed(rest).0,
            _ => {}
        }
    }
}

/// True if a change may select other packets than before, or none.
fn selects_packets(change: &str) -> bool {
    let (what, rest) = change.split_once(' ').unwrap_or((change, ""));
    match what {
        "filter" | "pcap" | "detail" | "governor:" => true,
        "sample" => rest.starts_with("flows "),
        _ => false,
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

    fn tears(settings: &[&str]) -> bool {
        let mut tears = Tears::default();
        for setting in settings {
            tears.change(setting);
        }
        tears.any()
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
            "sample off all",
        ] {
            assert!(!tears(&[whole]), "{whole}");
        }
        for torn in [
            "filter cpu = 1",
            "filter port = 443 and not comm = sshd",
            "sample 1/10 dev.xmit",
            "disable ip.in",
            "pcap tcp port 443",
            "filter of a later version",
        ] {
            assert!(tears(&[torn]), "{torn}");
        }
    }

    #[test]
    fn an_omission_ends_with_its_setting() {
        for ended in [
            ["filter cpu = 1", "filter port = 80"],
            ["pcap tcp", "pcap off"],
            ["sample 1/10 all", "sample off all"],
            ["sample 1/10 dev.xmit", "sample off dev.xmit,ip.in"],
            ["disable ip.in,ip.out", "enable ip.in,ip.out"],
        ] {
            assert!(tears(&ended[..1]) && !tears(&ended), "{ended:?}");
        }
        assert!(tears(&["sample 1/10 all", "sample off dev.xmit"]));
        assert!(tears(&["disable ip.in,ip.out", "enable ip.in"]));
        assert!(tears(&["disable ip.in", "filter cpu = 1", "filter off"]));
        assert!(tears(&["disable ip.in", "enable hop.of_a_later_version"]));

        let mut selection = Selection::default();
        selection.change(10, 12, "disable ip.in");
        selection.change(30, 35, "enable ip.in");
        assert!(!selection.may_hide(0, 9) && selection.may_hide(0, 10) && selection.may_hide(20, 25));
        assert!(selection.may_hide(35, 90) && !selection.may_hide(36, 90));
        assert!(selection.has_torn(), "it was torn for a time");
    }

    #[test]
    fn a_packet_under_way_at_a_change_of_the_packets_may_lack_events() {
        for change in [
            "filter port = 80",
            "filter off",
            "sample flows 1/16",
            "sample flows 1/1",
            "detail histograms",
            "detail full",
            "governor: 1/4 of the flows (3.0 % of 2.0 %)",
        ] {
            let mut selection = Selection::default();
            selection.change(10, 12, change);
            assert!(selection.may_hide(5, 20) && selection.may_hide(12, 20), "{change}");
            assert!(!selection.may_hide(5, 9) && !selection.may_hide(13, 20), "{change}");
            assert!(!selection.has_torn(), "{change}");
        }
        for other in ["snap 64 dev.xmit", "watermark 1 events 0 bytes 20ms", "probe on mine"] {
            let mut selection = Selection::default();
            selection.change(10, 12, other);
            assert!(!selection.may_hide(0, 20), "{other}");
        }
    }
}
