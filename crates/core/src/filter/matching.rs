//! Whether a journey is meant.

use super::ast::{Expr, Op, Property, Quantity, Test};
use crate::context::Context;
use crate::journey::Journey;
use std::net::SocketAddr;

/// Whether a condition holds.
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
    let one = |known: Option<u64>| known.is_some_and(|known| op.holds(known, value));
    let ports = || ends(journey, context).map(|(from, to)| (u64::from(from.port()), u64::from(to.port())));
    match what {
        Quantity::Total => one(journey.total_ns()),
        Quantity::Between(from, to) => one(journey.between_ns(from, to)),
        Quantity::Bytes => one(Some(journey.bytes())),
        Quantity::Retransmits => one(Some(u64::from(journey.retransmits()))),
        Quantity::Sport => one(ports().map(|(sport, _)| sport)),
        Quantity::Dport => one(ports().map(|(_, dport)| dport)),
        Quantity::Port => ports().is_some_and(|(sport, dport)| {
            let (a, b) = (op.holds(sport, value), op.holds(dport, value));
            if op == Op::Differs { a && b } else { a || b }
        }),
    }
}

/// Addresses of the sender and the receiver, whichever half of the journey was seen.
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
        Property::Comm(comm) => {
            let tasks = [context.sender(journey), context.reader(journey)].into_iter().flatten();
            either(tasks, equal, |task| task.comm == *comm)
        }
        Property::Netns(name) => {
            let tx = context.tx_flow(journey).map(|flow| (journey.tx_node, flow.netns));
            let rx = context.rx_flow(journey).map(|flow| (journey.rx_node, flow.netns));
            either([tx, rx].into_iter().flatten(), equal, |(node, netns)| {
                let known = context.info(node).and_then(|info| info.netns.iter().find(|n| n.netns == netns));
                known.is_some_and(|n| n.name == *name) || name.parse() == Ok(netns)
            })
        }
    }
}

/// Of what is known: whether one is so, or, asked for the contrary, whether there is something and none is so.
fn either<T>(known: impl Iterator<Item = T>, equal: bool, is: impl Fn(T) -> bool) -> bool {
    let (mut any, mut some) = (false, false);
    for value in known {
        some = true;
        any |= is(value);
    }
    if equal { any } else { some && !any }
}
