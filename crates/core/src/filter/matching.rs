//! The match of a journey against a filter.

use super::ast::{Expr, FlowIs, Property, Quantity, Test};
use crate::condition::Op;
use crate::context::Context;
use crate::journey::Journey;
use crate::workload::Member;
use std::net::SocketAddr;

/// True if a condition holds.
pub fn holds(expr: &Expr, journey: &Journey, context: &dyn Context) -> bool {
    match expr {
        Expr::All(all) => all.iter().all(|expr| holds(expr, journey, context)),
        Expr::Any(any) => any.iter().any(|expr| holds(expr, journey, context)),
        Expr::Not(inner) => !holds(inner, journey, context),
        Expr::Test(Test::Number { what, op, value }) => number(*what, *op, *value, journey, context),
        Expr::Test(Test::Is { what, equal }) => is(what, *equal, journey, context),
    }
}

fn number(what: Quantity, op: Op, value: u64, journey: &Journey, context: &dyn Context) -> bool {
    let one = |actual: Option<u64>| actual.is_some_and(|actual| op.holds(actual, value));
    let has_ports = journey.proto.has_ports();
    let ports = || ends(journey, context).map(|(from, to)| (u64::from(from.port()), u64::from(to.port())));
    match what {
        // It has no port, and so no other one either.
        Quantity::Port | Quantity::Sport | Quantity::Dport if !has_ports => op == Op::Differs,
        Quantity::Total => one(journey.total_ns()),
        Quantity::Between(from, to) => one(journey.between_ns(from, to)),
        Quantity::Bytes => one(Some(journey.bytes())),
        Quantity::Retransmits => one(Some(u64::from(journey.retransmits()))),
        Quantity::Sport => one(ports().map(|(sport, _)| sport)),
        Quantity::Dport => one(ports().map(|(_, dport)| dport)),
        Quantity::Port => of_either(ports().into_iter().flat_map(|(a, b)| [a, b]), op, value),
        Quantity::Pid => {
            let who = [journey.sender, journey.reader].into_iter().flatten();
            of_either(who.map(|who| u64::from(who.tgid)).filter(|tgid| *tgid != 0), op, value)
        }
        Quantity::Cpu => of_either(journey.all_rungs().map(|rung| u64::from(rung.cpu)), op, value),
    }
}

/// Tests the known values: true if one matches, or for `!=`, if all differ.
pub(crate) fn of_either(values: impl Iterator<Item = u64>, op: Op, value: u64) -> bool {
    let equal = op != Op::Differs;
    either(values, equal, |actual| if equal { op.holds(actual, value) } else { actual == value })
}

/// Addresses of the sender and the receiver, from either half of the journey.
fn ends(journey: &Journey, context: &dyn Context) -> Option<(SocketAddr, SocketAddr)> {
    let sent = context.tx_flow(journey).map(|flow| (flow.local, flow.remote));
    sent.or_else(|| context.rx_flow(journey).map(|flow| (flow.remote, flow.local)))
}

fn is(what: &Property, equal: bool, journey: &Journey, context: &dyn Context) -> bool {
    match what {
        Property::Proto(proto) => (journey.proto == *proto) == equal,
        Property::Verdict(kind) => (journey.verdict.kind() == *kind) == equal,
        Property::Host(prefix) => {
            let hosts = ends(journey, context).map(|(from, to)| [from.ip(), to.ip()]);
            either(hosts.into_iter().flatten(), equal, |ip| prefix.contains(ip))
        }
        Property::Src(prefix) => {
            let from = ends(journey, context).map(|(from, _)| from.ip());
            either(from.into_iter(), equal, |ip| prefix.contains(ip))
        }
        Property::Dst(prefix) => {
            let to = ends(journey, context).map(|(_, to)| to.ip());
            either(to.into_iter(), equal, |ip| prefix.contains(ip))
        }
        Property::Comm(comm) => {
            let tasks = [context.sender(journey), context.reader(journey)].into_iter().flatten();
            either(tasks, equal, |task| task.comm == *comm)
        }
        Property::Netns(name) => {
            let tx = context.tx_flow(journey).map(|flow| (journey.tx_node, flow.netns));
            let rx = context.rx_flow(journey).map(|flow| (journey.rx_node, flow.netns));
            either([tx, rx].into_iter().flatten(), equal, |(node, netns)| {
                let found = context.info(node).and_then(|info| info.netns.iter().find(|n| n.netns == netns));
                found.is_some_and(|n| n.name == *name) || name.parse() == Ok(netns)
            })
        }
        Property::Node(name) => {
            let tx = context.tx_flow(journey).map(|flow| (journey.tx_node, flow.netns));
            let rx = context.rx_flow(journey).map(|flow| (journey.rx_node, flow.netns));
            either([tx, rx].into_iter().flatten(), equal, |(node, netns)| {
                let host = context.info(node).is_some_and(|info| info.host == *name);
                host || context.place(node, netns) == *name
            })
        }
        Property::Cgroup(wanted) => {
            let tx = context.sender(journey).map(|task| (journey.tx_node, task.cgroup));
            let rx = context.reader(journey).map(|task| (journey.rx_node, task.cgroup));
            either([tx, rx].into_iter().flatten(), equal, |(node, id)| {
                in_cgroup(wanted, id, context.info(node).and_then(|info| info.cgroup_path(id)))
            })
        }
        Property::Container(name) => of_members(journey, equal, context, |end| end.is_in_container(name)),
        Property::Pod(name) => of_members(journey, equal, context, |end| end.is_in_pod(name)),
        Property::Unit(name) => of_members(journey, equal, context, |end| end.is_in_unit(name)),
        Property::Ports(..) if !journey.proto.has_ports() => !equal,
        Property::Ports(which, first, last) => {
            let of_ends = |(from, to): (SocketAddr, SocketAddr)| match which {
                Quantity::Sport => [Some(from.port()), None],
                Quantity::Dport => [None, Some(to.port())],
                _ => [Some(from.port()), Some(to.port())],
            };
            let ports = ends(journey, context).into_iter().flat_map(of_ends).flatten();
            either(ports, equal, |port| (*first..=*last).contains(&port))
        }
        Property::Flow(FlowIs::Id(id)) => {
            let ids = [journey.tx_flow, journey.rx_flow].into_iter();
            either(ids.filter(|other| !other.is_none()), equal, |other| other == *id)
        }
        Property::Flow(FlowIs::Ends(one, other)) => {
            either(ends(journey, context).into_iter(), equal, |(from, to)| match other {
                Some(other) => one.is(from) && other.is(to) || one.is(to) && other.is(from),
                None => one.is(from) || one.is(to),
            })
        }
    }
}

fn of_members(journey: &Journey, equal: bool, context: &dyn Context, is: impl Fn(Member<'_>) -> bool) -> bool {
    either([context.sender_member(journey), context.reader_member(journey)].into_iter().flatten(), equal, is)
}

/// A number, a path with everything below it, or the name of a directory on the path.
fn in_cgroup(wanted: &str, id: u64, path: Option<&str>) -> bool {
    if wanted.parse() == Ok(id) {
        return true;
    }
    let Some(path) = path else { return false };
    if wanted.starts_with('/') {
        let above = wanted.trim_end_matches('/');
        return path.strip_prefix(above).is_some_and(|below| below.is_empty() || below.starts_with('/'));
    }
    path.split('/').any(|part| part == wanted && !part.is_empty())
}

/// Tests the known values: true if one matches; for the negation, if there is a value and none matches.
pub(crate) fn either<T>(values: impl Iterator<Item = T>, equal: bool, is: impl Fn(T) -> bool) -> bool {
    let (mut any, mut some) = (false, false);
    for value in values {
        some = true;
        any |= is(value);
    }
    if equal { any } else { some && !any }
}
