//! What a capture left out on purpose, as far as it may hide a part of a journey.
//!
//! A filter by protocol, addresses or ports keeps all events of a packet or none, and so does sampling by flow: journeys stay whole.
//! Everything else (a CPU, a process, one in a hundred, a hop switched off) keeps some of a journey's events and not others; what
//! is then not seen may just have been left out.

use crate::capture_filter::{CaptureFilter, Field};
use crate::node::NodeInfo;

/// Since when events of a journey may be left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Selection {
    since_ns: Option<u64>,
}

impl Selection {
    /// What a node left out from the beginning.
    pub fn of(info: &NodeInfo) -> Self {
        let tears = info.settings.iter().any(|setting| tears_journeys(setting));
        Selection { since_ns: tears.then_some(0) }
    }

    /// Takes a change that was made while the capture ran, in the words of the command line.
    pub fn change(&mut self, from_ns: u64, what: &str) {
        if tears_journeys(what) {
            // Until when that holds is not followed: a journey may have been torn at any time before it ended.
            self.since_ns = Some(self.since_ns.map_or(from_ns, |since| since.min(from_ns)));
        }
    }

    /// Whether something may be left out of what happened until `to_ns`.
    pub fn may_hide(&self, to_ns: u64) -> bool {
        self.since_ns.is_some_and(|since| since <= to_ns)
    }
}

/// Whether a setting can leave out some events of a journey and keep others.
fn tears_journeys(setting: &str) -> bool {
    let (what, rest) = setting.split_once(' ').unwrap_or((setting, ""));
    match what {
        "filter" if rest == "off" => false,
        "filter" => {
            let of_a_packet = |field: &Field| {
                use Field::{Dport, Dst, Host, Port, Proto, Sport, Src};
                matches!(field, Proto | Host | Src | Dst | Port | Sport | Dport)
            };
            CaptureFilter::parse(rest).map_or(true, |filter| !filter.fields().iter().all(of_a_packet))
        }
        // what its words mean is libpcap's to know
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
