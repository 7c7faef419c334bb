//! Senders on two CPUs, whose datagrams enter one queue.

use super::super::checker::{Counts, count};
use super::scene::{CoverageRow, Scene, Seen, run};

const SEEN: Seen =
    Seen::Marked("packets of two CPUs may enter the queue in another order than they pass the hop");

pub const ROWS: &[CoverageRow] =
    &[CoverageRow { test: "pinned_senders", words: "UDP: senders on two CPUs, one socket", seen: SEEN }];

/// Two packets pass `udp.recv` in one order and may enter the queue in the other. No read may be wrong without a
/// mark, and at most one in a hundred may be marked.
#[test]
fn pinned_senders() {
    let test = "senders on two CPUs";
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return crate::common::skipped(test, "it needs two CPUs");
    }
    let Some(outcome) = run(test, &Scene::of("pinned.py", &["reads"], &["sends"])) else { return };
    let found = count(&outcome.talks, &outcome.journeys).unwrap_or_else(|error| panic!("{error}"));
    let Counts { right, wrong, marked } = found;
    println!("{right} reads are right, {wrong} wrong without a mark, {marked} marked");
    assert_eq!(right + wrong + marked, 10_000, "{found:?}");
    assert!(wrong == 0 && marked <= 100, "{found:?}");
}
