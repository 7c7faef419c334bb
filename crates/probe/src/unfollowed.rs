//! Sockets whose traffic is not followed: those of other kinds than TCP, UDP and ICMP.

use crate::netlink::Netlink;
use crate::netns::NetnsTarget;
use magscope_core::foreign::clean;
use magscope_core::node::UnfollowedSockets;
use rustix::net::AddressFamily;
use rustix::net::netlink::SOCK_DIAG;
use std::collections::BTreeMap;
use std::fs;

/// Rows in a recording, at most.
const MOST_ROWS: usize = 1_024;

/// Protocols whose sockets are followed. A connection of MPTCP is followed as its connections of TCP.
const FOLLOWED: [&str; 5] = ["tcp", "udp", "udp-lite", "ping", "mptcp"];
/// Protocols of sockets without traffic of packets or bytes between programs.
const NO_TRAFFIC: [&str; 4] = ["netlink", "alg", "key", "af_key"];

/// The sockets that are not followed, by namespace and kind.
pub fn read(targets: &[NetnsTarget]) -> Vec<UnfollowedSockets> {
    let of_target = |target: &NetnsTarget| {
        let found = target.within(|| (fs::read_to_string("/proc/thread-self/net/protocols"), of_vsock()));
        let kinds =
            found.map_or_else(|_| Vec::new(), |(table, vsock)| kinds(&table.unwrap_or_default(), vsock));
        let netns = target.inode;
        kinds.into_iter().map(move |(kind, sockets)| UnfollowedSockets { netns, kind, sockets })
    };
    targets.iter().flat_map(of_target).take(MOST_ROWS).collect()
}

/// Sockets of vsock of this thread's network namespace, which the table of protocols does not count. 0 where the kernel
/// does not list them (`CONFIG_VSOCKETS_DIAG`).
fn of_vsock() -> u32 {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    // struct vsock_diag_req: family, and a bit for each state; all other fields are 0.
    let mut request = [0; 24];
    request[0] = AddressFamily::VSOCK.as_raw() as u8;
    request[4..8].fill(0xff);
    let Ok(mut netlink) = Netlink::new(Some(SOCK_DIAG)) else { return 0 };
    netlink.dump(SOCK_DIAG_BY_FAMILY, &request).map_or(0, |sockets| sockets.len() as u32)
}

/// Kinds with their number of sockets, from the table of a namespace's protocols, and those of vsock.
fn kinds(table: &str, vsock: u32) -> Vec<(String, u32)> {
    let mut kinds = BTreeMap::<String, u32>::new();
    for line in table.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(count)) = (words.next(), words.nth(1)) else { continue };
        // The head of the table has no number.
        let Ok(sockets) = count.parse::<u32>() else { continue };
        let name = clean(name).to_lowercase();
        let kind = name.strip_suffix("v6").unwrap_or(&name);
        let kind = match kind {
            "udplite" => "udp-lite",
            "unix-stream" => "unix",
            "af_vsock" => "vsock",
            kind => kind,
        };
        if sockets > 0 && !FOLLOWED.contains(&kind) && !NO_TRAFFIC.contains(&kind) {
            let sum = kinds.entry(kind.to_owned()).or_default();
            *sum = sum.saturating_add(sockets);
        }
    }
    if vsock > 0 {
        kinds.insert("vsock".to_owned(), vsock);
    }
    kinds.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_not_followed_are_counted() {
        let table = "\
protocol  size sockets  memory press maxhdr  slab module     cl co di ac io in de sh ss gs se re sp bi br ha uh gp em
PACKET    1600      2      -1   NI       0   no   kernel      n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n
RAWv6     1344      1      -1   NI       0   yes  kernel      y  y  y  n  y  y  y  n  y  y  y  y  n  y  y  y  y  n  n
RAW       1152      3      -1   NI       0   yes  kernel      y  y  y  n  y  y  y  n  y  y  y  y  n  y  y  y  y  n  n
UNIX-STREAM 1152      7      -1   NI       0   yes  kernel      y  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n
UNIX      1152      1      -1   NI       0   yes  kernel      y  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n
UDPLITEv6 1472      4     312   NI       0   yes  kernel      y  y  y  n  y  y  y  n  y  y  y  y  n  n  n  y  y  y  n
TCPv6     2432      5      17   no     192   yes  kernel      y  y  y  y  y  y  y  y  y  y  y  y  n  y  y  y  y  y  y
XDP       1088      0      -1   NI       0   no   kernel      n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n
NETLINK   1096      9      -1   NI       0   no   kernel      n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n
";
        let of = |kind: &str, sockets| (kind.to_owned(), sockets);
        assert_eq!(kinds(table, 0), [of("packet", 2), of("raw", 4), of("unix", 8)]);
        assert_eq!(kinds("", 3), [of("vsock", 3)]);
        assert!(kinds("", 0).is_empty());
    }
}
