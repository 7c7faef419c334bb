//! Pairs of interfaces (veth, netkit): what one end sends arrives at the other.
//!
//! The kernel gives the index of the other end, and not its network namespace. So the namespace is that whose interface
//! of this index names the first one in turn. If several do, it stays unknown.

use super::interfaces::IFINFOMSG;
use crate::netlink::{Message, attribute, text, u32_at};
use magscope_core::deciders::{AttachedProgram, ProgramKind};

const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;

/// One end of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairEnd {
    netns: u32,
    index: u32,
    /// Index of the other end.
    peer: u32,
}

/// The kind of an interface (`veth`), of those that programs make.
pub fn kind(link: &Message) -> Option<String> {
    let info = attribute(link.get(IFINFOMSG..)?, IFLA_LINKINFO)?;
    attribute(info, IFLA_INFO_KIND).map(text)
}

impl PairEnd {
    /// An interface of a network namespace; `None` if it is no end of a pair.
    pub fn of(netns: u32, link: &Message) -> Option<Self> {
        let peer = attribute(link.get(IFINFOMSG..)?, IFLA_LINK).and_then(|index| u32_at(index, 0))?;
        let index = u32_at(link, 4)?;
        matches!(kind(link)?.as_str(), "veth" | "netkit").then_some(PairEnd { netns, index, peer })
    }

    fn is_pair(self, other: Self) -> bool {
        self != other && (self.index, self.peer) == (other.peer, other.index)
    }
}

/// Adds the other ends to the programs at one end of a pair.
pub fn add_peers(programs: &mut [AttachedProgram], ends: &[PairEnd]) {
    let of_pairs =
        |program: &&mut AttachedProgram| matches!(program.kind, ProgramKind::Xdp | ProgramKind::Netkit);
    for program in programs.iter_mut().filter(of_pairs) {
        let is_own = |end: &&PairEnd| (end.netns, end.index) == (program.netns, program.interface);
        let Some(own) = ends.iter().find(is_own) else { continue };
        let mut others = ends.iter().filter(|other| own.is_pair(**other));
        let other = others.next().filter(|_| others.next().is_none());
        (program.peer, program.peer_netns) = (own.peer, other.map_or(0, |other| other.netns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::written;

    const fn end(netns: u32, index: u32, peer: u32) -> PairEnd {
        PairEnd { netns, index, peer }
    }

    #[test]
    fn ends_of_pairs_are_read_from_messages() {
        let link = |kind: &[u8]| {
            let mut link = vec![0; IFINFOMSG];
            link[4..8].copy_from_slice(&3_u32.to_ne_bytes());
            link.extend(written(IFLA_LINK, &9_u32.to_ne_bytes()));
            link.extend(written(IFLA_LINKINFO, &written(IFLA_INFO_KIND, kind)));
            PairEnd::of(7, &link)
        };
        assert_eq!(link(b"veth\0"), Some(end(7, 3, 9)));
        assert_eq!(link(b"netkit\0"), Some(end(7, 3, 9)));
        assert_eq!(link(b"vlan\0"), None, "its link is the interface below it");
        assert_eq!(PairEnd::of(7, &vec![0; IFINFOMSG]), None);
    }

    #[test]
    fn the_only_interface_that_names_the_first_one_is_its_other_end() {
        let peer = |ends: &[PairEnd]| {
            let program =
                AttachedProgram { netns: 1, interface: 2, ..AttachedProgram::of(ProgramKind::Xdp, 5) };
            let mut programs = [program];
            add_peers(&mut programs, ends);
            (programs[0].peer, programs[0].peer_netns)
        };
        let own = end(1, 2, 2);
        assert_eq!(peer(&[own, end(2, 2, 2), end(2, 3, 2)]), (2, 2));
        assert_eq!(peer(&[own, end(2, 2, 2), end(3, 2, 2)]), (2, 0), "either may be");
        assert_eq!(peer(&[own]), (2, 0), "outside of the capture");
        assert_eq!(peer(&[end(1, 2, 3), end(1, 3, 2)]), (3, 1), "both ends in one namespace");
        assert_eq!(peer(&[end(2, 2, 2)]), (0, 0), "no pair");
    }
}
