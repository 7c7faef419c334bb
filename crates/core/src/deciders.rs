//! Programs and rules that drop packets: what is attached where, and the candidates for one drop.
//!
//! The kernel's reason of a drop names a place, such as the filters of an interface, and not the program there. The
//! lists of a [`NodeInfo`] hold what was attached when the capture began. A drop has the candidates that lie at its
//! place: with exactly one, that one dropped the packet.
//!
//! A chain of netfilter behind a hop that is on and that the packet did not pass is ruled out, unless the packet may be
//! a frame of a bridge. What remains is named as *perhaps*: the hop may have been switched off since, or its record lost.

mod chain;
mod program;
mod socket_filter;

pub use chain::{DropRule, FilterChain, FilterFamily, FilterHook};
pub use program::{AttachedProgram, ProgramKind, Traffic};
pub use socket_filter::SocketFilter;

use crate::capture_filter::{CaptureFilter, Field};
use crate::hop::{Direction, Hop};
use crate::node::NodeInfo;

/// The reason of many places, of which XDP is one.
const UNSPECIFIED: &str = "not_specified";

/// Candidates that a text names; of more it has the number.
const SHOWN: usize = 4;

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
    /// The filter of the socket, of a drop by a filter.
    pub filter: SocketFilter,
}

/// A program or chain that may have dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider<'a> {
    /// A program or a filter of an interface.
    Program(&'a AttachedProgram),
    /// A chain of netfilter.
    Chain(&'a FilterChain),
    /// The filter of the socket itself, if it is no program of the list.
    SocketFilter(SocketFilter),
}

impl DropPlace<'_> {
    /// What was attached at this place when the capture began, and can drop for this reason.
    pub fn deciders<'a>(&self, info: &'a NodeInfo) -> Vec<Decider<'a>> {
        let programs = info.programs.iter().filter(|program| self.is_at(program, info)).map(Decider::Program);
        let chains = self.chains(info).0.into_iter().map(Decider::Chain);
        programs.chain(chains).chain(self.of_socket(info)).collect()
    }

    /// The chains at this place, and whether others were ruled out by a hop that the packet did not pass. One of them
    /// dropped it: if that would rule out all, it rules out none.
    fn chains<'a>(&self, info: &'a NodeInfo) -> (Vec<&'a FilterChain>, bool) {
        let mut chains: Vec<_> = info.chains.iter().filter(|chain| self.is_in(chain)).collect();
        let is_reached =
            |chain: &&FilterChain| chain.hop_before(self.behind).is_none_or(|hop| !records_all(hop, info));
        let at_place = chains.len();
        if !self.may_be_bridged(info) && chains.iter().any(is_reached) {
            chains.retain(is_reached);
        }
        let are_ruled_out = chains.len() < at_place;
        (chains, are_ruled_out)
    }

    /// True for a received packet that may be a frame of a bridge: chains of IP may see it (`br_netfilter`), and it passes
    /// no hop of IP.
    fn may_be_bridged(&self, info: &NodeInfo) -> bool {
        let mut at_place =
            info.interfaces.iter().filter(|interface| self.is_in_netns(interface.netns)).peekable();
        let is_received = matches!(self.behind, Hop::NapiPoll | Hop::DevRecv);
        is_received && (at_place.peek().is_none() || at_place.any(|interface| interface.kind == "bridge"))
    }

    /// The filter of the socket, unless it has none or is in the list of programs.
    fn of_socket<'a>(&self, info: &NodeInfo) -> Option<Decider<'a>> {
        let is_listed = || info.programs.iter().any(|program| self.is_filter(program));
        let is_filtered = self.reason == "socket_filter" && info.lists_deciders;
        (is_filtered && self.filter != SocketFilter::None && !is_listed())
            .then_some(Decider::SocketFilter(self.filter))
    }

    /// True for the program that the socket has as its filter.
    fn is_filter(&self, program: &AttachedProgram) -> bool {
        program.kind == ProgramKind::SocketFilter && self.filter == SocketFilter::Program(program.id)
    }

    fn is_at(&self, program: &AttachedProgram, info: &NodeInfo) -> bool {
        use ProgramKind::{CgroupSkb, Netfilter, Netkit, Tc, TcFilter, Tcx, Xdp};
        let sees = |traffic| program.direction.is_none_or(|direction| direction == traffic);
        let at_interface =
            || self.is_in_netns(program.netns) && (self.ifindex == 0 || self.ifindex == program.interface);
        match (self.reason, program.kind) {
            // Also a redirect that fails. A plain drop has no reason of its own.
            ("xdp" | UNSPECIFIED, Xdp) => self.behind <= Hop::DevRecv && at_interface(),
            (UNSPECIFIED, Netkit) => self.is_in_pair(program),
            ("tc_ingress", Tc | Tcx | TcFilter) => sees(Traffic::Ingress) && at_interface(),
            ("tc_egress", Tc | Tcx | TcFilter) => sees(Traffic::Egress) && at_interface(),
            ("bpf_cgroup_egress", CgroupSkb) => sees(Traffic::Egress) && self.is_below(program.cgroup, info),
            ("socket_filter", CgroupSkb) => sees(Traffic::Ingress) && self.is_below(program.cgroup, info),
            ("socket_filter", ProgramKind::SocketFilter) => self.is_filter(program),
            ("netfilter_drop", Netfilter) => program.hook.is_none_or(|hook| hook.is_behind(self.behind)),
            _ => false,
        }
    }

    /// True if the packet was sent by the end of the pair whose packets this program of netkit sees. At its drop it is at
    /// the other end.
    fn is_in_pair(&self, program: &AttachedProgram) -> bool {
        let other_end = match program.direction {
            Some(Traffic::Egress) => program.peer,
            Some(Traffic::Ingress) | None => program.interface,
        };
        let is_there = self.ifindex != 0 && self.ifindex == other_end;
        is_there && self.behind.direction() == Direction::Tx && self.is_in_netns(program.netns)
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
        // The noticed changes are of rules that filter no sockets.
        let rules_changed = self.rules_changed && self.reason != "socket_filter";
        let is_uncertain = self.reason == UNSPECIFIED || rules_changed || self.chains(info).1;
        let perhaps = if is_uncertain { "perhaps " } else { "" };
        let since = if rules_changed { "; rules have changed since the capture began" } else { "" };
        let words = words_of(&deciders, info).map(|words| format!("{perhaps}{words}{since}"));
        words.or_else(|| self.unlisted(info).map(str::to_owned))
    }
}

/// True if the capture began with this hop on, and with nothing that leaves out some of the events of a packet.
fn records_all(hop: Hop, info: &NodeInfo) -> bool {
    info.coverage.served().contains(hop) && !info.settings.iter().any(|setting| leaves_out_events(setting))
}

/// True for a setting that may leave out an event of a packet of which another one is recorded.
fn leaves_out_events(setting: &str) -> bool {
    use Field::{Host, Port, Proto};
    let of_a_packet = |field: &Field| matches!(field, Proto | Host | Port);
    match setting.split_once(' ') {
        Some(("filter", filter)) => {
            !CaptureFilter::parse(filter).is_ok_and(|filter| filter.fields().iter().all(of_a_packet))
        }
        Some(("sample", sampler)) => !sampler.starts_with("flows "),
        Some(("pcap", _)) => true,
        _ => false,
    }
}

/// The candidate; of several the first ones, and their number.
fn words_of(deciders: &[Decider<'_>], info: &NodeInfo) -> Option<String> {
    match deciders {
        [] => None,
        [one] => Some(one.words(info)),
        several => {
            let shown: Vec<_> = several.iter().take(SHOWN).map(|one| one.words(info)).collect();
            let more = if several.len() > SHOWN { "; …" } else { "" };
            Some(format!("one of {}: {}{more}", several.len(), shown.join("; ")))
        }
    }
}

/// The programs that may have taken a packet that left an interface of a network namespace and was not seen again: those
/// of XDP at the other ends of its pairs. A packet that such a program drops, sends back or redirects before the kernel
/// has made a buffer passes no hop.
pub fn taken_by(netns: u32, info: &NodeInfo) -> Option<String> {
    let is_behind = |program: &&AttachedProgram| {
        program.kind == ProgramKind::Xdp && netns != 0 && program.peer_netns == netns
    };
    let programs: Vec<_> = info.programs.iter().filter(is_behind).map(Decider::Program).collect();
    words_of(&programs, info).map(|words| format!("perhaps taken by {words}"))
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
            "socket_filter" => {
                Some("a program of a cgroup that was attached after the capture began, or a security module")
            }
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
            Self::SocketFilter(filter) => filter.words(),
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
            Some(rule) if rule.chain == self.chain => format!("rule handle {}", rule.handle),
            Some(rule) => format!("rule handle {} of chain `{}`", rule.handle, rule.chain),
            None if self.policy && !self.others => "its policy".to_owned(),
            None => "rule unknown".to_owned(),
        };
        let family = self.family.name();
        format!("netfilter table `{family} {}`, chain `{}` at {}, {rule}", self.table, self.chain, self.hook)
    }
}

#[cfg(test)]
mod tests;
