//! The division of what the kernel frees into clean-up and drops.
//!
//! The kernel traces every packet that it frees undelivered. Some of them were not lost on their path: their
//! queue was emptied because its owner is gone, or a group's packet came to a host that nobody is in the group of. All
//! counts of drops leave these out, and show them separately.

use crate::deciders::ProgramKind;
use crate::event::{Event, EventFlags};
use crate::flow::Proto;
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

/// Bits of a header of TCP.
const FIN: u8 = 1;
const RST: u8 = 4;

/// The name of a clean-up that the kernel has no reason of its own for: of a packet to a group (broadcast, multicast) that
/// no socket of the host wants. `__udp4_lib_mcast_deliver()` counts it as `IgnoredMulti`, and not as an error.
pub const IGNORED_MULTICAST: &str = "ignored_multicast";
/// The kernel's names of the reasons that such packets are freed for.
const UNWANTED: [&str; 2] = ["not_specified", "no_socket"];
/// The name of another one: of an ICMP message that no socket of ping wants. Raw sockets had their copies of it before, and
/// `ping` with privileges reads from one; `ping_rcv()` frees the original as `no_socket`.
pub const IGNORED_ICMP: &str = "ignored_icmp";

/// The name of another one: of a TCP segment with FIN and without data. The host has acknowledged it, and its socket is in
/// `FIN_WAIT2` without a process: `tcp_v4_rcv()` frees it behind `discard_it` without a reason.
pub const IGNORED_FIN: &str = "ignored_fin";

/// The name of another one: of a TCP segment with RST and without data, for a socket that has ended or is in `TIME_WAIT`.
/// `tcp_v4_rcv()` answers no reset, and frees it without a reason or as `no_socket`. Without a reason it may be a drop
/// too: of a full queue, where the kernel has no reason for those, or by XDP.
pub const IGNORED_RST: &str = "ignored_rst";

/// What a clean-up of this name frees, in words that follow a number of packets.
pub fn clean_up_words(name: &str) -> &'static str {
    match name {
        IGNORED_MULTICAST => "for groups that nobody here is in",
        IGNORED_ICMP => "of ICMP that raw sockets alone take",
        IGNORED_FIN => "that end connections and hold no data",
        IGNORED_RST => "that reset ended connections and hold no data",
        _ => "of closed sockets",
    }
}

/// What the kernel freed a packet for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Freed {
    /// The kernel's number of the reason.
    pub reason: u32,
    /// The packet was for a group.
    pub is_of_group: bool,
    /// It was an ICMP message.
    pub is_icmp: bool,
    /// It was a segment of TCP with FIN and without data.
    pub is_fin: bool,
    /// It was a segment of TCP with RST and without data.
    pub is_reset: bool,
}

impl Freed {
    /// Of an event of a freed packet.
    pub const fn of(event: &Event) -> Self {
        let is_empty_tcp = matches!(event.proto, Proto::TCP) && event.len == 0;
        Freed {
            reason: event.drop_reason(),
            is_of_group: event.flags.contains(EventFlags::GROUP),
            is_icmp: matches!(event.proto, Proto::ICMP | Proto::ICMPV6),
            is_fin: is_empty_tcp && event.tcp_flags & FIN != 0,
            is_reset: is_empty_tcp && event.tcp_flags & RST != 0,
        }
    }

    /// Of the kernel's sums, which do not divide groups and protocols from others.
    pub const fn summed(reason: u32) -> Self {
        Freed { reason, is_of_group: false, is_icmp: false, is_fin: false, is_reset: false }
    }
}

/// One kernel's numbers of clean-up reasons: numbers differ between releases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanUp {
    numbers: Vec<u32>,
    unwanted: Vec<u32>,
    no_socket: Vec<u32>,
    not_specified: Vec<u32>,
    of_reset: Vec<u32>,
}

impl CleanUp {
    /// From a node's kernel's names of its reasons.
    pub fn of(info: &NodeInfo) -> Self {
        let is_listed = |name: &str| CLEAN_UP.iter().any(|(listed, _)| *listed == name);
        let numbers = |of: &dyn Fn(&str) -> bool| {
            let reasons = info.drop_reasons.iter().filter(|reason| of(&reason.name));
            reasons.map(|reason| reason.number).collect()
        };
        let names_full_queues = info.drop_reasons.iter().any(|reason| reason.name.starts_with("qdisc_"));
        let has_xdp = info.programs.iter().any(|program| program.kind == ProgramKind::Xdp);
        let are_others_named = names_full_queues && !has_xdp;
        CleanUp {
            numbers: numbers(&is_listed),
            unwanted: numbers(&|name| UNWANTED.contains(&name)),
            no_socket: numbers(&|name| name == "no_socket"),
            not_specified: numbers(&|name| name == "not_specified"),
            of_reset: numbers(&|name| name == "no_socket" || are_others_named && name == "not_specified"),
        }
    }

    /// True for a group's packet that no socket of the host wants.
    pub fn is_unwanted(&self, freed: Freed) -> bool {
        freed.is_of_group && self.unwanted.contains(&freed.reason)
    }

    /// True for an ICMP message that no socket of ping wants.
    fn is_of_icmp(&self, freed: Freed) -> bool {
        freed.is_icmp && !freed.is_of_group && self.no_socket.contains(&freed.reason)
    }

    /// True for the end of a connection that its host has acknowledged.
    fn is_of_fin(&self, freed: Freed) -> bool {
        freed.is_fin && self.not_specified.contains(&freed.reason)
    }

    /// True for a reset of a connection that has ended at its host.
    fn is_of_reset(&self, freed: Freed) -> bool {
        freed.is_reset && self.of_reset.contains(&freed.reason)
    }

    /// The name of what a packet was freed for: `reason` is the kernel's.
    pub fn name(&self, freed: Freed, reason: String) -> String {
        match freed {
            _ if self.is_unwanted(freed) => IGNORED_MULTICAST.to_owned(),
            _ if self.is_of_icmp(freed) => IGNORED_ICMP.to_owned(),
            _ if self.is_of_fin(freed) => IGNORED_FIN.to_owned(),
            _ if self.is_of_reset(freed) => IGNORED_RST.to_owned(),
            _ => reason,
        }
    }

    /// True if a packet was freed in a clean-up.
    pub fn has(&self, freed: Freed) -> bool {
        self.numbers.contains(&freed.reason)
            || self.is_unwanted(freed)
            || self.is_of_icmp(freed)
            || self.is_of_fin(freed)
            || self.is_of_reset(freed)
    }

    /// True for the event of a packet freed in a clean-up.
    pub fn is_event(&self, event: &Event) -> bool {
        event.hop == Hop::SkbDrop && self.has(Freed::of(event))
    }

    /// True if a row of the kernel's sums counts packets freed in a clean-up.
    pub fn is_row(&self, row: &Synthesis) -> bool {
        row.hop == Hop::SkbDrop && matches!(row.of, Sum::Reason(reason) if self.has(Freed::summed(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::DropReason;

    #[test]
    fn only_listed_names_are_clean_up_whatever_their_number() {
        let names =
            ["not_specified", "no_socket", "queue_purge", "socket_rcvbuff", "unix_disconnect", "qdisc_drop"];
        let reasons =
            names.iter().zip(7..).map(|(name, number)| DropReason { number, name: (*name).to_owned() });
        let clean_up = CleanUp::of(&NodeInfo { drop_reasons: reasons.collect(), ..NodeInfo::default() });
        let found = |is_of_group| -> Vec<u32> {
            let freed = |reason| Freed { is_of_group, ..Freed::summed(reason) };
            (0..20).filter(|reason| clean_up.has(freed(*reason))).collect()
        };
        assert_eq!((found(false), found(true)), (vec![9, 11], vec![7, 8, 9, 11]));
        assert!(!CleanUp::default().has(Freed::summed(9)), "a reason without a name is a drop");
        let name = |freed| clean_up.name(freed, "x".to_owned());
        let to_group = |reason| Freed { is_of_group: true, ..Freed::summed(reason) };
        assert_eq!([to_group(7), to_group(9)].map(name), [IGNORED_MULTICAST, "x"]);
        let of_icmp = |reason| Freed { is_icmp: true, ..Freed::summed(reason) };
        assert_eq!([of_icmp(7), of_icmp(8), of_icmp(10)].map(name), ["x", IGNORED_ICMP, "x"]);
        assert!(clean_up.has(of_icmp(8)) && !clean_up.has(Freed::summed(8)));
        let of_fin = |reason| Freed { is_fin: true, ..Freed::summed(reason) };
        assert_eq!([of_fin(7), of_fin(8), of_fin(10)].map(name), [IGNORED_FIN, "x", "x"]);
        assert!(clean_up.has(of_fin(7)) && !clean_up.has(Freed::summed(7)));
        let of_reset = |reason| Freed { is_reset: true, ..Freed::summed(reason) };
        assert_eq!([of_reset(7), of_reset(8), of_reset(10)].map(name), [IGNORED_RST, IGNORED_RST, "x"]);
        assert!(clean_up.has(of_reset(8)) && !clean_up.has(of_reset(10)), "a full buffer is a drop");
    }

    #[test]
    fn a_reset_without_a_reason_is_clean_up_only_where_drops_have_theirs() {
        use crate::deciders::AttachedProgram;
        let of = |names: &[&str], programs: &[ProgramKind]| {
            let reasons =
                names.iter().zip(7..).map(|(name, number)| DropReason { number, name: (*name).to_owned() });
            let programs = programs.iter().map(|kind| AttachedProgram::of(*kind, 1)).collect();
            let clean_up =
                CleanUp::of(&NodeInfo { drop_reasons: reasons.collect(), programs, ..NodeInfo::default() });
            [7, 8].map(|reason| clean_up.has(Freed { is_reset: true, ..Freed::summed(reason) }))
        };
        let all = ["not_specified", "no_socket", "qdisc_drop"];
        assert_eq!(of(&all, &[ProgramKind::Tc]), [true, true]);
        assert_eq!(of(&all[..2], &[]), [false, true], "a full queue has no reason of its own");
        assert_eq!(of(&all, &[ProgramKind::Xdp]), [false, true], "a program of XDP gives none");
        assert_eq!(of(&all[..1], &[]), [false, false]);
    }

    #[test]
    fn a_reset_without_data_is_one_and_others_are_not() {
        let event = |proto, tcp_flags, len| Event { len, tcp_flags, proto, ..Event::at(Hop::SkbDrop, 1) };
        let is_reset = |event| Freed::of(&event).is_reset;
        assert!(is_reset(event(Proto::TCP, RST | 16, 0)) && is_reset(event(Proto::TCP, RST, 0)));
        assert!(!is_reset(event(Proto::TCP, RST | 16, 9)), "it has data");
        assert!(!is_reset(event(Proto::TCP, 16, 0)) && !is_reset(event(Proto::UDP, RST, 0)));
    }

    #[test]
    fn each_row_has_an_argument_and_a_kernels_name() {
        for (name, argument) in CLEAN_UP {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
            assert!(argument.len() > 40, "{name}: {argument}");
        }
    }
}
