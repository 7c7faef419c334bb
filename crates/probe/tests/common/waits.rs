//! Waits for a state of a thread or a socket, never for a time.

use super::Host;
use super::counters::counter;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Repeats `holds` until it is true; fails after a minute.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// True if a thread of this process sleeps in a call that a packet or a signal ends.
fn is_asleep(tid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    // the name in parentheses may contain spaces
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// Waits until a thread of this process sleeps. What arrives then must wake it.
pub fn until_asleep(tid: u32) {
    until("the reader sleeps", || is_asleep(tid));
}

/// Waits until a datagram is in the queue of the socket, without a call that reads.
pub fn until_arrived(socket: &UdpSocket) {
    until("a datagram arrives", || rustix::io::ioctl_fionread(socket).expect("a socket") > 0);
}

/// Waits until IPv4 has delivered `count` packets to the protocols of the host since it began.
pub fn until_delivered(host: &Host, count: u64) {
    until("IPv4 delivers", || counter(host, "Ip", "InDelivers") >= count);
}
