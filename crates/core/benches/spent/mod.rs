//! Time on the CPU, which other work on the machine does not stretch as it does the time of day.

/// Nanoseconds that this thread has been on a CPU so far (`/proc/thread-self/schedstat`).
pub fn ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
    first.expect("this kernel does not say how long a thread ran: CONFIG_SCHED_INFO")
}
