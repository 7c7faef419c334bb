//! One journey from two halves.

use super::half::Half;
use super::key::End;
use super::timeline::Timeline;
use crate::journey::{Across, Journey, Verdict};

/// Puts a journey of one recording on the common time line.
pub(super) fn place(journey: &mut Journey, node: u16, timeline: &dyn Timeline) {
    (journey.tx_node, journey.rx_node) = (node, node);
    if let Some(shift_ns) = journey.start_ns().and_then(|ns| timeline.shift_ns(node, ns)) {
        journey.shift(shift_ns);
    }
}

/// Joins two halves of the same bytes.
pub(super) fn merge(tx: &Half, rx: &Half, timeline: &dyn Timeline) -> Journey {
    let (sent_ns, received_ns) = (Half::wire_ns(&tx.journey, End::Tx), Half::wire_ns(&rx.journey, End::Rx));
    let shift = |node, at: Option<u64>| at.and_then(|at| timeline.shift_ns(node, at));
    let (tx_shift, rx_shift) = (shift(tx.node, sent_ns), shift(rx.node, received_ns));
    let width = sent_ns.and_then(|at| timeline.half_width_ns(tx.node, rx.node, at));
    let across = match width {
        _ if tx.node == rx.node => Across::OneClock,
        Some(0) => Across::OneClock,
        Some(half_width_ns) if tx_shift.is_some() && rx_shift.is_some() => Across::Bounded { half_width_ns },
        _ => Across::Apart,
    };
    let mut journey = tx.journey.clone();
    journey.shift(tx_shift.unwrap_or(0));
    let mut theirs = rx.journey.clone();
    theirs.shift(rx_shift.unwrap_or(0));
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
