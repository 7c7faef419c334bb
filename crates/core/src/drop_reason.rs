//! The division of `kfree_skb` reasons into clean-up and drops.
//!
//! The kernel traces every packet that it frees undelivered. Some of them were not lost on their path: their
//! queue was emptied because its owner is gone. All counts of drops leave these out, and show them separately.

use crate::event::{Event, EventFlags};
use crate::hop::Hop;
use crate::node::NodeInfo;
use crate::synthesis::{Sum, Synthesis};

/// The kernel's names of the clean-up reasons, each with the justification. Any other reason is a drop, and so
/// is one without a name.
pub const CLEAN_UP: &[(&str, &str)] = &[
    (
        "queue_purge",
        "skb_queue_purge() frees the queues of a socket that is destroyed. The network had delivered these packets; after a TCP \
         connection the last one is the peer's FIN.",
    ),
    (
        "socket_close",
        "unix_release_sock() frees the receive queue of an AF_UNIX socket that its process closed. No network was involved.",
    ),
    (
        "unix_disconnect",
        "unix_dgram_disconnected() frees the receive queue of an AF_UNIX socket that left its peer. No network was involved.",
    ),
];

/// The reasons for which the kernel frees a copy of a packet to a group (broadcast, multicast) that no socket of the host
/// wants: `__udp4_lib_mcast_deliver()` counts it as `IgnoredMulti`, and not as an error.
const UNWANTED: [&str; 2] = ["not_specified", "no_socket"];

/// One kernel's numbers of clean-up reasons: numbers differ between releases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanUp {
    numbers: Vec<u32>,
    unwanted: Vec<u32>,
}

impl CleanUp {
    /// From a node's kernel's names of its reasons.
    pub fn of(info: &NodeInfo) -> Self {
        let is_listed = |name: &str| CLEAN_UP.iter().any(|(listed, _)| *listed == name);
        let numbers = |of: &dyn Fn(&str) -> bool| {
            let reasons = info.drop_reasons.iter().filter(|reason| of(&reason.name));
            reasons.map(|reason| reason.number).collect()
        };
        CleanUp { numbers: numbers(&is_listed), unwanted: numbers(&|name| UNWANTED.contains(&name)) }
    }

    /// True for the event of a group's packet that may have been freed because no socket of the host wants it.
    pub fn may_be_unwanted(&self, event: &Event) -> bool {
        let is_of_group = event.hop == Hop::SkbDrop && event.flags.contains(EventFlags::GROUP);
        is_of_group && self.unwanted.contains(&event.drop_reason())
    }

    /// True if a reason is clean-up.
    pub fn has(&self, reason: u32) -> bool {
        self.numbers.contains(&reason)
    }

    /// True for the event of a packet freed in a clean-up.
    pub fn is_event(&self, event: &Event) -> bool {
        event.hop == Hop::SkbDrop && self.has(event.drop_reason())
    }

    /// True if a row of the kernel's sums counts packets freed in a clean-up.
    pub fn is_row(&self, row: &Synthesis) -> bool {
        row.hop == Hop::SkbDrop && matches!(row.of, Sum::Reason(reason) if self.has(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::DropReason;

    #[test]
    fn only_listed_names_are_clean_up_whatever_their_number() {
        let names = ["not_specified", "no_socket", "queue_purge", "socket_rcvbuff", "unix_disconnect"];
        let reasons =
            names.iter().zip(7..).map(|(name, number)| DropReason { number, name: (*name).to_owned() });
        let clean_up = CleanUp::of(&NodeInfo { drop_reasons: reasons.collect(), ..NodeInfo::default() });
        let found: Vec<u32> = (0..20).filter(|number| clean_up.has(*number)).collect();
        assert_eq!(found, [9, 11]);
        assert!(!CleanUp::default().has(9), "a reason without a name is a drop");
    }

    #[test]
    fn each_row_has_an_argument_and_a_kernels_name() {
        for (name, argument) in CLEAN_UP {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
            assert!(argument.len() > 40, "{name}: {argument}");
        }
    }
}
