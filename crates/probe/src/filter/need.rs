//! Necessary condition of a filter over protocol, ports and addresses.
//!
//! This condition rejects most unwanted events early, before the kernel side reads a clock or stores anything.
//! The condition may accept more than the filter, never less.

use super::program::Plain;
use crate::record::{
    mag_field_MAG_FIELD_DPORT, mag_field_MAG_FIELD_DST, mag_field_MAG_FIELD_HOP, mag_field_MAG_FIELD_HOST,
    mag_field_MAG_FIELD_PORT, mag_field_MAG_FIELD_PROTO, mag_field_MAG_FIELD_SPORT, mag_field_MAG_FIELD_SRC,
    mag_need, mag_test,
};

/// An address under a mask, and its version.
type Address = (u32, [u64; 2], [u64; 2]);

/// A necessary condition; `None` for no constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    hops: u64,
    proto: Option<u8>,
    /// One of the two ports lies in this range.
    ports: Option<(u16, u16)>,
    /// One of the two addresses matches.
    address: Option<Address>,
}

impl Need {
    const NOTHING: Need = Need { hops: u64::MAX, proto: None, ports: None, address: None };

    /// The necessary condition of `expr`.
    pub(super) fn of(expr: &Plain) -> Need {
        match expr {
            Plain::All(list) => list.iter().map(Need::of).fold(Need::NOTHING, Need::and),
            Plain::Any(list) => list.iter().map(Need::of).reduce(Need::or).unwrap_or(Need::NOTHING),
            Plain::Not(inner) => match &**inner {
                Plain::Test(test) if u32::from(test.field) == mag_field_MAG_FIELD_HOP => {
                    Need { hops: !test.value[0], ..Need::NOTHING }
                }
                _ => Need::NOTHING,
            },
            Plain::Test(test) => Need::of_test(test),
        }
    }

    #[allow(non_upper_case_globals)] // as bindgen names them
    fn of_test(test: &mag_test) -> Need {
        let [from, to] = test.value;
        let range = || Some((u16::try_from(from).ok()?, u16::try_from(to).ok()?));
        match u32::from(test.field) {
            mag_field_MAG_FIELD_HOP => Need { hops: from, ..Need::NOTHING },
            mag_field_MAG_FIELD_PROTO if from == to => {
                Need { proto: u8::try_from(from).ok().filter(|proto| *proto != 0), ..Need::NOTHING }
            }
            mag_field_MAG_FIELD_PORT | mag_field_MAG_FIELD_SPORT | mag_field_MAG_FIELD_DPORT => {
                Need { ports: range().filter(|(_, to)| *to != 0), ..Need::NOTHING }
            }
            mag_field_MAG_FIELD_HOST | mag_field_MAG_FIELD_SRC | mag_field_MAG_FIELD_DST => {
                Need { address: Some((test.arg, test.value, test.mask)), ..Need::NOTHING }
            }
            _ => Need::NOTHING,
        }
    }

    /// Both conditions. Where only one range or address fits, the first is used.
    fn and(self, other: Need) -> Need {
        Need {
            hops: self.hops & other.hops,
            proto: self.proto.or(other.proto),
            ports: self.ports.or(other.ports),
            address: self.address.or(other.address),
        }
    }

    /// Either condition.
    fn or(self, other: Need) -> Need {
        let both = |(a, b): ((u16, u16), (u16, u16))| (a.0.min(b.0), a.1.max(b.1));
        Need {
            hops: self.hops | other.hops,
            proto: self.proto.filter(|_| self.proto == other.proto),
            ports: self.ports.zip(other.ports).map(both),
            address: self.address.filter(|_| self.address == other.address),
        }
    }

    /// Layout of the kernel side.
    pub(super) fn to_map(self) -> mag_need {
        let (port_from, port_to) = self.ports.unwrap_or_default();
        let (ipv6, value, mask) = self.address.unwrap_or_default();
        mag_need {
            hops: self.hops,
            proto: self.proto.unwrap_or_default(),
            addr: u8::from(self.address.is_some()),
            ipv6: ipv6 as u8,
            pad: 0,
            port_from,
            port_to,
            value,
            mask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Program;
    use crate::filter::names::tests::FixedNames;
    use magscope_core::CaptureFilter;
    use proptest::prelude::*;

    fn need(text: &str) -> mag_need {
        *Program::compile(&CaptureFilter::parse(text).expect(text), &FixedNames).expect(text).need()
    }

    #[test]
    fn what_a_filter_needs_is_found_in_it() {
        let both = need("tcp and port 443 and host 10.0.0.0/8");
        assert_eq!((both.proto, both.port_from, both.port_to, both.addr), (6, 443, 443, 1));
        assert_eq!(both.value[0].to_ne_bytes()[0], 10);
        let ports = need("(tcp and port 80) or (tcp and sport 443)");
        assert_eq!((ports.proto, ports.port_from, ports.port_to), (6, 80, 443));
        let none = need("tcp or uid 0");
        assert_eq!((none.proto, none.port_to, none.addr, none.hops), (0, 0, 0, u64::MAX));
        assert_eq!(need("not tcp and not port 5").proto, 0);
        assert_eq!(need("hop = dev.xmit or hop = ip.out").hops.count_ones(), 2);
        assert_eq!(need("not hop = dev.xmit").hops.count_zeros(), 1);
        assert_eq!(need("hop = dev.xmit and hop = ip.out").hops, 0);
    }

    /// An event's two ends on the kernel side; 0 means unknown.
    #[derive(Clone, Copy, Debug)]
    struct Ends {
        hop: u8,
        proto: u8,
        ports: [u16; 2],
        addresses: [[u64; 2]; 2],
        ipv6: bool,
        outwards: bool,
    }

    /// Mirrors `holds` in filter.h.
    #[allow(non_upper_case_globals)]
    fn holds(test: &mag_test, ends: &Ends) -> Option<bool> {
        let port = |end: usize| match (ends.proto, ends.ports[end]) {
            (proto, _) if ![0, 6, 17].contains(&proto) => Some(false),
            (_, 0) => None,
            (_, port) => Some((test.value[0]..=test.value[1]).contains(&u64::from(port))),
        };
        let address = |end: usize| {
            let bytes = ends.addresses[end];
            let under = [bytes[0] & test.mask[0], bytes[1] & test.mask[1]];
            (bytes != [0, 0]).then(|| u32::from(ends.ipv6) == test.arg && under == test.value)
        };
        let either = |a: Option<bool>, b: Option<bool>| match (a, b) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (None, _) | (_, None) => None,
            _ => Some(false),
        };
        let (source, destination) = if ends.outwards { (0, 1) } else { (1, 0) };
        match u32::from(test.field) {
            mag_field_MAG_FIELD_HOP => Some(test.value[0] >> ends.hop & 1 == 1),
            mag_field_MAG_FIELD_PROTO => (ends.proto != 0).then(|| u64::from(ends.proto) == test.value[0]),
            mag_field_MAG_FIELD_PORT => either(port(0), port(1)),
            mag_field_MAG_FIELD_SPORT => port(source),
            mag_field_MAG_FIELD_DPORT => port(destination),
            mag_field_MAG_FIELD_HOST => either(address(0), address(1)),
            mag_field_MAG_FIELD_SRC => address(source),
            mag_field_MAG_FIELD_DST => address(destination),
            _ => None,
        }
    }

    /// Mirrors `needless` in filter.h.
    fn needless(need: &mag_need, ends: &Ends) -> bool {
        let within = |port: u16| (need.port_from..=need.port_to).contains(&port);
        let [local, remote] = ends.addresses;
        let so = |a: [u64; 2]| [a[0] & need.mask[0], a[1] & need.mask[1]] == need.value;
        need.hops >> ends.hop & 1 == 0
            || (need.proto != 0 && ends.proto != 0 && need.proto != ends.proto)
            || (need.port_to != 0 && ends.proto != 0 && ![6, 17].contains(&ends.proto))
            || (need.port_to != 0
                && ends.proto != 0
                && !ends.ports.contains(&0)
                && !ends.ports.into_iter().any(within))
            || (need.addr != 0
                && local != [0, 0]
                && remote != [0, 0]
                && (u8::from(ends.ipv6) != need.ipv6 || !so(local) && !so(remote)))
    }

    fn any_filter() -> impl Strategy<Value = String> {
        let end = prop_oneof![Just("port"), Just("sport"), Just("dport")];
        let host = prop_oneof![Just("host"), Just("src"), Just("dst")];
        let leaf = prop_oneof![
            prop_oneof![Just("tcp"), Just("udp"), Just("icmp"), Just("uid 0")].prop_map(str::to_owned),
            (end, 1..4u16).prop_map(|(end, port)| format!("{end} {port}")),
            (host, 1..4u8, 30..=32u8).prop_map(|(host, last, bits)| format!("{host} 10.0.0.{last}/{bits}")),
            prop_oneof![Just("hop = dev.xmit"), Just("hop = ip.in")].prop_map(str::to_owned),
        ];
        leaf.prop_recursive(4, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 1..4).prop_map(|v| format!("({})", v.join(" and "))),
                proptest::collection::vec(inner.clone(), 1..4).prop_map(|v| format!("({})", v.join(" or "))),
                inner.prop_map(|e| format!("not {e}")),
            ]
        })
    }

    fn any_ends() -> impl Strategy<Value = Ends> {
        let hop = prop_oneof![Just(8u8), Just(12), Just(3)];
        let proto = prop_oneof![Just(0u8), Just(1), Just(6), Just(17)];
        let address = (0..5u8).prop_map(|last| if last == 0 { [0; 2] } else { v4(last) });
        let both = [address.clone().boxed(), address.boxed()];
        (hop, proto, [0..5u16, 0..5u16], both, any::<[bool; 2]>()).prop_map(
            |(hop, proto, ports, addresses, [ipv6, outwards])| Ends {
                hop,
                proto,
                ports,
                addresses,
                ipv6,
                outwards,
            },
        )
    }

    fn v4(last: u8) -> [u64; 2] {
        [u64::from_ne_bytes([10, 0, 0, last, 0, 0, 0, 0]), 0]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_that_the_filter_keeps_is_left_out_at_a_glance(text in any_filter(), ends in any_ends()) {
            let program = Program::compile(&CaptureFilter::parse(&text).expect("well formed"), &FixedNames).expect("short");
            let accepted = program.walk(|test| holds(test, &ends));
            prop_assert!(!accepted || !needless(program.need(), &ends), "{text} {ends:?} {:?}", program.need());
        }
    }
}
