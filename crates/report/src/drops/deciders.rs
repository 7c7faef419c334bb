//! What dropped packets that have no journey: segments of TCP without data, such as those that open a connection.
//!
//! **The problem.** A journey is of payload, so the packet of a connection that a rule forbids has none. Its drop gives the
//! reason, the interface and the network namespace, but not the hop before it, which distinguishes the candidates.
//!
//! **The choice.** The hop is that of the packet's last event before the drop in the same batch.
//!
//! **Known limits.** Without such an event nothing is named. The kernel also frees segments without a reason that it has
//! used, so for these nothing is named either.

use magscope_core::deciders::DropPlace;
use magscope_core::event::Event;
use magscope_core::flow::{Flow, Proto};
use magscope_core::hop::Hop;
use magscope_core::node::NodeInfo;

/// Maximum number of events before a drop that are searched for one of its packet.
const MOST_LOOKED_AT: usize = 256;
/// The reason of many places.
const UNSPECIFIED: &str = "not_specified";

/// True for the drop of a packet that no journey has.
pub(super) fn has_no_journey(event: &Event) -> bool {
    event.hop == Hop::SkbDrop && event.proto == Proto::TCP && event.len == 0
}

/// The last hop of the packet of a drop, from the events before it.
fn last_hop(before: &[Event], drop: &Event) -> Option<Hop> {
    let is_its = |event: &&Event| {
        event.hop.rank().is_some()
            && event.proto == drop.proto
            && event.len == 0
            && (event.tcp_flags, event.ip_id) == (drop.tcp_flags, drop.ip_id)
            && event.seq() == drop.seq()
    };
    before.iter().rev().take(MOST_LOOKED_AT).find(is_its).map(|event| event.hop)
}

/// The program or rule that dropped a packet, or the candidates, as text. `before` are the events before the drop, `flow` is
/// that of the packet where it was dropped. `None` where the stack itself dropped it.
pub(super) fn dropped_by(
    before: &[Event],
    drop: &Event,
    flow: &Flow,
    info: &NodeInfo,
    rules_changed: bool,
) -> Option<String> {
    if !info.lists_deciders && info.programs.is_empty() && info.chains.is_empty() {
        return None;
    }
    let reason = info.drop_reason(drop.drop_reason());
    if reason == UNSPECIFIED {
        return None;
    }
    let place = DropPlace {
        reason: &reason,
        behind: last_hop(before, drop)?,
        netns: &[flow.netns],
        ifindex: drop.ifindex,
        cgroup: None,
        is_ipv6: Some(flow.local.ip().to_canonical().is_ipv6()),
        rules_changed,
        filter: drop.socket_filter(),
    };
    place.dropped_by(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::deciders::{DropRule, FilterChain, FilterFamily, FilterHook};
    use magscope_core::flow::FlowId;
    use magscope_core::node::DropReason;
    use magscope_core::{DetailKind, ExtentKind};

    const SYN: u8 = 2;
    const BY_RULE: u32 = 12;
    const NO_REASON: u32 = 2;

    fn chain(hook: FilterHook) -> FilterChain {
        let chain = hook.name().to_owned();
        FilterChain {
            netns: 5,
            family: FilterFamily::Inet,
            table: "fw".to_owned(),
            chain: chain.clone(),
            hook,
            policy: false,
            rule: Some(DropRule { chain, handle: 2 }),
            others: false,
        }
    }

    fn info() -> NodeInfo {
        let reason = |number, name: &str| DropReason { number, name: name.to_owned() };
        NodeInfo {
            drop_reasons: vec![reason(BY_RULE, "netfilter_drop"), reason(NO_REASON, UNSPECIFIED)],
            chains: vec![chain(FilterHook::Input), chain(FilterHook::Output)],
            lists_deciders: true,
            ..NodeInfo::default()
        }
    }

    fn syn(hop: Hop, ip_id: u16) -> Event {
        Event { tcp_flags: SYN, ip_id, extent: ExtentKind::Stream.of(77), ..Event::at(hop, 1) }
    }

    fn by(before: &[Event], reason: u32) -> Option<String> {
        let flow = Flow {
            id: FlowId(1),
            netns: 5,
            proto: Proto::TCP,
            local: "10.0.0.2:80".parse().expect("an address"),
            remote: "10.0.0.1:40000".parse().expect("an address"),
        };
        let drop = Event { detail: DetailKind::DropReason.of(reason), ..syn(Hop::SkbDrop, 3) };
        assert!(has_no_journey(&drop));
        dropped_by(before, &drop, &flow, &info(), false)
    }

    #[test]
    fn the_rule_that_refuses_a_connection_is_named() {
        let input = "netfilter table `inet fw`, chain `input` at input, rule handle 2";
        assert_eq!(by(&[syn(Hop::DevXmit, 3), syn(Hop::DevRecv, 3)], BY_RULE).as_deref(), Some(input));
        let output = "netfilter table `inet fw`, chain `output` at output, rule handle 2";
        assert_eq!(by(&[syn(Hop::DevRecv, 9), syn(Hop::IpOut, 3)], BY_RULE).as_deref(), Some(output));
    }

    #[test]
    fn nothing_is_named_without_a_hop_of_the_packet_or_without_a_reason() {
        assert_eq!(by(&[syn(Hop::DevRecv, 9)], BY_RULE), None, "another packet");
        assert_eq!(by(&[syn(Hop::DevRecv, 3)], NO_REASON), None);
    }
}
