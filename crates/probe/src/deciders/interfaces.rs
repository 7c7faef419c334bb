//! Programs and filters of interfaces: XDP, classifiers, and tcx.

use super::pairs::{self, PairEnd};
use crate::netlink::{Message, Netlink, NoAnswer, attribute, attributes, text, u32_at};
use libbpf_rs::libbpf_sys;
use magscope_core::deciders::{AttachedProgram, ProgramKind, Traffic};

/// Interfaces looked at, at most.
const MOST_INTERFACES: usize = 4_096;

const RTM_GETLINK: u16 = 18;
const RTM_GETQDISC: u16 = 38;
const RTM_GETTFILTER: u16 = 46;
pub(super) const IFINFOMSG: usize = 16;
const TCMSG: usize = 20;
const IFLA_XDP: u16 = 43;
/// A program at each place of an interface: without its mode, driver, generic, hardware.
const IFLA_XDP_PROGS: [u16; 4] = [4, 5, 6, 7];
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_ID: u16 = 11;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;

/// Lists of programs, and whose packets they see: those of all interfaces, and those of netkit. Of netkit the primary end
/// has both lists; to it, what the other end sends is received.
const LISTS: [(ProgramKind, libbpf_sys::bpf_attach_type, Traffic); 4] = [
    (ProgramKind::Tcx, libbpf_sys::BPF_TCX_INGRESS, Traffic::Ingress),
    (ProgramKind::Tcx, libbpf_sys::BPF_TCX_EGRESS, Traffic::Egress),
    (ProgramKind::Netkit, libbpf_sys::BPF_NETKIT_PRIMARY, Traffic::Egress),
    (ProgramKind::Netkit, libbpf_sys::BPF_NETKIT_PEER, Traffic::Ingress),
];

/// The programs and filters of all interfaces of this thread's network namespace, and its ends of pairs. `None` if a
/// list cannot be read.
pub fn read(netns: u32) -> Option<(Vec<AttachedProgram>, Vec<PairEnd>)> {
    let mut netlink = Netlink::new(None).ok()?;
    let links = netlink.dump(RTM_GETLINK, &[0; IFINFOMSG]).ok()?;
    if links.len() > MOST_INTERFACES {
        return None;
    }
    let mut found: Vec<_> = links.iter().flat_map(|link| xdp(netns, link)).collect();
    for link in &links {
        let Some(index) = u32_at(link, 4) else { continue };
        let lists = if pairs::kind(link).as_deref() == Some("netkit") { &LISTS[..] } else { &LISTS[..2] };
        for (kind, list, direction) in lists {
            let of = |id| at_interface(*kind, id, String::new(), netns, index, Some(*direction));
            found.extend(super::query(i32::try_from(index).ok()?, *list).into_iter().map(of));
        }
    }
    let qdiscs = match netlink.dump(RTM_GETQDISC, &[0; TCMSG]) {
        Ok(qdiscs) => qdiscs,
        // A kernel without qdiscs has no classifiers.
        Err(NoAnswer::Refused) => Vec::new(),
        Err(NoAnswer::Incomplete) => return None,
    };
    for qdisc in qdiscs {
        let kind = qdisc.get(TCMSG..).and_then(|attributes| attribute(attributes, TCA_KIND)).map(text);
        let directions: &[(u32, Traffic)] = match kind.as_deref() {
            Some("clsact") => &[(INGRESS, Traffic::Ingress), (EGRESS, Traffic::Egress)],
            Some("ingress") => &[(INGRESS, Traffic::Ingress)],
            _ => &[],
        };
        for (parent, direction) in directions {
            let mut asked = [0; TCMSG];
            asked[4..8].copy_from_slice(qdisc.get(4..8)?);
            asked[12..16].copy_from_slice(&parent.to_ne_bytes());
            let filters = netlink.dump(RTM_GETTFILTER, &asked).ok()?;
            found.extend(filters.iter().filter_map(|filter| classifier(netns, filter, *direction)));
        }
    }
    Some((found, links.iter().filter_map(|link| PairEnd::of(netns, link)).collect()))
}

fn at_interface(
    kind: ProgramKind,
    id: u32,
    name: String,
    netns: u32,
    interface: u32,
    direction: Option<Traffic>,
) -> AttachedProgram {
    AttachedProgram { name, netns, interface, direction, ..AttachedProgram::of(kind, id) }
}

/// The XDP programs of an interface, each once.
fn xdp(netns: u32, link: &Message) -> Vec<AttachedProgram> {
    let xdp = link.get(IFINFOMSG..).and_then(|attributes| attribute(attributes, IFLA_XDP)).unwrap_or_default();
    let ids = attributes(xdp).filter(|(kind, _)| IFLA_XDP_PROGS.contains(kind));
    let mut ids: Vec<u32> = ids.filter_map(|(_, value)| u32_at(value, 0)).filter(|id| *id != 0).collect();
    ids.sort_unstable();
    ids.dedup();
    let index = u32_at(link, 4).unwrap_or_default();
    let of = |id| at_interface(ProgramKind::Xdp, id, String::new(), netns, index, Some(Traffic::Ingress));
    ids.into_iter().map(of).collect()
}

/// A filter of a list; its head has no options.
fn classifier(netns: u32, filter: &Message, direction: Traffic) -> Option<AttachedProgram> {
    let (index, handle, info) = (u32_at(filter, 4)?, u32_at(filter, 8)?, u32_at(filter, 16)?);
    let attributes = filter.get(TCMSG..)?;
    let kind = attribute(attributes, TCA_KIND).map(text)?;
    let options = attribute(attributes, TCA_OPTIONS)?;
    if handle == 0 {
        return None;
    }
    let id = attribute(options, TCA_BPF_ID).and_then(|id| u32_at(id, 0)).filter(|_| kind == "bpf");
    Some(if let Some(id) = id {
        let name = attribute(options, TCA_BPF_NAME).map(text).unwrap_or_default();
        at_interface(ProgramKind::Tc, id, name, netns, index, Some(direction))
    } else {
        let name = format!("{kind} pref {}", info >> 16);
        at_interface(ProgramKind::TcFilter, 0, name, netns, index, Some(direction))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::written;

    #[test]
    fn a_program_in_two_places_of_an_interface_is_one() {
        let mut link = vec![0; IFINFOMSG];
        link[4..8].copy_from_slice(&3_u32.to_ne_bytes());
        let ids = [written(2, &[2]), written(4, &9_u32.to_ne_bytes()), written(6, &9_u32.to_ne_bytes())];
        link.extend(written(3, b"eth0\0"));
        link.extend(written(IFLA_XDP, &ids.concat()));
        let found = xdp(7, &link);
        assert_eq!(found.iter().map(|p| (p.id, p.netns, p.interface)).collect::<Vec<_>>(), [(9, 7, 3)]);
        assert!(xdp(7, &vec![0; IFINFOMSG]).is_empty());
    }

    #[test]
    fn filters_are_programs_or_named_by_their_kind() {
        let filter = |kind: &[u8], handle: u32, options: Option<Vec<u8>>| {
            let mut filter = vec![0; TCMSG];
            filter[4..8].copy_from_slice(&3_u32.to_ne_bytes());
            filter[8..12].copy_from_slice(&handle.to_ne_bytes());
            filter[16..20].copy_from_slice(&(10_u32 << 16).to_ne_bytes());
            filter.extend(written(TCA_KIND, kind));
            filter.extend(options.map(|options| written(TCA_OPTIONS, &options)).unwrap_or_default());
            classifier(7, &filter, Traffic::Ingress)
        };
        let named = [written(TCA_BPF_NAME, b"x.o:[a]\0"), written(TCA_BPF_ID, &5_u32.to_ne_bytes())].concat();
        let program = filter(b"bpf\0", 1, Some(named)).expect("a program");
        assert_eq!((program.kind, program.id, program.name.as_str()), (ProgramKind::Tc, 5, "x.o:[a]"));
        let other = filter(b"u32\0", 0x800, Some(Vec::new())).expect("a filter");
        assert_eq!((other.kind, other.id, other.name.as_str()), (ProgramKind::TcFilter, 0, "u32 pref 10"));
        assert_eq!(filter(b"bpf\0", 0, None), None, "the head of a list");
    }
}
