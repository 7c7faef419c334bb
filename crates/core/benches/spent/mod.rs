//! CPU time, which is independent of other load on the machine, in contrast to wall time.

/// CPU time of this thread so far, nanoseconds (`/proc/thread-self/schedstat`).
pub fn ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
    first.expect("this kernel does not say how long a thread ran: CONFIG_SCHED_INFO")
}
