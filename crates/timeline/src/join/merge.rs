//! One journey from two halves.

use super::half::Half;
use super::key::End;
use super::timeline::Timeline;
use crate::pair::{Estimate, difference_over};
use magscope_core::journey::{Across, Journey, Verdict};

/// Moves a journey of one recording to the common time line.
pub(super) fn place(journey: &mut Journey, node: u16, timeline: &dyn Timeline) {
    (journey.tx_node, journey.rx_node) = (node, node);
    if let Some(shift_ns) = journey.start_ns().map(|ns| timeline.placed_ns(node, ns)) {
        journey.shift(shift_ns);
    }
}

/// The receiver's clock minus the sender's, over the passage of a packet.
fn difference(tx: &Half, rx: &Half, timeline: &dyn Timeline) -> Option<Estimate> {
    let (sent_ns, received_ns) = (Half::wire_ns(&tx.journey, End::Tx)?, Half::wire_ns(&rx.journey, End::Rx)?);
    let there = timeline.difference_ns(tx.node, rx.node, sent_ns)?;
    let back = timeline.difference_ns(rx.node, tx.node, received_ns)?;
    Some(difference_over(there, back))
}

/// The interval that holds the time from one half to the other, nanoseconds; `None` without aligned clocks.
pub(super) fn delay_ns(tx: &Half, rx: &Half, timeline: &dyn Timeline) -> Option<(i64, i64)> {
    let difference = difference(tx, rx, timeline)?;
    let apart_ns = (rx.wire_ns.wrapping_sub(tx.wire_ns) as i64).saturating_sub(difference.ns);
    let wider = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let (least, most) = (wider(difference.above_ns), wider(difference.below_ns));
    Some((apart_ns.saturating_sub(least), apart_ns.saturating_add(most)))
}

/// Joins two halves of the same bytes.
pub(super) fn merge(tx: &Half, rx: &Half, timeline: &dyn Timeline) -> Journey {
    let (sent_ns, received_ns) = (Half::wire_ns(&tx.journey, End::Tx), Half::wire_ns(&rx.journey, End::Rx));
    let difference = difference(tx, rx, timeline);
    let across = match difference {
        _ if tx.node == rx.node => Across::OneClock,
        Some(difference) if difference.half_width_ns() == 0 => Across::OneClock,
        // The greater the difference of the clocks, the shorter the time from one to the other.
        Some(difference) => Across::Bounded { below_ns: difference.above_ns, above_ns: difference.below_ns },
        None => Across::Apart,
    };
    let mut journey = tx.journey.clone();
    let placed = |node, at: Option<u64>| at.map_or(0, |at| timeline.placed_ns(node, at));
    let shift_ns = placed(tx.node, sent_ns);
    journey.shift(shift_ns);
    let mut theirs = rx.journey.clone();
    // The receiver's shift depends on these two clocks alone: other pairs may have wider bounds.
    let theirs_ns = difference.map(|difference| shift_ns.saturating_sub(difference.ns));
    theirs.shift(theirs_ns.unwrap_or_else(|| placed(rx.node, received_ns)));
    (journey.tx_node, journey.rx_node, journey.across) = (tx.node, rx.node, across);
    journey.take_receiver(&theirs);
    journey.verdict = verdict(&tx.journey, &rx.journey);
    (journey.drop_flow, journey.drop_ifindex) = (rx.journey.drop_flow, rx.journey.drop_ifindex);
    journey.drop_rules_changed = rx.journey.drop_rules_changed;
    journey.drop_filter = rx.journey.drop_filter;
    journey
}

/// The receiver's half determines the end of the journey; with its events in doubt, the sender's does.
fn verdict(tx: &Journey, rx: &Journey) -> Verdict {
    match (tx.verdict, rx.verdict) {
        (broken @ Verdict::BrokenByEventLoss { .. }, _) => broken,
        (_, Verdict::HalfComplete) if tx.precedes_capture => Verdict::HalfComplete,
        (_, Verdict::HalfComplete) => Verdict::Complete,
        (_, end) => end,
    }
}
