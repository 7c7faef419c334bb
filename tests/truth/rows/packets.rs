//! Ways that datagrams move.

use super::network::{Between, Network};
use super::scene::{Scene, Seen, rows};

const fn udp(server: &'static [&'static str], client: &'static [&'static str]) -> Scene {
    Scene::of("packets.py", server, client)
}

/// The last datagram, the sixty-first, is none of them.
const SEVENTH_IS_LOST: fn(&Network) -> Result<(), &'static str> = |network| {
    let lossy = network.drop_arrivals(1, "udp dport 7100 numgen inc mod 7 == 3");
    lossy.then_some(()).ok_or("nft with numgen is not there")
};

rows! {
    datagrams_over_ipv4:
        "UDP over IPv4: `send`, `recvfrom`", Seen::Complete,
        udp(&["reads", "by_recvfrom"], &["sends", "one_by_one"]);
    datagrams_over_ipv6:
        "UDP over IPv6: `send`, `recvfrom`", Seen::Complete,
        Scene { v6: true, ..udp(&["reads", "by_recvfrom"], &["sends", "one_by_one"]) };
    extension_headers_precede_datagrams:
        "UDP over IPv6 with extension headers (hop-by-hop and destination options)", Seen::Complete,
        Scene { v6: true, ..udp(&["reads", "by_recvfrom"], &["sends", "with_extensions"]) };
    lost_datagrams_are_dropped:
        "UDP over IPv4 with loss", Seen::Dropped("a rule of netfilter dropped it"),
        Scene { prepare: SEVENTH_IS_LOST, loses: true, ..udp(&["reads", "by_recvfrom"], &["sends", "one_by_one"]) };
    fragments_over_ipv4:
        "UDP over IPv4 in fragments", Seen::Complete,
        udp(&["reads", "by_recvfrom"], &["sends", "of_several_lengths"]);
    fragments_over_ipv6:
        "UDP over IPv6 in fragments", Seen::Complete,
        Scene { v6: true, ..udp(&["reads", "by_recvfrom"], &["sends", "of_several_lengths"]) };
    extension_headers_precede_fragments:
        "UDP over IPv6 in fragments, with extension headers",
        Seen::Marked("only their order connects the fragments with the datagram that was cut"),
        Scene { v6: true, ..udp(&["reads", "by_recvfrom"], &["sends", "of_several_lengths_with_extensions"]) };
    segments_are_read_one_by_one:
        "UDP over IPv4: `UDP_SEGMENT`, read without `UDP_GRO`", Seen::Complete,
        udp(&["reads", "by_recvfrom"], &["sends", "by_segments"]);
    segments_are_read_together:
        "UDP over IPv4: `UDP_SEGMENT`, read with `UDP_GRO`", Seen::Complete,
        udp(&["reads", "with_gro"], &["sends", "by_segments"]);
    segments_behind_a_small_buffer_are_discarded:
        "UDP: `UDP_GRO` with a buffer for some of the datagrams",
        Seen::Noted("complete; *discarded*, where the buffer had no room for a datagram"),
        udp(&["reads", "with_gro_and_a_small_buffer"], &["sends", "by_segments"]);
    segments_over_ipv6_are_read_one_by_one:
        "UDP over IPv6: `UDP_SEGMENT`, read without `UDP_GRO`", Seen::Complete,
        Scene { v6: true, ..udp(&["reads", "by_recvfrom"], &["sends", "by_segments"]) };
    segments_over_ipv6_are_read_together:
        "UDP over IPv6: `UDP_SEGMENT`, read with `UDP_GRO`", Seen::Complete,
        Scene { v6: true, ..udp(&["reads", "with_gro"], &["sends", "by_segments"]) };
    several_datagrams_are_one_call:
        "UDP: `sendmmsg`, `recvmmsg`", Seen::Complete,
        udp(&["reads", "by_recvmmsg"], &["sends", "by_sendmmsg"]);
    a_look_at_a_datagram_is_no_read:
        "UDP: `MSG_PEEK`, then `MSG_TRUNC` with a small buffer", Seen::Complete,
        udp(&["reads", "with_peek_and_trunc"], &["sends", "one_by_one"]);
    a_reader_of_datagrams_does_not_block:
        "UDP: a reader that does not block (`EPOLLIN`)", Seen::Complete,
        udp(&["reads", "with_epoll"], &["sends", "by_sendmmsg"]);
    two_calls_are_one_datagram:
        "UDP: `send` with `MSG_MORE`", Seen::Complete,
        udp(&["reads", "by_recvfrom"], &["sends", "with_more"]);
    a_socket_of_ipv6_reads_ipv4:
        "UDP over IPv4 with sockets of IPv6 (mapped addresses)", Seen::Complete,
        udp(&["reads_mapped"], &["sends_mapped"]);
    one_host_sends_to_itself:
        "UDP over loopback", Seen::Complete,
        Scene { between: Between::Loopback, ..udp(&["reads", "by_recvfrom"], &["sends", "one_by_one"]) };
    two_processes_share_a_port:
        "UDP: `SO_REUSEPORT`", Seen::Complete, udp(&["reads_by_two"], &["sends_from_several"]);
    another_process_reads_further_datagrams:
        "UDP: a socket passed to another process (`SCM_RIGHTS`)",
        Seen::Marked("the socket has a second reader, and datagrams of equal length wait in its queue"),
        udp(&["gives_away"], &["sends", "one_by_one"]);
}
