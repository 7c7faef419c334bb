//! Bytes of a TCP connection that end without a plain read.

use super::super::checker::count_stream;
use super::scene::{CoverageRow, Scene, Seen, rows, run};

const DISCARDED: &str = "complete; *discarded*, where its socket was closed";

pub const TWO_READERS: &[CoverageRow] = &[CoverageRow {
    test: "two_processes_read_one_socket",
    words: "TCP: two processes read one socket",
    seen: Seen::Marked("the range of a read is taken at its return, and another read may have returned before"),
}];

/// Every read is by the right thread, or marked, or unseen.
#[test]
fn two_processes_read_one_socket() {
    let scene = Scene::of("ends.py", &["reads", "by_two_processes"], &["sends", "with_positions"]);
    let Some(outcome) = run("two readers of a stream", &scene) else { return };
    let counts = outcome.talks.iter().map(|talk| count_stream(talk, &outcome.journeys));
    for found in counts {
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        println!("{found:?}");
        assert_eq!(found.wrong, 0, "{found:?}");
        assert!(found.right > 0, "{found:?}");
    }
}

rows! {
    a_socket_is_closed_with_unread_bytes:
        "TCP: a socket that is closed with unread bytes", Seen::Noted(DISCARDED),
        Scene::of("ends.py", &["reads", "not_to_the_end"], &["sends", "until_it_is_closed"]);
    a_socket_is_closed_with_unsent_bytes:
        "TCP: a socket that is closed with unsent bytes, after the peer's reset", Seen::Noted(DISCARDED),
        Scene::of("ends.py", &["reads", "and_resets"], &["sends", "until_a_reset"]);
    a_socket_is_spliced_into_a_pipe:
        "TCP: `splice` out of a socket", Seen::Noted("*read, unseen*, because such a read passes no hop"),
        Scene::of("ends.py", &["reads", "with_splice"], &["sends"]);
    urgent_bytes_are_taken_or_passed_over:
        "TCP: urgent bytes (`MSG_OOB`)",
        Seen::Noted("complete; *discarded*, where reads passed over the urgent byte"),
        Scene::of("ends.py", &["reads", "and_urgent_bytes"], &["sends", "with_urgent_bytes"]);
}
