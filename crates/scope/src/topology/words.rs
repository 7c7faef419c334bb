//! The words of legs: places, times, failures.

use super::Counted;
use super::path::{PathLeg, PathPlace};
use crate::format::{count, duration};
use crate::names::{Names, NetnsKey};
use crate::pyramid::Tile;
use magscope_core::context::Context;
use std::cmp::Reverse;

/// Reasons in the details.
const SHOWN_REASONS: usize = 3;

/// `p50 41.2 µs, p99 63.0 µs, max 80.1 µs`; `None` without times.
pub(super) fn times_words(times: &Tile) -> Option<String> {
    let p = times.percentiles();
    let shown = [p.p50_ns, p.p99_ns, p.max_ns].map(duration);
    let [p50, p99, max] = shown.each_ref().map(|time| time.trim());
    (p.n > 0).then(|| format!("p50 {p50}, p99 {p99}, max {max}"))
}

/// The times of a leg, or why there are none.
pub(super) fn leg_words(counted: &Counted, is_sender: bool) -> Option<String> {
    let times = times_words(&counted.times).zip(counted.hops);
    if let Some((times, (from, to))) = times {
        let bound = match counted.half_width_ns {
            0 => String::new(),
            ns => format!(", ±{}", duration(ns).trim()),
        };
        return Some(format!("from {from} to {to}: {times}{bound}"));
    }
    let nothing = if counted.apart > 0 {
        "no time of this leg: the clocks of its ends have no common bound"
    } else {
        "no time of this leg: one of its ends was not seen"
    };
    (!is_sender).then(|| nothing.to_owned())
}

/// Failures and dropped packets with their reasons.
pub(super) fn failure_words(counted: &Counted) -> Vec<String> {
    if counted.failed + counted.dropped == 0 {
        return Vec::new();
    }
    let mut reasons: Vec<_> = counted.reasons.iter().collect();
    reasons.sort_by_key(|(_, n)| Reverse(*n));
    let (shown, others) = reasons.split_at(reasons.len().min(SHOWN_REASONS));
    let others = others.iter().map(|(_, n)| n).sum::<u64>() + counted.other_reasons;
    let counts = [(counted.failed, "journeys failed"), (counted.dropped, "packets were dropped")];
    let counts = counts.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{} {words}", count(*n)));
    let mut lines = vec![counts.collect::<Vec<_>>().join(", ")];
    lines.extend(shown.iter().map(|(words, n)| format!("{}× {words}", count(*n))));
    if others > 0 {
        lines.push(format!("{}× for other reasons", count(others)));
    }
    lines
}

/// `client → router → server`.
pub(super) fn path_words(legs: &[PathLeg], names: &Names) -> String {
    let places: Vec<String> = legs.iter().map(|leg| place_name(leg.to, names)).collect();
    places.join(" → ")
}

/// The name of a place.
pub(super) fn place_name(place: PathPlace, names: &Names) -> String {
    match place {
        PathPlace::Node(key) => names.netns_name(Some(key)),
        PathPlace::Outside => names.netns_name(None),
        PathPlace::Unseen => "✕ not seen again".to_owned(),
    }
}

/// The name of a place, what it is, and the interface by which packets came to it: `web (container, in eth0)`.
pub(super) fn place_words(leg: PathLeg, names: &Names) -> String {
    let name = place_name(leg.to, names);
    let PathPlace::Node(key) = leg.to else { return name };
    let came_by = device(leg.to, leg.came_by, names).map(|name| format!("in {name}"));
    let notes: Vec<String> = kind(key, &name, names).into_iter().chain(came_by).collect();
    if notes.is_empty() { name } else { format!("{name} ({})", notes.join(", ")) }
}

/// Whose a node is: `pod shop/db-0`, and `container` for one of that name.
fn kind(key: NetnsKey, name: &str, names: &Names) -> Option<String> {
    let member = names.info(key.node)?.member(None, Some(key.netns))?;
    let (kind, own) = match (member.pod(), member.container_name()) {
        (Some(pod), _) => ("pod", pod),
        (None, Some(container)) => ("container", container.to_owned()),
        (None, None) => return None,
    };
    Some(if name.ends_with(&own) { kind.to_owned() } else { format!("{kind} {own}") })
}

/// The name of an interface of a place; `None` without one.
pub(super) fn device(place: PathPlace, index: u32, names: &Names) -> Option<String> {
    let PathPlace::Node(NetnsKey { node, netns }) = place else { return None };
    let name = names.info(node)?.interface(netns, index);
    (index != 0).then(|| name.map_or_else(|| format!("interface {index}"), str::to_owned))
}
