//! Counters of a host: `/proc/net/snmp` and `/proc/net/netstat`.

use super::Host;

/// Current value of one counter on `host`, by protocol and name (`Udp`, `RcvbufErrors`).
pub fn counter(host: &Host, protocol: &str, name: &str) -> u64 {
    let file = if protocol.ends_with("Ext") { "netstat" } else { "snmp" };
    let text = host.run(|| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")));
    let text = text.expect("/proc is mounted");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let at = names.split(' ').position(|n| n == name).expect("a counter of that name");
    values.split(' ').nth(at).and_then(|v| v.parse().ok()).expect("a number")
}
