//! Ways that bytes of a TCP connection move.

use super::network::{Between, Network};
use super::scene::{Outcome, Scene, Seen, rows};

/// Sent plainly and read in this way.
const fn reads(method: &'static [&'static str]) -> Scene {
    Scene::of("streams.py", method, &["sends", "plainly"])
}

/// Sent in this way and read plainly.
const fn sends(method: &'static [&'static str]) -> Scene {
    Scene::of("streams.py", &["reads", "simply"], method)
}

const fn with_loss(v6: bool) -> Scene {
    let prepare = |network: &Network| {
        // Both directions lose packets: of payload at the server, of acknowledgements at the client.
        let rules =
            [(1, "meta length > 500 numgen inc mod 9 == 4"), (0, "meta length < 100 numgen inc mod 7 == 5")];
        let lossy = rules.iter().all(|(host, rule)| network.drop_arrivals(*host, rule));
        lossy.then_some(()).ok_or("nft with numgen is not there")
    };
    let also = |outcome: &Outcome| {
        let resent = outcome.journeys.iter().any(|journey| journey["retransmits"].as_u64() > Some(0));
        assert!(resent, "nothing was sent again");
        Ok(())
    };
    Scene { v6, prepare, also, ..Scene::of("streams.py", &["reads", "large"], &["sends", "much"]) }
}

const SYN_IS_LOST: fn(&Network) -> Result<(), &'static str> =
    |network| network.drop_arrivals(0, "tcp flags == syn").then_some(()).ok_or("nft is not there");

const FAST_OPEN: fn(&Network) -> Result<(), &'static str> = |network| {
    network.set("ipv4/tcp_fastopen", "3");
    Ok(())
};

rows! {
    plain_sends_over_ipv6:
        "TCP over IPv6: `send`, `recv`", Seen::Complete,
        Scene { v6: true, ..sends(&["sends", "plainly"]) };
    plain_sends_over_ipv4:
        "TCP over IPv4: `send`, `recv`", Seen::Complete, sends(&["sends", "plainly"]);
    extension_headers_precede_segments:
        "TCP over IPv6 with extension headers (hop-by-hop and destination options)", Seen::Complete,
        Scene { v6: true, ..sends(&["sends", "with_extensions"]) };
    lost_packets_over_ipv4_are_sent_again:
        "TCP over IPv4 with loss of data and acknowledgements", Seen::Complete, with_loss(false);
    lost_packets_over_ipv6_are_sent_again:
        "TCP over IPv6 with loss of data and acknowledgements", Seen::Complete, with_loss(true);
    more_of_the_same_packet_follows:
        "TCP: `send` with `MSG_MORE`", Seen::Complete, sends(&["sends", "with_more"]);
    a_cork_joins_sends:
        "TCP: `TCP_CORK`", Seen::Complete, sends(&["sends", "with_cork"]);
    a_file_is_sent:
        "TCP: `sendfile`", Seen::Complete, sends(&["sends", "with_sendfile"]);
    a_pipe_is_spliced_into_a_socket:
        "TCP: `splice` into a socket", Seen::Complete, sends(&["sends", "with_splice"]);
    several_buffers_are_one_send:
        "TCP: `writev`", Seen::Complete, sends(&["sends", "with_writev"]);
    several_buffers_are_one_read:
        "TCP: `readv`", Seen::Complete, reads(&["reads", "with_readv"]);
    pages_are_sent_without_a_copy:
        "TCP: `MSG_ZEROCOPY`, with its notifications on the error queue", Seen::Complete,
        sends(&["sends", "without_copies"]);
    a_sender_does_not_block:
        "TCP: a sender that does not block (`EPOLLOUT`)", Seen::Complete,
        sends(&["sends", "without_blocking"]);
    a_reader_does_not_block:
        "TCP: a reader that does not block (`EPOLLIN`, edge-triggered)", Seen::Complete,
        reads(&["reads", "with_epoll"]);
    a_look_is_no_read:
        "TCP: `recv` with `MSG_PEEK`", Seen::Complete, reads(&["reads", "with_peek"]);
    bytes_are_discarded_at_the_read:
        "TCP: `recv` with `MSG_TRUNC`", Seen::Complete, reads(&["reads", "with_trunc"]);
    a_read_waits_for_all_its_bytes:
        "TCP: `recv` with `MSG_WAITALL`", Seen::Complete, reads(&["reads", "with_waitall"]);
    a_slow_reader_closes_the_window:
        "TCP: a window of zero", Seen::Complete,
        Scene::of("streams.py", &["reads", "after_no_window"], &["sends", "until_no_window"]);
    a_failed_send_is_made_again:
        "TCP: a `send` that failed for lack of room (`EAGAIN`), and the next one of as many bytes", Seen::Complete,
        Scene::of("streams.py", &["reads", "after_failures"], &["sends", "after_failed_calls"]);
    connections_follow_each_other_on_the_same_ports:
        "TCP: connections one after the other with equal addresses and ports", Seen::Complete,
        Scene::of("streams.py", &["reads_one_after_the_other"], &["sends_one_after_the_other"]);
    a_syn_has_bytes:
        "TCP Fast Open", Seen::Complete,
        Scene {
            prepare: FAST_OPEN,
            ..Scene::of("streams.py", &["reads_fast_opened"], &["opens_fast", "at_connect"])
        };
    the_first_send_sends_the_syn:
        "TCP Fast Open after `connect` (`TCP_FASTOPEN_CONNECT`)", Seen::Complete,
        Scene {
            prepare: FAST_OPEN,
            ..Scene::of("streams.py", &["reads_fast_opened"], &["opens_fast", "at_send"])
        };
    both_sides_connect:
        "TCP: simultaneous open", Seen::Complete,
        Scene {
            prepare: SYN_IS_LOST,
            ..Scene::of("streams.py", &["meets", "first"], &["meets", "second"])
        };
    a_socket_of_ipv6_has_an_ipv4_peer:
        "TCP over IPv4 with sockets of IPv6 (mapped addresses)", Seen::Complete,
        Scene::of("streams.py", &["reads_mapped"], &["sends_mapped"]);
    one_host_is_both_ends:
        "TCP over loopback", Seen::Complete,
        Scene { between: Between::Loopback, ..sends(&["sends", "plainly"]) };
    another_process_reads_on:
        "TCP: a socket passed to another process (`SCM_RIGHTS`)", Seen::Complete,
        Scene::of("streams.py", &["gives_away"], &["sends", "plainly"]);
    two_processes_listen_on_one_port:
        "TCP: `SO_REUSEPORT`", Seen::Complete,
        Scene::of("streams.py", &["reads_by_two"], &["sends_from_several"]);
}
