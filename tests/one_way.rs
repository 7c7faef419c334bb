//! Two hosts recorded separately, with payload in one direction only: acknowledgements bound their clocks from the
//! other side.

use crate::common::{self, hosts as wired, two_clocks};

use common::{is_root, run, skipped, stderr, uninterrupted};
use rustix::net;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;
use tempfile::TempDir;
use two_clocks::{clocks_are_sampled, skewed, with_a_clock_of_its_own};
use wired::{Hosts, RecorderChild, SERVER, SERVER_6, in_namespace};

const WRITES: usize = 300;
const WRITE_BYTES: usize = 20_000;

/// Uploads, and reads without a byte of answer.
fn upload(hosts: &Hosts, to: &str) {
    let [client, _, server] = &hosts.names;
    let listener = in_namespace(server, || TcpListener::bind((to, 7000)).expect("a port"));
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let (mut stream, mut bytes) = (listener.accept().expect("a client").0, Vec::new());
            stream.read_to_end(&mut bytes).expect("the upload");
            bytes.len()
        });
        in_namespace(client, || {
            let mut stream = TcpStream::connect((to, 7000)).expect("a connection");
            let bytes = vec![5; WRITE_BYTES];
            for _ in 0..WRITES {
                stream.write_all(&bytes).expect("room");
                std::thread::sleep(Duration::from_millis(2));
            }
            stream.shutdown(Shutdown::Write).expect("a connection");
        });
        assert_eq!(reader.join().expect("it reads"), WRITES * WRITE_BYTES);
    });
}

/// Sends ICMP echoes, each after the answer to the one before.
fn echoes(hosts: &Hosts, count: u16) {
    in_namespace(&hosts.names[0], || {
        let socket = net::socket(net::AddressFamily::INET, net::SocketType::RAW, Some(net::ipproto::ICMP))
            .expect("root may have a raw socket");
        let limit = Some(Duration::from_secs(10));
        net::sockopt::set_socket_timeout(&socket, net::sockopt::Timeout::Recv, limit).expect("a limit");
        let to = SocketAddrV4::new(SERVER.parse().expect("an address"), 0);
        for number in 0..count {
            // Type, code, checksum, identifier, number, 56 bytes.
            let mut echo = [0_u8; 64];
            echo[0] = 8;
            echo[4..6].copy_from_slice(&[0x4d, 0x53]);
            echo[6..8].copy_from_slice(&number.to_be_bytes());
            let sum = echo.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum::<u32>();
            echo[2..4].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
            net::sendto(&socket, &echo, net::SendFlags::empty(), &to).expect("a route");
            let mut answer = [0_u8; 128];
            uninterrupted(|| net::recv(&socket, &mut answer, net::RecvFlags::empty()).map_err(Into::into))
                .expect("an answer");
        }
    });
}

/// Records both ends of some traffic, gives the server a clock of its own, and checks what `align` claims.
fn bounds_hold(hosts: &Hosts, name: &str, least: u64, traffic: impl FnOnce()) {
    let dir = TempDir::new().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (a, b, other) = (path("client"), path("server"), path("skewed"));
    let recorders = [RecorderChild::start(&hosts.names[0], &a), RecorderChild::start(&hosts.names[2], &b)];
    for recording in [&a, &b] {
        clocks_are_sampled(recording, 2);
    }
    traffic();
    for recording in [&a, &b] {
        clocks_are_sampled(recording, 3);
    }
    recorders.into_iter().for_each(RecorderChild::end);
    with_a_clock_of_its_own(&b, &other);
    let output = run(&["align", "--json", &a, &other]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let pair = &table["pairs"][0];
    // Where a busy machine made the bounds much narrower once than at other times, it says that a step is possible.
    let is_only = |hint: &Value| hint["hint"] == "collapse";
    let hints = pair["hints"].as_array().expect("hints");
    let state = if hints.is_empty() { "CERTIFIED" } else { "SUSPECT" };
    assert!(hints.iter().all(is_only) && pair["rejected"] == 0, "{pair}");
    assert_eq!(pair["state"], state, "{pair}");
    assert!(pair["used"].as_u64() >= Some(least), "{pair}");
    let at_ns = pair["at_ns"].as_u64().expect("an instant");
    let truth_ns = (skewed(at_ns) - at_ns) as i64;
    let (difference_ns, half_width_ns) = (
        pair["difference_ns"].as_i64().expect("an estimate"),
        pair["half_width_ns"].as_u64().expect("a bound"),
    );
    assert!(difference_ns.abs_diff(truth_ns) <= half_width_ns, "{pair}, truly {truth_ns}");
    println!(
        "{name}: ±{half_width_ns} ns where half the quickest round trip is {} ns, by {} packets; off by {} ns",
        pair["quickest_round_trip_ns"].as_u64().unwrap_or_default() / 2,
        pair["used"],
        difference_ns - truth_ns
    );
}

#[test]
fn an_upload_without_answers_has_bounds_from_both_sides() {
    if !is_root("two hosts with payload in one direction") {
        return;
    }
    let Some(hosts) = Hosts::new("up") else { return };
    bounds_hold(&hosts, "IPv4", 20, || upload(&hosts, SERVER));
    if !hosts.add_ipv6() {
        return skipped("an upload over IPv6", "this kernel has no IPv6");
    }
    bounds_hold(&hosts, "IPv6", 20, || upload(&hosts, SERVER_6));
}

#[test]
fn echoes_bound_the_clocks() {
    if !is_root("two hosts with echoes only") {
        return;
    }
    let Some(hosts) = Hosts::new("echo") else { return };
    bounds_hold(&hosts, "echoes", 10, || echoes(&hosts, 20));
}
