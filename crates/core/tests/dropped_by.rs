//! The program that dropped a journey, by the ends of the journey and the hop before the drop.

use crate::common;
use common::*;
use magscope_core::context::{Context, NodeContext};
use magscope_core::deciders::{AttachedProgram, ProgramKind, SocketFilter, Traffic};
use magscope_core::node::{DropReason, NodeInfo};
use magscope_core::{Batch, Change, Correlator, Detail, DetailKind, Event, FlowId, Hop, Limits, Proto};

const UNSPECIFIED: u32 = 2;
const FILTER: u32 = 8;
const INGRESS: u32 = 71;
const EGRESS: u32 = 72;

/// Client and server have interfaces of one number.
fn node() -> NodeInfo {
    let reason = |number, name: &str| DropReason { number, name: name.to_owned() };
    let program = |kind, id, name: &str, netns, direction| AttachedProgram {
        name: name.to_owned(),
        netns,
        interface: 2,
        direction: Some(direction),
        ..AttachedProgram::of(kind, id)
    };
    let drop_reasons = vec![
        reason(UNSPECIFIED, "not_specified"),
        reason(FILTER, "socket_filter"),
        reason(INGRESS, "tc_ingress"),
        reason(EGRESS, "tc_egress"),
    ];
    let programs = vec![
        program(ProgramKind::Tc, 7, "limit", 1, Traffic::Egress),
        program(ProgramKind::Tc, 8, "other", 2, Traffic::Egress),
        program(ProgramKind::Tcx, 9, "shield", 2, Traffic::Ingress),
        program(ProgramKind::Xdp, 10, "wall", 2, Traffic::Ingress),
        AttachedProgram {
            name: "every_tenth".to_owned(),
            ..AttachedProgram::of(ProgramKind::SocketFilter, 11)
        },
    ];
    NodeInfo { drop_reasons, programs, lists_deciders: true, ..NodeInfo::default() }
}

/// The verdict of a datagram that passed these hops and was then dropped.
fn verdict(passed: &[Event], flow: FlowId, reason: u32) -> String {
    verdict_of(passed, flow, DetailKind::DropReason.of(reason))
}

fn verdict_of(passed: &[Event], flow: FlowId, detail: Detail) -> String {
    let time_ns = passed.last().map_or(0, |event| event.time_ns + 1);
    let packet = udp(Hop::SkbDrop, time_ns, flow, 9, 2, 100);
    let drop = Event { detail, ifindex: 2, ..packet };
    let (done, correlator) = correlate(coverage(), flows(Proto::UDP), [passed, &[drop]].concat());
    assert_eq!(done.len(), 1, "{done:?}");
    let node = node();
    let context: &dyn Context = &NodeContext { correlator: &correlator, node: &node };
    context.verdict(&done[0])
}

#[test]
fn a_drop_names_the_program_at_its_end() {
    let sent = down(0, 9, 2, 100);
    assert_eq!(
        verdict(&sent[..2], CLIENT, EGRESS),
        "dropped after ip.post, tc_egress at interface 2 (tc program `limit`, id 7 on interface 2)"
    );
    let received = [&sent[..], &up(50, 9, 2, 100)[..1]].concat();
    assert_eq!(
        verdict(&received, SERVER, INGRESS),
        "dropped after dev.recv, tc_ingress at interface 2 (tcx program `shield`, id 9 on interface 2)"
    );
    assert_eq!(
        verdict(&sent, CLIENT, UNSPECIFIED),
        "dropped after dev.xmit, not_specified at interface 2 (perhaps XDP program `wall`, id 10 on interface 2)"
    );
    let later = "a program that was attached after the capture began";
    assert_eq!(
        verdict(&sent[..2], CLIENT, INGRESS),
        format!("dropped after ip.post, tc_ingress at interface 2 ({later})")
    );
}

#[test]
fn a_drop_by_a_filter_names_the_filter_of_its_socket() {
    let received = [&down(0, 9, 2, 100)[..], &up(50, 9, 2, 100)[..1]].concat();
    let last = received.last().map_or("", |event| event.hop.name());
    let verdict = |filter: SocketFilter| {
        verdict_of(&received, SERVER, filter.detail(FILTER).unwrap_or(DetailKind::DropReason.of(FILTER)))
    };
    let by = |words: &str| format!("dropped after {last}, socket_filter at interface 2 ({words})");
    assert_eq!(verdict(SocketFilter::Program(11)), by("socket filter `every_tenth`, id 11"));
    assert_eq!(verdict(SocketFilter::Program(12)), by("socket filter, id 12"));
    assert_eq!(verdict(SocketFilter::Classic), by("a classic socket filter"));
    assert_eq!(verdict(SocketFilter::Unknown), by("a filter of the socket"));
}

#[test]
fn a_lost_datagram_names_the_program_that_may_have_taken_it() {
    // Others arrive, so that the receiver is in the capture.
    let arrived = |ns, ip_id| [down(ns, ip_id, 2, 100), up(ns + 50, ip_id, 2, 100)].concat();
    let verdict = |hops: usize| {
        let sent = down(1_000_000, 9, 3, 100);
        let events = [&arrived(0, 8)[..], &sent[..hops], &arrived(60_000_000_000, 10)].concat();
        let (done, correlator) = correlate(coverage(), flows(Proto::UDP), events);
        let lost = done.iter().find(|journey| journey.ip_id == 9).expect("its journey");
        let taken = AttachedProgram { peer_netns: 1, ..node().programs[3].clone() };
        let node = NodeInfo { programs: vec![taken], ..node() };
        let context: &dyn Context = &NodeContext { correlator: &correlator, node: &node };
        context.verdict(lost)
    };
    let taken = "lost after dev.xmit (perhaps taken by XDP program `wall`, id 10 on interface 2)";
    assert_eq!(verdict(down(0, 9, 2, 100).len()), taken);
    assert_eq!(verdict(1), "lost after ip.out", "it left no interface");
}

#[test]
fn a_change_of_rules_puts_later_names_in_doubt() {
    let sent = |time_ns| down(time_ns, 9, 2, 100);
    let drop_at = |time_ns| {
        let packet = udp(Hop::SkbDrop, time_ns, CLIENT, 9, 2, 100);
        Event { detail: DetailKind::DropReason.of(EGRESS), ifindex: 2, ..packet }
    };
    let changes = vec![Change::of_rules(500, 600, 1)];
    let verdict = |drop_ns: u64| {
        let events = [&sent(drop_ns - 10)[..2], &[drop_at(drop_ns)]].concat();
        let mut correlator = Correlator::new(coverage(), Limits::default());
        let mut done = Vec::new();
        let batch = Batch { flows: flows(Proto::UDP), changes: changes.clone(), events, ..Batch::default() };
        correlator.push(&batch, &mut done);
        correlator.finish(&mut done);
        let node = node();
        let context: &dyn Context = &NodeContext { correlator: &correlator, node: &node };
        context.dropped_by(&done[0]).expect("a program")
    };
    assert_eq!(verdict(499), "tc program `limit`, id 7 on interface 2");
    let doubt = "perhaps tc program `limit`, id 7 on interface 2; rules have changed since the capture began";
    assert_eq!(verdict(500), doubt);
}
