//! Programs and rules that drop packets: what is attached where, and the candidates for one drop.
//!
//! The kernel's reason of a drop names a place, such as the filters of an interface, and not the program there. The
//! lists of a [`NodeInfo`] hold what was attached when the capture began. A drop has the candidates that lie at its
//! place: with exactly one, that one dropped the packet.

use crate::hop::Hop;
use crate::node::NodeInfo;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The reason of many places, of which XDP is one.
const UNSPECIFIED: &str = "not_specified";

/// Candidates that a text names; of more it has the number.
const SHOWN: usize = 4;

/// What a program or filter is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramKind {
    /// BPF program at an interface's XDP hook.
    Xdp,
    /// BPF program as a classifier of an interface (`cls_bpf`).
    Tc,
    /// BPF program in an interface's tcx list.
    Tcx,
    /// Classifier of an interface that is no BPF program (`u32`, `flower`).
    TcFilter,
    /// BPF program of a cgroup, for packets of its sockets.
    CgroupSkb,
    /// BPF program at a hook of netfilter. Its namespace is unknown.
    Netfilter,
}

impl ProgramKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Xdp, Self::Tc, Self::Tcx, Self::TcFilter, Self::CgroupSkb, Self::Netfilter];

    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Tc => "tc",
            Self::Tcx => "tcx",
            Self::TcFilter => "tc-filter",
            Self::CgroupSkb => "cgroup-skb",
            Self::Netfilter => "netfilter",
        }
    }

    /// Name in sentences.
    const fn words(self) -> &'static str {
        match self {
            Self::Xdp => "XDP program",
            Self::Tc => "tc program",
            Self::Tcx => "tcx program",
            Self::TcFilter => "tc filter",
            Self::CgroupSkb => "cgroup program",
            Self::Netfilter => "netfilter program",
        }
    }
}

impl fmt::Display for ProgramKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The packets that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// Received ones.
    Ingress,
    /// Sent ones.
    Egress,
}

/// A program or filter that may drop packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedProgram {
    /// What it is attached to.
    pub kind: ProgramKind,
    /// The kernel's number of the program; 0 for a filter that is none.
    #[serde(default)]
    pub id: u32,
    /// Name of the program, or kind of the filter; empty without a name.
    #[serde(default, deserialize_with = "crate::foreign::text")]
    pub name: String,
    /// Network namespace of the interface; 0 without one.
    #[serde(default)]
    pub netns: u32,
    /// Index of the interface there; 0 without one.
    #[serde(default)]
    pub interface: u32,
    /// The packets that it sees; both without an entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Traffic>,
    /// Number of the cgroup; 0 without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cgroup: u64,
    /// Hook of netfilter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<FilterHook>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // signature of serde
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A hook of netfilter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilterHook {
    /// Of a received packet, at its interface.
    Ingress,
    /// Of a received packet, before its route is chosen.
    Prerouting,
    /// Of a packet for this host.
    Input,
    /// Of a packet for another host.
    Forward,
    /// Of a packet of this host.
    Output,
    /// Of a packet that leaves, after its route is chosen.
    Postrouting,
    /// Of a packet that leaves, at its interface.
    Egress,
}

impl FilterHook {
    /// Name as in rules.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
            Self::Egress => "egress",
        }
    }

    /// True if a packet can pass this hook after a hop and before the next one. A hop that was not passed proves
    /// nothing, because it may have been off.
    fn is_behind(self, hop: Hop) -> bool {
        let sent = hop < Hop::DevQueue;
        match self {
            Self::Output => hop <= Hop::IpOut,
            // A packet for another host leaves after it was received.
            Self::Postrouting => hop <= Hop::IpOut || (!sent && hop <= Hop::IpPre),
            Self::Egress => sent || matches!(hop, Hop::NapiPoll | Hop::DevRecv | Hop::IpPre),
            Self::Ingress => !sent && hop <= Hop::DevRecv,
            Self::Prerouting | Self::Input | Self::Forward => !sent && hop <= Hop::IpPre,
        }
    }
}

impl fmt::Display for FilterHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The protocols of a netfilter table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilterFamily {
    /// IPv4 and IPv6.
    Inet,
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// Frames of a bridge.
    Bridge,
    /// Frames of an interface.
    Netdev,
}

impl FilterFamily {
    /// Name as in rules.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
            Self::Bridge => "bridge",
            Self::Netdev => "netdev",
        }
    }

    const fn has(self, is_ipv6: bool) -> bool {
        match self {
            Self::Ip => !is_ipv6,
            Self::Ip6 => is_ipv6,
            Self::Inet | Self::Bridge | Self::Netdev => true,
        }
    }
}

/// The rule of a chain that drops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropRule {
    /// Its chain, to which the base chain leads.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub chain: String,
    /// Its handle.
    pub handle: u64,
}

/// A base chain of netfilter that can drop packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterChain {
    /// Its network namespace.
    pub netns: u32,
    /// Protocols of its table.
    pub family: FilterFamily,
    /// Name of its table.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub table: String,
    /// Its name.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub chain: String,
    /// Its hook.
    pub hook: FilterHook,
    /// True if its policy drops.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub policy: bool,
    /// The rule that drops, if there is only one and no policy that drops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<DropRule>,
    /// True if other rules can drop, or if the rules are unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub others: bool,
}

/// A drop: its reason and its place.
#[derive(Clone, Copy, Debug)]
pub struct DropPlace<'a> {
    /// The kernel's name of the reason.
    pub reason: &'a str,
    /// The last hop before it.
    pub behind: Hop,
    /// Network namespaces of its interface, of which one is right; none if unknown.
    pub netns: &'a [u32],
    /// Interface; 0 if unknown.
    pub ifindex: u32,
    /// Cgroup of the socket; `None` if unknown.
    pub cgroup: Option<u64>,
    /// True for IPv6; `None` if unknown.
    pub is_ipv6: Option<bool>,
    /// Rules may have changed since the capture listed them.
    pub rules_changed: bool,
}

/// A program or chain that may have dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider<'a> {
    /// A program or a filter of an interface.
    Program(&'a AttachedProgram),
    /// A chain of netfilter.
    Chain(&'a FilterChain),
    /// The filter of the socket itself, which no list has.
    SocketFilter,
}

impl DropPlace<'_> {
    /// What was attached at this place when the capture began, and can drop for this reason.
    pub fn deciders<'a>(&self, info: &'a NodeInfo) -> Vec<Decider<'a>> {
        let programs = info.programs.iter().filter(|program| self.is_at(program, info)).map(Decider::Program);
        let chains = info.chains.iter().filter(|chain| self.is_in(chain)).map(Decider::Chain);
        let of_socket = self.reason == "socket_filter" && info.lists_deciders;
        programs.chain(chains).chain(of_socket.then_some(Decider::SocketFilter)).collect()
    }

    fn is_at(&self, program: &AttachedProgram, info: &NodeInfo) -> bool {
        use ProgramKind::{CgroupSkb, Netfilter, Tc, TcFilter, Tcx, Xdp};
        let sees = |traffic| program.direction.is_none_or(|direction| direction == traffic);
        let at_interface =
            || self.is_in_netns(program.netns) && (self.ifindex == 0 || self.ifindex == program.interface);
        match (self.reason, program.kind) {
            // Also a redirect that fails. A plain drop has no reason of its own.
            ("xdp" | UNSPECIFIED, Xdp) => self.behind <= Hop::DevRecv && at_interface(),
            ("tc_ingress", Tc | Tcx | TcFilter) => sees(Traffic::Ingress) && at_interface(),
            ("tc_egress", Tc | Tcx | TcFilter) => sees(Traffic::Egress) && at_interface(),
            ("bpf_cgroup_egress", CgroupSkb) => sees(Traffic::Egress) && self.is_below(program.cgroup, info),
            ("socket_filter", CgroupSkb) => sees(Traffic::Ingress) && self.is_below(program.cgroup, info),
            ("netfilter_drop", Netfilter) => program.hook.is_none_or(|hook| hook.is_behind(self.behind)),
            _ => false,
        }
    }

    fn is_in_netns(&self, netns: u32) -> bool {
        self.netns.is_empty() || self.netns.contains(&netns)
    }

    /// True if the socket's cgroup is this one or below it, as far as known.
    fn is_below(&self, cgroup: u64, info: &NodeInfo) -> bool {
        let path = |id| info.cgroup_path(id).map(|path| path.trim_end_matches('/'));
        match (self.cgroup.and_then(path), path(cgroup)) {
            (Some(own), Some(above)) => {
                own.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            _ => true,
        }
    }

    fn is_in(&self, chain: &FilterChain) -> bool {
        self.reason == "netfilter_drop"
            && self.is_in_netns(chain.netns)
            && chain.hook.is_behind(self.behind)
            && self.is_ipv6.is_none_or(|is_ipv6| chain.family.has(is_ipv6))
    }

    /// The candidates, as text: the program or rule itself if there is one only. `None` where the stack itself drops
    /// for this reason, and without lists.
    pub fn dropped_by(&self, info: &NodeInfo) -> Option<String> {
        let deciders = self.deciders(info);
        let perhaps = if self.reason == UNSPECIFIED || self.rules_changed { "perhaps " } else { "" };
        let since = if self.rules_changed { "; rules have changed since the capture began" } else { "" };
        match deciders.as_slice() {
            [] => self.unlisted(info).map(str::to_owned),
            [one] => Some(format!("{perhaps}{}{since}", one.words(info))),
            several => {
                let shown: Vec<_> = several.iter().take(SHOWN).map(|one| one.words(info)).collect();
                let more = if several.len() > SHOWN { "; …" } else { "" };
                Some(format!("{perhaps}one of {}: {}{more}{since}", several.len(), shown.join("; ")))
            }
        }
    }
}

impl DropPlace<'_> {
    /// For a reason of programs and rules without a candidate.
    fn unlisted(&self, info: &NodeInfo) -> Option<&'static str> {
        match self.reason {
            _ if !info.lists_deciders => None,
            "xdp" | "tc_ingress" | "tc_egress" | "bpf_cgroup_egress" => {
                Some("a program that was attached after the capture began")
            }
            "netfilter_drop" => Some("netfilter, rule unknown"),
            _ => None,
        }
    }
}

impl Decider<'_> {
    /// As text: ``tc program `limit`, id 42 on eth0``.
    pub fn words(&self, info: &NodeInfo) -> String {
        match self {
            Self::Program(program) => program.words(info),
            Self::Chain(chain) => chain.words(),
            Self::SocketFilter => "a filter of the socket".to_owned(),
        }
    }
}

impl AttachedProgram {
    fn words(&self, info: &NodeInfo) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!(" `{}`", self.name) };
        let id = if self.id == 0 { String::new() } else { format!(", id {}", self.id) };
        let place = match (self.interface, self.cgroup, self.hook) {
            (0, 0, None) => String::new(),
            (0, 0, Some(hook)) => format!(" at {hook}"),
            (0, cgroup, _) => {
                let path = info.cgroup_path(cgroup);
                path.map_or_else(|| format!(" on cgroup {cgroup}"), |path| format!(" on {path}"))
            }
            (interface, ..) => {
                let name = info.interface(self.netns, interface);
                name.map_or_else(|| format!(" on interface {interface}"), |name| format!(" on {name}"))
            }
        };
        format!("{}{name}{id}{place}", self.kind.words())
    }
}

impl FilterChain {
    fn words(&self) -> String {
        let rule = match &self.rule {
            Some(rule) if rule.chain == self.chain => format!("rule {}", rule.handle),
            Some(rule) => format!("rule {} of chain `{}`", rule.handle, rule.chain),
            None if self.policy && !self.others => "its policy".to_owned(),
            None => "rule unknown".to_owned(),
        };
        let family = self.family.name();
        format!("netfilter table `{family} {}`, chain `{}` at {}, {rule}", self.table, self.chain, self.hook)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{CgroupName, InterfaceName};

    const NS: u32 = 77;

    fn program(kind: ProgramKind, id: u32, interface: u32, direction: Option<Traffic>) -> AttachedProgram {
        let netns = if interface == 0 { 0 } else { NS };
        AttachedProgram { kind, id, name: format!("p{id}"), netns, interface, direction, cgroup: 0, hook: None }
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
        let on_cgroup =
            |id, cgroup| AttachedProgram { cgroup, ..program(CgroupSkb, id, 0, Some(Traffic::Egress)) };
        let cgroup = |id, path: &str| CgroupName { id, path: path.to_owned() };
        let interface = |index, name: &str| InterfaceName { netns: NS, index, name: name.to_owned() };
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
            "netfilter table `inet filter`, chain `input` at input, rule 5",
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

    #[test]
    fn a_rule_of_another_chain_is_named_with_it() {
        let rule = Some(DropRule { chain: "blocked".to_owned(), handle: 9 });
        let chains = vec![FilterChain { rule, ..chain(FilterFamily::Ip, FilterHook::Input, 0) }];
        let info = NodeInfo { chains, ..NodeInfo::default() };
        let by = at("netfilter_drop", 2).dropped_by(&info).expect("one");
        assert!(by.ends_with("table `ip filter`, chain `input` at input, rule 9 of chain `blocked`"), "{by}");
    }
}
