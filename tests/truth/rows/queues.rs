//! Queues of datagrams that a capture does not see from their beginning, or whose readers overtake each other.

use super::super::checker::{Counts, count};
use super::scene::{CoverageRow, Scene, Seen, run};

const SEVERAL: Seen = Seen::Marked("two threads may return in another order than that of their reads");

pub const ROWS: &[CoverageRow] = &[
    CoverageRow {
        test: "datagrams_that_waited_before_the_capture",
        words: "UDP: datagrams that waited in the queue when the capture began",
        seen: Seen::Ends("later ones complete; the read of the first may be *ambiguous*"),
    },
    CoverageRow {
        test: "two_threads_read_one_socket",
        words: "UDP: two threads read one socket",
        seen: SEVERAL,
    },
];

/// The counted datagrams of a scene; `None` if it was skipped.
fn counted(test: &str, scene: &Scene, datagrams: usize) -> Option<Counts> {
    let outcome = run(test, scene)?;
    let found = count(&outcome.talks, &outcome.journeys).unwrap_or_else(|error| panic!("{error}"));
    println!("{test}: {found:?}");
    assert_eq!(found.right + found.wrong + found.marked, datagrams, "{found:?}");
    assert_eq!(found.wrong, 0, "{found:?}");
    Some(found)
}

/// Datagrams of equal length: each later read would be that of another datagram if the older ones were unknown.
#[test]
fn datagrams_that_waited_before_the_capture() {
    for waiting in [&["sends_before_and_after", "5"], &["sends_before_and_after", "100"]] {
        let scene = Scene { before_capture: true, ..Scene::of("queues.py", &["reads_late"], waiting) };
        let Some(found) = counted("datagrams before the capture", &scene, 200) else { return };
        assert!(found.marked <= 1, "{found:?}");
    }
}

/// Every read is by the right thread, or marked.
#[test]
fn two_threads_read_one_socket() {
    let scene = Scene::of("queues.py", &["reads_by_two_threads"], &["sends_in_bursts"]);
    counted("two readers", &scene, 2_000);
}
