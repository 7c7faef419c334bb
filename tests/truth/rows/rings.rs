//! Ways of `io_uring`.

use super::network::Network;
use super::scene::{Scene, Seen, rows};

/// A kernel without `io_uring`, or one that does not permit it, skips the row.
const HAS_RINGS: fn(&Network) -> Result<(), &'static str> = |_| {
    let value = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let enabled = value.is_ok_and(|value| value.trim() != "2");
    enabled.then_some(()).ok_or("this kernel has no io_uring, or it is disabled")
};

const fn ring(server: &'static [&'static str], client: &'static [&'static str]) -> Scene {
    Scene { prepare: HAS_RINGS, ..Scene::of("rings.py", server, client) }
}

rows! {
    a_ring_sends_and_reads:
        "io_uring over TCP: send, receive", Seen::Complete,
        ring(&["reads", "with_recv"], &["sends", "with_send"]);
    one_operation_reads_many_times:
        "io_uring over TCP: multishot receive", Seen::Complete,
        ring(&["reads", "with_multishot"], &["sends", "with_send"]);
    a_ring_sends_without_a_copy:
        "io_uring over TCP: zero-copy send", Seen::Complete,
        ring(&["reads", "with_recv"], &["sends", "without_copies"]);
    a_worker_of_the_ring_sends_and_reads:
        "io_uring over TCP: asynchronous workers (`IOSQE_ASYNC`); a call's thread is the worker's", Seen::Complete,
        ring(&["reads", "reads_by_worker"], &["sends", "sends_by_worker"]);
    a_thread_of_the_kernel_submits:
        "io_uring over TCP: `SQPOLL`; a call's thread is the one that polls", Seen::Complete,
        ring(&["reads", "reads_by_poller"], &["sends", "sends_by_poller"]);
    a_ring_sends_and_reads_datagrams:
        "io_uring over UDP: several sends in one call, multishot receive", Seen::Complete,
        ring(&["reads_datagrams"], &["sends_datagrams"]);
}
