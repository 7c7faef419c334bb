//! Bytes of a TCP connection that end without a plain read.

use super::scene::{Scene, Seen, rows};

const DISCARDED: &str = "complete; *discarded*, where its socket was closed";

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
