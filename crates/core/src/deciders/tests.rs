//! Candidates by place and reason, and their words.

use super::*;
use crate::node::{Backend, CgroupName, Coverage, InterfaceName};

const NS: u32 = 77;

fn program(kind: ProgramKind, id: u32, interface: u32, direction: Option<Traffic>) -> AttachedProgram {
    let netns = if interface == 0 { 0 } else { NS };
    AttachedProgram { name: format!("p{id}"), netns, interface, direction, ..AttachedProgram::of(kind, id) }
}

fn chain(family: FilterFamily, hook: FilterHook, handle: u64) -> FilterChain {
    let chain = hook.name().to_owned();
    let rule = (handle != 0).then(|| DropRule { chain: chain.clone(), handle });
    FilterChain {
        netns: NS,
        family,
        table: "filter".to_owned(),
        chain,
        hook,
        policy: false,
        others: rule.is_none(),
        rule,
    }
}

fn info() -> NodeInfo {
    use ProgramKind::{CgroupSkb, Tc, TcFilter, Tcx, Xdp};
    let on_cgroup = |id, cgroup| AttachedProgram { cgroup, ..program(CgroupSkb, id, 0, Some(Traffic::Egress)) };
    let cgroup = |id, path: &str| CgroupName { id, path: path.to_owned() };
    let interface =
        |index, name: &str| InterfaceName { netns: NS, index, name: name.to_owned(), kind: String::new() };
    NodeInfo {
        interfaces: vec![interface(2, "eth0"), interface(3, "eth1")],
        cgroups: vec![cgroup(1, "/"), cgroup(5, "/a"), cgroup(6, "/a/b"), cgroup(7, "/ab")],
        programs: vec![
            program(Xdp, 1, 2, None),
            program(Tc, 2, 2, Some(Traffic::Ingress)),
            program(Tc, 3, 2, Some(Traffic::Egress)),
            program(Tcx, 4, 3, Some(Traffic::Ingress)),
            program(TcFilter, 0, 3, Some(Traffic::Ingress)),
            on_cgroup(8, 5),
            on_cgroup(9, 7),
        ],
        ..NodeInfo::default()
    }
}

fn at(reason: &str, ifindex: u32) -> DropPlace<'_> {
    DropPlace {
        reason,
        behind: Hop::DevRecv,
        netns: &[NS],
        ifindex,
        cgroup: None,
        is_ipv6: Some(false),
        rules_changed: false,
        filter: SocketFilter::Unknown,
    }
}

#[test]
fn after_a_change_of_rules_no_name_is_certain() {
    let by = |rules_changed| DropPlace { rules_changed, ..at("tc_ingress", 2) }.dropped_by(&info());
    let (before, after) = (by(false).expect("a name"), by(true).expect("a name"));
    assert_eq!(after, format!("perhaps {before}; rules have changed since the capture began"));
}

#[test]
fn the_one_program_at_the_place_is_named() {
    let by = |reason, ifindex| at(reason, ifindex).dropped_by(&info());
    assert_eq!(by("xdp", 2).as_deref(), Some("XDP program `p1`, id 1 on eth0"));
    assert_eq!(by("tc_ingress", 2).as_deref(), Some("tc program `p2`, id 2 on eth0"));
    assert_eq!(by("tc_egress", 2).as_deref(), Some("tc program `p3`, id 3 on eth0"));
    assert_eq!(by("tc_egress", 3), None, "nothing is attached there");
    assert_eq!(by("xdp", 3), None);
    assert_eq!(by("no_socket", 2), None, "a reason of the stack itself");
    assert_eq!(by("not_specified", 2).as_deref(), Some("perhaps XDP program `p1`, id 1 on eth0"));
    assert_eq!(by("not_specified", 3), None);
    let later = DropPlace { behind: Hop::IpPre, ..at("not_specified", 2) };
    assert_eq!(later.dropped_by(&info()), None, "XDP comes before");
    assert_eq!(DropPlace { netns: &[78], ..at("xdp", 2) }.dropped_by(&info()), None, "another namespace");
}

#[test]
fn what_was_attached_later_is_no_candidate_and_no_secret() {
    let info = NodeInfo { lists_deciders: true, ..info() };
    let later = Some("a program that was attached after the capture began");
    for reason in ["xdp", "tc_egress"] {
        assert_eq!(at(reason, 3).dropped_by(&info).as_deref(), later);
    }
    assert_eq!(at("netfilter_drop", 3).dropped_by(&info).as_deref(), Some("netfilter, rule unknown"));
    assert_eq!(at("no_socket", 3).dropped_by(&info), None);
    assert_eq!(at("xdp", 3).dropped_by(&NodeInfo::default()), None, "a recording without lists");
}

#[test]
fn a_filter_of_a_socket_is_in_no_list() {
    let on_root =
        AttachedProgram { cgroup: 1, ..program(ProgramKind::CgroupSkb, 3, 0, Some(Traffic::Ingress)) };
    let info = NodeInfo { lists_deciders: true, ..info() };
    let place = DropPlace { behind: Hop::UdpRecv, ..at("socket_filter", 2) };
    assert_eq!(place.dropped_by(&info).as_deref(), Some("a filter of the socket"));
    let both = NodeInfo { programs: vec![on_root], ..info };
    let words = "one of 2: cgroup program `p3`, id 3 on /; a filter of the socket";
    assert_eq!(place.dropped_by(&both).as_deref(), Some(words));
}

#[test]
fn a_filter_that_was_read_at_the_drop_is_certain() {
    let listed = program(ProgramKind::SocketFilter, 9, 0, None);
    let on_root =
        AttachedProgram { cgroup: 1, ..program(ProgramKind::CgroupSkb, 3, 0, Some(Traffic::Ingress)) };
    let info = NodeInfo { lists_deciders: true, programs: vec![listed.clone()], ..info() };
    let by = |filter, info: &NodeInfo| {
        let place = DropPlace { behind: Hop::UdpRecv, rules_changed: true, filter, ..at("socket_filter", 2) };
        place.dropped_by(info).expect("a text")
    };
    assert_eq!(by(SocketFilter::Program(9), &info), "socket filter `p9`, id 9");
    assert_eq!(by(SocketFilter::Program(10), &info), "socket filter, id 10", "loaded later");
    assert_eq!(by(SocketFilter::Classic, &info), "a classic socket filter");
    assert_eq!(by(SocketFilter::Unknown, &info), "a filter of the socket");
    let later = "a program of a cgroup that was attached after the capture began, or a security module";
    assert_eq!(by(SocketFilter::None, &info), later);
    let both = NodeInfo { programs: vec![on_root, listed], ..info };
    assert_eq!(by(SocketFilter::None, &both), "cgroup program `p3`, id 3 on /", "the socket has no filter");
    let words = "one of 2: cgroup program `p3`, id 3 on /; socket filter `p9`, id 9";
    assert_eq!(by(SocketFilter::Program(9), &both), words);
}

#[test]
fn a_program_of_netkit_sees_what_one_end_sends() {
    let netkit =
        |id, direction| AttachedProgram { peer: 8, ..program(ProgramKind::Netkit, id, 3, Some(direction)) };
    let programs = vec![netkit(1, Traffic::Egress), netkit(2, Traffic::Ingress)];
    let info = NodeInfo { programs, ..info() };
    let by = |behind, ifindex| DropPlace { behind, ..at("not_specified", ifindex) }.dropped_by(&info);
    let perhaps = |id| Some(format!("perhaps netkit program `p{id}`, id {id} on eth1"));
    assert_eq!(by(Hop::DevXmit, 8), perhaps(1), "the primary end sent it");
    assert_eq!(by(Hop::DevXmit, 3), perhaps(2), "the other end sent it");
    assert_eq!(by(Hop::DevXmit, 2), None, "another interface");
    assert_eq!(by(Hop::DevXmit, 0), None, "an unknown interface");
    assert_eq!(by(Hop::DevRecv, 3), None, "it has passed the program");
}

#[test]
fn a_program_of_xdp_may_have_taken_what_the_other_end_sent() {
    let xdp =
        |id, peer_netns| AttachedProgram { peer: 4, peer_netns, ..program(ProgramKind::Xdp, id, 2, None) };
    let info = NodeInfo { programs: vec![xdp(1, 5), xdp(2, 0), xdp(3, 6), xdp(4, 6)], ..info() };
    assert_eq!(taken_by(5, &info).as_deref(), Some("perhaps taken by XDP program `p1`, id 1 on eth0"));
    assert!(taken_by(6, &info).is_some_and(|words| words.starts_with("perhaps taken by one of 2: ")));
    assert_eq!(taken_by(NS, &info), None);
    assert_eq!(taken_by(0, &info), None, "an unknown namespace");
}

#[test]
fn several_programs_are_candidates() {
    let by = at("tc_ingress", 3).dropped_by(&info());
    assert_eq!(by.as_deref(), Some("one of 2: tcx program `p4`, id 4 on eth1; tc filter `p0` on eth1"));
    let unknown = at("tc_ingress", 0).dropped_by(&info()).expect("candidates");
    assert!(unknown.starts_with("one of 3: "), "{unknown}");
}

#[test]
fn a_program_of_a_cgroup_sees_sockets_below_it() {
    let by = |cgroup| DropPlace { cgroup, ..at("bpf_cgroup_egress", 0) }.dropped_by(&info());
    assert_eq!(by(Some(5)).as_deref(), Some("cgroup program `p8`, id 8 on /a"));
    assert_eq!(by(Some(6)), by(Some(5)), "a cgroup below it");
    assert_eq!(by(Some(7)).as_deref(), Some("cgroup program `p9`, id 9 on /ab"));
    assert_eq!(by(Some(1)), None, "the root is above both");
    assert!(by(None).is_some_and(|words| words.starts_with("one of 2: ")));
    assert_eq!(by(Some(4711)), by(None), "a later cgroup has no path");
}

#[test]
fn chains_lie_behind_the_last_hop() {
    use FilterFamily::{Inet, Ip6};
    use FilterHook::{Forward, Input, Output, Postrouting, Prerouting};
    let chains = vec![
        chain(Inet, Input, 5),
        chain(Inet, Output, 0),
        chain(Ip6, Prerouting, 6),
        FilterChain { policy: true, others: false, ..chain(Inet, Postrouting, 0) },
    ];
    let info = NodeInfo { chains, ..info() };
    let by = |behind| DropPlace { behind, ..at("netfilter_drop", 2) }.dropped_by(&info);
    let (input, output) = (
        "netfilter table `inet filter`, chain `input` at input, rule handle 5",
        "netfilter table `inet filter`, chain `output` at output, rule unknown",
    );
    let post = "netfilter table `inet filter`, chain `postrouting` at postrouting, its policy";
    assert_eq!(by(Hop::IpOut), Some(format!("one of 2: {output}; {post}")));
    assert_eq!(by(Hop::IpPost), None);
    assert_eq!(by(Hop::DevRecv), Some(format!("one of 2: {input}; {post}")), "it may be for another host");
    assert_eq!(by(Hop::IpIn), None, "the last hop behind all rules");
    let one = NodeInfo { chains: vec![chain(Inet, Input, 5), chain(Inet, Output, 0)], ..info.clone() };
    let by = DropPlace { behind: Hop::IpPre, ..at("netfilter_drop", 2) }.dropped_by(&one);
    assert_eq!(by.as_deref(), Some(input));
    let six = DropPlace { is_ipv6: Some(true), ..at("netfilter_drop", 2) }.deciders(&info).len();
    assert_eq!(six, 3);
    let elsewhere = NodeInfo { chains: vec![chain(Inet, Forward, 1)], ..info };
    let other = DropPlace { netns: &[78], ..at("netfilter_drop", 2) };
    assert_eq!((other.dropped_by(&elsewhere), at("xdp", 2).deciders(&elsewhere).len()), (None, 1));
}

/// Hops that are served when the capture begins, and its settings.
fn with_hops(info: NodeInfo, hops: &[Hop], setting: &str) -> NodeInfo {
    let mut coverage = Coverage::full(Backend::Netfilter);
    coverage.hops.retain(|row| hops.contains(&row.hop));
    NodeInfo { coverage, settings: vec![setting.to_owned()], ..info }
}

#[test]
fn a_chain_behind_a_hop_that_was_on_and_not_passed_is_ruled_out() {
    use FilterFamily::{Bridge, Inet, Netdev};
    use FilterHook::{Egress, Ingress, Input, Output, Prerouting};
    let chains = vec![chain(Netdev, Ingress, 3), chain(Inet, Prerouting, 4), chain(Inet, Input, 5)];
    let info = NodeInfo { chains, lists_deciders: true, ..info() };
    let by = |behind, info: &NodeInfo| {
        DropPlace { behind, ..at("netfilter_drop", 2) }.dropped_by(info).expect("candidates")
    };
    let all = by(Hop::DevRecv, &info);
    assert!(all.starts_with("one of 3: "), "{all}");
    let on = |setting| with_hops(info.clone(), &[Hop::DevRecv, Hop::IpPre], setting);
    let ingress = "perhaps netfilter table `netdev filter`, chain `ingress` at ingress, rule handle 3";
    for setting in ["snap 64 dev.recv", "filter port = 443 and proto = tcp", "sample flows 1/4"] {
        assert_eq!(by(Hop::DevRecv, &on(setting)), ingress, "{setting}");
    }
    for setting in ["filter hop = dev.recv", "sample 1/10 ip.pre", "pcap tcp"] {
        assert_eq!(by(Hop::DevRecv, &on(setting)), all, "{setting}");
    }
    assert!(by(Hop::IpPre, &on("")).starts_with("one of 2: "), "it was passed");
    // Only the record of the hop can be missing.
    let one = NodeInfo { chains: vec![chain(Inet, Input, 5)], ..on("") };
    assert_eq!(by(Hop::DevRecv, &one), "netfilter table `inet filter`, chain `input` at input, rule handle 5");
    // Frames of a bridge pass no hop of IP.
    let bridge = NodeInfo { chains: vec![chain(Netdev, Ingress, 3), chain(Bridge, Input, 6)], ..on("") };
    assert!(by(Hop::DevRecv, &bridge).starts_with("one of 2: "));
    // With `br_netfilter` they pass the chains of IP as well.
    let mut bridged = on("");
    bridged.interfaces[0].kind = "bridge".to_owned();
    assert_eq!(by(Hop::DevRecv, &bridged), all);
    bridged.interfaces[0].netns = NS + 1;
    assert_eq!(by(Hop::DevRecv, &bridged), ingress, "a bridge of another namespace");
    bridged.interfaces.clear();
    assert_eq!(by(Hop::DevRecv, &bridged), all, "no interface is listed");
    let chains = vec![chain(Inet, Output, 7), chain(Netdev, Egress, 8)];
    let sent = with_hops(NodeInfo { chains, ..info }, &[Hop::IpOut, Hop::IpPost], "");
    let output = "perhaps netfilter table `inet filter`, chain `output` at output, rule handle 7";
    assert_eq!(by(Hop::IpOut, &sent), output);
    let egress = "netfilter table `netdev filter`, chain `egress` at egress, rule handle 8";
    assert_eq!(by(Hop::IpPost, &sent), egress);
}

#[test]
fn a_rule_of_another_chain_is_named_with_it() {
    let rule = Some(DropRule { chain: "blocked".to_owned(), handle: 9 });
    let chains = vec![FilterChain { rule, ..chain(FilterFamily::Ip, FilterHook::Input, 0) }];
    let info = NodeInfo { chains, ..NodeInfo::default() };
    let by = at("netfilter_drop", 2).dropped_by(&info).expect("one");
    assert!(
        by.ends_with("table `ip filter`, chain `input` at input, rule handle 9 of chain `blocked`"),
        "{by}"
    );
}
