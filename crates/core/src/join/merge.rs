//! One journey from two halves.

use super::half::Half;
use super::key::End;
use super::timeline::Timeline;
use crate::journey::{Across, Journey, Verdict};

/// Puts a journey of one recording on the common time line.
pub(super) fn place(journey: &mut Journey, node: u16, timeline: &dyn Timeline) {
    (journey.tx_node, journey.rx_node) = (node, node);
    if let Some(shift_ns) = journey.start_ns().map(|ns| timeline.placed_ns(node, ns)) {
        journey.shift(shift_ns);
    }
}

/// Joins two halves of the same bytes.
pub(super) fn merge(tx: &Half, rx: &Half, timeline: &dyn Timeline) -> Journey {
    let (sent_ns, received_ns) = (Half::wire_ns(&tx.journey, End::Tx), Half::wire_ns(&rx.journey, End::Rx));
    let shift = |node, at: Option<u64>| at.and_then(|at| timeline.shift_ns(node, at));
    let (tx_shift, rx_shift) = (shift(tx.node, sent_ns), shift(rx.node, received_ns));
    // Each half was placed by what is known at its own instant. Near a step that is not the same, and the truth may be at either.
    let used_ns = tx_shift.unwrap_or(0).saturating_sub(rx_shift.unwrap_or(0));
    let width = sent_ns.zip(received_ns).and_then(|(sent, received)| {
        let (there_ns, there_width_ns) = timeline.difference_ns(tx.node, rx.node, sent)?;
        let (back_ns, back_width_ns) = timeline.difference_ns(rx.node, tx.node, received)?;
        let there = there_width_ns.saturating_add(there_ns.abs_diff(used_ns));
        Some(there.max(back_width_ns.saturating_add(back_ns.saturating_neg().abs_diff(used_ns))))
    });
    let across = match width {
        _ if tx.node == rx.node => Across::OneClock,
        Some(0) => Across::OneClock,
        Some(half_width_ns) if tx_shift.is_some() && rx_shift.is_some() => Across::Bounded { half_width_ns },
        _ => Across::Apart,
    };
    let mut journey = tx.journey.clone();
    let placed = |node, at: Option<u64>| at.map_or(0, |at| timeline.placed_ns(node, at));
    journey.shift(placed(tx.node, sent_ns));
    let mut theirs = rx.journey.clone();
    theirs.shift(placed(rx.node, received_ns));
    journey.take_receiver(&theirs);
    (journey.tx_node, journey.rx_node, journey.across) = (tx.node, rx.node, across);
    journey.verdict = verdict(&tx.journey, &rx.journey);
    journey
}

/// The end that the receiver's half came to is the end of the whole; the sender's counts where its events are in doubt.
fn verdict(tx: &Journey, rx: &Journey) -> Verdict {
    match (tx.verdict, rx.verdict) {
        (broken @ Verdict::BrokenByEventLoss { .. }, _) => broken,
        (_, Verdict::HalfComplete) => Verdict::Complete,
        (_, end) => end,
    }
}
